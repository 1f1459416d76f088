"""What a command touches beyond its own name, and what a command that only reads reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile
from typing import Literal

from agent_cli.policy.programs.find import Follows
from agent_cli.policy.shell.words import Word
from agent_tools.lazy import lazy_pattern
from agent_tools.record import Value

# A name on another machine, as rsync, scp and git have it.
REMOTE = re.compile(r"(?:[\w.-]+@)?[\w.-]+::?(?!\\)|\w+://")
TouchKind = Literal[
    "read", "tree", "write", "into", "remove", "run", "names", "unpack", "listed", "link", "attributes", "maybe",
    "program",
]  # fmt: skip


# Options of interpreters that take no value, so that the next word is the program. In a shell, -e takes none.
_BARE_OPTION = lazy_pattern(r"-[uBEIsSOPqvb]+|--no-[a-z-]+|--enable-source-maps|--trace-[a-z-]+|--|-A|--quiet")
_BARE_OF_SHELLS = lazy_pattern(r"-[euxv]+|--|--norc|--noprofile|--posix")


class FileRead(Value):
    """A path that is read.

    what: "names" (sizes, dates, file names), "content", "tree" (all content below), "tracked" (the content of all files
        below that git tracks), or "listing" if only the names that a glob expands to are shown.
    hidden: which hidden files of a tree are read; "typed" for those with an extension.
    only: name patterns of the files that are read, if restricted.
    without: name patterns of files that are not read.
    closed: name patterns of directories that are not entered.
    follows: links below a tree are followed. enters: those that lead to directories, too.
    split: the names of a tree come as text that is split at blanks.
    """

    path: str
    what: Literal["names", "content", "tree", "tracked", "listing"] = "content"
    hidden: Literal["all", "typed", "none"] = "all"
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    follows: bool = False
    enters: bool = False
    split: bool = False


class Unpacked(Value):
    """How the members of an archive replace files.

    strip: number of leading folders that are dropped from their names. flat: all are.
    only: the members that are named; () for all. exact: False if others may be left out, or get other names.
    """

    strip: int = 0
    flat: bool = False
    only: tuple[Word, ...] = ()
    exact: bool = True


class Touch(Value):
    """One effect of a command beyond its own name.

    kind: "read" a file, "tree" a directory with everything below, "write", "into" a directory under any names,
        "remove", "attributes": mode or owner, "run": it runs, sends or destroys something because of the option or
        subcommand `word`, "names" and "unpack" if it writes files that only a patch or an archive names, "listed" if it
        reads files that a list names, "link" for the target of a link, "maybe" for the value of an unlisted option,
        which may be a file, or "program" for the file that an interpreter runs.
    where: directory of a link, the one unpacked into, or the one that listed names start from; the copy of a "tree".
    follows: whether the program acts on the target of a link: of one that is named, or also of those below. It is only
        needed for "remove" and "tree"; all kinds but "remove" act on the target of a link that is named.
    selective: of "remove", only some of what is below a directory.
    replaces: of "write", what the file held before is lost.
    unpacked: of "unpack", how files are replaced; None if none is.
    starts: of "run", another program may be started, which a deny rule could name.
    opens: of "run", any file may be read.
    """

    kind: TouchKind
    word: Word
    where: Word = Word(".")
    follows: Follows = ""
    selective: bool = False
    replaces: bool = False
    unpacked: Unpacked | None = None
    starts: bool = False
    opens: bool = False

    def link_target(self, folder: str) -> str:
        """Return where a link leads, of a command that runs in `folder`: the link may be in another one."""
        if self.word.text.startswith("/"):
            return self.word.text
        place = os.path.join(folder, self.where.text)
        return os.path.join(place if os.path.isdir(place) else os.path.dirname(place), self.word.text)  # noqa: PTH112, PTH120


def of_interpreter(words: Sequence[Word], operands: Sequence[Word], *, shell: bool = False) -> Iterator[Touch]:
    """Yield the effects of what an interpreter is given: it reads its program, and may do anything with the rest."""
    bare = _BARE_OF_SHELLS if shell else _BARE_OPTION
    rest = list(dropwhile(lambda w: bare.fullmatch(w.text), words))
    program = rest[0] if rest and not rest[0].text.startswith("-") else None
    yield from (Touch("program" if word is program else "maybe", word) for word in operands)

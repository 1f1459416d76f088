"""What one simple command does, worked out once from its words and its program's row.

Every question is asked of the same value: what a rule for it reaches, whether a deny rule could apply, whether it only
reads, what it touches and loses, what it needs that the sandbox lacks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

from agent_cli.policy.programs.arguments import Arguments, GivenOption
from agent_cli.policy.programs.effects import REMOTE, Touch
from agent_cli.policy.programs.find import FindCall
from agent_cli.policy.programs.forms import forms_of
from agent_cli.policy.programs.git import GitWords, git_outside_reason, git_starts_unseen, in_named_folder
from agent_cli.policy.programs.git_reads import GitNames, Objects, git_call, may_print, printed
from agent_cli.policy.programs.parsing import parse_words
from agent_cli.policy.programs.reads import BUILTINS, Reads, reads_of
from agent_cli.policy.programs.row import INSTALLS, PROCESSES, Row
from agent_cli.policy.programs.table import find_row, program_name, row_of
from agent_cli.policy.shell.words import SimpleCommand, Word
from agent_tools.fs.workspace import Workspace
from agent_tools.lazy import lazy_pattern

# Words that after yarn and pnpm are no program, as they are after npx. "r" runs one.
_SUBCOMMANDS = frozenset(
    "add audit build cache config create deploy fetch import info init install i link list ls outdated pack "
    "patch prune publish rebuild remove rm run set store test t unlink un update up upgrade version view why workspace "
    "workspaces".split()
)
_URL = lazy_pattern(r"https?://(?:[^/@\s]*@)?([^/:\s]+)", re.I)
_REMOTE = lazy_pattern(r"(?:[\w.-]+@)?[\w.-]+:(?!//)[^\\]|rsync://|ssh://")
_TRANSFERS = frozenset("curl wget http https xh".split())


@lru_cache(maxsize=1024)
def invocation(part: SimpleCommand) -> Invocation:
    """Return the invocation of a simple command."""
    return Invocation(part)


class Invocation:
    """One command of a line.

    words: its words, or those of the program that `npx`, `uv run`, `python -m` and the like start.
    runner: the words of such a starter; () without one.
    """

    def __init__(self, part: SimpleCommand) -> None:
        self.part = part
        self.words: tuple[Word, ...] = ()
        self.runner: tuple[Word, ...] = ()
        if part.words and not part.words[0].why:
            self.words = started_command(part.words)
            self.runner = part.words[: len(part.words) - len(self.words)]

    @cached_property
    def name(self) -> str:
        """The usual name of the program; "" if it is not known."""
        return program_name(self.words[0].text) if self.words else ""

    @cached_property
    def row(self) -> Row | None:
        """The row of the program; None if nothing is known of it."""
        return find_row(self.words[0].text) if self.words else None

    @property
    def is_known(self) -> bool:
        """True if it is known what the program touches."""
        return self.row is not None and not self.row.partly

    @cached_property
    def _own(self) -> object:
        """Its words in a form of their own; None if they have the usual one."""
        return self.row.syntax(self.words[1:]) if self.row is not None and self.row.syntax is not None else None

    @cached_property
    def git(self) -> GitWords | None:
        """The words of git; None for any other program."""
        return self._own if isinstance(self._own, GitWords) else None

    @cached_property
    def find(self) -> FindCall | None:
        """What `find` selects and does; None for any other program."""
        return self._own if isinstance(self._own, FindCall) else None

    @cached_property
    def is_usual(self) -> bool:
        """True if the program is called by its usual name, and not by another program or its path."""
        return self.part.program == self.name

    @property
    def usual_git(self) -> GitWords | None:
        """The words of git under its usual name, of which it is known what it shows; None for any other program."""
        return self.git if self.is_usual else None

    @cached_property
    def arguments(self) -> Arguments:
        """The arguments, parsed by the row."""
        return parse_words(self.row or row_of(""), self.words[1:])

    @cached_property
    def touches(self) -> tuple[Touch, ...]:
        """What it touches; nothing for an unknown program."""
        if not self.words:
            return ()
        found = [*self._of_runner(), *self._of_program()]
        if self._follows_links:
            found = [touch.replace(follows="below") if touch.kind == "tree" else touch for touch in found]
        return tuple(_from_input(touch, self.part) for touch in found)

    @property
    def _follows_links(self) -> bool:
        """Whether it follows the links below a directory that it reads."""
        how, *options = self.row.links.split() if self.row is not None and self.row.links else [""]
        if how in ("", "*"):
            return how == "*"
        return not self.arguments.has(*options) if how == "!" else self.arguments.has(how, *options)

    def _of_runner(self) -> Iterator[Touch]:
        """Yield effects of the options of `npx`, `uv run` and the like.

        The last may have the next word as its value. That word is then taken for the program,
            which is what it is after most options.
        """
        if len(self.runner) > 1:
            row = row_of(self.runner[0].text)
            yield from option_effects(parse_words(row, [*self.runner[1:], self.words[0]]).options, row)

    def _of_program(self) -> Iterator[Touch]:
        row = self.row
        if row is None:
            return
        yield from self._unknown_verb(row, row.subcommands)
        if not row.own:
            yield from option_effects(self.arguments.options, row)
        if row.effects is None:
            yield from _operand_effects(row, self.arguments)
        else:
            yield from row.effects(self.arguments if row.syntax is None else self._own)

    def _unknown_verb(self, row: Row, left: int) -> Iterator[Touch]:
        """Yield a glob that stands where a program expects a verb: a file's name could be any of its verbs."""
        for word in self.words[1:]:
            if not left:
                return
            if word.pattern and (not word.text.startswith("-") or self.name in ("tar", "bsdtar")):
                yield Touch("run", word)
                return
            if not word.text.startswith("-"):
                left = 0 if row.nested and word.text not in row.nested.split() else left - 1

    @cached_property
    def reads(self) -> Reads:
        """What it reads if it only reads, judged by its known words; otherwise why it does more."""
        return reads_of(self.part.program, [word for word in self.part.words[1:] if not word.why])

    @property
    def why_not_reading(self) -> str:
        """Why it does more than read, with the name of its program; "" if it only reads."""
        why = self.reads if isinstance(self.reads, str) else ""
        alone = not why or self.part.program in BUILTINS or self.usual_git is not None
        return why if alone else f"{self.part.program} ({why})"

    @cached_property
    def unnamed_reads(self) -> tuple[GitNames | Objects, ...] | None:
        """The questions for the files that it prints although it does not name them; None if it may print any."""
        if self.git is None:
            return ()
        call = git_call(tuple(word.text for word in self.words[1:] if not word.why))
        if isinstance(call, str):
            return None if may_print(self.git) else ()
        return tuple(printed(call))

    @cached_property
    def placed(self) -> Invocation:
        """The same command, with the folder that its options name as its directory; itself if a link is on the way."""
        part = self.part if self.usual_git is None else in_named_folder(self.part)
        return self if part is self.part else invocation(part)

    @property
    def runs_git(self) -> bool:
        """True if it is, or runs, git in the repository."""
        return self.is_usual and self.row is not None and self.row.repository

    @property
    def takes_whole(self) -> bool:
        """True if what it changes may be a directory with everything below it."""
        rows = (self.row, find_row(self.runner[0].text) if self.runner else None)
        return any(row is not None and row.whole for row in rows)

    @property
    def renames_links(self) -> bool:
        """True if a link that it is given gets another name, and keeps its target."""
        return self.row is not None and self.row.renames and self.row.operands == "move"

    @cached_property
    def forms(self) -> tuple[tuple[str, ...], ...]:
        """The forms in which a deny or ask rule may name it."""
        return tuple(forms_of(self.part))

    @property
    def only_reads(self) -> bool:
        """True if it only reads, judging by its words."""
        return not isinstance(self.reads, str)

    @property
    def network(self) -> Literal["", "maybe", "yes"]:
        """Whether it uses the network: "yes" if it cannot work without one, "maybe" if its downloads may be cached."""
        part = self.part
        if any(r.kind == "network" for r in part.redirects):
            return "yes"
        if not part.words:
            return ""
        name = os.path.basename(part.words[0].text)
        if name in ("npx", "pnpx", "bunx") and _is_local(part):
            return ""
        row = row_of(name)
        if name in ("python", "python3") and part.texts[1:3] == ("-m", "pip"):
            return "yes"
        verbs = self._verbs
        if self._stays(row):
            return ""
        if row.network == "remote":
            elsewhere = any(word.why or REMOTE.match(word.text) for word in self.arguments.operands)
            return "yes" if elsewhere or self.arguments.has("--daemon") else ""
        # Without a subcommand yarn installs.
        installs = bool((verbs | _options(part)) & set(row.network.split())) or (name == "yarn" and not verbs)
        return "yes" if "*" in row.network or installs else "maybe" if verbs & set(row.builds.split()) else ""

    @property
    def needs_network(self) -> bool:
        """True if it cannot work without the network: `curl`, `git push`, `npm install`."""
        return bool(self.part.words) and self.network == "yes"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that it would contact; () if they are unknown."""
        name = os.path.basename(self.part.words[0].text)
        if name in ("python", "python3"):
            name = "pip"
        if name in _TRANSFERS:
            found = [m[1].lower() for word in self.part.texts[1:] if (m := _URL.match(word))]
            plain = [w for w in self.part.texts[1:] if not w.startswith("-")]
            return tuple(found) if found and len(found) == len(plain) else ()
        return tuple(row_of(name).hosts.split())

    def outside_reason(self, workspace: Workspace, path: str) -> str:
        """Return why it must run outside the sandbox; "" if it need not. path: PATH of commands."""
        return self._needs_of(workspace.root) or _reason_by_place(self.part, workspace, path)

    def _needs_of(self, root: Path) -> str:
        """Return what the program needs, with these words, that the sandbox lacks."""
        if self.git is not None and not self.runner:
            return git_outside_reason(self.git, root)
        name, words = os.path.basename(self.part.program), self.part.texts[1:]
        row, verbs = row_of(name), self._verbs
        if row.outside:
            return "" if self._stays(row) else row.outside
        if name == "rsync" and any(_REMOTE.match(word) for word in words):
            return next(iter(row_of("ssh").outside.splitlines()), "")
        verbs |= _options(self.part)
        return next((why for why, names in row.outside_verbs.items() if verbs & set(names.split())), "")

    @property
    def _verbs(self) -> set[str]:
        """The subcommand as rows name it: by its first word, and by two with a colon between them."""
        if self.git is not None and not self.runner:
            return {self.git.subcommand}
        plain = [word for word in self.part.texts[1:] if not word.startswith("-")]
        return {":".join(plain[:n]) for n in (1, 2) if plain}

    def _stays(self, row: Row) -> bool:
        """Return True for a subcommand, or an option in its place, that needs neither a network nor a place outside."""
        return bool((self._verbs | set(self.part.texts[1:2])) & set(row.local.split()))

    def starts_unseen(self) -> Iterator[tuple[str, str]]:
        """Yield descriptions of what may start another program, each with the word that an allow rule would name."""
        if self.git is not None:
            yield from git_starts_unseen(self.git)
            return
        for touch in self.touches:
            if touch.kind == "run" and touch.starts:
                name = program_name(self.part.words[0].text)
                yield f"{name} with {touch.word.text}, which may run other commands,", touch.word.text


def finder_of(part: SimpleCommand) -> SimpleCommand | None:
    """Return the command that runs a part for what it finds, as `find -exec` does; None if none does."""
    layer = part.layers[-1] if part.layers else None
    outer = part.replace(words=layer.words, layers=part.layers[:-1], why="") if layer is not None else part
    return outer if outer is not part and invocation(outer).find is not None else None


def started_command(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the command behind `npx`, `uv run`, `python -m` and the like; any other command unchanged."""
    runner = os.path.basename(words[0].text)
    verbs = row_of(runner).starts_after.split()
    if not verbs:
        return words
    first = words[1].text if len(words) > 1 else ""
    size = 2 if first in verbs else 1 if {"*", "?", f"={first}"} & set(verbs) else 0
    rest = words[size:]
    # Skip options of the runner that have no value of their own.
    while size and rest and rest[0].text.startswith("-"):
        rest = rest[1:]
    if size == 1 and "?" in verbs and rest:
        if rest[0].text in verbs:
            rest = rest[1:]
        elif rest[0].text in _SUBCOMMANDS:
            return words
    return rest if size and rest and not (rest[0].why or rest[0].pattern) else words


def offered_verbs(program: str) -> list[tuple[str, ...]]:
    """Return the subcommands of a program for which a rule with any arguments is offered; () for the program itself."""
    offers = row_of(program).offers
    return [() if verb.strip() == "*" else tuple(verb.split()) for verb in offers.split(",")] if offers else []


def option_effects(options: Sequence[GivenOption], row: Row) -> Iterator[Touch]:
    """Yield the effects of options alone."""
    for option in options:
        if option.role in ("run", "act", "steer"):
            if option.role != "steer" or not row.reads_only:
                starts = option.role == "run" and option.name in row.starts.split()
                yield Touch("run", Word(option.name), starts=starts)
            # What is run is often read from a file, which rules may cover.
            yield from [Touch("read", option.value)] if option.role != "act" and option.value.text else []
        elif option.role == "write":
            yield Touch("write", option.value, replaces=row.replaces)
        elif option.role in ("into", "read", "maybe"):
            yield Touch(option.role, option.value)


def _operand_effects(row: Row, found: Arguments) -> Iterator[Touch]:
    """Yield the effects of operands whose meaning the row says."""
    deep = "*" in row.tree or found.has(*row.tree.split())
    read: Literal["tree", "read"] = "tree" if deep else "read"
    operands = found.operands
    match row.operands:
        case "first":
            yield from (Touch("write" if n == 0 else read, w, replaces=n == 0) for n, w in enumerate(operands))
        case "second":
            yield from (Touch("write" if n == 1 else read, w, replaces=n == 1) for n, w in enumerate(operands))
        case "rewrite":
            for word in operands:
                yield Touch("read", word)
                yield Touch("write", word)
        case "write":
            yield from (Touch("write", w) for w in operands)
        case "remove":
            yield from (Touch("remove", w, follows=row.follows) for w in operands)
        case "content" | "read":
            yield from (Touch(read, w) for w in operands)
        case _ if row.operands == "maybe" or row.partly:
            yield from (Touch("maybe", w) for w in operands)


def _from_input(touch: Touch, part: SimpleCommand) -> Touch:
    """Resolve a patch or archive read from a redirection to that file."""
    files = [r for r in part.redirects if r.kind == "read"]
    if touch.kind not in ("names", "unpack") or touch.word.text != "-" or len(files) != 1 or files[0].why:
        return touch
    return touch.replace(word=Word(files[0].target))


def _options(part: SimpleCommand) -> set[str]:
    return {word for word in part.texts[1:] if word.startswith("-")}


def _is_local(part: SimpleCommand) -> bool:
    """Return True if npx need not download its program: an option says so, or the project has it."""
    words = part.texts[1:]
    if any(w in ("--no-install", "--no", "--offline") for w in words):
        return True
    program = next((w for w in words if not w.startswith("-")), "")
    return bool(program and part.cwds) and all(
        os.path.lexists(os.path.join(cwd, "node_modules/.bin", program)) for cwd in part.cwds or ()
    )


def _reason_by_place(part: SimpleCommand, workspace: Workspace, path: str) -> str:
    """Return why a command needs to run outside because of whom it is about, or where it installs."""
    name, words = os.path.basename(part.program), part.texts[1:]
    if name == "kill" and any(w.isdigit() and w != "0" for w in words if not w.startswith("-")):
        return PROCESSES
    if name in ("poetry", "pip", "pip3") or words[:2] == ("-m", "pip"):
        if name == "poetry":
            installs = words[:1] in (("install",), ("add",), ("update",), ("sync",))
            here = (workspace.root / ".venv").exists()
        else:
            installs = "install" in words and not any(w in ("-t", "--target", "--prefix", "--root") for w in words)
            found = _locate_program(part.words[0].text, part, path)
            here = any(Path(found).is_relative_to(root) for root in workspace.roots)
        if installs and not here:
            return INSTALLS
    return ""


def _locate_program(word: str, part: SimpleCommand, path: str) -> str:
    """Return the file that a program name means, without following a final link: a venv's link belongs to the venv."""
    if "/" in word:
        return os.path.normpath(os.path.join((part.cwds or ("/",))[0], word))
    return next((f"{folder}/{word}" for folder in path.split(os.pathsep) if os.access(f"{folder}/{word}", os.X_OK)), "")

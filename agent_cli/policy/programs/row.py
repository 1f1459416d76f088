"""The form in which a program is described: one row says all that the gate knows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from agent_cli.policy.programs.arguments import Arguments, Role
    from agent_cli.policy.programs.effects import Touch
    from agent_cli.policy.shell.words import Word

# What a program does with its operands. Of one that only reads: it shows their content, or names, sizes and dates;
# they are text, there must be none, or the first is a pattern or script and the others are shown.
# Of others: read, written, removed. copy: the last is written, the others are read. move: they are removed, too.
# first: the first is written, the others are read. second: the second is written, the first is read. rewrite:
# each is read and written. "": no file, as far as is known.
Operands = Literal[
    "content", "names", "text", "none", "pattern",
    "", "read", "write", "remove", "copy", "move", "first", "second", "rewrite", "maybe",
]  # fmt: skip
_READING = ("content", "names", "text", "none", "pattern")


class Row:
    """What one program does. Options are given by their names with dashes, separated by blanks.

    flags: options without a value that change nothing else.
    value: options with a value that is no file; `--name?` and `-n?` if the value is optional,
        and then in the same word.
    read: the value is a file that is read. steer: the same, and it says what else is done.
    write, into: the value is a file, or directory, that is written.
    run: the value is code, or decides what is run or sent elsewhere. starts: it may be any program, or start one.
    act: the option alone exceeds what a rule for the program allows.
    other: the value is no file, but it changes what the program does.
    chdir: the value is the directory that a wrapped command runs in.
    shows: what the operands of a program are that only reads with the options listed above; by default `operands`.
    check: returns why arguments do more than read; "" if they do not.
    counted: one operand more changes what it does, so that a glob, which may expand to several, does too.
    here: it reads the working directory without operands.
    tree: with these options, or always for "*", directories are read recursively.
    numbers: -5 is an option. apart: values of one-letter options are in the next word.
    strict: a word that looks like an option is no value.
    single: options of one letter are not joined.
    most: after this many operands, options are no longer those of this program.
    follows: a link that is removed is followed first.
    links: options with which links below a directory are followed; "*" if they always are, "! -y" if not with `-y`.
    partly: which files the program itself opens is not known, only where its options lead.
    replaces: all the same, a file of `write` is known to lose what it held.
    others: the role of unlisted options; by default, their values may be files.
    prepare: returns its words in the usual form of options.
    syntax: reads its words if they have a form of their own; `effects` is given what it returns.
    effects: yields what it touches if the meaning of its operands does not say it. own: that of its options, too.
    network: "*" if it always needs a network, "remote" if for an operand on another machine, or the subcommands that
        do, `pip:install` for one of two words.
        builds: those that do unless all is cached.
    hosts: those that it contacts unless told otherwise.
    outside: why it has to run outside the sandbox. outside_verbs: subcommands and options for which, by the reason.
    local: subcommands for which neither a network nor a place outside is needed.
    verbs: subcommands that only ask, with the row for the words behind each. asks: returns why such words do more.
    versions: words that make it print its version and do nothing else.
    wraps: number of its own operands before the command that it runs; None if it runs none, or not so.
    gated: it changes what that command can do, or what it is given.
    hides: it runs other commands in ways that are not followed.
    starts_after: subcommands behind which there is the name of a program; "*" if that is its first word, "?" if it is
        unless that is a subcommand, and "=pip" for a program with that name.
    interprets: its operands or options are programs, so that a prefix rule would allow anything.
    subcommands: number of its first words that say what it does. nested: only after these the second one does, too.
    offers: subcommands, with commas between them, for which a rule with any arguments is offered; "*" for all: they run
        the project's own code, or take arguments that change with every call, none of which names a program or output.
    repository: it runs git in the repository, so that git's configuration says what else it starts.
    whole: what it changes may be a directory, with everything below it.
    empty_only: it removes no directory that holds something, and no file.
    renames: a link where it writes is replaced, not followed. empties: what it writes to was there before for certain.
    """

    def __init__(
        self, operands: Operands = "", *, flags: str = "", value: str = "", read: str = "", steer: str = "",
        write: str = "", into: str = "", run: str = "", starts: str = "", act: str = "", chdir: str = "",
        other: str = "", single: bool = False, shows: Operands = "", check: Callable[[Arguments], str] | None = None,
        counted: bool = False, here: bool = False, tree: str = "", numbers: bool = False, apart: bool = False,
        strict: bool = False, most: int = 0, follows: Literal["", "named"] = "", links: str = "",
        partly: bool = False, replaces: bool = False,
        others: Role | None = None,
        prepare: Callable[[Sequence[Word]], list[Word]] | None = None, own: bool = False,
        syntax: Callable[[Sequence[Word]], Any] | None = None,
        effects: Callable[[Any], Iterator[Touch]] | None = None,
        network: str = "", builds: str = "", hosts: str = "", outside: str = "", local: str = "",
        outside_verbs: Mapping[str, str] | None = None, verbs: Mapping[str, Row] | None = None,
        asks: Callable[[str, Arguments], str] | None = None, versions: str = "", wraps: int | None = None,
        gated: bool = False, hides: bool = False, starts_after: str = "", interprets: bool = False,
        subcommands: int = 0, nested: str = "", offers: str = "", renames: bool = False, empties: bool = False,
        empty_only: bool = False, repository: bool = False, whole: bool = False,
    ) -> None:  # fmt: skip
        # Nothing is split here: there are hundreds of rows, of which a command needs one or two.
        self.operands = operands
        self.shows: Operands = shows or (operands if operands in _READING else "")
        self.names: list[tuple[Role, str]] = [
            ("flag", flags), ("value", value), ("read", read), ("steer", steer), ("write", write), ("into", into),
            ("other", other), ("act", act), ("run", run), ("run", starts), ("chdir", chdir),
        ]  # fmt: skip
        self.starts = starts
        self.check, self.counted, self.here = check, counted, here
        self.single, self.numbers, self.apart, self.strict, self.most = single, numbers, apart, strict, most
        self.follows: Literal["", "named"] = follows
        self.links = links
        self.partly = partly
        self.replaces = replaces or not partly
        self.unlisted: Role = others or ("run" if flags and not self.shows and wraps is None else "maybe")
        self.prepare, self.syntax, self.effects, self.own = prepare, syntax, effects, own
        self.tree, self.network, self.builds, self.hosts, self.local = tree, network, builds, hosts, local
        self.versions, self.starts_after, self.offers = versions, starts_after, offers
        self.outside, self.outside_verbs = outside, outside_verbs or {}
        self.verbs, self.asks = verbs or {}, asks
        self.wraps, self.gated, self.hides, self.interprets = wraps, gated, hides, interprets
        self.nested, self.repository, self.whole = nested, repository, whole
        self.subcommands, self.renames, self.empties, self.empty_only = subcommands, renames, empties, empty_only
        self.joined: tuple[str, ...] = ()

    @cached_property
    def _listed(self) -> list[tuple[Role, str]]:
        """The options by role, with those of `reading_row` in full."""
        if not self.joined:
            return self.names
        letters, valued, optional, long, long_valued = self.joined
        flags = " ".join([f"-{letter}" for letter in letters] + [f"--{name}" for name in long.split()])
        value = " ".join([f"-{letter}" for letter in valued] + [f"-{letter}?" for letter in optional])
        value += "".join([f" --{name}" for name in long_valued.split()])
        return [("flag", flags), ("value", value), *self.names]

    @cached_property
    def roles(self) -> dict[str, Role]:
        """The role of each option by its name."""
        return {name.rstrip("?"): role for role, names in self._listed for name in names.split()}

    @cached_property
    def optional(self) -> frozenset[str]:
        """Options whose value, if they have one, is in the same word."""
        return frozenset(name[:-1] for _, names in self._listed for name in names.split() if name.endswith("?"))

    @cached_property
    def long(self) -> tuple[str, ...]:
        """Long option names, the most dangerous first."""
        order = ("run", "act", "write", "into", "chdir", "steer", "read", "other", "value", "flag")
        return tuple(sorted((n for n in self.roles if n.startswith("--")), key=lambda n: order.index(self.roles[n])))

    @property
    def reads_only(self) -> bool:
        """True if it only reads as long as all options are listed as harmless."""
        return bool(self.shows)


def expand_rows(rows: Mapping[str, Row]) -> dict[str, Row]:
    """Return rows by the names of their programs; a key may hold several names."""
    return {name: row for names, row in rows.items() for name in names.split()}


def reading_row(
    shows: Operands = "content", letters: str = "", valued: str = "", long: str = "", long_valued: str = "",
    *, optional: str = "", **more: object,
) -> Row:  # fmt: skip
    """Return the row of a program that only reads.

    letters, valued: its options of one letter, without and with a value. optional: those whose value may be left out.
    long, long_valued: its long options, without the dashes; `name?` if the value may be left out.
    """
    row = Row(shows, **more)  # type: ignore[arg-type]
    row.joined = (letters, valued, optional, long, long_valued)
    return row


KEYS = "needs keys or a login, which the sandbox hides"
SERVICE = "talks to a service of this machine, which the sandbox blocks"
RIGHTS = "needs rights that the sandbox takes away"
INSTALLS = "installs outside the workspace"
CONFIG = "changes git's configuration, which the sandbox protects"
HOOKS = "installs git hooks, which the sandbox protects"
PROCESSES = "is about processes outside, which the sandbox hides"

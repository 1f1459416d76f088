"""Evaluate words of the syntax tree: their value after quote removal, or why it is unknown.

Only certain values are computed: quotes, escapes, `~`, and variables with a literal value assigned before (`Scope`).
Any other expansion makes the word unknown; commands inside it are still found by the walker.

Also the values of an analysis: simple commands with their words, redirections and directories.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from agent_cli.policy.git_inspection import IDLE_EDITORS
from agent_tools.lazy import lazy_pattern
from agent_tools.record import Value

# Variables whose values change how later words are read or which program a name means.
MEANINGFUL = lazy_pattern(
    r"IFS|PATH|HOME|PWD|OLDPWD|CDPATH|BASH.*|ENV|SHELLOPTS|GLOBIGNORE|POSIXLY_CORRECT|LC_.*|LANG|PS[0-4]|PROMPT_COMMAND|"
    r"EXECIGNORE|FIGNORE|FUNCNEST|LD_.*|DYLD_.*|TIMEFORMAT|TMPDIR|histchars|auto_resume"
)
# Variables to which bash gives its own values, whatever is assigned.
BASH_VARIABLES = lazy_pattern(
    r"_|RANDOM|SRANDOM|SECONDS|LINENO|EPOCH\w*|PPID|E?UID|GROUPS|DIRSTACK|FUNCNAME|PIPESTATUS|REPLY|OPT(?:ARG|IND|ERR)|"
    r"COMP_\w+|COMPREPLY|MAPFILE|COPROC(?:_PID)?|HIST\w+|HOST(?:NAME|TYPE|FILE)|OSTYPE|MACHTYPE|SHLVL|READLINE_\w+|"
    r"CHILD_MAX|COLUMNS|LINES|TMOUT|MAIL\w*|IGNOREEOF|INPUTRC|INSIDE_EMACS|FCEDIT"
)
# Variables that change how text looks, not what runs: a rule about a command need not name them.
_PLAIN_VARIABLES = lazy_pattern(
    r"LC_[A-Z]+|LANG|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR(?:_FORCE)?|COLUMNS|LINES|CI"
    # Variables that control builds and tests without naming a program.
    r"|NODE_ENV|RUST_BACKTRACE|RUST_LOG|GOOS|GOARCH|CGO_ENABLED|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE"
)
_EDITOR_VARIABLES = lazy_pattern(r"(?:GIT_|GIT_SEQUENCE_|HG|SVN_)?EDITOR|VISUAL")
_PAGER_VARIABLES = lazy_pattern(r"(?:GIT_|MAN|SYSTEMD_)?PAGER")
_MAX_DIRECTORIES = 8
# Arguments of `set` that only make the shell stricter.
STRICTER = lazy_pattern(r"[-+][eux]*o?|pipefail|errexit|nounset|xtrace")
TESTS_OF_FILES = frozenset("-e -f -d -r -w -x -s -L -h -p -S -b -c -g -u -k -O -G -N".split())


def is_plain_assignment(assignment: str) -> bool:
    """Return True if NAME=VALUE before a command changes only how text looks, or names an editor that does nothing."""
    name, _, value = assignment.partition("=")
    if _EDITOR_VARIABLES.fullmatch(name):
        return value in IDLE_EDITORS
    if _PAGER_VARIABLES.fullmatch(name):
        return value in ("", "cat")
    return _PLAIN_VARIABLES.fullmatch(name) is not None


# The conversion that assigns how much was written so far: %n, with flags, a width and so on.
_ASSIGNS = lazy_pattern(r"%[^%A-Za-z(]*[hlLjztqI]*n")


def sets_variable(arguments: Sequence[str]) -> bool:
    """Return True if the format in the arguments of the builtin `printf` assigns to variables."""
    rest = arguments[1:] if arguments[:1] in (["--"], ("--",)) else arguments
    return bool(rest) and _ASSIGNS.search(rest[0].replace("%%", "")) is not None


class Scope:
    """Follows assignments and directory changes through a command line and forgets what is uncertain.

    variables: known values; None for an unknown value.
    possible: of unknown values, those of which some texts are known that they may be.
    globs: of unknown values, those that are a name matching a glob, as in a loop over files.
    cwds: directories where the next command may run; None if unknown.
    failed: directories where it runs if the preceding `cd` failed.
    lost: why nothing of this is known any more.
    renamed: why the name of a program may mean another one.
    """

    def __init__(self, variables: Mapping[str, str | None], cwds: tuple[str, ...] | None) -> None:
        self.variables = dict(variables)
        self.possible: dict[str, tuple[str, ...]] = {}
        self.globs: dict[str, str] = {}
        self.cwds = cwds
        self.failed: tuple[str, ...] | None = ()
        self.lost = ""
        self.renamed = ""

    def copy(self) -> Scope:
        other = Scope(self.variables, self.cwds)
        other.globs, other.possible = dict(self.globs), dict(self.possible)
        other.failed, other.lost, other.renamed = self.failed, self.lost, self.renamed
        return other

    def possible_texts(self, name: str) -> tuple[str, ...] | None:
        """Return the texts that a variable may have; None for one that nothing here has assigned."""
        if name not in self.variables:
            return None
        value = self.variables[name]
        return (value,) if value is not None else self.possible.get(name, ())

    def assign(self, name: str, value: str | None, possible: tuple[str, ...] = ()) -> None:
        """Assign a value to a variable; None for an unknown one, of which `possible` are texts that it may have."""
        self.globs.pop(name, None)
        self.possible[name] = possible
        if MEANINGFUL.fullmatch(name):
            self.renamed = self.renamed or f"a change of {name}"
            self.lose(self.renamed)
        else:
            # By now a name may be bound to another one.
            self.variables[name] = None if self.lost or BASH_VARIABLES.fullmatch(name) else value

    def lose(self, why: str) -> None:
        """Give up: from here on neither variables nor the directory are known."""
        self.variables, self.cwds, self.lost = {}, None, self.lost or why
        self.globs = {}

    def assign_match(self, name: str, pattern: str) -> None:
        """Assign to a variable one of the names that match a glob."""
        self.assign(name, None)
        if not self.lost and not BASH_VARIABLES.fullmatch(name):
            self.globs[name] = pattern

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self.variables[name] = None
            self.globs.pop(name, None)
            self.possible.pop(name, None)

    def change_directory(self, target: str | None) -> None:
        """Apply `cd target`; None for an unknown target."""
        if target is None or self.cwds is None:
            self.cwds, self.failed = None, None
            return
        self.failed = self.cwds
        self.cwds = tuple(dict.fromkeys(os.path.normpath(os.path.join(c, target)) for c in self.cwds))

    def settle(self) -> None:
        """Account for a preceding command that may have failed: its `cd` may or may not have happened."""
        self.cwds = _union(self.cwds, self.failed)
        self.failed = ()

    def join(self, other: Scope) -> None:
        """Merge with the end of a branch that may or may not have run."""
        for name in (*self.variables, *other.variables):
            texts = (*(self.possible_texts(name) or ()), *(other.possible_texts(name) or ()))
            self.possible[name] = tuple(dict.fromkeys(texts))
        self.variables = {n: v for n, v in self.variables.items() if other.variables.get(n) == v} | {
            n: None for n, v in other.variables.items() if self.variables.get(n) != v
        }
        self.globs = {n: g for n, g in self.globs.items() if other.globs.get(n) == g}
        self.cwds = _union(_union(self.cwds, other.cwds), _union(self.failed, other.failed))
        self.failed = ()
        self.lost, self.renamed = self.lost or other.lost, self.renamed or other.renamed
        if self.lost:
            self.variables, self.globs, self.cwds = {}, {}, None


def _union(a: tuple[str, ...] | None, b: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if a is None or b is None:
        return None
    both = tuple(dict.fromkeys((*a, *b)))
    return both if len(both) <= _MAX_DIRECTORIES else None


class Word(Value):
    """One word after quote removal.

    text: its value; the source text if the value is unknown.
    why: what makes the value unknown.
    pattern: it has an unquoted * ? or [, so file names may replace it.
    number: it contains an unknown number, represented as 0.
    possible: texts that an unknown word may have; see `possible`.
    """

    text: str
    why: str = ""
    pattern: bool = False
    number: bool = False
    possible: tuple[str, ...] = ()


class Redirect(Value):
    """A redirection to or from a file. target: after quote removal. why: what makes it unknown."""

    kind: Literal["read", "write", "append", "network"]
    target: str
    why: str = ""


class Wrapper(Value):
    """A command that runs another: `timeout 5 make` around `make`.

    kind: "clear" adds nothing by itself (timeout, env, nohup). "script" is shell code that was analysed (bash -c,
        eval). "gated" changes the abilities or input of the inner command and needs its own rule (sudo, xargs,
        find -exec).
    inner: index in `words` where the inner command begins; the number of words for a script.
    """

    words: tuple[Word, ...]
    kind: Literal["clear", "script", "gated"]
    inner: int


def texts_of(words: Iterable[Word]) -> tuple[str, ...]:
    """Return the texts of words."""
    return tuple(w.text for w in words)


class SimpleCommand(Value):
    """One simple command of a command line.

    assigns: variables set before it, NAME=value.
    why: what makes the command unknown, apart from its words.
    cwds: directories it may run in; None if unknown.
    layers: commands that run it, outermost first.
    hides: something that may run unseen commands; a rule can allow it, but it cannot be compared with deny rules.
    piped: a number that is not 0 if its input is the output of the part before it; each pipe has another.
    """

    words: tuple[Word, ...]
    assigns: tuple[Word, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    cwds: tuple[str, ...] | None = ()
    layers: tuple[Wrapper, ...] = ()
    why: str = ""
    hides: str = ""
    piped: int = 0

    @property
    def program(self) -> str:
        """Name of the program, without the system's bin directory; "" for none."""
        return re.sub(r"^(?:/usr)?/bin/(?=[^/]+$)", "", self.words[0].text) if self.words else ""

    @property
    def texts(self) -> tuple[str, ...]:
        return texts_of(self.words)

    @property
    def text(self) -> str:
        """Text of the command, with its wrappers."""
        words = self.layers[0].words if self.layers else (*self.assigns, *self.words)
        return " ".join(w.text for w in words)

    @property
    def unknown(self) -> str:
        """Why the effect of the command is unknown; "" if it is known."""
        words = (*self.words, *self.assigns) if self.words else ()
        return self.why or next((w.why for w in words if w.why), "")


class Analysis(Value):
    """A whole command line. unclear: why it could not be parsed; `parts` is then what could be found."""

    command: str
    parts: tuple[SimpleCommand, ...]
    unclear: str = ""

    @property
    def unknown(self) -> str:
        """Why it is uncertain what the command line runs; "" if it is certain."""
        return self.unclear or next((why for p in self.parts if (why := p.unknown or p.hides)), "")


Node = dict[str, Any]
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "r": "\r"}
# Unquoted, a value with one of these becomes several words or file names.
_SPLITTING = lazy_pattern(r"[\s*?\[\]~{}\\]")
_PLAIN_END = lazy_pattern(r"[A-Za-z]\w*")
_PLAIN_NUMBER = lazy_pattern(r"0|[1-9]\d{0,8}")
# As in C: division truncates towards zero.
_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "%": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}
# Parameters whose value is always a number; $! may also be empty.
_NUMBERS = frozenset("?#$")
_MAX_INTEGER = 1 << 53
_PARAMETER_KEYS = frozenset(("Type", "Pos", "End", "Dollar", "Rbrace", "Short", "Param"))


class UnknownValueError(Exception):
    """The value of a word is unknown; the message names the cause."""


def read_word(node: Node, variables: Mapping[str, str | None], source: bytes, *, assigned: bool = False) -> Word:
    """Return the word for a node of the tree. assigned: it is the value of an assignment."""
    parts: list[Node] = node.get("Parts") or []
    if not assigned and [(p["Type"], bool(p.get("Stmts"))) for p in parts] == [("ProcSubst", True)]:
        # Without a command in it, bash drops it and joins the text around it.
        return Word("/dev/fd/63")
    try:
        _check_braces(parts)
        text = ""
        for number, part in enumerate(parts):
            if part["Type"] == "Lit":
                home = _home(part["Value"], len(parts) == 1, variables) if number == 0 else ""
                text += home + _unquoted(part["Value"][bool(home) :])
            else:
                text += _part(part, variables, split=not assigned)
        plain = _literals(parts)
        if "~" in plain[1:] and (assigned or re.match(r"[A-Za-z_]\w*\+?=", text)):
            raise UnknownValueError("a ~ inside a value")
    except UnknownValueError as unknown:
        return Word(node_source(node, source), str(unknown))
    pattern = bool(re.search(r"[*?]", plain)) or 0 <= plain.find("[") < plain.rfind("]")
    return Word(text, "", pattern and not assigned, _has_number(parts))


def node_source(node: Node, source: bytes) -> str:
    """Return the source text of a node."""
    return source[node["Pos"]["Offset"] : node["End"]["Offset"]].decode("utf-8", "replace")


def _literals(parts: Iterable[Node]) -> str:
    """Return the unquoted text, without escaped characters."""
    return re.sub(r"\\.", "", "".join(p["Value"] for p in parts if p["Type"] == "Lit"), flags=re.DOTALL)


def _check_braces(parts: list[Node]) -> None:
    plain = _literals(parts)
    inside = plain[plain.find("{") + 1 : plain.rfind("}")] if "{" in plain else ""
    if "," in inside or ".." in inside:
        raise UnknownValueError("a {list} in braces")


def _has_number(parts: Iterable[Node]) -> bool:
    """Return True if a word contains a number represented as 0."""
    return any(
        (p["Type"] == "ParamExp" and p["Param"]["Value"] in _NUMBERS)
        or (p["Type"] == "DblQuoted" and _has_number(p.get("Parts") or []))
        for p in parts
    )


def _home(value: str, alone: bool, variables: Mapping[str, str | None]) -> str:
    """Return the home directory for a leading ~; "" without one."""
    if not value.startswith("~"):
        return ""
    home = variables.get("HOME")
    if not (value.startswith("~/") or (value == "~" and alone)) or not home:
        raise UnknownValueError("a ~ with a name" if home else "the home folder")
    return home


def _unquoted(value: str) -> str:
    if not value.isascii():
        raise UnknownValueError("characters beyond ASCII outside quotes")
    return re.sub(r"\\(.)", lambda m: "" if m[1] == "\n" else m[1], value, flags=re.DOTALL)


def _part(part: Node, variables: Mapping[str, str | None], *, split: bool) -> str:
    match part["Type"]:
        case "SglQuoted":
            return _ansi(part.get("Value", "")) if part.get("Dollar") else str(part.get("Value", ""))
        case "DblQuoted":
            if part.get("Dollar"):
                raise UnknownValueError("a translated text")
            return "".join(_in_quotes(p, variables) for p in part.get("Parts") or [])
        case "ParamExp":
            value = _parameter(part, variables)
            if split and (not value or _SPLITTING.search(value)):
                raise UnknownValueError("an unquoted variable")
            return value
        case "ArithmExp":
            return str(_arithmetic(part.get("X") or {}))
        case "ProcSubst":
            raise UnknownValueError("a process substitution inside a word")
        case "CmdSubst":
            if (text := _document(part)) is not None and not split:
                return text
            raise UnknownValueError("the output of another command")
        case kind:
            raise UnknownValueError(f"a {kind}")


def _document(part: Node) -> str | None:
    """Return the text of a quoted `$(cat <<'EOF' ... EOF)`; None for any other substitution."""
    statements = part.get("Stmts") or []
    command = statements[0].get("Cmd") if len(statements) == 1 else None
    if not command or command["Type"] != "CallExpr" or command.get("Assigns") or len(command.get("Args") or []) != 1:
        return None
    redirects = statements[0].get("Redirs") or []
    if len(redirects) != 1 or redirects[0]["Op"] != "<<" or redirects[0].get("N"):
        return None
    if any(statements[0].get(key) for key in ("Negated", "Background", "Coprocess", "Disown")):
        return None
    name, end = command["Args"][0]["Parts"], redirects[0]["Word"]["Parts"]
    if [(p["Type"], p.get("Value")) for p in name] != [("Lit", "cat")]:
        return None
    if len(end) != 1 or end[0]["Type"] not in ("SglQuoted", "DblQuoted") or end[0].get("Dollar"):
        return None
    quoted = end[0].get("Parts") or [end[0]]
    if len(quoted) != 1 or not _PLAIN_END.fullmatch(quoted[0].get("Value", "")):
        return None
    body = (redirects[0].get("Hdoc") or {}).get("Parts") or []
    if any(p["Type"] != "Lit" for p in body):
        return None
    return "".join(p["Value"] for p in body).rstrip("\n")


def _in_quotes(part: Node, variables: Mapping[str, str | None]) -> str:
    if part["Type"] == "Lit":
        return re.sub(r"\\([$`\"\\\n])", lambda m: "" if m[1] == "\n" else m[1], part["Value"])
    return _part(part, variables, split=False)


def _ansi(value: str) -> str:
    """Return the text of $'...' with its most common escapes."""

    def one(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise UnknownValueError("an escape in $'...'")
        return _ESCAPES[match[1]]

    return re.sub(r"\\(.)", one, value, flags=re.DOTALL)


def _parameter(part: Node, variables: Mapping[str, str | None]) -> str:
    name = (part.get("Param") or {}).get("Value", "")
    if part.keys() - _PARAMETER_KEYS:
        raise UnknownValueError(f"an expansion of ${name}")
    if name in _NUMBERS:
        return "0"
    value = variables.get(name)
    if value is None:
        raise UnknownValueError(f"the variable ${name}")
    return value


def _arithmetic(node: Node) -> int:
    """Evaluate arithmetic over plain numbers; variables in it may run anything."""
    match node.get("Type"):
        case "ParenArithm":
            return _arithmetic(node["X"])
        case "BinaryArithm" if node["Op"] in _OPERATORS:
            left, right = _arithmetic(node["X"]), _arithmetic(node["Y"])
            if right or node["Op"] not in "/%":
                value = _OPERATORS[node["Op"]](left, right)
                if abs(value) < _MAX_INTEGER:
                    return value
        case "Word" if [p["Type"] for p in node.get("Parts") or []] == ["Lit"]:
            if _PLAIN_NUMBER.fullmatch(node["Parts"][0]["Value"]):
                return int(node["Parts"][0]["Value"])
    raise UnknownValueError("arithmetic over variables")

"""What carries over from one command to the next, as data: exported variables, beside the working directory.

`carry.bash` makes a command report, at its end, where it was and what it exports. The difference to the environment
that all commands start with is passed to the next one. What was imposed on one command only (the gate hardens reads of
git, the sandbox has a directory for temporary files) is no change of that command's, and never passed on.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from agent_tools.context import ToolContext, ToolState
from agent_tools.record import Value
from agent_tools.secret_patterns import is_secret
from agent_tools.shell.env import CALM, STARTUP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MARK = "_AGENT_COMMAND"
CHANNEL = "_AGENT_CARRY"
MOST = 65_536
# Bash expands this value like a word in double quotes.
_FILE = re.sub(r'([\\$`"])', r"\\\1", str(Path(__file__).with_name("carry.bash")))
# Far above what commands use for themselves.
_DESCRIPTOR = 200
_LONGEST = 4_000_000
# Ours, bash's own, what the gate resolves `~` by, and what puts code into every program, bash first of all.
_NEVER = (
    frozenset((MARK, CHANNEL, "PWD", "OLDPWD", "SHLVL", "_", "HOME", "LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"))
    | STARTUP
    | CALM.keys()
)
# Useless and harmful in part, and their other part, GIT_CONFIG_KEY_n, has the name of a key: git refuses to run
# with a count or a value that has no key.
_GIT_CONFIG = re.compile(r"GIT_CONFIG_(?:COUNT|KEY_\d+|VALUE_\d+)")
# What logs of earlier versions hold beside a GIT_CONFIG_COUNT: the hardening of a read of git, taken for exports.
_LEAKED = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
# The same of the sandbox: a directory that is gone.
_SANDBOX_TEMP = re.compile(r".*/agent-sandbox-[^/]*")


_NOTHING: tuple[bytes, frozenset[str]] = (b"", frozenset())


class ShellSnapshot(Value, tag="Carried"):
    """What the next command starts with: its directory, and the variables that differ; None for one that is unset."""

    cwd: str
    variables: dict[str, str | None] = {}  # noqa: RUF012 - never changed


class ShellState(ToolState):
    """The exported variables that commands of one conversation have changed; a sub-agent has its own."""

    def __init__(self) -> None:
        self.variables: dict[str, str | None] = {}
        # What the last command reported, and what was imposed on it, where that changed nothing: most of the next ones
        # report the same.
        self.known: tuple[bytes, frozenset[str]] = _NOTHING

    def nested(self) -> ShellState:
        other = ShellState()
        other.variables = dict(self.variables)
        return other

    def reset(self) -> None:
        """The next command starts with the environment as it was at first."""
        self.variables, self.known = {}, _NOTHING

    def restore(self, variables: Mapping[str, str | None]) -> None:
        """Start from what `public` gave and a log kept; what earlier versions left there by mistake is dropped."""
        self.reset()
        leaked = _LEAKED if "GIT_CONFIG_COUNT" in variables else {}
        self.variables = {
            name: value
            for name, value in variables.items()
            if _storable(name, value)
            and not (name in leaked and leaked[name] == value)
            and not (name == "TMPDIR" and _SANDBOX_TEMP.fullmatch(value or ""))
        }

    def public(self) -> dict[str, str | None]:
        """What may be written down: no variable that holds a secret, and none that is of no use without one."""
        return {name: value for name, value in self.variables.items() if _storable(name, value)}

    def exported(self) -> dict[str, str]:
        """The variables that were changed, for the gate; one that is unset counts as empty."""
        return {name: value or "" for name, value in self.variables.items()}

    def applied(self, base: Mapping[str, str]) -> dict[str, str]:
        """The environment of the next command, from the one that all start with."""
        env = {**base, **{n: v for n, v in self.variables.items() if v is not None}}
        for name in [n for n, v in self.variables.items() if v is None]:
            env.pop(name, None)
        return env

    def learn(
        self, exported: Mapping[str, str], base: Mapping[str, str], imposed: frozenset[str] = frozenset()
    ) -> bool:
        """Take over what a command exported at its end. False where that is too much: all stays as it was.

        base: the environment that all commands start with. imposed: the variables that were set or unset for just this
        command; of these nothing is taken over.
        """
        self.known = _NOTHING
        apart = _NEVER | imposed
        changed: dict[str, str | None] = {
            n: v for n, v in exported.items() if n not in apart and not n.startswith("BASH_FUNC_") and base.get(n) != v
        }
        # Bash passes on what is no name of a variable, and does not report it.
        changed |= {n: None for n in base if n not in exported and n not in apart and re.fullmatch(r"[A-Za-z_]\w*", n)}
        changed |= {n: v for n, v in self.variables.items() if n in imposed}
        if sum(len(n) + len(v or "") for n, v in changed.items()) > MOST:
            return False
        self.variables = changed
        return True


def carried_state(ctx: ToolContext) -> ShellSnapshot:
    """What the next command starts with, as it may be written down."""
    return ShellSnapshot(str(ctx.workspace.cwd), ctx.state(ShellState).public())


def restore_carried(ctx: ToolContext, carried: ShellSnapshot) -> None:
    """Start commands with what was written down, as far as that is possible here and now."""
    cwd = Path(carried.cwd)
    if os.path.isdir(cwd) and ctx.workspace.inside(cwd):  # noqa: PTH112 - the method raises where a parent is closed
        ctx.workspace.cwd = cwd
    ctx.state(ShellState).restore(carried.variables)


class Channel:
    """A nameless file that one command tells its end through. Raises OSError where there can be none."""

    def __init__(self) -> None:
        self.fd = _nameless()
        self.env = {"BASH_ENV": _FILE, CHANNEL: str(self.fd)}

    def read(self) -> bytes:
        """What the command told; nothing where that is not whole."""
        size = os.fstat(self.fd).st_size
        data = os.pread(self.fd, size, 0) if size <= _LONGEST else b""
        return data if data.endswith(b"\0") and data.count(b"\0") == 2 else b""

    def close(self) -> None:
        os.close(self.fd)


def imposed(given: Mapping[str, str], ran: Mapping[str, str]) -> frozenset[str]:
    """The variables in which the environment that a command ran with differs from the one it was given."""
    return frozenset(name for name in given.keys() | ran.keys() if given.get(name) != ran.get(name))


def _storable(name: str, value: str | None) -> bool:
    return not is_secret(name, value or "") and not _GIT_CONFIG.fullmatch(name)


def parse_exports(data: bytes) -> tuple[Path | None, dict[str, str]]:
    """The directory, None for one that was removed, and the exported variables, from what a command told."""
    where, _, rest = data.partition(b"\0")
    directory = Path(os.fsdecode(where.removesuffix(b"\n"))) if where.startswith(b"/") else None
    return directory, {os.fsdecode(n): os.fsdecode(v) for n, v in exports(rest[:-1])}


def _nameless() -> int:
    # Unix only, like bash.
    import fcntl

    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("carry")
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _DESCRIPTOR)
    except OSError:
        # Few descriptors are allowed here.
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    finally:
        os.close(fd)


_NAME = rb"(?:declare -[A-Za-z]+|export(?: -[A-Za-z]+)?) ([A-Za-z_][A-Za-z0-9_]*)"
_PIECE = rb"\"[^\"\\]*(?:\\.[^\"\\]*)*\"|\$'[^'\\]*(?:\\.[^'\\]*)*'|'[^']*'|\\.|[^\s\"'\\()]+"
_LINE = rb"%s(?:=(\((?:%s|\s)*\)|(?:%s)*))?\n" % (_NAME, _PIECE, _PIECE)


def exports(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The variables in the output of `export -p`, exact to the byte. Those without a value and arrays are left out."""
    for match in re.finditer(_LINE, text, re.DOTALL):
        name, value = match.groups()
        if value is not None and not value.startswith(b"("):
            yield name, unquoted(value)


def unquoted(word: bytes) -> bytes:
    """The value of a word as bash writes it: bare, in double or single quotes, or as $'...'."""
    if word.startswith(b'"') and b"\\" not in word and word.count(b'"') == 2:
        return word[1:-1]
    return b"".join(_plain(piece) for piece in re.findall(_PIECE, word, re.DOTALL))


def _plain(piece: bytes) -> bytes:
    if piece.startswith(b"$'"):
        return re.sub(rb"\\([0-7]{1,3}|.)", _character, piece[2:-1], flags=re.DOTALL)
    if piece.startswith(b"'"):
        return piece[1:-1]
    inner = piece[1:-1] if piece.startswith(b'"') else piece
    return re.sub(rb"\\(.)", rb"\1", inner, flags=re.DOTALL)


_SPELLED = {b"a": 7, b"b": 8, b"e": 27, b"E": 27, b"f": 12, b"n": 10, b"r": 13, b"t": 9, b"v": 11}


def _character(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code.isdigit():
        return bytes((int(code, 8) & 255,))
    return bytes((_SPELLED[code],)) if code in _SPELLED else code

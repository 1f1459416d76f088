"""The environment of commands, and the state that carries over from one command to the next.

The environment has no secrets, no startup code, and nothing that would wait for a user. CI=1 is not set, although it
keeps many tools from prompting: it also changes their behaviour (pnpm and yarn refuse to change a lock file, test
runners write no snapshots, warnings become errors). Without a terminal and with an empty standard input they do not
wait either.

`carry.bash` makes a command report its directory and exports when it ends. The difference from the initial environment
is passed to the next command. Variables that the program set for one command only (to harden reads of git, or for the
sandbox's temporary directory) are not changes by that command, and never passed on.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from agent_tools.base import ToolContext, ToolState
from agent_tools.record import Value
from agent_tools.secret_patterns import is_secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Bash reads these before the command, or they change how it is interpreted.
STARTUP_VARIABLES = frozenset(
    "BASH_ENV ENV SHELLOPTS BASHOPTS BASH_XTRACEFD CDPATH GLOBIGNORE POSIXLY_CORRECT PS4 "
    # A PWD with a link in it would make `cd ..` lead to another place than permissions assume.
    "PWD OLDPWD".split()
)
WITHHELD_NOTE = "withheld from commands because they look like secrets"
ENV_PASS_NOTE = "the user can pass them with the setting shell.env_pass"
# git reads this value as shell code.
_EDITOR_SCRIPT = str(Path(__file__).with_name("git_editor.bash")).replace("'", r"'\''")
_GIT_EDITOR = f"sh '{_EDITOR_SCRIPT}'"
# Without a terminal, vim waits forever. This makes it quit when it waits for a key, which it does not when run as a
# script. The variable replaces its configuration files, so the first half loads them.
_VIMINIT = (
    "if has('nvim')|runtime! init.vim init.lua|elseif filereadable(expand('~/.vimrc'))|source ~/.vimrc|"
    "else|runtime vimrc|endif|if has('timers')|exe \"au VimEnter * call timer_start(300, {-> execute("
    "\\\"call writefile(['There is no terminal here to edit in.'], '/dev/stderr', 'a')|cquit\\\")})\"|endif"
)
NON_INTERACTIVE = {
    "DEBIAN_FRONTEND": "noninteractive",
    "EDITOR": "false",
    "GCM_INTERACTIVE": "never",
    # Empty: no password dialog either.
    "GIT_ASKPASS": "",
    "GIT_EDITOR": _GIT_EDITOR,
    "GIT_PAGER": "cat",
    "GIT_SEQUENCE_EDITOR": _GIT_EDITOR,
    "GIT_TERMINAL_PROMPT": "0",
    "HGEDITOR": "false",
    "MANPAGER": "cat",
    "NO_UPDATE_NOTIFIER": "1",
    "NPM_CONFIG_UPDATE_NOTIFIER": "false",
    "PAGER": "cat",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "SSH_ASKPASS_REQUIRE": "never",
    "SVN_EDITOR": "false",
    "SYSTEMD_PAGER": "cat",
    "TERM": "dumb",
    "VIMINIT": _VIMINIT,
    "VISUAL": "false",
}


_MISSING_LOGIN = (
    r"(?i)api[ _-]?keys?\b|\bcredentials?\b|access[ _-]?key|\btokens? (?:is |was |not |required|missing|expired)"
    r"|authenticat|authoriz|unauthori[sz]ed|\b40[13]\b|forbidden|permission denied \(publickey|no password|log ?in\b"
)
_TAIL_CHARS = 4_000


def suspected_secrets(command: str, output: str, withheld: list[str]) -> list[str]:
    """Return the withheld variables whose absence may have made a command fail.

    Those that it or its output names; all of them if the output indicates a missing login.
    """
    text = output[-_TAIL_CHARS:]
    named = [name for name in withheld if name in command or name in text]
    return named or (withheld if re.search(_MISSING_LOGIN, text) else [])


def command_env(ctx: ToolContext) -> tuple[dict[str, str], list[str]]:
    """Return the initial environment of commands, and the names of withheld variables, which have secrets.

    The setting `shell.env_pass` lists exceptions.
    """
    allowed = set(ctx.settings.get("env_pass") or ())
    env: dict[str, str] = {}
    withheld = []
    for name, value in ctx.env.items():
        if name in STARTUP_VARIABLES or name.startswith("BASH_FUNC_"):
            continue
        if name not in allowed and is_secret(name, value):
            withheld.append(name)
        else:
            env[name] = value
    return env | NON_INTERACTIVE, sorted(withheld)


MARK_VARIABLE = "_AGENT_COMMAND"
CHANNEL_VARIABLE = "_AGENT_CARRY"
MAX_EXPORT_CHARS = 65_536
# Bash expands this value like a double-quoted word.
_CARRY_SCRIPT = str(Path(__file__).with_name("carry.bash")).translate({ord(char): f"\\{char}" for char in '\\$`"'})
# Far above the descriptors that commands use.
_MIN_DESCRIPTOR = 200
_MAX_REPORT_BYTES = 4_000_000
# Ours, bash's own (it unsets the prompts), HOME (permissions resolve `~` with it), and those that inject code into
# every program.
_NEVER_CARRIED = (
    frozenset(
        (
            MARK_VARIABLE, CHANNEL_VARIABLE, "PWD", "OLDPWD", "SHLVL", "_", "PS1", "PS2", "HOME", "LD_PRELOAD",
            "LD_AUDIT", "DYLD_INSERT_LIBRARIES",
        )
    )
    | STARTUP_VARIABLES
    | NON_INTERACTIVE.keys()
)  # fmt: skip
# Never partially: git fails with a count or a value without its key, and GIT_CONFIG_KEY_n looks like a secret.
_GIT_CONFIG = r"GIT_CONFIG_(?:COUNT|KEY_\d+|VALUE_\d+)"
# Logs of earlier versions have these next to a GIT_CONFIG_COUNT: the hardening of a git command, mistaken for exports.
_LEAKED_HARDENING = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
# The same for the sandbox: a directory that no longer exists.
_SANDBOX_TEMP = r".*/agent-sandbox-[^/]*"


Variables = dict[str, str | None]
_NO_REPORT: tuple[bytes, frozenset[str], bool] = (b"", frozenset(), False)


class ShellSnapshot(Value, tag="Carried"):
    """State for the next command. variables: those that differ from the initial ones; None if unset.

    confined: those that differ from these in the sandbox.
    """

    cwd: str
    variables: Variables = {}  # noqa: RUF012 - never changed
    confined: Variables = {}  # noqa: RUF012 - never changed


class ShellState(ToolState):
    """Exported variables that commands of a conversation have changed; a sub-agent has its own.

    confined: those that commands in the sandbox have changed, which apply only there: programs outside run what some
    variables name.
    """

    def __init__(self) -> None:
        self.variables: Variables = {}
        self.confined: Variables = {}
        # Report of the last command, variables imposed on it, and whether it ran in the sandbox, if it changed nothing;
        # most reports are the same.
        self.known = _NO_REPORT

    def nested(self) -> ShellState:
        other = ShellState()
        other.variables, other.confined = dict(self.variables), dict(self.confined)
        return other

    def reset(self) -> None:
        """Start the next command with the initial environment."""
        self.variables, self.confined, self.known = {}, {}, _NO_REPORT

    def restore(self, variables: Mapping[str, str | None], confined: Mapping[str, str | None]) -> None:
        """Restore the variables that `public` wrote to a log; drop those that earlier versions wrote by mistake."""
        self.reset()
        self.variables, self.confined = _without_leaked(variables), _without_leaked(confined)

    def public(self) -> tuple[Variables, Variables]:
        """Return the variables that may be stored, and those of the sandbox: none with a secret, nor any from one."""
        found = ({n: v for n, v in some.items() if _is_storable(n, v)} for some in (self.variables, self.confined))
        return next(found), next(found)

    def exported(self) -> dict[str, str]:
        """Return the changed variables, for permission checks; an unset one counts as empty."""
        return {name: value or "" for name, value in self._changed(inside=True).items()}

    def applied(self, base: Mapping[str, str], *, inside: bool = False) -> dict[str, str]:
        """Return the environment of the next command, from the initial one. inside: it runs in the sandbox."""
        changed = self._changed(inside=inside)
        env = {**base, **{n: v for n, v in changed.items() if v is not None}}
        for name in [n for n, v in changed.items() if v is None]:
            env.pop(name, None)
        return env

    def _changed(self, *, inside: bool) -> Variables:
        return {**self.variables, **self.confined} if inside else self.variables

    def learn(
        self,
        exported: Mapping[str, str],
        base: Mapping[str, str],
        imposed: frozenset[str] = frozenset(),
        *,
        inside: bool = False,
    ) -> bool:
        """Store the variables that a command exported at its end. Return False, with no change, if they are too large.

        base: the initial environment of commands.
        imposed: variables set or unset by the program for just this command; ignored.
        inside: the command ran in the sandbox.
        """
        self.known = _NO_REPORT
        apart = _NEVER_CARRIED | imposed
        changed: Variables = {
            n: v for n, v in exported.items() if n not in apart and not n.startswith("BASH_FUNC_") and base.get(n) != v
        }
        # Bash passes on invalid variable names without reporting them.
        changed |= {n: None for n in base if n not in exported and n not in apart and re.fullmatch(r"[A-Za-z_]\w*", n)}
        changed |= {n: v for n, v in self._changed(inside=inside).items() if n in imposed}
        if sum(len(n) + len(v or "") for n, v in changed.items()) > MAX_EXPORT_CHARS:
            return False
        # What this command made of the variables outside.
        new = _differing(changed, self.variables, base)
        if inside:
            self.confined = new
        else:
            self.variables = changed
            self.confined = {n: v for n, v in self.confined.items() if n not in new}
        return True


def _differing(some: Variables, others: Variables, base: Mapping[str, str]) -> Variables:
    """Return the variables that differ from others; both are changes of the initial ones."""
    names = some.keys() | others.keys()
    return {n: v for n in sorted(names) if (v := some.get(n, base.get(n))) != others.get(n, base.get(n))}


def _without_leaked(variables: Mapping[str, str | None]) -> Variables:
    leaked = _LEAKED_HARDENING if "GIT_CONFIG_COUNT" in variables else {}
    return {
        name: value
        for name, value in variables.items()
        if _is_storable(name, value)
        and not (name in leaked and leaked[name] == value)
        and not (name == "TMPDIR" and re.fullmatch(_SANDBOX_TEMP, value or ""))
    }


def carried_state(ctx: ToolContext) -> ShellSnapshot:
    """Return the state for the next command, as it may be stored."""
    return ShellSnapshot(str(ctx.workspace.cwd), *ctx.state(ShellState).public())


def restore_carried(ctx: ToolContext, carried: ShellSnapshot) -> None:
    """Restore a stored state, if its directory still exists; variables are always restored."""
    cwd = Path(carried.cwd)
    if ctx.workspace.may_work_in(cwd):
        ctx.workspace.cwd = cwd
    ctx.state(ShellState).restore(carried.variables, carried.confined)


class ReportChannel:
    """An unnamed file through which a command reports its end. Raises OSError if it cannot be created.

    pipe: exit codes of the parts of the last pipe that the command ran, once `read` was called; () if unknown.
    """

    def __init__(self) -> None:
        self.fd = _anonymous_file()
        self.env = {"BASH_ENV": _CARRY_SCRIPT, CHANNEL_VARIABLE: str(self.fd)}
        self.pipe: tuple[int, ...] = ()

    def read(self) -> bytes:
        """Return the directory and exports that the command reported; b"" if the report is incomplete."""
        size = os.fstat(self.fd).st_size
        codes, _, data = (os.pread(self.fd, size, 0) if size <= _MAX_REPORT_BYTES else b"").partition(b"\0")
        if not (data.endswith(b"\0") and data.count(b"\0") == 2):
            return b""
        if re.fullmatch(rb"(?:\d{1,3} )+", codes):
            self.pipe = tuple(map(int, codes.split()))
        return data

    def close(self) -> None:
        os.close(self.fd)


def imposed(given: Mapping[str, str], ran: Mapping[str, str]) -> frozenset[str]:
    """Return the variables in which the environment of a command differs from the one it was given."""
    return frozenset(name for name in given.keys() | ran.keys() if given.get(name) != ran.get(name))


def _is_storable(name: str, value: str | None) -> bool:
    return not is_secret(name, value or "") and not re.fullmatch(_GIT_CONFIG, name)


def parse_exports(data: bytes) -> tuple[Path | None, dict[str, str]]:
    """Parse the report of a command: its directory, None if it was removed, and the exported variables."""
    where, _, rest = data.partition(b"\0")
    directory = Path(os.fsdecode(where.removesuffix(b"\n"))) if where.startswith(b"/") else None
    return directory, {os.fsdecode(n): os.fsdecode(v) for n, v in parse_export_lines(rest[:-1])}


def _anonymous_file() -> int:
    import fcntl

    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("carry")
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _MIN_DESCRIPTOR)
    except OSError:
        # The limit of descriptors is low.
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    finally:
        os.close(fd)


_DECLARATION = rb"(?:declare -[A-Za-z]+|export(?: -[A-Za-z]+)?) ([A-Za-z_][A-Za-z0-9_]*)"
_QUOTED_PART = rb"\"[^\"\\]*(?:\\.[^\"\\]*)*\"|\$'[^'\\]*(?:\\.[^'\\]*)*'|'[^']*'|\\.|[^\s\"'\\()]+"
_EXPORT_LINE = rb"%s(?:=(\((?:%s|\s)*\)|(?:%s)*))?\n" % (_DECLARATION, _QUOTED_PART, _QUOTED_PART)


def parse_export_lines(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Parse the variables in the output of `export -p`, byte for byte. Skips those without a value and arrays."""
    for match in re.finditer(_EXPORT_LINE, text, re.DOTALL):
        name, value = match.groups()
        if value is not None and not value.startswith(b"("):
            yield name, unquote(value)


def unquote(word: bytes) -> bytes:
    """Return the value of a word as bash prints it: bare, in double or single quotes, or as $'...'."""
    if word.startswith(b'"') and b"\\" not in word and word.count(b'"') == 2:
        return word[1:-1]
    return b"".join(_unquote_part(piece) for piece in re.findall(_QUOTED_PART, word, re.DOTALL))


def _unquote_part(piece: bytes) -> bytes:
    if piece.startswith(b"$'"):
        return re.sub(rb"\\([0-7]{1,3}|.)", _unescape, piece[2:-1], flags=re.DOTALL)
    if piece.startswith(b"'"):
        return piece[1:-1]
    inner = piece[1:-1] if piece.startswith(b'"') else piece
    return re.sub(rb"\\(.)", rb"\1", inner, flags=re.DOTALL)


_ESCAPES = {b"a": 7, b"b": 8, b"e": 27, b"E": 27, b"f": 12, b"n": 10, b"r": 13, b"t": 9, b"v": 11}


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code.isdigit():
        return bytes((int(code, 8) & 255,))
    return bytes((_ESCAPES[code],)) if code in _ESCAPES else code

"""What wakes the tick each minute where no `agent serve` runs: a systemd user timer, or a line in the crontab.

Also the environment that the runs get, and what is missing in it.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from agent_cli import UsageError
from agent_tools.fs.safe_files import read_regular, write_atomic
from agent_tools.process.child import run_child
from agent_tools.record import Value

WakerKind = Literal["systemd", "cron"]
_UNIT = "agent-every"
_MARK = f"# {_UNIT}"
_SECONDS = 20.0
_MAX_BYTES = 1 << 20
# Variables of the shell that runs get. None of them has a secret; the address of a proxy may, and is then left out.
_KEPT = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "VIRTUAL_ENV",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "AGENT_STATE_DIR", "CLAUDE_CONFIG_DIR",
    "SSL_CERT_FILE", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy",
)  # fmt: skip
# Those of them that say where the schedules are.
_PLACES = ("AGENT_STATE_DIR", "XDG_STATE_HOME")


def kept_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the runs of a schedule get, besides those of the process that ticks."""
    found = {name: env[name] for name in _KEPT if env.get(name) and not ("proxy" in name.lower() and "@" in env[name])}
    return {**found, "PATH": _absolute_path(env)}


def _absolute_path(env: Mapping[str, str]) -> str:
    """Return PATH without relative folders, which a project could fill."""
    path = env.get("PATH") or os.defpath
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if folder.startswith("/"))


class Waker(Value):
    """Something that wakes the tick. files: what is written, by path. line: of the crontab. env: of the user."""

    kind: WakerKind
    env: Mapping[str, str]
    files: dict[str, str] = {}  # noqa: RUF012 - never changed
    line: str = ""

    @classmethod
    def find(cls, env: Mapping[str, str], home: Path, kind: str = "") -> Waker | None:
        """Return what can wake the tick here, systemd before cron; None for nothing. kind: only this one."""
        if kind in ("", "systemd") and _run(env, "systemctl", "--user", "show-environment")[0] == 0:
            return cls("systemd", env, _units(env, home))
        if kind in ("", "cron") and _crontab(env) is not None:
            return cls("cron", env, line=_cron_line(env))
        return None

    def shown(self) -> str:
        """Return what is written where, for the user."""
        if self.kind == "cron":
            return f"A line in your crontab:\n\n{self.line}\n"
        units = "\n".join(f"{path}:\n\n{text}" for path, text in self.files.items())
        return f"{units}\nand then: systemctl --user enable --now {_UNIT}.timer\n"

    @property
    def is_installed(self) -> bool:
        """True if it is there just so, and active."""
        if self.kind == "cron":
            return self.line in (_crontab(self.env) or "").splitlines()
        same = all(_read(Path(path)) == text for path, text in self.files.items())
        return same and _run(self.env, "systemctl", "--user", "is-enabled", f"{_UNIT}.timer")[0] == 0

    def install(self) -> None:
        """Write it. Raises UsageError."""
        if self.kind == "cron":
            _write_crontab(self.env, [*_other_lines(self.env), self.line])
            return
        try:
            for path, text in self.files.items():
                write_atomic(Path(path), text.encode(), 0o644)
        except OSError as error:
            raise UsageError(f"The timer {path} cannot be written: {error.strerror or error}.") from None
        _check(self.env, "systemctl", "--user", "daemon-reload")
        _check(self.env, "systemctl", "--user", "enable", "--now", f"{_UNIT}.timer")

    @staticmethod
    def uninstall(env: Mapping[str, str], home: Path) -> list[str]:
        """Take out whatever `install` wrote; return what that was. Raises UsageError."""
        gone = []
        files = [Path(path) for path in _units(env, home)]
        if any(path.exists() for path in files):
            with suppress(UsageError):  # it may be running no more
                _check(env, "systemctl", "--user", "disable", "--now", f"{_UNIT}.timer")
            for path in files:
                path.unlink(missing_ok=True)
            _run(env, "systemctl", "--user", "daemon-reload")
            gone.append("the systemd timer")
        if any(line.endswith(_MARK) for line in (_crontab(env) or "").splitlines()):
            _write_crontab(env, _other_lines(env))
            gone.append("the line in your crontab")
        return gone

    def run_environment(self) -> dict[str, str]:
        """Return the environment in which runs start: the stored variables, and those of systemd's user manager."""
        found: dict[str, str] = {}
        if self.kind == "systemd":
            code, text = _run(self.env, "systemctl", "--user", "show-environment")
            found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line) if code == 0 else {}
        return {**found, **kept_environment(self.env)}

    @property
    def ends_at_logout(self) -> bool:
        """True if systemd ends the user's timers when they log out."""
        name = self.env.get("USER") or str(os.getuid())
        code, text = _run(self.env, "loginctl", "show-user", name, "--property=Linger")
        return self.kind == "systemd" and code == 0 and text.strip() == "Linger=no"


def _command() -> list[str]:
    return [sys.executable, "-P", "-m", "agent_cli", "every", "tick"]


def _units(env: Mapping[str, str], home: Path) -> dict[str, str]:
    folder = Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "systemd/user"
    places = "".join(f"Environment={_quoted(f'{name}={env[name]}')}\n" for name in _PLACES if env.get(name))
    # The runs outlive the tick, so systemd must not end them with it.
    service = (
        f"[Unit]\nDescription=The schedules of agent\n\n[Service]\nType=oneshot\nKillMode=process\n{places}"
        f"ExecStart={' '.join(_quoted(word).replace('$', '$$') for word in _command())}\n"
    )
    timer = (
        "[Unit]\nDescription=The schedules of agent, each minute\n\n[Timer]\nOnCalendar=*-*-* *:*:00\n"
        "AccuracySec=1s\n\n[Install]\nWantedBy=timers.target\n"
    )
    return {str(folder / f"{_UNIT}.service"): service, str(folder / f"{_UNIT}.timer"): timer}


def _quoted(text: str) -> str:
    """Quote a word for a unit of systemd."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _cron_line(env: Mapping[str, str]) -> str:
    words = [f"{name}={shlex.quote(env[name])}" for name in _PLACES if env.get(name)]
    line = " ".join((*words, *map(shlex.quote, _command())))
    # cron takes a percent sign for a line break.
    return f"* * * * * {line.replace('%', chr(92) + '%')} >/dev/null 2>&1 {_MARK}"


def _crontab(env: Mapping[str, str]) -> str | None:
    """Return the user's crontab; None if there is no cron, or it may not be used."""
    code, text = _run(env, "crontab", "-l")
    if code == 0:
        return text
    return "" if "no crontab" in text.lower() else None


def _other_lines(env: Mapping[str, str]) -> list[str]:
    return [line for line in (_crontab(env) or "").splitlines() if not line.endswith(_MARK)]


def _write_crontab(env: Mapping[str, str], lines: Sequence[str]) -> None:
    _check(env, "crontab", "-", text="".join(f"{line}\n" for line in lines))


def _read(path: Path) -> str:
    try:
        return read_regular(path, _MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _run(env: Mapping[str, str], *words: str, text: str = "") -> tuple[int, str]:
    """Run a program; return its exit code, which is 127 if there is none, and what it printed."""
    env = {**env, "PATH": _absolute_path(env), "LC_ALL": "C"}
    try:
        done = run_child(list(words), seconds=_SECONDS, feed=text.encode("utf-8", "surrogateescape"), env=env)
    except (OSError, TimeoutError, OverflowError):
        return 127, ""
    return done.code, (done.out + done.err).decode("utf-8", "surrogateescape")


def _check(env: Mapping[str, str], *words: str, text: str = "") -> None:
    code, said = _run(env, *words, text=text)
    if code != 0:
        last = next((line for line in reversed(said.splitlines()) if line.strip()), f"exit code {code}")
        raise UsageError(f"{' '.join(words)} failed: {last.strip()}")

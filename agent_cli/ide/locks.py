"""The lock files of editors: which editors run here, and which of them a session may trust.

An editor that serves Claude Code's IDE protocol writes `~/.claude/ide/PORT.lock`, with its process, its folders and a
token. What a lock says is believed only if the file, the process and the port all belong to this user: the program
at that port may approve changes and sends text to the model. The owner of a port can be found out on Linux only; on
other systems that check is left out.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_tools.fs.safe_files import read_regular
from agent_tools.record import Value
from agent_tools.text import one_line, shorten

PORT_VARIABLE = "CLAUDE_CODE_SSE_PORT"
# Either one switches off that a session connects by itself.
_SWITCHES = ("ENABLE_IDE_INTEGRATION", "CLAUDE_CODE_AUTO_CONNECT_IDE")
_MAX_LOCKS, _MAX_BYTES, _MAX_FOLDERS = 200, 65_536, 100
_MAX_TABLE_BYTES = 16 << 20
_TOKEN = re.compile(r"[\x21-\x7e]{10,500}")
_LISTENING = "0A"


class RunningEditor(Value):
    """An editor that a lock file describes. folders: those it has open, resolved. token: for its connections."""

    name: str
    port: int
    pid: int
    folders: tuple[Path, ...]
    token: str

    def __repr__(self) -> str:
        return f"RunningEditor({self.name!r}, {self.port})"  # without the token

    def depth(self, cwd: Path) -> int:
        """Return how deep the folder of the editor is that contains `cwd`; -1 if none does."""
        return max((len(f.parts) for f in self.folders if cwd.is_relative_to(f)), default=-1)


class IdeError(Exception):
    """The editor does not answer, or refuses; one sentence."""


class LockRefusedError(Exception):
    """A lock file is not believed; the text continues a sentence that begins with its name."""


def connects_by_itself(env: Mapping[str, str]) -> bool:
    """Return True unless the environment switches it off."""
    return not any(env.get(name, "").strip().lower() in ("0", "false", "no", "off") for name in _SWITCHES)


def find_editors(env: Mapping[str, str], home: Path | None) -> tuple[list[RunningEditor], list[str]]:
    """Return the editors that run, by port, and why other locks are not believed, a sentence each."""
    chosen = env.get("CLAUDE_CONFIG_DIR")
    if not chosen and home is None:
        return [], []
    folder = Path(chosen) if chosen else Path(str(home)) / ".claude"
    try:
        with os.scandir(folder / "ide") as entries:
            names = sorted(e.name for e in entries if e.name.endswith(".lock"))[:_MAX_LOCKS]
    except OSError:
        return [], []
    found, problems = [], []
    for name in names:
        try:
            found.append(read_lock(folder / "ide" / name))
        except LockRefusedError as why:
            problems.append(f"{one_line(name)} {why}")
    return found, problems


def editor_of(editors: Iterable[RunningEditor], cwd: Path, env: Mapping[str, str]) -> RunningEditor | None:
    """Return the editor of a folder: the one whose terminal this is, else the one whose folder is the closest.

    None if no editor has the folder open, or several have it open in the same way.
    """
    here = [(depth, editor) for editor in editors if (depth := editor.depth(cwd)) >= 0]
    own = next((e for _, e in here if str(e.port) == env.get(PORT_VARIABLE, "").strip()), None)
    if own is not None or not here:
        return own
    closest = max(depth for depth, _ in here)
    best = [editor for depth, editor in here if depth == closest]
    return best[0] if len(best) == 1 else None


def read_lock(path: Path) -> RunningEditor:
    """Return the editor that a lock file describes. Raises LockRefusedError."""
    port = int(path.stem) if re.fullmatch(r"\d{1,5}", path.stem) else 0
    if not 0 < port < 65_536:
        raise LockRefusedError("is not named after a port")
    for place in (path.parent, path):
        _check_owner(place)
    try:
        data: Any = json.loads(read_regular(path, _MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        raise LockRefusedError("cannot be read") from None
    if not isinstance(data, dict):
        raise LockRefusedError("is no lock of an editor")
    if data.get("transport", "ws") != "ws" or data.get("runningInWindows") is True:
        raise LockRefusedError("is of an editor that does not answer over a WebSocket on this system")
    token, folders, pid = data.get("authToken"), data.get("workspaceFolders"), data.get("pid")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise LockRefusedError("has no token, so anybody could answer for this editor")
    if not isinstance(pid, int) or isinstance(pid, bool) or not _is_own_process(pid):
        raise LockRefusedError("is of a process that is gone, or not yours")
    if not _is_own_port(port):
        raise LockRefusedError("names a port that none of your programs has opened")
    listed = folders if isinstance(folders, list) else []
    opened = [Path(os.path.realpath(f)) for f in listed[:_MAX_FOLDERS] if isinstance(f, str) and f.startswith("/")]
    name = data.get("ideName")
    called = shorten(one_line(name), 40) if isinstance(name, str) and name.strip() else "the editor"
    return RunningEditor(called, port, pid, tuple(opened), token)


def _check_owner(path: Path) -> None:
    """Raise LockRefusedError for a file that another user could have written."""
    try:
        state = os.lstat(path)
    except OSError:
        raise LockRefusedError("is gone") from None
    if stat.S_ISLNK(state.st_mode) and not path.suffix:
        state = os.stat(path)  # a folder that the user keeps elsewhere  # noqa: PTH116
    if stat.S_ISLNK(state.st_mode):
        raise LockRefusedError("is a link")
    if state.st_uid != os.geteuid() or state.st_mode & 0o022:
        raise LockRefusedError("can be written by another user")


def _is_own_process(pid: int) -> bool:
    """Return True for a running process of this user."""
    if pid <= 1:
        return False
    try:
        os.kill(pid, 0)
        return not sys.platform.startswith("linux") or os.stat(f"/proc/{pid}").st_uid == os.geteuid()  # noqa: PTH116
    except OSError:
        return False


def _is_own_port(port: int) -> bool:
    """Return True if a program of this user listens at a port on loopback, as far as the system tells."""
    if not sys.platform.startswith("linux"):
        return True
    owners = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = read_regular(table, _MAX_TABLE_BYTES).decode("ascii").splitlines()[1:]
        except (OSError, ValueError):
            continue
        for row in rows:
            _, local, _, state, _, _, _, owner, *_ = (*row.split(), *[""] * 8)
            if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                owners.append(owner)
    return bool(owners) and set(owners) == {str(os.geteuid())}

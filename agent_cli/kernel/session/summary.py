"""Summarize sessions for lists without restoring them, fast enough for hundreds of long logs.

Only the few records that a summary needs are decoded. Damaged lines are skipped; opening the session reports them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.session.files import decode_record, logs_in, read_log, results_size
from agent_cli.kernel.session.records import ENDS, Header
from agent_tools.record import DecodeError, Value, from_json

_HEAD = re.compile(rb'\{"v":\d+,"seq":\d+,"id":"[^"\\]*","parent":"[^"\\]*","type":"(\w+)","time":"([^"\\]*)",')
_USER_MESSAGE = b'"message":{"type":"UserMessage",'
_STATES = {b"Checkpoint": "waiting", b"ToolStarted": "open", b"MessageAdded": "open"}
_DECODED = {b"Header", b"SessionNamed", b"TurnFinished", b"TurnStarted"}
# In records of a sub-agent in the background: what happened, and its name.
_OF_AGENT = re.compile(rb'"event":\{"type":"(\w+)".*"name":"([^"\\]+)"\},"crc"')
_SUSPENDED = b'"result":"Suspended"'
# In records of a model call's usage; a sub-agent's record is inside another one.
_USAGE = b'"type":"UsageAdded"'


class SessionSummary(Value):
    """A session in a list.

    first: first words of the user.
    ended: "done", "failed", "interrupted", "waiting", or "open" if the last turn has not ended.
    size: bytes of the log and of the results beside it.
    root, cwd: "" if the header is lost.
    host: as in the header.
    """

    session_id: str
    path: Path
    name: str = ""
    first: str = ""
    messages: int = 0
    cost: float = 0.0
    reliable: bool = True
    ended: str = "done"
    size: int = 0
    created: str = ""
    updated: str = ""
    model: str = ""
    branch: str = ""
    root: str = ""
    cwd: str = ""
    forked_from: str = ""
    host: str = ""

    @property
    def title(self) -> str:
        """Its name, or else its first words."""
        return self.name or self.first or "(no messages)"


def summarize_session(path: Path) -> SessionSummary | None:
    """Summarize a session; None if the file has no record."""
    try:
        data = read_log(path)
    except OSError:
        return None
    found: dict[str, Any] = {"session_id": path.stem, "path": path, "size": len(data) + results_size(path)}
    messages, cost, reliable = 0, 0.0, True
    asking: set[bytes] = set()
    for line in data.split(b"\n"):
        head = _HEAD.match(line)
        if head is None:
            continue
        kind, time = head[1], head[2].decode("ascii")
        found.setdefault("created", time)
        found["updated"] = time
        if found.get("ended") in ("open", "waiting") and kind in _STATES:
            # The user was asked in an unfinished turn, and nothing followed.
            found["ended"] = _STATES[kind]
        if kind == b"SubagentEvent" and (agent := _OF_AGENT.search(line)) is not None:
            if agent[1] in (b"Checkpoint", b"TurnPaused"):
                asking.add(agent[2])
            elif agent[1] in (b"MessageAdded", b"TurnStarted") or (
                agent[1] == b"TurnFinished" and _SUSPENDED not in line
            ):
                asking.discard(agent[2])
        if kind == b"MessageAdded":
            messages += 1
            if "first" not in found and _USER_MESSAGE in line[head.end() : head.end() + 200]:
                about = _data(line).get("message", {})
                message = UserMessage(about.get("text", ""), typed=about.get("typed", ""))
                if message.from_user:
                    found["first"] = message.title
        elif kind in _DECODED:
            found |= _fields_of(kind, _data(line))
        if kind in (b"UsageAdded", b"SessionNamed") or (kind == b"SubagentEvent" and _USAGE in line):
            used = _usage(_data(line))
            cost += used.get("cost", 0.0)
            reliable = reliable and used.get("reliable", True)
    if "created" not in found:
        return None
    if asking:
        found["ended"] = "waiting"
    return SessionSummary(**found, messages=messages, cost=cost, reliable=reliable)


def _usage(data: dict[str, Any]) -> dict[str, Any]:
    """Return the usage in a record, also from nested sub-agents; {} for none."""
    while isinstance(inner := data.get("event"), dict):
        data = inner
    used = data.get("usage", {})
    return used if isinstance(used, dict) else {}


def _fields_of(kind: bytes, data: dict[str, Any]) -> dict[str, Any]:
    """Return the summary fields that a record sets."""
    if kind == b"TurnStarted":
        return {"ended": "open", "model": data.get("model", "")}
    if kind == b"TurnFinished":
        if data.get("result") == "Suspended":
            return {"ended": "waiting"}
        return {"ended": ENDS.get(data.get("diagnostics", {}).get("terminal_reason", ""), "done")}
    if kind == b"SessionNamed":
        return {"name": data.get("name", "")}
    try:
        header: Header = from_json(Header, data)
    except DecodeError:
        return {}
    names = ("model", "branch", "root", "cwd", "forked_from", "host")
    return {name: getattr(header, name) for name in names}


def _data(line: bytes) -> dict[str, Any]:
    record = decode_record(line.rstrip(b"\r")) or {}
    data: dict[str, Any] = record.get("data", {})
    return data


def session_files(folder: Path) -> list[Path]:
    """Return the logs in a project's directory, the latest changed first."""
    found = [(state, path) for state, path in logs_in(folder) if state.st_size and is_id(path.stem)]
    return [path for _, path in sorted(found, key=lambda f: f[0].st_mtime_ns, reverse=True)]


def is_id(name: str) -> bool:
    """Return True if a file name is a session id; other files are beside the logs."""
    return len(name) == 36 and not name.strip("0123456789abcdef-")


def summarize_sessions(folder: Path) -> Iterator[SessionSummary]:
    """Yield the sessions of a project, the latest changed first."""
    for path in session_files(folder):
        if (found := summarize_session(path)) is not None:
            yield found


def project_folders(state: Path) -> list[Path]:
    """Return the session directories of all projects."""
    try:
        return sorted(Path(e.path) for e in os.scandir(state / "sessions") if e.is_dir(follow_symlinks=False))
    except OSError:
        return []


def summaries_of_all_projects(state: Path) -> list[SessionSummary]:
    """Return the sessions of all projects, the latest changed first."""
    return sorted(
        (g for f in project_folders(state) for g in summarize_sessions(f)), key=lambda g: g.updated, reverse=True
    )

"""Sessions of OpenCode: an SQLite database in its data folder, into which newer versions move the files of older ones.

The database is read as it is on disk, and from a copy if a process may be writing it, because SQLite itself would write
beside it.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agent_cli.kernel.messages import AssistantMessage, Message, Part, Text, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.session.records import SessionNotFoundError
from agent_cli.takeover import form
from agent_cli.takeover.form import ForeignSession, FoundSession, Seen
from agent_tools.fs.read_state import MENTION
from agent_tools.results import Media, TodoItem
from agent_tools.text import utc_stamp

Record = dict[str, Any]
_MAX_BYTES = 4 << 30
_MAX_COPIES = 3
_NUMBERED = re.compile(r"^(\d+)(?:: |\| )(.*)$", re.MULTILINE)
_NO_TITLE = re.compile(r"(?:New|Child) session - \d{4}-")


def find_opencode(env: Mapping[str, str], home: Path | None, root: Path | None) -> Iterator[FoundSession]:
    """Yield the sessions below a folder, or all. root: None for all."""
    path = form.folder(env, "XDG_DATA_HOME", home, ".local/share") / "opencode/opencode.db"
    rows = "select id, directory, title, time_updated from session where parent_id is null"
    try:
        with _database(path) as base:
            found = [_found(path, *row) for row in base.execute(rows)]
    except (OSError, sqlite3.Error):
        return
    yield from (session for session in found if session.cwd and form.works_in(session.cwd, root))


def _found(path: Path, identity: Any, cwd: Any, title: Any, updated: Any) -> FoundSession:
    title = "" if _NO_TITLE.match(str(title)) else str(title or "")
    stamp = utc_stamp(updated / 1000, milliseconds=True) if isinstance(updated, int | float) else ""
    return FoundSession("opencode", str(identity), path, str(cwd or ""), title, stamp)


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database without a write to its folder. Raises OSError, sqlite3.Error."""
    path = path.resolve(strict=True)
    wal = path.with_name(f"{path.name}-wal")
    if not (wal.exists() and wal.stat().st_size):
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)) as base:
            yield base
        return
    if path.stat().st_size + wal.stat().st_size > _MAX_BYTES:
        raise OSError(f"{path} is too large to be copied while OpenCode runs: leave it first")
    with tempfile.TemporaryDirectory(prefix="agent-") as made:
        copy = Path(made) / path.name
        for _ in range(_MAX_COPIES):
            before = [(p.stat().st_mtime_ns, p.stat().st_size) for p in (path, wal)]
            shutil.copyfile(path, copy)
            shutil.copyfile(wal, copy.with_name(wal.name))
            if before == [(p.stat().st_mtime_ns, p.stat().st_size) for p in (path, wal)]:
                break
        with closing(sqlite3.connect(copy)) as base:
            yield base


def read_opencode(found: FoundSession, env: Mapping[str, str], home: Path | None) -> ForeignSession:
    """Read a session. Raises SessionNotFoundError."""
    try:
        with _database(found.path) as base:
            messages, revert, todos = _rows(base, found.session_id)
    except (OSError, sqlite3.Error) as error:
        raise SessionNotFoundError(f"Cannot read {found.path}: {error}.") from None
    return _session(found, _active(messages, revert), form.todo_items(todos))


Messages = list[tuple[Record, list[Record]]]


def _rows(base: sqlite3.Connection, session_id: str) -> tuple[Messages, Any, list[Record]]:
    parts: dict[str, list[Record]] = {}
    ordered = "where session_id = ? order by"
    for message, data in base.execute(f"select message_id, data from part {ordered} id", (session_id,)):
        parts.setdefault(message, []).append(form.json_object(data) or {})
    rows = base.execute(f"select id, data from message {ordered} time_created, id", (session_id,))
    messages = [({**(form.json_object(data) or {}), "id": name}, parts.get(name, [])) for name, data in rows]
    [(revert,)] = base.execute("select revert from session where id = ?", (session_id,)).fetchall() or [(None,)]
    todos = base.execute(f"select content, status from todo {ordered} position", (session_id,))
    return messages, form.json_object(revert or ""), [{"content": c, "status": s} for c, s in todos]


def _active(messages: Messages, revert: Any) -> Messages:
    """Return what the model is shown: nothing that was reverted, and of a compaction its summary on."""
    if isinstance(revert, dict) and (gone := revert.get("messageID")):
        names = [m.get("id") for m, _ in messages]
        messages = messages[: names.index(gone)] if gone in names else messages
    starts = [n for n, (about, _) in enumerate(messages) if about.get("summary") is True]
    return messages[starts[-1] :] if starts else messages


def _session(found: FoundSession, records: Messages, plan: tuple[TodoItem, ...]) -> ForeignSession:
    messages: list[Message] = []
    seen: list[Seen] = []
    for about, parts in records:
        if about.get("role") == "user" or about.get("summary") is True:
            texts = [p for p in parts if _is_text(p) and not p.get("ignored")]
            text = "\n".join(p["text"] for p in texts if not p.get("synthetic"))
            own = [str(p["text"]) for p in texts if p.get("synthetic")]
            if about.get("summary") is True:
                text = form.summary_message(text)
            elif own and not text:
                text = "<reminder>\n{}\n</reminder>".format("\n".join(own))
            for path, content in filter(None, map(_mentioned, own if text else ())):
                text += form.file_block(path, content)
                seen.append(Seen(MENTION, path, content, 1))
            media = tuple(m for p in parts if p.get("type") == "file" for m in form.media_of_url(p.get("url")))
            if text or media:
                messages.append(UserMessage(text, media))
            continue
        made: list[Part] = []
        results: list[Message] = []
        for part in parts:
            if _is_text(part) and part["text"]:
                made.append(Text(part["text"]))
            elif part.get("type") == "tool" and isinstance(state := part.get("state"), dict):
                given = state["input"] if isinstance(state.get("input"), dict) else {}
                call = ToolCall(str(part.get("callID")), str(part.get("tool")), given)
                made.append(call)
                if state.get("status") in ("completed", "error"):
                    text = str(state.get("output" if state["status"] == "completed" else "error") or "")
                    results.append(ToolMessage(call.id, call.name, text, state["status"] == "error", _attached(state)))
                if state.get("status") == "completed":
                    seen += _seen(call, str(state.get("output") or ""))
        if made:
            messages += [AssistantMessage(tuple(made), model=str(about.get("modelID") or "")), *results]
    return ForeignSession(found, tuple(messages), plan, tuple(seen), named=bool(found.title))


def _mentioned(text: str) -> tuple[str, str] | None:
    """Return the path and the contents of a file that a message mentions, as the program adds it."""
    path = re.match(r"<path>(.*)</path>\n<type>file</type>\n", text)
    return (path[1], "\n".join(line for _, line in _NUMBERED.findall(text))) if path else None


def _is_text(part: Record) -> bool:
    return part.get("type") == "text" and isinstance(part.get("text"), str)


def _attached(state: Record) -> tuple[Media, ...]:
    files = state["attachments"] if isinstance(state.get("attachments"), list) else []
    return tuple(m for f in files if isinstance(f, dict) for m in form.media_of_url(f.get("url")))


def _seen(call: ToolCall, text: str) -> Iterator[Seen]:
    given = call.arguments
    path = str(given.get("filePath") or "")
    if call.name == "read" and (lines := _NUMBERED.findall(text)):
        yield Seen(call.id, path, "\n".join(line for _, line in lines), int(lines[0][0]))
    elif call.name == "write":
        yield Seen(call.id, path, str(given.get("content") or ""), 1)
    elif call.name == "edit":
        yield Seen(call.id, path, str(given.get("newString")), old=str(given.get("oldString")))
    elif call.name == "bash":
        yield Seen(call.id, "", text, command=str(given.get("command") or ""), cwd=str(given.get("workdir") or ""))

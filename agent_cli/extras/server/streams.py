"""Server-sent events of a session: its records, each once and in order, with the answer under way; and its view.

A client names the last record or change that it has (`Last-Event-ID`) and gets those behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_cli.extras.server.live_view import LiveView, encode_event
from agent_cli.extras.server.readers import LiveLine, SessionReader
from agent_cli.extras.server.views import public_event

# Interval of checking the watched files for changes.
POLL_SECONDS = 0.04
# Interval of sending the state of a session while its log grows.
STATE_SECONDS = 1.0
# Interval of the comments that keep a connection open.
PING_SECONDS = 15.0


class FileWatch:
    """Sets events when files change. One task polls all watched files."""

    def __init__(self) -> None:
        self._waiting: dict[Path, tuple[set[asyncio.Event], tuple[int, int, int]]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, path: Path, event: asyncio.Event) -> None:
        events, _ = self._waiting.setdefault(path, (set(), _file_signature(path)))
        events.add(event)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def remove(self, path: Path, event: asyncio.Event) -> None:
        events, _ = self._waiting.get(path, (set(), ()))
        events.discard(event)
        if not events:
            self._waiting.pop(path, None)

    async def _run(self) -> None:
        while self._waiting:
            await asyncio.sleep(POLL_SECONDS)
            for path, (events, mark) in list(self._waiting.items()):
                if (now := _file_signature(path)) != mark and path in self._waiting:
                    self._waiting[path] = events, now
                    for event in events:
                        event.set()


def _file_signature(path: Path) -> tuple[int, int, int]:
    try:
        stat = path.stat()
    except OSError:
        return 0, 0, 0
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


class SessionFeed:
    """The files and the state of a session that a client follows.

    state: returns the current session, None if it is gone.
    version: changes with anything that is not in its log.
    """

    def __init__(
        self, log: Path, live: Path | None, state: Callable[[], Awaitable[Any]], version: Callable[[], int]
    ) -> None:
        self.paths = [log] if live is None else [log, live]
        self.log, self.live, self.state, self.version = log, live, state, version
        self.changed = asyncio.Event()


class RecordEvents:
    """The records of a session behind one, and pieces of the answer under way, each with its offset in the answer."""

    _KINDS = {"TextDelta": "text", "ThinkingDelta": "thinking", "ToolProgress": "tool"}  # noqa: RUF012 - never changed

    def __init__(self, feed: SessionFeed, after: int) -> None:
        self._reader = SessionReader(feed.log, feed.live)
        self._after = after
        self._lengths = {"text": 0, "thinking": 0}

    def read(self) -> list[bytes]:
        """Return some of what has happened since, encoded; nothing if nothing has."""
        found: list[bytes | dict[str, Any]] = []
        for item in self._reader.read():
            if isinstance(item, LiveLine):
                self._add_piece(item.event, found)
                continue
            if item.type == "MessageAdded" and item.data["message"]["type"] == "AssistantMessage":
                self._end_answer(found)
            if item.seq > self._after and item.type != "Partial":
                found.append(encode_event("record", public_event(item), item.seq))
        return [encode_event("live", each) if isinstance(each, dict) else each for each in found]

    def _end_answer(self, found: list[bytes | dict[str, Any]]) -> None:
        """Leave out pieces of an answer that is a record by now, or void."""
        found[:] = [each for each in found if not isinstance(each, dict)]
        self._lengths = dict.fromkeys(self._lengths, 0)

    def _add_piece(self, event: dict[str, Any], found: list[bytes | dict[str, Any]]) -> None:
        kind = self._KINDS.get(event["type"], "")
        if not kind:
            self._end_answer(found)
        elif kind == "tool":
            found.append({"kind": kind, "call_id": event["call_id"], "text": event["text"]})
        else:
            last = found[-1] if found else None
            if isinstance(last, dict) and last["kind"] == kind:
                last["text"] += event["text"]
            else:
                found.append({"kind": kind, "text": event["text"], "offset": self._lengths[kind]})
            self._lengths[kind] += len(event["text"])


class ViewEvents:
    """The changes of a session's view behind one."""

    def __init__(self, view: LiveView, after: str) -> None:
        self._view, self._after = view, after

    def read(self) -> list[bytes]:
        """Return what has changed since, encoded; nothing if nothing has."""
        self._after, found = self._view.after(self._after)
        return found


# What the view itself tells of a session.
_OF_VIEW = ("plan", "agents", "usage", "answer", "changed_files", "decisions", "pending_items", "usage_rows")
_OF_QUESTION = ("call_id", "kind", "summary", "binding", "decided", "decided_by", "form")


def state_changes(now: dict[str, Any], before: dict[str, Any] | None) -> list[bytes]:
    """Encode the state of a session, as far as it has changed: what is not in its log, and its questions."""
    known = before or {}
    changes: list[dict[str, Any]] = []
    if before is None or now["pending_items"] != known["pending_items"]:
        items = [{name: item[name] for name in _OF_QUESTION if name in item} for item in now["pending_items"]]
        changes.append({"type": "pending", "items": items})
    state, earlier = ({name: fact for name, fact in each.items() if name not in _OF_VIEW} for each in (now, known))
    if state != earlier:
        changes.append({"type": "session", "session": state})
    return [encode_event("changes", changes)] if changes else []


async def session_events(
    watch: FileWatch, feed: SessionFeed, read: Callable[[], list[bytes]], tell: Callable[[Any, Any], list[bytes]]
) -> AsyncIterator[bytes]:
    """Yield what `read` returns whenever the session changes, for as long as the client is there.

    tell: encodes a new state of the session, given the one before.
    """
    for path in feed.paths:
        watch.add(path, feed.changed)
    clock = asyncio.get_running_loop().time
    shown: Any = None
    version, due, stale = -1, 0.0, True
    feed.changed.set()
    try:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, due - clock()) if stale else PING_SECONDS):
                    await feed.changed.wait()
            if not feed.changed.is_set() and not stale:
                yield b": ping\n\n"
                continue
            feed.changed.clear()
            # On a thread: a long log takes a while at first.
            while pieces := await asyncio.to_thread(read):
                stale = True
                for piece in pieces:
                    yield piece
            if feed.version() != version or (stale and clock() >= due):
                version, stale, due = feed.version(), False, clock() + STATE_SECONDS
                now = await feed.state()
                if now is None:
                    return
                for piece in tell(now, shown) if now != shown else ():
                    yield piece
                shown = now
    finally:
        for path in feed.paths:
            watch.remove(path, feed.changed)

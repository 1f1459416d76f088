"""Server-sent events: the records of a session's log, each once and in order, and the answer under way.

A client names the last record that it has (`Last-Event-ID`) and gets those behind it, from the file itself. Nothing is
queued for a client: it reads the file at its own pace, so that a slow one costs nothing and loses nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_cli.server.views import public_event
from agent_cli.session.files import open_log, read_bytes
from agent_tools.fs.safe_files import open_regular

# Interval of checking the watched files for changes.
POLL_SECONDS = 0.04
# Interval of sending the state of a session while its log grows.
STATE_SECONDS = 1.0
# Interval of the comments that keep a connection open.
PING_SECONDS = 15.0
# Bytes read at once.
_READ_BYTES = 1 << 20
# Maximum length of the first line of a live file.
_MAX_HEAD_BYTES = 128


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


class LogReader:
    """Reads the records of a growing log behind the one with a number."""

    def __init__(self, path: Path, after: int) -> None:
        self._path, self._last = path, after
        self._inode, self._offset = 0, 0

    def read(self) -> list[dict[str, Any]]:
        """Return the next records; none if there are none now."""
        try:
            stat = self._path.stat()
            if stat.st_ino != self._inode or stat.st_size < self._offset:
                # A repaired log is a new file, with the same numbers.
                self._inode, self._offset = stat.st_ino, 0
            if stat.st_size == self._offset:
                return []
            with open_log(self._path) as source:
                source.seek(self._offset)
                data = source.read(_READ_BYTES)
                while b"\n" not in data and (more := source.read(_READ_BYTES)):
                    data += more
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        found = [line for line in read_bytes(whole) if line is not None and line.seq > self._last]
        for line in found:
            self._last = max(self._last, line.seq)
        return [public_event(line) for line in found if line.type != "Partial"]

    @property
    def last(self) -> int:
        """Number of the last record that was read."""
        return self._last


class LiveReader:
    """Reads the answer under way from a task's live file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._head, self._offset = b"", 0
        self._lengths = {"text": 0, "thinking": 0}

    def read(self) -> list[dict[str, Any]]:
        """Return pieces of text, each with its offset in the answer; those of answers that ended are left out."""
        try:
            fd = open_regular(self._path)
        except OSError:
            return []
        try:
            # Its first line names the worker: the inode of a file that was removed can be the next one's.
            head, whole_line, _ = os.pread(fd, _MAX_HEAD_BYTES, 0).partition(b"\n")
            if not whole_line:
                return []
            if head != self._head:
                self._head, self._offset = head, len(head) + 1
                self._lengths = dict.fromkeys(self._lengths, 0)
            data = bytearray()
            while piece := os.pread(fd, _READ_BYTES, self._offset + len(data)):
                data += piece
        finally:
            os.close(fd)
        whole = bytes(data[: data.rfind(b"\n") + 1])
        self._offset += len(whole)
        return self._pieces(whole)

    def _pieces(self, data: bytes) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for line in data.splitlines():
            with suppress(ValueError, KeyError, TypeError):
                self._piece(json.loads(line), found)
        return found

    def _piece(self, fields: dict[str, Any], found: list[dict[str, Any]]) -> None:
        kind = fields["kind"]
        if kind == "end":
            found.clear()
            self._lengths = dict.fromkeys(self._lengths, 0)
        elif kind == "tool":
            found.append(fields)
        elif kind in self._lengths:
            text = str(fields["text"])
            if found and found[-1]["kind"] == kind:
                found[-1]["text"] += text
            else:
                found.append({"kind": kind, "text": text, "offset": self._lengths[kind]})
            self._lengths[kind] += len(text)


def encode_event(event: str, data: Any, seq: int | None = None) -> bytes:
    """Encode a server-sent event."""
    head = f"id: {seq}\n" if seq is not None else ""
    return f"{head}event: {event}\ndata: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


class SessionFeed:
    """The event stream of a session for one client, from its files and its state.

    state: returns the current session, None if it is gone.
    version: changes with anything that is not in its log.
    """

    def __init__(
        self, log: Path, live: Path | None, state: Callable[[], Awaitable[Any]], version: Callable[[], int]
    ) -> None:
        self.paths = [log] if live is None else [log, live]
        self.log, self.live, self.state, self.version = log, live, state, version
        self.changed = asyncio.Event()


async def session_events(watch: FileWatch, feed: SessionFeed, after: int) -> AsyncIterator[bytes]:
    """Yield the events of a session behind record `after`, for as long as the client is there."""
    records, text = LogReader(feed.log, after), LiveReader(feed.live) if feed.live is not None else None
    for path in feed.paths:
        watch.add(path, feed.changed)
    clock = asyncio.get_running_loop().time
    shown: Any = None
    version, due = -1, 0.0
    started, stale = False, True
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
            # Before the records, whose message is the end of what was written; but not before those of earlier turns.
            for piece in text.read() if text is not None and started else ():
                yield encode_event("live", piece)
            while found := records.read():
                stale = True
                for event in found:
                    yield encode_event("record", event, event["seq"])
            if not started:
                started = True
                feed.changed.set()
            if feed.version() != version or (stale and clock() >= due):
                version, stale, due = feed.version(), False, clock() + STATE_SECONDS
                now = await feed.state()
                if now is None:
                    return
                if now != shown:
                    shown = now
                    yield encode_event("session", now)
    finally:
        for path in feed.paths:
            watch.remove(path, feed.changed)

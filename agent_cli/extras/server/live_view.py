"""The view of a session as it grows, shared by all who look at it, and its changes in the order in which they happen.

Each batch of changes is encoded once and has a number. A client that names the last one that it has gets those behind
it, and the whole view if they are no longer there. Nothing is queued for a client, so a slow one costs nothing.
"""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from threading import RLock
from typing import Any

from agent_cli import SessionView
from agent_cli.extras.server.drawing import LiveDrawing, drawn_entry
from agent_cli.extras.server.readers import LiveLine, SessionReader
from agent_cli.kernel.session.files import LogLine
from agent_cli.kernel.session.view import LIVE_EVENTS
from agent_cli.kernel.session.view_changes import Change, ViewChanges
from agent_tools.record import DecodeError, from_json

# Entries of a view that are sent at first, and at most at once later.
FIRST_ENTRIES, MAX_ENTRIES = 120, 1_000
# Bytes of the changes that are kept for those who reconnect or read slowly.
_MAX_JOURNAL_BYTES = 4 << 20
_LIVE = {cls._tag: cls for cls in LIVE_EVENTS}


def encode_event(event: str, data: Any, at: str | int | None = None) -> bytes:
    """Encode a server-sent event. at: its ID."""
    head = f"id: {at}\n" if at is not None else ""
    return f"{head}event: {event}\ndata: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


class LiveView:
    """The view of one session. Its methods may be called on any thread; hold `lock` while reading `view`."""

    def __init__(self, log: Path, live: Path | None) -> None:
        self.lock = RLock()
        self._reader = SessionReader(log, live)
        self._begin()

    def _begin(self) -> None:
        self._changes, self._restarts = ViewChanges(), self._reader.restarts
        self._epoch, self._number, self._size = os.urandom(6).hex(), 0, 0
        self._journal: deque[tuple[int, bytes]] = deque()
        self._drawing, self._taken = LiveDrawing(), False

    @property
    def view(self) -> SessionView:
        """The view, with all that has happened by now."""
        self.catch_up()
        return self._changes.view

    def catch_up(self) -> None:
        """Take what has happened since."""
        with self.lock:
            news = False
            while found := self._reader.read():
                news = True
                if self._reader.restarts != self._restarts:
                    self._begin()
                for item in found:
                    self._add(item)
            if news and (changes := self._changes.take()):
                self._number += 1
                # Until somebody has the view, there is nobody who could miss a change of it.
                if self._taken:
                    self._keep(encode_event("changes", self._drawn(changes), self._at))
                else:
                    self._drawing.add(self._changes.view.draft.join("text"))

    def _add(self, item: LogLine | LiveLine) -> None:
        view = self._changes.view
        if not isinstance(item, LiveLine):
            view.add_record(item.type, item.data, item.time)
        elif (kind := _LIVE.get(item.event["type"])) is not None:
            try:
                view.apply(from_json(kind, item.event))
            except DecodeError:
                view.bad += 1

    def _keep(self, encoded: bytes) -> None:
        self._journal.append((self._number, encoded))
        self._size += len(encoded)
        while self._size > _MAX_JOURNAL_BYTES and len(self._journal) > 1:
            self._size -= len(self._journal.popleft()[1])

    @property
    def _at(self) -> str:
        return f"{self._epoch}.{self._number}"

    def after(self, at: str) -> tuple[str, list[bytes]]:
        """Return the ID of the newest batch, and the batches behind an ID, or the view if they are not known."""
        with self.lock:
            self.catch_up()
            self._taken = True
            epoch, _, number = at.partition(".")
            known = int(number) if epoch == self._epoch and number.isdecimal() and len(number) < 17 else -1
            first = self._journal[0][0] if self._journal else self._number + 1
            if first - 1 <= known <= self._number:
                return self._at, [encoded for place, encoded in self._journal if place > known]
            snapshot = _with_drawn_entries(self._changes.snapshot(FIRST_ENTRIES))
            whole = LiveDrawing().add(self._changes.view.draft.join("text"))
            return self._at, [encode_event("changes", [*snapshot, {"type": "drawn", **whole}], self._at)]

    def _drawn(self, changes: list[Change]) -> list[Change]:
        """Return changes with what the page shows of them drawn."""
        if any(change["type"] == "draft" for change in changes):
            self._drawing = LiveDrawing()
        text = "".join(change["text"] for change in changes if change["type"] == "text")
        drawn = [{"type": "drawn", **self._drawing.add(text)}] if text else []
        return [*_with_drawn_entries(changes), *drawn]

    def page(self, before: int, limit: int) -> tuple[int, list[Change]]:
        """Return the key of the first of at most `limit` entries before one, and these entries."""
        with self.lock:
            entries = self.view.entries
            end = min(before, len(entries))
            first = max(0, end - limit)
            return first, _with_drawn_entries(self._changes.entries(first, end))


def _with_drawn_entries(changes: list[Change]) -> list[Change]:
    return [{**each, "entry": drawn_entry(each["entry"])} if each["type"] == "entry" else each for each in changes]

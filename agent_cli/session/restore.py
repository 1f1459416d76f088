"""From the lines of a log back to a session; what is damaged is skipped, and every record that was lost is counted.

Records are numbered without gaps, so a number that is missing is a lost record, whatever became of its bytes. Behind
the last good record each damaged piece counts as one. Records that appear twice count once, and those in another order
are put into the right one.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from agent_cli.core.events import Event
from agent_cli.session.codec import VERSION, LogLine, in_order, read, read_bytes
from agent_cli.session.records import Header, Mended, Partial, Restored, SessionNotFoundError
from agent_cli.session.state import KINDS, ReplayState
from agent_tools.record import DecodeError, from_json


class _RecordOrderError(Exception):
    """Records are not in the order of their numbers."""


class _Reading:
    """What the lines of a log add up to, and how many records are missing."""

    def __init__(self) -> None:
        self.state = ReplayState()
        self.header: Header | None = None
        self.first: LogLine | None = None
        self.last: LogLine | None = None
        self.missing = 0
        self.bad = 0
        self.mended = 0
        self._unread = 0
        self._seen: set[str] = set()
        self._pieces = 0

    def take(self, line: LogLine | None) -> None:
        """The next line, or a piece that is none. Raises _Disorder."""
        if line is None:
            self._pieces += 1
            return
        if line.id in self._seen:
            return
        self._seen.add(line.id)
        before = self.last.seq if self.last is not None else 0
        if line.seq < before:
            raise _RecordOrderError
        self._look_back(line.seq - before - 1)
        self.first, self.last = self.first or line, line
        try:
            self._read(line)
        except DecodeError:
            self.bad += 1
            self._unread += 1
            self.state.lost()

    def _look_back(self, gap: int) -> None:
        """Count what is missing, or was in the way, before the record that has come."""
        if gap > 0 or self._pieces:
            self.missing += max(gap, 0)
            self.bad += gap if gap > 0 else 1
            self.state.lost()
        self._pieces = 0

    def _read(self, line: LogLine) -> None:
        if line.type == "Header":
            self.header = from_json(Header, line.data)
        elif line.type == "Partial":
            self.state.history.came(from_json(Partial, line.data))
        elif line.type == "Mended":
            # What was missing or not read then has been told. What did not wait any more must not begin to wait
            # again.
            mended = from_json(Mended, line.data)
            self.mended = mended.missing + self._unread
            if not mended.waiting:
                self.state.turn.release()
        elif (cls := KINDS.get(line.type)) is not None:
            self.state.take(from_json(cls, line.data), line.time)

    def end(self) -> None:
        """The log is at its end: what follows the last good record is lost."""
        if self._pieces:
            self.bad += self._pieces
            self.state.lost()
        self.bad = max(0, self.bad - self.mended)


def records(data: bytes) -> tuple[list[dict[str, Any]], int]:
    """The good records of a log, in order, and how many lines were damaged."""
    found = list(read_bytes(data))
    fields = ("seq", "id", "parent", "type", "time", "data")
    return [{name: getattr(line, name) for name in fields} for line in in_order(found)], found.count(None)


def event_of(record: dict[str, Any]) -> Event | None:
    """The event of a record; None for the header and for kinds that carry no state. Raises DecodeError."""
    cls = KINDS.get(record["type"])
    found: Event | None = from_json(cls, record["data"]) if cls else None
    return found


def restore(source: bytes | Iterable[bytes], name: str) -> Restored:
    """Rebuild a session from its log: bytes, or lines as a file gives them that can be read from its beginning again.

    Raises SessionNotFoundError where there is nothing to go on with, which an empty file alone is allowed to hide.
    """
    lines = io.BytesIO(source) if isinstance(source, bytes) else source
    reading = _Reading()
    try:
        for line in read(lines):
            _check_version(line, name)
            reading.take(line)
    except _RecordOrderError:
        reading = _sorted_out(lines)
    reading.end()
    return _restored(reading, name)


def _sorted_out(lines: Iterable[bytes]) -> _Reading:
    """A reading of records that are not in their order; a damaged piece stays before what it stood before."""
    if isinstance(lines, io.IOBase):
        lines.seek(0)
    found = list(read(lines))
    tail = next((n for n, line in enumerate(reversed(found)) if line is not None), 0)
    reading = _Reading()
    for line in in_order(found):
        reading.take(line)
    for _ in range(tail):
        reading.take(None)
    return reading


def _check_version(line: LogLine | None, name: str) -> None:
    if line is not None and line.version > VERSION:
        raise SessionNotFoundError(f"Session {name} was written by a newer version of agent; resume it there.")


def _restored(reading: _Reading, name: str) -> Restored:
    state, header, first, last = reading.state, reading.header, reading.first, reading.last
    history = state.history.end()
    if first is None or last is None or not (history or (header and not reading.bad)):
        what = f"{_count(max(reading.bad, 1))} in its file, which is left as it is"
        raise SessionNotFoundError(
            f"Nothing that was said in session {name} can be read: {what}. Begin a new one without -c."
        )
    saved, model = state.turn.began.saved, state.turn.began.model
    told = Header(name, str(saved.get("cwd", "")), str(saved.get("root", "")), model, "", (), "")
    return Restored(
        header=header or told,
        history=history,
        seen=state.seen,
        plan=state.plan,
        plans=tuple(state.plans),
        shell=state.shell,
        usage=state.usage,
        last=state.last,
        seq=last.seq,
        parent=last.id,
        created=first.time,
        updated=last.time,
        bad=reading.bad,
        waiting=state.waiting(),
        interrupted=state.interrupted(),
        model=model or (header or told).model,
        missing=reading.missing,
        rebuilt=header is None,
        started=frozenset(state.started & state.history.open.keys()),
        tokens=state.tokens,
        compactions=tuple(state.window.compactions),
        pins=tuple(state.window.pins),
        report=state.window.report,
        name=state.name,
    )


def _count(bad: int) -> str:
    return "there is a damaged record" if bad == 1 else f"there are {bad} damaged records"

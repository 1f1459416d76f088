"""Restore a session from the lines of its log; skip damaged ones and count every lost record.

Records are numbered without gaps, so a missing number is a lost record. After the last valid record each damaged piece
counts as one. Duplicates count once, and records out of order are sorted.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from agent_cli.kernel.events import Rewound
from agent_cli.kernel.session.files import VERSION, LogLine, read, read_bytes, sort_records
from agent_cli.kernel.session.records import Header, Mended, Partial, Restored, SessionNotFoundError
from agent_cli.kernel.session.state import KINDS, ReplayState
from agent_tools.record import DecodeError, from_json


class _RecordOrderError(Exception):
    """Records are not in sequence."""


class _LogReplay:
    """Accumulates the lines of a log and counts missing records."""

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

    def feed(self, line: LogLine | None) -> None:
        """Process the next line, or None for a damaged piece. Raises _RecordOrderError."""
        if line is None:
            self._pieces += 1
            return
        if line.id in self._seen:
            return
        self._seen.add(line.id)
        before = self.last.seq if self.last is not None else 0
        if line.seq < before:
            raise _RecordOrderError
        self._count_gap(line.seq - before - 1)
        self.first, self.last = self.first or line, line
        try:
            self._read(line)
        except DecodeError:
            self.bad += 1
            self._unread += 1
            self.state.mark_lost()

    def _count_gap(self, gap: int) -> None:
        """Count the records that are missing or damaged before the current one."""
        if gap > 0 or self._pieces:
            self.missing += max(gap, 0)
            self.bad += gap if gap > 0 else 1
            self.state.mark_lost()
        self._pieces = 0

    def _read(self, line: LogLine) -> None:
        if line.type == "Header":
            self.header = from_json(Header, line.data)
        elif line.type == "Partial":
            self.state.history.add_partial(from_json(Partial, line.data))
        elif line.type == "Mended":
            # Earlier gaps were reported by the repair. A turn that no longer waited then must not wait again.
            mended = from_json(Mended, line.data)
            self.mended = mended.missing + self._unread
            if not mended.waiting:
                self.state.turn.clear_checkpoint()
        elif (cls := KINDS.get(line.type)) is not None:
            self.state.apply(from_json(cls, line.data), line.time)

    def end(self) -> None:
        """Finish the log: pieces after the last valid record are lost records."""
        if self._pieces:
            self.bad += self._pieces
            self.state.mark_lost()
        self.bad = max(0, self.bad - self.mended)


def records(data: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the valid records of a log, in order, and the number of damaged lines."""
    found = list(read_bytes(data))
    fields = ("seq", "id", "parent", "type", "time", "data")
    return [{name: getattr(line, name) for name in fields} for line in sort_records(found)], found.count(None)


def restore(source: bytes | Iterable[bytes], name: str, keep: int | None = None) -> Restored:
    """Restore a session from its log.

    source: bytes, or lines of a file that can seek to its start.
    keep: restore it as if the user had rewound it to this many messages.

    Raises SessionNotFoundError if no message can be read; a log with only an intact header is an empty session.
    """
    lines = io.BytesIO(source) if isinstance(source, bytes) else source
    replay = _LogReplay()
    try:
        for line in read(lines):
            _check_version(line, name)
            replay.feed(line)
    except _RecordOrderError:
        replay = _replay_sorted(lines)
    replay.end()
    if keep is not None:
        state = replay.state
        state.history.flush()
        plan = next((items for count, items in reversed(state.plans) if count <= keep), ())
        state.apply(Rewound(keep, plan), replay.last.time if replay.last else "")
    return _to_restored(replay, name)


def _replay_sorted(lines: Iterable[bytes]) -> _LogReplay:
    """Replay records that are out of order; a damaged piece stays before its successor."""
    if isinstance(lines, io.IOBase):
        lines.seek(0)
    found = list(read(lines))
    tail = next((n for n, line in enumerate(reversed(found)) if line is not None), 0)
    replay = _LogReplay()
    for line in sort_records(found):
        replay.feed(line)
    for _ in range(tail):
        replay.feed(None)
    return replay


def _check_version(line: LogLine | None, name: str) -> None:
    if line is not None and line.version > VERSION:
        raise SessionNotFoundError(f"Session {name} was written by a newer version of agent; resume it there.")


def _to_restored(replay: _LogReplay, name: str) -> Restored:
    state, header, first, last = replay.state, replay.header, replay.first, replay.last
    history = state.history.end()
    if first is None or last is None or not (history or (header and not replay.bad)):
        what = f"{_count(max(replay.bad, 1))} in its file, which is not changed"
        raise SessionNotFoundError(f"No message of session {name} can be read: {what}. Start a new one without -c.")
    saved, model = state.turn.began.saved, state.turn.began.model
    text = Header(name, str(saved.get("cwd", "")), str(saved.get("root", "")), model, "", (), "")
    return Restored(
        header=header or text,
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
        bad=replay.bad,
        waiting=state.waiting(),
        interrupted=state.interrupted(),
        model=model or (header or text).model,
        missing=replay.missing,
        rebuilt=header is None or not header.begun,
        started=frozenset(state.started & state.history.open.keys()),
        tokens=state.tokens,
        compactions=tuple(state.window.compactions),
        pins=tuple(state.window.pins),
        report=state.window.report,
        left_out=tuple(state.window.left_out.values()),
        refusal=state.window.refusal,
        name=state.name,
        mode=state.turn.mode,
        counts=state.counts,
        agents=tuple(agent.restored(call_id) for call_id, agent in state.agents.items()),
    )


def _count(bad: int) -> str:
    return "there is a damaged record" if bad == 1 else f"there are {bad} damaged records"

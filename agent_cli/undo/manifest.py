"""The records of a session, as an append-only file of JSON lines: turns, the state around each call, undos.

A state is written before the call runs; if the program dies, the call has no end and its changes are uncertain. A line
that cannot be read is skipped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from agent_cli.undo.scanner import MAX_STATE_BYTES, Snapshot
from agent_tools.fs.safe_files import open_regular, private_folder, read_regular
from agent_tools.record import DecodeError, Value, from_json, to_json


class RecordedTurn(Value, tag="Turn"):
    """A turn that changed something.

    text: the user's message.
    messages: length of the history before it.
    agent: it is that of a sub-agent in the background.
    """

    turn: int
    text: str
    messages: int
    model: str
    time: str
    agent: bool = False


class Before(Value, tag="Before"):
    """The state before a call runs.

    named: files outside of the folders, or ignored, that it may change.
    left_out: by folder, the record of what is not in the snapshot (see `left_out`), "" if unknown; only in the first
        whole snapshot of a turn.
    """

    turn: int
    call: str
    tool: str
    summary: str
    shots: tuple[Snapshot, ...]
    head: str = ""
    time: str = ""
    named: tuple[str, ...] = ()
    left_out: dict[str, str] = {}  # noqa: RUF012 - never changed


class After(Value, tag="After"):
    """The state after a call. Contains only differences from before: only those `shots` that differ."""

    call: str
    shots: tuple[Snapshot, ...]
    head: str = ""


class Undone(Value, tag="Undone"):
    """Files were restored, by an undo of turns or a redo of the undo number `of`; with the state around it.

    Without turns it reverted a part of the turn `part` (0: the running one), and is a change of that turn.
    """

    kind: str
    turns: tuple[int, ...]
    before: tuple[Snapshot, ...]
    after: tuple[Snapshot, ...]
    of: int = -1
    time: str = ""
    part: int = 0


Record = RecordedTurn | Before | After | Undone


class Manifest:
    """The records of one session."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, record: Record) -> None:
        """Append a record. Raises OSError."""
        line = json.dumps(to_json(record), separators=(",", ":")).encode("ascii") + b"\n"
        private_folder(self.path.parent)
        descriptor = open_regular(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            view = memoryview(line)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)

    def read(self) -> list[Record]:
        """Return all records, in order; none if the file does not exist."""
        return list(self._records())

    def latest_turns(self) -> Iterator[RecordedTurn]:
        """Yield the turns, the latest first; only what is taken of them is decoded."""
        return (record for record in self._records(b'"Turn"', -1) if isinstance(record, RecordedTurn))

    def _records(self, containing: bytes = b"", step: int = 1) -> Iterator[Record]:
        try:
            data = read_regular(self.path, MAX_STATE_BYTES)
        except OSError:
            return
        for line in data.split(b"\n")[::step]:
            try:
                if line and containing in line:
                    yield from_json(Record, json.loads(line))
            except (ValueError, DecodeError):
                continue


class RecordedChange(Value, tag="Change"):
    """A change by one call, or one undo: the states around it.

    after: None if it never ended.
    left_out: by folder, the record of what was not in the first snapshot of its turn.
    """

    turn: int
    call: str
    tool: str
    summary: str
    before: tuple[Snapshot, ...]
    after: tuple[Snapshot, ...] | None
    heads: tuple[str, str] = ("", "")
    time: str = ""
    named: tuple[str, ...] = ()
    left_out: dict[str, str] = {}  # noqa: RUF012 - never changed


class CheckpointHistory(Value):
    """A session as recorded.

    undone: turns that are currently undone.
    ops: the undos and redos, numbered by their position.
    open_undos: the undos that a redo could revert, latest last.
    """

    turns: dict[int, RecordedTurn]
    changes: tuple[RecordedChange, ...]
    undone: frozenset[int]
    ops: tuple[Undone, ...]
    open_undos: tuple[int, ...]


def read_history(records: list[Record]) -> CheckpointHistory:
    """Build the history from records."""
    turns: dict[int, RecordedTurn] = {}
    started: dict[str, Before] = {}
    changes: list[RecordedChange] = []
    # The position of the latest call with an ID: after a rewind some providers reuse IDs.
    places: dict[str, int] = {}
    undone: set[int] = set()
    ops: list[Undone] = []
    redoable: list[int] = []
    # By turn, from its first whole snapshot; none in the logs of older versions.
    left_out: dict[int, dict[str, str]] = {}
    for record in records:
        if isinstance(record, Undone) and not record.turns and turns:
            call = f"undone {len(ops)}"
            turn = record.part or max(turns)
            changes.append(RecordedChange(turn, call, record.kind, "", record.before, record.after, time=record.time))
        match record:
            case RecordedTurn():
                turns[record.turn] = record
                redoable.clear()
            case Before():
                started[record.call] = record
                places[record.call] = len(changes)
                if any(shot.base != "/" for shot in record.shots):
                    left_out.setdefault(record.turn, record.left_out)
                changes.append(_change(record, None, left_out.get(record.turn, {})))
            case After(call=call) if call in started:
                changes[places[call]] = _change(started[call], record, changes[places[call]].left_out)
            case Undone(kind="redo", of=of):
                ops.append(record)
                undone -= set(record.turns)
                redoable = [n for n in redoable if n != of]
            case Undone():
                redoable.append(len(ops))
                ops.append(record)
                undone |= set(record.turns)
    return CheckpointHistory(turns, tuple(changes), frozenset(undone), tuple(ops), tuple(redoable))


def _change(before: Before, after: After | None, left_out: dict[str, str]) -> RecordedChange:
    shots: tuple[Snapshot, ...] | None = None
    if after is not None:
        changed = {s.base: s for s in after.shots}
        shots = tuple(changed.get(s.base, s) for s in before.shots)
    heads = (before.head, after.head if after else before.head)
    b = before
    return RecordedChange(b.turn, b.call, b.tool, b.summary, b.shots, shots, heads, b.time, b.named, left_out)

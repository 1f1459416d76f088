"""What the session log costs: opening long sessions, beside `json.loads` of every line; appending to a long one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from agent_cli.kernel.events import Event, MessageAdded, ToolFinished, ToolRequested, ToolStarted
from agent_cli.kernel.messages import AssistantMessage, Text, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.session.files import VERSION, encode_record
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header
from agent_cli.kernel.session.restore import restore
from agent_tools.record import to_json
from benchmarks.measure import BenchmarkError
from benchmarks.stage import Stage
from benchmarks.table import Row

HEADER = Header("s", "/w", "/w", "m", "Be good.", ("Read",), "1")
LINE = 'def parse(text: str) -> list[str]:  # "quoted", \u00e9\n'
RECORDS = 10_000
SHORT, LONG = 10, 100_000
APPENDS = 500


def sessions(stage: Stage, runs: int) -> Iterator[Row]:
    """The rows: opening 20 and 200 MB, and appending at both ends."""
    path = stage.home / "bench.jsonl"
    for megabytes, goal in ((20, 1.0), (200, 10.0)):
        write(path, RECORDS, megabytes * 1_000_000 // RECORDS)
        repeats = max(1, runs // 2) if megabytes < 100 else 1
        taken = [(cpu_open(path), cpu_floor(path)) for _ in range(repeats)]
        ours, floor = median(t[0] for t in taken), median(t[1] for t in taken)
        met = ours < goal
        yield Row("sessions", f"open {megabytes} MB, {RECORDS:,} records, CPU", ours, "s", f"< {goal:g} s", met, floor)
    times = []
    for records in (SHORT, LONG):
        write(path, records, 100)
        times.append(appends(path, records) * 1e6)
    flat = times[1] <= 1.5 * times[0]
    what = f"append, record {SHORT}"
    yield Row("sessions", what, times[0], "us", "", None)
    yield Row("sessions", f"  record {LONG:,}", times[1], "us", "flat: <= 1.5x the first", flat, times[0])
    path.unlink()


def turn(number: int, size: int) -> tuple[Event, ...]:
    """The records of one call; their bytes are mostly the result."""
    call = ToolCall(f"c{number}", "Read", {"file_path": "parse.py"})
    text = (LINE * (size // len(LINE) + 1))[:size]
    return (
        MessageAdded(UserMessage("Go on.")),
        MessageAdded(AssistantMessage((Text("I look."), call))),
        ToolRequested(call.id, call.name, call.arguments, "Read parse.py"),
        ToolStarted(call.id, call.name),
        MessageAdded(ToolMessage(call.id, call.name, text)),
        ToolFinished(call.id, call.name, False, 3),
    )


def write(path: Path, records: int, size: int) -> None:
    """A log of so many records, of `size` bytes each on average."""
    parent = ""
    with path.open("wb") as file:
        events = (event for number in range(records) for event in turn(number, size * 5))
        for seq in range(1, records + 1):
            value = HEADER if seq == 1 else next(events)
            fields = {"type": type(value).__name__, "time": "2026-01-01T00:00:00.000Z", "data": to_json(value)}
            line = encode_record({"v": VERSION, "seq": seq, "id": f"{seq:x}-00000000", "parent": parent, **fields})
            file.write(line + b"\n")
            parent = f"{seq:x}-00000000"


def cpu_open(path: Path) -> float:
    began = time.process_time()
    with path.open("rb") as file:
        found = restore(file, "s")
    if found.bad or found.seq != RECORDS:
        raise BenchmarkError("records are missing")
    return time.process_time() - began


def cpu_floor(path: Path) -> float:
    began = time.process_time()
    with path.open("rb") as file:
        kept = [json.loads(line) for line in file]
    if len(kept) != RECORDS:
        raise BenchmarkError("lines are missing")
    return time.process_time() - began


def appends(path: Path, records: int) -> float:
    """The median seconds that one more record takes; of a kind that is not synced."""
    log = SessionLog(path, print)
    log.acquire()
    log.continue_from(records, f"{records:x}-00000000")
    event = MessageAdded(AssistantMessage((Text("I look at the next file."),)))
    samples = []
    for _ in range(APPENDS):
        began = time.perf_counter()
        log.record(event)
        samples.append(time.perf_counter() - began)
    log.close()
    return median(samples)

"""What front ends make of the same events, byte for byte.

`python -m tests.session.test_live_front_ends` writes the files anew, to look at the difference.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agent_cli.kernel.events import UNLOGGED, Event
from agent_cli.kernel.message_ids import MessageIds
from agent_cli.kernel.session.live import LiveSession
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header
from agent_cli.kernel.session.transcripts.entries import EntryContext
from agent_cli.kernel.session.transcripts.writer import TranscriptWriter
from agent_cli.shells.acp.updates import SessionUpdates
from agent_cli.shells.headless.output import ProgressPrinter, RunListener
from agent_cli.shells.headless.stream_json import StreamJson
from agent_cli.shells.terminal.render.events import EventRenderer
from agent_cli.shells.terminal.render.transcript import Transcript
from tests.support.live_events import SCENES, events_of

HERE = Path(__file__).parent
# What is random, or of the clock.
RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
CLOCK = re.compile(r'"(timestamp|duration_ms|totalDurationMs|cwd|version)":(\d+|"[^"]*")')


def as_lines(found: Iterable[Any]) -> str:
    text = "".join(f"{json.dumps(each, separators=(',', ':'), default=str)}\n" for each in found)
    return CLOCK.sub(r'"\1":"?"', RANDOM.sub("?", text))


def stream_json(events: list[Event], *, partial: bool) -> str:
    lines: list[Any] = []
    stream = StreamJson(
        lines.append, "s", "claude-x", partial, partial, cwd="/nowhere", subagent_text=partial, states=partial,
        progress=partial, ids=MessageIds("s"),
    )  # fmt: skip
    view = LiveSession()
    for event in events:
        stream.show(view.follow(event))
    stream.close()
    return as_lines(lines)


def updates(events: list[Event]) -> str:
    sent: list[Any] = []
    show = SessionUpdates(sent.append, Path("/w"), Path("/w"), lambda: (500, 1000))
    for event in events:
        show(event)
    return as_lines([*sent, {"cost": show.view.spent.cost}])


def transcripts(events: list[Event]) -> str:
    """As it is written along, and from the log at the end: both have the same entries."""
    written: dict[str, list[Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        log = SessionLog(Path(folder, "s.jsonl"), print)
        log.create(Header("s", "/w", "/w", "m", "", (), ""))
        for kind in ("live", "later"):
            about = EntryContext("s", "/w", "", "1")
            writer = TranscriptWriter(log, Path(folder, kind, "s.jsonl"), about, print)
            if kind == "live":
                writer.begin()
                for event in events:
                    log.record(event)
                    if not isinstance(event, UNLOGGED):
                        writer(event)
            else:
                writer.begin()
            files = sorted(Path(folder, kind).rglob("*.json*"))
            written[kind] = [
                [str(f.relative_to(Path(folder, kind))), json.loads(line)] for f in files for line in f.open()
            ]
        log.close()
    assert as_lines(written["live"]) == as_lines(written["later"])
    return as_lines(written["live"])


def progress(events: list[Event]) -> str:
    said: list[str] = []
    for verbose in (False, True):
        printer = ProgressPrinter(said.append, verbose, denials=not verbose)
        follow = RunListener(printer.show, pieces=verbose, view=LiveSession() if verbose else None)
        for event in events:
            follow(event)
        said.append("")
    return "\n".join(said)


def screens(events: list[Event]) -> str:
    shown = ""
    for verbose in (False, True):
        file = io.StringIO()
        show = EventRenderer(
            Console(file=file, width=80, force_terminal=verbose, no_color=True, soft_wrap=True), verbose=verbose
        )
        for event in events:
            show(event)
        shown += f"{file.getvalue()}\n{show.view.spent} {show.view.context}\n"
    for folded in (False, True):
        kept = io.StringIO()
        live = Transcript(Console(file=kept, width=80, soft_wrap=True, no_color=True), kept, folded=folded)
        live.writer.mark_printed()
        state = ""
        for event in events:
            live(event)
            rows, before = live.writer.take(), state
            state = f"[{live.view.doing} {live.received} {live.plan_touched} {live.writer.agents}]"
            shown += "".join(f"{row}\n" for row in (*rows, *[state] * (state != before)))
        view = live.details.view()
        for item in view.items if view is not None else ():
            lines = item.detail(80) if item.detail is not None else ()
            shown += "\n".join([f"{item.mark} {item.label}", *(f"  {line.plain}" for line in lines)]) + "\n"
    return "\n".join(line.rstrip() for line in shown.split("\n"))


FRONT_ENDS: dict[str, Callable[[list[Event]], str]] = {
    "stream_json": lambda events: stream_json(events, partial=False),
    "partial": lambda events: stream_json(events, partial=True),
    "updates": updates,
    "transcripts": transcripts,
    "progress": progress,
    "screens": screens,
}


CASES = [
    (name, front) for name in (*SCENES, "session") for front in FRONT_ENDS if (name, front) != ("session", "partial")
]


@pytest.mark.parametrize(("name", "front"), CASES)
def test_a_front_end_shows_the_same_events_as_before(name: str, front: str) -> None:
    assert FRONT_ENDS[front](events_of(name)) == (HERE / f"golden/{name}.{front}.txt").read_text("utf-8")


if __name__ == "__main__":
    for name, front in CASES:
        (HERE / f"golden/{name}.{front}.txt").write_text(FRONT_ENDS[front](events_of(name)), "utf-8")

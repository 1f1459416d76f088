"""Keys that are typed while much is drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers import script
from tests.pty.drawn import Drawn


@pytest.mark.slow
def test_a_thousand_keys_during_a_stream_arrive_as_they_were_typed(work: Path) -> None:
    stream = {"text": "word " * 6_000, "pause": 0.002}
    model = script(work / "s.toml", [stream, {"text": "Heard."}])
    lines = ["".join(chr(33 + (7 * n + row) % 90) for n in range(99)).replace("\\", "x") for row in range(10)]
    with Drawn(["--model", model, "go"], work) as screen:
        screen.wait("word word")
        for line in lines:
            # In pieces, as fast hands and slow lines send them.
            for start in range(0, len(line), 7):
                screen.type(line[start : start + 7])
                screen.read(0.002)
            screen.type("\r")
        screen.wait("more are queued")
        assert b"word" in screen.raw
        screen.type("\x03")
        screen.wait("interrupted")
        screen.type("\x03\x03")
        screen.end()
    history = next((work.parent / "home").rglob("history.jsonl"))
    assert [json.loads(line) for line in history.read_text().splitlines()] == lines

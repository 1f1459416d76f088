"""Keys that are typed while much is drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.pty_screen import Drawn
from tests.support.scripts import script


@pytest.mark.slow
def test_a_thousand_keys_during_a_stream_arrive_as_they_were_typed(work: Path) -> None:
    stream = {"text": "word " * 60_000, "pause": 0.02}
    model = script(work / "s.toml", [stream, {"text": "Heard."}])
    lines = ["".join(chr(33 + (7 * n + row) % 90) for n in range(99)).replace("\\", "x") for row in range(10)]
    with Drawn(["--model", model, "go"], work, columns=120) as screen:
        screen.wait("word word")
        for line in lines:
            # In pieces, as fast hands and slow lines send them.
            for start in range(0, len(line), 7):
                screen.type(line[start : start + 7])
                screen.read(0.002)
            # The next line in the same read as the Enter would be a paste.
            screen.until(lambda typed=line: typed[-20:] in screen.input_line(), "a line")  # type: ignore[misc]
            screen.type("\r")
            screen.until(lambda typed=line: typed[-20:] not in screen.input_line(), "its end")  # type: ignore[misc]
        screen.wait("more are queued")
        assert b"word" in screen.raw
        screen.type("\x03")
        screen.wait("interrupted")
        screen.type("\x03\x03")
        screen.end()
    history = next((work.parent / "home").rglob("input.history"))
    assert [json.loads(line) for line in history.read_text().splitlines()] == lines


def test_what_was_typed_and_queued_survives_a_kill(work: Path) -> None:
    slow = {"text": "word " * 400, "pause": 0.05}
    model = script(work / "s.toml", [slow, {"text": "Again."}])
    folded = "\n".join(f"pasted {n}" for n in range(5))
    with Drawn(["--model", model, "go"], work) as screen:
        screen.wait("word word")
        screen.line("a queued one")
        screen.type(f"half a \x1b[200~{folded}\x1b[201~ sen")
        screen.wait("5 lines] sen")
        state = work.parent / "home" / "state"
        screen.until(lambda: any(b"] sen" in p.read_bytes() or b"4 sen" in p.read_bytes() for p in found(state)))
        screen.child.kill()
        screen.child.wait()
    with Drawn(["--model", model, "--continue"], work) as screen:
        screen.ready()
        screen.wait("is in the line again")
        screen.wait("> a queued one")
        screen.wait("pasted 4 sen")
        screen.type("\x03\x04")
        screen.end()
    with Drawn(["--model", model, "--continue"], work) as screen:
        screen.ready()
        screen.until(lambda: screen.input_line() == ">", "an empty line")
        screen.leave()


def test_what_was_recovered_survives_a_second_kill_before_any_key(work: Path) -> None:
    model = script(work / "s.toml", [])
    state = work.parent / "home" / "state"
    for start in range(3):
        with Drawn(["--model", model], work) as screen:
            screen.ready()
            if start == 0:
                screen.type("half a sentence")
            screen.wait("> half a sentence")
            screen.until(lambda: any(b"half a sentence" in path.read_bytes() for path in found(state)))
            screen.child.kill()
            screen.child.wait()


def found(state: Path) -> list[Path]:
    return [path for path in state.rglob("*.draft") if not path.name.startswith(".")]

"""The completion record in the real program: a line at the end of a turn, and a view on a key."""

from __future__ import annotations

from pathlib import Path

from tests.support.pty_screen import Drawn
from tests.support.scripts import call, script

CHECK = "python3 -m unittest test_m.py"


def todo(first: str, second: str) -> dict[str, object]:
    steps = (("write m", first), ("write n", second))
    return call("TodoWrite", todos=[{"content": text, "status": status} for text, status in steps])


def test_a_key_shows_each_step_with_what_checked_it(work: Path) -> None:
    (work / "test_m.py").write_text("import unittest\nclass T(unittest.TestCase):\n  def test_x(self): pass\n")
    replies = [
        {"calls": [todo("in_progress", "pending")]},
        {"calls": [call("Write", file_path="m.py", content="x = 1\n"), call("Bash", command=CHECK)]},
        {"calls": [todo("completed", "in_progress")]}, {"calls": [call("Bash", command="echo y > n.py")]},
        {"calls": [todo("completed", "completed")]}, {"text": "Written."},
    ]  # fmt: skip
    flags = ["--trust", "--permission-mode", "bypassPermissions"]
    with Drawn([*flags, "--model", script(work / "s.toml", replies)], work) as screen:
        screen.ready()
        screen.line("write them")
        screen.wait("2 of 2 steps, 1 with an outdated check, not checked after the last change: n.py")
        screen.type("a draft")
        screen.type("\x18\x12")
        screen.wait("[x] 1. write m")
        screen.wait(f"check: {CHECK}: exit 0")
        screen.wait("(Write m.py (1 line)); n.py was")
        screen.wait("not checked: no test, build or linter ran after the last change")
        screen.type("q")
        screen.wait("> a draft")
        screen.type("\x15")
        screen.leave()


OPENED, CLOSED = b"\x1b[?1049h", b"\x1b[?1049l"


def test_what_is_typed_with_or_right_after_the_key_of_a_view_is_for_that_view(work: Path) -> None:
    with Drawn(["--trust", "--model", script(work / "s.toml", [{"text": "Written."}])], work) as screen:

        def seen(mark: bytes, times: int) -> None:
            screen.until(lambda: screen.raw.count(mark) == times, f"{mark!r} for the {times}. time")

        screen.ready()
        screen.line("write it")
        screen.wait("Written.")
        views = 0
        for number, key in enumerate(("\x18\x12", "\x0f")):
            screen.type(f"{key}\x1b")
            views += 1
            seen(CLOSED, views)
            screen.type(key)
            views += 1
            seen(OPENED, views)
            screen.type("\x1b")
            seen(CLOSED, views)
            screen.type(f"{key}qdraft {number}")
            views += 1
            seen(CLOSED, views)
            screen.wait(f"> draft {number}")
            screen.type("\x15")
            screen.gone(f"> draft {number}")
        screen.leave()

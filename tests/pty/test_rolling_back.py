"""After a turn that did not end well: what it left is said, or offered to be undone, where a user sits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.program import agent
from tests.support.pty_screen import GRAVE_REST, Drawn
from tests.support.pty_session import Terminal
from tests.support.scripts import call, script

WRITE = {"calls": [call("Write", file_path="left.txt", content="x\n")]}
FAILS = {"error": {"kind": "bad_request", "message": "that was too much"}}
ASKS = {"calls": [call("Bash", command="make all")]}


def begin(work: Path, *replies: dict[str, Any]) -> list[str]:
    model = script(work.parent / "s.toml", list(replies))
    return ["--trust", "--permission-mode", "acceptEdits", "--model", model, "go"]


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_cancelled_turn_is_rolled_back_on_a_yes(work: Path, answer: str) -> None:
    plan = {"calls": [call("ExitPlanMode", plan="1. More of it")]}
    terminal = Terminal(["--plain", *begin(work, WRITE, plan)], work)
    terminal.expect("Approve this plan?")
    terminal.type("n")
    shown = terminal.expect("Roll back? [y/N]")
    assert "This turn left 1 file created." in shown and "delete: left.txt" in shown
    terminal.type(answer)
    terminal.expect("Reverted 1 file." if answer == "y" else "/undo undoes it later.")
    assert (work / "left.txt").exists() is (answer == "n")
    terminal.leave()


@pytest.mark.parametrize("front", ["--plain", ""])
def test_a_failed_turn_keeps_its_work_and_the_next_message_is_sent_at_once(work: Path, front: str) -> None:
    """A provider without credit once ended in a question whose first answer threw the work away."""
    arguments = begin(work, WRITE, FAILS, {"text": "Carried on."})
    with Drawn([*filter(None, [front]), *arguments], work) as drawn:
        drawn.wait("This turn left 1 file created. /undo reverts that.")
        drawn.rest()
        drawn.type("continue\r")
        drawn.wait("Carried on.")
        assert "Roll back?" not in drawn.text()
        assert (work / "left.txt").exists()
        drawn.leave()


def test_a_turn_that_a_no_has_ended_is_offered_in_the_application(work: Path) -> None:
    plan = {"calls": [call("ExitPlanMode", plan="1. More of it")]}
    with Drawn(begin(work, WRITE, plan), work) as drawn:
        drawn.wait("Yes, carry it out")
        drawn.rest()
        drawn.type("n")
        drawn.wait("Roll back?")
        drawn.rest(GRAVE_REST)
        drawn.type("y")
        drawn.wait("Reverted 1 file.")
        assert not (work / "left.txt").exists()
        drawn.leave()


@pytest.mark.parametrize("replies", [(ASKS, WRITE), (WRITE, ASKS)])
def test_a_call_that_was_refused_is_a_line_only(work: Path, replies: tuple[dict[str, Any], ...]) -> None:
    terminal = Terminal(["--plain", *begin(work, *replies, {"text": "Done otherwise."})], work)
    terminal.expect("Allow?")
    terminal.type("n")
    shown = terminal.expect("/undo reverts that.")
    assert "Roll back?" not in shown
    terminal.leave()
    assert (work / "left.txt").exists()


def test_a_pipe_is_not_asked(work: Path) -> None:
    done = agent(["--plain", *begin(work, WRITE, FAILS)], work, stdin="/exit\n")
    assert "This turn left 1 file created. /undo reverts that." in done.stdout
    assert "Roll back?" not in done.stdout

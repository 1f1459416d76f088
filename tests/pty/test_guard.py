"""A line that was under way when a question came is no answer to it, line by line as in the application."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pty_session import Terminal
from tests.support.scripts import call, script

RUN = {"calls": [call("Bash", command="touch made")]}
QUESTION = {"question": "Which one?", "options": [{"label": "A"}, {"label": "B"}]}
ASK = {"calls": [call("AskUserQuestion", questions=[QUESTION])]}


def session(work: Path, first: dict[str, object], *flags: str) -> Terminal:
    model = script(work.parent / "s.toml", [first, {"text": "All done."}])
    return Terminal(["--model", model, "--plain", *flags, "please"], work)


@pytest.mark.parametrize("typed", ["y\r", "y\ry\ry\r", "yes\r", "y"])
def test_what_is_typed_as_the_question_comes_does_not_approve(work: Path, typed: str) -> None:
    terminal = session(work, RUN)
    terminal.expect("? explain")
    terminal.send(typed)
    terminal.expect("Allow?")
    assert not (work / "made").exists()
    terminal.type("no")
    terminal.expect("All done.")
    assert not (work / "made").exists()
    terminal.leave()


def test_whoever_goes_on_typing_is_not_asked_before_they_stop(work: Path) -> None:
    terminal = session(work, RUN)
    terminal.expect("? explain")
    for letter in "and then please tell me why\ry\r":
        terminal.send(letter)
        assert not terminal.seen("Allow?", 0.05), "the prompt waits for a pause"
    terminal.expect("Allow?")
    assert not (work / "made").exists()
    terminal.type("y")
    terminal.expect("All done.")
    assert (work / "made").exists()
    terminal.leave()


def test_a_question_of_the_models_waits_too(work: Path) -> None:
    terminal = session(work, ASK)
    terminal.expect("2. B")
    terminal.send("1\r")
    terminal.expect("Choose")
    terminal.type("2")
    terminal.expect("All done.")
    assert "Which one? -> B" in terminal_log(work)
    terminal.leave()


def test_ctrl_c_is_heard_meanwhile(work: Path) -> None:
    terminal = session(work, RUN)
    terminal.expect("? explain")
    terminal.press("c")
    terminal.expect("interrupted")
    assert not (work / "made").exists()
    terminal.leave()


def test_a_pipe_waits_for_nothing(work: Path) -> None:
    from time import monotonic

    from agent_cli.shells.terminal.dialogs.model import GUARD_SECONDS
    from agent_cli.shells.terminal.line_input import read_typed_ahead

    began = monotonic()
    assert read_typed_ahead() == ""  # standard input of the tests is no terminal
    assert monotonic() - began < GUARD_SECONDS


def terminal_log(work: Path) -> str:
    [log] = (work.parent / "home/state/sessions").rglob("*.jsonl")
    return log.read_text()

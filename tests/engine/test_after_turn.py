"""`after_turn`: a command that has to succeed before a turn that changed files may end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.engine import turn_end
from agent_cli.kernel.events import HookFinished, Warned
from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.results import Complete
from tests.support.scripts import call, task
from tests.support.subagent_turns import SplitScripts
from tests.support.turns import World

CHECK = "grep -q good a.txt || { echo 'not good'; exit 3; }"


def writing(*texts: str) -> list[dict[str, Any]]:
    """A model that writes each text and then says that it is done."""
    replies: list[dict[str, Any]] = []
    for text in texts:
        replies += [{"calls": [call("Write", file_path="a.txt", content=text)]}, {"text": f"wrote {text}"}]
    return replies


def reminders_of(world: World) -> list[str]:
    return [m.text for m in world.history if isinstance(m, UserMessage)][1:]


def test_a_failure_goes_back_to_the_model_until_it_passes(tmp_path: Path) -> None:
    world = World(tmp_path, writing("bad", "good"), allow=("Edit",))
    result = world.turn(after_turn=CHECK)
    assert isinstance(result, Complete)
    assert result.text == "wrote good"
    assert [(r.exit_code, r.outcome) for r in world.of(HookFinished)] == [(3, "error"), (0, "success")]
    [feedback] = reminders_of(world)
    assert "It failed with exit code 3:\n\nnot good\n" in feedback
    assert result.verified == f"`{CHECK}` passed"


def test_it_goes_back_a_bounded_number_of_times(tmp_path: Path) -> None:
    world = World(tmp_path, writing("bad", "worse", "poor", "sad", "never"), allow=("Edit",))
    result = world.turn(after_turn=CHECK)
    assert isinstance(result, Complete)
    assert result.text == "wrote sad"
    assert len(reminders_of(world)) == 3
    assert [w.text for w in world.of(Warned)] == [
        f"after_turn: `{CHECK}` still failed with exit code 3; it went back to the model 3 times."
    ]
    assert "failed (exit 3)" in result.verified


def test_a_turn_that_changed_nothing_does_not_run_it(tmp_path: Path) -> None:
    world = World(tmp_path, [{"calls": [call("LS", path=".")]}, {"text": "ok"}])
    world.turn(after_turn="touch ran")
    assert not (tmp_path / "ran").exists()


def test_it_is_not_run_again_where_the_model_has_just_run_it(tmp_path: Path) -> None:
    command = "make test"
    (tmp_path / "Makefile").write_text("test:\n\t@echo x >> runs\n")
    replies = [
        {"calls": [call("Write", file_path="a.txt", content="x")]},
        {"calls": [call("Bash", command=command)]},
        {"text": "ok"},
    ]
    World(tmp_path, replies, allow=("Edit", "Bash")).turn(after_turn=command)
    assert (tmp_path / "runs").read_text() == "x\n"


def test_a_long_command_runs_although_another_with_the_same_beginning_passed(tmp_path: Path) -> None:
    long = f"make -s test FLAGS={'x' * 120}"
    (tmp_path / "Makefile").write_text("test:\n\t@echo $(FLAGS) | tail -c 2 >> runs\n")
    replies = [
        {"calls": [call("Write", file_path="a.txt", content="x")]},
        {"calls": [call("Bash", command=f"{long}a")]},
        {"text": "ok"},
    ]
    World(tmp_path, replies, allow=("Edit", "Bash")).turn(after_turn=f"{long}b")
    assert (tmp_path / "runs").read_text() == "a\nb\n"


def test_it_is_ended_after_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_end, "TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(turn_end, "MAX_TRIES", 0)
    world = World(tmp_path, writing("x"), allow=("Edit",))
    world.turn(after_turn="sleep 30")
    assert [(r.exit_code, r.outcome) for r in world.of(HookFinished)] == [(None, "cancelled")]
    assert "was ended after" in world.of(Warned)[0].text


def test_it_is_run_for_what_a_sub_agent_changed_once_the_turn_ends(tmp_path: Path) -> None:
    nested = [{"calls": [call("Write", file_path="a.txt", content="x")]}, {"text": "done"}]
    world = World(tmp_path, [{"calls": [task()]}, {"text": "ok"}], allow=("Edit", "Task"))
    world.deps = world.deps.replace(client=SplitScripts(world, nested))
    world.turn(after_turn="echo x >> ran")
    assert world.results[0].text == "done"
    assert (tmp_path / "a.txt").exists()
    assert (tmp_path / "ran").read_text() == "x\n"

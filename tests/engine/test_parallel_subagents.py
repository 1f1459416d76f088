"""Read-only sub-agents of one answer run at the same time, up to a setting; all else is as if they ran in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.decisions import Approve, Defer
from agent_cli.kernel.engine.types import ModelHandle
from agent_cli.kernel.events import MessageAdded, SubagentEvent, ToolFinished, ToolStarted, UsageAdded
from agent_cli.kernel.messages import AssistantMessage, UserMessage
from agent_cli.kernel.results import Complete, Failed, LimitReached, Limits, Suspended, Usage
from agent_cli.models.base import ModelError
from agent_cli.models.scripted import ScriptedClient
from tests.support.scripts import call, task
from tests.support.turns import World

USE = {"input": 10, "output": 1}


class Models:
    """One script for the parent, and one for each sub-agent, told apart by the prompt.

    before: called in the sub-agent's thread ahead of each of its answers.
    """

    def __init__(self, parent: ScriptedClient, nested: dict[str, list[dict[str, Any]]]) -> None:
        self.parent = parent
        self.nested = {prompt: ScriptedClient(replies, prompt) for prompt, replies in nested.items()}
        self.before: Callable[[str], None] = lambda prompt: None
        self.running: set[str] = set()
        self.most = 0
        self._lock = threading.Lock()

    def stream(self, request: Any, cancel: Any) -> Iterator[Any]:
        first = request.messages[0]
        assert isinstance(first, UserMessage)
        if first.text not in self.nested:
            yield from self.parent.stream(request, cancel)
            return
        with self._lock:
            self.running.add(first.text)
            self.most = max(self.most, len(self.running))
        try:
            self.before(first.text)
            yield from self.nested[first.text].stream(request, cancel)
        finally:
            self.running.discard(first.text)


def story(
    root: Path, nested: dict[str, list[dict[str, Any]]], *answers: Any, kind: str = "explore", **more: Any
) -> tuple[World, Models]:
    """A turn whose first answer starts a sub-agent for each prompt."""
    calls = [task(kind, prompt) for prompt in nested]
    world = World(root, [{"calls": calls, "usage": USE}, {"text": "Done.", "usage": USE}], list(answers), **more)
    models = Models(world.model, nested)
    world.deps = world.deps.replace(client=models)
    return world, models


def looks(name: str) -> list[dict[str, Any]]:
    """A sub-agent that reads a file, then answers."""
    return [
        {"text": "Looking.", "calls": [call("Read", file_path=name)], "usage": USE},
        {"text": f"{name} was read.", "usage": USE},
    ]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in "abc":
        (tmp_path / name).write_text(f"in {name}\n")
    return tmp_path


def test_they_run_together_and_answer_in_the_order_of_the_calls(root: Path) -> None:
    world, models = story(root, {"find a": looks("a"), "find b": looks("b")})
    meeting = threading.Barrier(2)
    models.before = lambda prompt: _meet(meeting)
    result = world.turn(max_parallel_subagents=2)
    assert isinstance(result, Complete)
    assert [m.text for m in world.results] == ["a was read.", "b was read."]
    assert [e.call_id for e in world.of(ToolFinished)] == ["call-1-1", "call-1-2"]
    assert sorted(e.call_id for e in world.of(ToolStarted)) == ["call-1-1", "call-1-2"], "each begins once"
    for number, name in enumerate("ab", 1):
        own = [e.event for e in world.of(SubagentEvent) if e.call_id == f"call-1-{number}"]
        lines = [m.message.text for m in own if isinstance(m, MessageAdded)]
        assert lines[0] == f"find {name}" and lines[-1] == f"{name} was read." and len(lines) == 4
        assert f"in {name}" in lines[2]


def _meet(meeting: threading.Barrier) -> None:
    meeting.wait(20)


def test_what_they_spend_is_the_parents(root: Path) -> None:
    world, _ = story(root, {"find a": looks("a"), "find b": looks("b"), "find c": looks("c")})
    world.deps = world.deps.replace(price=lambda usage: usage.replace(cost=0.5))
    result = world.turn(max_parallel_subagents=3)
    assert result.end.usage.replace(cost=0, reliable=True) == Usage(80, 8).replace(cost=0, reliable=True)
    assert (result.end.diagnostics.rounds, result.end.diagnostics.tool_calls) == (8, 6)
    assert result.end.cost == 4.0
    assert sum(e.event.usage.input for e in world.of(SubagentEvent) if isinstance(e.event, UsageAdded)) == 60


def test_the_limits_hold_for_all_of_them_together(root: Path) -> None:
    world, models = story(root, {f"find {n}": looks(n) * 10 for n in "abc"})
    result = world.turn(max_parallel_subagents=3, limits=Limits(rounds=7))
    assert isinstance(result, LimitReached) and result.cap == "rounds"
    rounds = sum(len(script.requests) for script in models.nested.values())
    # Each sums up in one more round.
    assert rounds <= 6 + 3 + 3


def test_by_default_they_run_one_after_another(root: Path) -> None:
    world, models = story(root, {"find a": looks("a"), "find b": looks("b")})
    assert isinstance(world.turn(), Complete)
    assert models.most == 1


def test_no_more_run_than_the_setting_says(root: Path) -> None:
    world, models = story(root, {f"find {n}": looks(n) for n in "abc"})
    meeting = threading.Barrier(2)
    first = {"find a", "find b"}

    def before(prompt: str) -> None:
        if prompt in first:
            first.discard(prompt)
            meeting.wait(20)

    models.before = before
    assert isinstance(world.turn(max_parallel_subagents=2), Complete)
    assert models.most == 2 and [m.text for m in world.results] == [f"{n} was read." for n in "abc"]


@pytest.mark.parametrize("kind", ["general", "review"])
def test_those_that_may_change_something_run_alone(root: Path, kind: str) -> None:
    world, models = story(root, {"find a": looks("a"), "find b": looks("b")}, kind=kind)
    assert isinstance(world.turn(max_parallel_subagents=4), Complete)
    assert models.most == 1


def test_their_questions_come_one_after_another_in_the_thread_of_the_turn(root: Path, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    for name in "ab":
        (outside / name).write_text(f"outside {name}\n")
    world, _ = story(root, {f"find {n}": looks(str(outside / n)) for n in "ab"})
    threads: list[threading.Thread] = []

    def answer(request: Any) -> Any:
        threads.append(threading.current_thread())
        return Approve()

    world.deps = world.deps.replace(approver=answer)
    assert isinstance(world.turn(max_parallel_subagents=2), Complete)
    assert threads == [threading.current_thread()] * 2
    assert not any(m.is_error for m in world.results)
    own = [e.event.message for e in world.of(SubagentEvent) if isinstance(e.event, MessageAdded)]
    assert sum("outside" in m.text for m in own if not isinstance(m, AssistantMessage | UserMessage)) == 2


def test_one_that_waits_for_the_user_does_not_take_the_results_of_others(root: Path, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside.txt"
    outside.write_text("outside\n")
    world, models = story(root, {"find a": looks(str(outside)), "find b": looks("b")}, Defer())
    paused = world.turn(max_parallel_subagents=2)
    assert isinstance(paused, Suspended) and paused.pending == ("call-1-1",)
    assert [m.text for m in world.results] == ["b was read."]
    world.answers = [Approve()]
    result = world.turn(None, max_parallel_subagents=2)
    assert isinstance(result, Complete)
    assert [m.text for m in world.results] == ["b was read.", f"{outside} was read."]
    assert len(models.nested["find b"].requests) == 2, "it did not run again"


def test_an_interruption_ends_all_and_answers_each_call_once(root: Path) -> None:
    world, models = story(root, {"find a": looks("a"), "find b": looks("b")})
    meeting = threading.Barrier(2)

    def before(prompt: str) -> None:
        meeting.wait(20)
        world.deps.context.cancel.cancel()

    models.before = before
    result = world.turn(max_parallel_subagents=2)
    assert isinstance(result, Failed) and result.end.diagnostics.terminal_reason == "interrupted"
    assert len(world.results) == 2 and all("Interrupted" in m.text for m in world.results)
    assert not models.running


def test_a_failure_of_one_is_its_own(root: Path) -> None:
    broken = [{"error": {"kind": "bad_request", "message": "No."}}]
    world, _ = story(root, {"find a": broken, "find b": looks("b")})
    assert isinstance(world.turn(max_parallel_subagents=2), Complete)
    assert [m.is_error for m in world.results] == [True, False] and "No." in world.results[0].text


def test_each_has_a_connection_of_its_own(root: Path) -> None:
    world, models = story(root, {"find a": looks("a"), "find b": looks("b")})
    opened: list[str] = []

    def open_model(name: str) -> ModelHandle:
        opened.append(name)
        return ModelHandle("own", "own", models)

    world.deps = world.deps.replace(open_model=open_model)
    assert isinstance(world.turn(max_parallel_subagents=2), Complete)
    assert opened == ["scripted", "scripted"]


def test_without_connections_of_their_own_they_run_one_after_another(root: Path) -> None:
    from agent_cli.kernel.results import Failure

    world, models = story(root, {"find a": looks("a"), "find b": looks("b")})

    def refuse(name: str) -> ModelHandle:
        raise ModelError(Failure("auth", "no key"))

    world.deps = world.deps.replace(open_model=refuse)
    assert isinstance(world.turn(max_parallel_subagents=2), Complete)
    assert models.most == 1 and [m.text for m in world.results] == ["a was read.", "b was read."]


def test_a_turn_that_is_dropped_leaves_no_thread_waiting(root: Path) -> None:
    from agent_cli.kernel.engine.loop import run_turn
    from agent_cli.kernel.engine.types import TurnOptions
    from tests.support.turns import SPECS
    from tests.support.waiting import soon

    world, _ = story(root, {"find a": looks("a"), "find b": looks("b")})
    options = TurnOptions(
        model="scripted", label="scripted", system="You are a test.", tools=SPECS, max_parallel_subagents=2
    )
    running = run_turn([UserMessage("go")], world.deps, options)
    while not isinstance(next(running), SubagentEvent):
        pass
    running.close()
    assert soon(lambda: not [t for t in threading.enumerate() if t.name.startswith("sub-agent-")])

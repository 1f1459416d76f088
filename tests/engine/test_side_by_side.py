"""Calls that only look run beside each other; what the model and the log see keeps the order of the calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from agent_cli.core.events import ToolFinished, ToolProgress, ToolStarted, UsageAdded, Warned
from agent_cli.core.results import Complete, Failed, Usage
from agent_cli.engine.types import ModelHandle
from agent_cli.providers.scripted import Scripted
from agent_tools.base import AskModel, Effect, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.record import Value
from agent_tools.registry import BUILTIN
from tests.support.scripts import call
from tests.support.turns import World


class MeetArgs(Value):
    """The arguments of Meet."""

    who: str


class Meet(Tool[MeetArgs]):
    """Ends only when as many of its calls run at once as the barrier wants."""

    name = "Meet"
    Args = MeetArgs
    parallel_safe = True

    def __init__(self, parties: int) -> None:
        self.barrier = threading.Barrier(parties)
        self.threads: list[str] = []
        self.before: Callable[[], None] = lambda: None

    def effects(self, args: MeetArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("read", str(ctx.workspace.root)),)

    def summary(self, args: MeetArgs, ctx: ToolContext) -> str:
        return f"Meet {args.who}"

    def run(self, args: MeetArgs, ctx: ToolContext) -> Generator[Any, Any, ToolResult]:
        yield Progress(f"{args.who} waits")
        self.threads.append(threading.current_thread().name)
        self.before()
        self.barrier.wait(20)
        if args.who == "bad":
            raise ToolError("bad is bad")
        if args.who == "curious":
            answer = yield AskModel("You are brief.", "What is it?")
            return ToolResult(f"curious heard: {answer}")
        return ToolResult(f"met {args.who}")


def meeting(*names: str, then: str = "Done.") -> list[dict[str, Any]]:
    return [{"calls": [call("Meet", who=n) for n in names]}, {"text": then}]


def test_calls_that_only_look_run_side_by_side_and_answer_in_order(tmp_path: Path) -> None:
    meet = Meet(3)
    world = World(tmp_path, meeting("a", "bad", "c"), tools=(*BUILTIN, meet))
    assert isinstance(world.turn(), Complete)
    assert [(m.text, m.is_error) for m in world.results] == [("met a", False), ("bad is bad", True), ("met c", False)]
    told = [
        (type(e).__name__, e.call_id[-1])
        for e in world.events
        if isinstance(e, ToolStarted | ToolProgress | ToolFinished)
    ]
    one_call = ["ToolStarted", "ToolProgress", "ToolFinished"]
    assert told == [(name, number) for number in "123" for name in one_call]


def test_more_calls_than_threads_all_run(tmp_path: Path) -> None:
    meet = Meet(2)
    world = World(tmp_path, meeting(*"abcdefgh"), tools=(*BUILTIN, meet))
    assert isinstance(world.turn(), Complete)
    assert [m.text for m in world.results] == [f"met {n}" for n in "abcdefgh"]
    assert len(set(meet.threads)) <= 4


def test_a_write_ends_the_group_and_what_follows_sees_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    script = [
        {"calls": [call("Read", file_path="a.txt"), call("Glob", pattern="*"), call("Edit", file_path="a.txt",
                   old_string="old", new_string="new"), call("Read", file_path="a.txt"), call("LS", path=".")]},
        {"text": "Done."},
    ]  # fmt: skip
    world = World(tmp_path, script, mode="acceptEdits")
    world.turn()
    assert "old" in world.results[0].text
    assert not any(m.is_error for m in world.results)
    assert "new" in world.results[3].text
    # What a call learned of files is told with that call, as when they run one by one.
    learned = [list(e.seen) for e in world.of(ToolFinished)]
    assert learned[0] == [str(tmp_path / "a.txt")] and learned[1] == []


def test_the_same_call_twice_in_a_round_runs_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text\n")
    world = World(tmp_path, [{"calls": [call("Read", file_path="a.txt")] * 2}, {"text": "Done."}])
    world.turn()
    assert "text" in world.results[0].text and world.results[1].text.startswith("Skipped: unchanged")


def test_denied_and_unknown_calls_among_them_run_nothing(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("hidden\n")
    script = [
        {"calls": [call("LS", path="."), call("Read", file_path="secret.txt"), call("Nothing"), call("LS", path=".")]},
        {"text": "Done."},
    ]
    world = World(tmp_path, script, deny=("Read(secret.txt)",))
    world.turn()
    assert [m.is_error for m in world.results] == [False, True, True, False]
    assert "hidden" not in "".join(m.text for m in world.results)


def test_no_more_calls_are_begun_than_the_budget_has(tmp_path: Path) -> None:
    from agent_cli.core.results import Limits

    meet = Meet(2)
    world = World(tmp_path, meeting("a", "b", "c"), tools=(*BUILTIN, meet))
    world.turn(limits=Limits(tool_calls=2))
    assert [m.text for m in world.results][:2] == ["met a", "met b"]
    assert "limit of tool calls" in world.results[2].text
    assert len(meet.threads) == 2


def test_an_interruption_answers_every_call_once(tmp_path: Path) -> None:
    meet = Meet(5)
    world = World(tmp_path, meeting("a", "b"), tools=(*BUILTIN, meet))
    meet.before = world.deps.context.cancel.cancel
    result = world.turn()
    meet.barrier.abort()
    assert isinstance(result, Failed) and result.end.diagnostics.terminal_reason == "interrupted"
    assert len(world.results) == 2 and all("Interrupted" in m.text for m in world.results)


def test_a_question_of_a_tool_goes_to_the_small_model_and_is_paid_for(tmp_path: Path) -> None:
    small = Scripted([], small=[{"text": "A stone.", "expect": "What is it?", "usage": {"input": 7, "output": 3}}])
    dear = ModelHandle("tiny", "tiny", small, lambda usage: usage.replace(cost=0.25))
    for names in (("curious",), ("curious", "b")):
        small.small = small.small or [{"text": "A stone.", "usage": {"input": 7, "output": 3}}]
        world = World(tmp_path, meeting(*names), tools=(*BUILTIN, Meet(len(names))), small=lambda: dear)
        result = world.turn()
        assert world.results[0].text == "curious heard: A stone."
        assert UsageAdded("tiny", Usage(input=7, output=3, cost=0.25), aside=True) in world.events
        assert result.end.cost == 0.25
        # Neither the tools nor the conversation are told to the small model.
        assert [m.text for m in small.requests[-1].messages] == ["What is it?"] and not small.requests[-1].tools


def test_a_small_model_that_fails_costs_the_answer_and_not_the_turn(tmp_path: Path) -> None:
    broken = Scripted([], small=[{"error": {"kind": "overloaded", "message": "Busy."}}])
    world = World(
        tmp_path, meeting("curious"), tools=(*BUILTIN, Meet(1)), small=lambda: ModelHandle("tiny", "tiny", broken)
    )
    assert isinstance(world.turn(), Complete)
    assert world.results[0].text == "curious heard: None"
    assert "Busy." in world.of(Warned)[0].text

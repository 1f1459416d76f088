"""Calls that only look run beside each other; what the model and the log see keeps the order of the calls."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from agent_cli.kernel.engine.types import ModelHandle
from agent_cli.kernel.events import ToolFinished, ToolProgress, ToolStarted, UsageAdded, Warned
from agent_cli.kernel.results import Complete, Failed, Limits, Usage
from agent_cli.models.scripted import ScriptedClient
from agent_tools.base import AskModel, Effect, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.record import Value
from agent_tools.registry import BUILTIN
from tests.support.scripts import call
from tests.support.turns import World
from tests.support.waiting import soon


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
    lines = [
        (type(e).__name__, e.call_id[-1])
        for e in world.events
        if isinstance(e, ToolStarted | ToolProgress | ToolFinished)
    ]
    one_call = ["ToolStarted", "ToolProgress", "ToolFinished"]
    assert lines == [(name, number) for number in "123" for name in one_call]


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
    small = ScriptedClient(
        [], small=[{"text": "A stone.", "expect": "What is it?", "usage": {"input": 7, "output": 3}}]
    )
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
    broken = ScriptedClient([], small=[{"error": {"kind": "overloaded", "message": "Busy."}}])
    world = World(
        tmp_path, meeting("curious"), tools=(*BUILTIN, Meet(1)), small=lambda: ModelHandle("tiny", "tiny", broken)
    )
    assert isinstance(world.turn(), Complete)
    assert world.results[0].text == "curious heard: None"
    assert "Busy." in world.of(Warned)[0].text


class Pipes:
    """Named pipes that are written in reverse order, so that their readers have to run at the same time."""

    def __init__(self, root: Path, *names: str) -> None:
        for name in names:
            os.mkfifo(root / name)
        self._paths = [root / name for name in reversed(names)]
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self) -> None:
        opened = [path.open("w") for path in self._paths]
        for file, path in zip(opened, self._paths, strict=True):
            with file:
                file.write(f"from {path.name}\n")


def run(command: str, **more: Any) -> dict[str, Any]:
    return call("Bash", command=command, timeout=60_000, **more)


def test_commands_that_only_read_run_side_by_side_with_an_output_each(tmp_path: Path) -> None:
    Pipes(tmp_path, "a", "b", "c")
    world = World(
        tmp_path, [{"calls": [run("cat a"), run("cat b | head -n 1"), run("cat c; ls nowhere")]}, {"text": "Ok."}]
    )
    assert isinstance(world.turn(), Complete)
    assert [m.text.split("\n")[0] for m in world.results] == ["from a", "from b", "from c"]
    assert [m.is_error for m in world.results] == [False, False, True]
    assert [e.call_id[-1] for e in world.of(ToolFinished)] == ["1", "2", "3"]


def test_reads_and_commands_share_a_group(tmp_path: Path) -> None:
    Pipes(tmp_path, "a", "b")
    (tmp_path / "x").write_text("hello\n")
    calls = [run("cat a"), call("Read", file_path="x"), run("cat b")]
    world = World(tmp_path, [{"calls": calls}, {"text": "Ok."}])
    world.turn()
    assert "from a" in world.results[0].text and "hello" in world.results[1].text and "from b" in world.results[2].text


def test_a_cd_before_others_carries_over_to_them(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "x").write_text("inner\n")
    calls = [
        run("pwd"),
        run(f"cd {tmp_path} && pwd"),
        run("cd sub && pwd"),
        run("cat x"),
        run("export A=1"),
        run("pwd; echo $A"),
    ]
    world = World(tmp_path, [{"calls": calls}, {"text": "Ok."}], allow=("Bash",))
    world.turn()
    lines = [m.text.split("\n")[0] for m in world.results]
    assert lines == [str(tmp_path), str(tmp_path), f"{tmp_path}/sub", "inner", "(no output)", f"{tmp_path}/sub"]
    assert world.results[-1].text.split("\n")[1] == "1"


def test_a_command_that_writes_ends_the_group(tmp_path: Path) -> None:
    calls = [run("ls"), run("echo x > made"), run("ls"), run("cat made")]
    world = World(tmp_path, [{"calls": calls}, {"text": "Ok."}], allow=("Bash",))
    world.turn()
    assert "made" not in world.results[0].text and "made" in world.results[2].text and "x\n" in world.results[3].text


def test_an_interruption_ends_all_commands_and_keeps_the_output_of_the_first(tmp_path: Path) -> None:
    for name in "ab":
        os.mkfifo(tmp_path / name)
    world = World(tmp_path, [{"calls": [run(f"echo begun {n}; cat {n}") for n in "ab"]}, {"text": "never"}])
    cancel = world.deps.context.cancel

    def stop() -> None:
        # A pipe opens for writing once it has a reader: both commands wait there.
        with (tmp_path / "a").open("w"), (tmp_path / "b").open("w"):
            cancel.cancel()
            ended.wait(30)  # closed earlier, they would end the commands

    ended = threading.Event()
    threading.Thread(target=stop, daemon=True).start()
    result = world.turn()
    ended.set()
    assert isinstance(result, Failed) and len(world.results) == 2
    assert "begun a" in world.results[0].text and "interrupted by the user" in world.results[0].text
    assert soon(lambda: not readers(tmp_path / "a") and not readers(tmp_path / "b")), "no command is left"


def readers(pipe: Path) -> bool:
    """Whether a process has the pipe open for reading."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def test_commands_are_not_begun_beyond_the_budget(tmp_path: Path) -> None:
    Pipes(tmp_path, "a", "b")
    world = World(tmp_path, [{"calls": [run("cat a"), run("cat b"), run("cat c")]}, {"text": "Ok."}])
    world.turn(limits=Limits(tool_calls=2))
    assert "from b" in world.results[1].text and "limit of tool calls" in world.results[2].text


def test_a_command_past_its_time_goes_on_after_its_thread_has_ended(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "slow")
    calls = [call("Bash", command="cat slow", timeout=200), run("pwd")]
    look = {"calls": [call("BashOutput", shell_id="b1", timeout=60_000)], "expect": "now in the background as b1"}
    world = World(tmp_path, [{"calls": calls}, look, {"text": "Ok.", "expect": "late\n[b1: exit code 0"}])

    def write() -> None:
        assert soon(lambda: len(world.of(ToolFinished)) >= 2)
        (tmp_path / "slow").write_text("late\n")

    threading.Thread(target=write, daemon=True).start()
    assert isinstance(world.turn(), Complete)
    world.deps.context.close()

"""Whole turns: what the model says and calls, what a user answers, what is in the history and on disk after."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from agent_cli.kernel.decisions import Approve, Defer, EditedCall, Reject
from agent_cli.kernel.engine.types import ModelHandle
from agent_cli.kernel.events import (
    ApprovalRequested,
    ApprovalResolved,
    MessageAdded,
    PlanChanged,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    UsageAdded,
    Warned,
)
from agent_cli.kernel.messages import AssistantMessage, Text, ToolMessage, UserMessage, pending_calls
from agent_cli.kernel.results import Complete, Failed, Failure, LimitReached, Limits, Spent, Suspended, Usage
from agent_cli.models.base import Chunk, ModelError, Notice, Request, Restarted, Started, TextChunk, UsageChunk
from agent_tools.base import Effect, Progress, Tool, ToolContext, ToolResult
from agent_tools.cancel import CancelToken
from agent_tools.record import Value
from tests.support.scripts import call
from tests.support.turns import World

EDIT = call("Edit", file_path="a.txt", old_string="world", new_string="there")
READ = call("Read", file_path="a.txt")


def test_reads_asks_edits_and_sums_up(root: Path) -> None:
    world = World(
        root,
        [
            {"text": "I look.", "calls": [READ]},
            {"text": "I change it.", "calls": [EDIT], "expect": "hello world"},
            {"text": "Done.", "usage": {"input": 10, "output": 2}},
        ],
        [Approve()],
    )
    result = world.turn()
    assert isinstance(result, Complete)
    assert result.text == "Done."
    assert (root / "a.txt").read_text() == "hello there\n"
    assert [type(m).__name__ for m in world.history] == [
        "UserMessage", "AssistantMessage", "ToolMessage", "AssistantMessage", "ToolMessage", "AssistantMessage",
    ]  # fmt: skip
    assert "+hello there" in str(world.asked[0].preview)
    assert result.end.diagnostics.rounds == 3
    assert result.end.diagnostics.tool_calls == 2
    assert result.end.diagnostics.terminal_reason == "completed"


def test_a_change_that_cannot_be_made_has_failed_before_what_follows_it_is_asked_about(root: Path) -> None:
    (root / "a.txt").write_text("one\none\n")
    twice = call("Edit", file_path="a.txt", old_string="one", new_string="two")
    commit = call("Bash", command="git commit -am two")
    world = World(root, [{"calls": [READ, twice, commit]}, {"text": "As you wish."}], [Reject("fix it first")])
    world.turn()
    names = [name for name in world.names if name in ("ToolFinished", "ApprovalRequested")]
    assert names == ["ToolFinished", "ToolFinished", "ApprovalRequested", "ToolFinished"]
    assert "matches 2 places" in world.results[1].text


def test_the_intent_is_added_before_anything_happens(root: Path) -> None:
    world = World(root, [{"text": "I look.", "calls": [READ]}, {"text": "Done."}])
    world.turn()
    names = world.names
    assert names.index("MessageAdded") < names.index("ToolRequested") < names.index("ToolStarted")
    assert names.index("ToolStarted") < names.index("ToolFinished")
    assert names[0] == "TurnStarted"
    assert names[-1] == "TurnFinished"


def test_a_rejection_carries_the_persons_words_and_the_turn_goes_on(root: Path) -> None:
    world = World(
        root,
        [{"calls": [READ]}, {"calls": [EDIT]}, {"text": "As you wish.", "expect": "use Python instead"}],
        [Reject("use Python instead")],
    )
    result = world.turn()
    assert isinstance(result, Complete)
    assert (root / "a.txt").read_text() == "hello world\n"
    assert [d.tool for d in result.end.denials] == ["Edit"]
    assert world.of(ApprovalResolved)[-1].by == "person"


def test_an_edited_call_is_decided_afresh(root: Path) -> None:
    world = World(
        root,
        [{"calls": [call("Bash", command="rm a.txt")]}, {"text": "Done."}],
        [EditedCall({"command": "touch kept; echo kept"}), Approve()],
    )
    world.turn()
    assert (root / "a.txt").exists()
    assert [r.effects[0].target for r in world.asked] == ["rm a.txt", "touch kept; echo kept"]
    assert "kept" in world.results[0].text


def test_always_is_asked_once(root: Path) -> None:
    touch = call("Bash", command="touch made")
    world = World(root, [{"calls": [touch]}, {"calls": [touch]}, {"text": "Done."}], [Approve(rule="Bash(touch made)")])
    world.turn()
    assert len(world.asked) == 1
    assert (root / "made").exists()


def test_a_denied_call_never_runs_and_is_listed(root: Path) -> None:
    world = World(root, [{"calls": [call("Bash", command="touch x")]}, {"text": "Ok."}], deny=("Bash(touch:*)",))
    result = world.turn()
    assert not (root / "x").exists()
    assert not world.asked
    assert "is denied by Bash(touch:*)" in world.results[0].text
    assert result.end.denials[0].arguments == {"command": "touch x"}


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"name": "Nope", "arguments": {}}, "There is no tool named 'Nope'"),
        ({"name": "Read", "arguments": {"file_pth": "a"}}, "file_path"),
        ({"name": "Read", "arguments": "{not json"}, "not a JSON object"),
        ({"name": "Read", "arguments": "[1]"}, "not a JSON object"),
        ({"name": "", "arguments": {}}, "There is no tool named 'unnamed'"),
        ({"name": "Read", "arguments": {"file_path": "gone.txt"}}, "gone.txt"),
    ],
)
def test_malformed_calls_become_results_that_teach(root: Path, bad: dict[str, object], words: str) -> None:
    world = World(root, [{"calls": [bad]}, {"text": "I see."}])
    assert isinstance(world.turn(), Complete)
    assert world.results[0].is_error
    assert words in world.results[0].text


def test_numbers_as_text_are_repaired(root: Path) -> None:
    world = World(root, [{"calls": [call("Read", file_path="a.txt", limit="1")]}, {"text": "Ok."}])
    world.turn()
    assert "hello world" in world.results[0].text


def test_many_calls_of_one_round_run_in_order(root: Path) -> None:
    calls = [call("Bash", command=f"echo {n} >> log") for n in range(5)]
    world = World(root, [{"calls": calls}, {"text": "Done."}], mode="bypassPermissions")
    world.turn()
    assert (root / "log").read_text().split() == ["0", "1", "2", "3", "4"]
    assert [r.call_id for r in world.results] == [f"call-1-{n}" for n in range(1, 6)]


def test_deferring_suspends_and_resuming_runs_nothing_twice(root: Path) -> None:
    calls = [
        call("Read", file_path="a.txt"),
        call("Bash", command="echo x >> log"),
        call("Bash", command="echo y >> log"),
    ]
    world = World(root, [{"calls": calls}, {"text": "Done."}], [Defer(), Defer()])
    paused = world.turn(limits=Limits(rounds=5))
    assert isinstance(paused, Suspended)
    assert paused.pending == ("call-1-2", "call-1-3")
    assert [r.call_id for r in world.of(ApprovalRequested)] == ["call-1-2", "call-1-3"]
    assert not (root / "log").exists()
    world.answers = [Approve(), Approve()]
    result = world.turn(None, limits=Limits(rounds=5), spent=Spent(rounds=paused.end.diagnostics.rounds))
    assert isinstance(result, Complete)
    assert (root / "log").read_text().split() == ["x", "y"]
    assert result.end.diagnostics.rounds == 2
    assert len(world.of(ToolStarted)) == 3


def test_the_round_bound_is_the_number_of_requests(root: Path) -> None:
    world = World(root, [{"calls": [READ]}, {"calls": [READ]}, {"text": "Never asked."}])
    result = world.turn(limits=Limits(rounds=2))
    assert isinstance(result, LimitReached)
    assert (result.cap, len(world.model.requests)) == ("rounds", 2)
    assert "Read a.txt (done)" in result.text
    assert not pending_calls(world.history)


def test_the_bound_of_calls_gets_a_last_word_without_calls(root: Path) -> None:
    world = World(root, [{"calls": [READ]}, {"calls": [READ]}, {"text": "Half done."}])
    result = world.turn(limits=Limits(tool_calls=2))
    assert isinstance(result, LimitReached)
    assert (result.cap, result.text) == ("tool_calls", "Half done.")
    assert world.model.requests[-1].tool_choice == "none"
    assert world.model.requests[-1].tools == world.model.requests[0].tools
    assert not pending_calls(world.history)


@pytest.mark.parametrize(("left", "answers"), [(2, [Approve(), Approve()]), (1, [Reject()]), (3, [Approve()] * 3)])
def test_no_call_beyond_the_limit_is_asked_about(root: Path, left: int, answers: list[Approve | Reject]) -> None:
    calls = [call("Bash", command=f"touch made{n}") for n in range(4)]
    world = World(root, [{"calls": calls}, {"text": "Half done."}], answers)
    assert isinstance(world.turn(limits=Limits(tool_calls=left)), LimitReached)
    assert [request.summary for request in world.asked] == [f"Run: touch made{n}" for n in range(left)]
    approved = sum(isinstance(answer, Approve) for answer in answers)
    assert len(list(root.glob("made*"))) == approved
    assert len(world.results) == 4 and not pending_calls(world.history)


def test_a_model_that_calls_in_its_last_word_is_answered(root: Path) -> None:
    world = World(root, [{"calls": [READ]}, {"calls": [READ]}])
    result = world.turn(limits=Limits(tool_calls=1))
    assert isinstance(result, LimitReached)
    assert "Read a.txt (done)" in result.text
    assert not pending_calls(world.history)


def test_the_cost_bound_ends_with_our_own_account(root: Path) -> None:
    world = World(root, [{"calls": [READ], "usage": {"input": 1, "output": 1}}], price=lambda u: u.replace(cost=2.0))
    result = world.turn(limits=Limits(cost=1.0))
    assert isinstance(result, LimitReached)
    assert result.cap == "cost"
    assert "Read a.txt" in result.text
    assert len(world.model.requests) == 1


def test_waiting_for_a_person_is_not_working_time(root: Path) -> None:
    now = [0.0]

    def slow_person(request: ApprovalRequested) -> Approve:
        now[0] += 3600
        return Approve()

    world = World(root, [{"calls": [call("Bash", command="true")]}, {"text": "Done."}], clock=lambda: now[0])
    world.deps = world.deps.replace(approver=slow_person)
    result = world.turn(limits=Limits(seconds=10))
    assert isinstance(result, Complete)
    assert result.end.diagnostics.duration_ms == 0


def test_a_failure_before_any_tool_is_a_failure(root: Path) -> None:
    world = World(root, [{"error": {"kind": "overloaded", "message": "Too busy.", "retryable": True}}])
    result = world.turn()
    assert isinstance(result, Failed)
    assert result.failure is not None
    assert result.failure.retryable


def test_a_failure_after_tools_degrades_and_never_replays(root: Path) -> None:
    world = World(
        root,
        [{"calls": [call("Bash", command="echo x >> log")]}, {"text": "so", "error": {"kind": "network"}}],
        mode="bypassPermissions",
    )
    result = world.turn()
    assert isinstance(result, Complete)
    assert result.degraded
    assert "Run: echo x >> log (done)" in result.text
    assert (root / "log").read_text() == "x\n"
    assert world.history[-1] == AssistantMessage(world.history[-1].parts, "error", "reply-2", "scripted")


def test_a_fallback_model_takes_over(root: Path) -> None:
    from agent_cli.models.scripted import ScriptedClient

    spare = ScriptedClient([{"text": "From the spare."}], "spare")
    world = World(
        root, [{"error": {"kind": "auth", "message": "No."}}], fallbacks=[lambda: ModelHandle("spare", "spare", spare)]
    )
    result = world.turn()
    assert isinstance(result, Complete)
    assert result.text == "From the spare."


def test_a_fallback_model_that_cannot_be_opened_is_skipped_with_a_warning(root: Path) -> None:
    from agent_cli.models.scripted import ScriptedClient

    def broken() -> ModelHandle:
        raise ModelError(Failure("auth", "There is no key."))

    spare = ScriptedClient([{"text": "From the spare."}], "spare")
    replies = [{"error": {"kind": "auth", "message": "No."}}]
    world = World(root, replies, fallbacks=[broken, lambda: ModelHandle("spare", "spare", spare)])
    assert isinstance(world.turn(), Complete)
    warned = [event.text for event in world.events if isinstance(event, Warned)]
    assert warned[0] == "A fallback model is skipped: There is no key."


def test_an_empty_answer_is_asked_for_once(root: Path) -> None:
    world = World(root, [{"calls": [READ]}, {}, {"text": "It says hello."}])
    result = world.turn()
    assert isinstance(result, Complete)
    assert result.text == "It says hello."
    world = World(root, [{"calls": [READ]}, {}, {}])
    result = world.turn()
    assert isinstance(result, Failed)
    assert result.failure is not None
    assert result.failure.message == "The model gave an empty answer twice in a row; try again, or another model."
    assert result.end.diagnostics.terminal_reason == "empty_answer"


class Wait(Value):
    pass


class Interrupting(Tool[Wait]):
    """Cancels the turn in the middle of its own run."""

    name = "Wait"
    Args = Wait

    def effects(self, args: Wait, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: Wait, ctx: ToolContext) -> str:
        return "Wait"

    def run(self, args: Wait, ctx: ToolContext):  # type: ignore[no-untyped-def]
        yield Progress("half\n")
        ctx.cancel.cancel()
        ctx.cancel.check()
        return ToolResult("never")


def test_an_interrupt_answers_every_open_call(root: Path) -> None:
    calls = [call("Wait"), call("Read", file_path="a.txt")]
    world = World(root, [{"text": "I wait.", "calls": calls}, {"text": "Again."}], tools=(Interrupting(),))
    result = world.turn()
    assert isinstance(result, Failed)
    assert result.failure is None
    assert result.end.diagnostics.terminal_reason == "interrupted"
    assert [r.is_error for r in world.results] == [True, True]
    # The second has done nothing: after an Edit the model need not look whether the file was changed.
    words = ["Interrupted by the user before this finished.", "Interrupted by the user before this began."]
    assert [r.text for r in world.results] == words
    world.deps.context.cancel = CancelToken()
    assert isinstance(world.turn("go on"), Complete)


class Breaking:
    """A model whose answer breaks off, after it told what the request cost."""

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        yield Started("r", "m")
        yield UsageChunk(Usage(1_000, 7))
        yield TextChunk("Half of")
        raise ModelError(Failure("network", "It broke off."))


def test_what_an_answer_that_broke_off_used_is_in_every_account(root: Path) -> None:
    world = World(root, [])
    world.deps = world.deps.replace(client=Breaking())
    result = world.turn()
    assert isinstance(result, Failed)
    assert [e.usage for e in world.of(UsageAdded)] == [result.end.usage] == [Usage(1_000, 7)]
    assert world.history[-1] == AssistantMessage((Text("Half of"),), "error", "r", "m")


class CutOnce(Breaking):
    """A model whose answer breaks off, and that does not answer when it is asked again."""

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        yield Started("r", "m")
        yield TextChunk("Half of")
        yield Restarted()
        yield Notice("trying again in 0.1 s (1 of 5)")
        raise ModelError(Failure("network", "Could not connect."))


def test_the_words_before_a_cut_stay_if_the_retries_bring_none(root: Path) -> None:
    world = World(root, [])
    world.deps = world.deps.replace(client=CutOnce())
    assert isinstance(world.turn(), Failed)
    assert world.history[-1] == AssistantMessage((Text("Half of"),), "error", "r", "m")
    assert [e.text for e in world.of(TextDelta)] == ["Half of", "Half of"], "shown again, as the first time was void"


class Thinking:
    """A model that has sent nothing yet when the user interrupts it. waits: it waits for its server before."""

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        if self._waits:
            yield Notice("Could not connect; trying again in 5 s (1 of 5)", 5.0)
        cancel.cancel()
        cancel.check()
        yield Started("r", "m")


def test_the_part_of_an_interrupted_request_that_was_cached_is_counted_as_cached(root: Path) -> None:
    first = {"text": "One.", "usage": {"input": 900, "output": 40, "cache_write": 800}}
    world = World(root, [first])
    world.turn("a question of some length")
    world.deps = world.deps.replace(client=Thinking(waits=False))
    world.turn("and another one")
    usage = world.of(UsageAdded)[-1].usage
    assert usage.estimated and usage.input > 900 and usage.cache_read == 900


@pytest.mark.parametrize("waits", [False, True])
def test_an_answer_that_is_interrupted_before_its_first_word_is_not_free(root: Path, waits: bool) -> None:
    world = World(root, [], price=lambda usage: usage.replace(cost=usage.input * 0.001))
    world.deps = world.deps.replace(client=Thinking(waits=waits))
    result = world.turn("a question of some length")
    assert result.end.diagnostics.terminal_reason == "interrupted"
    charged = [e.usage for e in world.of(UsageAdded)]
    assert bool(charged) == (not waits)
    for usage in charged:
        assert usage.estimated
        assert usage.cost > 0
        assert result.end.usage == usage


def test_typed_messages_arrive_at_the_next_round(root: Path) -> None:
    inbox = [[], ["also say hi"], []]
    world = World(root, [{"calls": [READ]}, {"text": "Hi.", "expect": "also say hi"}], inbox=lambda: inbox.pop(0))
    assert isinstance(world.turn(), Complete)
    assert UserMessage("also say hi") in world.history


def test_what_is_typed_while_a_turn_is_interrupted_is_left_for_the_next(root: Path) -> None:
    inbox: list[str] = []

    class Typing(Interrupting):
        def run(self, args: Wait, ctx: ToolContext):  # type: ignore[no-untyped-def]
            # As Bash does, which says how far the command came.
            ctx.cancel.cancel()
            inbox.append("stop that, what is 2+2?")
            yield Progress("half\n")
            return ToolResult("interrupted by the user", is_error=True)

    replies = [{"calls": [call("Wait")]}, {"text": "never"}]
    world = World(root, replies, tools=(Typing(),), inbox=lambda: [inbox.pop(0)] if inbox else [])
    assert isinstance(world.turn(), Failed)
    assert inbox == ["stop that, what is 2+2?"]
    assert UserMessage("stop that, what is 2+2?") not in world.history


def test_each_request_is_the_previous_one_plus_a_suffix(root: Path) -> None:
    world = World(root, [{"calls": [READ]}, {"calls": [READ]}, {"text": "One."}, {"text": "Two."}])
    world.turn()
    world.turn("more")
    requests = world.model.requests
    for before, after in pairwise(requests):
        assert after.messages[: len(before.messages)] == before.messages
        assert (after.system, after.tools) == (before.system, before.tools)


def test_the_plan_is_kept_and_reported(root: Path) -> None:
    todos = [{"content": "read", "status": "in_progress"}, {"content": "write", "status": "pending"}]
    world = World(root, [{"calls": [call("TodoWrite", todos=todos)]}, {"text": "Planned."}])
    world.turn()
    assert [i.content for i in world.of(PlanChanged)[0].items] == ["read", "write"]
    assert [i.content for i in world.deps.context.plan] == ["read", "write"]


def test_usage_is_shown_once_per_model_call_and_added_up(root: Path) -> None:
    use = {"input": 10, "output": 3}
    world = World(root, [{"calls": [READ], "usage": use}, {"text": "Done.", "usage": use}])
    result = world.turn()
    assert [u.usage for u in world.of(UsageAdded)] == [Usage(10, 3), Usage(10, 3)]
    assert result.end.usage == Usage(20, 6)
    assert world.of(TurnFinished)[0].usage == result.end.usage


def test_what_was_seen_is_in_the_events(root: Path) -> None:
    world = World(root, [{"calls": [READ]}, {"text": "Done."}])
    world.turn()
    assert list(world.of(ToolFinished)[0].seen) == [str(root / "a.txt")]


def test_every_added_message_is_an_event(root: Path) -> None:
    world = World(root, [{"calls": [READ]}, {"text": "Done."}])
    world.turn()
    assert [e.message for e in world.of(MessageAdded)] == world.history[1:]
    assert isinstance(world.history[2], ToolMessage)

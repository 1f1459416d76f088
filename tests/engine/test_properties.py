"""Random stories: calls, failures, refusals, suspensions, interrupts and crashes at any event, over many processes.

Whatever happens: every request has exactly one result for each call (the scripted model checks it), begins with the
request before it, no side effect happens twice, and what a turn has spent never shrinks.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.kernel.decisions import Answer, Approve, Defer, QuestionReply, Reject
from agent_cli.kernel.engine.conversation import Conversation
from agent_cli.kernel.engine.turn import TurnDeps
from agent_cli.kernel.engine.types import ConversationState, ToolTable, TurnOptions
from agent_cli.kernel.events import ApprovalRequested, Event, QuestionAsked, TurnFinished
from agent_cli.kernel.results import Limits, Spent, Suspended
from agent_cli.kernel.runtime.builder import calls_left_open
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header
from agent_cli.kernel.session.restore import restore
from agent_cli.models.scripted import ScriptedClient
from agent_cli.policy.policy import Policy
from agent_tools.ask_user import AskUserQuestion
from agent_tools.base import Effect, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.fs.workspace import Workspace
from agent_tools.plan import TodoWrite
from agent_tools.read import Read
from agent_tools.record import Value
from tests.support.hypothesis_examples import examples

ROUNDS = 6
DONE: list[int] = []


class MarkArgs(Value):
    number: int
    fails: bool = False


class Mark(Tool[MarkArgs]):
    """A side effect that can be counted."""

    name = "Mark"
    Args = MarkArgs

    def effects(self, args: MarkArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("run", f"mark {args.number}"),)

    def summary(self, args: MarkArgs, ctx: ToolContext) -> str:
        return f"Mark {args.number}"

    def run(self, args: MarkArgs, ctx: ToolContext) -> Any:
        DONE.append(args.number)
        yield Progress("half\n")
        ctx.cancel.check()
        if args.fails:
            raise ToolError("failed on purpose")
        return ToolResult(f"marked {args.number}")


class Crash(BaseException):
    """The process is gone."""


def calls(numbers: Any) -> Any:
    mark = st.builds(lambda fails: {"name": "Mark", "fails": fails}, st.booleans())
    other = st.sampled_from(
        [
            {"name": "Read", "arguments": {"file_path": "a.txt"}},
            {"name": "Read", "arguments": {"file_path": "gone"}},
            {"name": "Nope", "arguments": {}},
            {"name": "", "arguments": {}},
            {"name": "Read", "arguments": "{broken"},
            {"name": "TodoWrite", "arguments": {"todos": [{"content": "a"}, {"content": "b"}]}},
            {"name": "AskUserQuestion", "arguments": {"questions": [{"question": "Which?"}]}},
        ]
    )
    return st.lists(mark | other, min_size=1, max_size=4)


replies = st.lists(
    st.one_of(
        st.builds(lambda c: {"text": "Working.", "calls": c}, calls(None)),
        st.builds(lambda c: {"calls": c}, calls(None)),
        st.just({"text": "Done."}),
        st.just({"text": "Half", "error": {"kind": "network", "message": "gone", "retryable": True}}),
        st.just({"error": {"kind": "overloaded", "message": "busy", "retryable": True}}),
    ),
    min_size=3,
    max_size=10,
)
answers = st.lists(st.sampled_from(["yes", "no", "later"]), min_size=1, max_size=8)
# For each process: after how many recorded events it is killed, or interrupted.
ends = st.lists(st.tuples(st.sampled_from(["run", "kill", "interrupt"]), st.integers(1, 30)), min_size=1, max_size=6)


def numbered(script: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The script with a number of its own in every Mark, and enough plain answers at the end."""
    number = 0
    out = []
    for reply in script:
        made = []
        for call in reply.get("calls", ()):
            if call["name"] == "Mark":
                number += 1
                call = {"name": "Mark", "arguments": {"number": number, "fails": call["fails"]}}
            made.append(call)
        out.append({**reply, "calls": made} if made else dict(reply))
    return out + [{"text": "That is all."}] * 80


class Process:
    """One run of the program over the log: what was said so far is read back from it."""

    def __init__(
        self, root: Path, path: Path, script: list[dict[str, Any]], lines: list[str], end: tuple[str, int]
    ) -> None:
        self.replies, self.end, self.seen = lines, end, 0
        self.log = SessionLog(path, _never)
        self.model = ScriptedClient(script)
        self.restored = None
        if path.exists():
            self.log.acquire()
            self.restored = restore(path.read_bytes(), "s")
            self.log.continue_from(self.restored.seq, self.restored.parent)
        else:
            self.log.create(Header("s", str(root), str(root), "m", "", (), "1"))
        workspace = Workspace(root)
        context = ToolContext(workspace)
        tools = (Mark(), Read(), TodoWrite(), AskUserQuestion())
        deps = TurnDeps(
            self.model, ToolTable(tools), context, Policy(workspace), self.answer, ConversationState(), asker=self.reply
        )
        options = TurnOptions(
            model="scripted", label="scripted", system="test", limits=Limits(rounds=ROUNDS, failures=0, denials=0)
        )
        history = self.restored.history if self.restored else ()
        if self.restored:
            context.plan = self.restored.plan
        self.conversation = Conversation(deps, options, self.record, history, **calls_left_open(self.restored))

    def word(self) -> str:
        return self.replies.pop(0) if self.replies else "yes"

    def answer(self, request: ApprovalRequested) -> Answer:
        return {"yes": Approve(), "no": Reject("not this one"), "later": Defer()}[self.word()]

    def reply(self, asked: QuestionAsked) -> QuestionReply | Defer:
        return Defer() if self.word() == "later" else QuestionReply("answer", "this")

    def record(self, event: Event) -> None:
        self.log.record(event)
        self.seen += 1
        if self.seen == self.end[1] and self.end[0] == "kill":
            raise Crash
        if self.seen == self.end[1] and self.end[0] == "interrupt":
            self.conversation.interrupt()

    def run(self, text: str) -> tuple[Spent | None, Any]:
        """Go on: resume what waits, or say something new. Returns what was spent before, and the result."""
        waiting = self.restored.waiting if self.restored else None
        try:
            if waiting is not None:
                return waiting.spent, self.conversation.resume(_ignore, waiting.spent)
            return None, self.conversation.send(text, _ignore)
        except Crash:
            return None, None
        finally:
            self.log.close()


def _never(text: str) -> None:
    raise AssertionError(text)


def _ignore(event: Event) -> None:
    """Nobody looks."""


@pytest.mark.slow
@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(replies, answers, ends)
def test_whatever_happens(script: list[dict[str, Any]], lines: list[str], ends: list[tuple[str, int]]) -> None:
    DONE.clear()
    story = numbered(script)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "a.txt").write_text("x\n")
        path = root / "log" / "s.jsonl"
        before: tuple[Any, ...] = ()
        left = list(lines)
        for number, end in enumerate([*ends, ("run", 0), ("run", 0)]):
            process = Process(root, path, story, left, end)
            spent, result = process.run(f"go {number}")
            for request in process.model.requests:
                assert request.messages[: len(before)] == before
                before = request.messages
            if result is None:
                continue
            done = result.end.diagnostics
            assert getattr(result, "failure", None) is None or result.failure.kind != "script", result.failure
            assert done.rounds <= ROUNDS
            if spent is not None:
                assert done.rounds >= spent.rounds
                assert done.tool_calls >= spent.tool_calls
            if not isinstance(result, Suspended):
                assert not process.conversation.suspended
        assert len(DONE) == len(set(DONE)), DONE
        assert restore(path.read_bytes(), "s").bad == 0


def test_a_turn_that_ended_is_recorded_as_ended(tmp_path: Path) -> None:
    process = Process(tmp_path, tmp_path / "s.jsonl", numbered([]), [], ("run", 0))
    process.run("go")
    assert TurnFinished.__name__ in (tmp_path / "s.jsonl").read_text()

"""Random conversations in narrow windows: whatever is compacted, requests are sound, fit, and keep what is pinned."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.kernel.engine.compaction.controls import ContextWindow
from agent_cli.kernel.engine.conversation import Conversation
from agent_cli.kernel.engine.turn import TurnDeps
from agent_cli.kernel.engine.types import ConversationState, ToolTable, TurnOptions
from agent_cli.kernel.events import Compacted, Event
from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.results import Limits
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header
from agent_cli.kernel.session.restore import restore
from agent_cli.kernel.window import Window
from agent_cli.models.base import Request
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.fs.workspace import Workspace
from agent_tools.plan import TodoWrite
from agent_tools.read import Read
from agent_tools.record import Value
from tests.support.hypothesis_examples import examples
from tests.support.narrow_model import SUMMARY, NarrowModel, whole


class BlobArgs(Value):
    """How much, and whether it fails."""

    size: int
    fails: bool = False


class Blob(Tool[BlobArgs]):
    """A result of any size."""

    name = "Blob"
    Args = BlobArgs

    def effects(self, args: BlobArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: BlobArgs, ctx: ToolContext) -> str:
        return "Blob"

    def run(self, args: BlobArgs, ctx: ToolContext) -> ToolResult:
        if args.fails:
            raise ToolError("x" * args.size)
        return ToolResult("words and more " * (args.size // 15 + 1))


blob = st.builds(
    lambda size, fails: {"name": "Blob", "arguments": {"size": size, "fails": fails}},
    st.sampled_from([10, 300, 2_000, 9_000, 60_000]),
    st.booleans(),
)
read = st.builds(lambda n: {"name": "Read", "arguments": {"file_path": f"f{n}.txt"}}, st.integers(0, 2))
plan = st.just({"name": "TodoWrite", "arguments": {"todos": [{"content": "first step"}, {"content": "last step"}]}})
rounds = st.lists(
    st.fixed_dictionaries(
        {"calls": st.lists(blob | read | plan, min_size=1, max_size=4), "text": st.sampled_from(["", "Going on. " * 9])}
    ),
    min_size=1,
    max_size=6,
)
# What happens between turns.
folders_between = st.sampled_from(["nothing", "nothing", "compact", "uncompact", "pin", "restart", "rewind"])
turns = st.lists(st.tuples(rounds, folders_between), min_size=2, max_size=6)
KEPT = "This very sentence is pinned, with its number 90817."


class Life:
    """A conversation over several processes, whose log is all that they share."""

    def __init__(self, root: Path, model: NarrowModel, size: int | None) -> None:
        self.root, self.model, self.size = root, model, size
        self.path = root / "log.jsonl"
        self.events: list[Event] = []
        self.log = SessionLog(self.path, lambda text: None)
        self.log.create(Header("s", str(root), str(root), "narrow", "", (), ""))
        self.conversation = self.begin([], Window())

    def begin(self, history: list[Any], window: Window) -> Conversation:
        workspace = Workspace(self.root)
        context = ToolContext(workspace)
        tools, policy = ToolTable((Blob(), Read(), TodoWrite())), Policy(workspace, [], "default")
        state = ConversationState(window)
        deps = TurnDeps(self.model, tools, context, policy, None, state, attended=True)  # type: ignore[arg-type]
        limits = Limits(rounds=40, failures=0)
        options = TurnOptions(
            model="narrow",
            label="narrow",
            system="You are a test.",
            limits=limits,
            context_window=self.size,
            plan_nudges=0,
        )
        return Conversation(deps, options, self.log.record, history)

    def restart(self) -> None:
        """What the log says is what was there."""
        before = self.conversation.deps.state.window.view(self.conversation.history)
        plan = self.conversation.deps.context.plan
        self.log.close()
        restored = restore(self.path.read_bytes(), "s")
        assert list(restored.history) == self.conversation.history
        self.log = SessionLog(self.path, lambda text: None)
        self.log.acquire()
        self.log.continue_from(restored.seq, restored.parent)
        window = Window(restored.compactions, restored.pins, restored.report)
        assert window.view(restored.history) == before
        self.conversation = self.begin(list(restored.history), window)
        self.conversation.deps.context.plan = plan

    def do(self, what: str) -> None:
        conversation = self.conversation
        if what == "compact":
            ContextWindow(conversation).compact(self.events.append, "the numbers")
        elif what == "uncompact":
            ContextWindow(conversation).uncompact(self.events.append)
        elif what == "restart":
            self.restart()
        elif what == "rewind":
            lines = [
                n for n, m in enumerate(conversation.history) if isinstance(m, UserMessage) and "Do thing" in m.text
            ]
            if lines:
                conversation.rewind(lines[-1])
        elif what == "pin" and KEPT not in conversation.deps.state.window.pins:
            assert ContextWindow(conversation).pin(UserMessage(KEPT), self.events.append) == ""


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    story=turns,
    size=st.sampled_from([4_000, 9_000, 20_000]),
    known=st.booleans(),
    density=st.sampled_from([2.4, 3.5, 5.0]),
    reports=st.booleans(),
    summary=st.sampled_from([SUMMARY, "", None, "long " * 9_000]),
)
def test_whatever_is_compacted_the_conversation_goes_on(
    story: list[Any], size: int, known: bool, density: float, reports: bool, summary: str | None
) -> None:
    script: list[dict[str, Any]] = []

    def answer(number: int, request: Request) -> dict[str, Any]:
        return script.pop(0) if script else {"text": "That is all."}

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number in range(3):
            (root / f"f{number}.txt").write_text(f"file {number}\n" * (50 + 300 * number))
        model = NarrowModel(answer, size, bytes_per_token=density, reports=reports, summary=summary)
        life = Life(root, model, size if known else None)
        pinned_at = None
        for number, (made, what) in enumerate(story):
            script[:] = made
            text = f"Do thing {number}. {KEPT if not number else ''}"
            result = life.conversation.send(KEPT if not number else text, life.events.append)
            # Nothing here is too large by itself, so no turn is lost.
            assert type(result).__name__ == "Complete", (result, model.refused)
            assert whole(model.requests[-1]).count(text.strip()[:10]) or not number
            life.do(what)
            if what == "pin" and pinned_at is None:
                pinned_at = len(model.requests)
        life.restart()
        # A provider that refuses is asked again once or twice, never in circles.
        assert model.refused <= 2 * len(model.requests)
        for request in model.requests[pinned_at:] if pinned_at is not None else ():
            assert KEPT in whole(request)
        for event in life.events:
            if isinstance(event, Compacted):
                assert event.head or event.cuts
        assert ContextWindow(life.conversation).used()[0] > 0

"""The state of one turn while it runs, and what it is run with."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from agent_cli.config.prompts import prompt
from agent_cli.core.approvals import Approver, Asker, later
from agent_cli.core.events import ApprovalRequested, Event, MessageAdded, QuestionAsked, ToolFinished, Warned
from agent_cli.core.hooks import NO_HOOKS, Hooks
from agent_cli.core.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    call_ids,
    has_media,
    was_cut,
    with_open_calls_closed,
)
from agent_cli.core.modes import Effort
from agent_cli.core.results import Diagnostics, Failure, Limits, Spent, TerminalReason, TurnEnd, TurnResult, Usage
from agent_cli.core.rules import Rule
from agent_cli.core.window import Window
from agent_cli.engine.limits import Budget, Repeats
from agent_cli.engine.plan import open_steps, reminder
from agent_cli.engine.verification import Checks
from agent_cli.permissions.policy import Policy
from agent_cli.providers.base import ModelClient, ModelError, ToolSpec
from agent_tools.base import Effect, Tool, ToolContext, ToolResult
from agent_tools.display import Diff, TodoItem
from agent_tools.media import MediaKind
from agent_tools.overrides import TurnOverrides
from agent_tools.record import Value
from agent_tools.registry import tool_class
from agent_tools.shell.state import Carried

if TYPE_CHECKING:
    from agent_cli.core.agent_type import AgentType
    from agent_cli.engine.review import ReviewGates
    from agent_cli.engine.tool_call import PreparedCall


OUT_OF_TIME = "ended at the time limit of this turn"


class TurnOptions(Value):
    """What a turn sends and how far it may go. `model` is the provider's own name, `label` the one people use.

    takes: what the model can be shown beside text. lent: what the message brings for this turn. kept: what held when it
    was suspended. read_only: of a sub-agent, while the user has not approved the plan of the turn above.
    """

    model: str
    label: str
    system: str
    tools: tuple[ToolSpec, ...] = ()
    takes: frozenset[MediaKind] = frozenset()
    limits: Limits = Limits()
    spent: Spent = Spent()
    max_tokens: int | None = None
    temperature: float | None = None
    effort: Effort | None = None
    thinking_tokens: int | None = None
    reasoning_summary: bool = False
    keep_thinking: int = 0
    prefill: str = ""
    stream: bool = True
    plan_review: Literal["off", "plan", "always"] = "plan"
    read_only: bool = False
    plan_nudges: int = 5
    plan_reminder: int = 3
    context_window: int | None = None
    compact_at: float = 0.92
    review: Literal["off", "step", "files"] = "off"
    lent: TurnOverrides = TurnOverrides()
    after_turn: str = ""
    after_turn_tries: int = 3
    after_turn_timeout: float = 600.0
    hook_continues: int = 5
    saved: dict[str, Any] = {}  # noqa: RUF012 - never changed
    kept: dict[str, Any] = {}  # noqa: RUF012 - never changed


Guard = Callable[["Turn", AssistantMessage], str | None]
Price = Callable[[Usage], Usage]


class ModelHandle:
    """A model made ready.

    label: the name people use. model: the provider's own. price: adds the cost of a call. takes: what it can be shown
    beside text. window: how many tokens it takes, None where that is not known.
    """

    def __init__(
        self,
        label: str,
        model: str,
        transport: ModelClient,
        price: Price = lambda usage: usage,
        takes: frozenset[MediaKind] = frozenset(),
        window: int | None = None,
    ) -> None:
        self.label = label
        self.model = model
        self.transport = transport
        self.price = price
        self.takes = takes
        self.window = window


class ChangeObserver:
    """Is told around each call that may change files (see `watched`); this one looks away."""

    def turn(self, history: Sequence[Message], *, new: bool) -> None:
        """A turn begins, or goes on, with this history."""

    def before(self, call: str, tool: str, summary: str, effects: Sequence[Effect], cwd: str) -> Sequence[str]:
        """A call is about to run; what a user should know."""
        return ()

    def after(self, call: str) -> Sequence[str]:
        """It has ended, however it did."""
        return ()

    def facts(self, effects: Sequence[Effect], cwd: str) -> Sequence[str]:
        """For the question about a call: what of it could not be taken back."""
        return ()

    def take_back(self, calls: Sequence[str]) -> str:
        """Put the files back as they were before these calls; what became of it, in words."""
        return "Nothing was undone: there are no snapshots here."

    def diffs(self, calls: Sequence[str]) -> Sequence[Diff]:
        """What these calls changed, file by file, commands included; nothing where that is not known."""
        return ()

    def summed(self) -> str:
        """What the latest turn changed, in words: "3 files created, 2 modified"; "" for nothing."""
        return ""

    def close(self) -> None:
        """The conversation is over."""


class TurnDeps:
    """What a turn works with; everything in it can be a fake.

    price: adds the cost to a model call's usage. inbox: messages typed meanwhile, taken at each round boundary.
    guards: asked when the model stops calling tools; a text they return goes to the model, and the turn goes on.
    asker: puts a question of the model, or a plan, to the user. attended: a user watches the turn.
    verify: names of commands that check the work, beside the known ones.
    fallbacks: what to try when the model fails, opened on demand. small: what answers the questions of tools; None: the
    model itself.
    """

    def __init__(
        self,
        transport: ModelClient,
        tools: Iterable[Tool[Any]],
        context: ToolContext,
        policy: Policy,
        approver: Approver,
        *,
        asker: Asker = later,
        price: Price = lambda usage: usage,
        inbox: Callable[[], list[str]] = list,
        guards: Sequence[Guard] = (),
        fallbacks: Sequence[Callable[[], ModelHandle]] = (),
        small: Callable[[], ModelHandle] | None = None,
        clock: Callable[[], float] = time.monotonic,
        attended: bool = False,
        verify: Sequence[str] = (),
    ) -> None:
        self.transport = transport
        self.tools = {tool.name: tool for tool in tools}
        self.context = context
        context.workspace.offered = self.tools.__contains__
        self.policy = policy
        self.approver = approver
        self.asker = asker
        self.price = price
        self.inbox = inbox
        self.guards = guards
        self.fallbacks = fallbacks
        self.small = small
        self.clock = clock
        self.attended = attended
        # Whether a decision that was recorded before, while the turn waited, answers a question.
        self.recorded: Callable[[ApprovalRequested | QuestionAsked], bool] = lambda asked: False
        # Why the user rejected a call while the turn waited; empty where they did not, or gave no reason.
        self.rejected: Callable[[str], str] = lambda call_id: ""
        self.verify = tuple(verify)
        # Sub-agents: their types, how another model is opened, how deep this turn is nested, the histories of those
        # that wait, what they have read and where their commands start, and the call ids given out so far.
        self.agents: Mapping[str, AgentType] = {}
        self.open_model: Callable[[str], ModelHandle] | None = None
        self.depth = 0
        self.nested: dict[str, tuple[Message, ...]] = {}
        self.nested_seen: dict[str, dict[str, str]] = {}
        self.nested_shell: dict[str, Carried] = {}
        # What calls gave that ran and wait for the user's answer, by call id.
        self.held: dict[str, ToolResult] = {}
        # The histories that a sub-agent's turn is nested in, the user's own first.
        self.above: tuple[Sequence[Message], ...] = ()
        # Saves a rule for the project; answers "" or why it could not. None: it would have no effect there.
        self.save_rule: Callable[[str], str] | None = None
        # Describes an unexpected exception in a file; answers its path, or "".
        self.report: Callable[[BaseException], str] = lambda error: ""
        # Where a user is to look at steps, or an order of work is kept: what watches the turn.
        self.gates: ReviewGates | None = None
        self.ids: set[str] = set()
        # What the model is shown of the history, and the same for the histories of sub-agents that wait.
        self.window = Window()
        self.nested_windows: dict[str, Window] = {}
        self.watch = ChangeObserver()
        # Which tools may be used through one that stands for others.
        self.offered: Callable[[str], bool] = lambda name: True
        # What runs at named steps, and the type of the sub-agent that this is the kit of.
        self.hooks: Hooks = NO_HOOKS
        self.agent = ""

    def tool_class(self, name: str) -> type[Tool[Any]]:
        """What a tool that is offered says of itself, or a built-in one that was called when it was offered."""
        return type(self.tools[name]) if name in self.tools else tool_class(name)

    def spent_by(self, result: TurnResult) -> Spent:
        """What a turn with this kit had spent when it ended, its predecessors included."""
        done = result.end.diagnostics
        return Spent(done.rounds, done.duration_ms / 1000, done.tool_calls, result.end.cost)


RunTurn = Callable[[Iterable[Message], TurnDeps, TurnOptions], Generator[Event, None, TurnResult]]


class Turn:
    """History, budget and tallies of a running turn. Only the engine touches it."""

    def __init__(self, history: Iterable[Message], kit: TurnDeps, options: TurnOptions, start: RunTurn) -> None:
        self.start = start
        self.history: list[Message] = list(history)
        self.kit = kit
        self.options = options
        self.budget = Budget(options.limits, kit.clock, options.spent)
        # What this part of the turn used; `end` adds what earlier parts did.
        self.usage = Usage()
        self.model_ms = options.spent.model_ms
        self.first_chunk_ms = options.spent.first_chunk_ms
        self.stop_reason = ""
        self.denials = list(options.spent.denied)
        self.actions = list(options.spent.actions)
        self.nudges = dict(options.spent.nudges)
        self.repeats = Repeats(self, options.spent.recent)
        self.checks = Checks(kit.verify, options.spent)
        self.plan_round = 0
        self.plan_approved = bool(options.kept.get("plan_approved"))
        # A plan that this turn has nothing to do with is not carried on.
        self.plan_touched = options.spent.plan_touched
        # Why the later calls of the answer that is being carried out do not run.
        self.skip_rest = ""
        # Why a hook ends the turn, for the user.
        self.stopped: str | None = None
        # The last answer ended at its token limit; the text of those that were continued.
        self.was_cut = any(isinstance(m, AssistantMessage) and was_cut(m) for m in self.history[-1:])
        self.cut_text = ""
        self.in_model_call = False
        self.transport = kit.transport
        self.price = kit.price
        self.lent: list[TurnOverrides] = []
        self.borrowed: list[Rule] = []
        self._fallback = 0
        self._known = len(self.history)
        kit.ids |= call_ids(self.history)
        kit.context.takes = options.takes
        if kit.context.nearby is not None:
            kit.context.nearby.restored(m.text for m in self.history if isinstance(m, UserMessage))
        self.has_media = any(has_media(message) for message in self.history)
        # What the model is shown of the history, and how often it was refused as too long at which length of it.
        self.look()
        self.refusals, self.refused_at = 0, -1

    def look(self) -> None:
        """See the history through the window anew."""
        self.view = self.kit.window.view(self.history)
        self.hidden = self.kit.window.hidden_answers(self.history)

    def add(self, message: Message) -> Generator[Event, None, None]:
        self.history.append(message)
        self.view.append(message)
        self.has_media = self.has_media or has_media(message)
        yield MessageAdded(message)

    def add_result(self, message: ToolMessage, last: bool) -> Generator[Event, None, None]:
        """Add a call's result; the last one of a round may carry a reminder of the plan, before it is first sent."""
        note = reminder(self, prompt("reminder")) if last and self.kit.context.plan else ""
        yield from self.add(message.but(text=message.text + note) if note else message)

    def answer(self, call: ToolCall, text: str, *, is_error: bool, last: bool) -> Generator[Event, None, None]:
        """The result of a call that no tool ran for."""
        yield from self.add_result(ToolMessage(call.id, call.name, text, is_error), last)
        yield ToolFinished(call.id, call.name, is_error, 0)

    def close_open_calls(self, reason: str) -> Generator[Event, None, None]:
        """Answer every call that has no result yet, so that every provider accepts the history."""
        for message in with_open_calls_closed(self.history, reason)[len(self.history) :]:
            yield from self.add(message)

    @property
    def cancelled_because(self) -> str:
        """The result of a call that was under way when the turn was cancelled."""
        reason = self.kit.context.cancel.reason
        return f"{reason[:1].upper()}{reason[1:]} before this finished."

    @property
    def timed_out(self) -> bool:
        """Whether the time limit has cancelled the turn."""
        return self.kit.context.cancel.cancelled and self.kit.context.cancel.reason == OUT_OF_TIME

    def plan_changed(self, before: tuple[TodoItem, ...]) -> None:
        """The plan was made or changed in this turn; progress starts the count of nudges again."""
        self.plan_touched = True
        now = self.kit.context.plan
        if [t.content for t in before] != [t.content for t in now]:
            self.plan_round = self.budget.rounds
            self.nudges.pop("plan", None)
        elif len(open_steps(now)) < len(open_steps(before)):
            self.nudges.pop("plan", None)

    def review_due(self, item: PreparedCall) -> bool:
        """Whether this call writes a plan that the user has to approve: one with other steps than the approved one."""
        name, now = item.tool.plan_argument, [todo.content for todo in self.kit.context.plan]
        todos = getattr(item.args, name) if name and self.options.plan_review == "always" else ()
        return bool(open_steps(todos)) and (not self.plan_approved or [todo.content for todo in todos] != now)

    @property
    def read_only(self) -> bool:
        """Whether nothing may be changed yet: the user has to approve a plan first."""
        return self.options.read_only or (self.options.plan_review == "always" and not self.plan_approved)

    @property
    def spent(self) -> Spent:
        """What a resumed turn begins with."""
        return self.budget.spent.but(
            nudges=dict(self.nudges),
            usage=self.options.spent.usage + self.usage,
            model_ms=self.model_ms,
            first_chunk_ms=self.first_chunk_ms,
            actions=tuple(self.actions),
            denied=tuple(self.denials),
            check=self.checks.last,
            changed_since=self.checks.changed_since,
            wrote=self.checks.wrote,
            plan_touched=self.plan_touched,
            recent=self.repeats.recent,
        )

    @property
    def tools_ran(self) -> bool:
        return any(a.outcome != "refused" for a in self.actions)

    def fall_back(self, failure: Failure) -> Generator[Event, None, bool]:
        """Switch to the next fallback model for the rest of the turn; False where there is none or it cannot help."""
        while failure.kind not in ("script", "context_too_long") and self._fallback < len(self.kit.fallbacks):
            self._fallback += 1
            try:
                self.switch(self.kit.fallbacks[self._fallback - 1]())
                return True
            except ModelError as error:
                yield Warned(f"A fallback model is skipped: {error.failure.message}")
        return False

    def switch(self, other: ModelHandle) -> None:
        """Go on with another model for the rest of the turn."""
        self.transport, self.price = other.transport, other.price
        self.options = self.options.but(
            label=other.label, model=other.model, takes=other.takes, context_window=other.window
        )
        self.kit.context.takes = other.takes

    def end(self, reason: TerminalReason) -> TurnEnd:
        """What the result of this turn begins with."""
        diagnostics = Diagnostics(
            rounds=self.budget.rounds,
            tool_calls=self.budget.tool_calls,
            duration_ms=round(self.budget.seconds * 1000),
            model_ms=self.model_ms,
            stop_reason=self.stop_reason,
            terminal_reason=reason,
            first_chunk_ms=self.first_chunk_ms,
        )
        usage = self.options.spent.usage + self.usage
        return TurnEnd(tuple(self.history[self._known :]), usage, diagnostics, tuple(self.denials), self.budget.cost)

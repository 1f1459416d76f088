"""The state of a running turn, its dependencies, and the checkpoints from which it can be resumed.

A checkpoint is recorded before a question, since the program may end while that is open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from agent_cli.config.prompts import prompt
from agent_cli.hooks import NO_HOOKS, HookRegistry
from agent_cli.kernel.decisions import Approver, Asker, Decision, defer
from agent_cli.kernel.engine.environment import Environment
from agent_cli.kernel.engine.progress import Budget, CheckTracker, Repeats, goal_of, open_steps, reminder, unfinished
from agent_cli.kernel.engine.types import (
    ChangeObserver,
    ConversationState,
    GateResult,
    ModelHandle,
    PreparedCall,
    Price,
    ToolTable,
    TurnOptions,
    free,
)
from agent_cli.kernel.events import (
    ApprovalRequested,
    Checkpoint,
    Event,
    MessageAdded,
    QuestionAsked,
    ToolFinished,
    Warned,
)
from agent_cli.kernel.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    call_ids,
    close_open_calls,
    count_characters,
    have_media,
    pending_calls,
)
from agent_cli.kernel.modes import AgentType
from agent_cli.kernel.results import Diagnostics, Failure, Spent, TerminalReason, TurnEnd, TurnResult, Usage
from agent_cli.kernel.rules import Rule
from agent_cli.models.base import ModelClient, ModelError
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect, Tool, ToolContext, ToolResult
from agent_tools.lazy import lazy_imports
from agent_tools.record import Protocol, Value, to_json
from agent_tools.registry import tool_traits
from agent_tools.results import ASSUMED_WINDOW_TOKENS, TodoItem, TurnOverrides
from agent_tools.shell.state import ShellState

with lazy_imports():
    from agent_cli.kernel.engine import repairs  # only for calls that are not as they should be
    from agent_tools.fs import read_state

OUT_OF_TIME = "ended at the time limit of this turn"


class Gates(Protocol):
    """Points where the user reviews the work: before a call, and at the end of the turn."""

    def state(self) -> dict[str, Any]:
        """Return the state to persist while the turn is suspended."""

    def decided(self, turn: Turn, tool: str, effects: Sequence[Effect], decision: Decision) -> Decision:
        """Return the decision about a call, perhaps stricter.

        Raises ToolError if the call must not run yet.
        """

    def record_result(self, item: PreparedCall, result: ToolResult) -> str:
        """Record what a call did; return a note to append to its result."""

    def before_round(self, turn: Turn, calls: Sequence[ToolCall]) -> Generator[Event, None, GateResult]:
        """Run the gate before the calls of a round."""

    def before_step(self, turn: Turn, item: PreparedCall, *, last: bool) -> Generator[Event, None, GateResult]:
        """Run the gate before one call. last: it is the last of its round."""

    def unfinished(self, turn: Turn, text: str) -> str:
        """Return why the turn may not end with this text; "" if it may."""

    def before_end(self, turn: Turn) -> Generator[Event, None, str | None]:
        """Run the gate before the turn ends; return a message that continues it, or None. Raises CancelledError."""


class Workflow(Protocol):
    """A workflow that a prompt asks for with `flow`, enforced by observing each call."""

    def snapshot(self) -> Any:
        """Return the state to persist while the turn is suspended, as JSON data."""

    def decided(self, turn: Turn, tool: str, effects: Sequence[Effect], decision: Decision) -> Decision:
        """Return the decision about a call, perhaps stricter.

        Raises ToolError if the call must not run yet.
        """

    def record_result(self, item: PreparedCall, result: ToolResult) -> str:
        """Record what a call did; return a note to append to its result."""

    def review(self) -> str:
        """Return what the user has to review before the next call; "" for nothing."""

    def record_review(self, *, approved: bool) -> None:
        """Record the result of that review."""

    def unfinished(self, turn: Turn, text: str) -> str:
        """Return why the turn may not end with this text; "" if it may."""

    def missing(self) -> str:
        """Describe the steps that were skipped by the end of the turn; "" for none."""


class Reducer(Protocol):
    """The steps after a refusal; see `send_less`."""

    def reduce(self, turn: Turn, error: ModelError) -> Generator[Event, None, Failure | None]:
        """Take the next step, so that the request can be sent again; return the failure if there is none."""

    def keep(self, turn: Turn) -> Generator[Event, None, None]:
        """Remember what made the request pass."""

    def restore(self, turn: Turn) -> Generator[Event, None, None]:
        """Undo all steps."""


Guard = Callable[["Turn", AssistantMessage], str | None]


class TurnDeps(Value):
    """Everything a turn depends on; each field can be a fake.

    client: sends requests to the model.
    tools: the tools that may be called.
    context: what tools run in.
    policy: decides which calls are allowed.
    approver: asks the user about a call.
    state: state that outlives the turn.
    price: adds the cost to a model call's usage.
    inbox: messages typed while the turn runs, read at each round boundary.
    guards: called when the model stops calling tools; a text they return goes to the model, and the turn continues.
    fallbacks: models to try when this one fails, opened on demand.
    planner: returns the model for plan mode (True), and the one outside it; None: both are the same.
    siblings: budgets of the sub-agents that run at the same time as this one; None if none does.
    small: opens the small model, which answers the questions of tools; None: use the turn's own model.
    open_model: opens another model by name.
    verify: commands that check the work, in addition to the known ones.
    offered: returns True for tools that may be called through another tool (UseTool).
    clock: monotonic seconds.
    asker: puts a question of the model, or a plan, to the user.
    attended: a user watches the turn.
    recorded: True if a decision recorded while the turn was suspended answers the question.
    rejected: the user's reason for rejecting a call in the meantime; "" for none.
    save_rule: saves a rule for the project; returns "" or why it failed. None: saving would have no effect.
    save_for_schedule: the same for the schedule that started the session; None if none did.
    gates: review points of the parent turn.
    report: writes a crash report for an unexpected exception; returns its path or "".
    watch: observes changes to files.
    hooks: hooks that run at named steps.
    agents: sub-agent types by name.
    agent: type of the sub-agent whose turn this is; "" at the top.
    depth: nesting depth of that sub-agent; 0 at the top.
    background: that sub-agent works in the background, so no turn above it keeps its time.
    above: histories of the enclosing turns, the user's own first.
    workflows: by the name used in a prompt's `flow`; called with the turn and the stored state or None.
    environment: how things stand for the model; None if nobody tells it.
    at_end: returns a call with which an answer in text ends the turn; None for none.
    """

    client: ModelClient
    tools: ToolTable
    context: ToolContext
    policy: Policy
    approver: Approver
    state: ConversationState
    price: Price = staticmethod(free)
    inbox: Callable[[], list[str]] = list
    guards: Sequence[Guard] = ()
    fallbacks: Sequence[Callable[[], ModelHandle]] = ()
    planner: Callable[[bool], ModelHandle] | None = None
    siblings: list[Budget] | None = None
    small: Callable[[], ModelHandle] | None = None
    open_model: Callable[[str], ModelHandle] | None = None
    verify: Sequence[str] = ()
    offered: Callable[[str], bool] = staticmethod(lambda name: True)
    clock: Callable[[], float] = time.monotonic
    asker: Asker = staticmethod(defer)
    attended: bool = False
    recorded: Callable[[ApprovalRequested | QuestionAsked], bool] = staticmethod(lambda asked: False)
    rejected: Callable[[str], str] = staticmethod(lambda call_id: "")
    save_rule: Callable[[str], str] | None = None
    save_for_schedule: Callable[[str], str] | None = None
    gates: Gates | None = None
    report: Callable[[BaseException], str] = staticmethod(lambda error: "")
    watch: ChangeObserver = ChangeObserver()
    hooks: HookRegistry = NO_HOOKS
    agents: Mapping[str, AgentType] = MappingProxyType({})
    agent: str = ""
    depth: int = 0
    background: bool = False
    above: tuple[Sequence[Message], ...] = ()
    workflows: Mapping[str, Callable[[Turn, Any], Workflow]] = MappingProxyType({})
    environment: Environment | None = None
    at_end: Callable[[Turn], ToolCall | None] = staticmethod(lambda turn: None)

    def nested(self, **changes: Any) -> TurnDeps:
        """Return the dependencies of a sub-agent, with a context and a policy of its own. changes: other fields."""
        context = self.context.nested()
        policy = self.policy.for_subagent(context.workspace, context.state(ShellState).exported)
        context.run_conditions, context.readable = policy.run_conditions, policy.readable
        # The user's messages, and the guards of an answer, belong to the turn above.
        of_above: dict[str, Any] = {"inbox": list, "guards": (), "fallbacks": (), "planner": None}
        return self.replace(context=context, policy=policy, **{**of_above, **changes})

    @property
    def keeps_time(self) -> bool:
        """True if the time limit is that of this turn, and of none above it."""
        return self.depth == 0 or self.background

    def traits_of(self, name: str) -> Tool[Any]:
        """Return an offered tool, or a built-in one that earlier calls used, to read its traits."""
        return self.tools[name] if name in self.tools else tool_traits(name)

    def spent_by(self, result: TurnResult) -> Spent:
        """Return what a turn had spent when it ended, including its earlier parts."""
        done = result.end.diagnostics
        return Spent(done.rounds, done.duration_ms / 1000, done.tool_calls, result.end.cost)


RunTurn = Callable[[Iterable[Message], TurnDeps, TurnOptions], Generator[Event, None, TurnResult]]


class Turn:
    """History, budget and counters of a running turn. Only the engine touches it."""

    def __init__(self, history: Iterable[Message], deps: TurnDeps, options: TurnOptions, start: RunTurn) -> None:
        self.start = start
        self.history: list[Message] = list(history)
        self.deps = deps
        self.options = options
        self.budget = Budget(options.limits, deps.clock, options.spent, deps.siblings)
        self.usage = Usage()  # of this part of the turn; `end` adds the earlier parts
        self.model_ms = options.spent.model_ms
        self.first_chunk_ms = options.spent.first_chunk_ms
        self.stop_reason = ""
        self.denials = list(options.spent.denied)
        self.actions = list(options.spent.actions)
        self.nudges = dict(options.spent.nudges)
        self.repeats = Repeats(self.budget, deps.context, options.spent.recent)
        self.checks = CheckTracker(deps.verify, options.spent)
        self.plan_round = 0
        self.plan_approved = bool(options.suspended_state.get("plan_approved"))
        self.plan_touched = options.spent.plan_touched  # a plan that this turn did not touch is not continued
        self.skip_rest = ""  # why the remaining calls of the current answer do not run
        self.stopped: str | None = None  # why a hook ends the turn, shown to the user
        # The last answer hit its token limit, at cut_at tokens if known, within a call that it wrote as text;
        # cut_text collects the text of continued answers.
        self.was_cut = any(isinstance(m, AssistantMessage) and m.was_cut for m in self.history[-1:])
        self.cut_at = 0
        self.cut_in_call = False
        self.cut_text = ""
        self.unrepeated = ""  # an answer that the model was asked to give again, as only the last one is shown
        self.looped = self.must_call = False  # the last answer repeated itself; the next one has to be a call
        self.in_model_call = False
        self.client = deps.client
        self.price = deps.price
        self.overrides: list[TurnOverrides] = []
        self.temporary_rules: list[Rule] = []
        self._fallback, self.planning = 0, False
        self._known = len(self.history)
        self.gates = deps.gates  # a sub-agent's steps are reviewed through those of the parent turn
        deps.state.ids.update(call_ids(self.history))
        deps.context.input_modalities = options.input_modalities
        self._limit_results()
        deps.context.workspace.offered = deps.tools.__contains__
        if deps.context.nested_memory is not None:
            deps.context.nested_memory.mark_sent(m.text for m in self.history if isinstance(m, UserMessage))
        self.refresh_view()
        # How often a request was refused as too long, and the length of the history then.
        self.refusals, self.refused_at = 0, -1
        self.reducer: Reducer | None = None  # the steps for a request that is refused for another reason

    def refresh_view(self) -> None:
        """Recompute the view of the history, its size in characters, and whether there are media in it."""
        self.deps.state.window.model = self.options.label
        self.view = self.deps.state.window.view(self.history)
        self.characters = sum(map(count_characters, self.view))
        self.has_media = have_media(self.view)
        self.hidden = self.deps.state.window.hidden_answers(self.history)

    def news(self) -> list[str]:
        """Return the message about what others have changed since the last request; sub-agents get none."""
        environment, context = self.deps.environment, self.deps.context
        if environment is None or self.deps.depth:
            return []
        return environment.changes(mode=self.deps.policy.mode, changed=lambda: read_state.changed_files(context))

    def agent_reports(self) -> list[str]:
        """Return the reports of the sub-agents in the background that have ended since the last request."""
        agents = self.deps.state.background
        if agents is None or self.deps.depth:
            return []
        agents.answer_questions()
        agents.resume(self, ask=False)
        reports: list[str] = agents.reports(self.deps.context, self)
        return reports

    def add(self, message: Message) -> Generator[Event, None, None]:
        window = self.deps.state.window
        shown = window.view_of_added(message, len(self.history)) if window.left_out else message
        self.history.append(message)
        self.view.append(shown)
        self.characters += count_characters(shown)
        self.has_media = self.has_media or bool(shown.media)
        yield MessageAdded(message)

    def add_result(self, message: ToolMessage, last: bool) -> Generator[Event, None, None]:
        """Add a call's result; the last one of a round may carry a reminder of the plan."""
        note = self._reminder() if last and self.deps.context.plan else ""
        newest = next((m for m in reversed(self.history) if isinstance(m, AssistantMessage)), None)
        if newest and any(call.repaired for call in newest.calls):
            note = repairs.repair_note(self.history, message.call_id) + note
        yield from self.add(message.replace(text=message.text + note) if note else message)

    def _reminder(self) -> str:
        """Return a reminder of the plan every few rounds after it was made; else ""."""
        every, since = self.options.plan_reminder, self.budget.rounds - self.plan_round
        if not every or not self.left_open or since <= 0 or since % every:
            return ""
        return reminder(self.deps.context.plan, goal_of(self.history), prompt("reminder"))

    @property
    def left_open(self) -> bool:
        """Return True if the turn's own plan has open steps."""
        return self.plan_touched and unfinished(self.deps.context.plan)

    def answer(self, call: ToolCall, text: str, *, is_error: bool, last: bool) -> Generator[Event, None, None]:
        """Add the result of a call that did not run."""
        yield from self.add_result(ToolMessage(call.id, call.name, text, is_error), last)
        yield ToolFinished(call.id, call.name, is_error, 0)

    def close_open_calls(self, reason: str | Callable[[ToolCall], str]) -> Generator[Event, None, None]:
        """Answer every call that has no result yet; providers reject a history with open calls."""
        for message in close_open_calls(self.history, reason)[len(self.history) :]:
            yield from self.add(message)

    @property
    def cancelled_because(self) -> str:
        """The result text of a call that was running when the turn was cancelled."""
        reason = self.deps.context.cancel.reason
        return f"{reason[:1].upper()}{reason[1:]} before this finished."

    def cancelled_result(self, call: ToolCall) -> str:
        """Return the result of a call left open by a cancelled turn; of these only sub-agents may have begun."""
        word = "finished" if self.deps.traits_of(call.name).nested else "began"
        return self.cancelled_because.replace("finished", word)

    @property
    def cut(self) -> str:
        """A sentence fragment for the model: its last answer was cut."""
        return f"Your answer was cut at {f'{self.cut_at:,} tokens' if self.cut_at else 'the token limit'}"

    @property
    def timed_out(self) -> bool:
        """Return True if the time limit cancelled the turn."""
        return self.deps.context.cancel.cancelled and self.deps.context.cancel.reason == OUT_OF_TIME

    def plan_changed(self, before: tuple[TodoItem, ...]) -> None:
        """Record a change of the plan in this turn; progress resets the count of nudges."""
        self.plan_touched = True
        now = self.deps.context.plan
        if [t.content for t in before] != [t.content for t in now]:
            self.plan_round = self.budget.rounds
            self.nudges.pop("plan", None)
        elif len(open_steps(now)) < len(open_steps(before)):
            self.nudges.pop("plan", None)

    def review_due(self, item: PreparedCall) -> bool:
        """Return True if this call writes a plan that needs approval: it differs from the approved one."""
        name, now = item.tool.plan_argument, [todo.content for todo in self.deps.context.plan]
        todos = getattr(item.args, name) if name and self.options.plan_review == "always" else ()
        return bool(open_steps(todos)) and (not self.plan_approved or [todo.content for todo in todos] != now)

    @property
    def read_only(self) -> bool:
        """Return True while nothing may be changed because the user has not approved a plan yet."""
        return self.options.read_only or (self.options.plan_review == "always" and not self.plan_approved)

    @property
    def spent(self) -> Spent:
        """The sums that a resumed turn starts from."""
        return self.budget.spent.replace(
            nudges=dict(self.nudges),
            usage=self.options.spent.usage + self.usage,
            model_ms=self.model_ms,
            first_chunk_ms=self.first_chunk_ms,
            actions=tuple(self.actions),
            denied=tuple(self.denials),
            check=self.checks.ran[-1] if self.checks.ran else None,
            checks=tuple(self.checks.ran[:-1]),
            changed_since=self.checks.changed_since,
            wrote=self.checks.wrote,
            plan_touched=self.plan_touched,
            recent=self.repeats.recent,
        )

    @property
    def tools_ran(self) -> bool:
        return any(a.outcome != "refused" for a in self.actions)

    def fall_back(self, failure: Failure) -> Generator[Event, None, bool]:
        """Switch to the next fallback model until the turn ends; return False if there is none or it cannot help."""
        while not failure.final and self._fallback < len(self.deps.fallbacks):
            self._fallback += 1
            try:
                self.switch(self.deps.fallbacks[self._fallback - 1]())
                return True
            except ModelError as error:
                yield Warned(f"A fallback model is skipped: {error.failure.message}")
        return False

    def switch(self, other: ModelHandle) -> None:
        """Use another model for the rest of the turn."""
        self.client, self.price = other.client, other.price
        self.options = other.options(self.options)
        self.deps.context.input_modalities = other.input_modalities
        self.refresh_view()
        self._limit_results()

    @property
    def window_size(self) -> int:
        """The size of the model's window in tokens, assumed if unknown."""
        known = (self.options.context_window, self.deps.state.window.refused_tokens)
        return min((size for size in known if size), default=ASSUMED_WINDOW_TOKENS)

    def _limit_results(self) -> None:
        context = self.deps.context
        if context.result_limits.window != self.window_size:
            context.result_limits = context.result_limits.replace(window=self.window_size)

    def end(self, reason: TerminalReason) -> TurnEnd:
        """Return what every result of a turn contains."""
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


def checkpoint(turn: Turn) -> Generator[Event, None, None]:
    """Yield a checkpoint if a user is present; otherwise nothing waits for an answer."""
    if turn.deps.attended:
        yield Checkpoint(turn.spent, turn.deps.policy.mode, suspended_state(turn))


def outer_checkpoint(turn: Turn, inner: Checkpoint) -> Checkpoint:
    """Return the checkpoint of a turn whose sub-agent recorded one: the turn's own state, and what both have spent."""
    own = turn.spent
    spent = own.replace(
        rounds=inner.spent.rounds,
        seconds=inner.spent.seconds,
        tool_calls=inner.spent.tool_calls,
        cost=inner.spent.cost,
        usage=own.usage + inner.spent.usage,
        denied=(*own.denied, *inner.spent.denied),
        changed_since=own.changed_since or inner.spent.changed_since,
        wrote=own.wrote or inner.spent.wrote,
    )
    return Checkpoint(spent, turn.deps.policy.mode, suspended_state(turn))


def suspended_state(turn: Turn) -> dict[str, Any]:
    """Return the state to persist while the turn is suspended, as JSON data."""
    found: dict[str, Any] = {}
    if turn.overrides:
        found["lent"] = [to_json(each) for each in turn.overrides]
    if turn.gates is not None and turn.deps.depth == 0:
        found |= turn.gates.state()
    if turn.plan_approved and turn.options.plan_review == "always":
        found["plan_approved"] = True
    return found


def report_failure(deps: TurnDeps, doing: str, error: Exception) -> Generator[Event, None, str]:
    """Warn the user of an unexpected exception; return a sentence about it for the model.

    The call fails, the session continues, and a crash report has the traceback. Call this while the exception is
    handled.
    doing: what failed, as in "checking Read".
    """
    what = f"{doing[:1].upper()}{doing[1:]} failed: {error_sentence(error)}"
    where = deps.report(error)
    yield Warned(f"{what} This is an internal error{f', described in {where}' if where else ''}.")
    return what


def close_call(turn: Turn, call: ToolCall, text: str, *, last: bool) -> Generator[Event, None, None]:
    """Add a call's one result if it has none yet, and end it on the screen."""
    turn.budget.called(failed=True)
    if any(waiting.id == call.id for waiting in pending_calls(turn.history)):
        yield from turn.answer(call, text, is_error=True, last=last)
    else:
        yield ToolFinished(call.id, call.name, True, 0)


def error_sentence(error: Exception) -> str:
    """Return the exception's message as a sentence."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    else:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text if text.endswith((".", "!", "?")) else f"{text}."

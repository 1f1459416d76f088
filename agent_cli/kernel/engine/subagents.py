"""Sub-agents: a nested turn with its own history, prompt and tools, paid for from the parent's budget.

Its events are wrapped, its questions go to the same user, its suspension suspends the parent; resuming the parent's
open Task call resumes it where it was.

Read-only sub-agents of one answer run in parallel, each in a thread; the parent's generator yields all their events. A
sub-agent continues only after its event was handled, so every event is in the log before anything follows from it. The
parent's thread asks their questions, one after another; meanwhile the others wait at their next event. What each
spends counts against the limits of all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import cache
from queue import Empty, SimpleQueue
from threading import Event as Flag
from threading import Thread
from time import monotonic
from typing import Any

from agent_cli.kernel.decisions import Level
from agent_cli.kernel.engine.environment import environment_of
from agent_cli.kernel.engine.progress import Budget
from agent_cli.kernel.engine.turn import Turn, TurnDeps, outer_checkpoint
from agent_cli.kernel.engine.types import CallError, CheckedCall, ModelHandle, PreparedCall, SubagentEnd, ToolTable
from agent_cli.kernel.events import Checkpoint, Event, MessageAdded, SubagentEvent, ToolStarted, TurnFinished, Warned
from agent_cli.kernel.messages import AssistantMessage, UserMessage
from agent_cli.kernel.modes import AgentType
from agent_cli.kernel.results import Complete, Failed, LimitReached, Suspended, TurnResult
from agent_cli.kernel.rules import names_tool
from agent_cli.models.base import ModelError
from agent_tools.base import Steps, ToolError, ToolResult
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.lazy import lazy_imports
from agent_tools.results import TurnOverrides
from agent_tools.shell.state import carried_state, restore_carried
from agent_tools.task import common_type

with lazy_imports():
    from agent_cli.kernel.engine import hook_points

MAX_DEPTH = 2


class NestedTurn:
    """The turn of a sub-agent for a Task call. Raises ToolError for an unknown type.

    name: of a sub-agent in the background, which an interruption of the parent does not stop.
    model: its own model; None: the parent turn's.
    before: what the parent had spent before it.
    """

    def __init__(self, turn: Turn, item: PreparedCall, name: str = "") -> None:
        self._turn = turn
        self._item = item
        self._name = name
        self.kind = agent_type(turn, item.args.subagent_type)
        self.deps = nested_deps(turn, self.kind, item.call.id)
        self.model: ModelHandle | None = None
        self.before = turn.budget.spent
        self._waits = turn.deps.state.nested[item.call.id]
        above = turn.deps.context.cancel
        self._waits.cancel = cancel = self.deps.context.cancel = CancelToken()
        self._forget: Callable[[], None] = lambda: None
        if not name:
            self._forget = above.on_cancel(lambda: cancel.cancel(above.reason))
        self._history = list(self._waits.history)

    def open_model(self, name: str) -> None:
        """Open the sub-agent's own model. Raises ModelError."""
        assert self._turn.deps.open_model is not None
        self.model = self._turn.deps.open_model(name)

    def run(self) -> Generator[Event, None, TurnResult]:
        """Run (or resume) the turn; its events are not wrapped yet."""
        turn, deps, waits = self._turn, self.deps, self._waits
        named = (spec for spec in turn.options.searched if names_tool(self.kind.tools, spec.name))
        options = turn.options.replace(
            system=f"{self.kind.prompt}\n\n{self._environment()}",
            tools=tuple(s for s in (*turn.options.tools, *named) if s.name in deps.tools),
            spent=self.before,
            plan_review="off",
            read_only=turn.read_only or self.kind.read_only,
            after_turn="",
            saved={},
            review="off",
            overrides=TurnOverrides(),
            suspended_state={},
        )
        if (own := self.model) is not None:
            deps = deps.replace(client=own.client, price=own.price)
            options = own.options(options)
        deps.context.seen |= waits.seen
        if waits.shell:
            restore_carried(deps.context, waits.shell)
        if not self._history:
            self._history = [UserMessage(self._item.args.prompt)]
            yield MessageAdded(self._history[0])
            if deps.hooks.wants("SubagentStart"):
                for text in (yield from hook_points.begin_subagent(deps)):
                    self._history.append(UserMessage(text))
                    yield MessageAdded(self._history[-1])
        return (yield from turn.start(self._history, deps, options))

    def _environment(self) -> str:
        """Return how things stand now; a sub-agent does not need the rest of the parent's system prompt."""
        system, environment = self._turn.options.system, self.deps.environment
        if environment is None:
            return environment_of(system)
        return environment.for_subagent(system, self.deps.policy.mode)

    def wrap(self, event: Event) -> Event:
        """Return an event of the sub-agent as one of the parent turn."""
        turn = self._turn
        if self._name:
            return SubagentEvent(self.kind.name, self._item.call.id, event, self._name)
        if isinstance(event, TurnFinished) and event.changed_files:
            turn.checks.changed_since = turn.checks.wrote = True
        if isinstance(event, Checkpoint):
            return outer_checkpoint(turn, event)
        return SubagentEvent(self.kind.name, self._item.call.id, event)

    def store(self, result: TurnResult) -> None:
        """Store the state from which the turn goes on."""
        waits = self._waits
        waits.history = (*self._history, *result.end.messages)
        waits.seen, waits.shell = self.deps.context.seen, carried_state(self.deps.context)

    def report(self, result: TurnResult) -> ToolResult:
        """Return the final answer of a turn that has ended. Raises CancelledError."""
        if self.deps.context.cancel.cancelled and (self._name or not self._turn.deps.context.cancel.cancelled):
            return ToolResult(f"The sub-agent was {self.deps.context.cancel.reason} before it finished.", is_error=True)
        return _result(result)

    def end(self, result: TurnResult) -> ToolResult | Suspended:
        """Store the state of a suspended turn; return the result of the call. Raises CancelledError."""
        turn, call = self._turn, self._item.call
        turn.usage += result.end.usage
        turn.denials += result.end.denials
        self.store(result)
        self._forget()
        if isinstance(result, Suspended):
            return result
        if result.end.diagnostics.terminal_reason == "stopped_by_hook":
            turn.stopped = "it ended the work of a sub-agent"
        del turn.deps.state.nested[call.id]
        if turn.deps.hooks.wants("PostToolUse", self._item.tool.name):
            turn.deps.state.ended[call.id] = self._summary(result)
        return self.report(result)

    def _summary(self, result: TurnResult) -> SubagentEnd:
        model = self.model.label if self.model is not None else self._turn.options.label
        made = [call.name for m in self._waits.history if isinstance(m, AssistantMessage) for call in m.calls]
        return SubagentEnd(self.kind.name, model, result.end.usage, tuple(made), result.end.diagnostics.duration_ms)


def run_nested(turn: Turn, item: PreparedCall) -> Generator[Event, None, ToolResult | Suspended]:
    """Run (or resume) the sub-agent of a Task call. Raises ToolError for an unknown type, CancelledError."""
    nested = NestedTurn(turn, item)
    if nested.kind.model and turn.deps.open_model is not None:
        try:
            nested.open_model(nested.kind.model)
        except ModelError as error:
            wanted = f"The sub-agent {nested.kind.name} asks for the model {nested.kind.model}: {error.failure.message}"
            yield Warned(f"{wanted} The model of this session answers instead.")
    run = Steps(nested.run())
    for event in run:
        yield nested.wrap(event)
    turn.budget.adopt(nested.deps.spent_by(run.result), nested.before)
    return nested.end(run.result)


def agent_type(turn: Turn, name: str) -> AgentType:
    """Return the sub-agent type of this name. Raises ToolError if there is none, or no sub-agent may start here."""
    types = turn.deps.agents
    if turn.deps.depth >= MAX_DEPTH:
        raise ToolError("Sub-agents cannot be nested deeper than this. Do the work yourself.")
    meant = name if name in types else common_type(name)
    if meant not in types:
        listed = "; ".join(f"{t.name}: {t.description}" for t in types.values())
        raise ToolError(f"There is no sub-agent type {name!r}. The types are: {listed}")
    return types[meant]


def nested_deps(turn: Turn, kind: AgentType, call_id: str) -> TurnDeps:
    """Return a sub-agent's dependencies: the tools of its type, and its own context, plan and files read."""
    parent = turn.deps
    offered = offers(turn, kind)
    tools = [t for t in parent.tools.values() if offered(t.name) and not t.ends_plan_mode]
    if parent.depth + 1 >= MAX_DEPTH:
        tools = [t for t in tools if not t.nested]
    return parent.nested(
        client=turn.client,
        price=turn.price,
        tools=ToolTable(tools, parent.tools.aliases),
        hooks=parent.hooks.nested(hook_points.agent_hooks(kind) if kind.hooks else ()),
        state=parent.state.of_nested(call_id),
        offered=offered,
        gates=turn.gates,
        agent=kind.name,
        depth=parent.depth + 1,
        above=(*parent.above, turn.history),
    )


def offers(turn: Turn, kind: AgentType) -> Callable[[str], bool]:
    """Return a predicate for the names of the tools that a sub-agent of this type may use."""
    wanted = kind.tools
    if any(name.startswith("mcp__") for name in kind.tools):
        # A server's tool may be reachable through tool search only.
        wanted = (*kind.tools, *(tool.name for tool in turn.deps.tools.values() if tool.reaches_servers))

    def offered(name: str) -> bool:
        named = not wanted or names_tool(wanted, name)
        return named and turn.deps.offered(name) and not names_tool(kind.disallowed_tools, name)

    return offered


def _result(result: TurnResult) -> ToolResult:
    """Return the sub-agent's final answer as the result of the parent's call."""
    match result:
        case Complete(degraded=False, text=text, return_value=value):
            return ToolResult(text or str(value or "The sub-agent ended without an answer."))
        case Complete(text=text) | LimitReached(text=text):
            return ToolResult(f"The sub-agent did not finish. {text}", is_error=True)
        case Failed(failure=None):
            if result.end.diagnostics.terminal_reason == "cancelled":
                return ToolResult("The user cancelled the sub-agent's work.", is_error=True)
            raise CancelledError
        case _:
            return ToolResult(f"The sub-agent failed: {getattr(result, 'text', '')}", is_error=True)


# How long interrupted sub-agents have to end.
_GRACE_SECONDS = 5.0


class SubagentQuestion:
    """A question of a sub-agent to the user, and its answer."""

    def __init__(self, ask: Callable[[Any], Any], about: Any) -> None:
        self._ask, self._about = ask, about
        self.answer: Any = None
        self.done = False
        self.error: BaseException | None = None

    def put(self) -> None:
        """Ask the user, on the parent's thread."""
        try:
            self.answer = self._ask(self._about)
        except Exception as error:  # noqa: BLE001 - raised again in the thread that asked
            self.error = error
        finally:
            self.done = True


class _Done:
    """A sub-agent has ended."""


class _Interrupted:
    """The work was interrupted."""


class ParallelSubagent:
    """A sub-agent that runs in a thread. signature: as in PrefetchedCall; always None."""

    signature = None

    def __init__(self, group: SubagentGroup, item: PreparedCall, nested: NestedTurn) -> None:
        self.item = item
        self.nested = nested
        self.done = False
        self._group = group
        self._released = Flag()
        self._result: TurnResult | None = None
        self._error: BaseException | None = None
        deps = nested.deps
        nested.deps = deps.replace(
            approver=lambda request: self._ask(deps.approver, request),
            asker=lambda asked: self._ask(deps.asker, asked),
        )

    def work(self) -> None:
        """Run the sub-agent in the current thread."""
        run = self.nested.run()
        try:
            self._hand_over(ToolStarted(self.item.call.id, self.item.call.name))
            while not self._group.closed:
                self._hand_over(self.nested.wrap(next(run)))
        except StopIteration as stop:
            self._result = stop.value
        except BaseException as error:  # noqa: BLE001 - raised again where the call's turn comes
            self._error = error
        finally:
            run.close()
            self._group.steps.put((self, _Done()))

    def _hand_over(self, step: Event | SubagentQuestion) -> None:
        """Pass a step to the parent's thread, and wait until it is handled."""
        self._released.clear()
        self._group.steps.put((self, step))
        if not self._group.closed:
            self._released.wait()

    def release(self) -> None:
        """Let the thread continue."""
        self._released.set()

    def _ask(self, ask: Callable[[Any], Any], about: Any) -> Any:
        question = SubagentQuestion(ask, about)
        self._hand_over(question)
        if question.error is not None:
            raise question.error
        if self._group.closed:
            raise CancelledError
        return question.answer

    def outcome(self) -> Generator[Event, None, ToolResult | Suspended]:
        """Yield the events of all sub-agents of the group until this one has ended; return or raise its result."""
        yield from self._group.until(self)
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise CancelledError
        return self.nested.end(self._result)

    def charge(self, turn: Turn) -> None:
        """Add what it has spent to the parent's budget."""
        if self._result is not None:
            turn.budget.add(self.nested.deps.spent_by(self._result), self.nested.before)

    def abandon(self) -> None:
        """End the group; nobody waits for this result."""
        self._group.close()


class SubagentGroup:
    """Sub-agents that run in parallel, at most `max_parallel` at a time."""

    def __init__(self, turn: Turn, max_parallel: int) -> None:
        self.steps: SimpleQueue[tuple[ParallelSubagent | None, Event | SubagentQuestion | _Done | _Interrupted]] = (
            SimpleQueue()
        )
        self.closed = False
        self.siblings: list[Budget] = []
        self.members: list[ParallelSubagent] = []
        self._turn = turn
        self._max_parallel = max_parallel
        self._waiting: deque[ParallelSubagent] = deque()

    def add(self, item: PreparedCall) -> None:
        """Add the sub-agent of a call. Raises ToolError; ModelError if it cannot have its own connection."""
        nested = NestedTurn(self._turn, item)
        deps = self._turn.deps
        if deps.open_model is not None:
            # Parallel requests need separate connections.
            nested.open_model(nested.kind.model or self._turn.options.label)
        nested.deps = nested.deps.replace(siblings=self.siblings, small=separate_small_model(self._turn))
        self.members.append(ParallelSubagent(self, item, nested))
        self._waiting.append(self.members[-1])

    def start(self) -> None:
        """Start as many threads as may run at once."""

        def worker() -> None:
            while not self.closed and not self._turn.deps.context.cancel.cancelled:
                try:
                    member = self._waiting.popleft()
                except IndexError:
                    return
                member.work()

        for number in range(min(self._max_parallel, len(self.members))):
            Thread(target=worker, name=f"sub-agent-{number + 1}", daemon=True).start()

    def until(self, member: ParallelSubagent) -> Generator[Event, None, None]:
        """Yield events until `member` has ended; after an interruption, until all have ended. Raises CancelledError."""
        cancel = self._turn.deps.context.cancel
        forget = cancel.on_cancel(lambda: self.steps.put((None, _Interrupted())))
        try:
            while not member.done:
                yield from self._handle(*self.steps.get())
                if cancel.cancelled:
                    yield from self._drain()
                    return
        finally:
            forget()

    def _drain(self) -> Generator[Event, None, None]:
        """Yield the last events of interrupted sub-agents, for a limited time."""
        until = monotonic() + _GRACE_SECONDS
        started = [member for member in self.members if member not in self._waiting]
        while not all(member.done for member in started) and (left := until - monotonic()) > 0:
            try:
                yield from self._handle(*self.steps.get(timeout=left))
            except Empty:
                return

    def _handle(
        self, member: ParallelSubagent | None, step: Event | SubagentQuestion | _Done | _Interrupted
    ) -> Generator[Event, None, None]:
        if member is None or isinstance(step, _Interrupted):
            return
        if isinstance(step, _Done):
            member.done = True
            member.charge(self._turn)
            return
        if isinstance(step, SubagentQuestion):
            with self._turn.budget.waiting():
                step.put()
        else:
            yield step
        member.release()

    def close(self) -> None:
        """Let the threads end at their next step."""
        self.closed = True
        for member in self.members:
            member.release()


def may_join(turn: Turn, item: CheckedCall) -> bool:
    """Return True if the call starts, without a question, a sub-agent whose tools only read."""
    if isinstance(item, CallError) or not item.tool.nested or item.decision.level is not Level.ALLOW:
        return False
    if item.args.background:
        return False
    try:
        kind = agent_type(turn, item.args.subagent_type)
    except ToolError:
        return False
    offered = offers(turn, kind)
    tools = [t for t in turn.deps.tools.values() if offered(t.name) and not t.ends_plan_mode]
    return all(t.parallel_safe or t.changes_plan or (kind.read_only and t.command_argument) for t in tools)


def start_subagents(turn: Turn, items: Sequence[PreparedCall]) -> dict[str, ParallelSubagent]:
    """Start the sub-agents of these calls, up to the first that cannot be prepared; return them by call id."""
    group = SubagentGroup(turn, turn.options.max_parallel_subagents)
    for item in items:
        try:
            group.add(item)
        except (ToolError, ModelError):
            break
    if len(group.members) < 2:
        return {}
    group.start()
    return {member.item.call.id: member for member in group.members}


def separate_small_model(turn: Turn) -> Callable[[], ModelHandle] | None:
    """Return a function that opens the small model for one sub-agent, with a separate connection."""
    small, open_model = turn.deps.small, turn.deps.open_model
    if small is None or open_model is None:
        return small
    return cache(lambda: open_model(small().label))

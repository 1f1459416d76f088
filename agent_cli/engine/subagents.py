"""Sub-agents: a nested turn with its own history, prompt and tools, paid for from the parent's budget.

Its events are wrapped, its questions go to the same user, its suspension suspends the parent; resuming the parent's
open Task call resumes it where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from agent_cli.core.events import Checkpoint, Event, MessageAdded, SubagentEvent, TurnFinished, Warned
from agent_cli.core.messages import UserMessage
from agent_cli.core.modes import AgentType
from agent_cli.core.results import Complete, Failed, LimitReached, Suspended, TurnResult
from agent_cli.core.rules import names_tool
from agent_cli.engine.checkpoints import outer
from agent_cli.engine.turn import ToolTable, Turn, TurnDeps
from agent_cli.engine.types import ModelHandle, PreparedCall
from agent_cli.providers.base import ModelError
from agent_tools.base import ToolError, ToolResult
from agent_tools.cancel import CancelledError
from agent_tools.overrides import TurnOverrides
from agent_tools.shell.state import ShellState, carried_state, restore_carried

MOST_DEPTH = 2
FINDERS = ("ToolSearch", "UseTool")


class NestedTurn:
    """The turn of a sub-agent for a Task call. Raises ToolError for an unknown type.

    model: its model; None for that of the parent turn.
    before: what was spent before it.
    """

    def __init__(self, turn: Turn, item: PreparedCall) -> None:
        self._turn = turn
        self._item = item
        self.kind = agent_type(turn, item.args.subagent_type)
        self.deps = nested_deps(turn, self.kind, item.call.id)
        self.model: ModelHandle | None = None
        self.before = turn.budget.spent
        self._waits = turn.deps.state.nested[item.call.id]
        self._history = list(self._waits.history)

    def open_model(self, name: str) -> None:
        """Use a model of its own. Raises ModelError."""
        assert self._turn.deps.open_model is not None
        self.model = self._turn.deps.open_model(name)

    def run(self) -> Generator[Event, None, TurnResult]:
        """Run (or resume) the turn; its events are not wrapped yet."""
        turn, deps, waits = self._turn, self.deps, self._waits
        options = turn.options.replace(
            system=f"{self.kind.prompt}\n\n{parent_environment(turn.options.system)}",
            tools=tuple(s for s in turn.options.tools if s.name in deps.tools),
            spent=self.before,
            plan_review="off",
            read_only=turn.read_only,
            after_turn="",
            saved={},
            prefill="",
            review="off",
            overrides=TurnOverrides(),
            suspended_state={},
        )
        if (own := self.model) is not None:
            deps = deps.replace(transport=own.transport, price=own.price)
            options = own.options(options)
        deps.context.seen |= waits.seen
        if waits.shell:
            restore_carried(deps.context, waits.shell)
        if not self._history:
            self._history = [UserMessage(self._item.args.prompt)]
            yield MessageAdded(self._history[0])
        return (yield from turn.start(self._history, deps, options))

    def wrap(self, event: Event) -> Event:
        """Return an event of the sub-agent as one of the parent turn."""
        turn = self._turn
        if isinstance(event, TurnFinished) and event.changed_files:
            turn.checks.changed_since = turn.checks.wrote = True
        if isinstance(event, Checkpoint):
            return outer(turn, event)
        return SubagentEvent(self.kind.name, self._item.call.id, event)

    def end(self, result: TurnResult) -> ToolResult | Suspended:
        """Store the state of a suspended turn; return the result of the call. Raises CancelledError."""
        turn, waits, call = self._turn, self._waits, self._item.call
        turn.usage += result.end.usage
        turn.denials += result.end.denials
        waits.history = (*self._history, *result.end.messages)
        waits.seen, waits.shell = self.deps.context.seen, carried_state(self.deps.context)
        if isinstance(result, Suspended):
            return result
        if result.end.diagnostics.terminal_reason == "stopped_by_hook":
            turn.stopped = "it ended the work of a sub-agent"
        del turn.deps.state.nested[call.id]
        return _result(result)


def run_nested(turn: Turn, item: PreparedCall) -> Generator[Event, None, ToolResult | Suspended]:
    """Run (or resume) the sub-agent of a Task call. Raises ToolError for an unknown type, CancelledError."""
    nested = NestedTurn(turn, item)
    if nested.kind.model and turn.deps.open_model is not None:
        try:
            nested.open_model(nested.kind.model)
        except ModelError as error:
            yield Warned(
                f"The sub-agent {nested.kind.name} wants the model {nested.kind.model}: {error.failure.message}"
            )
    run = nested.run()
    while True:
        try:
            event = next(run)
        except StopIteration as stop:
            result: TurnResult = stop.value
            break
        yield nested.wrap(event)
    turn.budget.adopt(nested.deps.spent_by(result))
    return nested.end(result)


def agent_type(turn: Turn, name: str) -> AgentType:
    """Return the type of a sub-agent. Raises ToolError if there is none, or none may be started here."""
    types = turn.deps.agents
    if turn.deps.depth >= MOST_DEPTH:
        raise ToolError("Sub-agents cannot be nested deeper than this. Do the work yourself.")
    if name not in types:
        listed = "; ".join(f"{t.name}: {t.description}" for t in types.values())
        raise ToolError(f"There is no sub-agent type {name!r}. The types are: {listed}")
    return types[name]


def nested_deps(turn: Turn, kind: AgentType, call_id: str) -> TurnDeps:
    """Return a sub-agent's dependencies: its type's tools, and its own context with what it read and its plan."""
    parent = turn.deps
    offered = offers(turn, kind)
    tools = [t for t in parent.tools.values() if offered(t.name) and not t.ends_plan_mode]
    if parent.depth + 1 >= MOST_DEPTH:
        tools = [t for t in tools if not t.nested]
    context = parent.context.nested()
    policy = parent.policy.for_subagent(context.workspace, context.state(ShellState).exported)
    context.run_conditions = policy.run_conditions
    return parent.replace(
        transport=turn.transport,
        price=turn.price,
        tools=ToolTable(tools),
        context=context,
        policy=policy,
        state=parent.state.of_nested(call_id),
        offered=offered,
        gates=turn.gates,
        agent=kind.name,
        depth=parent.depth + 1,
        above=(*parent.above, turn.history),
        # The user's messages, and the guards of an answer, belong to the turn above.
        inbox=list,
        guards=(),
        fallbacks=(),
    )


def offers(turn: Turn, kind: AgentType) -> Callable[[str], bool]:
    """Return a function that tells whether a sub-agent of this type may use the tool of a name."""
    # A server's tool may be reachable through tool search only.
    wanted = (*kind.tools, *FINDERS) if any(name.startswith("mcp__") for name in kind.tools) else kind.tools

    def offered(name: str) -> bool:
        named = not wanted or names_tool(wanted, name)
        return named and turn.deps.offered(name) and not names_tool(kind.not_tools, name)

    return offered


def parent_environment(system: str) -> str:
    """Return the environment block of the parent's system prompt; a sub-agent does not need the rest."""
    _, found, rest = system.partition("# Environment\n")
    return f"# Environment\n{rest}" if found else ""


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

"""Sub-agents: a nested turn with its own history, prompt and tools, paid for from the parent's budget.

Its events are wrapped, its questions go to the same user, its suspension suspends the parent; resuming the parent's
open Task call resumes it where it was.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from agent_cli.core.events import Checkpoint, Event, MessageAdded, SubagentEvent, TurnFinished, Warned
from agent_cli.core.messages import UserMessage
from agent_cli.core.modes import AgentType
from agent_cli.core.results import Complete, Failed, LimitReached, Suspended, TurnResult
from agent_cli.core.rules import names_tool
from agent_cli.engine.checkpoints import outer
from agent_cli.engine.turn import ToolTable, Turn, TurnDeps
from agent_cli.engine.types import PreparedCall
from agent_cli.providers.base import ModelError
from agent_tools.base import ToolError, ToolResult
from agent_tools.cancel import CancelledError
from agent_tools.overrides import TurnOverrides
from agent_tools.shell.state import ShellState, carried_state, restore_carried

MOST_DEPTH = 2
FINDERS = ("ToolSearch", "UseTool")


def run_nested(turn: Turn, item: PreparedCall) -> Generator[Event, None, ToolResult | Suspended]:
    """Run (or resume) the sub-agent of a Task call. Raises ToolError for an unknown type, CancelledError."""
    kind = _type_of(turn, item.args.subagent_type)
    deps = nested_deps(turn, kind, item.call.id)
    options = turn.options.replace(
        system=f"{kind.prompt}\n\n{parent_environment(turn.options.system)}",
        tools=tuple(s for s in turn.options.tools if s.name in deps.tools),
        spent=turn.budget.spent,
        plan_review="off",
        read_only=turn.read_only,
        after_turn="",
        saved={},
        prefill="",
        review="off",
        overrides=TurnOverrides(),
        suspended_state={},
    )
    if kind.model and turn.deps.open_model is not None:
        try:
            own = turn.deps.open_model(kind.model)
        except ModelError as error:
            yield Warned(f"The sub-agent {kind.name} wants the model {kind.model}: {error.failure.message}")
        else:
            deps = deps.replace(transport=own.transport, price=own.price)
            options = own.options(options)
    waits = turn.deps.state.nested[item.call.id]
    history = list(waits.history)
    deps.context.seen |= waits.seen
    if waits.shell:
        restore_carried(deps.context, waits.shell)
    if not history:
        history = [UserMessage(item.args.prompt)]
        yield SubagentEvent(kind.name, item.call.id, MessageAdded(history[0]))
    result = yield from _wrapped(turn, turn.start(history, deps, options), kind.name, item.call.id)
    turn.usage += result.end.usage
    turn.budget.adopt(deps.spent_by(result))
    turn.denials += result.end.denials
    waits.history = (*history, *result.end.messages)
    waits.seen, waits.shell = deps.context.seen, carried_state(deps.context)
    if isinstance(result, Suspended):
        return result
    if result.end.diagnostics.terminal_reason == "stopped_by_hook":
        turn.stopped = "it ended the work of a sub-agent"
    del turn.deps.state.nested[item.call.id]
    return _result(result)


def _type_of(turn: Turn, name: str) -> AgentType:
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
    # A server's tool may be reachable through tool search only.
    wanted = (*kind.tools, *FINDERS) if any(name.startswith("mcp__") for name in kind.tools) else kind.tools

    def offered(name: str) -> bool:
        named = not wanted or names_tool(wanted, name)
        return named and parent.offered(name) and not names_tool(kind.not_tools, name)

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


def parent_environment(system: str) -> str:
    """Return the environment block of the parent's system prompt; a sub-agent does not need the rest."""
    _, found, rest = system.partition("# Environment\n")
    return f"# Environment\n{rest}" if found else ""


def _wrapped(turn: Turn, run: Generator[Event, None, Any], agent: str, call_id: str) -> Generator[Event, None, Any]:
    while True:
        try:
            event = next(run)
        except StopIteration as stop:
            return stop.value
        if isinstance(event, TurnFinished) and event.changed_files:
            turn.checks.changed_since = turn.checks.wrote = True
        yield outer(turn, event) if isinstance(event, Checkpoint) else SubagentEvent(agent, call_id, event)


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

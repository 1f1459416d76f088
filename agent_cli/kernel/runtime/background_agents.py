"""Sub-agents in the background that an earlier process left: what the log knows of them, made ready to go on."""

from __future__ import annotations

from agent_cli.kernel.engine.background import BackgroundAgent, agents_of, restored_agent
from agent_cli.kernel.engine.conversation import BROKE_OFF
from agent_cli.kernel.engine.turn import TurnDeps
from agent_cli.kernel.engine.types import NestedState
from agent_cli.kernel.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    call_ids,
    close_open_calls,
    is_answered,
    pending_calls,
)
from agent_cli.kernel.runtime.builder import BROKEN_OFF, NOT_STARTED
from agent_cli.kernel.session.records import Restored, RestoredAgent
from agent_cli.kernel.window import Window

_STAYED = "It stayed with the session that this one is a copy of, and does not report here."


def restore_agents(deps: TurnDeps, restored: Restored, *, copied: bool) -> None:
    """Add the sub-agents of a resumed session, which go on with its next turn; in a copy of it, they have ended."""
    agents = agents_of(deps.state)
    tool = next((tool for tool in deps.tools.values() if tool.nested), None)
    made = {c.id: c for m in restored.history if isinstance(m, AssistantMessage) for c in m.calls}
    for left in restored.agents:
        if tool is None:
            continue
        task = str(made[left.call_id].arguments.get("description", "")) if left.call_id in made else ""
        history, missed = _without_gaps(left)
        saved = NestedState(history, left.seen, left.shell, Window(left.compactions))
        agent = restored_agent(deps.state, tool, left.name, left.kind, left.call_id, task, saved)
        deps.state.ids.update(call_ids(history))
        agent.missed = missed
        _set_state(agent, left)
        if copied and agent.open:
            agent.state, agent.text, agent.missed = "ended", _STAYED, ()
        agents.add(agent)


def _without_gaps(left: RestoredAgent) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the history with a result for each call that cannot run any more, and the messages that this adds.

    Calls that wait for the user stay open.
    """
    waits = {asked.call_id for asked in left.asked}

    def why(call: ToolCall) -> str:
        return BROKEN_OFF if call.id in left.started else NOT_STARTED

    history = list(left.history)
    if waits:
        begun = [call for call in pending_calls(history) if call.id in left.started - waits]
        history += [ToolMessage(call.id, call.name, BROKEN_OFF, is_error=True) for call in begun]
    else:
        history = close_open_calls(history, why)
        if is_answered(history) and left.ended is None:
            history = [*history, UserMessage(BROKE_OFF)]
    return tuple(history), tuple(history[len(left.history) :])


def _set_state(agent: BackgroundAgent, left: RestoredAgent) -> None:
    if left.ended is not None:
        done = left.ended.result == "Complete" and not left.ended.degraded
        agent.text = left.ended.text if done else f"The sub-agent did not finish. {left.ended.text}".rstrip()
        agent.state, agent.changed = "ended", left.ended.changed_files
    elif left.asked:
        agent.state = "waiting"
        agent.asked = {asked.call_id: asked for asked in left.asked}

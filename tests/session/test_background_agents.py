"""Logs with sub-agents in the background: whatever a log ends with, another process can go on."""

from __future__ import annotations

from pathlib import Path

from agent_cli.kernel.engine.types import ConversationState
from agent_cli.kernel.messages import AssistantMessage, ToolMessage, pending_calls
from agent_cli.kernel.runtime.background_agents import restore_agents
from agent_cli.kernel.session.records import SessionNotFoundError
from agent_cli.kernel.session.restore import restore
from agent_cli.kernel.session.view import SessionView
from agent_tools.registry import BUILTIN
from tests.support.background_model import Subagents, background, runs
from tests.support.model_replies import Reply
from tests.support.program import agent
from tests.support.stories.model import Model, says


class Deps:
    """What of a session's parts is needed to go on."""

    def __init__(self) -> None:
        self.state = ConversationState()
        self.tools = {tool.name: tool for tool in BUILTIN}


def test_every_prefix_of_a_log_can_go_on(tmp_path: Path) -> None:
    """Each call has one result; what had begun is not open; what was finished is not lost."""
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    with Model() as model:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": model.server.openai_url, "AGENT_MODEL": "openai/test-model"}
        Subagents(model, one=[runs("echo a > a"), Reply(text="One.")], two=[runs("echo b > b"), Reply(text="Two.")])
        model.will(says("", background("one"), background("two")), says("They work."))
        assert agent(["-p", "--on-ask", "suspend", "go"], work, env).returncode == 3
        model.beside("One.", lambda received: Reply(text="Done.", id="done"))
        model.beside("Two.", lambda received: Reply(text="Done.", id="done"))
        assert agent(["approve", "--all"], work, env).returncode == 0
    log = next((tmp_path / "home/state").rglob("sessions/*/*.jsonl"))
    lines = log.read_bytes().splitlines(keepends=True)
    states = set()
    for count in range(1, len(lines) + 1):
        data = b"".join(lines[:count])
        try:
            restored = restore(data, log.stem)
        except SessionNotFoundError:
            continue
        SessionView.of_log(data)
        deps = Deps()
        if restored.agents:
            restore_agents(deps, restored, copied=False)  # type: ignore[arg-type]
        for left in restored.agents:
            made = deps.state.background.by_name[left.name]
            states.add(made.state)
            history = deps.state.nested[left.call_id].history
            results = [m.call_id for m in history if isinstance(m, ToolMessage)]
            calls = [c.id for m in history if isinstance(m, AssistantMessage) for c in m.calls]
            assert len(results) == len(set(results)) <= len(calls)
            open_calls = {call.id for call in pending_calls(history)}
            assert not open_calls & left.started
            assert (made.state == "waiting") == bool(open_calls)
    assert states == {"stopped", "waiting", "ended"}
    assert restore(b"".join(lines), log.stem).agents == ()

"""An agent: a conversation with everything it was built from, as the front ends use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_cli.config.layers import Layers
from agent_cli.config.schema import Settings
from agent_cli.kernel.engine.conversation import Conversation
from agent_cli.kernel.engine.types import LiveMapping
from agent_cli.kernel.events import SessionNamed, UsageAdded
from agent_cli.kernel.modes import MODES
from agent_cli.kernel.results import Usage
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.runtime.environment import check_mode
from agent_cli.kernel.runtime.mcp import SessionServers
from agent_cli.kernel.runtime.models import ChosenModel, lazy_model, make_planner, model_handle, open_client
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Header, Restored
from agent_cli.knowledge.loader import Extensions
from agent_cli.knowledge.memory import Memory
from agent_cli.models.catalog import ModelInfo
from agent_cli.models.resolve import ResolvedModel, prepare_client
from agent_tools.base import UserCommand
from agent_tools.lazy import lazy_imports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent_cli.kernel.engine.types import ModelHandle, ToolTable
    from agent_cli.kernel.message_ids import MessageIds
    from agent_cli.kernel.messages import Message
    from agent_cli.kernel.modes import AgentType
    from agent_cli.kernel.runtime.transcripts import SessionTranscript
    from agent_cli.kernel.window import Window
    from agent_cli.models.base import ModelClient
    from agent_cli.policy.policy import Policy
    from agent_tools.base import Tool, ToolContext

with lazy_imports():
    from agent_cli.kernel.engine import structured_output


class Agent:
    """A conversation with everything it was built from. `close` releases the session.

    transcript: in Claude Code's shape, where somebody may want it.
    ids: the UUIDs of messages, for frames.
    """

    def __init__(
        self,
        conversation: Conversation,
        run_env: RunEnvironment,
        layers: Layers,
        settings: Settings,
        chosen: ChosenModel,
        header: Header,
        log: SessionLog | None,
        restored: Restored | None,
        added: Extensions,
        commands: LiveMapping[UserCommand],
        memory: Memory,
        mcp: SessionServers | None,
        transcript: SessionTranscript | None,
        ids: MessageIds | None,
    ) -> None:
        self.conversation = conversation
        self.run_env = run_env
        self.layers = layers
        self.settings = settings
        self.chosen = chosen
        self.header = header
        self.restored = restored
        self.commands = commands
        self.added = added
        self.memory = memory
        self.mcp = mcp
        self._log = log
        self.name = restored.name if restored else ""
        self._unsaid: list[SessionNamed | UsageAdded] = []
        self.transcript = transcript
        self.ids = ids

    @property
    def model(self) -> ResolvedModel:
        """The model in use."""
        return self.chosen.resolved

    @property
    def policy(self) -> Policy:
        """The permissions of the session, with its mode."""
        return self.conversation.deps.policy

    @property
    def tool_context(self) -> ToolContext:
        """The state that tools share: workspace, plan, files read, jobs."""
        return self.conversation.deps.context

    @property
    def window(self) -> Window:
        """The model's view of the history, with compactions and pins."""
        return self.conversation.deps.state.window

    @property
    def tools(self) -> ToolTable:
        """The tools that the model may call."""
        return self.conversation.deps.tools

    @property
    def agent_types(self) -> Mapping[str, AgentType]:
        """The types of sub-agents, by name."""
        return self.conversation.deps.agents

    @property
    def nested_histories(self) -> dict[str, Sequence[Message]]:
        """The histories of suspended sub-agents, by their Task call."""
        return {call_id: waits.history for call_id, waits in self.conversation.deps.state.nested.items()}

    @property
    def save_rule(self) -> Callable[[str], str] | None:
        """Saves a rule for the project; see `TurnDeps.save_rule`."""
        return self.conversation.deps.save_rule

    @property
    def turn_changes(self) -> str:
        """The files that the last turn changed, in words; "" for none."""
        return self.conversation.deps.watch.summed()

    @property
    def started_at(self) -> float:
        """When the session began, in seconds since the epoch."""
        return self.conversation.deps.state.began

    def traits_of(self, tool: str) -> Tool[Any]:
        """Return a tool of the session by name, for its traits."""
        return self.conversation.deps.traits_of(tool)

    def open_model(self, *, small: bool = False) -> ModelHandle:
        """Open the model, or the small one if there is one, for a call beside the turns."""
        deps = self.conversation.deps
        assert deps.open_model is not None
        return deps.small() if small and deps.small else deps.open_model(self.conversation.options.label)

    def use_client(self, client: ModelClient) -> None:
        """Send requests to another client, such as a script."""
        self.conversation.deps = self.conversation.deps.replace(client=client)

    @property
    def structured(self) -> bool:
        """Return True if the answer is to fit a JSON schema."""
        return structured_output.NAME in self.tools

    @property
    def info(self) -> ModelInfo | None:
        """The catalog's entry for the model, if any."""
        return self.chosen.info

    def rename(self, named: SessionNamed) -> None:
        """Name the session; callable from any thread. A session without messages stores the name with its first one."""
        self.name = named.name
        self._unsaid = [event for event in self._unsaid if not isinstance(event, SessionNamed)]
        self._record(named)

    def charge(self, model: str, usage: Usage) -> None:
        """Count a model call that the user made beside the turns; callable from any thread."""
        if usage != Usage():
            self._record(UsageAdded(model, usage, aside=True, of_turn=False))

    def _record(self, event: SessionNamed | UsageAdded) -> None:
        self._unsaid.append(event)
        self.record_unsaid()

    def record_unsaid(self) -> None:
        """Record the name and the costs so far, once the session has messages."""
        while self._unsaid and self.conversation.history:
            self.conversation.record(self._unsaid.pop(0))

    @property
    def last_record(self) -> int:
        """Number of the last record of the session's log; 0 if it is not saved."""
        return self._log.last if self._log is not None else 0

    @property
    def unsaved(self) -> str:
        """Why the session could not be saved, as long as that is so; "" if it is, or should not be saved."""
        return self._log.warning if self._log is not None else ""

    def reload(self, added: Extensions) -> None:
        """Replace the commands, skills and types of sub-agents by those read now."""
        self.added = added
        context = self.tool_context
        context.extensions, context.workspace.skill_folders = added.offered(), added.readable_folders()
        if self.mcp is not None:
            self.mcp.replace_commands(added.commands)
        else:
            self.commands.replace(added.commands)
        if self.agent_types:
            self.conversation.deps = self.conversation.deps.replace(agents=added.agent_types)

    def start_background_work(self, after: float = 0.0) -> None:
        """Start, after so many seconds, what the first turn would wait for: MCP servers, and LiteLLM's process."""
        prepare_client(self.model, after)
        if self.mcp is not None:
            self.mcp.servers.start(after)

    def close(self, reason: str = "other") -> None:
        """Stop background work and release the session. reason: passed to the SessionEnd hooks."""
        try:
            self.record_unsaid()
            self.conversation.end(reason)
        finally:
            self.tool_context.close()
            self.conversation.deps.watch.close()
            if self.mcp is not None:
                self.mcp.servers.close()
            if self._log is not None:
                self._log.close()


def switch_mode(agent: Agent, mode: str) -> None:
    """Change the permission mode, for every front end. Raises UsageError."""
    if mode not in MODES:
        raise UsageError(f"{mode} is not a permission mode. There are {', '.join(MODES)}.")
    check_mode(mode, agent.run_env.env, agent.layers.managed, may_bypass=agent.layers.may_bypass)
    agent.policy.mode = next(known for known in MODES if known == mode)


_MODEL_CHANGED = "<session_change>\nThe model is now "


def switch_model(agent: Agent, name: str) -> None:
    """Continue the conversation with another model, which learns its name. Raises UsageError."""
    before = agent.model.name
    agent.chosen.change(name)
    conversation, model, info = agent.conversation, agent.model, agent.info
    for text in [text for text in conversation.inbox if text.startswith(_MODEL_CHANGED)]:
        conversation.inbox.remove(text)
    if model.name != before:
        conversation.inbox.append(f"{_MODEL_CHANGED}{model.name}.\n</session_change>")
    client = open_client(model, agent.settings, agent.chosen.window)
    handle = model_handle(model, info, agent.settings, client, agent.chosen.window)
    planner = make_planner(agent.chosen, handle, lambda name: lazy_model(name, agent.settings, agent.run_env))
    conversation.deps = conversation.deps.replace(client=client, price=handle.price, planner=planner)
    conversation.options = handle.options(conversation.options)

"""What the hooks of a session run in: environment, models that evaluate conditions, MCP servers. Hooks without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_cli.config.layers import Layers
from agent_cli.config.schema import Settings
from agent_cli.hooks import Hook, HookRegistry, HookResult, HookSession, HookSurroundings
from agent_cli.kernel.events import Event, UsageAdded
from agent_cli.kernel.run_environment import RunEnvironment
from agent_tools.base import Effect, ToolContext, ToolError
from agent_tools.cancel import CancelToken
from agent_tools.lazy import lazy_imports
from agent_tools.registry import find_tool

if TYPE_CHECKING:
    from agent_cli.kernel.engine.types import ConversationState, ModelHandle
    from agent_cli.mcp.manager import Servers

with lazy_imports():
    from agent_cli.kernel import rules
    from agent_cli.kernel.engine import conversation, hook_points
    from agent_cli.kernel.runtime import conditions, models
    from agent_cli.mcp import answers
    from agent_cli.mcp import tools as mcp_tools
    from agent_cli.policy import command_rules
    from agent_tools.shell import state


class SessionSurroundings(HookSurroundings):
    """The surroundings of a session's hooks.

    The user's own hooks get the full environment; a project's hooks get that of commands, without keys.

    model: returns the session's model, which evaluates conditions if the settings name no small model.
    live: state of the conversation, for background hooks that send messages and for hooks that are sub-agents.
    servers: the MCP servers whose tools hooks may call.
    """

    def __init__(
        self,
        settings: Settings,
        run_env: RunEnvironment,
        context: ToolContext,
        session: HookSession,
        model: Callable[[], str] = lambda: "",
        live: ConversationState | None = None,
        servers: Servers | None = None,
    ) -> None:
        super().__init__(session)
        self._settings, self._run_env, self._context = settings, run_env, context
        self._model, self._live, self._servers = model, live, servers
        self._opened: dict[str, ModelHandle] = {}

    def environment(self, hook: Hook) -> dict[str, str]:
        if not hook.from_user:
            return state.command_env(self._context)[0]
        left_out = state.STARTUP_VARIABLES
        return {n: v for n, v in self._run_env.env.items() if n not in left_out and not n.startswith("BASH_FUNC_")}

    def cwd(self) -> Path:
        return self._context.workspace.cwd

    def covers(self, rule: str, tool: str, effects: Sequence[Effect]) -> bool:
        root, home = self._context.workspace.root, self._run_env.home or Path("/")
        return command_rules.rule_applies(rules.read_rule("deny", rule, "", root), tool, effects, root, home)

    def evaluate(self, hook: Hook, text: str, cancel: CancelToken, used: list[UsageAdded]) -> str:
        path = self.session.transcript_path
        return conditions.evaluate_condition(self._open_model, self._live, path, hook, text, cancel, used)

    def _open_model(self, name: str) -> ModelHandle:
        name = name or self._settings.small_model or self._model() or self._settings.model or ""
        if name not in self._opened:
            self._opened[name] = models.lazy_model(name, self._settings, self._run_env)()
        return self._opened[name]

    def wake(self, text: str) -> None:
        if self._live is not None:
            self._live.inbox.append(text)
            self._live.reported()

    def call_tool(self, server: str, tool: str, arguments: dict[str, Any], cancel: CancelToken) -> str:
        """Call a server's tool, and decline the server's questions to the user."""
        if self._servers is None:
            return super().call_tool(server, tool, arguments, cancel)
        found = self._servers.all.get(server)
        if found is None:
            raise ToolError(f"there is no MCP server {server}")
        mcp_tools.wait_for(found, cancel)
        if not any(offer.name == tool for offer in found.tools.values()):
            raise ToolError(f"the MCP server {server} has no tool {tool}")

        def decline(kind: str, what: Any) -> None:
            if kind == "ask":
                what[1].set_result({"action": "decline"})

        answer = mcp_tools.result_within(found.call(tool, arguments, decline), cancel, server)
        text, failed = answers.plain_answer(answer)
        if failed:
            raise ToolError(text or f"the tool {tool} of the MCP server {server} failed")
        return text


class LoneHooks(HookRegistry):
    """The hooks of a project without a session: around single calls, and to try what they do."""

    def __init__(self, layers: Layers, run_env: RunEnvironment, context: ToolContext, session_id: str = "") -> None:
        settings, session = layers.settings(), HookSession(session_id, root=run_env.root)
        super().__init__(
            layers.active_hooks(settings), (), lambda: SessionSurroundings(settings, run_env, context, session)
        )
        self._context = context

    def run_once(self, event: str, data: Mapping[str, Any], show: Callable[[Event], None]) -> HookResult:
        """Run the hooks of an event, with its fields; return what they answer together."""
        return conversation.consume(self.run(event, data, CancelToken()), show)

    def complete_call(self, data: dict[str, Any]) -> None:
        """Complete the fields of an event about a call as in a session: absolute paths and the effects.

        Raises ToolError for invalid arguments.
        """
        tool, given = find_tool(data["tool_name"]), data["tool_input"]
        if tool is None or not isinstance(given, dict):
            data.setdefault("effects", [])
            return
        if "effects" not in data:
            effects = tool.effects(tool.read(given), self._context)
            data["effects"] = [{"kind": e.kind, "target": e.target} for e in effects]
        data["tool_input"] = hook_points.absolute(given, self._context.workspace.cwd)

"""What the hooks of a conversation run in: environment, models that evaluate conditions, MCP servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_cli.config.schema import Settings
from agent_cli.core.run_environment import RunEnvironment
from agent_cli.hooks import HookSession, HookSurroundings
from agent_cli.hooks.declaration import no_server
from agent_tools.base import Effect, ToolContext, ToolError
from agent_tools.cancel import CancelToken
from agent_tools.lazy import lazy_imports

if TYPE_CHECKING:
    from agent_cli.engine.types import ConversationState, ModelHandle
    from agent_cli.hooks.declaration import CallServerTool
    from agent_cli.mcp.manager import Servers

with lazy_imports():
    from agent_cli.core import rules
    from agent_cli.mcp import answers
    from agent_cli.mcp import tools as mcp_tools
    from agent_cli.permissions import command_rules
    from agent_cli.runtime import conditions, models
    from agent_tools.shell import state


def hook_surroundings(
    settings: Settings,
    run_env: RunEnvironment,
    context: ToolContext,
    session: HookSession,
    model: Callable[[], str] = lambda: "",
    live: ConversationState | None = None,
    servers: Servers | None = None,
) -> HookSurroundings:
    """Return what the hooks of a conversation run in and may use.

    The user's own hooks get the full environment; a project's hooks get that of commands, without keys.

    model: returns the session's model, which evaluates conditions if the settings name no small model.
    live: state of the conversation, for background hooks that send messages and for hooks that are sub-agents.
    servers: the MCP servers whose tools hooks may call.
    """

    def environment(from_user: bool) -> dict[str, str]:
        if not from_user:
            return state.command_env(context)[0]
        return {
            n: v for n, v in run_env.env.items() if n not in state.STARTUP_VARIABLES and not n.startswith("BASH_FUNC_")
        }

    def covers(rule: str, tool: str, effects: Sequence[Effect]) -> bool:
        root = context.workspace.root
        return command_rules.rule_applies(
            rules.read_rule("deny", rule, "", root), tool, effects, root, run_env.home or Path("/")
        )

    @cache
    def open_by_name(name: str) -> ModelHandle:
        return models.lazy_model(name, settings, run_env)()

    def open_model(name: str) -> ModelHandle:
        return open_by_name(name or settings.small_model or model() or settings.model or "")

    def wake(text: str) -> None:
        if live is not None:
            live.inbox.append(text)

    return HookSurroundings(
        session,
        environment=environment,
        cwd=lambda: context.workspace.cwd,
        covers=covers,
        evaluate=lambda *given: conditions.evaluate_condition(open_model, live, session.transcript_path, *given),
        wake=wake,
        call_tool=_call_server_tool(servers) if servers is not None else no_server,
    )


def _call_server_tool(servers: Servers) -> CallServerTool:
    """Return a function that calls a server's tool for a hook, and declines the server's questions to the user."""

    def call(server: str, tool: str, arguments: dict[str, Any], cancel: CancelToken) -> str:
        found = servers.all.get(server)
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

    return call

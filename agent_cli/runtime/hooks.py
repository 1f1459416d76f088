"""Build the hooks of a conversation from settings, trust and session."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_cli.config.layers import Layers
from agent_cli.config.schema import Settings
from agent_cli.core.events import Event
from agent_cli.core.hooks import NO_HOOKS, Hook, HookEvent, HookResult, Hooks, RefreshFields
from agent_cli.core.run_environment import RunEnvironment
from agent_tools.base import Effect, ToolContext, ToolError
from agent_tools.cancel import CancelToken
from agent_tools.lazy import lazy_imports

if TYPE_CHECKING:
    from agent_cli.engine.turn import TurnDeps
    from agent_cli.engine.types import ConversationState, ModelHandle, TurnOptions
    from agent_cli.hooks import HookRegistry, PythonHook
    from agent_cli.hooks.matching import CallServerTool
    from agent_cli.mcp.manager import Servers

with lazy_imports():
    from agent_cli import hooks as agent_hooks
    from agent_cli.core import rules
    from agent_cli.hooks import matching
    from agent_cli.mcp import answers
    from agent_cli.mcp import tools as mcp_tools
    from agent_cli.permissions import command_rules
    from agent_cli.runtime import models
    from agent_tools.shell import state


class LazyHooks:
    """The hooks of a conversation, loaded at the first step that one of them matches."""

    def __init__(self, events: Collection[str], make: Callable[[], HookRegistry]) -> None:
        self._events = set(events)
        self._make = make

    @cached_property
    def registry(self) -> HookRegistry:
        return self._make()

    def wants(self, event: HookEvent, subject: str = "") -> bool:
        return event in self._events and self.registry.wants(event, subject)

    def run(
        self, event: HookEvent, data: Mapping[str, Any], cancel: CancelToken, refresh: RefreshFields | None = None
    ) -> Generator[Event, None, HookResult]:
        return (yield from self.registry.run(event, data, cancel, refresh))

    def run_in_background(self, event: HookEvent, data: Mapping[str, Any]) -> None:
        self.registry.run_in_background(event, data)

    def drain(self) -> list[Event]:
        return self.registry.drain() if "registry" in self.__dict__ else []

    def close(self) -> None:
        if "registry" in self.__dict__:
            self.registry.close()

    def add(self, hooks: Sequence[Hook]) -> None:
        self._events |= {hook.event for hook in hooks}
        self.registry.add(hooks)

    def remove(self, hooks: Sequence[Hook]) -> None:
        self.registry.remove(hooks)

    def nested(self, hooks: Sequence[Hook]) -> LazyHooks:
        return LazyHooks({*self._events, *(hook.event for hook in hooks)}, lambda: self.registry.nested(hooks))


def active_hooks(settings: Settings, layers: Layers) -> tuple[Hook, ...]:
    """Return the hooks that run; a project's only if it is trusted."""
    if settings.disable_hooks:
        return ()
    return tuple(hook for hook in settings.hooks if hook.from_user or layers.trust.trusted)


def make_hooks(
    settings: Settings,
    layers: Layers,
    run_env: RunEnvironment,
    context: ToolContext,
    session: tuple[str, Callable[[], Path | None]],
    model: Callable[[], str] = lambda: "",
    functions: tuple[PythonHook, ...] = (),
    live: ConversationState | None = None,
    servers: Servers | None = None,
) -> Hooks:
    """Return the hooks of a conversation.

    The user's own hooks get the full environment; a project's hooks get that of commands, without keys.

    session: its ID, and a function that returns the path of its transcript, or None.
    model: returns the session's model, which evaluates conditions if the settings name no small model.
    functions: Python hooks of an embedding program; they run after the configured ones.
    live: state of the conversation, for background hooks that send messages and for hooks that are sub-agents.
    servers: the MCP servers whose tools hooks may call.
    """
    hooks = active_hooks(settings, layers)
    if settings.disable_hooks and not functions:
        return NO_HOOKS

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

    def turn() -> tuple[TurnDeps, TurnOptions]:
        return live.running if live is not None and live.running is not None else matching.no_session()

    def registry() -> HookRegistry:
        return agent_hooks.HookRegistry(
            hooks,
            functions,
            session=matching.HookSession(session[0], str(session[1]() or ""), run_env.root),
            environment=environment,
            cwd=lambda: context.workspace.cwd,
            covers=covers,
            open_model=open_model,
            wake=wake,
            call_tool=_call_server_tool(servers) if servers is not None else matching.no_server,
            turn=turn,
        )

    return LazyHooks((*(hook.event for hook in hooks), *(hook.event for hook in functions)), registry)


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

"""The hooks of a conversation, joined from settings, the project's standing and the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agent_cli.config.layers import Layers
from agent_cli.config.schema import Settings
from agent_cli.core.hooks import NO_HOOKS, Hook, Hooks
from agent_cli.core.rules import read_rule
from agent_cli.engine.turn import Opened
from agent_cli.place import Place
from agent_tools.base import Effect, ToolContext


def active_hooks(settings: Settings, layers: Layers) -> tuple[Hook, ...]:
    """Those that run: a project's only while it is trusted."""
    if settings.disable_hooks:
        return ()
    return tuple(hook for hook in settings.hooks if hook.own or layers.trust.trusted)


def make_hooks(
    settings: Settings,
    layers: Layers,
    place: Place,
    context: ToolContext,
    session: tuple[str, Path | None],
    asked: bool,
    opened: Callable[[str], Opened],
) -> Hooks:
    """What a kit runs at named steps. session: its id, and its log where it is kept. asked: somebody answers questions.
    opened: a model by its name, for the hooks that are a condition; "" for the usual one.

    The person's own hooks get their environment as it is; a project's what commands get, without keys.
    """
    hooks = active_hooks(settings, layers)
    if not hooks:
        return NO_HOOKS
    # Only with hooks.
    from agent_cli.extensions.hooks.table import HookTable, Session
    from agent_tools.shell_env import STARTUP, command_env

    def environment(own: bool) -> dict[str, str]:
        if not own:
            return command_env(context)[0]
        return {n: v for n, v in place.env.items() if n not in STARTUP and not n.startswith("BASH_FUNC_")}

    def about(rule: str, tool: str, effects: Sequence[Effect]) -> bool:
        # Only with a hook that is for some calls only.
        from agent_cli.permission.touching import is_about

        workspace = context.workspace
        return is_about(
            read_rule("deny", rule, "", workspace.root), tool, effects, workspace.root, place.home or Path("/")
        )

    known = Session(session[0], str(session[1] or ""), place.root)
    return HookTable(
        hooks,
        session=known,
        environment=environment,
        cwd=lambda: context.workspace.cwd,
        asked=asked,
        about=about,
        opened=opened,
    )

"""The tools of a session: their folders, which are offered, and their descriptions for the model."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_cli.config.prompts import prompt
from agent_cli.config.schema import Settings
from agent_cli.core.place import RunEnvironment, UsageError
from agent_cli.core.rules import Rule
from agent_cli.providers.base import ToolSpec
from agent_cli.runtime.permissions import make_confinement
from agent_cli.session.records import Restored
from agent_tools.base import Tool, ToolContext
from agent_tools.fs.workspace import Workspace
from agent_tools.registry import BUILTIN


def make_workspace(place: RunEnvironment, settings: Settings) -> Workspace:
    """Return the folders that tools may use freely. Raises UsageError for one that does not exist."""
    extra = tuple(Path(os.path.expanduser(d)) for d in settings.permissions.additional_directories)
    for folder in extra:
        if not os.path.isdir(folder):  # noqa: PTH112 - the method raises where a parent is closed
            raise UsageError(f"--add-dir: {folder} is not a folder.")
    return Workspace(place.root, extra, place.cwd)


def make_context(
    workspace: Workspace,
    settings: Settings,
    place: RunEnvironment,
    *,
    require_read_first: bool = True,
    edit_unread: bool = False,
) -> ToolContext:
    known = {"shell_timeout": settings.shell.timeout, "env_pass": settings.shell.env_pass}
    known |= {"after_edit": settings.after_edit}
    known["web"] = {name: getattr(settings.web, name) for name in settings.web._fields}
    sandbox = make_confinement(workspace, settings, place)
    supplied = [sandbox] if sandbox is not None else []
    return ToolContext(
        workspace,
        env=dict(place.env),
        settings=known,
        require_read_first=require_read_first,
        edit_unread=edit_unread,
        supplied=supplied,
    )


def choose_tools(
    settings: Settings,
    rules: list[Rule],
    context: ToolContext,
    restored: Restored | None,
    more: Sequence[Tool[Any]] = (),
    embedded: Sequence[Tool[Any]] = (),
    *,
    model: str = "",
    answered: bool = True,
    small: bool = False,
) -> list[Tool[Any]]:
    """Choose the tools of a session, fixed at its first request. A tool that is denied as a whole is not offered.

    more: tools in addition to the built-in ones.
    embedded: tools of the embedding program, offered in every session.
    model: its name; some tools are for models that are trained on them.
    answered: somebody can answer questions, now or later; if not, the tools that ask are left out.
    small: the model is offered the few tools that have `small_arguments`.

    Raises UsageError for an unknown name.
    """
    known = {tool.name: tool for tool in [*BUILTIN, *more]}
    if twice := next((t.name for t in embedded if t.name in known), ""):
        raise UsageError(f"There is a tool named {twice} already: give yours another name.")
    known |= {tool.name: tool for tool in embedded}
    named = [n for n in settings.tools or () if n != "default" and not n.startswith("mcp__")]
    if unknown := [n for n in named if n not in known]:
        raise UsageError(f"There is no tool named {unknown[0]}. The tools are: {', '.join(known)}.")
    own = [tool.name for tool in embedded]
    denied = {r.tool for r in rules if r.list == "deny" and r.spec is None}
    wanted = set(settings.tools or ()) | set(own)
    if settings.tools is None or "default" in settings.tools:
        asking = answered or settings.permissions.mode == "plan"
        wanted |= known.keys() - _not_for(model, denied, asking=asking, small=small)
    chosen = [t for t in known.values() if t.name in wanted - denied and t.available(context)]
    if restored is None or restored.rebuilt:
        return chosen
    # Fixed with the first request; but a session that began unattended may be resumed by its user.
    late = [t.name for t in chosen if _asks(t) and answered and not restored.header.answered]
    return [known[n] for n in dict.fromkeys((*restored.header.tools, *own, *late)) if n in known]


def _not_for(model: str, denied: set[str], *, asking: bool, small: bool) -> set[str]:
    """Return the names of the built-in tools that are not offered to a model unless the settings name them."""
    names = set()
    for tool in BUILTIN:
        unknown = tool.trained_models and not re.search(tool.trained_models, model.lower())
        if unknown or (small and not tool.small_arguments) or (_asks(tool) and not asking):
            names.add(tool.name)
        elif tool.name not in denied:
            names |= set(tool.instead_of)
    return names


def _asks(tool: Tool[Any]) -> bool:
    return tool.asks_user or tool.ends_plan_mode


def tool_specs(
    tools: list[Tool[Any]], context: ToolContext | None = None, *, small: bool = False
) -> tuple[ToolSpec, ...]:
    """Return the tools as the model sees them; without a context, only what is true everywhere.

    small: with the short descriptions and few arguments for small models, where a tool has them.
    """
    return tuple(_small_spec(t) if small and t.small_arguments else _spec(t, context) for t in tools)


def _spec(tool: Tool[Any], context: ToolContext | None) -> ToolSpec:
    return ToolSpec(tool.name, _description(tool, context), tool.schema(), tool.freeform)


def _small_spec(tool: Tool[Any]) -> ToolSpec:
    schema = tool.schema()
    offered = {name: schema["properties"][name] for name in tool.small_arguments}
    return ToolSpec(tool.name, prompt(f"small/{tool.name}"), schema | {"properties": offered})


def _description(tool: Tool[Any], context: ToolContext | None) -> str:
    try:
        text = tool.description or prompt(f"tools/{tool.name}")
    except FileNotFoundError:
        text = (tool.__doc__ or tool.name).strip()
    here = tool.dynamic_description(context) if context is not None else ""
    return f"{text}\n\n{here}" if here else text

"""The options of a session that an editor can set: mode, model and effort; and the slash commands it can offer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from agent_cli import MODES, Mode, Session, UsageError
from agent_cli.kernel.modes import Effort
from agent_cli.shells.terminal.commands.models import models_with_details
from agent_cli.shells.terminal.slash import SlashContext, builtin_commands, default_order

MODE, MODEL, EFFORT = "mode", "model", "effort"
_MODES: dict[Mode, tuple[str, str]] = {
    "default": ("Ask", "Changes and commands ask, unless a rule or the sandbox allows them"),
    "acceptEdits": ("Accept edits", "Edits of files in the project run without asking"),
    "plan": ("Plan", "Only reads, and proposes a plan for your approval"),
    "dontAsk": ("Don't ask", "Calls that would need approval are refused"),
    "bypassPermissions": (
        "Bypass permissions",
        "Everything runs without asking; for sandboxes only",
    ),
}
# Commands for the terminal or for choosing a session; in an editor the editor does both.
TERMINAL_ONLY = frozenset(("exit", "clear", "sessions", "resume", "fork", "copy", "theme", "vim", "login"))
# Limit of the models in the menu.
_MAX_MODELS = 40


def allowed_modes(agent: Session) -> list[Mode]:
    """Return the permission modes that may be chosen in a session."""
    found: list[Mode] = []
    for mode in MODES:
        try:
            agent.check_mode(mode)
        except UsageError:
            continue
        found.append(mode)
    return found


def mode_state(agent: Session) -> dict[str, Any]:
    """Return the modes as the protocol lists them."""
    mode = agent.policy.mode
    modes = _including(allowed_modes(agent), mode)
    listed = [{"id": m, "name": _MODES[m][0], "description": _MODES[m][1]} for m in modes]
    return {"currentModeId": mode, "availableModes": listed}


def config_options(ctx: SlashContext) -> list[dict[str, Any]]:
    """Return mode, model and effort as options with their current values."""
    mode, model = ctx.agent.policy.mode, ctx.agent.label
    offered = {info.name: about for info, about in models_with_details(ctx)[:_MAX_MODELS]}
    names = [model, *(name for name in offered if name != model)]
    efforts = [("default", "Default"), *((level, level.capitalize()) for level in get_args(Effort))]
    return [
        _option(MODE, "Mode", "mode", mode, [(m, *_MODES[m]) for m in _including(allowed_modes(ctx.agent), mode)]),
        _option(MODEL, "Model", "model", model, [(name, name, offered.get(name, "")) for name in names]),
        _option(EFFORT, "Effort", "thought_level", ctx.agent.options.effort or "default",
                [(value, name, "") for value, name in efforts]),
    ]  # fmt: skip


def _including(modes: Iterable[Mode], mode: str) -> list[Mode]:
    return [m for m in MODES if m in modes or m == mode]


def _option(name: str, title: str, category: str, value: str, options: list[tuple[str, str, str]]) -> dict[str, Any]:
    listed = [{"value": v, "name": n, **({"description": d} if d else {})} for v, n, d in options]
    return {"type": "select", "id": name, "name": title, "category": category, "currentValue": value,
            "options": listed}  # fmt: skip


def set_option(ctx: SlashContext, name: str, value: str) -> None:
    """Change an option. Raises UsageError, and changes nothing then."""
    if name == MODE:
        if value not in MODES:
            raise UsageError(f"{value} is not a permission mode; the modes are: {', '.join(MODES)}.")
        ctx.switch_mode(value)
    elif name == MODEL:
        ctx.switch_model(value)
    elif name == EFFORT:
        levels = {"default": None, **{level: level for level in get_args(Effort)}}
        if value not in levels:
            raise UsageError(f"{value} is not a level of effort; the levels are: {', '.join(levels)}.")
        ctx.agent.options = ctx.agent.options.replace(effort=levels[value])
    else:
        raise UsageError(f"There is no option {name}; the options are: {MODE}, {MODEL}, {EFFORT}.")


def available_commands(ctx: SlashContext) -> list[dict[str, Any]]:
    """Return the slash commands: the user's own, and those of the program that make sense in an editor."""
    from_session = [(name, command.description, command.hint) for name, command in ctx.agent.commands.items()]
    ours = [
        (c.name, c.help, c.usage)
        for name in default_order(builtin_commands())
        if (c := builtin_commands()[name]).name not in TERMINAL_ONLY
    ]
    found = {name: (about, hint) for name, about, hint in [*ours, *from_session]}
    return [
        {"name": name, "description": about or name, **({"input": {"hint": hint}} if hint else {})}
        for name, (about, hint) in found.items()
    ]

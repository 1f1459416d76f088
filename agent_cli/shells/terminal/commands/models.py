"""/model and /effort: the model of the session, and its reasoning effort."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast, get_args

from agent_cli.kernel.modes import Effort
from agent_cli.kernel.runtime.models import ReachableModels
from agent_cli.kernel.session.store import state_folder
from agent_cli.models.catalog import ModelInfo
from agent_cli.shells.terminal.picks import Picks
from agent_cli.shells.terminal.slash import SlashContext, slash
from agent_tools.text import one_line

_EFFORTS = get_args(Effort)
_EFFORT_HELP = {
    "default": "what the model does by itself",
    "none": "no reasoning",
    "minimal": "almost none",
    "low": "quick answers",
    "medium": "everyday work",
    "high": "hard problems",
    "xhigh": "very hard problems",
    "max": "as much as the model can",
}
_MAX_RECENT = 5


def _picks(ctx: SlashContext) -> Picks:
    saved = ctx.agent.settings.save_sessions
    return Picks(state_folder(ctx.run_env.env) / "picks.json" if saved else None, "model")


def _names(ctx: SlashContext) -> Iterable[tuple[str, str]]:
    return [(info.name, _describe(info)) for info in _models_to_offer(ctx, ask=False)]


@slash("model", "choose the model", "[NAME]", values=_names, aliases=("models",))
def _model(ctx: SlashContext, words: str) -> None:
    now, source = ctx.agent.label, "command"
    if not words and ctx.has_menus:
        offered = _models_to_offer(ctx, ask=True)
        options = [(info.name, f"{_describe(info)}{' (current)' if info.name == now else ''}") for info in offered]
        picked = ctx.choose("Model", options, quiet=True)
        if not options:
            ctx.say("The models of this provider are not known; /model PROVIDER/NAME switches to one.")
        if picked is None:
            return
        words, source = offered[picked].name, "picker"
    if words:
        ctx.switch_model(words, source)
        _picks(ctx).add(ctx.agent.label)
    label = ctx.agent.label
    ctx.say(f"model: {label}" + (f" (/config model {label} makes it the default)" if words else ""))


def models_with_details(ctx: SlashContext) -> list[tuple[ModelInfo, str]]:
    """Return the models to offer, each with its description; no server is asked."""
    return [(info, _describe(info)) for info in _models_to_offer(ctx, ask=False)]


def _models_to_offer(ctx: SlashContext, *, ask: bool) -> list[ModelInfo]:
    """Return the models to offer: recently used, then of the current provider, then of others with a key.

    ask: query a server on this machine, which may take a second.
    """
    newest = ReachableModels(ctx.run_env, ctx.agent.settings).offers.newest(ctx.agent.model, ask=ask)
    recent = [info for name in _picks(ctx).most_used()[:_MAX_RECENT] if (info := ModelInfo.named(name)) is not None]
    return list({info.name: info for info in (*recent, *newest)}.values())


def _describe(info: ModelInfo) -> str:
    """Describe a model: its window and its price per million tokens."""
    window = f"{info.context_window / 1000:,.0f}k window" if info.context_window else ""
    price_in, price_out = info.price_per_million
    price = ""
    if info.local:
        price = "local"
    elif price_in is not None and price_out is not None:
        price = f"${price_in:.2f} in, ${price_out:.2f} out per M"
    return " · ".join(filter(None, (window, price)))


@slash("effort", "choose how hard the model thinks", "[LEVEL]", values=lambda ctx: _EFFORT_HELP.items(), strict=True,
       aliases=("reasoning", "think"))  # fmt: skip
def _effort(ctx: SlashContext, words: str) -> None:
    conversation = ctx.agent
    if words and words != "default" and words not in _EFFORTS:
        ctx.say(f"{one_line(words)} is not a level. There are {', '.join(('default', *_EFFORTS))}.")
        return
    if not words and ctx.has_menus:
        now = conversation.options.effort or "default"
        options = [(level, f"{text}{' (current)' if level == now else ''}") for level, text in _EFFORT_HELP.items()]
        if (picked := ctx.choose("Effort", options, quiet=True)) is None:
            return
        words = options[picked][0]
    if words:
        effort = None if words == "default" else cast(Effort, words)
        conversation.options = conversation.options.replace(effort=effort)
    info = ctx.agent.info
    unused = "" if info is None or info.reasoning or not words else "; the catalog says that this model does not reason"
    ctx.say(f"effort: {conversation.options.effort_label}{unused}")

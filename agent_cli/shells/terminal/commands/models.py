"""/model and /effort: the model of the session, and its reasoning effort. Also the user's most frequent picks.

Picks (commands, models) are stored in a small file in the state folder. A pick counts one, and half as much after two
weeks, so that recent habits outweigh old ones.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast, get_args

from agent_cli.kernel.modes import Effort
from agent_cli.kernel.runtime.models import key_store
from agent_cli.kernel.session.store import state_folder
from agent_cli.models.catalog import ModelInfo, known_models, lookup, price_per_million
from agent_cli.models.offers import newest_models, providers_with_keys
from agent_cli.models.registry import is_loopback_url
from agent_cli.shells.terminal.slash import SlashContext, slash
from agent_tools.fs.safe_files import private_folder, read_regular, write_atomic
from agent_tools.lazy import lazy_imports
from agent_tools.text import one_line

with lazy_imports():
    from agent_cli.models import server_info  # HTTP, for local servers alone

_HALF_LIFE_SECONDS = 14 * 24 * 3600.0
_MAX_FILE_BYTES = 1 << 20
_MAX_PICKS = 200


class Picks:
    """The picks of one kind. path: the file of all kinds; None: remember nothing beyond this object."""

    def __init__(self, path: Path | None, kind: str, clock: Callable[[], float] = time.time) -> None:
        self._path, self._kind, self._clock = path, kind, clock
        self._scores = _scores(_read(path).get(kind))

    def add(self, name: str) -> None:
        """Count a pick, and save it. A file that cannot be read or written is ignored."""
        # Another session may have written meanwhile.
        data = _read(self._path)
        self._scores = _scores(data.get(self._kind)) or self._scores
        now = self._clock()
        self._scores[name] = (self._score(name, now) + 1.0, now)
        if self._path is None:
            return
        latest = sorted(self._scores.items(), key=lambda pair: pair[1][1])[-_MAX_PICKS:]
        text = json.dumps({**data, self._kind: {name: list(score) for name, score in latest}})
        with suppress(OSError):
            private_folder(self._path.parent)
            write_atomic(self._path, text.encode("utf-8", "replace"), sync=False)

    def most_used(self) -> list[str]:
        """Return the picks, the most used first."""
        now = self._clock()
        return sorted(self._scores, key=lambda name: -self._score(name, now))

    def sorted(self, names: Iterable[str]) -> list[str]:
        """Return the names with the most used first; the others stay in their order."""
        now = self._clock()
        return sorted(names, key=lambda name: -self._score(name, now))

    def _score(self, name: str, now: float) -> float:
        score, at = self._scores.get(name, (0.0, now))
        return score * math.exp2(-max(0.0, now - at) / _HALF_LIFE_SECONDS)


def _read(path: Path | None) -> dict[str, Any]:
    try:
        data = json.loads(read_regular(path, _MAX_FILE_BYTES)) if path is not None else {}
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _scores(data: Any) -> dict[str, tuple[float, float]]:
    """Parse the scores of a kind, each with its time; skip invalid entries."""
    found = {}
    for name, value in data.items() if isinstance(data, dict) else ():
        with suppress(TypeError, ValueError):
            score, at = value
            found[str(name)] = float(score), float(at)
    return found


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
    model, env = ctx.agent.model, ctx.run_env.env
    stored = key_store(ctx.run_env, ctx.agent.settings).names()
    others = [name for name in providers_with_keys(env, stored) if name != model.provider]
    found = {name: info for name in _picks(ctx).most_used()[:_MAX_RECENT] if (info := _info(name)) is not None}
    key = model.api_key.reveal() if model.api_key is not None else ""
    if ask and is_loopback_url(model.base_url) and (listed := server_info.offered_models(model.base_url, key)):
        found |= {name: info for each in listed if (info := _info(name := f"{model.provider}/{each}")) is not None}
    else:
        others.insert(0, model.provider)
    known = known_models(providers=others)
    return list((found | {info.name: info for provider in others for info in newest_models(known, provider)}).values())


def _info(name: str) -> ModelInfo | None:
    provider, _, model = name.partition("/")
    return lookup(provider, model) or (ModelInfo(name, provider) if model else None)


def _describe(info: ModelInfo) -> str:
    """Describe a model: its window and its price per million tokens."""
    window = f"{info.context_window / 1000:,.0f}k window" if info.context_window else ""
    price_in, price_out = price_per_million(info)
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

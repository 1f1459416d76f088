"""Session settings: model, permission mode, theme, vi keys; and /config.

Changes of appearance last for the session; /config changes a setting in the user's own file.
"""

from __future__ import annotations

import json
import tomllib
from typing import Any, Literal, get_args, get_origin

from agent_cli.config.parsing import SettingsError
from agent_cli.config.schema import Settings, tables
from agent_cli.core.modes import MODES
from agent_cli.runtime.saved_settings import save_setting
from agent_cli.terminal.render.theme import THEMES
from agent_cli.terminal.slash import SlashContext, slash
from agent_tools.record import hints_of


@slash("model", "show or change the model", "[NAME]")
def _model(ctx: SlashContext, words: str) -> None:
    if words:
        ctx.switch_model(words)
    ctx.say(f"model: {ctx.agent.conversation.options.label}")


@slash("mode", "show or change the permission mode", "[MODE]", aside=True, values=lambda ctx: MODES)
def _mode(ctx: SlashContext, words: str) -> None:
    if words and words not in MODES:
        ctx.say(f"{words} is none of {', '.join(MODES)}.")
        return
    if words:
        ctx.switch_mode(words)
    ctx.say(f"mode: {ctx.agent.conversation.deps.policy.mode}")


@slash("theme", "show or change the colours", "[NAME]", aside=True, values=lambda ctx: THEMES)
def _theme(ctx: SlashContext, words: str) -> None:
    if words and words not in THEMES:
        ctx.say(f"{words} is none of {', '.join(THEMES)}.")
        return
    if not words and (place := ctx.choose("Which colours?", [(name, "") for name in THEMES])) is not None:
        words = list(THEMES)[place]
    if words:
        ctx.switch_theme(words)
    ctx.say(f"theme: {ctx.theme}" + (" (for good: theme under [terminal] in your settings)" if words else ""))


@slash("vim", "the keys of vi in the input line, on or off", aside=True)
def _vim(ctx: SlashContext, words: str) -> None:
    on = ctx.switch_vim()
    if on is None:
        ctx.say("Lines are typed here without an editor, so there are no keys to choose.")
    else:
        ctx.say(f"The keys of vi are {'on' if on else 'off'}.")


def _keys(ctx: SlashContext) -> list[str]:
    return [name for name, _, _ in _all(Settings())]


@slash("config", "show the settings, or change one in ~/.agentrc", "[KEY [VALUE]]", aside=True, values=_keys)
def _config(ctx: SlashContext, words: str) -> None:
    key, _, text = words.partition(" ")
    settings = ctx.layers.settings()
    found = {name: (value, hint) for name, value, hint in _all(settings)}
    if not key:
        lines = [f"{name} = {_shown(value)}{_origin(ctx, name)}" for name, (value, _) in found.items()]
        ctx.page("\n".join(lines))
        return
    if key not in found:
        import difflib

        near = [name for name in found if name.endswith(f".{key}")] or difflib.get_close_matches(key, found, 1)
        ctx.say(f"There is no setting {key}" + (f"; did you mean {near[0]}?" if near else "."))
        return
    value, hint = found[key]
    text = text.strip()
    if not text:
        ctx.say(f"{key} = {_shown(value)}{_origin(ctx, key)}: {hint.__metadata__[0]}")
        options = _options(hint)
        if not options or (place := ctx.choose("Change it?", [(option, "") for option in options])) is None:
            return
        text = options[place]
    _change(ctx, key, _read(text, hint))


def _all(settings: Settings) -> list[tuple[str, Any, Any]]:
    """Return every setting as (name, value, annotation)."""
    rows: list[tuple[str, Any, Any]] = []
    every: dict[str, type] = {"": Settings, **tables()}
    for table, cls in every.items():
        holder = getattr(settings, table) if table else settings
        for key, hint in hints_of(cls).items():
            if table or key not in tables():
                rows.append((f"{table}.{key}" if table else key, getattr(holder, key), hint))
    return rows


def _options(hint: Any) -> list[str]:
    """Return the allowed values of a setting; none if any value is allowed."""
    bare = hint.__origin__
    if bare is bool:
        return ["true", "false"]
    kinds = (bare, *get_args(bare))
    return [str(v) for kind in kinds if get_origin(kind) is Literal for v in get_args(kind)]


def _read(text: str, hint: Any) -> Any:
    """Parse a typed value: as TOML if possible, else as the text itself; one item becomes a list."""
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        value = text
    return [value] if get_origin(hint.__origin__) is tuple and not isinstance(value, list) else value


def _change(ctx: SlashContext, key: str, value: Any) -> None:
    home = ctx.place.home
    if home is None:
        ctx.say("There is no home folder, so there is no ~/.agentrc to change.")
        return
    try:
        save_setting(home / ".agentrc", key, value)
    except (SettingsError, OSError) as error:
        ctx.say(f"Not changed: {error}.")
        return
    table, _, name = key.rpartition(".")
    ctx.layers.add({table: {name: value}} if table else {name: value}, "/config", ctx.place.root)
    now = _apply(ctx, key)
    ctx.say(f"{key} = {_shown(value)}, saved in ~/.agentrc" + ("" if now else "; it counts from the next start"))


def _apply(ctx: SlashContext, key: str) -> bool:
    """Apply a changed setting now; False if it takes effect at the next start."""
    settings = ctx.layers.settings()
    if key == "sandbox.auto_allow":
        ctx.agent.conversation.deps.policy.auto_allow(settings.sandbox.auto_allow)
    elif key == "terminal.theme":
        ctx.switch_theme(settings.terminal.theme)
    else:
        return False
    return True


def _shown(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False, default=str)


def _origin(ctx: SlashContext, key: str) -> str:
    source = ctx.layers.origins.get(key)
    return f" ({source})" if source else ""

"""/config: the settings by topic, with the value of each and where it comes from; changed in ~/.agentrc.

The files are read each time, as at the next start.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from rich.text import Text

from agent_cli import Layers, UsageError, read_settings
from agent_cli.config.parsing import SettingsError
from agent_cli.config.schema import Settings, tables
from agent_cli.kernel.runtime.saved_settings import SettingsFile
from agent_cli.shells.terminal.dialogs.view import View, ViewAction, ViewItem, prose_lines
from agent_cli.shells.terminal.key_map import KeyMap
from agent_cli.shells.terminal.render.ansi import cells, truncate_cells
from agent_cli.shells.terminal.render.theme import load_theme
from agent_cli.shells.terminal.slash import SlashContext, slash
from agent_tools.record import hints_of
from agent_tools.text import one_line, shorten

_SETTINGS_FILE = ".agentrc"
# Sources of values chosen for this session only.
_SESSION_SOURCES = ("/output-style",)
# A TOML key that needs no quotes.
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def _reload(ctx: SlashContext) -> tuple[Layers, str]:
    """Return the current settings and ""; if they have a mistake, those of the start, and the mistake."""
    mistakes: list[str] = []
    try:
        layers = read_settings(ctx.config, ctx.run_env, mistakes)
    except UsageError as error:
        mistakes.append(str(error))
    if mistakes:
        return ctx.layers, mistakes[0]
    for key in (key for key, source in ctx.layers.origins.items() if source in _SESSION_SOURCES):
        layers.set(key, _value_of(ctx.layers.settings(), key), ctx.layers.origins[key], ctx.run_env.root)
    return layers, ""


def _value_of(settings: Settings, key: str) -> Any:
    return next(value for name, value, _ in _all_settings(settings) if name == key)


def _values(ctx: SlashContext) -> Iterable[tuple[str, str]]:
    for name, value, hint in _all_settings(_reload(ctx)[0].settings()):
        yield name, f"{shorten(_format_value(value), 20)}  {hint.__metadata__[0]}"
        yield from ((f"{name} {option}", "") for option in _options(hint))


@slash("config", "change settings (in ~/.agentrc)", "[KEY [VALUE]]", aside=True, values=_values, aliases=("settings",))
def _config(ctx: SlashContext, words: str) -> None:
    key, _, text = words.partition(" ")
    layers, mistake = _reload(ctx)
    if mistake:
        ctx.say(f"The settings have a mistake now, so these are from the start: {one_line(mistake).rstrip('.')}.")
    found = {name: (value, hint) for name, value, hint in _all_settings(layers.settings())}
    if not key:
        if ctx.has_menus:
            _browse(ctx)
        else:
            for name, (value, _) in found.items():
                ctx.say(f"{name} = {_format_value(value)}{_origin(layers, name)}")
        return
    if key not in found:
        near = [name for name in found if name.endswith(f".{key}")] or difflib.get_close_matches(key, found, 1)
        ctx.say(f"There is no setting {one_line(key)}" + (f"; did you mean {near[0]}?" if near else "."))
        return
    value, hint = found[key]
    text = text.strip()
    if text:
        _change(ctx, key, _parse_value(text, hint))
        return
    ctx.say(f"{key} = {_format_value(value)}{_origin(layers, key)}: {hint.__metadata__[0]}")
    if ctx.has_menus:
        _edit(ctx, layers, key, value, hint)
    elif (options := _options(hint)) and (picked := ctx.choose("Change it?", [(o, "") for o in options])) is not None:
        _change(ctx, key, _parse_value(options[picked], hint))


def _browse(ctx: SlashContext) -> None:
    """Show the settings, those that differ from their defaults first; change those that the user picks."""
    key = ""
    while True:
        layers, _ = _reload(ctx)
        rows = _by_topic(layers)
        # A changed setting stands elsewhere.
        at = next((n for n, row in enumerate(rows) if row[1] == key), 0)
        columns = dict[str, int]()
        for section, _, value, *_ in rows:
            columns[section] = max(columns.get(section, 0), cells(_brief(value)))
        items = tuple(_item(layers, columns[row[0]], *row) for row in rows)
        change = ViewAction("enter", "change")
        left = ctx.show_view(View("Settings", items=items, actions=(change,), at=at))
        if left is None:
            return
        _, key, value, _, hint = rows[left.index]
        _edit(ctx, layers, key, value, hint)


_CHANGED, _GENERAL = "changed", "general"
_MAX_VALUE_CELLS = 24
Row = tuple[str, str, Any, Any, Any]


def _by_topic(layers: Layers) -> list[Row]:
    """Return all settings as (topic, name, value, default, annotation); first those that are not as by default."""
    defaults = {name: value for name, value, _ in _all_settings(Settings())}
    rows = [(name.rpartition(".")[0] or _GENERAL, name, value, defaults[name], hint)
            for name, value, hint in _all_settings(layers.settings())]  # fmt: skip
    changed = [(_CHANGED, *row[1:]) for row in rows if row[2] != row[3]]
    return [*changed, *(row for row in rows if row[2] == row[3])]


def _brief(value: Any) -> str:
    """Return a value as a row shows it."""
    return truncate_cells(_shown(value), _MAX_VALUE_CELLS)


def _item(layers: Layers, column: int, section: str, key: str, value: Any, default: Any, hint: Any) -> ViewItem:
    """Return a setting as a row of the view. column: cells of the values."""
    label = key if section in (_CHANGED, _GENERAL) else key.rpartition(".")[2]
    facts = [("now", _shown(value)), ("default", _shown(default))]
    facts += [("set by", layers.origins[key])] if key in layers.origins else []
    facts += [("one of", ", ".join(options))] if (options := _options(hint)) else []

    def draw(width: int) -> list[Text]:
        rows = [*prose_lines(key, width, "tool"), *prose_lines(hint.__metadata__[0], width), Text()]
        return rows + [row for name, text in facts for row in prose_lines(f"{name:<9}{text}", width, "dim")]

    brief = _brief(value)
    about = f"{brief}{' ' * (column - cells(brief))}  {hint.__metadata__[0]}"
    mark = "●" if section == _CHANGED else " "
    return ViewItem(label, about, section=section, detail=draw, mark=mark, style="warn")


def _edit(ctx: SlashContext, layers: Layers, key: str, value: Any, hint: Any) -> None:
    """Ask for a new value of a setting, and save it."""
    meaning = hint.__metadata__[0]
    options = _options(hint)
    if options:
        now = str(value).lower() if isinstance(value, bool) else str(value)
        rows = [(option or '""', "current" if option == now else "") for option in options]
        rows += [("(default)", f"remove it from ~/{_SETTINGS_FILE}")] if _is_set_by_user(ctx, layers, key) else []
        picked = ctx.choose(f"{key}: {meaning}", rows, quiet=True)
        if picked is not None and picked < len(options):
            _change(ctx, key, _parse_value(options[picked] or '""', hint))
        elif picked is not None:
            _remove(ctx, key)
        return

    def read(text: str) -> tuple[Any, ...]:
        if not text.strip() and _is_set_by_user(ctx, layers, key):
            return ()
        new = _parse_value(text.strip(), hint)
        try:
            Layers().set(key, new, key, Path("/"))
            _check(key, new, ctx.run_env.home)
        except SettingsError as error:
            raise ValueError(f"{str(error).removeprefix(f'{key}: ')}.") from None
        except UsageError as error:
            raise ValueError(str(error)) from None
        return (new,)

    text = value if isinstance(value, str) else "" if value is None else _format_value(value)
    empty = " (empty: default)" if _is_set_by_user(ctx, layers, key) else ""
    answer = ctx.ask(f"{key}: {meaning}{empty}", read, text)
    if answer == ():
        _remove(ctx, key)
    elif answer is not None and answer[0] != (list(value) if isinstance(value, tuple) else value):
        _change(ctx, key, answer[0])


def _is_set_by_user(ctx: SlashContext, layers: Layers, key: str) -> bool:
    """Return True if the user's own file sets a key."""
    source = layers.origins.get(key, "")
    return ctx.run_env.home is not None and source.startswith((str(ctx.run_env.home / _SETTINGS_FILE), "/config"))


def _remove(ctx: SlashContext, key: str) -> None:
    """Remove a setting from the user's own file."""
    assert ctx.run_env.home is not None
    try:
        SettingsFile(ctx.run_env.home / _SETTINGS_FILE).remove(key)
    except (SettingsError, OSError) as error:
        ctx.say(f"Not changed: {error}.")
        return
    ctx.say(f"{key} is removed from ~/{_SETTINGS_FILE}; takes effect at the next start")


def _all_settings(settings: Settings) -> list[tuple[str, Any, Any]]:
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


def _parse_value(text: str, hint: Any) -> Any:
    """Parse a typed value: as TOML if possible, else as the text itself; one item becomes a list."""
    bare = hint.__origin__
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        value = text
    if bare is str or (get_origin(bare) is UnionType and str in get_args(bare)):
        return value if isinstance(value, str) else text
    return [value] if get_origin(bare) is tuple and not isinstance(value, list) else value


def _change(ctx: SlashContext, key: str, value: Any) -> None:
    home = ctx.run_env.home
    if home is None:
        ctx.say(f"There is no home folder, so there is no ~/{_SETTINGS_FILE} to change.")
        return
    _check(key, value, home)
    try:
        SettingsFile(home / _SETTINGS_FILE).set(key, value, ctx.layers)
    except (SettingsError, OSError) as error:
        ctx.say(f"Not changed: {str(error).removeprefix(f'{key}: ')}.")
        return
    now = _apply(ctx, key)
    ctx.say(
        f"{key} = {_format_value(value)}, saved in ~/{_SETTINGS_FILE}"
        + ("" if now else "; takes effect at the next start")
    )


def _check(key: str, value: Any, home: Path | None) -> None:
    """Raise UsageError for a value of the right type that the next start would reject."""
    if key == "terminal.theme":
        load_theme(value, "dark", home)
    elif key == "terminal.keys" and isinstance(value, dict) and all(isinstance(v, str) for v in value.values()):
        KeyMap(value, newline="alt-enter")


def _apply(ctx: SlashContext, key: str) -> bool:
    """Apply a changed setting now; return False if it takes effect at the next start."""
    settings = ctx.layers.settings()
    if key == "sandbox.auto_allow":
        ctx.agent.policy.auto_allow(settings.sandbox.auto_allow)
    elif key == "terminal.theme":
        ctx.switch_theme(settings.terminal.theme)
    else:
        return False
    return True


def _format_value(value: Any) -> str:
    """Return a value as it would be typed."""
    if isinstance(value, dict) and value:
        rows = (f"{k if _BARE_KEY.fullmatch(k) else json.dumps(k)} = {_format_value(v)}" for k, v in value.items())
        return f"{{ {', '.join(rows)} }}"
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False, default=str)


def _shown(value: Any) -> str:
    return "not set" if value is None else _format_value(value)


def _origin(layers: Layers, key: str) -> str:
    source = layers.origins.get(key)
    return f" ({source})" if source else ""

"""Which model answers, and what is permitted.

How the session looks and is typed in, for as long as it lasts; the settings under [terminal] are for good.
/config: the settings, what they mean, and a change of one of them in the user's own file.
"""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from agent_cli.config.schema import Settings, tables
from agent_cli.core.modes import MODES
from agent_cli.terminal.commands.registry import slash
from agent_cli.terminal.render.theme import THEMES
from agent_tools.record import hints_of

if TYPE_CHECKING:
    from agent_cli.terminal.repl import Repl


@slash("model", "show or change the model", "[NAME]")
def _model(repl: Repl, words: str) -> None:
    if words:
        repl.switch_model(words)
    repl.say(f"model: {repl.agent.conversation.options.label}")


@slash("mode", "show or change the permission mode", "[MODE]", aside=True, values=lambda repl: MODES)
def _mode(repl: Repl, words: str) -> None:
    if words and words not in MODES:
        repl.say(f"{words} is none of {', '.join(MODES)}.")
        return
    if words:
        repl.switch_mode(words)
    repl.say(f"mode: {repl.agent.conversation.kit.policy.mode}")


@slash("theme", "show or change the colours", "[NAME]", aside=True, values=lambda repl: THEMES)
def _theme(repl: Repl, words: str) -> None:
    if words and words not in THEMES:
        repl.say(f"{words} is none of {', '.join(THEMES)}.")
        return
    if not words and (place := repl.choose("Which colours?", [(name, "") for name in THEMES])) is not None:
        words = list(THEMES)[place]
    if words:
        repl.look(theme=words)
    repl.say(f"theme: {repl.theme}" + (" (for good: theme under [terminal] in your settings)" if words else ""))


@slash("vim", "the keys of vi in the input line, on or off", aside=True)
def _vim(repl: Repl, words: str) -> None:
    on = repl.switch_vim()
    if on is None:
        repl.say("Lines are typed here without an editor, so there are no keys to choose.")
    else:
        repl.say(f"The keys of vi are {'on' if on else 'off'}.")


def _keys(repl: Repl) -> list[str]:
    return [name for name, _, _ in _all(Settings())]


@slash("config", "show the settings, or change one in ~/.agentrc", "[KEY [VALUE]]", aside=True, values=_keys)
def _config(repl: Repl, words: str) -> None:
    key, _, text = words.partition(" ")
    settings = repl.layers.settings()
    found = {name: (value, hint) for name, value, hint in _all(settings)}
    if not key:
        lines = [f"{name} = {_shown(value)}{_origin(repl, name)}" for name, (value, _) in found.items()]
        repl.page("\n".join(lines))
        return
    if key not in found:
        import difflib

        near = [name for name in found if name.endswith(f".{key}")] or difflib.get_close_matches(key, found, 1)
        repl.say(f"There is no setting {key}" + (f"; did you mean {near[0]}?" if near else "."))
        return
    value, hint = found[key]
    text = text.strip()
    if not text:
        repl.say(f"{key} = {_shown(value)}{_origin(repl, key)}: {hint.__metadata__[0]}")
        options = _options(hint)
        if not options or (place := repl.choose("Change it?", [(option, "") for option in options])) is None:
            return
        text = options[place]
    _change(repl, key, _read(text, hint))


def _all(settings: Settings) -> list[tuple[str, Any, Any]]:
    """Every setting: its name, its value, and its annotation."""
    rows: list[tuple[str, Any, Any]] = []
    every: dict[str, type] = {"": Settings, **tables()}
    for table, cls in every.items():
        holder = getattr(settings, table) if table else settings
        for key, hint in hints_of(cls).items():
            if table or key not in tables():
                rows.append((f"{table}.{key}" if table else key, getattr(holder, key), hint))
    return rows


def _options(hint: Any) -> list[str]:
    """The values to choose from; none where any value will do."""
    bare = hint.__origin__
    if bare is bool:
        return ["true", "false"]
    kinds = (bare, *get_args(bare))
    return [str(v) for kind in kinds if get_origin(kind) is Literal for v in get_args(kind)]


def _read(text: str, hint: Any) -> Any:
    """A value as it is typed: TOML where it is that, else the text itself; one item for a list."""
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        value = text
    return [value] if get_origin(hint.__origin__) is tuple and not isinstance(value, list) else value


def _change(repl: Repl, key: str, value: Any) -> None:
    from agent_cli.config.parsing import SettingsError
    from agent_cli.config.user_settings import save_setting  # with the reader of TOML that keeps comments

    home = repl.place.home
    if home is None:
        repl.say("There is no home folder, so there is no ~/.agentrc to change.")
        return
    try:
        save_setting(home / ".agentrc", key, value)
    except (SettingsError, OSError) as error:
        repl.say(f"Not changed: {error}.")
        return
    table, _, name = key.rpartition(".")
    repl.layers.add({table: {name: value}} if table else {name: value}, "/config", repl.place.root)
    now = _apply(repl, key)
    repl.say(f"{key} = {_shown(value)}, saved in ~/.agentrc" + ("" if now else "; it counts from the next start"))


def _apply(repl: Repl, key: str) -> bool:
    """Have a setting count at once; False where it counts from the next start."""
    settings = repl.layers.settings()
    if key == "sandbox.auto_allow":
        repl.agent.conversation.kit.policy.auto_allow(settings.sandbox.auto_allow)
    elif key == "terminal.theme":
        repl.look(theme=settings.terminal.theme)
    else:
        return False
    return True


def _shown(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False, default=str)


def _origin(repl: Repl, key: str) -> str:
    source = repl.layers.origins.get(key)
    return f" ({source})" if source else ""

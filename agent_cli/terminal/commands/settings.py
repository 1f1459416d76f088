"""Session settings: model, effort, permission mode and rules, directories, theme, vi keys; and /config.

Changes of rules and appearance last for the session; /config changes a setting in the user's own file.
"""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

from agent_cli.config.parsing import SettingsError
from agent_cli.config.schema import Settings, tables
from agent_cli.core.modes import MODES, Effort
from agent_cli.core.rules import RuleError, RuleList
from agent_cli.runtime.saved_settings import save_setting
from agent_cli.terminal.render.theme import load_theme, theme_names
from agent_cli.terminal.slash import SlashContext, slash
from agent_tools.record import hints_of, to_json
from agent_tools.text import number_in, one_line


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


@slash("theme", "show or change the colours", "[NAME]", aside=True, values=lambda ctx: theme_names(ctx.place.home))
def _theme(ctx: SlashContext, words: str) -> None:
    if not words:
        names = list(theme_names(ctx.place.home).items())
        if (place := ctx.choose("Which colours?", names)) is not None:
            words = names[place][0]
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
    if key == "terminal.theme":
        load_theme(value, "dark", home)
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


_LISTS = ("deny", "ask", "allow")
_EFFORTS = get_args(Effort)


@slash("permissions", "the rules in force and where each comes from; change those of this session",
       "[allow|ask|deny RULE | remove N]")  # fmt: skip
def _permissions(ctx: SlashContext, words: str) -> None:
    context = ctx.agent.conversation.deps.context
    policy = ctx.agent.conversation.deps.policy
    verb, _, rest = words.partition(" ")
    rest = rest.strip()
    rules = sorted(policy.rules, key=lambda r: _LISTS.index(r.list))
    if verb in _LISTS and rest:
        try:
            rule = policy.add(cast(RuleList, verb), rest)
        except RuleError as error:
            ctx.say(f"{error}.")
            return
        ctx.say(f"{rule.list} {rule.text} holds for this session.")
    elif verb == "remove" and 1 <= number_in(rest) <= len(rules):
        rule = rules[number_in(rest) - 1]
        try:
            policy.remove(rule)
        except ValueError:
            ctx.say(f"{rule.text} comes from {rule.source}; change it there.")
            return
        ctx.say(f"{rule.list} {rule.text} does not hold any more.")
    elif words:
        ctx.say("Say: allow RULE, ask RULE, deny RULE, or remove N for a rule of this session.")
        return
    else:
        origin = ctx.layers.origins.get("permissions.mode", "the default")
        ctx.say(f"mode: {policy.mode}" + (f" ({origin})" if policy.mode == ctx.agent.settings.permissions.mode else ""))
        if policy.runs_unasked:
            ctx.say(
                "  Commands run in the sandbox without a question (sandbox.auto_allow); deleting files, leaving the"
                " workspace and the network still ask."
            )
        for number, rule in enumerate(rules, 1):
            why = f": {rule.why}" if rule.why else ""
            ctx.say(f"  {number}. {rule.list:<5} {rule.text}  ({rule.source}){why}")
        if not rules:
            ctx.say("  There are no rules. /permissions allow Bash(git status:*) adds one for this session.")
        return
    # Searches cache the rules that hide files.
    context.readable = policy.readable()


@slash("effort", "show or change how hard the model thinks", "[LEVEL | default]",
       values=lambda ctx: ("default", *_EFFORTS))  # fmt: skip
def _effort(ctx: SlashContext, words: str) -> None:
    conversation = ctx.agent.conversation
    if words and words != "default" and words not in _EFFORTS:
        ctx.say(f"{one_line(words)} is none of {', '.join((*_EFFORTS, 'default'))}.")
        return
    if words:
        effort = None if words == "default" else cast(Effort, words)
        conversation.options = conversation.options.replace(effort=effort)
    info = ctx.agent.info
    unused = "" if info is None or info.reasoning or not words else "; the catalog says that this model does not reason"
    ctx.say(f"effort: {conversation.options.effort_label}{unused}")


@slash("add-dir", "let a folder count as part of the workspace for this session", "PATH")
def _add_dir(ctx: SlashContext, words: str) -> None:
    conversation = ctx.agent.conversation
    workspace = conversation.deps.context.workspace
    if not words:
        for root in workspace.roots:
            ctx.say(f"  {root}")
        ctx.say("/add-dir PATH adds a folder.")
        return
    folder = Path(os.path.realpath(ctx.place.cwd / os.path.expanduser(words)))
    if not os.path.isdir(folder):  # noqa: PTH112 - the method raises where a parent is closed
        ctx.say(f"{one_line(words)} is not a folder.")
        return
    if any(folder.is_relative_to(root) for root in workspace.roots):
        ctx.say(f"{one_line(str(folder))} is part of the workspace already.")
        return
    home = ctx.place.home
    wide = folder == Path(folder.anchor) or folder == home or ctx.place.root.is_relative_to(folder)
    question = f"{folder} holds much more than a project: all of it could be read without a question. Add it?"
    if wide and not ctx.confirm(question):
        ctx.say("Nothing was added.")
        return
    workspace.widen(folder)
    _remember(ctx, folder)
    told = f"The user added the folder {folder} to the workspace for this session."
    conversation.inbox.append(f"<workspace_change>\n{told}\n</workspace_change>")
    ctx.say(f"{one_line(str(folder))} counts as inside the workspace for this session.")


def _remember(ctx: SlashContext, folder: Path) -> None:
    """Save the directory for turns that are suspended and resumed later."""
    agent = ctx.agent
    permissions = agent.settings.permissions
    folders = (*permissions.additional_directories, str(folder))
    agent.settings = agent.settings.replace(permissions=permissions.replace(additional_directories=folders))
    saved = agent.conversation.options.saved
    if saved:
        agent.conversation.options = agent.conversation.options.replace(
            saved={**saved, "settings": to_json(agent.settings)}
        )

"""Read Claude Code's settings, from its files and from --settings; no entry for another program ends a run.

Entries without a counterpart are ignored and reported: by `agent doctor`, or at the start if they are from --settings.
Ask and deny rules and hooks that are ignored are always reported, as ignoring them loosens permissions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_cli.config.layers import Layers, Origin, Where, Withheld
from agent_cli.config.parsing import (
    MAX_RULES,
    SettingsError,
    as_ignored,
    decode_json,
    key_locations,
)
from agent_cli.config.schema import Settings
from agent_cli.kernel.modes import MODE_ALIASES, MODES
from agent_cli.kernel.redact import shown_variable
from agent_cli.kernel.rules import FOREIGN_TOOLS, KNOWN_TOOLS, RuleError, read_rule
from agent_tools.lazy import lazy_imports
from agent_tools.record import hints_of
from agent_tools.text import nearest_key_hint, shorten

with lazy_imports():
    from agent_cli.config import claude_keys, removed, rule_lists, telemetry
    from agent_cli.hooks import reader as hook_reader

_LISTS = ("deny", "ask", "allow")
# The other keys of permissions in Claude Code's settings.
_PERMISSION_KEYS = ("defaultMode", "disableBypassPermissionsMode", "disableAutoMode")
_MAX_REPORTED = 10


# Keys that are read separately.
_SEPARATE_KEYS = ("permissions", "hooks", "disableAllHooks", "$schema")
_CLAUDE_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


def add_claude_settings(layers: Layers, path: Path, origin: Origin, env: Mapping[str, str]) -> None:
    """Merge one file, if it exists. Globs with `/` start from the directory above `.claude`.

    Its model counts only if an Anthropic key is in the environment: the file belongs to another program.
    """
    text, table = _read(layers, path, origin, "its permissions and hooks are ignored, deny rules included")
    if text is None:
        return
    where = key_locations(text, str(path))
    add_hooks(layers, table, path, origin, where)
    others = {key: value for key, value in table.items() if key not in _SEPARATE_KEYS}
    if others:
        keyed = any(env.get(name) for name in _CLAUDE_KEYS) or "apiKeyHelper" in table
        if "model" in others and not keyed and "/" not in str(others["model"]):
            layers.imported.append(f"{path}: model {others.pop('model')} ignored: no key of Anthropic is set")
        _add_others(layers, others, str(path), path.parent.parent, origin, where)
    _add_permissions(layers, table, path, origin, where)


def _add_permissions(layers: Layers, table: dict[str, Any], path: Path, origin: Origin, where: Where) -> None:
    """Merge the permissions of a file; report whatever looks like a rule and is none."""
    given = table.get("permissions")
    wrong = list(_misplaced(table, where))
    if given is not None and not isinstance(given, dict):
        wrong.append(f"{where('permissions')}: permissions: expected a table with allow, ask and deny; it is ignored")
    given = given if isinstance(given, dict) else {}
    base, source = path.parent.parent, str(path)
    lists = {kind: rule_lists.rule_list(given.get(kind, ())) for kind in (*_LISTS, "additionalDirectories")}
    wrong += [
        f"{where(k, 'permissions')}: permissions.{k}: expected a list of text; it is ignored"
        for k in lists
        if lists[k] is None
    ]
    wrong += [
        f"{where(key, 'permissions')}: permissions.{key}: not known here{_meant(key)}; nothing in it is applied"
        for key in given
        if key not in (*lists, *_PERMISSION_KEYS)
    ]
    if not given:
        layers.ignored += wrong
        return
    if sum(len(lists[kind] or ()) for kind in _LISTS) > MAX_RULES - len(layers.rules):
        layers.ignored.append(f"{path}: more than {MAX_RULES} rules; they are ignored, deny rules included")
        return
    taken: dict[str, Any] = {}
    skipped: list[str] = []
    for kind in _LISTS:
        rules = []
        for rule in lists[kind] or ():
            if why := _unusable(kind, rule):
                skipped.append(str(rule))
                if kind != "allow" and why != "unknown":
                    location = where(str(rule), "permissions")
                    wrong.append(f"{location}: this {kind} rule cannot be read and is ignored: {why}")
            else:
                rules.append(rule)
        if rules:
            taken[kind] = rules
    layers.ignored += wrong[:_MAX_REPORTED]
    if len(wrong) > _MAX_REPORTED:
        layers.ignored.append(f"{path}: {len(wrong) - _MAX_REPORTED} more rules cannot be read and are ignored")
    mode = given.get("defaultMode")
    mode = MODE_ALIASES.get(str(mode), mode)
    if mode in MODES and mode != "bypassPermissions":
        taken["mode"] = mode
    elif mode is not None:
        skipped.append(f"defaultMode {mode}")
    every = lists["additionalDirectories"] or []
    # Files named by an untrusted project are not even inspected.
    folders = [f for f in every if isinstance(f, str) and (origin == "project" or _is_folder(base, f))]
    skipped += [str(f) for f in every if f not in folders]
    if folders:
        taken["additional_directories"] = folders
    before = len(layers.held)
    layers.add({"permissions": taken}, source, base, origin, where)
    layers.imported.append(_summarize(source, taken, skipped, [h.key for h in layers.held[before:]]))


def _misplaced(table: dict[str, Any], where: Where) -> Iterator[str]:
    """Yield a message about each key of a file that looks like rules or hooks and is not read as such."""
    for key, value in table.items():
        if (
            key not in claude_keys.TAKEN
            and key not in claude_keys.UNUSED
            and (near := rule_lists.resembled_table(key, value))
        ):
            what = "hooks" if near == "hooks" else "rules"
            yield f"{where(key)}: {key}: {what} are read from {near} only; nothing in it is applied"


def add_json_settings(layers: Layers, text: str, source: str, base: Path) -> None:
    """Merge JSON of --settings, with our keys and Claude Code's; report those without effect.

    Raises SettingsError for an invalid value of a key of ours.
    """
    table = decode_json(text, source)
    where = key_locations(text, source)
    layers.read.append(source)
    if isinstance(table.get("hooks"), dict):
        add_hooks(layers, {"hooks": table.pop("hooks")}, base / "settings" / source, "user", where)
    hints = hints_of(Settings)
    found = claude_keys.translate(table, lambda key: key in hints or key in removed.REMOVED)
    for key, value in found.settings.items():
        if key in table:  # one of our names, so it is meant for this program
            layers.add({key: value}, source, base, "user", where)
        else:
            _add_tolerant(layers, key, value, source, base, "user", where)
    _add_session(layers, found, source, "user")
    for key in found.unused:
        if why := claude_keys.why_unused(key):
            known = key in claude_keys.UNUSED or key in claude_keys.TAKEN or "." in key
            near = "" if known else nearest_key_hint(key, list(hints)).removeprefix("; ")
            hint = f" ({near})" if near else ""
            layers.ignored.append(f"{source}: {key} has no effect: {why}{hint}")


def _add_others(layers: Layers, table: dict[str, Any], source: str, base: Path, origin: Origin, where: Where) -> None:
    """Merge and report the keys of a file that have a counterpart; doctor lists the others with the reason."""
    known = hints_of(Settings)
    found = claude_keys.translate(table, lambda key: key == "model" or (key == "output_style" and key in known))
    taken = [
        key for key, value in found.settings.items() if _add_tolerant(layers, key, value, source, base, origin, where)
    ]
    _add_session(layers, found, source, origin)
    taken += [name for name, value in (("env", found.env), ("apiKeyHelper", found.key_helper)) if value]
    if taken:
        layers.imported.append(f"{source}: {', '.join(taken)}")
    for key in found.unused:
        # A restriction that is not applied.
        if "." in key and rule_lists.resembled_list(key.rpartition(".")[2]) == "deny":
            layers.ignored.append(f"{where(key.partition('.')[0])}: {key} has no effect here")


def _add_tolerant(layers: Layers, key: str, value: Any, source: str, base: Path, origin: Origin, where: Where) -> bool:
    """Merge one key, or report why not. Return True if it was merged."""
    parts = [{key: {n: inner}} for n, inner in value.items()] if isinstance(value, dict) else [{key: value}]
    merged = False
    collected = layers.mistakes
    layers.mistakes = None
    for part in parts:
        try:
            layers.add(part, source, base, origin, where)
            merged = True
        except SettingsError as error:
            layers.ignored.append(as_ignored(str(error)))
    layers.mistakes = collected
    return merged


def _add_session(layers: Layers, found: claude_keys.Translated, source: str, origin: Origin) -> None:
    """Merge what is not one of our settings: variables, plugins, and the command that prints Claude's key."""
    if origin != "user" and (named := [name for name in found.env if telemetry.steers_telemetry(name)]):
        layers.ignored.append(f"{source}: {', '.join(named)} can only be set in your own settings")
        found = found.replace(env={name: value for name, value in found.env.items() if name not in named})
    if found.env and origin == "project":
        shown = ", ".join(shown_variable(name, value) for name, value in found.env.items())
        layers.held.append(Withheld(source, "env", shown))
    elif origin == "trusted":
        mine = {name: (value, source) for name, value in found.env.items() if not name.startswith("AGENT_")}
        layers.project_env |= mine
    else:
        layers.env |= {name: value for name, value in found.env.items() if not name.startswith("AGENT_")}
    if origin != "project":
        layers.claude_plugins |= found.plugins
        layers.claude_markets |= found.markets
    if not found.key_helper:
        return
    if origin == "user":
        layers.key_helper = found.key_helper, source
    else:
        layers.ignored.append(f"{source}: apiKeyHelper can only be set in your own settings")


def _read(layers: Layers, path: Path, origin: Origin, lost: str) -> tuple[str | None, dict[str, Any]]:
    """Return a file's text and table; None and {} if it is missing, or unreadable, which is reported with `lost`."""
    try:
        text = layers.text_of(path, origin)
        return text, decode_json(text, str(path)) if text is not None else {}
    except SettingsError as error:
        layers.ignored.append(f"{error}; {lost}")
    except (OSError, ValueError) as error:
        layers.ignored.append(f"{path}: {error}, and was left out")
    return None, {}


def add_hooks_file(layers: Layers, path: Path, origin: Origin) -> None:
    """Merge the hooks of a file in Claude Code's form that contains nothing else, if it exists."""
    text, table = _read(layers, path, origin, "its hooks do not run")
    where = key_locations(text or "", str(path))
    layers.ignored += _misplaced(table, where)
    add_hooks(layers, table, path, origin, where)


def add_hooks(layers: Layers, table: dict[str, Any], path: Path, origin: Origin, where: Where) -> None:
    """Merge the `hooks` of a table in Claude Code's form; report invalid ones."""
    if table.get("disableAllHooks") is True:
        if origin == "user":
            layers.add({"disable_hooks": True}, str(path), path.parent, origin, where)
        else:
            layers.ignored.append(f"{path}: disableAllHooks can only be set in your own settings")
    given = table.get("hooks")
    if not given:
        return
    if isinstance(given, list) and all(isinstance(entry, dict) for entry in given):
        # A list of hooks with their events, as in our own settings.
        by_event: dict[str, list[Any]] = {}
        for entry in given:
            by_event.setdefault(str(entry.get("event")), []).append({k: v for k, v in entry.items() if k != "event"})
        given = by_event
    if not isinstance(given, dict):
        layers.ignored.append(f"{where('hooks')}: hooks: expected a table of events; they do not run")
        return
    if elsewhere := [event for event in given if event in hook_reader.UNSUPPORTED_EVENTS]:
        layers.imported.append(f"{path}: hooks of {', '.join(elsewhere)} ignored: unknown events")
    given = {event: groups for event, groups in given.items() if event not in hook_reader.UNSUPPORTED_EVENTS}
    parsed = hook_reader.parse_hooks(given, str(path), from_user=origin == "user", root=path.parent.parent)
    lines = parsed.lines()
    layers.ignored += [f"{path}: {line}" for line in lines[:_MAX_REPORTED]]
    if len(lines) > _MAX_REPORTED:
        layers.ignored.append(f"{path}: {len(lines) - _MAX_REPORTED} more problems with hooks; see agent hooks list")
    if found := parsed.hooks:
        layers.add_hooks(found, str(path), origin)
        held = " ignored: the project is not trusted" if origin == "project" else ""
        layers.imported.append(f"{path}: {len(found)} hook{'s' if len(found) > 1 else ''}{held}")


def _is_folder(base: Path, folder: str) -> bool:
    return os.path.isdir(base / os.path.expanduser(folder))  # noqa: PTH112 - the method raises in closed folders


def _meant(key: str) -> str:
    near = rule_lists.resembled_list(key)
    return f"; did you mean {near}?" if near else nearest_key_hint(key, [*_LISTS, *_PERMISSION_KEYS])


def _unusable(kind: str, rule: object) -> str:
    """Return why a rule is ignored: "unknown" if its tool is one of another program, else the error; "" for none."""
    if not isinstance(rule, str):
        return f"{rule!r} is not a string"
    try:
        tool = read_rule(kind, rule, "", Path("/")).tool  # type: ignore[arg-type]
    except RuleError as error:
        return str(error)
    # A package or an embedding program may add the tool that a stricter rule names.
    if tool in KNOWN_TOOLS or tool.startswith("mcp") or (kind != "allow" and tool not in FOREIGN_TOOLS):
        return ""
    return "unknown"


def _summarize(source: str, taken: dict[str, Any], skipped: list[str], held: list[str]) -> str:
    """Summarize what a file contributed, in one line for doctor."""
    parts = []
    for key, value in taken.items():
        if f"permissions.{key}" not in held:
            parts.append(f"mode {value}" if key == "mode" else f"{len(value)} {key.replace('_', ' ')}")
    if held:
        parts.append(f"ignored, as the project is not trusted: {', '.join(key.partition('.')[2] for key in held)}")
    if skipped:
        more = ", ..." if len(skipped) > _MAX_REPORTED else ""
        named = ", ".join(shorten(text, 60) for text in skipped[:_MAX_REPORTED])
        parts.append(f"{len(skipped)} ignored as unreadable ({named}{more})")
    return f"{source}: {', '.join(parts) or 'nothing'}"

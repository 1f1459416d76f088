"""The policy of an organisation, which no setting, flag or session of the user can loosen.

It is read from /etc/agent/policy.toml, which must belong to root and be writable by root alone; from the file that
AGENT_POLICY names; and from --managed-settings, which a program that runs `agent` passes. Each source can only add:
rules add up, and of the lists of what is allowed only their intersection counts. docs/security.md has the keys.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from agent_cli.config.parsing import SettingsError, decode_settings
from agent_cli.kernel.user_text import begins_json_object, decode_user_text
from agent_tools.fs.safe_files import read_regular
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value

with lazy_imports():
    from agent_cli.config import rule_lists, telemetry

FILE = "/etc/agent/policy.toml"
VARIABLE = "AGENT_POLICY"
_MAX_BYTES = 1 << 20
_LISTS = ("allowed_servers", "allowed_plugins", "allowed_marketplaces")
# Keys of Claude Code's managed settings with the same meaning.
_CLAUDE = {"allowedMcpServers": "allowed_servers", "strictKnownMarketplaces": "allowed_marketplaces"}
_CLAUDE_LISTS = ("denied_servers", "deniedMcpServers")


class ManagedPolicy(Value):
    """A policy, merged from its sources.

    sources: where it comes from.
    deny, ask: rules.
    no_bypass: the mode bypassPermissions is refused.
    denied_servers: patterns of names or addresses.
    allowed_servers, allowed_plugins, allowed_marketplaces: patterns of names or addresses, or of sources, one list per
        source of the policy; none allows all.
    env: variables of telemetry, which the user's own do not change.
    notes: keys that have no effect.
    """

    sources: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    no_bypass: bool = False
    denied_servers: tuple[str, ...] = ()
    allowed_servers: tuple[tuple[str, ...], ...] = ()
    allowed_plugins: tuple[tuple[str, ...], ...] = ()
    allowed_marketplaces: tuple[tuple[str, ...], ...] = ()
    env: dict[str, str] = {}  # noqa: RUF012 - never changed
    notes: tuple[str, ...] = ()

    def refuses_server(self, name: str, target: str) -> str:
        """Return why an MCP server may not be used; "" if it may. target: its address or command line."""
        if _matches((name, target), self.denied_servers):
            return f"the policy ({self.origin}) denies it"
        return self._unlisted(self.allowed_servers, name, target)

    def refuses_plugin(self, name: str, source: str) -> str:
        """Return why a plugin may not be used; "" if it may."""
        return self._unlisted(self.allowed_plugins, name, source)

    def refuses_marketplace(self, source: str) -> str:
        """Return why plugins may not come from a marketplace; "" if they may."""
        return self._unlisted(self.allowed_marketplaces, source)

    def _unlisted(self, lists: tuple[tuple[str, ...], ...], *names: str) -> str:
        if all(_matches(names, listed) for listed in lists):
            return ""
        return f"the policy ({self.origin}) does not list it"

    @property
    def origin(self) -> str:
        return ", ".join(self.sources)

    def lines(self) -> list[str]:
        """Describe its contents, a phrase each."""
        found = [f"{word}: {', '.join(rules)}" for word, rules in (("deny", self.deny), ("ask", self.ask)) if rules]
        found += ["no mode bypassPermissions"] if self.no_bypass else []
        found += [f"denied servers: {', '.join(self.denied_servers)}"] if self.denied_servers else []
        for key in _LISTS:
            found += [f"{key.replace('_', ' ')}: {', '.join(listed) or 'none'}" for listed in getattr(self, key)]
        found += [f"telemetry: {', '.join(self.env)}"] if self.env else []
        return [*found, *(f"not used: {note}" for note in self.notes)]


def _matches(names: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


NO_POLICY = ManagedPolicy()


def read_policy(
    env: Mapping[str, str], given: str | None = None, file: str = FILE, *, called: str = "managed"
) -> ManagedPolicy:
    """Read the policy. Raises SettingsError: a policy that cannot be read stops the program.

    given: a text of the caller, or the path of a file with it. called: what the caller calls it.
    """
    found = NO_POLICY
    if os.path.lexists(file):
        _check_owner(Path(file))
        found = _merge(found, _read(Path(file)), file)
    if named := env.get(VARIABLE):
        found = _merge(found, _read(Path(os.path.expanduser(named))), named)
    if given:
        text = given if begins_json_object(given) or "=" in given else _read(Path(os.path.expanduser(given)))
        found = _merge(found, text, called, from_caller=True)
    return found


def _check_owner(path: Path) -> None:
    """Raise SettingsError if anyone but root could have written the file."""
    for each in (path, path.parent):
        state = each.stat()
        if state.st_uid != 0 or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise SettingsError(
                f"{each} must belong to root and be writable by root alone (chown root, chmod go-w), or its policy "
                "could be changed by others; nothing is run"
            )


def _read(path: Path) -> str:
    try:
        return decode_user_text(read_regular(path, _MAX_BYTES))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise SettingsError(f"the policy {path} cannot be read, so nothing is run: {why}") from None


def _merge(before: ManagedPolicy, text: str, source: str, *, from_caller: bool = False) -> ManagedPolicy:
    table = decode_settings(text, source)
    rules = table.pop("permissions", {})
    if not isinstance(rules, dict):
        raise SettingsError(f"{source}: permissions: expected a table")
    for key in (*table, *(key for key in rules if key not in ("deny", "ask"))):
        near = rule_lists.resembled_list(key)
        if near and near != "allow" and key not in (*_CLAUDE, *_CLAUDE_LISTS):
            raise SettingsError(f"{source}: {key}: rules are read from permissions.deny and permissions.ask only")
    notes = [f"permissions.{key}" for key in rules if key not in ("deny", "ask", "disableBypassPermissionsMode")]
    bypass = _flag(table.pop("no_bypass", False), f"{source}: no_bypass")
    bypass = bypass or rules.get("disableBypassPermissionsMode") in ("disable", True)
    changed: dict[str, Any] = {"denied_servers": before.denied_servers}
    env = _variables(table.pop("env", {}), f"{source}: env")
    if from_caller:
        notes, env = [*notes, *(["env"] if env else [])], {}
    notes += [f"env.{name}" for name in env if not telemetry.steers_telemetry(name)]
    for key, raw in table.items():
        name = _CLAUDE.get(key, key)
        if name in _LISTS:
            changed[name] = (*changed.get(name, getattr(before, name)), _patterns(raw, f"{source}: {key}"))
        elif key in ("denied_servers", "deniedMcpServers"):
            changed["denied_servers"] += _patterns(raw, f"{source}: {key}")
        elif from_caller or key == "$schema":
            notes.append(key)
        else:
            known = ", ".join(("permissions", "no_bypass", "denied_servers", "env", *_LISTS))
            raise SettingsError(f"{source}: {key}: unknown key of a policy; there are {known}")
    return before.replace(
        sources=(*before.sources, source),
        deny=(*before.deny, *_strings(rules.get("deny", []), f"{source}: permissions.deny")),
        ask=(*before.ask, *_strings(rules.get("ask", []), f"{source}: permissions.ask")),
        no_bypass=before.no_bypass or bypass,
        env={**before.env, **{name: value for name, value in env.items() if telemetry.steers_telemetry(name)}},
        notes=(*before.notes, *notes),
        **changed,
    )


def _flag(raw: Any, where: str) -> bool:
    if not isinstance(raw, bool):
        raise SettingsError(f"{where}: expected true or false")
    return raw


def _variables(raw: Any, where: str) -> dict[str, str]:
    if not isinstance(raw, dict) or not all(isinstance(value, str | int) for value in raw.values()):
        raise SettingsError(f"{where}: expected a table of variables with their values as text")
    return {str(name): str(value) for name, value in raw.items()}


def _strings(raw: Any, where: str) -> tuple[str, ...]:
    listed = rule_lists.rule_list(raw)
    if listed is None or not all(isinstance(text, str) for text in listed):
        raise SettingsError(f"{where}: expected a list of text")
    return tuple(listed)


def _patterns(raw: Any, where: str) -> tuple[str, ...]:
    """Return the patterns of a list of strings, or of tables in Claude Code's form."""
    found = []
    for item in raw if isinstance(raw, list) else [None]:
        if isinstance(item, dict):
            command = item.get("serverCommand")
            joined = " ".join(map(str, command)) if isinstance(command, list) else None
            keys = ("serverName", "serverUrl", "repo", "url", "path")
            item = next((item[key] for key in keys if isinstance(item.get(key), str)), joined)
        if not isinstance(item, str):
            raise SettingsError(f"{where}: expected a list of names, addresses or sources")
        found.append(item)
    return tuple(found)

"""Settings from their layers: user, project, project-local, --settings, environment, flags; later ones win.

Every value remembers where it came from. Lists of rules add up; everything else is replaced. A project's files take
effect once the user trusts the project; until then they can only tighten, and what they would loosen is withheld and
reported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from agent_cli.config.parsing import (
    MAX_BYTES,
    MAX_RULES,
    SettingsError,
    check_value,
    decode_in_part,
    decode_settings,
    key_locations,
    nearest_setting_hint,
)
from agent_cli.config.policy import NO_POLICY
from agent_cli.config.schema import (
    Mcp,
    McpServer,
    Permissions,
    RuleEntry,
    SandboxSettings,
    Settings,
    SettingScope,
    tables,
)
from agent_cli.hooks import Hook
from agent_cli.kernel.redact import without_passwords
from agent_cli.kernel.rules import Rule, RuleError, RuleList, Trust, read_rule
from agent_cli.kernel.user_text import decode_user_text
from agent_tools.fs.protected_names import has_leftover
from agent_tools.fs.safe_files import NotRegularFileError, outside_notice, read_regular
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value, hints_of
from agent_tools.text import nearest_key_hint, one_line, shorten

with lazy_imports():
    from agent_cli.config import removed, rule_lists
    from agent_cli.hooks import reader as hook_reader

# Origin of a layer: the user, a trusted project, or an untrusted one.
Origin = Literal["user", "trusted", "project"]
# Returns where a key or a rule's text is, given its name and the table it is in.
Where = Callable[..., str]
_LISTS: tuple[RuleList, ...] = ("allow", "ask", "deny")
_CUMULATIVE = (*_LISTS, "rules", "additional_directories")
# Settings under their former names, which are still read, with a notice.
_RENAMED = {"plugins": "tool_packages"}
_ALIASES = {"defaultMode": "mode", "additionalDirectories": "additional_directories"}


class Withheld(Value):
    """A key of a file that was ignored for lack of trust, and its value as text."""

    source: str
    key: str
    shown: str


class ProjectAddress(Value):
    """A variable, or the setting base_url, by which a trusted project would decide where requests go."""

    name: str
    value: str
    source: str


class Declared(Value):
    """An MCP server as declared in a layer. own: the layer is the user's."""

    name: str
    server: McpServer
    source: str
    from_user: bool


class Layers:
    """The merged settings, with the origin of each key and what was ignored.

    origins: the layer that set a key, by key ("model", "permissions.mode").
    overridden: values that a later layer replaced, in words.
    ignored: messages for the user.
    held: what an untrusted project would have set.
    held_hooks: the hooks among that.
    read: the layers found, in order.
    rules: permission rules of all layers.
    trust: trust state of the project.
    servers: MCP servers in effect; they contain secrets, so they are not part of the settings that are saved.
    plugins: those that are loaded.
    claude_plugins: by name@marketplace, True if Claude Code's settings enable it.
    claude_markets: sources of their marketplaces, by name.
    managed: the policy of an organisation, which nothing loosens.
    may_bypass: the user allowed the mode bypassPermissions for this session, so it may be switched to it.
    imported: what was taken over from other programs' files, for doctor.
    env: variables for the session, from Claude Code's settings.
    project_env: those of a trusted project, by name with value and source, before it is known which are used.
    addresses: what a trusted project would set and that is used only after a question of its own.
    key_helper: the command there that prints the key for Claude, and the layer that names it.
    profiles: named groups of settings, each with its location.
    mistakes: collects errors so that everything else is read; None: errors are raised as SettingsError.
    """

    def __init__(self, mistakes: list[str] | None = None) -> None:
        self.mistakes = mistakes
        self.origins: dict[str, str] = {}
        self.overridden: list[str] = []
        self.ignored: list[str] = []
        self.held: list[Withheld] = []
        self.held_hooks: list[Hook] = []
        self.read: list[str] = []
        self.rules: list[Rule] = []
        self.trust = Trust()
        self.servers: list[Declared] = []
        self.plugins: list[Any] = []
        self.claude_plugins: dict[str, bool] = {}
        self.claude_markets: dict[str, str] = {}
        self.managed = NO_POLICY
        self.may_bypass = False
        self.imported: list[str] = []
        self.env: dict[str, str] = {}
        self.project_env: dict[str, tuple[str, str]] = {}
        self.addresses: list[ProjectAddress] = []
        self.key_helper = ("", "")
        self.profiles: dict[str, tuple[dict[str, Any], str, Path, Where]] = {}
        self._values: dict[str, Any] = {}
        self._tables: dict[str, dict[str, Any]] = {name: {} for name in tables()}

    def trust_phrases(self) -> list[str]:
        """Return what the project brings that needs trust, and what has changed since it was trusted, a phrase each."""
        trust = self.trust
        held = [f"{os.path.relpath(h.source, trust.root)} sets {h.key}: {h.shown}" for h in self.held]
        return [one_line(phrase) for phrase in (*(f"changed: {c}" for c in trust.changed), *held, *trust.needs_trust)]

    def untrusted_notice(self) -> str:
        """Return the notice about settings that were not loaded for lack of trust, on one line."""
        sources: dict[str, list[str]] = {}
        for held in self.held:
            sources.setdefault(os.path.relpath(held.source, self.trust.root), []).append(held.key)
        phrases = [f"{source} ({', '.join(keys)})" for source, keys in sources.items()]
        what = shorten("; ".join([*phrases, *self.trust.needs_trust]), 400)
        how = "has changed since you trusted it" if self.trust.state == "changed" else "is not trusted"
        return f"{self.trust.root} {how}, and this was ignored: {what}. --trust loads it; see agent trust --show"

    def settings(self) -> Settings:
        made: dict[str, Any] = {name: cls(**self._tables[name]) for name, cls in tables().items()}
        return Settings(**self._values, **made)

    def restore(self, settings: Settings, rules: list[Rule]) -> None:
        """Restore saved settings and rules, without checking them."""
        self._values = {n: getattr(settings, n) for n in Settings._fields if n not in tables()}
        for name, cls in tables().items():
            self._tables[name] = {n: getattr(getattr(settings, name), n) for n in cls._fields}
        self.rules = list(rules)

    def add_file(self, path: Path, origin: Origin) -> None:
        """Read one settings file, if it exists. Raises SettingsError."""
        try:
            text = self.text_of(path, origin)
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            self.report_error(SettingsError(f"{path}:{line}: cannot be read as UTF-8; save the file in that encoding"))
            return
        except OSError as error:
            raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from None
        if text is not None:
            self.add_text(text, str(path), path.parent, origin)

    def text_of(self, path: Path, origin: Origin) -> str | None:
        """Return the text of a settings file; None if it does not exist or must not be read, which is reported.

        A project's file must be a regular file inside the project: no pipe, device, or link that leads out.
        """
        try:
            return decode_user_text(read_regular(path, MAX_BYTES, self._boundary(path, origin)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:
            self.ignored.append(f"{path}: cannot be read and was ignored")
            return None
        except NotRegularFileError as error:
            if has_leftover(path):
                return None
            if origin == "user":
                raise
            inside = self._boundary(path, origin)
            leads_out = inside is not None and str(error).startswith("leads out")
            text = outside_notice(path, inside) if leads_out and inside else f"{path}: {error}, and was ignored"
            if text not in self.ignored:
                self.ignored.append(text)
            return None

    def _boundary(self, path: Path, origin: Origin) -> Path | None:
        """Return the directory that links from a settings file must not leave; None for the user's own files."""
        if origin == "user":
            return None
        return Path(self.trust.root) if self.trust.root else path.parent

    def add_text(self, text: str, source: str, base: Path, origin: Origin = "user") -> None:
        """Read settings from TOML, or from JSON if the text begins with a brace. Raises SettingsError."""
        data = decode_settings(text, source) if self.mistakes is None else decode_in_part(text, source, self.mistakes)
        self.read.append(source)
        self.add(data, source, base, origin, key_locations(text, source))

    def active_hooks(self, settings: Settings) -> tuple[Hook, ...]:
        """Return the hooks that run; a project's only if it is trusted."""
        if settings.disable_hooks:
            return ()
        return tuple(hook for hook in settings.hooks if hook.from_user or self.trust.trusted)

    def add_hooks(self, hooks: tuple[Hook, ...], source: str, origin: Origin) -> None:
        """Merge hooks that are already parsed."""
        if origin == "project":
            self.held_hooks += hooks
            self.held.append(Withheld(source, "hooks", _format_value(hooks)))
            return
        self._values["hooks"] = (*self._values.get("hooks", ()), *hooks)
        self.origins["hooks"] = source

    def add(
        self, data: Mapping[str, Any], source: str, base: Path, origin: Origin = "user", location: Where | None = None
    ) -> None:
        """Merge plain data.

        location: locates a key.

        Raises SettingsError.
        """
        layer = _Layer(self, source, base, origin, location or (lambda key, table="": source))
        for key, value in data.items():
            cls = tables().get(key)
            if key == "profiles":
                self._add_profiles(value, source, base, origin, layer.where)
                continue
            if cls is SandboxSettings and isinstance(value, str):
                # sandbox = "auto" is short for the most common key of that table.
                layer.set(cls, self._tables[key], key, "mode", value, spelled=key)
            elif cls is None:
                if (meant := _RENAMED.get(key, key)) != key and origin == "user":
                    self.ignored.append(f"{source}: the setting {key} is now named {meant}; rename it there")
                layer.set(Settings, self._values, "", meant, value, spelled=key)
            elif not isinstance(value, dict):
                self.report_error(SettingsError(f"{layer.where(key)}: {key}: expected a table, [{key}]"))
            else:
                for name, inner in value.items():
                    meant = str(_ALIASES.get(name) or name) if cls is Permissions else name
                    layer.set(cls, self._tables[key], key, meant, inner, spelled=name)

    def set(self, key: str, value: Any, source: str, base: Path) -> None:
        """Merge one setting of the user: `key`, or `table.key`. Raises SettingsError."""
        table, _, name = key.rpartition(".")
        self.add({table: {name: value}} if table else {name: value}, source, base)

    def add_saved(self, key: str, value: Any, path: Path) -> None:
        """Merge a setting that was saved in the user's file after it was read."""
        self.set(key, value, str(path), path.parent)
        if str(path) not in self.read:
            self.read.append(str(path))

    def _add_profiles(self, value: Any, source: str, base: Path, origin: Origin, where: Where) -> None:
        """Store the named groups of settings; they are checked when one is used."""
        if origin != "user":
            self.ignored.append(f"{source}: profiles can only be set in your own settings")
        elif not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
            self.report_error(SettingsError(f"{where('profiles')}: profiles: expected tables, [profiles.NAME]"))
        else:
            self.profiles |= {name: (table, source, base, where) for name, table in value.items()}

    def use_profile(self, name: str) -> None:
        """Merge the settings of [profiles.NAME]. Raises SettingsError.

        The values of the setting `profile` are profiles, too, unless a group has that name.
        """
        if name in self.profiles:
            table, source, base, where = self.profiles[name]
            self.add(table, f"{source} [profiles.{name}]", base, "user", where)
        elif name in get_args(hints_of(Settings)["profile"].__origin__):
            self.add({"profile": name}, "--profile", Path())
        else:
            known = ", ".join(self.profiles)
            more = f"; there are: {known}" if known else "; write it as [profiles.NAME] into ~/.agentrc"
            raise SettingsError(f"--profile: there is no profile {name}{more}")

    def report_error(self, error: SettingsError) -> None:
        """Raise an error, or collect it in `mistakes`."""
        if self.mistakes is None:
            raise error
        self.mistakes.append(str(error))


class _Layer:
    """One layer while it is merged."""

    def __init__(self, layers: Layers, source: str, base: Path, origin: Origin, where: Where) -> None:
        self._layers = layers
        self._source = source
        self._base = base
        self._origin = origin
        self.where = where

    def set(self, cls: type, into: dict[str, Any], table: str, key: str, raw: Any, spelled: str = "") -> None:
        """Check one value, then set or withhold it. Raises SettingsError unless errors are collected."""
        try:
            self._set(cls, into, table, key, raw, spelled)
        except SettingsError as error:
            self._layers.report_error(error)

    def _set(self, cls: type, into: dict[str, Any], table: str, key: str, raw: Any, spelled: str) -> None:
        name = f"{table}.{key}" if table else key
        hints, layers = hints_of(cls), self._layers
        if cls is Permissions and key in (*_LISTS, "additional_directories") and isinstance(raw, str):
            raw = rule_lists.rule_list(raw)

        def location() -> str:  # called only for an error
            return self.where(spelled or key, table)

        if key not in hints or (cls is Settings and key in tables()):
            if notice := removed.removal_notice(name):
                if not any(line.endswith(notice) for line in layers.ignored):
                    layers.ignored.append(f"{location()}: {notice}")
                return
            hint = (nearest_setting_hint(key) if not table else "") or nearest_key_hint(key, list(hints))
            raise SettingsError(f"{location()}: {name}: unknown setting{hint}")
        hooks = name == "hooks"
        value: Any = self._hooks(raw, location) if hooks else check_value(hints[key], raw, name, location)
        if self._origin != "user":
            if reason := _forbidden_reason(hints[key], key, value):
                layers.ignored.append(f"{self._source}: {name} {reason}; name the file with --settings if it is yours")
                return
            if self._origin == "trusted" and _scope(hints[key]).who == "asked":
                layers.addresses += [ProjectAddress(name, value, self._source)] if value else []
                return
            if self._origin == "project":
                value = self._tightening(cls, hints[key], name, key, value, into)
                if value is None:
                    return
        if cls is Mcp and key == "servers":
            layers.servers += [Declared(n, server, self._source, self._origin == "user") for n, server in value.items()]
            value = {}
        if key == "additional_directories":
            value = tuple(str(self._base / os.path.expanduser(folder)) for folder in value)
        if cls is Permissions and key in (*_LISTS, "rules"):
            self._add_rules(key, value)
        if hooks or (cls is Permissions and key in _CUMULATIVE):
            value = into.get(key, ()) + value
        elif layers.origins.get(name, self._source) != self._source:
            layers.overridden.append(f"{name} of {layers.origins[name]} by {self._source}")
        into[key] = value
        layers.origins[name] = self._source

    def _tightening(self, cls: type, hint: Any, name: str, key: str, value: Any, into: dict[str, Any]) -> Any:
        """Return the part of a value that takes effect without trust, None for nothing; withhold the rest."""
        if cls is Permissions and key == "rules":
            kept = tuple(e for e in value if e.list != "allow")
            held = tuple(e for e in value if e.list == "allow")
        elif _is_stricter(cls, hint, key, value, into):
            return value
        else:
            kept, held = None, value
        if held != ():
            self._layers.held.append(Withheld(self._source, name, _format_value(held)))
        return kept or None

    def _hooks(self, raw: Any, location: Callable[[], str]) -> tuple[Hook, ...]:
        """Parse hooks. Raises SettingsError for the first invalid one."""
        found = hook_reader.parse_hooks(raw, self._source, from_user=self._origin == "user", root=self._base)
        if problems := (*found.refusing, *found.problems):
            raise SettingsError(f"{location()}: {problems[0]}")
        self._layers.ignored += [f"{self._source}: {note}" for note in found.notes]
        if self._origin == "project":
            self._layers.held_hooks += found.hooks
        return found.hooks

    def _add_rules(self, key: str, value: tuple[Any, ...]) -> None:
        if len(self._layers.rules) + len(value) > MAX_RULES:
            raise SettingsError(f"{self._source}: at most {MAX_RULES} rules are allowed, and these are more")
        entries = value if key == "rules" else tuple(RuleEntry(key, text) for text in value)  # type: ignore[arg-type]
        for entry in entries:
            location = self.where(entry.rule, "permissions")
            try:
                rule = read_rule(entry.list, entry.rule, location, self._base)
            except RuleError as error:
                self._layers.report_error(SettingsError(f"{location}: permissions.{key}: {error}"))
                continue
            more = {n: getattr(entry, n) for n in ("why", "match", "not_match") if getattr(entry, n)}
            if self._origin != "user":
                more["from_user"] = False
            self._layers.rules.append(rule.replace(**more) if more else rule)


def _scope(hint: Any) -> SettingScope:
    return next((m for m in hint.__metadata__ if isinstance(m, SettingScope)), SettingScope("trusted"))


def _forbidden_reason(hint: Any, key: str, value: Any) -> str:
    """Return why no project file may set this value, trusted or not; "" if one may."""
    if any(str(v).startswith("scripted:") for v in (value if isinstance(value, tuple) else (value,))):
        return "cannot name a script as the model"
    if key == "mode" and value == "bypassPermissions":
        return "cannot be bypassPermissions, which only an option of the command line can set"
    return "can only be set in your own settings" if _scope(hint).who == "user" else ""


def _is_stricter(cls: type, hint: Any, key: str, value: Any, into: dict[str, Any]) -> bool:
    """Return True if a value only tightens the current one."""
    scope = _scope(hint)
    if scope.who != "tighten":
        return False
    before = into.get(key, getattr(cls, key))
    if scope.order:
        return scope.order.index(value) >= scope.order.index(before)
    if cls is Permissions and key in _CUMULATIVE:
        return True
    if isinstance(value, tuple):
        return before is None or set(value) <= set(before)
    return isinstance(value, (int, float)) and value != 0 and (before == 0 or value <= before)


def _format_value(value: Any) -> str:
    """Format a value in full, for the question about trust."""
    if isinstance(value, tuple):
        return ", ".join(v.rule if isinstance(v, RuleEntry) else str(v) for v in value)
    if isinstance(value, dict):
        return ", ".join(value)
    return without_passwords(str(value))


def home_folder(env: Mapping[str, str]) -> Path | None:
    """Return the home directory with links resolved, like the working directory; None if unset or no directory."""
    home = env["HOME"] if "HOME" in env else os.path.expanduser("~")
    # os.path, here and wherever a directory may be unreadable: the methods of Path raise there.
    return Path(os.path.realpath(home)) if home not in ("", "~") and os.path.isdir(home) else None  # noqa: PTH112

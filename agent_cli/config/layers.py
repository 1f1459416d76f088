"""Settings from their layers: user, project, project-local, --settings, environment, flags; later ones win.

Every value remembers where it came from. Lists of rules add up; everything else is replaced. What a project's files
may not set is dropped and named. A file that fits is read without any library; only a mistake loads pydantic, which
words it, with the line it stands on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from agent_cli.config.schema import Permissions, Scope, Settings
from agent_cli.core.rules import BadRule, Rule, RuleList, read_rule
from agent_tools.values import Mismatch, from_plain, hints_of, name_of

Trust = Literal["own", "project"]
_ADDED = ("allow", "ask", "deny", "additional_directories")
_STRICT_MODES = ("plan", "dontAsk")
_REVIEWS = ("off", "plan", "always")


class SettingsError(Exception):
    """A mistake in the settings: the message names file, line, key and what was expected."""


class Layers:
    """The merged settings, with the origin of each key and what was left out.

    origins: key ("model", "permissions.mode") to the layer that set it. ignored: sentences about what a project's files
    may not do. read: the layers that were there, in order.
    """

    def __init__(self) -> None:
        self.origins: dict[str, str] = {}
        self.overridden: list[str] = []
        self.ignored: list[str] = []
        self.read: list[str] = []
        self.rules: list[Rule] = []
        self._values: dict[str, Any] = {}
        self._permissions: dict[str, Any] = {}

    def settings(self) -> Settings:
        return Settings(**self._values, permissions=Permissions(**self._permissions))

    def take(self, settings: Settings, rules: list[Rule]) -> None:
        """Settings and rules as they were saved; nothing is read or checked."""
        self._values = {n: getattr(settings, n) for n in Settings._fields if n != "permissions"}
        self._permissions = {n: getattr(settings.permissions, n) for n in Permissions._fields}
        self.rules = list(rules)

    def add_file(self, path: Path, trust: Trust) -> None:
        """Read one settings file, if it is there. Raises SettingsError."""
        try:
            text = path.read_text("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return
        except PermissionError:
            self.ignored.append(f"{path}: cannot be read, and was left out")
            return
        except (OSError, ValueError) as error:
            raise SettingsError(f"{path}: cannot be read: {error}") from None
        self.add_text(text, str(path), path.parent, trust)

    def add_text(self, text: str, source: str, base: Path, trust: Trust = "own") -> None:
        """Read settings from TOML, or from JSON where the text begins with a brace. Raises SettingsError."""
        data = _decode(text, source)
        self.read.append(source)
        self.add(data, source, base, trust, lambda key: f"{source}:{line_of(text, key)}")

    def add(
        self,
        data: Mapping[str, Any],
        source: str,
        base: Path,
        trust: Trust = "own",
        place: Callable[[str], str] | None = None,
    ) -> None:
        """Merge plain data. `place` tells where a key stands, for mistakes."""
        where = place or (lambda key: source)
        table = dict(data)
        permissions = table.pop("permissions", {})
        if not isinstance(permissions, dict):
            raise SettingsError(f"{where('permissions')}: permissions: expected a table, [permissions]")
        if "defaultMode" in permissions:
            permissions = {**permissions, "mode": permissions["defaultMode"]}
            permissions.pop("defaultMode")
        for key, value in table.items():
            self._set(Settings, self._values, "", key, value, source, trust, where)
        for key, value in permissions.items():
            self._set(Permissions, self._permissions, "permissions.", key, value, source, trust, where)
            if key in ("allow", "ask", "deny") and self.origins.get(f"permissions.{key}") == source:
                self._add_rules(key, value, source, base, where)

    def _set(
        self, cls: type, into: dict[str, Any], prefix: str, key: str, raw: Any, source: str, trust: Trust, where: Any
    ) -> None:
        name = prefix + key
        hints = hints_of(cls)
        if key not in hints:
            raise SettingsError(f"{where(key)}: {name}: there is no such setting{_nearest(key, list(hints))}")
        value = check_value(hints[key], raw, name, where(key))
        if trust == "project" and (reason := self._refused(cls, key, hints[key], value, into)):
            self.ignored.append(f"{source}: {name} {reason}; name the file with --settings if it is yours")
            return
        if key in _ADDED and prefix:
            value = into.get(key, ()) + value
        elif name in self.origins:
            self.overridden.append(f"{name} of {self.origins[name]} by {source}")
        into[key] = value
        self.origins[name] = source

    def _refused(self, cls: type, key: str, hint: Any, value: Any, into: dict[str, Any]) -> str:
        """Why a project's file may not set this value; "" where it may."""
        if any(str(v).startswith("scripted:") for v in (value if isinstance(value, tuple) else (value,))):
            return "cannot name a script as the model"
        scope = next((m for m in hint.__metadata__ if isinstance(m, Scope)), None)
        if scope is None:
            return ""
        if scope.who == "user":
            return "can only be set in your own settings"
        before = into.get(key, getattr(cls, key))
        if key == "mode":
            stricter = value in _STRICT_MODES and before not in ("plan",)
        elif key == "plan_review":
            stricter = _REVIEWS.index(value) >= _REVIEWS.index(before)
        elif isinstance(value, tuple):
            stricter = before is None or set(value) <= set(before)
        else:
            stricter = value != 0 and (before == 0 or value <= before)
        return "" if stricter else "can only be made stricter by a project"

    def _add_rules(self, kind: RuleList, texts: Any, source: str, base: Path, where: Any) -> None:
        for text in texts:
            try:
                self.rules.append(read_rule(kind, text, source, base))
            except BadRule as error:
                raise SettingsError(f"{where(text)}: permissions.{kind}: {error}") from None


def check_value(hint: Any, raw: Any, name: str, where: str) -> Any:
    """The value, or a SettingsError that says what was expected. Pydantic decides what the quick check refuses.

    An empty text means "unset" for a key that can be unset.
    """
    if isinstance(raw, (int, float)) and not isinstance(raw, bool) and raw < 0:
        raise SettingsError(f"{where}: {name}: expected a number that is not negative, found {raw!r}")
    try:
        return None if raw == "" and type(None) in get_args(hint.__origin__) else from_plain(hint, raw)
    except Mismatch:
        import json

        from pydantic import TypeAdapter, ValidationError

        try:
            TypeAdapter(hint).validate_json(json.dumps(raw, default=str), strict=True)
        except ValidationError as error:
            found = error.errors()[0]
            at = "".join(f"[{i}]" for i in found["loc"] if isinstance(i, int))
            raise SettingsError(f"{where}: {name}{at}: expected {name_of(hint)}, found {raw!r}") from None
        raise SettingsError(f"{where}: {name}: expected {name_of(hint)}, found {raw!r}") from None


def from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    """The settings among AGENT_<KEY> variables, as plain data. Raises SettingsError for a value that does not fit.

    Lists are separated by commas. Variables that name no setting (AGENT_STATE_DIR, ...) are not ours to judge.
    """
    data: dict[str, Any] = {}
    permissions: dict[str, Any] = {}
    for cls, into in ((Settings, data), (Permissions, permissions)):
        for key, hint in hints_of(cls).items():
            variable = f"AGENT_{key.upper()}" if cls is Settings else f"AGENT_PERMISSION_{key.upper()}"
            if key != "permissions" and (text := env.get(variable)) is not None:
                into[key] = from_text(hint, text, variable)
    return {**data, "permissions": permissions} if permissions else data


def from_text(hint: Any, text: str, name: str) -> Any:
    """A setting's value from one string, by its type."""
    bare = hint.__origin__ if hasattr(hint, "__metadata__") else hint
    choices = [a for a in get_args(bare) if a is not type(None)] if get_args(bare) else [bare]
    if text == "" and type(None) in get_args(bare):
        return None
    for choice in choices if get_args(bare) and type(None) in get_args(bare) else [bare]:
        if choice is bool and text.lower() in ("1", "true", "yes", "on", "0", "false", "no", "off"):
            return text.lower() in ("1", "true", "yes", "on")
        if choice in (int, float):
            try:
                return choice(text)
            except ValueError:
                break
        if str(choice).startswith("tuple"):
            return [item.strip() for item in text.split(",") if item.strip()]
        if choice is str or str(choice).startswith("typing.Literal"):
            return text
    raise SettingsError(f"{name}: expected {name_of(hint)}, found {text!r}")


def _decode(text: str, source: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        import json

        try:
            decoded = json.loads(text)
        except ValueError as error:
            raise SettingsError(f"{source}: not JSON: {error}") from None
        return decoded if isinstance(decoded, dict) else {}
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{source}: not TOML: {error}") from None


def line_of(text: str, key: str) -> int:
    """The line, counted from 1, on which a key (or a rule's text) first stands."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip().strip("\"'").startswith(key) or f'"{key}"' in line or f"'{key}'" in line:
            return number
    return 1


def _nearest(key: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(key, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def user_file(home: Path | None) -> Path | None:
    """`~/.agentrc`, or None without a home."""
    return home / ".agentrc" if home is not None else None


def home_folder(env: Mapping[str, str]) -> Path | None:
    """The home folder, or None where it is unset or not a folder."""
    home = env["HOME"] if "HOME" in env else os.path.expanduser("~")
    # os.path, here and where else a folder may be closed to us: the methods of Path raise there.
    return Path(home) if home not in ("", "~") and os.path.isdir(home) else None  # noqa: PTH112

"""Parse settings: read a file or variable, check one value, and locate a key for error messages.

A valid value is accepted without any library; only an error loads pydantic, which describes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_args, get_origin

from agent_cli.config.schema import Permissions, Settings, tables
from agent_cli.kernel.user_text import begins_json_object, load_user_json
from agent_tools.lazy import lazy_imports
from agent_tools.record import DecodeError, Value, describe_type, from_json, hints_of

with lazy_imports():
    from agent_cli.config import removed

MAX_BYTES = 1 << 20
MAX_TOML_CHARS = 1 << 16
# Every rule is matched against every call.
MAX_RULES = 2000
_MAX_BROKEN_LINES = 20
# Dotted keys take the TOML parser cubic time in their length: 15 s for 64 KiB.
_LONG_KEY = r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){30}"""


class SettingsError(Exception):
    """An error in the settings: the message names file, line, key and what was expected."""


def decode_settings(text: str, source: str) -> dict[str, Any]:
    """Parse a text: as JSON if it begins with a brace, else as TOML. Raises SettingsError."""
    text = text.removeprefix("\ufeff")
    if begins_json_object(text):
        return decode_json(text, source)
    if len(text) > MAX_TOML_CHARS or re.search(_LONG_KEY, text):
        raise SettingsError(f"{source}: settings in TOML have at most {MAX_TOML_CHARS} characters and no endless keys")
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{source}: not TOML: {_toml_reason(str(error), text)}") from None
    except (ValueError, RecursionError):
        raise SettingsError(f"{source}: not TOML: nested too deeply, or a number out of range") from None


def _toml_reason(reason: str, text: str) -> str:
    """Return what is wrong with a TOML text, in words for its author and with the line."""
    reason = reason.replace("Cannot overwrite a value", "a key is set twice")
    reason = re.sub(r"Cannot declare \(.*\) twice", "a table is there twice", reason)
    return reason.replace("at end of document", f"at the end, line {text.rstrip().count(chr(10)) + 1}")


def decode_in_part(text: str, source: str, mistakes: list[str]) -> dict[str, Any]:
    """Like `decode_settings`, but skip the lines that are not valid TOML, and add an error for each to `mistakes`."""
    lines = text.split("\n")
    for _ in range(_MAX_BROKEN_LINES):
        try:
            return decode_settings("\n".join(lines), source)
        except SettingsError as error:
            mistakes.append(str(error))
            found = re.search(r"at line (\d+)", str(error))
            if found is None or not lines[int(found[1]) - 1].strip():
                break
            lines[int(found[1]) - 1] = ""
    return {}


def decode_json(text: str, source: str) -> dict[str, Any]:
    """Parse a JSON object, which may have comments. A duplicate key is an error, as choosing one would be a guess.

    Raises SettingsError.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise SettingsError(f"{source}:{key_line(text, twice)}: {twice[:80]} is set twice")
        return found

    try:
        decoded = load_user_json(text, unique)
    except ValueError as error:
        raise SettingsError(f"{source}: not JSON: {error}") from None
    except RecursionError:
        raise SettingsError(f"{source}: not JSON: nested too deeply") from None
    if not isinstance(decoded, dict):
        raise SettingsError(f"{source}: expected one JSON object")
    return decoded


def key_line(text: str, key: str, table: str = "") -> int:
    """Return the line, from 1, on which a key (or a rule's text) first occurs, in a table if one is given."""
    lines = text.splitlines()
    first = next((n for n, line in enumerate(lines) if table and re.match(rf'\s*\[+{table}\b|\s*"{table}"', line)), 0)
    if not key:
        return first + 1
    for number, line in enumerate(lines[first:], first + 1):
        if line.strip().strip("\"'").startswith(key) or f'"{key}"' in line or f"'{key}'" in line:
            return number
    header = re.compile(rf"\s*\[+{re.escape(key)}\b")
    return next((number for number, line in enumerate(lines, 1) if header.match(line)), first + 1)


def key_locations(text: str, source: str) -> Callable[..., str]:
    """Return a function that locates a key or a rule's text as `source:line`. A long list of rules is indexed once."""

    @cache
    def index() -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, line in enumerate(text.splitlines(), 1):
            for quoted in re.finditer(r'"((?:[^"\\]|\\.)*+)"|\'([^\']*+)\'', line):
                word = quoted[2] if quoted[1] is None else _unescaped(quoted[1])
                found.setdefault(word, []).append(number)
        return found

    @cache
    def location(key: str, table: str = "") -> str:
        lines = [] if key.isidentifier() else index().get(key, [])
        first = key_line(text, "", table)
        return f"{source}:{next((n for n in lines if n >= first), 0) or key_line(text, key, table)}"

    return location


def _unescaped(text: str) -> str:
    import json

    try:
        return str(json.loads(f'"{text}"')) if "\\" in text else text
    except ValueError:
        return text


def check_value(hint: Any, raw: Any, name: str, where: Callable[[], str]) -> Any:
    """Return the value, or raise SettingsError with what was expected. Pydantic decides what the quick check rejects.

    An empty text means "unset" for a key that can be unset.
    """
    if isinstance(raw, (int, float)) and not isinstance(raw, bool) and not raw >= 0:
        raise SettingsError(f"{where()}: {name}: expected a number that is not negative, found {raw!r}")
    try:
        return None if raw == "" and type(None) in get_args(hint.__origin__) else from_json(hint, raw, name)
    except DecodeError as mismatch:
        if any(isinstance(a, type) and issubclass(a, Value) for a in get_args(hint.__origin__)):
            raise SettingsError(f"{where()}: {mismatch}") from None  # records that pydantic does not know
        if isinstance(raw, dict) and get_origin(hint.__origin__) is dict:
            raise SettingsError(f"{where()}: {mismatch}") from None  # which names the entry
        import json

        from pydantic import TypeAdapter, ValidationError

        try:
            TypeAdapter(hint.__origin__).validate_json(json.dumps(raw, default=str), strict=True)
        except ValidationError as error:
            found = error.errors()[0]
            at = "".join(f"[{i}]" for i in found["loc"] if isinstance(i, int))
            raise SettingsError(f"{where()}: {name}{at}: expected {describe_type(hint)}, found {raw!r}") from None
        raise SettingsError(f"{where()}: {name}: expected {describe_type(hint)}, found {raw!r}") from None


def from_environment(env: Mapping[str, str], mistakes: list[str] | None = None) -> dict[str, Any]:
    """Return the settings in AGENT_<KEY> and AGENT_<TABLE>_<KEY> variables, as plain data.

    Lists are separated by commas. Variables that are no settings (AGENT_STATE_DIR, ...) are ignored. Raises
    SettingsError for an invalid value, or adds it to `mistakes`.
    """
    data: dict[str, Any] = {}
    groups: list[tuple[str, type, dict[str, Any]]] = [("AGENT", Settings, data)]
    for table, cls in tables().items():
        groups.append((f"AGENT_{'PERMISSION' if cls is Permissions else table.upper()}", cls, {}))
    known = {"AGENT_STATE_DIR"}
    for prefix, cls, into in groups:
        for key, hint in hints_of(cls).items():
            variable = f"{prefix}_{key.upper()}"
            known.add(variable)
            if (text := env.get(variable)) is not None and not (cls is Settings and key in tables()):
                try:
                    into[key] = from_text(hint, text, variable)
                except SettingsError as error:
                    if mistakes is None:
                        raise
                    mistakes.append(str(error))
    found = data | {table: into for table, (_, _, into) in zip(tables(), groups[1:], strict=True) if into}
    if any(name.startswith("AGENT_") and name not in known for name in env):
        for key, value in removed.removed_variables(env).items():
            found[key] = {**found.get(key, {}), **value} if isinstance(value, dict) else value
    return found


def from_text(hint: Any, text: str, name: str) -> Any:
    """Convert a string to a setting's value, by its type."""
    bare = hint.__origin__ if hasattr(hint, "__metadata__") else hint
    choices = [a for a in get_args(bare) if a is not type(None)] if get_args(bare) else [bare]
    if text == "" and type(None) in get_args(bare):
        return None
    if get_origin(bare) is dict:
        return decode_settings(text, name)
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
    raise SettingsError(f"{name}: expected {describe_type(hint)}, found {text!r}")


def as_ignored(mistake: str) -> str:
    """Return a message for a mistake in settings that are read all the same, without it."""
    return f"{mistake} It was ignored" if mistake.endswith("?") else f"{mistake}; this was ignored"


def nearest_setting_hint(key: str) -> str:
    """Return "; did you mean TABLE.NAME?" for an unknown key outside all tables that is like a setting; else "".

    Also for one that is like the name of a table.
    """
    import difflib

    known = list(hints_of(Settings))
    known += [f"{table}.{name}" for table, cls in tables().items() for name in hints_of(cls)]
    same = [name for name in known if name.rpartition(".")[2] == key]
    letters = {re.sub(r"[^a-z]", "", name): name for name in known}
    near = difflib.get_close_matches(re.sub(r"[^a-z]", "", key.lower()), list(letters), 1, 0.8)
    found = same[:3] or [letters[name] for name in near]
    return f"; did you mean {' or '.join(found)}?" if found else ""

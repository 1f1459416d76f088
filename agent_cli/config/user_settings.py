"""Change one setting in the user's own file, preserving its text and comments."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from agent_cli.config.layers import Layers
from agent_cli.config.parsing import SettingsError
from agent_tools.fs.private import write_whole
from agent_tools.fs.safe_read import read_regular

_LARGEST = 1 << 20
# Tables that may be set by one of their keys: `sandbox = "auto"`.
_SHORT = {"sandbox": "mode"}


def save_setting(path: Path, key: str, value: Any) -> None:
    """Set `key`, or `table.key`, to a plain value in a settings file, which is created if missing.

    Raises SettingsError for an unknown setting or invalid value, and for a file that cannot be changed safely; OSError
    if it cannot be read or written.
    """
    table, _, name = key.rpartition(".")
    data = {table: {name: value}} if table else {name: value}
    Layers().add(data, f"{key}", path.parent)
    try:
        text = read_regular(path, _LARGEST, path.parent).decode("utf-8")
    except FileNotFoundError:
        text = ""
    except ValueError:
        raise SettingsError(f"{path} is not UTF-8; change it by hand") from None
    if text.lstrip().startswith("{"):
        raise SettingsError(f"{path} is JSON; change it by hand")
    before, new = _parsed(path, text), _changed(path, text, table, name, value)
    expected: dict[str, Any] = dict(before)
    if table:
        rest = expected.get(table, {})
        rest = rest if isinstance(rest, dict) else {_SHORT[table]: rest} if table in _SHORT else {}
        expected[table] = rest | {name: value}
    else:
        expected[name] = value
    if _parsed(path, new) != expected:
        raise SettingsError(f"{path} cannot be changed safely; change it by hand")
    write_whole(path, new.encode(), keep=True)


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None


def _changed(path: Path, text: str, table: str, name: str, value: Any) -> str:
    import tomlkit  # 40 ms, only for a setting that is saved
    from tomlkit.exceptions import TOMLKitError

    try:
        document: Any = tomlkit.parse(text)
        place: Any = document
        if table:
            short = document.get(table)
            if short is not None and not isinstance(short, dict) and table in _SHORT:
                del document[table]
                document[table] = tomlkit.table()
                document[table][_SHORT[table]] = short
            elif short is None:
                document[table] = tomlkit.table()
            place = document[table]
        place[name] = list(value) if isinstance(value, tuple) else value
        return str(tomlkit.dumps(document))
    except (TOMLKitError, TypeError) as error:
        raise SettingsError(f"{path} cannot be changed ({error}); change it by hand") from None

"""Save a setting in the user's own file, or rules in the project's `.agentrc.local`; comments and layout stay.

The project's file takes full effect only in a trusted project. Trust is renewed for the changed file; a project that
had no files to trust until now becomes trusted by saving the rule.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_cli.config.layers import Layers
from agent_cli.config.parsing import SettingsError
from agent_cli.config.removed import removal_notice
from agent_cli.config.schema import McpServer
from agent_cli.kernel.rules import Trust, split_rules
from agent_cli.kernel.session.store import state_folder
from agent_cli.kernel.user_text import begins_json_object, decode_user_text
from agent_cli.mcp.config import McpEditError, change_toml
from agent_cli.policy.git_inspection import git_folders
from agent_cli.policy.trust import Scan, fingerprints, grant_trust, keep_trust
from agent_tools.fs.own_files import write_own
from agent_tools.fs.safe_files import changing, read_regular, write_atomic

_MAX_BYTES = 1 << 20
# Tables that may be written as the value of one of their keys: `sandbox = "auto"`.
_SHORT_FORMS = {"sandbox": "mode"}


class SettingsFile:
    """A settings file whose settings the program changes, with all else in it as it was.

    The methods raise SettingsError for an unknown setting or invalid value, and for a file that cannot be changed
    safely; OSError if it cannot be read or written. A key is `key` or `table.key`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def set(self, key: str, value: Any, layers: Layers | None = None) -> None:
        """Set a key to a plain value; the file is created if missing.

        layers: the settings of the running session, in which the value then comes from the file.
        """
        table, _, name = key.rpartition(".")
        if notice := removal_notice(key):
            raise SettingsError(notice)
        Layers().set(key, value, key, self.path.parent)
        with changing(self.path):
            _rewrite(self.path, table, name, value)
        if layers is not None:
            layers.add_saved(key, value, self.path)

    def remove(self, key: str) -> None:
        """Remove a key."""
        table, _, name = key.rpartition(".")
        with changing(self.path):
            _rewrite(self.path, table, name, _REMOVED)

    def add_server(self, name: str, server: McpServer) -> None:
        """Add an MCP server, as [mcp.servers.NAME]."""
        try:
            change_toml(self.path, name, server)
        except McpEditError as error:
            raise SettingsError(str(error)) from None

    @classmethod
    def set_in_project(cls, trust: Trust, env: Mapping[str, str], key: str, value: Any) -> str:
        """Set a key in the project's own local file; return "" or why it failed."""
        if not can_save(trust):
            return "settings of this project take effect only once it is trusted"

        def change(path: Path) -> None:
            new = not os.path.lexists(path)
            cls(path).set(key, value)
            if new:
                _exclude(path)

        return _save(trust, state_folder(env), change)


# Stands for the value of a key to remove.
_REMOVED = object()


def _rewrite(path: Path, table: str, name: str, value: Any) -> None:
    try:
        text = decode_user_text(read_regular(path, _MAX_BYTES, path.parent))
    except FileNotFoundError:
        text = ""
    except ValueError:
        raise SettingsError(f"{path} is not UTF-8; change it by hand") from None
    if begins_json_object(text):
        raise SettingsError(f"{path} is JSON; change it by hand")
    before, new = _parse(path, text), _edit(path, text, table, name, value)
    expected: dict[str, Any] = dict(before)
    target = expected
    if table:
        rest = expected.get(table, {})
        rest = rest if isinstance(rest, dict) else {_SHORT_FORMS[table]: rest} if table in _SHORT_FORMS else {}
        target = expected[table] = dict(rest)
    target[name] = value
    if value is _REMOVED:
        del target[name]
    if _parse(path, new) != expected:
        raise SettingsError(f"{path} cannot be changed safely; change it by hand")
    write_own(path, new.encode(), keep=True)


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None


def _edit(path: Path, text: str, table: str, name: str, value: Any) -> str:
    import tomlkit  # 40 ms, only for a setting that is saved
    from tomlkit.exceptions import TOMLKitError

    try:
        document: Any = tomlkit.parse(text)
        target: Any = document
        if table:
            short = document.get(table)
            if short is not None and not isinstance(short, dict) and table in _SHORT_FORMS:
                del document[table]
                document[table] = tomlkit.table()
                document[table][_SHORT_FORMS[table]] = short
            elif short is None:
                document[table] = tomlkit.table()
            target = document[table]
        if value is _REMOVED:
            target.pop(name, None)
        else:
            target[name] = list(value) if isinstance(value, tuple) else value
        return str(tomlkit.dumps(document))
    except (TOMLKitError, TypeError) as error:
        raise SettingsError(f"{path} cannot be changed ({error}); change it by hand") from None


LOCAL_FILE = ".agentrc.local"


def can_save(trust: Trust) -> bool:
    """Return True if a rule saved in the project would take effect."""
    return bool(trust.root) and trust.state in ("trusted", "plain")


def saver(trust: Trust, state: Path) -> Callable[[str], str] | None:
    """Return a function that saves rules for the project, and returns "" or why it failed; None if saving is useless.

    state: directory of the trust file.
    """
    if not can_save(trust):
        return None
    return lambda rules: _save(trust, state, lambda path: add_rules(path, split_rules(rules)))


def save_rules(path: Path, rules: str) -> str:
    """Add allow rules to a settings file; return "" or why it failed."""
    try:
        add_rules(path, split_rules(rules))
    except OSError as error:
        return f"{path.name}: {error.strerror or error}"
    except ValueError as error:
        return f"{path.name} {error}"
    return ""


def _save(trust: Trust, state: Path, change: Callable[[Path], None]) -> str:
    """Change the project's local file, which stays trusted; return "" or why it failed."""
    root = Path(trust.root)
    try:
        if trust.state == "trusted":
            keep_trust(root, state, lambda: change(root / LOCAL_FILE))
            return ""
        if _without_local(Scan(root).marks()) != _without_local(trust.seen):
            return "the project's settings have changed since the session began; start a new one to review them"
        before = fingerprints(root)
        change(root / LOCAL_FILE)
        after = fingerprints(root)
        # Nothing else may have changed in the meantime.
        others = [None if f is None else _without_local(f) for f in (before, after)]
        return grant_trust(root, state, after) if others[0] == others[1] else "the project changed in the meantime"
    except OSError as error:
        return f"{LOCAL_FILE}: {error.strerror or error}"
    except ValueError as error:
        return f"{LOCAL_FILE} {error}"


def _without_local(files: Mapping[str, str]) -> dict[str, str]:
    return {name: mark for name, mark in files.items() if name != LOCAL_FILE}


def add_rules(path: Path, rules: Sequence[str]) -> None:
    """Add allow rules to a settings file. Raises OSError, and ValueError if the file cannot be edited."""
    with changing(path):
        new = _add_rules(path, rules)
    if new and path.name == LOCAL_FILE:
        _exclude(path)


def _add_rules(path: Path, rules: Sequence[str]) -> bool:
    """Add rules to a file that nobody else changes now; return True if it is new."""
    try:
        text = decode_user_text(read_regular(path, _MAX_BYTES, path.parent))
    except FileNotFoundError:
        text = ""
    if begins_json_object(text):
        raise ValueError("is JSON, which agent does not edit; add the rule by hand")
    before = _rules(text)
    missing = [rule for rule in rules if rule not in before]
    if not missing:
        return False
    new = _with_rules(text, missing)
    if _rules(new) != [*before, *missing]:
        raise ValueError("could not be changed safely; add the rule by hand")
    write_own(path, new.encode(), keep=True)
    return not text


def _exclude(path: Path) -> None:
    """Hide a new local file from `git status` by the repository's `info/exclude`, not by the project's .gitignore.

    Does nothing if that file cannot be read or written.
    """
    folder = next(iter(git_folders(path.parent)), None)
    if folder is None or not os.path.isdir(folder):  # noqa: PTH112 - the method raises if a parent is unreadable
        return
    file = folder / "info" / "exclude"
    with suppress(OSError), changing(file):
        try:
            before = read_regular(file, _MAX_BYTES)
        except FileNotFoundError:
            before = b""
        if path.name.encode() in (line.strip().removeprefix(b"/") for line in before.splitlines()):
            return
        separator = b"" if not before or before.endswith(b"\n") else b"\n"
        write_atomic(file, before + separator + path.name.encode() + b"\n", keep=True)


def _rules(text: str) -> list[Any]:
    permissions = tomllib.loads(text).get("permissions", {})
    allow = permissions.get("allow", []) if isinstance(permissions, dict) else None
    if not isinstance(allow, list):
        raise ValueError("does not have a list as permissions.allow; add the rule by hand")
    return allow


def _with_rules(text: str, rules: Sequence[str]) -> str:
    import tomlkit  # 40 ms, only for a rule that is saved
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        if "permissions" not in document:
            document["permissions"] = tomlkit.table()
        permissions: Any = document["permissions"]
        if "allow" not in permissions:
            permissions["allow"] = tomlkit.array().multiline(True)
        for rule in rules:
            permissions["allow"].append(rule)
        return tomlkit.dumps(document)
    except TOMLKitError as error:
        raise ValueError(f"could not be changed ({error}); add the rule by hand") from None

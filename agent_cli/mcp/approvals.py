"""The user's approvals: of a project's servers as declared, and of the tools of each server as seen.

A project's server starts only if its declaration (command, arguments, environment, address) was approved. The tools of
every server, except those of --mcp-config, are recorded when it first starts; a tool that is new or changed later is
withheld until the user approves it.

Also the state of a declared server that is not running: disabled, not approved, needs a login.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from agent_cli.config.layers import Layers
from agent_cli.mcp.catalog import data_fingerprint
from agent_cli.mcp.config import DeclaredServer, MissingVariableError, substitute_env
from agent_cli.mcp.credentials import LoginStore, login_message
from agent_tools.fs.safe_files import changing, read_regular, write_atomic
from agent_tools.record import DecodeError, Value, from_json, to_json
from agent_tools.text import utc_stamp

FILE_NAME = "mcp.json"
MAX_BYTES = 8 << 20
VERSION = 1


class ApprovedServer(Value, tag="Approved"):
    """An approval of a server.

    when: the time of the approval.
    definition: fingerprint of the approved declaration.
    tools: fingerprints of the approved tools by name; None if no tools were seen.
    """

    when: str
    definition: str
    tools: dict[str, str] | None = None


def definition_of(found: DeclaredServer) -> str:
    """Return the fingerprint of a declaration as written, before variables are substituted."""
    server = found.server
    # Approvals from before oauth existed stay valid for servers without it.
    ignored = {"timeout", "legacy", "disabled", "disabled_tools", *(() if server.oauth else ("oauth",))}
    return data_fingerprint({name: getattr(server, name) for name in server._fields if name not in ignored})


class Approvals:
    """The file of approvals. warn: called once if the file cannot be trusted."""

    def __init__(self, folder: Path, root: Path, warn: Callable[[str], None] = lambda text: None) -> None:
        self.path = folder / FILE_NAME
        self._warn = warn
        self._root = root
        self._known: dict[str, ApprovedServer] | None = None

    @property
    def _entries(self) -> dict[str, ApprovedServer]:
        """Approvals by key; the file is read on first access."""
        if self._known is None:
            self._known = self._read()
        return self._known

    def _read(self) -> dict[str, ApprovedServer]:
        try:
            state = self.path.stat()
            if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or state.st_uid not in (os.geteuid(), 0):
                raise ValueError("can be written by others than you")
            data = json.loads(read_regular(self.path, MAX_BYTES))
            if data["version"] != VERSION:
                return {}
            return {key: from_json(ApprovedServer, entry) for key, entry in data["servers"].items()}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, DecodeError) as error:
            why = str(error) if str(error).startswith("can be") else "is damaged"
            self._warn(f"{self.path} {why}, so the approvals stored in it are ignored")
            return {}

    def _key(self, found: DeclaredServer) -> str:
        return f"{self._root if found.scope == 'project' else '~'}: {found.name}"

    def find(self, found: DeclaredServer) -> ApprovedServer | None:
        """Return the approval of a server with its current declaration; None if there is none."""
        entry = self._entries.get(self._key(found))
        return entry if entry is not None and entry.definition == definition_of(found) else None

    def knows(self, found: DeclaredServer) -> bool:
        """Return True if the server was approved, with this declaration or another."""
        return self._key(found) in self._entries

    def approve(self, found: DeclaredServer, tools: Mapping[str, str] | None = None) -> str:
        """Approve the declaration and the tools; return "" or why that could not be saved."""
        when = utc_stamp()
        entry = ApprovedServer(when, definition_of(found), dict(tools) if tools is not None else None)
        return self._store(self._key(found), entry)

    def forget(self, found: DeclaredServer) -> str:
        """Revoke an approval; return "" or why that could not be saved."""
        return self._store(self._key(found), None) if self.knows(found) else ""

    def _store(self, key: str, entry: ApprovedServer | None) -> str:
        try:
            with changing(self.path):
                # Other processes write to the same file: merge with their changes.
                self._known = self._read()
                if entry is None:
                    self._entries.pop(key, None)
                else:
                    self._entries[key] = entry
                data = {"version": VERSION, "servers": {k: to_json(e) for k, e in sorted(self._entries.items())}}
                write_atomic(self.path, json.dumps(data, indent=1).encode("ascii"))
        except OSError as error:
            return f"it cannot be saved: {error.strerror or error}"
        return ""


def may_start(found: DeclaredServer, approvals: Approvals, trusted_for_run: bool) -> str:
    """Return why a server may not start; "" if it may."""
    if not found.needs_approval or trusted_for_run or approvals.find(found) is not None:
        return ""
    return "has changed since you approved it" if approvals.knows(found) else "was not approved"


def changed_tools(before: Mapping[str, str] | None, now: Mapping[str, str]) -> dict[str, str]:
    """Return the tools that are "new" or "changed", by name; none if no tools were seen before."""
    if before is None:
        return {}
    changes: dict[str, str] = {}
    for name, mark in now.items():
        if name not in before:
            changes[name] = "new"
        elif before[name] != mark:
            changes[name] = "changed"
    return changes


def changes_phrase(changes: Mapping[str, str], limit: int = 10) -> str:
    """Format changed tools for a sentence: `a (new), b (changed)`."""
    names: Iterable[str] = [f"{name} ({change})" for name, change in list(changes.items())[:limit]]
    more = f" and {len(changes) - limit} more" if len(changes) > limit else ""
    return ", ".join(names) + more


# States that need no action by the user.
FINE_STATES = ("may start", "logged in", "disabled")


def server_state(
    found: DeclaredServer, layers: Layers, approvals: Approvals, logins: LoginStore, env: Mapping[str, str]
) -> str:
    """Return the state of a server as a phrase. env: environment for the variables of the declaration."""
    if found.server.disabled or found.name in layers.settings().mcp.disabled:
        return "disabled"
    return may_start(found, approvals, False) or _login_state(found, logins, env) or "may start"


def _login_state(found: DeclaredServer, logins: LoginStore, env: Mapping[str, str]) -> str:
    """Return the known login state as a phrase, without contacting the server; "" for none."""
    try:
        server = substitute_env(found.server, env)
    except MissingVariableError:
        return ""
    words = {"wanted": login_message(found.name, "it"), "stored": "logged in"}
    return words.get(logins.state(server), "")

"""The user's approvals: of a project's servers as declared, and of the tools of each server as seen.

A project's server starts only if its declaration (command, arguments, environment, address) is the approved one. The
tools of every server, except those of --mcp-config, are recorded when it first starts; a tool that is new or changed
later is withheld until the user approves it.

Also the state of a declared server, as far as known without starting it: disabled, not approved, wants a login.
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
from agent_cli.mcp.credentials import Logins, wants_login
from agent_tools.fs.safe_files import read_regular, write_atomic
from agent_tools.record import DecodeError, Value, from_json, to_json
from agent_tools.text import utc_stamp

NAME = "mcp.json"
LIMIT = 8 << 20
VERSION = 1


class ApprovedServer(Value, tag="Approved"):
    """An approval: its time, the approved declaration, and tool fingerprints by name (None if no tools were seen)."""

    when: str
    definition: str
    tools: dict[str, str] | None = None


def definition_of(found: DeclaredServer) -> str:
    """Return the fingerprint of a declaration as written, before variables are substituted."""
    server = found.server
    # Without oauth the fingerprint is that of versions before oauth existed, so older approvals stay valid.
    left_out = {"timeout"} if server.oauth else {"timeout", "oauth"}
    return data_fingerprint({name: getattr(server, name) for name in server._fields if name not in left_out})


class Approvals:
    """The file of approvals. warn: called once if the file cannot be trusted."""

    def __init__(self, folder: Path, root: Path, warn: Callable[[str], None] = lambda text: None) -> None:
        self.path = folder / NAME
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
            data = json.loads(read_regular(self.path, LIMIT))
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

    def of(self, found: DeclaredServer) -> ApprovedServer | None:
        """Return the approval of this server as declared now; None if there is none."""
        entry = self._entries.get(self._key(found))
        return entry if entry is not None and entry.definition == definition_of(found) else None

    def knows(self, found: DeclaredServer) -> bool:
        """Return True if the server was approved, in any version."""
        return self._key(found) in self._entries

    def approve(self, found: DeclaredServer, tools: Mapping[str, str] | None = None) -> str:
        """Approve the declaration and the tools; return "" or why that could not be saved."""
        when = utc_stamp()
        entry = ApprovedServer(when, definition_of(found), dict(tools) if tools is not None else None)
        return self._keep(self._key(found), entry)

    def forget(self, found: DeclaredServer) -> str:
        """Revoke an approval; return "" or why that could not be saved."""
        return self._keep(self._key(found), None) if self.knows(found) else ""

    def _keep(self, key: str, entry: ApprovedServer | None) -> str:
        # Other processes write to the same file: merge with their changes.
        self._known = self._read()
        if entry is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = entry
        data = {"version": VERSION, "servers": {k: to_json(e) for k, e in sorted(self._entries.items())}}
        try:
            write_atomic(self.path, json.dumps(data, indent=1).encode("ascii"))
        except OSError as error:
            return f"it cannot be saved: {error.strerror or error}"
        return ""


def may_start(found: DeclaredServer, approvals: Approvals, trusted_for_run: bool) -> str:
    """Return "" if the server may start, else the reason why not."""
    if not found.needs_yes or trusted_for_run or approvals.of(found) is not None:
        return ""
    return "has changed since you approved it" if approvals.knows(found) else "was not approved"


def changed_tools(before: Mapping[str, str] | None, now: Mapping[str, str]) -> dict[str, str]:
    """Return the tools that are new or changed, with a word each; none if no tools were seen before."""
    if before is None:
        return {}
    words: dict[str, str] = {}
    for name, mark in now.items():
        if name not in before:
            words[name] = "new"
        elif before[name] != mark:
            words[name] = "changed"
    return words


def changes_phrase(words: Mapping[str, str], most: int = 10) -> str:
    """Format changed tools for a sentence: `a (new), b (changed)`."""
    names: Iterable[str] = [f"{n} ({w})" for n, w in list(words.items())[:most]]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(names) + more


# States that need no action of the user.
FINE = ("may start", "logged in", "disabled")


def server_state(
    found: DeclaredServer, layers: Layers, approvals: Approvals, logins: Logins, env: Mapping[str, str]
) -> str:
    """Return the state in words. env: environment for the variables of the declaration."""
    if found.name in layers.settings().mcp.disabled:
        return "disabled"
    return may_start(found, approvals, False) or _login_state(found, logins, env) or "may start"


def _login_state(found: DeclaredServer, logins: Logins, env: Mapping[str, str]) -> str:
    """Return the login state, as far as known without contacting the server; "" for nothing."""
    try:
        server = substitute_env(found.server, env)
    except MissingVariableError:
        return ""
    words = {"wanted": wants_login(found.name, "it"), "there": "logged in"}
    return words.get(logins.state(server), "")

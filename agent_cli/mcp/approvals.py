"""What a user agreed to: a project's servers as they are declared, and the tools of each server as they were seen.

A project's server starts only where its declaration (command, arguments, environment, address) is the one that was
approved. The tools of every server but those of --mcp-config are remembered when it first comes up; one that is new or
reads otherwise later is withheld until a user has seen it.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from agent_cli.mcp.catalog import data_fingerprint
from agent_cli.mcp.config import DeclaredServer
from agent_tools.fs.private import write_whole
from agent_tools.fs.safe_read import read_regular
from agent_tools.record import DecodeError, Value, from_json, to_json

NAME = "mcp.json"
LIMIT = 8 << 20
VERSION = 1


class ApprovedServer(Value, tag="Approved"):
    """One yes: when, to which declaration, and to which tools by fingerprint; None where none was seen yet."""

    when: str
    definition: str
    tools: dict[str, str] | None = None


def definition_of(found: DeclaredServer) -> str:
    """The fingerprint of a declaration as it is written, before variables are filled in."""
    server = found.server
    # Without terms of a login it reads as before there were any: what was approved then still is.
    left_out = {"timeout"} if server.oauth else {"timeout", "oauth"}
    return data_fingerprint({name: getattr(server, name) for name in server._fields if name not in left_out})


class Approvals:
    """The file of approvals. warn: told, once, where nothing in it is believed."""

    def __init__(self, folder: Path, root: Path, warn: Callable[[str], None] = lambda text: None) -> None:
        self.path = folder / NAME
        self._warn = warn
        self._root = root
        self._known: dict[str, ApprovedServer] | None = None

    @property
    def _entries(self) -> dict[str, ApprovedServer]:
        """What the file says; it is read when it is first asked."""
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
            self._warn(f"{self.path} {why}, so no MCP server is approved by it")
            return {}

    def _key(self, found: DeclaredServer) -> str:
        return f"{self._root if found.scope == 'project' else '~'}: {found.name}"

    def of(self, found: DeclaredServer) -> ApprovedServer | None:
        """What was agreed to about this server as it is declared now; None for nothing."""
        entry = self._entries.get(self._key(found))
        return entry if entry is not None and entry.definition == definition_of(found) else None

    def knows(self, found: DeclaredServer) -> bool:
        """Whether the server was approved in some form."""
        return self._key(found) in self._entries

    def approve(self, found: DeclaredServer, tools: Mapping[str, str] | None = None) -> str:
        """Agree to the declaration and the tools; "" or why that cannot be kept."""
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        entry = ApprovedServer(when, definition_of(found), dict(tools) if tools is not None else None)
        return self._keep(self._key(found), entry)

    def forget(self, found: DeclaredServer) -> str:
        """Take an approval back; "" or why that cannot be kept."""
        return self._keep(self._key(found), None) if self.knows(found) else ""

    def _keep(self, key: str, entry: ApprovedServer | None) -> str:
        # Others write to the same file: what they have added since is kept.
        self._known = self._read()
        if entry is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = entry
        data = {"version": VERSION, "servers": {k: to_json(e) for k, e in sorted(self._entries.items())}}
        try:
            write_whole(self.path, json.dumps(data, indent=1).encode("ascii"))
        except OSError as error:
            return f"it cannot be kept: {error.strerror or error}"
        return ""


def may_start(found: DeclaredServer, approvals: Approvals, trusted_for_run: bool) -> str:
    """ "" where the server may be started, else what stands against it."""
    if not found.needs_yes or trusted_for_run or approvals.of(found) is not None:
        return ""
    return "has changed since you approved it" if approvals.knows(found) else "was not approved"


def changed_tools(before: Mapping[str, str] | None, now: Mapping[str, str]) -> dict[str, str]:
    """The tools that were not seen like this before, with a word each; none where nothing was seen yet."""
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
    """Changed tools for a sentence: `a (new), b (changed)`."""
    names: Iterable[str] = [f"{n} ({w})" for n, w in list(words.items())[:most]]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(names) + more

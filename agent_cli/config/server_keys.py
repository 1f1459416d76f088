"""Read the declaration of one MCP server in JSON, as `.mcp.json`, `--mcp-config`, plugins and other programs have it.

Keys of other programs are understood, and a key that is not known is noted and ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_cli.config.schema import McpServer
from agent_tools.record import from_json
from agent_tools.text import nearest_key_hint, shorten

# Keys of other programs, by what they are called here; and theirs that allow calls without a question.
_OTHER_KEYS = {"serverUrl": "url", "httpUrl": "url", "transport": "type", "disabledTools": "disabled_tools"}
_GRANTS = ("autoApprove", "alwaysAllow", "trust")
_REMARKS = ("description", "name", "icon", "note", "comment", "//", "$comment", "_comment")
_OTHER_TYPES = {"streamableHttp": "http", "streamable_http": "http", "local": "stdio", "remote": "http"}


def read_server(name: str, raw: Mapping[str, Any]) -> tuple[McpServer, list[str]]:
    """Return a server, and notes about keys that are ignored. Raises DecodeError for a value of another type."""
    given = {key: value for key, value in raw.items() if value is not None}
    notes = []
    if grants := [key for key in _GRANTS if given.get(key)]:
        notes.append(
            f"{', '.join(grants)} allows nothing here; a permission rule such as mcp__{shorten(name)}__TOOL does"
        )
    for other, key in _OTHER_KEYS.items():
        if other in given:
            given.setdefault(key, given[other])
            del given[other]
    if isinstance(given.get("enabled"), bool):
        given.setdefault("disabled", not given.pop("enabled"))
    if isinstance(kind := given.get("type"), str):
        given["type"] = _OTHER_TYPES.get(kind, kind)
    for table in ("env", "headers"):
        if isinstance(given.get(table), dict):
            given[table] = {key: _plain(value) for key, value in given[table].items()}
    known = {key: value for key, value in given.items() if key in McpServer._fields}
    server: McpServer = from_json(McpServer, known, name)
    if unknown := [key for key in given if key not in known and key not in (*_GRANTS, *_REMARKS)]:
        hint = nearest_key_hint(unknown[0], list(McpServer._fields))
        notes.append(f"{shorten(', '.join(unknown))} is not a known key{hint}; it has no effect")
    return server, notes


def _plain(value: Any) -> Any:
    """Return a number or truth value as text."""
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int | float) else value

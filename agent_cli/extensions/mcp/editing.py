"""Adding servers to files and removing them: the user's `.agentrc`, whose text stays, and a project's `.mcp.json`."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

from agent_cli.config.reading import SettingsError, decode_json
from agent_cli.config.schema import McpServer
from agent_tools.private import write_whole
from agent_tools.regular import read_regular

LIMIT = 1 << 20


class McpEditError(Exception):
    """The file was left as it is; the message says why."""


def server_data(server: McpServer) -> dict[str, Any]:
    """What of a declaration is said."""
    said = {name: getattr(server, name) for name in server._fields if getattr(server, name)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in said.items()}


def change_json(path: Path, name: str, server: McpServer | None, *, replace: bool = False) -> None:
    """Add, or with None remove, a server in a file of the shape {"mcpServers": {...}}. Raises McpEditError."""
    try:
        text = read_regular(path, LIMIT, path.parent).decode("utf-8")
        data = decode_json(text, path.name)
    except FileNotFoundError:
        data = {}
    except (OSError, UnicodeDecodeError, SettingsError) as error:
        raise McpEditError(str(error)) from None
    table = data.setdefault("mcpServers", {})
    if not isinstance(table, dict):
        raise McpEditError(f"{path.name}: mcpServers is no table")
    _change(table, name, server_data(server) if server is not None else None, path, replace)
    _write(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n", 0o644)


def change_toml(path: Path, name: str, server: McpServer | None, *, replace: bool = False) -> None:
    """Add, or with None remove, [mcp.servers.NAME] in a settings file. Raises McpEditError."""
    import tomlkit  # 40 ms, only for a change
    from tomlkit.exceptions import TOMLKitError

    # A linked file is changed where it is.
    path = Path(os.path.realpath(path))
    try:
        text = read_regular(path, LIMIT).decode("utf-8")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise McpEditError(f"{path}: {error}") from None
    if text.lstrip().startswith("{"):
        raise McpEditError(f"{path} is JSON, which is not changed; do it by hand")
    try:
        document: Any = tomlkit.parse(text)
        mcp = document.setdefault("mcp", tomlkit.table(is_super_table=True))
        servers = mcp.setdefault("servers", tomlkit.table(is_super_table=True))
        _change(servers, name, server_data(server) if server is not None else None, path, replace)
        new = tomlkit.dumps(document)
        tomllib.loads(new)
    except (TOMLKitError, tomllib.TOMLDecodeError) as error:
        raise McpEditError(f"{path} could not be changed safely ({error}); do it by hand") from None
    _write(path, new, 0o600)


def _change(table: Any, name: str, entry: dict[str, Any] | None, path: Path, replace: bool) -> None:
    if entry is None and name not in table:
        raise McpEditError(f"{path} has no MCP server {name}")
    if entry is not None and name in table and not replace:
        raise McpEditError(f"{path} has an MCP server {name} already; remove it first")
    if entry is None:
        del table[name]
    else:
        table[name] = entry


def _write(path: Path, text: str, mode: int) -> None:
    """Replace the file in one step, with the mode that it had. Raises McpEditError."""
    try:
        write_whole(path, text.encode(), mode, keep=True)
    except OSError as error:
        raise McpEditError(f"{path}: {error.strerror or error}") from None

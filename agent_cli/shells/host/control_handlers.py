"""Control requests about MCP servers, and about files of the workspace."""

from __future__ import annotations

import base64
import json
import os
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import Any

from agent_cli import Session
from agent_cli.kernel.runtime import completion
from agent_cli.mcp.catalog import McpRequestError
from agent_cli.mcp.config import DeclaredServer, read_json
from agent_cli.shells.host.channel import Fields
from agent_cli.shells.host.control_table import ControlError, ControlTable, OpenSession
from agent_tools.fs import read_state
from agent_tools.fs.safe_files import open_regular
from agent_tools.results import Diff

SERVER_CONTROLS = ControlTable()
SERVER_TIMEOUT_SECONDS = 30.0
# Our status of a server, and the word that hosts expect for it.
_STATUS_WORDS = {"ready": "connected", "starting": "pending", "waiting": "pending", "login": "needs-auth",
          "unapproved": "pending"}  # fmt: skip


def server_states(agent: Session) -> list[Fields]:
    """Return the MCP servers with their state and tools, as hosts expect them."""
    if agent.mcp is None:
        return []
    found = []
    for name, server in agent.mcp.servers.all.items():
        state: Fields = {
            "name": name,
            "status": _STATUS_WORDS.get(server.status, server.status),
            "scope": "dynamic" if server.found.scope == "given" else server.found.scope,
        }
        if server.reason:
            state["error"] = server.reason
        if server.status == "ready":
            about, _, version = server.about.rpartition(" ")
            state["serverInfo"] = {"name": about or server.about or name, "version": version if about else ""}
            state["tools"] = [
                {"name": o.name, "description": o.description, "annotations": {"readOnly": o.read_only}}
                for o in server.tools.values()
            ]
        found.append(state)
    return found


@SERVER_CONTROLS.handles("mcp_status")
def _mcp_status(session: OpenSession, fields: Fields) -> Fields:
    if session.agent.mcp is not None:
        session.agent.mcp.servers.start()
    return {"mcpServers": server_states(session.agent)}


def _server(session: OpenSession, fields: Fields) -> Any:
    name = str(fields["serverName"])
    servers = session.agent.mcp.servers.all if session.agent.mcp is not None else {}
    if name not in servers:
        raise ControlError(f"Server not found: {name}")
    return servers[name]


@SERVER_CONTROLS.handles("mcp_reconnect")
def _mcp_reconnect(session: OpenSession, fields: Fields) -> Fields:
    server = _server(session, fields)
    server.restart(SERVER_TIMEOUT_SECONDS)
    server.wait(SERVER_TIMEOUT_SECONDS)
    if server.status not in ("ready", "login"):
        raise ControlError(f"{server.name} did not connect: {server.reason or server.status}")
    return {}


@SERVER_CONTROLS.handles("mcp_toggle")
def _mcp_toggle(session: OpenSession, fields: Fields) -> Fields:
    server = _server(session, fields)
    if fields.get("enabled"):
        server.restart(SERVER_TIMEOUT_SECONDS)
        server.wait(SERVER_TIMEOUT_SECONDS)
    else:
        server.disable()
    return {}


@SERVER_CONTROLS.handles("mcp_message")
def _mcp_message(session: OpenSession, fields: Fields) -> Fields:
    """Pass on a message that a server in the host sent by itself."""
    session.callbacks.servers.receive(str(fields["server_name"]), dict(fields["message"]))
    return {}


@SERVER_CONTROLS.handles("mcp_set_servers")
def _set_servers(session: OpenSession, fields: Fields) -> Fields:
    """Replace the servers that the host added to the session."""
    if session.agent.mcp is None:
        raise ControlError("This session has no MCP servers.")
    found, errors = list[DeclaredServer](), dict[str, str]()
    for name, table in dict(fields["servers"]).items():
        problems: list[str] = []
        for server in read_json(json.dumps({name: table}), "the host", "given", problems):
            if wrong := server.problem:
                problems.append(f"{wrong}.")
            elif why := session.agent.layers.managed.refuses_server(server.name, server.line):
                problems.append(f"{server.name} is not used: {why}")
            else:
                found.append(server)
        errors |= dict.fromkeys([name] if problems else (), "; ".join(problems))
    added, removed = session.agent.mcp.replace_added(found)
    return {"added": added, "removed": removed, "errors": errors}


@SERVER_CONTROLS.handles("mcp_read_resource")
def _read_resource(session: OpenSession, fields: Fields) -> Fields:
    """Read a resource of a server, for a host that shows it."""
    server, uri = _server(session, fields), str(fields["uri"])
    if not uri.startswith("ui://"):
        raise ControlError(f"{uri} cannot be read: hosts get only resources with the scheme ui:.")
    if server.status != "ready":
        raise ControlError(f"{server.name} is not connected: {server.reason or server.status}")
    reading = server.read(uri)
    try:
        answer: Any = reading.result(SERVER_TIMEOUT_SECONDS)
    except (FutureTimeoutError, McpRequestError) as error:
        reading.cancel()
        raise ControlError(f"{uri} cannot be read: {error or 'no answer in time'}") from None
    contents = answer.get("contents") if isinstance(answer, dict) else None
    return {"contents": contents if isinstance(contents, list) else []}


@SERVER_CONTROLS.handles("mcp_call")
def _mcp_call(session: OpenSession, fields: Fields) -> Fields:
    """Call a tool of a server for the host, without a turn."""
    names = session.agent.mcp.servers.all if session.agent.mcp is not None else {}
    full = str(fields["tool"])
    name = next((name for name in names if full.startswith(f"mcp__{name}__")), "")
    if not name or names[name].status != "ready":
        raise ControlError(f"MCP server not connected: {name or full.removeprefix('mcp__').partition('__')[0]}")
    offer = names[name].tools.get(full)
    if offer is None:
        raise ControlError(f"The MCP server {name} has no tool {full}.")

    def decline(kind: str, what: Any) -> None:
        if kind == "ask":
            what[1].set_result({"action": "decline"})

    calling = names[name].call(offer.name, dict(fields.get("arguments") or {}), decline)
    try:
        answer: Any = calling.result(float(fields.get("timeout_ms") or SERVER_TIMEOUT_SECONDS * 1_000) / 1_000)
    except (FutureTimeoutError, McpRequestError) as error:
        calling.cancel()
        raise ControlError(f"{full} failed: {error or 'no answer in time'}") from None
    return dict(answer) if isinstance(answer, dict) else {"content": []}


FILE_CONTROLS = ControlTable()
_MAX_READ_BYTES = 1 << 20
_MAX_SUGGESTIONS = 15


@FILE_CONTROLS.handles("rewind_files")
def _rewind_files(session: OpenSession, fields: Fields) -> Fields:
    """Restore the files to their state before a message of the user, unless they were changed since."""
    agent = session.agent
    at = session.messages.get(str(fields["user_message_id"]))
    if at is None:
        return {"canRewind": False, "error": "No file checkpoint found for this message."}
    work = agent.undo
    turns = work.from_message(at)
    plan = work.plan(turns)
    items = plan.of("ready", "ask")
    diffs: list[Diff] = work.diffs(turns)
    answer: Fields = {
        "canRewind": True,
        "filesChanged": [i.path for i in items],
        "insertions": sum(d.removed for d in diffs),
        "deletions": sum(d.added for d in diffs),
        "filesKept": [{"path": i.path, "reason": i.why} for i in plan.of("kept")],
    }
    if fields.get("dry_run"):
        return answer
    failed = work.undo(turns, items)
    if failed:
        answer["error"] = "; ".join(f"{path}: {why}" for path, why in failed.items())
    return answer


def _in_workspace(session: OpenSession, fields: Fields) -> Path:
    workspace = session.agent.tool_context.workspace
    path = workspace.resolve(str(fields["path"]))
    if not any(path.is_relative_to(root) for root in workspace.roots):
        raise ControlError(f"{fields['path']} is outside the workspace.")
    return path


@FILE_CONTROLS.handles("file_suggestions")
def _suggest_files(session: OpenSession, fields: Fields) -> Fields:
    """Return the files that a mention may mean, best first."""
    root, context = session.run_env.root, session.agent.tool_context
    found = completion.fuzzy_matches(str(fields["query"]), completion.mentionable_files(root, context))
    return {"suggestions": [{"path": path} for path in list(found)[:_MAX_SUGGESTIONS]], "cwd": str(session.run_env.cwd)}


@FILE_CONTROLS.handles("register_repo_root")
def _add_root(session: OpenSession, fields: Fields) -> Fields:
    """Add a folder to the workspace."""
    workspace = session.agent.tool_context.workspace
    folder = Path(os.path.realpath(workspace.resolve(str(fields["directory"]))))
    if not folder.is_dir():
        raise ControlError(f"{fields['directory']} is not a folder.")
    if folder not in workspace.roots:
        session.agent.add_folder(folder, "register_repo_root")
    return {"directory": str(folder)}


@FILE_CONTROLS.handles("read_file")
def _read_file(session: OpenSession, fields: Fields) -> Fields:
    """Return a file of the workspace, for a host that shows it."""
    path = _in_workspace(session, fields)
    max_bytes = int(fields.get("max_bytes") or _MAX_READ_BYTES)
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise ControlError(f"{fields['path']} cannot be read: {error.strerror}") from None
    shown, found = data[:max_bytes], {"absPath": str(path), "truncated": len(data) > max_bytes}
    if fields.get("encoding") == "base64":
        return {"contents": base64.b64encode(shown).decode(), "encoding": "base64", **found}
    text = shown.decode("utf-8", "replace")
    return {"contents": text, "lossy": text.encode() != shown, **found}


@FILE_CONTROLS.handles("seed_read_state")
def _seed_read(session: OpenSession, fields: Fields) -> Fields:
    """Mark a file as read, unless it changed after `mtime`, in milliseconds."""
    path = _in_workspace(session, fields)
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            changed = int(os.fstat(file.fileno()).st_mtime * 1000) > int(fields["mtime"])
            data = b"" if changed else file.read()
    except OSError as error:
        raise ControlError(f"{fields['path']} cannot be read: {error.strerror}") from None
    if not changed:
        read_state.note_read(path, data, session.agent.tool_context)
    return {}

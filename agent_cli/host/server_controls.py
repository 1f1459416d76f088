"""The control requests about MCP servers."""

from __future__ import annotations

import json
from concurrent.futures import TimeoutError as Late
from typing import Any

from agent_cli.host.channel import Fields
from agent_cli.host.control_table import ControlError, ControlTable, OpenSession
from agent_cli.mcp.catalog import McpRequestError
from agent_cli.mcp.config import DeclaredServer, mistake_in, read_json
from agent_cli.runtime.builder import Agent

SERVER_CONTROLS = ControlTable()
SERVER_SECONDS = 30.0
# Our words for the state of a server -> those that hosts expect.
_WORDS = {"ready": "connected", "starting": "pending", "waiting": "pending", "login": "needs-auth",
          "unapproved": "pending"}  # fmt: skip


def server_states(agent: Agent) -> list[Fields]:
    """Return each MCP server with its state and tools, as hosts expect them."""
    if agent.mcp is None:
        return []
    found = []
    for name, server in agent.mcp.servers.all.items():
        state: Fields = {
            "name": name,
            "status": _WORDS.get(server.status, server.status),
            "scope": {"given": "dynamic", "own": "user"}.get(server.found.scope, server.found.scope),
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


@SERVER_CONTROLS.answers("mcp_status")
def _mcp_status(session: OpenSession, fields: Fields) -> Fields:
    if session.agent.mcp is not None:
        session.agent.mcp.servers.begin()
    return {"mcpServers": server_states(session.agent)}


def _server(session: OpenSession, fields: Fields) -> Any:
    name = str(fields["serverName"])
    servers = session.agent.mcp.servers.all if session.agent.mcp is not None else {}
    if name not in servers:
        raise ControlError(f"Server not found: {name}")
    return servers[name]


@SERVER_CONTROLS.answers("mcp_reconnect")
def _mcp_reconnect(session: OpenSession, fields: Fields) -> Fields:
    server = _server(session, fields)
    server.restart(SERVER_SECONDS)
    server.wait(SERVER_SECONDS)
    if server.status not in ("ready", "login"):
        raise ControlError(f"{server.name} did not connect: {server.reason or server.status}")
    return {}


@SERVER_CONTROLS.answers("mcp_toggle")
def _mcp_toggle(session: OpenSession, fields: Fields) -> Fields:
    server = _server(session, fields)
    if fields.get("enabled"):
        server.restart(SERVER_SECONDS)
        server.wait(SERVER_SECONDS)
    else:
        server.disable()
    return {}


@SERVER_CONTROLS.answers("mcp_message")
def _mcp_message(session: OpenSession, fields: Fields) -> Fields:
    """Take a message that a server in the host sends by itself."""
    session.callbacks.servers.receive(str(fields["server_name"]), dict(fields["message"]))
    return {}


@SERVER_CONTROLS.answers("mcp_set_servers")
def _set_servers(session: OpenSession, fields: Fields) -> Fields:
    """Replace the servers that the host added to the session."""
    if session.agent.mcp is None:
        raise ControlError("This session has no MCP servers.")
    found, errors = list[DeclaredServer](), dict[str, str]()
    for name, table in dict(fields["servers"]).items():
        problems: list[str] = []
        for server in read_json(json.dumps({name: table}), "the host", "given", problems):
            if wrong := mistake_in(server):
                problems.append(f"{wrong}.")
            elif why := session.agent.layers.managed.refuses_server(server.name, server.line):
                problems.append(f"{server.name} is not used: {why}")
            else:
                found.append(server)
        errors |= dict.fromkeys([name] if problems else (), "; ".join(problems))
    added, removed = session.agent.mcp.set_added(found)
    return {"added": added, "removed": removed, "errors": errors}


@SERVER_CONTROLS.answers("mcp_read_resource")
def _read_resource(session: OpenSession, fields: Fields) -> Fields:
    """Read a resource of a server, for a host that shows it."""
    server, uri = _server(session, fields), str(fields["uri"])
    if not uri.startswith("ui://"):
        raise ControlError(f"{uri} is not read: hosts are given resources of the scheme ui: only.")
    if server.status != "ready":
        raise ControlError(f"{server.name} is not connected: {server.reason or server.status}")
    reading = server.read(uri)
    try:
        answer: Fields = reading.result(SERVER_SECONDS)
    except (Late, McpRequestError) as error:
        reading.cancel()
        raise ControlError(f"{uri} cannot be read: {error or 'no answer in time'}") from None
    return {"contents": answer.get("contents") or []}

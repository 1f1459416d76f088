"""Doctor's account of MCP servers: those that wait for something a user has to do. None is started."""

from __future__ import annotations

from agent_cli.commands.checks import Finding
from agent_cli.commands.mcp import server_state
from agent_cli.config.layers import Layers
from agent_cli.extensions.mcp.sources import find_servers
from agent_cli.mcp_servers import declares_servers
from agent_cli.options import RunOptions
from agent_cli.place import Place
from agent_tools.clipping import counted

# What `agent mcp list` says of one that needs nothing.
_FINE = ("may start", "logged in", "disabled")


def check_mcp(layers: Layers, place: Place) -> list[Finding]:
    """How many servers are declared, and a line for each that cannot be used as it stands."""
    if not declares_servers(RunOptions(), place, layers):
        return []
    found, problems = find_servers(RunOptions(), place, layers)
    states = [(f.name, server_state(f, place, layers)) for f in found]
    waiting = [f"{name}: {state}" for name, state in states if state not in _FINE]
    text = counted(len(found), "server") + (f", {len(waiting)} not ready" if waiting else "")
    ready = not waiting and not problems
    return [Finding("ok" if ready else "missing", "mcp", text, (*waiting, *problems), {"servers": dict(states)})]

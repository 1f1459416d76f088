"""State of a declared server, as far as known without starting it: disabled, not approved, wants a login."""

from __future__ import annotations

from collections.abc import Mapping

from agent_cli.config.layers import Layers
from agent_cli.mcp.approvals import Approvals, may_start
from agent_cli.mcp.config import DeclaredServer, MissingVariableError, substitute_env
from agent_cli.mcp.credentials import Logins, wants_login

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

"""The slash commands, by topic; importing this registers them."""

from agent_cli.terminal.commands import (
    btw,
    commit,
    context,
    extensions,
    mcp,
    memory,
    permissions,
    plan,
    session,
    settings,
    status,
    undo,
)
from agent_cli.terminal.commands.registry import REGISTRY

__all__ = [
    "REGISTRY",
    "btw",
    "commit",
    "context",
    "extensions",
    "mcp",
    "memory",
    "permissions",
    "plan",
    "session",
    "settings",
    "status",
    "undo",
]

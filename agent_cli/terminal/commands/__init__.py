"""The slash commands, by topic; importing this registers them."""

from agent_cli.terminal.commands import (
    asking,
    commit,
    config,
    context,
    cost,
    extensions,
    hooks,
    looks,
    mcp,
    memory,
    model,
    plan,
    rules,
    session,
    sessions,
    status,
    undo,
)
from agent_cli.terminal.slash import REGISTRY

__all__ = [
    "REGISTRY",
    "asking",
    "commit",
    "config",
    "context",
    "cost",
    "extensions",
    "hooks",
    "looks",
    "mcp",
    "memory",
    "model",
    "plan",
    "rules",
    "session",
    "sessions",
    "status",
    "undo",
]

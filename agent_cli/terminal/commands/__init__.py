"""The slash commands, by topic; importing this registers them."""

from agent_cli.terminal.commands import asking, looks, mcp, model, plan, session
from agent_cli.terminal.slash import REGISTRY

__all__ = ["REGISTRY", "asking", "looks", "mcp", "model", "plan", "session"]

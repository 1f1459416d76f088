"""The slash commands, by topic; importing this registers them."""

from agent_cli.terminal.commands import asking, context, looks, model, plan, session
from agent_cli.terminal.slash import REGISTRY

__all__ = ["REGISTRY", "asking", "context", "looks", "model", "plan", "session"]

"""The slash commands, by topic; importing this registers them."""

from agent_cli.terminal.commands import asking, looks, model, plan, session, sessions
from agent_cli.terminal.slash import REGISTRY

__all__ = ["REGISTRY", "asking", "looks", "model", "plan", "session", "sessions"]

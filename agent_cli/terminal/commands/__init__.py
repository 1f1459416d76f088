"""The slash commands, by topic; importing this registers them."""

from agent_cli.terminal.commands import model, plan, session
from agent_cli.terminal.slash import REGISTRY

__all__ = ["REGISTRY", "model", "plan", "session"]

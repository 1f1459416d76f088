"""The slash commands, by topic; importing this registers them."""

from agent_cli.terminal.commands import asking, cost, looks, memory, model, plan, rules, session, sessions, status
from agent_cli.terminal.slash import REGISTRY

__all__ = ["REGISTRY", "asking", "cost", "looks", "memory", "model", "plan", "rules", "session", "sessions", "status"]

"""The slash commands, by topic; importing this registers them."""

from agent_cli.terminal.commands import cost, memory, model, plan, rules, session, status
from agent_cli.terminal.slash import REGISTRY

__all__ = ["REGISTRY", "cost", "memory", "model", "plan", "rules", "session", "status"]

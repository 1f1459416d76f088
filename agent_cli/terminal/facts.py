"""What is known of a session from outside, as plain data: for status lines and reports."""

from __future__ import annotations

from typing import Any

from agent_cli import __version__
from agent_cli.assembly import Agent
from agent_cli.engine.context import window_size
from agent_cli.terminal.show import Show


def session_facts(agent: Agent, show: Show) -> dict[str, Any]:
    """The facts under the names of Claude Code's status line; costs in dollars, sizes in tokens."""
    conversation = agent.conversation
    window = window_size(conversation)
    used = show.context_tokens
    return {
        "hook_event_name": "Status",
        "session_id": agent.header.session_id,
        "cwd": str(agent.place.cwd),
        "model": {"id": conversation.options.model, "display_name": conversation.options.label},
        "workspace": {"current_dir": str(conversation.kit.context.workspace.cwd), "project_dir": str(agent.place.root)},
        "version": __version__,
        "permission_mode": conversation.kit.policy.mode,
        "sandbox": agent.settings.sandbox.mode,
        "cost": {"total_cost_usd": round(show.usage.cost, 6) if show.usage.reliable else None},
        "context_window": {
            "context_window_size": window,
            "used_tokens": used,
            "used_percentage": round(100 * used / window, 1) if window else None,
        },
    }

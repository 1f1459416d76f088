"""How an agent runs: its permission mode, its reasoning effort, and the type of a sub-agent.

Also the token budgets of an answer: for reasoning, by effort, and for text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

from agent_tools.record import Value

Mode = Literal["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
MODES: tuple[Mode, ...] = get_args(Mode)
# Other agents' names of modes. There, auto lets a model decide; acceptEdits is the closest mode without one.
MODE_ALIASES: dict[str, Mode] = {"manual": "default", "auto": "acceptEdits"}
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


THINKING_BUDGETS: dict[Effort, int] = {
    "minimal": 1024,
    "low": 4096,
    "medium": 10000,
    "high": 20000,
    "xhigh": 32000,
    "max": 48000,
}
# How long a plan may wait for approval.
MAX_PLAN_MINUTES = 4320
# Tokens for the text of an answer, in addition to the reasoning.
ANSWER_TOKENS = 4096


def thinking_budget(effort: Effort | None, tokens: int | None) -> int:
    """Return the token budget for reasoning; an explicit number wins."""
    return tokens or THINKING_BUDGETS.get(effort or "none", 0)


class AgentType(Value):
    """A kind of sub-agent.

    tools: tools that it may use; empty: all.
    model: the model to use; empty: the parent's.
    path: its file; None if built in.
    missing_tools: tools that it names but that are unavailable.
    disallowed_tools: tools that it must not use.
    hooks: hooks that run while it works, as plain data.
    read_only: it may change nothing; its commands only read.
    """

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] = ()
    model: str = ""
    path: Path | None = None
    missing_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    hooks: tuple[dict[str, Any], ...] = ()
    read_only: bool = False

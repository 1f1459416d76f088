"""What an agent runs with: permission mode, level of effort, and for a sub-agent its type.

Also the token budget of an answer: what a level of effort means in tokens of reasoning, and what is left for text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

from agent_tools.record import Value

Mode = Literal["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
MODES: tuple[Mode, ...] = get_args(Mode)
# Other agents' names of modes. auto lets a model decide there; the nearest that no model decides is acceptEdits.
MODE_ALIASES: dict[str, Mode] = {"manual": "default", "auto": "acceptEdits"}
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Verbosity = Literal["low", "medium", "high"]


BUDGETS: dict[Effort, int] = {
    "minimal": 1024,
    "low": 4096,
    "medium": 10000,
    "high": 20000,
    "xhigh": 32000,
    "max": 48000,
}
# For the text of an answer, in addition to the reasoning.
WORDS = 4096


def thinking_budget(effort: Effort | None, tokens: int | None) -> int:
    """Return the tokens to think with; an explicit number wins."""
    return tokens or BUDGETS.get(effort or "none", 0)


class AgentType(Value):
    """A kind of sub-agent.

    tools: names it may use; empty: all.
    model: empty: the parent's.
    path: its file; None if built in.
    without: tools that it names but that are not available.
    not_tools: tools that it must not use.
    hooks: those that run while it works, as plain data.
    """

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] = ()
    model: str = ""
    path: Path | None = None
    without: tuple[str, ...] = ()
    not_tools: tuple[str, ...] = ()
    hooks: tuple[dict[str, Any], ...] = ()

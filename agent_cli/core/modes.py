"""Types that several packages share: permission modes and levels of effort.

Also the token budget of an answer: what a level of effort means in tokens of reasoning, and what is left for text.
"""

from __future__ import annotations

from typing import Literal, get_args

Mode = Literal["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
MODES: tuple[Mode, ...] = get_args(Mode)
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

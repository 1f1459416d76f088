"""Measure how full the window is: the provider's last report plus an estimate of what was added since.

The estimate is scaled by the ratio of the last report to our own count of the same request.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_cli.kernel.engine.types import TurnOptions
from agent_cli.kernel.messages import Message, have_media
from agent_cli.kernel.modes import ANSWER_TOKENS, thinking_budget
from agent_cli.kernel.window import Window, count_text_tokens, count_tokens, count_tool_tokens

# Bounds for that ratio.
_MIN_FACTOR, _MAX_FACTOR = 0.6, 2.5
# With a lower ratio, the report cannot be about the whole request.
_MIN_PLAUSIBLE_FACTOR = 0.3
# In a smaller request the ratio means nothing.
_MIN_COMPARABLE_TOKENS = 500
DEFAULT_SHARE = 0.92
_counted: tuple[object, int] = (None, 0)  # the tools that were counted last, which seldom change


def overhead_tokens(options: TurnOptions) -> int:
    """Return our own count of the fixed start of every request: the system prompt and the tools."""
    global _counted
    _counted = _counted if _counted[0] is options.tools else (options.tools, count_tool_tokens(options.tools))
    return count_text_tokens(options.system) + _counted[1]


def used_tokens(window: Window, options: TurnOptions, history: Sequence[Message]) -> int:
    """Return the tokens of the next request."""
    report, fixed = window.report, overhead_tokens(options)
    if report is not None and report.messages <= len(history):
        sent = window.view(history[: max(0, report.messages - 1)])
        ours = fixed + window.counter.count(sent)
        if ours < _MIN_COMPARABLE_TOKENS:
            return report.filled + scaled(window, count_tokens(history[report.messages :]))
        factor = report.input / ours
        # Some providers count only what is not in their cache. With media, our own count is too rough to question the
        # report.
        if factor >= _MIN_PLAUSIBLE_FACTOR or have_media(sent):
            window.factor = min(max(factor, _MIN_FACTOR), _MAX_FACTOR)
            return report.filled + scaled(window, count_tokens(history[report.messages :]))
    return scaled(window, fixed + window.counter.count(window.view(history)))


def scaled(window: Window, ours: float) -> int:
    """Convert our count to the provider's scale."""
    return round(ours * window.factor)


def window_tokens(window: Window, options: TurnOptions) -> int | None:
    """Return the size of the window in tokens; None if unknown."""
    return min((s for s in (options.context_window, window.refused_tokens) if s), default=None)


def compaction_limit(size: int, options: TurnOptions) -> int:
    """Return the tokens at which a conversation is compacted: a share of the window that leaves room for the answer."""
    share = int(size * (options.compact_at or DEFAULT_SHARE))
    if options.max_tokens:
        return min(share, size - min(options.max_tokens, size // 2))
    thinking = thinking_budget(options.effort, options.thinking_tokens)
    # Some providers refuse a request without room for all the thinking that its effort allows; few answers need it.
    return min(share, size - min(thinking + ANSWER_TOKENS, size // 3)) if thinking else share

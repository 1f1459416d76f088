"""How full the window is: what the provider reported last, and an estimate of what was added since.

The estimate is scaled by how the last report compared with our own count of the same request.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_cli.core.counting import tokens_of, tokens_of_text, tokens_of_tools
from agent_cli.core.messages import Message
from agent_cli.core.window import Window
from agent_cli.engine.turn import TurnOptions

# Beyond these a report is taken to count something else than what was sent.
_LEAST, _MOST = 0.6, 2.5
_WORTH = 500
DEFAULT_SHARE = 0.92


def fixed_tokens(options: TurnOptions) -> int:
    """What every request begins with, by our own count: the system prompt and the tools."""
    return tokens_of_text(options.system) + tokens_of_tools(options.tools)


def filled(window: Window, options: TurnOptions, history: Sequence[Message]) -> int:
    """The tokens that the next request would have."""
    report = window.report
    if report is None or report.messages > len(history):
        return scaled(window, fixed_tokens(options) + tokens_of(window.view(history)))
    ours = fixed_tokens(options) + tokens_of(window.view(history[: max(0, report.messages - 1)]))
    if ours >= _WORTH:
        window.factor = min(max(report.input / ours, _LEAST), _MOST)
    return report.filled + scaled(window, tokens_of(history[report.messages :]))


def scaled(window: Window, ours: float) -> int:
    """Our count as the provider would have it."""
    return round(ours * window.factor)


def size_of(window: Window, options: TurnOptions) -> int | None:
    """The tokens that the window takes; None where that is not known."""
    return min((s for s in (options.context_window, window.learnt) if s), default=None)


def limit_of(size: int, options: TurnOptions) -> int:
    """Where a conversation is compacted: at its share of the window, and before the answer would not fit any more."""
    answer = options.max_tokens or (options.thinking_tokens or 0)
    return min(int(size * (options.compact_at or DEFAULT_SHARE)), size - min(answer, size // 2))

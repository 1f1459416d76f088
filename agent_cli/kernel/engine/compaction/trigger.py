"""Check the room in the model's window before every request, and compact if there is too little.

Most conversations never come near the end of their window, so the code that compacts is loaded on demand.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from agent_cli.kernel.events import Event
from agent_cli.kernel.messages import count_characters
from agent_cli.kernel.window import CLEARED_WINDOW_TOKENS
from agent_tools.lazy import lazy_imports

if TYPE_CHECKING:
    from agent_cli.kernel.engine.turn import Turn
    from agent_cli.kernel.results import Failure

with lazy_imports():
    from agent_cli.kernel.engine.compaction import compact

# Allows for the system prompt and the tools, which are not counted here.
_CLEARING_SHARE = 0.75
# No conversation has more characters per token.
_MAX_CHARS_PER_TOKEN = 12
# A window up to this size is always measured exactly: the prompt and the tools alone may fill much of it.
_SMALL_WINDOW_TOKENS = 64_000


def compact_if_needed(turn: Turn) -> Generator[Event, None, None]:
    """Compact the conversation if its next request would be too near the end of the window. Raises CancelledError.

    All calls have their results by now, so none is separated from its result.
    """
    if not _may_be_near(turn):
        return
    yield from compact.compact_if_full(turn)


def compact_after_overflow(turn: Turn, failure: Failure) -> Generator[Event, None, bool]:
    """Compact a conversation that the provider rejected as too long; return True if the request can be retried.

    Raises ModelError with advice if nothing can be removed; CancelledError.
    """
    if failure.kind != "context_too_long":
        return False
    return (yield from compact.compact_refused(turn, failure))


def _may_be_near(turn: Turn) -> bool:
    """Return False if the window is certainly far from full; a character is hardly ever more than a token."""
    options, window = turn.options, turn.deps.state.window
    size = options.context_window or window.refused_tokens
    compacts = bool(size and options.compact_at)
    if not compacts and not options.clear_at:
        return False
    if size and size <= _SMALL_WINDOW_TOKENS:
        return True
    report = window.report
    used = turn.characters
    # Some providers count only what is not in their cache, or nothing.
    if report and report.filled * _MAX_CHARS_PER_TOKEN > used:
        used = report.filled + sum(map(count_characters, turn.history[report.messages :]))
    limits = [size / 2] if compacts and size else []
    if options.clear_at:
        limits.append(min(turn.window_size, CLEARED_WINDOW_TOKENS) * min(options.clear_at) * _CLEARING_SHARE)
    return used > min(limits)

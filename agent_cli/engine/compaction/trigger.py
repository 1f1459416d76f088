"""Check the room in the model's window before every request, and compact if there is too little.

Most conversations never come near the end of their window, so the code that compacts is loaded on demand.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from agent_cli.core.events import Event
from agent_cli.core.messages import AssistantMessage, Message
from agent_tools.lazy import lazy_imports

if TYPE_CHECKING:
    from agent_cli.core.results import Failure
    from agent_cli.engine.turn import Turn

with lazy_imports():
    from agent_cli.engine.compaction import compact

# A smaller window is always measured exactly: the prompt and the tools alone may fill much of it.
_SMALL = 64_000


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
    """Return False if the window is certainly far from full: there are never many more tokens than characters."""
    size, window = turn.options.context_window or turn.deps.state.window.learnt, turn.deps.state.window
    if not size or not turn.options.compact_at:
        return False
    if size <= _SMALL:
        return True
    told = window.report
    since = turn.history[told.messages :] if told else turn.view
    return (told.filled if told else 0) + sum(map(_characters, since)) > size // 2


def _characters(message: Message) -> int:
    if isinstance(message, AssistantMessage):
        return len(message.text) + sum(len(str(call.arguments)) for call in message.calls)
    return len(message.text) + sum(len(item.data) for item in message.media)

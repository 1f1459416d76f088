"""Read together, and pass on as one piece, what arrives together.

A provider that is faster than this program, or a network that delivers in bursts, brings many pieces of an answer at
once. Each would be an event, a line of output and a drawing; as one piece they cost a fraction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from agent_cli.models.base import Chunk, TextChunk, ThinkingChunk, ToolCallDelta

# A frame of a screen with 60 Hz.
GATHER_SECONDS = 0.016
# After so many small reads that found their data at once, the next ones wait.
MAX_QUICK_READS = 16
_MUCH_BYTES = 16 << 10


class ReadPace:
    """Waits before reads of a stream whose pieces arrive faster than they can be seen, so that a read finds several."""

    def __init__(self) -> None:
        self._quick = 0

    def read(self, read: Callable[[], bytes]) -> bytes:
        """Return what `read` returns, at once unless the reads before it were quick and small."""
        if self._quick > MAX_QUICK_READS:
            time.sleep(GATHER_SECONDS)
        began = time.monotonic()
        data = read()
        waited = time.monotonic() - began
        self._quick = self._quick + 1 if waited < GATHER_SECONDS / 4 and len(data) < _MUCH_BYTES else 0
        return data


def join_arrived(chunks: Iterable[Chunk | None]) -> Iterator[Chunk]:
    """Yield chunks, adjacent pieces of one text, of reasoning or of one call's arguments as one.

    None among the chunks: what follows has not arrived yet. If reading them fails, what came before is yielded first.
    """
    first: Any = None
    pieces: list[str] = []
    text: str | None
    try:
        for chunk in chunks:
            kind = chunk.__class__
            if kind is TextChunk:
                text = chunk.text  # type: ignore[union-attr]
            elif kind is ThinkingChunk:
                text = None if chunk.signature or chunk.data else chunk.text  # type: ignore[union-attr]
            elif kind is ToolCallDelta:
                text = chunk.json  # type: ignore[union-attr]
            else:
                text = None
            if text is not None and first is not None and _is_more(first, chunk):
                pieces.append(text)
                continue
            if first is not None:
                yield _joined(first, pieces)
                first = None
            if text is not None:
                first, pieces = chunk, [text]
            elif chunk is not None:
                yield chunk
    except Exception:
        if first is not None:
            yield _joined(first, pieces)
        raise
    if first is not None:
        yield _joined(first, pieces)


def _is_more(first: Any, chunk: Any) -> bool:
    """Return True if a piece continues the text that began with `first`."""
    kind = chunk.__class__
    if first.__class__ is not kind:
        return False
    if kind is TextChunk:
        return bool(first.phase == chunk.phase)
    if kind is ThinkingChunk:
        return bool(first.provider == chunk.provider)
    return bool(first.index == chunk.index)


def _joined(first: Any, pieces: list[str]) -> Chunk:
    if len(pieces) == 1:
        return first  # type: ignore[no-any-return]
    if first.__class__ is ToolCallDelta:
        return ToolCallDelta(first.index, "".join(pieces))
    return first.replace(text="".join(pieces))  # type: ignore[no-any-return]

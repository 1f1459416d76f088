"""Pass on as one piece what arrived together.

A provider that is faster than this program, or a network that delivers in bursts, brings many pieces of an answer at
once. Each would be an event, a line of output and a drawing; as one piece they cost a fraction, and come no later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agent_cli.models.base import Chunk, TextChunk, ThinkingChunk, ToolCallDelta


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

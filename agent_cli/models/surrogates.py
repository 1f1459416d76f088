"""Join the halves of a character that arrive in two pieces of an answer.

JSON spells a character outside the basic plane, such as an emoji, as a pair of surrogates, and some servers cut their
answers between the two. Half a pair is no character: it would be stored and sent on as "?".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agent_cli.models.base import Chunk, MessageStop, TextChunk, ThinkingChunk, ToolCallDelta

# A union would be made again for every piece.
_TEXTS = (TextChunk, ThinkingChunk)
# Takes the place of a half that has no other.
REPLACEMENT = "\ufffd"


def join_surrogates(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield the chunks of one answer with whole characters: a half at the end of a piece goes to the next of its kind.

    The text, the reasoning and the arguments of each call are of one kind.
    """
    # The half, and the piece that ended with it.
    pending: dict[Any, tuple[str, Chunk]] = {}
    key: Any
    for chunk in chunks:
        if isinstance(chunk, _TEXTS):
            key, name, text = type(chunk), "text", chunk.text
        elif isinstance(chunk, ToolCallDelta):
            key, name, text = chunk.index, "json", chunk.json
        else:
            if isinstance(chunk, MessageStop):
                yield from map(_replaced, pending.values())
            yield chunk
            continue
        if not text or (text.isascii() and not pending) or not (key in pending or _has_half(text)):
            yield chunk
            continue
        text = pending.pop(key, ("", chunk))[0] + text
        if "\ud800" <= text[-1] <= "\udbff":
            pending[key] = (text[-1], chunk)
            text = text[:-1]
        yield chunk.replace(**{name: text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")})


def _has_half(text: str) -> bool:
    # A pattern of these would be compiled at every start, for a millisecond.
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _replaced(left: tuple[str, Chunk]) -> Chunk:
    chunk = left[1]
    if isinstance(chunk, ToolCallDelta):
        return ToolCallDelta(chunk.index, REPLACEMENT)
    if isinstance(chunk, TextChunk):
        return TextChunk(REPLACEMENT, chunk.phase)
    assert isinstance(chunk, ThinkingChunk)
    return ThinkingChunk(REPLACEMENT, provider=chunk.provider)

"""The pieces in which an answer arrives: read together and passed on as one where they arrive together, with whole
characters.

A provider that is faster than this program, or a network that delivers in bursts, brings many pieces of an answer at
once. Each would be an event, a line of output and a drawing; as one piece they cost a fraction.

JSON spells a character outside the basic plane, such as an emoji, as a pair of surrogates, and some servers cut their
answers between the two. Half a pair is no character: it would be stored and sent on as "?".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from agent_cli.models.base import Chunk, MessageStop, TextChunk, ThinkingChunk, ToolCallDelta

# A frame of a screen with 60 Hz.
GATHER_SECONDS = 0.016
# After so many small reads that found their data at once, the next ones wait.
MAX_QUICK_READS = 16
_MUCH_BYTES = 16 << 10
# A union would be made again for every piece.
_TEXTS = (TextChunk, ThinkingChunk)
# Takes the place of a half that has no other.
REPLACEMENT = "\ufffd"


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

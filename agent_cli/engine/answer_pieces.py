"""Events for the parts of an answer that are no text, as they arrive: for front ends that show calls being written.

A call is announced only if it will keep its name and ID: one of a tool that is not on offer, or with an ID that was
used before, is completed in `sampling.with_valid_calls`, after the answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent_cli.core.events import ArgumentsDelta, CallStarted, Event, ThinkingSigned
from agent_cli.engine.turn import Turn
from agent_cli.providers.base import Chunk, ThinkingChunk, ToolCallDelta, ToolCallStart


class AnswerPieces:
    """The calls of one answer that are announced."""

    def __init__(self, turn: Turn) -> None:
        self._known = turn.deps.state.ids
        self._tools = turn.deps.tools
        self._calls: dict[int, str] = {}

    def events(self, chunk: Chunk) -> Iterator[Event]:
        """Yield the events of a chunk."""
        if isinstance(chunk, ToolCallDelta):
            if call_id := self._calls.get(chunk.index):
                yield ArgumentsDelta(call_id, chunk.json)
        elif isinstance(chunk, ToolCallStart):
            self._calls.pop(chunk.index, None)
            taken = chunk.id in self._known or chunk.id in self._calls.values()
            if chunk.id and not taken and chunk.name in self._tools:
                self._calls[chunk.index] = chunk.id
                yield CallStarted(chunk.id, chunk.name)
        elif isinstance(chunk, ThinkingChunk) and not chunk.provider and (chunk.signature or chunk.data):
            yield ThinkingSigned(chunk.signature, chunk.data)

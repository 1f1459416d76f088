"""Reading an answer of the Messages API: JSON objects in, chunks out. A complete answer is read as the same blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent_cli.core.usage import Usage
from agent_cli.model.errors import refusal_in_stream
from agent_cli.model.transport import (
    CallDelta,
    CallStart,
    Chunk,
    Started,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
    stopped,
)
from agent_cli.model.wire import encoded


class MessageReader:
    """One answer. `prefill`: words that it begins with and that the server does not repeat."""

    def __init__(self, provider: str, model: str, prefill: str = "") -> None:
        self.finished = False
        self._provider = provider
        self._model = model
        self._prefill = prefill
        self._raw = ""
        self._counts: dict[str, Any] = {}
        self._calls = 0
        # Of each open block that is a call: our index, and the arguments it came with in one piece.
        self._open: dict[int, tuple[int, Any]] = {}

    def read(self, event: dict[str, Any]) -> Iterator[Chunk]:
        """The chunks of one JSON object. Raises ModelError for an `error` object."""
        kind = event.get("type")
        if kind == "content_block_delta":
            yield from self._delta(event.get("index", 0), event.get("delta") or {})
        elif kind == "content_block_start":
            yield from self._block(event.get("index", 0), event.get("content_block") or {})
        elif kind == "content_block_stop":
            yield from self._close(event.get("index", 0))
        elif kind == "message_start":
            yield from self._start(event.get("message") or {})
        elif kind == "message_delta":
            self._raw = str((event.get("delta") or {}).get("stop_reason") or self._raw)
            self.finished = self.finished or bool(self._raw)
            yield from self._usage(event.get("usage"))
        elif kind == "message_stop":
            self.finished = True
        elif kind == "message":
            yield from self._whole(event)
        elif kind == "error" or event.get("error"):
            raise refusal_in_stream(event.get("error"), provider=self._provider, model=self._model)

    def end(self) -> Iterator[Chunk]:
        """The last chunk, after everything was read."""
        yield stopped(self._raw, calls=bool(self._calls), provider=self._provider)

    def _whole(self, message: dict[str, Any]) -> Iterator[Chunk]:
        yield from self._start(message)
        for index, block in enumerate(message.get("content") or ()):
            yield from self._block(index, block)
            yield from self._close(index)
        self._raw = str(message.get("stop_reason") or "")
        self.finished = True

    def _start(self, message: dict[str, Any]) -> Iterator[Chunk]:
        yield Started(str(message.get("id") or ""), str(message.get("model") or self._model))
        yield from self._usage(message.get("usage"))
        if self._prefill:
            yield TextChunk(self._prefill)

    def _block(self, index: int, block: dict[str, Any]) -> Iterator[Chunk]:
        kind = block.get("type")
        if kind == "tool_use":
            self._open[index] = (self._calls, block.get("input"))
            yield CallStart(self._calls, str(block.get("id") or ""), str(block.get("name") or ""))
            self._calls += 1
        elif kind == "text" and block.get("text"):
            yield TextChunk(block["text"])
        elif kind == "thinking" and (block.get("thinking") or block.get("signature")):
            yield ThinkingChunk(block.get("thinking") or "", block.get("signature") or "")
        elif kind == "redacted_thinking":
            yield ThinkingChunk(data=block.get("data") or "")

    def _delta(self, index: int, delta: dict[str, Any]) -> Iterator[Chunk]:
        kind = delta.get("type")
        if kind == "text_delta":
            if text := delta.get("text"):
                yield TextChunk(text)
        elif kind == "input_json_delta":
            if (text := delta.get("partial_json")) and index in self._open:
                number, _ = self._open[index]
                self._open[index] = (number, None)
                yield CallDelta(number, text)
        elif kind == "thinking_delta":
            if text := delta.get("thinking"):
                yield ThinkingChunk(text)
        elif kind == "signature_delta" and delta.get("signature"):
            yield ThinkingChunk(signature=delta["signature"])

    def _close(self, index: int) -> Iterator[Chunk]:
        number, whole = self._open.pop(index, (0, None))
        if whole:
            yield CallDelta(number, encoded(whole).decode())

    def _usage(self, report: dict[str, Any] | None) -> Iterator[Chunk]:
        if not report:
            return
        # The counts are cumulative, and a later report may leave out what an earlier one said.
        self._counts.update({k: v for k, v in report.items() if v is not None})
        yield UsageChunk(anthropic_usage(self._counts))


def anthropic_usage(counts: dict[str, Any]) -> Usage:
    """Token counts in our terms: theirs leave the cached parts out of the input."""
    read = counts.get("cache_read_input_tokens") or 0
    written = counts.get("cache_creation_input_tokens") or 0
    details = counts.get("output_tokens_details") or {}
    return Usage(
        input=(counts.get("input_tokens") or 0) + read + written,
        output=counts.get("output_tokens") or 0,
        reasoning=details.get("thinking_tokens") or details.get("reasoning_tokens") or 0,
        cache_read=read,
        cache_write=written,
        web_searches=(counts.get("server_tool_use") or {}).get("web_search_requests") or 0,
    )

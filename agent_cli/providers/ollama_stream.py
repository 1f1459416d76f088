"""Reading an answer of Ollama's own protocol: lines of JSON out of bytes, and chunks out of their objects.

A line has a piece of text, of reasoning, or whole calls; the last one is `done` and has the counts. A complete answer
is read as one such line. Calls have an id only on newer servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent_cli.core.results import Failure, Usage
from agent_cli.providers.base import (
    Chunk,
    ModelError,
    Started,
    TextChunk,
    ThinkingChunk,
    ToolCallDelta,
    ToolCallStart,
    UsageChunk,
    stopped,
)
from agent_cli.providers.errors import refusal_in_stream
from agent_cli.providers.http_client import encoded
from agent_cli.providers.openai_stream import ThinkTags


class LineDecoder:
    """Feed it bytes; it returns the lines they complete. most: bytes of one line."""

    def __init__(self, most: int = 64 << 20) -> None:
        self._most = most
        self._size = 0
        self._rest: list[bytes] = []

    def feed(self, data: bytes) -> list[str]:
        """The lines that end within `data`, without empty ones. Raises OverflowError."""
        self._rest.append(data)
        self._size += len(data)
        if b"\n" in data:
            # A long line arrives in many pieces: join them only when it has ended.
            *lines, rest = b"".join(self._rest).split(b"\n")
            self._rest, self._size = [rest], len(rest)
        else:
            lines = []
        if self._size > self._most:
            raise OverflowError
        return [line.decode("utf-8", "replace") for line in lines if line.strip()]

    def end(self) -> list[str]:
        """What stands behind the last line end, if anything does."""
        return self.feed(b"\n")


class OllamaReader:
    """One answer. `provider`: who gets its reasoning back.

    first_call: the number for the first call that comes without an id. prefill: words that the answer begins with and
    that the server does not repeat.
    """

    def __init__(self, provider: str, model: str, first_call: int, prefill: str = "") -> None:
        self.finished = False
        self._provider = provider
        self._model = model
        self._first_call = first_call
        self._prefill = prefill
        self._started = False
        self._raw = ""
        self._calls = 0
        self._said = False
        self._tags = ThinkTags(provider)

    def read(self, event: dict[str, Any]) -> Iterator[Chunk]:
        """Yield the chunks of one JSON object. Raises ModelError for an error."""
        if event.get("error"):
            raise refusal_in_stream(event, provider=self._provider, model=self._model)
        if not self._started:
            self._started = True
            yield Started("", str(event.get("model") or self._model))
            if self._prefill:
                yield TextChunk(self._prefill)
        message = event.get("message") or {}
        if thinking := message.get("thinking"):
            yield ThinkingChunk(thinking, provider=self._provider)
        if text := message.get("content"):
            self._said = True
            yield from self._tags.read(text)
        for call in message.get("tool_calls") or ():
            yield from self._call(call)
        if event.get("done"):
            self.finished = True
            self._raw = str(event.get("done_reason") or "")
            if "prompt_eval_count" in event or "eval_count" in event:
                yield UsageChunk(Usage(input=event.get("prompt_eval_count") or 0, output=event.get("eval_count") or 0))

    def end(self) -> Iterator[Chunk]:
        """Yield the last chunk, after everything was read. Raises ModelError where the model was only loaded."""
        yield from self._tags.end()
        if self._raw in ("load", "unload") and not self._said and not self._calls:
            words = f"{self._provider} {self._raw}ed the model and gave no answer."
            raise ModelError(Failure("overloaded", words, retryable=True))
        yield stopped(self._raw, calls=bool(self._calls), provider=self._provider)

    def _call(self, call: dict[str, Any]) -> Iterator[Chunk]:
        if not self._calls:
            yield from self._tags.end()
        index, self._calls = self._calls, self._calls + 1
        function = call.get("function") or {}
        identity = str(call.get("id") or f"call_{self._first_call + index}")
        yield ToolCallStart(index, identity, str(function.get("name") or ""))
        if arguments := function.get("arguments"):
            yield ToolCallDelta(index, arguments if isinstance(arguments, str) else encoded(arguments).decode())

"""Read an answer of the Gemini API: JSON objects in, chunks out.

Each event of a stream is an answer with the next parts; a complete answer is read as one such event. The signature of
a part is yielded before it as encrypted reasoning, so that it is stored where it belongs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from agent_cli.kernel.results import Failure, Usage
from agent_cli.models.base import (
    Chunk,
    MessageStop,
    ModelError,
    Started,
    TextChunk,
    ThinkingChunk,
    ToolCallDelta,
    ToolCallStart,
    UsageChunk,
    message_stop,
)
from agent_cli.models.errors import error_in_stream
from agent_cli.models.http_client import encode_json

_UNSPECIFIED = ("", "FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED")
# The models sometimes repeat the namespace in which the API shows them their functions.
_NAMESPACE = re.compile(r"default_api[.:]")


class GeminiReader:
    """Reads one answer.

    provider: takes its signatures back.
    """

    def __init__(self, provider: str, model: str) -> None:
        self.finished = False
        self._provider = provider
        self._model = model
        self._started = False
        self._raw = ""
        self._blocked = ""
        self._calls = 0
        # The last call has no arguments yet.
        self._bare = False
        self._signed = False

    def read(self, event: dict[str, Any]) -> Iterator[Chunk]:
        """Yield the chunks of one JSON object. Raises ModelError for an error."""
        if event.get("error"):
            raise error_in_stream(event["error"], provider=self._provider, model=self._model)
        if not self._started:
            self._started = True
            yield Started(str(event.get("responseId") or ""), str(event.get("modelVersion") or self._model))
        for candidate in (event.get("candidates") or ())[:1]:
            for part in (candidate.get("content") or {}).get("parts") or ():
                yield from self._part(part)
            self._end(str(candidate.get("finishReason") or ""))
        if (block := str((event.get("promptFeedback") or {}).get("blockReason") or "")) not in _UNSPECIFIED:
            self._blocked, self.finished = block, True
        if report := event.get("usageMetadata"):
            yield UsageChunk(gemini_usage(report))

    def end(self) -> Iterator[Chunk]:
        """Yield the last chunk, after everything was read. Raises ModelError for an end without a valid reason."""
        if self._blocked:
            yield MessageStop("refusal", self._blocked)
            return
        stop = message_stop(self._raw, calls=bool(self._calls), provider=self._provider)
        if stop.reason == "other":
            raise ModelError(
                Failure("overloaded", f"{self._provider} cut off the answer ({self._raw}).", retryable=True)
            )
        yield stop

    def _end(self, word: str) -> None:
        # Some servers repeat STOP with every event; the first other word is the reason.
        if word not in _UNSPECIFIED:
            self.finished = True
            if self._raw in ("", "STOP"):
                self._raw = word

    def _part(self, part: dict[str, Any]) -> Iterator[Chunk]:
        signature, text, call = part.get("thoughtSignature"), part.get("text"), part.get("functionCall")
        if part.get("thought"):
            if text:
                yield ThinkingChunk(text)
            if signature:
                yield ThinkingChunk(data=signature, provider=self._provider)
            return
        if signature:
            yield ThinkingChunk(data=signature, provider=self._provider)
        elif text and self._signed:
            # A signature covers only the text that it came with.
            yield ThinkingChunk(provider=self._provider)
        if text:
            yield TextChunk(text)
            self._signed = bool(signature)
        if call:
            yield from self._call(call)

    def _call(self, call: dict[str, Any]) -> Iterator[Chunk]:
        name, arguments = _NAMESPACE.sub("", str(call.get("name") or ""), count=1), call.get("args")
        if not name and self._calls:
            # Some gateways send the arguments after the name.
            if arguments and self._bare:
                self._bare = False
                yield ToolCallDelta(self._calls - 1, encode_json(arguments).decode())
            return
        index, self._calls, self._signed = self._calls, self._calls + 1, False
        self._bare = not arguments
        yield ToolCallStart(index, str(call.get("id") or f"call_{index}"), name)
        if arguments:
            yield ToolCallDelta(index, encode_json(arguments).decode())


def gemini_usage(report: dict[str, Any]) -> Usage:
    """Convert the token counts; theirs leave the thoughts out of the answer."""
    given = (report.get("promptTokenCount") or 0) + (report.get("toolUsePromptTokenCount") or 0)
    made, thought = report.get("candidatesTokenCount") or 0, report.get("thoughtsTokenCount") or 0
    # Some servers include the thoughts; the total shows which.
    inside = thought <= made and report.get("totalTokenCount") == given + made
    return Usage(
        input=given,
        output=made if inside else made + thought,
        reasoning=thought,
        cache_read=report.get("cachedContentTokenCount") or 0,
    )

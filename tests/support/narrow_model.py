"""A model with a narrow window: it counts requests in its own way, refuses what does not fit, and checks the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from agent_cli.kernel.messages import AssistantMessage, Message
from agent_cli.kernel.results import Failure, Usage
from agent_cli.models.base import (
    Chunk,
    MessageStop,
    ModelError,
    Request,
    Started,
    TextChunk,
    ToolCallDelta,
    ToolCallStart,
    UsageChunk,
)
from agent_cli.models.scripted import _check_results
from agent_tools.cancel import CancelToken
from agent_tools.record import to_json

SUMMARY = """## Goal
Count to the end, as the user said.

## Decisions
none

## Files and their state
See below.

## Commands and results
none

## Plan
It stands below.

## Next step
Make the next call.

## Open questions
none
"""

Answer = Callable[[int, Request], dict[str, Any]]


class NarrowModel:
    """A model client. `answer` gives the reply to the n-th request of the conversation, from 0, as a script has it.

    bytes_per_token: its own tokenizer, which we do not know. reports: whether it tells what it counted. summary: what
    it answers beside the conversation; None: it fails there. words: how it refuses.
    """

    def __init__(
        self,
        answer: Answer,
        size: int,
        *,
        bytes_per_token: float = 2.9,
        reports: bool = True,
        summary: str | None = SUMMARY,
        words: str = "It has {count} tokens, and {size} fit.",
    ) -> None:
        self.size = size
        self.requests: list[Request] = []
        self.asides: list[Request] = []
        self.refused = 0
        self.largest = 0
        self._answer = answer
        self._bytes = bytes_per_token
        self._reports = reports
        self._summary = summary
        self._words = words
        self._sizes: dict[int, tuple[Any, int]] = {}

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        count = self.count(request)
        _check_results(request)
        if count > self.size:
            self.refused += 1
            raise ModelError(Failure("context_too_long", self._words.format(count=count, size=self.size)))
        self.largest = max(self.largest, count)
        if request.aside:
            self.asides.append(request)
            if self._summary is None:
                raise ModelError(Failure("overloaded", "Busy.", retryable=True))
            return self._chunks({"text": self._summary}, count)
        self.requests.append(request)
        return self._chunks(self._answer(len(self.requests) - 1, request), count)

    def count(self, request: Request) -> int:
        """Everything that is sent, over this model's bytes per token."""
        parts = [request.system, request.tools, *request.messages]
        return int(sum(self._size(part) for part in parts) / self._bytes)

    def _size(self, part: Any) -> int:
        known = self._sizes.get(id(part))
        if known is None:
            plain = [to_json(p) for p in part] if isinstance(part, tuple) else to_json(part)
            known = self._sizes[id(part)] = (part, len(json.dumps(plain, ensure_ascii=False).encode()))
        return known[1]

    def _chunks(self, reply: dict[str, Any], count: int) -> Iterator[Chunk]:
        yield Started("reply", "narrow")
        if text := reply.get("text"):
            yield TextChunk(text)
        calls = reply.get("calls", ())
        for number, call in enumerate(calls):
            yield ToolCallStart(number, f"c{len(self.requests)}-{number}", call["name"])
            yield ToolCallDelta(number, json.dumps(call["arguments"]))
        if self._reports:
            yield UsageChunk(Usage(input=count, output=20))
        yield MessageStop("tool_use" if calls else "end_turn", "stop")


def whole(request: Request) -> str:
    """All text of a request's messages."""
    return "\n".join(text_of(m) for m in request.messages)


def text_of(message: Message) -> str:
    if isinstance(message, AssistantMessage):
        return message.text + json.dumps([c.arguments for c in message.calls])
    return message.text

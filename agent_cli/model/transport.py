"""How the engine talks to a model: one request in, an iterator of chunks out, errors from a small set.

A wire is a class with `stream(request, cancel)`. What it must do is fixed by tests/model/test_contract.py, which runs
over all of them. Wires keep nothing between requests but connections and the encoded form of messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol

from agent_cli.core.messages import Message
from agent_cli.core.modes import Effort
from agent_cli.core.outcome import Failure
from agent_cli.core.usage import Usage
from agent_tools.cancel import CancelToken
from agent_tools.values import Value

StopReason = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "other"]


class ToolSpec(Value):
    """A tool as the model is told of it."""

    name: str
    description: str
    schema: dict[str, Any]


class Request(Value):
    """One model call. `model` is what the provider calls it, without our provider prefix.

    tool_choice: "none" keeps the tools in the request (so that the prefix holds) and forbids calling them.
    thinking_tokens: budget for reasoning; effort: the provider's level. A wire that lacks one names it in a `Notice`.
    head: how many messages at the beginning a compaction has put there, behind which a cache may end. earlier: how many
    of the model's answers it has taken away. aside: the request is not the conversation's next.
    prefill: text that the answer must begin with. stream: False asks for the whole answer at once.
    """

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    effort: Effort | None = None
    thinking_tokens: int | None = None
    reasoning_summary: bool = False
    prefill: str = ""
    stream: bool = True
    tool_choice: Literal["auto", "none"] = "auto"
    json_schema: dict[str, Any] | None = None
    head: int = 0
    earlier: int = 0
    aside: bool = False


class Started(Value):
    """The response began: the provider's id for it and the model that answers."""

    id: str
    model: str


class TextChunk(Value):
    text: str


class ThinkingChunk(Value):
    """A piece of reasoning. A signature or encrypted data closes the block it belongs to."""

    text: str = ""
    signature: str = ""
    data: str = ""


class CallStart(Value):
    """A tool call begins. `index` tells apart calls whose argument fragments interleave."""

    index: int
    id: str
    name: str


class CallDelta(Value):
    """A fragment of the JSON text of a call's arguments."""

    index: int
    json: str


class UsageChunk(Value):
    """Token counts so far for this call; the last one stands. `cost` is filled in where the provider reports it."""

    usage: Usage


class Stopped(Value):
    """The response is complete. `raw` is the provider's own word."""

    reason: StopReason
    raw: str = ""


class Notice(Value):
    """Something a person should know: a retry, with the seconds until then; an option the wire lacks."""

    text: str
    wait: float = 0.0


class Restarted(Value):
    """The answer broke off and is asked for again: the chunks so far are void, what they cost was spent."""


Chunk = Started | TextChunk | ThinkingChunk | CallStart | CallDelta | UsageChunk | Stopped | Notice | Restarted


class PlainAnswer:
    """The words of an answer, and what it and the attempts before it used (None: not reported); also where it fails."""

    def __init__(self) -> None:
        self.text = ""
        self.usage: Usage | None = None
        self._earlier = Usage()

    def read(self, chunks: Iterable[Chunk]) -> None:
        """Take the chunks of one call. Raises what the transport raises."""
        for chunk in chunks:
            if isinstance(chunk, TextChunk):
                self.text += chunk.text
            elif isinstance(chunk, UsageChunk):
                self.usage = self._earlier + chunk.usage
            elif isinstance(chunk, Restarted):
                self.text, self._earlier = "", self.usage or Usage()


class ModelError(Exception):
    """A model call failed. `failure.kind` is one of the small set; `retry_after` is in seconds."""

    def __init__(self, failure: Failure, retry_after: float | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.retry_after = retry_after


class Transport(Protocol):
    """A wire. Raises ModelError, or Cancelled within 300 ms of the token being cancelled."""

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]: ...

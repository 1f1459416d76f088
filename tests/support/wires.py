"""The wires that the contract tests run over. A further wire is one more line in WIRES."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from agent_cli.kernel.messages import AssistantMessage, Message, Part, Text, Thinking, ToolCall, UserMessage
from agent_cli.kernel.results import Usage
from agent_cli.models.anthropic import AnthropicClient
from agent_cli.models.base import (
    Chunk,
    MessageStop,
    ModelClient,
    Notice,
    Request,
    Started,
    TextChunk,
    ThinkingChunk,
    ToolCallDelta,
    ToolCallStart,
    ToolSpec,
    UsageChunk,
)
from agent_cli.models.gemini import GeminiClient
from agent_cli.models.litellm import LiteLLMClient
from agent_cli.models.ollama import OllamaClient
from agent_cli.models.openai_chat import OpenAIChatClient
from agent_cli.models.openai_responses import OpenAIResponsesClient
from agent_tools.cancel import CancelToken
from agent_tools.net.http import Timeouts
from agent_tools.record import Value
from tests.support.model_replies import Protocol
from tests.support.model_server import ModelServer

READ = ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
WRITE = ToolSpec("Write", "Writes a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
TOOLS = (READ, WRITE)


class Wire(Value):
    """One wire: the protocol it speaks to the server, and how it is made from base URL, key and limits.

    strict: False where a library stands between us and the bytes, so that what it changes cannot be promised.
    """

    name: str
    protocol: Protocol
    make: Callable[[str, str, Timeouts], ModelClient]
    model: str = "test-model"
    strict: bool = True

    @property
    def history(self) -> str:
        """Where a request has the conversation."""
        return {"responses": "input", "gemini": "contents"}.get(self.protocol, "messages")

    @property
    def choice(self) -> str:
        """Where a request says whether tools may be called; Ollama has no option for it."""
        return {"gemini": "toolConfig", "ollama": "messages"}.get(self.protocol, "tool_choice")

    @property
    def sparse(self) -> bool:
        """Whether answers have no id, no counts of cached and reasoning tokens, and documents cannot be sent."""
        return self.protocol == "ollama"

    def open(self, server: ModelServer, timeouts: Timeouts | None = None) -> ModelClient:
        """A client of the server."""
        urls = {"anthropic": server.anthropic_url, "gemini": server.gemini_url}
        url = urls.get(self.protocol, server.openai_url)
        return self.make(url, "secret-key", timeouts or Timeouts())


WIRES = (
    Wire("openai", "openai", lambda url, key, limits: OpenAIChatClient(url, key, timeouts=limits)),
    Wire("responses", "responses", lambda url, key, limits: OpenAIResponsesClient(url, key, timeouts=limits)),
    Wire(
        "anthropic",
        "anthropic",
        lambda url, key, limits: AnthropicClient(url, key, timeouts=limits),
        "claude-sonnet-4-5",
    ),
    Wire("gemini", "gemini", lambda url, key, limits: GeminiClient(url, key, timeouts=limits), "gemini-3-pro-preview"),
    Wire("ollama", "ollama", lambda url, key, limits: OllamaClient(url, key, window=32_768, timeouts=limits)),
    Wire(
        "litellm-openai",
        "openai",
        lambda url, key, limits: LiteLLMClient("openai/test-model", key, url, timeouts=limits),
        strict=False,
    ),
    Wire(
        "litellm-anthropic",
        "anthropic",
        lambda url, key, limits: LiteLLMClient("anthropic/claude-sonnet-4-5", key, url, timeouts=limits),
        "claude-sonnet-4-5",
        strict=False,
    ),
)


class Answer(Value):
    """The chunks of an answer, assembled as the engine does."""

    chunks: tuple[Chunk, ...]
    parts: tuple[Part, ...]
    usage: Usage
    reason: str
    notices: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(p for p in self.parts if isinstance(p, ToolCall))

    @property
    def message(self) -> AssistantMessage:
        """What goes into the history."""
        started = next(c for c in self.chunks if isinstance(c, Started))
        return AssistantMessage(self.parts, self.reason, started.id, started.model)


def gathered(chunks: Iterable[Chunk]) -> Answer:
    """The whole answer."""
    seen: list[Chunk] = []
    parts: list[Any] = []
    calls: dict[int, list[str]] = {}
    usage, reason = Usage(), ""
    open_thought = False
    for chunk in chunks:
        seen.append(chunk)
        last = parts[-1] if parts else None
        if isinstance(chunk, TextChunk):
            if isinstance(last, Text) and last.phase == chunk.phase:
                parts[-1] = Text(last.text + chunk.text, last.phase)
            else:
                parts.append(Text(chunk.text, chunk.phase))
        elif isinstance(chunk, ThinkingChunk):
            if isinstance(last, Thinking) and open_thought and (chunk.provider or not (chunk.data or last.provider)):
                parts[-1] = Thinking(last.text + chunk.text, chunk.signature, chunk.data, chunk.provider)
            else:
                parts.append(Thinking(chunk.text, chunk.signature, chunk.data, chunk.provider))
            open_thought = not (chunk.signature or chunk.data)
        elif isinstance(chunk, ToolCallStart):
            assert chunk.index not in calls, "a call is announced once"
            calls[chunk.index] = [chunk.id, chunk.name, ""]
            parts.append(chunk.index)
        elif isinstance(chunk, ToolCallDelta):
            calls[chunk.index][2] += chunk.json
        elif isinstance(chunk, UsageChunk):
            usage = chunk.usage
        elif isinstance(chunk, MessageStop):
            assert not reason, "an answer ends once"
            reason = chunk.reason
    whole = [_call(*calls[p]) if isinstance(p, int) else p for p in parts]
    notices = tuple(c.text for c in seen if isinstance(c, Notice))
    return Answer(tuple(seen), tuple(whole), usage, reason, notices)


def _call(identity: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(identity, name, json.loads(arguments or "{}"))


def ask(wire: Wire, server: ModelServer, **changes: Any) -> Answer:
    """One question, one answer."""
    return gathered(wire.open(server).stream(request(wire, **changes), CancelToken()))


def request(wire: Wire, *messages: Message, **changes: Any) -> Request:
    """A small request; `changes` are its fields."""
    return Request(wire.model, "Be brief.", messages or (UserMessage("hi"),), TOOLS).replace(**changes)


every_wire = pytest.mark.parametrize(
    "wire", [pytest.param(w, id=w.name, marks=[] if w.strict else [pytest.mark.slow]) for w in WIRES]
)


def without_breakpoints(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_breakpoints(v) for k, v in value.items() if k != "cache_control"}
    return [without_breakpoints(v) for v in value] if isinstance(value, list) else value

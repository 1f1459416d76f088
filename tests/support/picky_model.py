"""A model whose provider refuses requests that contain something, with the words of a real one.

Also what such requests contain: images that differ, and tools of a server.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from agent_cli.kernel.messages import AssistantMessage, Thinking, ToolMessage, UserMessage
from agent_cli.kernel.results import Usage
from agent_cli.models.base import (
    Chunk,
    MessageStop,
    Request,
    Started,
    TextChunk,
    ThinkingChunk,
    ToolCallDelta,
    ToolCallStart,
    ToolSpec,
    UsageChunk,
)
from agent_cli.models.errors import error_for_status
from agent_cli.models.scripted import _check_results
from agent_tools.base import Effect, Tool, ToolContext, ToolResult
from agent_tools.cancel import CancelToken
from agent_tools.record import Value
from agent_tools.registry import BUILTIN
from agent_tools.results import Media, MediaKind

MEDIA: frozenset[MediaKind] = frozenset(("image", "pdf"))


def image(name: str, size: int = 90) -> Media:
    """An image with content of its own."""
    data = struct.pack(">8sI4sII", b"\x89PNG\r\n\x1a\n", 13, b"IHDR", 20, 20) + name.encode().ljust(size)
    return Media("image/png", base64.b64encode(data).decode(), name)


class Nothing(Value):
    pass


class ServerTool(Tool[Nothing]):
    """A tool of an MCP server."""

    Args = Nothing
    of_server = True

    def __init__(self, name: str) -> None:
        self.name = name

    def effects(self, args: Nothing, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: Nothing, ctx: ToolContext) -> str:
        return self.name

    def run(self, args: Nothing, ctx: ToolContext) -> ToolResult:
        return ToolResult("done")


TOOLS = (*BUILTIN, ServerTool("mcp__s__plain"), ServerTool("mcp__s__odd"))
SPECS = tuple(ToolSpec(t.name, t.name, {}) for t in TOOLS)

# Returns the provider's words, and the status if it is not 400; "" to accept.
Refusal = Callable[[Request], str | tuple[int, str]]


class PickyModel:
    """A model client. `replies` are as in a script, one for each request that is accepted; the last is repeated."""

    def __init__(self, refusal: Refusal, replies: Iterable[dict[str, Any]] = ({"text": "fine"},)) -> None:
        self.refusal = refusal
        self.requests: list[Request] = []
        self.accepted: list[Request] = []
        self._replies = list(replies)

    @property
    def refused(self) -> int:
        return len(self.requests) - len(self.accepted)

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        _check_results(request)
        self.requests.append(request)
        if refused := self.refusal(request):
            status, words = refused if isinstance(refused, tuple) else (400, refused)
            body = json.dumps({"error": {"message": words}}).encode()
            raise error_for_status(status, body, lambda name: "", provider="Picky", model=request.model, now=0.0)
        self.accepted.append(request)
        return self._answer(self._replies[min(len(self.accepted), len(self._replies)) - 1])

    def _answer(self, reply: dict[str, Any]) -> Iterator[Chunk]:
        number = len(self.accepted)
        yield Started(f"reply-{number}", "picky")
        if thought := reply.get("thinking"):
            yield ThinkingChunk(thought, signature=f"signature-{number}")
        if text := reply.get("text"):
            yield TextChunk(text)
        calls = reply.get("calls", ())
        for index, made in enumerate(calls):
            yield ToolCallStart(index, f"c{number}-{index}", made["name"])
            yield ToolCallDelta(index, json.dumps(made["arguments"]))
        yield UsageChunk(Usage(input=100, output=10))
        yield MessageStop("tool_use" if calls else "end_turn")


def signatures(request: Request) -> list[str]:
    """The signed reasoning in a request."""
    answers = (m for m in request.messages if isinstance(m, AssistantMessage))
    return [p.signature for m in answers for p in m.parts if isinstance(p, Thinking)]


def names_of_media(request: Request) -> list[str]:
    """The images and documents in a request."""
    return [item.name for m in request.messages if isinstance(m, (UserMessage, ToolMessage)) for item in m.media]


def tool_names(request: Request) -> list[str]:
    return [tool.name for tool in request.tools]

"""A model that replays a script, for demos, docs and tests.

A script is TOML: a list of `[[reply]]` tables, one per request, each with any of

    thinking = "..."                 text = "..."
    calls    = [{ name = "Read", arguments = { file_path = "a.py" } }]
    expect   = "words that must have come since the last answer"
    usage    = { input = 900, output = 40 }
    stop     = "max_tokens"          pause = 0.5   (seconds before each chunk)
    error    = { kind = "overloaded", message = "...", retryable = true }

`[[small]]` tables are the replies to side questions (one message, no tools), in order.

It is strict: a request past the end, an unmet `expect`, or a history in which a call does not have exactly one result
is a ModelError of kind "script". The next reply is found from the history, so a resumed session continues where it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

from agent_cli.kernel.messages import AssistantMessage, ToolMessage
from agent_cli.kernel.results import Failure, Usage
from agent_cli.models.base import (
    Chunk,
    MessageStop,
    ModelError,
    Request,
    Started,
    StopReason,
    TextChunk,
    ThinkingChunk,
    ToolCallDelta,
    ToolCallStart,
    UsageChunk,
)
from agent_tools.cancel import CancelToken
from agent_tools.fs.safe_files import read_text

_MAX_FILE_BYTES = 64 << 20
KEYS = {"thinking", "text", "calls", "expect", "usage", "stop", "pause", "error"}


class ScriptedClient:
    """A client over a list of replies.

    name: the model name that it reports.
    requests: the requests so far.
    small: replies to side questions.
    """

    def __init__(
        self, replies: list[dict[str, Any]], name: str = "scripted", small: Iterable[dict[str, Any]] = ()
    ) -> None:
        self.replies = replies
        self.small = list(small)
        self.name = name
        self.requests: list[Request] = []
        self._unseen = 0

    @classmethod
    def load(cls, path: Path) -> ScriptedClient:
        """Read a script file. Raises ModelError naming the file and the error."""
        import tomllib

        try:
            script = tomllib.loads(read_text(path, _MAX_FILE_BYTES))
        except OSError as error:
            raise _script_error(f"The script {path} cannot be read: {error.strerror}.") from None
        except ValueError as error:
            raise _script_error(f"The script {path} is not TOML: {error}.") from None
        replies, small = script.get("reply", []), script.get("small", [])
        if not all(isinstance(found, list) and all(isinstance(r, dict) for r in found) for found in (replies, small)):
            raise _script_error(f"The script {path} has no list of tables [[reply]].")
        for number, reply in enumerate([*replies, *small], 1):
            if unknown := reply.keys() - KEYS:
                raise _script_error(f"{path}: reply {number} has unknown keys: {', '.join(sorted(unknown))}")
        return cls(replies, f"scripted:{path.stem}", small)

    def stream(self, request: Request, cancel: CancelToken) -> Iterator[Chunk]:
        self.requests.append(request)
        _check_results(request)
        if self.small and (request.aside or (not request.tools and len(request.messages) == 1)):
            return self._reply(self.small.pop(0), 1, request, cancel, counts=False)
        if request.aside:
            raise _script_error(f"The script {self.name} has no [[small]] reply for a side question.")
        spoken = request.earlier + sum(
            isinstance(m, AssistantMessage) and m.model == self.name for m in request.messages
        )
        number = spoken + self._unseen
        if number >= len(self.replies):
            raise _script_error(
                f"The script {self.name} has {len(self.replies)} replies, and request {number + 1} came."
            )
        return self._reply(self.replies[number], number + 1, request, cancel)

    def _reply(
        self, reply: dict[str, Any], number: int, request: Request, cancel: CancelToken, *, counts: bool = True
    ) -> Iterator[Chunk]:
        new = list(takewhile(lambda m: not isinstance(m, AssistantMessage), reversed(request.messages)))
        newest = "\n".join(getattr(message, "text", "") for message in reversed(new))
        if reply.get("expect", "") not in newest:
            raise _script_error(f"Reply {number} of {self.name} expects {reply['expect']!r} in the newest messages, "
                           f"which are {newest[:200]!r}.")  # fmt: skip
        yield Started(f"reply-{number}", self.name)
        for chunk in _chunks(reply, number):
            if pause := reply.get("pause", 0):
                cancel.wait(pause)
            cancel.check()
            yield chunk
        if counts and not (
            reply.get("text") or ("error" not in reply and (reply.get("calls") or reply.get("thinking")))
        ):
            self._unseen += 1  # it adds no message to the history that could be counted
        if error := reply.get("error"):
            raise ModelError(Failure(error["kind"], error.get("message", "scripted"), error.get("retryable", False)))
        yield UsageChunk(Usage(**reply.get("usage", {})))
        stop = cast(StopReason, reply.get("stop", "tool_use" if reply.get("calls") else "end_turn"))
        yield MessageStop(stop, stop)


def _chunks(reply: dict[str, Any], number: int) -> Iterator[Chunk]:
    """Yield the chunks that a provider would send: text by words, arguments whole."""
    if thinking := reply.get("thinking"):
        yield ThinkingChunk(thinking)
        yield ThinkingChunk(signature=f"signature-{number}")
    text = reply.get("text", "")
    start = 0
    while start < len(text):
        end = text.find(" ", start + 1)
        end = len(text) if end < 0 else end
        yield TextChunk(text[start:end])
        start = end
    for index, call in enumerate(reply.get("calls", ())):
        yield ToolCallStart(index, call.get("id", f"call-{number}-{index + 1}"), call["name"])
        arguments = call.get("arguments", {})
        yield ToolCallDelta(index, arguments if isinstance(arguments, str) else json.dumps(arguments))


def _check_results(request: Request) -> None:
    """Raise ModelError unless every call before the newest message has one result, and every result a call."""
    open_calls: set[str] = set()
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            if open_calls:
                raise _script_error(f"Calls without a result: {', '.join(sorted(open_calls))}")
            open_calls = {c.id for c in message.calls}
        elif isinstance(message, ToolMessage):
            if message.call_id not in open_calls:
                raise _script_error(f"A result without an open call: {message.call_id}")
            open_calls.discard(message.call_id)
    if open_calls:
        raise _script_error(f"Calls without a result: {', '.join(sorted(open_calls))}")


def _script_error(message: str) -> ModelError:
    return ModelError(Failure("script", message))

"""Read a Chat Completions answer: JSON objects in, chunks out, for the many servers that follow the protocol loosely.

A complete answer is read like a stream of one delta. Tool calls are distinguished by index, or by id if the index is
missing or always the same; a call without an id gets one. Arguments under an index that no call has, as some gateways
send them, belong to the call that began last and has no complete arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Literal

from agent_cli.kernel.results import Usage
from agent_cli.models.base import (
    Chunk,
    PromptProgress,
    Started,
    TextChunk,
    ThinkingChunk,
    ToolCallDelta,
    ToolCallStart,
    UsageChunk,
    message_stop,
)
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.models import errors  # few answers have one

_OPENING, _CLOSING = "<think>", "</think>"
# How many characters of the closing tag may be at the end of a piece.
_CUTS = range(len(_CLOSING) - 1, 0, -1)


def _progress(reported: dict[str, Any]) -> PromptProgress | None:
    """Read llama.cpp's report on a prompt, not counting what it had cached."""
    read, total, cached = (reported.get(name) for name in ("processed", "total", "cache"))
    if not (isinstance(read, int) and isinstance(total, int) and isinstance(cached, int)):
        return None
    return PromptProgress(read - cached, total - cached) if cached <= read <= total and total > cached else None


class _Call:
    """A call while it is received. It is announced once its name is known."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.announced = False

    @property
    def complete(self) -> bool:
        """True if the arguments are a whole object."""
        if not self.arguments or not self.arguments[-1].rstrip().endswith("}"):
            return False
        try:
            return isinstance(json.loads("".join(self.arguments)), dict)
        except (ValueError, RecursionError):
            return False


class ThinkTags:
    """Splits content that begins with reasoning in tags, as sent by servers that do not separate it.

    done: everything from now on is text.
    """

    def __init__(self, returned_to: str) -> None:
        self.done = False
        self._returned_to = returned_to
        self._place: Literal["before", "opened", "inside", "behind"] = "before"
        self._pending = ""

    def read(self, text: str) -> Iterator[Chunk]:
        """Yield the chunks of a piece of content; hold back what may be part of a tag."""
        if self.done:
            yield TextChunk(text)
            return
        text, self._pending = self._pending + text, ""
        if self._place == "before":
            stripped = text.lstrip()
            if stripped.startswith(_OPENING):
                self._place, text = "opened", stripped[len(_OPENING) :]
            elif _OPENING.startswith(stripped):
                self._pending = text
                return
            else:
                self.done = True
                yield TextChunk(text)
                return
        if self._place in ("opened", "behind"):
            text = text.lstrip("\n")
        if self._place == "opened" and text:
            self._place = "inside"
        if self._place == "inside":
            thought, closing, rest = text.partition(_CLOSING)
            kept = 0 if closing else next((n for n in _CUTS if thought.endswith(_CLOSING[:n])), 0)
            thought, self._pending = thought[: len(thought) - kept], thought[len(thought) - kept :]
            if thought:
                yield ThinkingChunk(thought, provider=self._returned_to)
            if not closing:
                return
            self._place, text = "behind", rest.lstrip("\n")
        if text and self._place == "behind":
            self.done = True
            yield TextChunk(text)

    def end(self) -> Iterator[Chunk]:
        """Yield what was held back."""
        pending, self._pending = self._pending, ""
        if pending:
            yield ThinkingChunk(pending, provider=self._returned_to) if self._place == "inside" else TextChunk(pending)


class ChatReader:
    """Reads one answer.

    first_call: returns a number for the first call that comes without an id.
    returned_to: the provider that gets the reasoning back, if any.
    """

    def __init__(self, provider: str, model: str, first_call: Callable[[], int], returned_to: str = "") -> None:
        self.finished = False
        self._provider = provider
        self._model = model
        self._first_call = first_call
        self._returned_to = returned_to
        self._details: list[dict[str, Any]] = []
        self._started = False
        self._raw = ""
        self._refused = False
        self._calls: list[_Call] = []
        self._by_slot: dict[int, _Call] = {}
        # Indices of calls that began under another one.
        self._borrowed: list[int] = []
        self._tags = ThinkTags(returned_to)

    def read(self, event: dict[str, Any]) -> Iterator[Chunk]:
        """Yield the chunks of one JSON object. Raises ModelError for an `error` object."""
        if event.get("error"):
            raise errors.error_in_stream(event["error"], provider=self._provider, model=self._model)
        if "done" in event:
            self.finished = True
            return
        choices = event.get("choices")
        if not self._started and choices is not None:
            self._started = True
            yield Started(str(event.get("id") or ""), str(event.get("model") or self._model))
        progress = event.get("prompt_progress")
        if progress.__class__ is dict and (progress := _progress(progress)) is not None:
            yield progress
            return
        # Only one answer is requested.
        if choices and not (choice := choices[0]).get("index"):
            delta = choice.get("delta") or choice.get("message")
            if delta:
                content = delta.get("content")
                if content.__class__ is str and content and len(delta) <= 2:
                    if self._tags.done:
                        yield TextChunk(content)
                    else:
                        yield from self._tags.read(content)
                else:
                    yield from self._read_delta(delta)
            reason = choice.get("finish_reason")
            if reason:
                if reason == "error":
                    raise errors.error_in_stream(choice, provider=self._provider, model=self._model)
                self._raw = str(reason)
                self.finished = True
            elif choice.get("message"):
                self.finished = True  # a whole answer, whose server gives no reason
        if usage := event.get("usage") or (event.get("x_groq") or {}).get("usage"):
            yield UsageChunk(openai_usage(usage))

    def end(self) -> Iterator[Chunk]:
        """Yield the last chunk, after everything was read."""
        yield from self._tags.end()
        if self._details and self._returned_to:
            yield ThinkingChunk(data=json.dumps(self._details, ensure_ascii=False), provider=self._returned_to)
        for call in self._calls:
            if not call.announced:
                yield from self._announce(call)
        end = message_stop(self._raw, calls=bool(self._calls), provider=self._provider)
        yield end.replace(reason="refusal") if self._refused and end.reason == "end_turn" else end

    def _read_delta(self, delta: dict[str, Any]) -> Iterator[Chunk]:
        thinking = delta.get("reasoning_content") or delta.get("reasoning")
        if thinking and isinstance(thinking, str):
            yield ThinkingChunk(thinking, provider=self._returned_to)
        for piece in delta.get("reasoning_details") or ():
            self._read_detail(piece)
        content = delta.get("content")
        if isinstance(content, str):
            if content:
                yield from self._tags.read(content)
        elif isinstance(content, list):
            yield from self._parts(content)
        if refusal := delta.get("refusal"):
            self._refused = True
            yield TextChunk(str(refusal))
        # Some servers send one without a name with every answer.
        old = {k: v for k, v in (delta.get("function_call") or {}).items() if v}
        if delta.get("tool_calls") or old:
            yield from self._tags.end()
        for piece in delta.get("tool_calls") or ():
            yield from self._read_call(piece)
        if old:
            yield from self._read_call({"index": 0, "function": old})

    def _read_detail(self, piece: dict[str, Any]) -> None:
        """Append to the last block of reasoning, or begin the next one."""
        last = self._details[-1] if self._details else {}
        if any(last.get(key) != piece.get(key) for key in ("type", "index")):
            self._details.append(dict(piece))
            return
        for key, value in piece.items():
            if key in ("text", "summary", "data") and isinstance(value, str) and isinstance(last.get(key), str):
                last[key] += value
            elif value is not None:
                last[key] = value

    def _parts(self, content: list[Any]) -> Iterator[Chunk]:
        """Yield the chunks of content that is a list of typed parts, as Mistral sends reasoning."""
        for part in content:
            if not isinstance(part, dict):
                continue
            if isinstance(text := part.get("text"), str) and text:
                yield TextChunk(text)
            for thought in part.get("thinking") or ():
                if isinstance(thought, dict) and thought.get("text"):
                    yield ThinkingChunk(str(thought["text"]), provider=self._returned_to)

    def _read_call(self, piece: dict[str, Any]) -> Iterator[Chunk]:
        function = piece.get("function") or {}
        identity, name = str(piece.get("id") or ""), str(function.get("name") or "")
        slot = piece.get("index")
        if slot is None:
            call = self._calls[-1] if self._calls else None
            fresh = call is None or (bool(name) and call.announced and (not identity or identity != call.id))
        else:
            call = self._by_slot.get(slot)
            # Some servers number every parallel call 0.
            fresh = call is None or (bool(name) and bool(identity) and bool(call.id) and identity != call.id)
            if call is None and (call := self._open_call(identity, name)) is not None:
                self._by_slot[slot], fresh = call, False
                self._borrowed.append(slot)
        if call is None or fresh:
            if not (identity or name or function.get("arguments")):
                return
            call = _Call(len(self._calls))
            self._calls.append(call)
            for borrowed in self._borrowed:
                del self._by_slot[borrowed]
            self._borrowed = []
            if slot is not None:
                self._by_slot[slot] = call
        if not call.announced:
            call.id = call.id or identity
            call.name = call.name or name
        arguments = function.get("arguments")
        if arguments and not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if arguments == "{}" and not call.arguments:
            arguments = ""  # nothing yet, at some gateways
        if arguments:
            call.arguments.append(arguments)
        if call.announced:
            if arguments:
                yield ToolCallDelta(call.index, arguments)
        elif call.name:
            yield from self._announce(call)

    def _open_call(self, identity: str, name: str) -> _Call | None:
        """Return the call that a piece under an unknown index belongs to: with its id, or else the last open one."""
        own = next((call for call in self._calls if identity and call.id == identity and not call.complete), None)
        if own is not None or not name:
            return own or next((call for call in reversed(self._calls) if not call.complete), None)
        return next((call for call in self._calls[-1:] if not call.name and (not call.id or not identity)), None)

    def _announce(self, call: _Call) -> Iterator[Chunk]:
        call.announced = True
        yield ToolCallStart(call.index, call.id or f"call_{self._first_call() + call.index}", call.name)
        if call.arguments:
            yield ToolCallDelta(call.index, "".join(call.arguments))


def _cost(value: Any) -> float:
    # Perplexity also reports the parts of the cost.
    return float((value.get("total_cost") if isinstance(value, dict) else value) or 0.0)


def openai_usage(report: dict[str, Any]) -> Usage:
    """Convert the token counts from any of the forms in which they are reported."""
    prompt = report.get("prompt_tokens_details") or {}
    completion = report.get("completion_tokens_details") or {}
    given = report.get("prompt_tokens") or 0
    made = report.get("completion_tokens") or 0
    reasoning = completion.get("reasoning_tokens") or 0
    # Some exclude reasoning from the completion tokens; only the total shows it.
    if reasoning and report.get("total_tokens") == given + made + reasoning:
        made += reasoning
    return Usage(
        input=given,
        output=made,
        reasoning=reasoning,
        cache_read=prompt.get("cached_tokens") or report.get("prompt_cache_hit_tokens") or 0,
        cache_write=prompt.get("cache_write_tokens") or 0,
        cost=_cost(report.get("cost")),
    )

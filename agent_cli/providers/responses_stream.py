"""Reading an answer of the Responses API: JSON objects in, chunks out.

An answer is a list of items (reasoning, messages, calls), each announced, sent in pieces and sent again as a whole. The
pieces are what is passed on; the whole fills in what a server sent no pieces of. Items are told apart by their id, or
by their place in the answer where a server gives each event another id. A complete answer is read as its items.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agent_cli.core.results import Usage
from agent_cli.providers.base import (
    Chunk,
    MessageStop,
    ModelError,
    Started,
    TextChunk,
    ThinkingChunk,
    ToolCallDelta,
    ToolCallStart,
    UsageChunk,
    stopped,
)
from agent_cli.providers.errors import malformed, refusal_in_stream

_NOWHERE = -1
CALLS = ("function_call", "custom_tool_call")


class _Item:
    """An item being received. index: of a call, as it was announced; -1 before. heard: some of it was passed on.

    part: which part of the reasoning came last. argument: of a call in plain text, the argument that the text is.
    """

    __slots__ = ("argument", "closed", "heard", "index", "kind", "part", "phase")

    def __init__(self, kind: str, phase: str) -> None:
        self.kind = kind
        self.phase = phase
        self.index = -1
        self.argument = ""
        self.part: Any = None
        self.heard = False
        self.closed = False


class ResponsesReader:
    """One answer. `freeform`: the tools whose input is plain text, and the argument that has it."""

    def __init__(self, provider: str, model: str, freeform: Mapping[str, str]) -> None:
        self.finished = False
        self._provider = provider
        self._model = model
        self._freeform = freeform
        self._started = False
        self._raw = ""
        self._refused = False
        self._thinking = False
        self._spoke = False
        self._calls = 0
        # By id and by place.
        self._items: dict[str | int, _Item] = {}

    def read(self, event: dict[str, Any]) -> Iterator[Chunk]:
        """The chunks of one JSON object. Raises ModelError for an error."""
        kind = event.get("type")
        if kind == "response.output_text.delta":
            if text := event.get("delta"):
                item = self._item(event) or self._opened("message", event)
                if not item.heard:
                    text = self._paragraph(item) + text
                yield TextChunk(text, item.phase) if item.phase else TextChunk(text)
        elif (handler := _HANDLERS.get(kind or "")) is not None:
            yield from handler(self, event)
        elif event.get("error") or kind == "error":
            raise self._error(event.get("error") or event)
        elif "output" in event and kind is None:
            yield from self._end({"response": event})

    def end(self) -> Iterator[Chunk]:
        """The last chunk, after everything was read."""
        # A plain end has no word of its own here, and needs none.
        reason = stopped(self._raw, calls=bool(self._calls), provider=self._provider)
        refused = self._refused and reason.reason == "end_turn"
        yield MessageStop("refusal", "refusal") if refused else reason

    def _error(self, error: Any) -> ModelError:
        return refusal_in_stream(error, provider=self._provider, model=self._model)

    def _item(self, event: dict[str, Any]) -> _Item | None:
        """The item that an event is about."""
        return self._items.get(event.get("item_id") or "") or self._items.get(event.get("output_index", _NOWHERE))

    def _opened(self, kind: str, event: dict[str, Any], phase: Any = None) -> _Item:
        """A new item, known by what an event says of it."""
        item = _Item(kind, str(phase or ""))
        identity, place = event.get("item_id"), event.get("output_index")
        if identity:
            self._items[str(identity)] = item
        if place is not None or not identity:
            self._items[_NOWHERE if place is None else int(place)] = item
        if kind != "reasoning":
            self._thinking = False
        return item

    def _begin(self, event: dict[str, Any]) -> Iterator[Chunk]:
        response = event.get("response") or {}
        if not self._started:
            self._started = True
            yield Started(str(response.get("id") or ""), str(response.get("model") or self._model))

    def _added(self, event: dict[str, Any]) -> Iterator[Chunk]:
        whole = event.get("item") or {}
        where = {"item_id": whole.get("id"), "output_index": event.get("output_index")}
        item = self._opened(str(whole.get("type") or ""), where, whole.get("phase"))
        yield from self._announced(item, whole)

    def _announced(self, item: _Item, whole: dict[str, Any]) -> Iterator[Chunk]:
        """The beginning of a call, once its name is known."""
        name = str(whole.get("name") or "")
        if item.kind not in CALLS or item.index >= 0 or not name:
            return
        item.index, self._calls = self._calls, self._calls + 1
        if item.kind == "custom_tool_call":
            item.argument = self._freeform.get(name, "input")
        yield ToolCallStart(item.index, str(whole.get("call_id") or whole.get("id") or f"call_{item.index}"), name)

    def _arguments(self, event: dict[str, Any]) -> Iterator[Chunk]:
        item, text = self._item(event), event.get("delta")
        if item is not None and item.index >= 0 and text and not item.closed:
            yield from self._arguments_of(item, text)

    def _arguments_of(self, item: _Item, text: str) -> Iterator[Chunk]:
        """A piece of a call's input; plain text becomes the one argument of a JSON object."""
        if item.argument:
            begun = "" if item.heard else f'{{{json.dumps(item.argument)}:"'
            text = begun + json.dumps(text, ensure_ascii=False)[1:-1]
        item.heard = True
        yield ToolCallDelta(item.index, text)

    def _thought(self, event: dict[str, Any]) -> Iterator[Chunk]:
        if not (text := event.get("delta")):
            return
        item = self._item(event) or self._opened("reasoning", event)
        yield self._reasoned(item, text, event["type"], event.get("summary_index", event.get("content_index")))

    def _reasoned(self, item: _Item, text: str, kind: str, part: Any = 0) -> ThinkingChunk:
        # Parts, and items that nothing else stands between, are paragraphs.
        if (item.heard and part != item.part) or (not item.heard and self._thinking):
            text = "\n\n" + text
        item.part, item.heard, self._thinking = part, True, True
        # Reasoning in clear goes back to the provider that made it; a summary does so with what it comes from.
        return ThinkingChunk(text) if "summary" in kind else ThinkingChunk(text, provider=self._provider)

    def _refusal(self, event: dict[str, Any]) -> Iterator[Chunk]:
        self._refused = True
        if text := event.get("delta"):
            item = self._item(event) or self._opened("message", event)
            yield TextChunk(text if item.heard else self._paragraph(item) + text)

    def _done(self, event: dict[str, Any]) -> Iterator[Chunk]:
        whole = event["item"]
        where = {"item_id": whole.get("id"), "output_index": event.get("output_index")}
        item = self._item(where)
        if item is None:
            item = self._opened(str(whole.get("type") or ""), where, whole.get("phase"))
        yield from self._filled(item, whole)

    def _filled(self, item: _Item, whole: dict[str, Any]) -> Iterator[Chunk]:
        """What an item has that was not passed on yet."""
        if item.closed:
            return
        item.closed = True
        if item.kind in CALLS:
            yield from self._announced(item, whole)
            yield from self._whole_call(item, whole)
        elif item.kind == "message" and not item.heard:
            item.phase = str(whole.get("phase") or "")
            if text := "".join(map(self._part, whole.get("content") or ())):
                text = self._paragraph(item) + text
                yield TextChunk(text, item.phase) if item.phase else TextChunk(text)
        elif item.kind == "reasoning":
            yield from self._whole_thought(item, whole)

    def _whole_call(self, item: _Item, whole: dict[str, Any]) -> Iterator[Chunk]:
        if item.index < 0:
            return
        arguments = whole.get("input" if item.argument else "arguments")
        if not item.heard and (arguments or item.argument):
            arguments = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            yield from self._arguments_of(item, arguments)
        if item.argument:
            yield ToolCallDelta(item.index, '"}')

    def _part(self, part: dict[str, Any]) -> str:
        if part.get("type") == "refusal":
            self._refused = True
            return str(part.get("refusal") or "")
        return part.get("text") or ""

    def _paragraph(self, item: _Item) -> str:
        """What a message begins with: the second one of an answer is a new paragraph."""
        item.heard = True
        begun, self._spoke = self._spoke, True
        return "\n\n" if begun else ""

    def _whole_thought(self, item: _Item, whole: dict[str, Any]) -> Iterator[Chunk]:
        if not item.heard:
            for name in ("summary", "content"):
                if texts := [text for part in whole.get(name) or () if (text := part.get("text"))]:
                    yield self._reasoned(item, "\n\n".join(texts), name)
                    break
        if data := whole.get("encrypted_content"):
            yield ThinkingChunk(data=data, provider=self._provider)
            self._thinking = False

    def _end(self, event: dict[str, Any]) -> Iterator[Chunk]:
        yield from self._begin(event)
        response = event.get("response") or {}
        output = response.get("output") or ()
        fresh = not self._items
        for place, whole in enumerate(output):
            if fresh:
                yield from self._done({"item": whole, "output_index": place})
            elif (item := self._items.get(whole.get("id") or "")) is not None:
                yield from self._filled(item, whole)
        if report := response.get("usage"):
            yield UsageChunk(responses_usage(report))
        status = str(response.get("status") or str(event.get("type") or "").removeprefix("response."))
        if status in ("failed", "cancelled") or response.get("error"):
            raise self._error(response.get("error") or {"message": f"the response was {status}"})
        if status in ("queued", "in_progress"):
            raise malformed(f"{self._provider} sent a response that is not finished ({status}).")
        if status == "incomplete":
            self._raw = str((response.get("incomplete_details") or {}).get("reason") or status)
        self.finished = True


_HANDLERS: dict[Any, Callable[[ResponsesReader, dict[str, Any]], Iterator[Chunk]]] = {
    "response.created": ResponsesReader._begin,
    "response.queued": ResponsesReader._begin,
    "response.in_progress": ResponsesReader._begin,
    "response.output_item.added": ResponsesReader._added,
    "response.output_item.done": ResponsesReader._done,
    "response.refusal.delta": ResponsesReader._refusal,
    "response.function_call_arguments.delta": ResponsesReader._arguments,
    "response.custom_tool_call_input.delta": ResponsesReader._arguments,
    "response.reasoning_summary_text.delta": ResponsesReader._thought,
    "response.reasoning_text.delta": ResponsesReader._thought,
    "response.reasoning_summary.delta": ResponsesReader._thought,
    "response.reasoning.delta": ResponsesReader._thought,
    "response.completed": ResponsesReader._end,
    "response.incomplete": ResponsesReader._end,
    "response.failed": ResponsesReader._end,
    "response.cancelled": ResponsesReader._end,
}


def responses_usage(report: dict[str, Any]) -> Usage:
    """Token counts in our terms."""
    given = report.get("input_tokens_details") or {}
    made = report.get("output_tokens_details") or {}
    return Usage(
        input=report.get("input_tokens") or 0,
        output=report.get("output_tokens") or 0,
        reasoning=made.get("reasoning_tokens") or 0,
        cache_read=given.get("cached_tokens") or 0,
        cache_write=given.get("cache_write_tokens") or 0,
        cost=float(report.get("cost") or 0.0),
    )

"""Read an answer of the Responses API: JSON objects in, chunks out.

An answer is a list of items (reasoning, messages, calls), each announced, sent in pieces and sent again as a whole. The
pieces are passed on; the whole fills in what no pieces were sent of. Items are distinguished by their id, or by their
position in the answer if a server gives each event another id. A complete answer is read as its items.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agent_cli.kernel.results import Usage
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
from agent_cli.models.errors import error_in_stream, malformed

_NO_INDEX = -1
CALLS = ("function_call", "custom_tool_call")


class _Item:
    """An item while it is received.

    index: of a call, as it was announced; -1 before.
    call_id: of a call.
    pieces: its arguments so far.
    started: some of it was passed on.
    part: the latest part of the reasoning.
    argument: for a call in plain text, the argument that the text belongs to.
    """

    __slots__ = ("argument", "call_id", "closed", "index", "kind", "part", "phase", "pieces", "started")

    def __init__(self, kind: str, phase: str) -> None:
        self.kind = kind
        self.phase = phase
        self.index = -1
        self.call_id = self.argument = ""
        self.pieces: list[str] = []
        self.part: Any = None
        self.started = False
        self.closed = False

    @property
    def complete(self) -> bool:
        """True for a call with all its arguments."""
        if self.closed or self.argument or not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return self.closed
        try:
            return isinstance(json.loads("".join(self.pieces)), dict)
        except (ValueError, RecursionError):
            return False


class ResponsesReader:
    """Reads one answer.

    freeform: the tools whose input is plain text, each with the argument that contains it.
    """

    def __init__(self, provider: str, model: str, freeform: Mapping[str, str]) -> None:
        self.finished = False
        self._provider = provider
        self._model = model
        self._freeform = freeform
        self._started = False
        self._raw = ""
        self._refused = False
        self._thinking = False
        self._has_text = False
        # In the order in which they were announced.
        self._calls: list[_Item] = []
        # By id and by position.
        self._items: dict[str | int, _Item] = {}

    def read(self, event: dict[str, Any]) -> Iterator[Chunk]:
        """Yield the chunks of one JSON object. Raises ModelError for an error."""
        kind = event.get("type")
        if kind == "response.output_text.delta":
            if text := event.get("delta"):
                item = self._item(event) or self._add_item("message", event)
                if not item.started:
                    text = self._paragraph(item) + text
                yield TextChunk(text, item.phase) if item.phase else TextChunk(text)
        elif (handler := _HANDLERS.get(kind or "")) is not None:
            yield from handler(self, event)
        elif event.get("error") or kind == "error":
            raise self._error(event.get("error") or event)
        elif "output" in event and kind is None:
            yield from self._end({"response": event})

    def end(self) -> Iterator[Chunk]:
        """Yield the last chunk, after everything was read."""
        # A normal end has no reason here, and needs none.
        reason = message_stop(self._raw, calls=bool(self._calls), provider=self._provider)
        refused = self._refused and reason.reason == "end_turn"
        yield MessageStop("refusal", "refusal") if refused else reason

    def _error(self, error: Any) -> ModelError:
        return error_in_stream(error, provider=self._provider, model=self._model)

    def _item(self, event: dict[str, Any]) -> _Item | None:
        """Return the item that an event is about."""
        return self._items.get(event.get("item_id") or "") or self._items.get(event.get("output_index", _NO_INDEX))

    def _add_item(self, kind: str, event: dict[str, Any], phase: Any = None) -> _Item:
        """Add an item, identified by an event."""
        item = _Item(kind, str(phase or ""))
        identity, index = event.get("item_id"), event.get("output_index")
        if identity:
            self._items[str(identity)] = item
        if index is not None or not identity:
            self._items[_NO_INDEX if index is None else int(index)] = item
        if kind != "reasoning":
            self._thinking = False
        return item

    def _on_start(self, event: dict[str, Any]) -> Iterator[Chunk]:
        response = event.get("response") or {}
        if not self._started:
            self._started = True
            yield Started(str(response.get("id") or ""), str(response.get("model") or self._model))

    def _on_item_added(self, event: dict[str, Any]) -> Iterator[Chunk]:
        whole = event.get("item") or {}
        where = {"item_id": whole.get("id"), "output_index": event.get("output_index")}
        item = self._add_item(str(whole.get("type") or ""), where, whole.get("phase"))
        yield from self._announce_call(item, whole)

    def _announce_call(self, item: _Item, whole: dict[str, Any]) -> Iterator[Chunk]:
        """Announce a call once its name is known."""
        name = str(whole.get("name") or "")
        if item.kind not in CALLS or item.index >= 0 or not name:
            return
        item.index = len(self._calls)
        self._calls.append(item)
        if item.kind == "custom_tool_call":
            item.argument = self._freeform.get(name, "input")
        item.call_id = str(whole.get("call_id") or whole.get("id") or f"call_{item.index}")
        yield ToolCallStart(item.index, item.call_id, name)

    def _arguments(self, event: dict[str, Any]) -> Iterator[Chunk]:
        item, text = self._item(event), event.get("delta")
        if item is None or item.index < 0:
            item = self._adopt(event)
        if item is not None and text and not item.closed:
            yield from self._arguments_of(item, text)

    def _whole_arguments(self, event: dict[str, Any]) -> Iterator[Chunk]:
        """Yield the arguments of a call of which no piece was sent."""
        item, text = self._item(event), event.get("arguments", event.get("input"))
        if item is None or item.index < 0:
            item = self._adopt(event)
        if item is not None and text and not item.started and not item.closed:
            yield from self._arguments_of(item, text)

    def _adopt(self, event: dict[str, Any]) -> _Item | None:
        """Return the call that arguments under an unknown id and position belong to: the last that lacks some."""
        item = next((call for call in reversed(self._calls) if not call.complete), None)
        if item is not None:
            for key in (event.get("item_id"), event.get("output_index")):
                if key is not None:
                    self._items[key] = item
        return item

    def _arguments_of(self, item: _Item, text: str) -> Iterator[Chunk]:
        """Yield a piece of a call's input; plain text becomes the one argument of a JSON object."""
        item.pieces.append(text)
        if item.argument:
            opening = "" if item.started else f'{{{json.dumps(item.argument)}:"'
            text = opening + json.dumps(text, ensure_ascii=False)[1:-1]
        item.started = True
        yield ToolCallDelta(item.index, text)

    def _on_thinking(self, event: dict[str, Any]) -> Iterator[Chunk]:
        if not (text := event.get("delta")):
            return
        item = self._item(event) or self._add_item("reasoning", event)
        yield self._thinking_chunk(item, text, event["type"], event.get("summary_index", event.get("content_index")))

    def _thinking_chunk(self, item: _Item, text: str, kind: str, part: Any = 0) -> ThinkingChunk:
        # Parts, and adjacent items, are separate paragraphs.
        if (item.started and part != item.part) or (not item.started and self._thinking):
            text = "\n\n" + text
        item.part, item.started, self._thinking = part, True, True
        # Reasoning in clear is sent back to the provider that made it; a summary only with what it summarizes.
        return ThinkingChunk(text) if "summary" in kind else ThinkingChunk(text, provider=self._provider)

    def _refusal(self, event: dict[str, Any]) -> Iterator[Chunk]:
        self._refused = True
        if text := event.get("delta"):
            item = self._item(event) or self._add_item("message", event)
            yield TextChunk(text if item.started else self._paragraph(item) + text)

    def _on_item_done(self, event: dict[str, Any]) -> Iterator[Chunk]:
        whole = event["item"]
        where = {"item_id": whole.get("id"), "output_index": event.get("output_index")}
        item = self._item(where) or self._call_of(whole)
        if item is None:
            item = self._add_item(str(whole.get("type") or ""), where, whole.get("phase"))
        yield from self._complete_item(item, whole)

    def _call_of(self, whole: dict[str, Any]) -> _Item | None:
        """Return the call that a whole item repeats under another id and position; None for none."""
        if whole.get("type") not in CALLS or not whole.get("call_id"):
            return None
        return next((call for call in self._calls if call.call_id == whole["call_id"]), None)

    def _complete_item(self, item: _Item, whole: dict[str, Any]) -> Iterator[Chunk]:
        """Yield the parts of an item that were not passed on yet."""
        if item.closed:
            return
        item.closed = True
        if item.kind in CALLS:
            yield from self._announce_call(item, whole)
            yield from self._whole_call(item, whole)
        elif item.kind == "message" and not item.started:
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
        if not item.started and (arguments or item.argument):
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
        """Return the beginning of a message: the second one of an answer is a new paragraph."""
        item.started = True
        had_text, self._has_text = self._has_text, True
        return "\n\n" if had_text else ""

    def _whole_thought(self, item: _Item, whole: dict[str, Any]) -> Iterator[Chunk]:
        if not item.started:
            for name in ("summary", "content"):
                if texts := [text for part in whole.get(name) or () if (text := part.get("text"))]:
                    yield self._thinking_chunk(item, "\n\n".join(texts), name)
                    break
        if data := whole.get("encrypted_content"):
            yield ThinkingChunk(data=data, provider=self._provider)
            self._thinking = False

    def _end(self, event: dict[str, Any]) -> Iterator[Chunk]:
        yield from self._on_start(event)
        response = event.get("response") or {}
        output = response.get("output") or ()
        fresh = not self._items
        for index, whole in enumerate(output):
            if fresh:
                yield from self._on_item_done({"item": whole, "output_index": index})
            elif (item := self._items.get(whole.get("id") or "") or self._call_of(whole)) is not None:
                yield from self._complete_item(item, whole)
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
    "response.created": ResponsesReader._on_start,
    "response.queued": ResponsesReader._on_start,
    "response.in_progress": ResponsesReader._on_start,
    "response.output_item.added": ResponsesReader._on_item_added,
    "response.output_item.done": ResponsesReader._on_item_done,
    "response.refusal.delta": ResponsesReader._refusal,
    "response.function_call_arguments.delta": ResponsesReader._arguments,
    "response.custom_tool_call_input.delta": ResponsesReader._arguments,
    "response.function_call_arguments.done": ResponsesReader._whole_arguments,
    "response.custom_tool_call_input.done": ResponsesReader._whole_arguments,
    "response.reasoning_summary_text.delta": ResponsesReader._on_thinking,
    "response.reasoning_text.delta": ResponsesReader._on_thinking,
    "response.reasoning_summary.delta": ResponsesReader._on_thinking,
    "response.reasoning.delta": ResponsesReader._on_thinking,
    "response.completed": ResponsesReader._end,
    "response.incomplete": ResponsesReader._end,
    "response.failed": ResponsesReader._end,
    "response.cancelled": ResponsesReader._end,
}


def responses_usage(report: dict[str, Any]) -> Usage:
    """Convert the token counts."""
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

"""A streaming answer as the six stream events of the Messages API, whatever protocol it comes from.

Blocks are written in the order in which they begin, one at a time: if the arguments of two calls interleave, the second
call waits until the first is complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from agent_cli.core.messages import Part, Text, Thinking, ToolCall

Write = Callable[[dict[str, Any]], None]


class _Call:
    """A call whose arguments are arriving. sent: how many of its pieces were written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pieces: list[str] = []
        self.sent = 0

    @property
    def whole(self) -> bool:
        text = "".join(self.pieces)
        if not text.endswith("}"):
            return False
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return False
        return True


class PartialMessage:
    """The stream events of one message, from `message_start` to `message_stop`."""

    def __init__(self, write: Write, message_id: str, model: str, usage: dict[str, Any]) -> None:
        self._write = write
        self._count = 0
        # The kind of the open block, or the ID of its call.
        self._open = ""
        self._kinds: set[str] = set()
        self._calls: dict[str, _Call] = {}
        self._waiting: list[str] = []
        message: dict[str, Any] = {
            "id": message_id, "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        write({"type": "message_start", "message": message})

    def text(self, text: str) -> None:
        """Add a piece of text."""
        self._begin("text", {"type": "text", "text": ""})
        self._delta({"type": "text_delta", "text": text})

    def thinking(self, text: str) -> None:
        """Add a piece of thinking."""
        self._begin("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        self._delta({"type": "thinking_delta", "thinking": text})

    def signed(self, signature: str, data: str) -> None:
        """End the thinking with its signature; `data` makes a separate block."""
        if data:
            self._close()
            self._begin("redacted", {"type": "redacted_thinking", "data": data})
        else:
            self._begin("thinking", {"type": "thinking", "thinking": "", "signature": ""})
            self._delta({"type": "signature_delta", "signature": signature})
        self._close()

    def call(self, call_id: str, name: str) -> None:
        """Begin a call."""
        self._calls[call_id] = _Call(name)
        self._waiting.append(call_id)
        self._advance()

    def arguments(self, call_id: str, piece: str) -> None:
        """Add a piece of a call's arguments."""
        if call := self._calls.get(call_id):
            call.pieces.append(piece)
            self._advance()

    def finish(self, parts: Sequence[Part]) -> None:
        """Write the parts of the finished message that were not streamed, and close its last block."""
        self._advance(end=True)
        for part in parts:
            match part:
                case Text(text=text) if text and "text" not in self._kinds:
                    self._whole("text", {"type": "text", "text": ""}, {"type": "text_delta", "text": text})
                case Thinking(text=text, provider=provider) if text and provider and "thinking" not in self._kinds:
                    self.thinking(text)
                case ToolCall(id=call_id, name=name) if call_id not in self._calls:
                    self._calls[call_id] = _Call(name)
                    delta = {"type": "input_json_delta", "partial_json": json.dumps(part.arguments)}
                    self._whole(call_id, _tool_use(call_id, name), delta)
        self._close()

    def stop(self, stop_reason: str | None, usage: dict[str, Any]) -> None:
        """End the message."""
        self._advance(end=True)
        self._close()
        self._write(
            {
                "type": "message_delta",
                "delta": {"stop_reason": stop_reason, "stop_sequence": None},
                "usage": usage,
                "context_management": None,
            }
        )
        self._write({"type": "message_stop"})

    def _whole(self, kind: str, block: dict[str, Any], delta: dict[str, Any]) -> None:
        self._close()
        self._begin(kind, block)
        self._delta(delta)
        self._close()

    def _advance(self, *, end: bool = False) -> None:
        """Write the pieces of the open call, then of those that wait for it. end: no more pieces will arrive."""
        while self._waiting:
            call_id = self._waiting[0]
            call = self._calls[call_id]
            self._begin(call_id, _tool_use(call_id, call.name))
            for piece in call.pieces[call.sent :]:
                self._delta({"type": "input_json_delta", "partial_json": piece})
            call.sent = len(call.pieces)
            if not end and (len(self._waiting) == 1 or not call.whole):
                return
            self._waiting.pop(0)
            self._close()

    def _begin(self, kind: str, block: dict[str, Any]) -> None:
        if self._open == kind:
            return
        if self._open:
            if kind in ("text", "thinking"):
                self._advance(end=True)
            self._close()
        self._open = kind
        self._kinds.add(kind)
        self._write({"type": "content_block_start", "index": self._count, "content_block": block})

    def _delta(self, delta: dict[str, Any]) -> None:
        self._write({"type": "content_block_delta", "index": self._count, "delta": delta})

    def _close(self) -> None:
        if self._open:
            self._write({"type": "content_block_stop", "index": self._count})
            self._count += 1
            self._open = ""


def _tool_use(call_id: str, name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}

"""Rebuild from a log a history that every provider accepts, even if records are missing.

A call without a result gets one that reports the loss; a result without a call gets the call back from its log record;
a turn without its message begins with a placeholder. The saved part of an unfinished answer becomes a message, as
after an interruption.
"""

from __future__ import annotations

from agent_cli.core.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from agent_cli.session.records import Partial

LOST_RESULT = "The result of this call was lost: its record in the session file was damaged."
LOST_MESSAGE = "(A message was lost here: its record in the session file was damaged.)"
# Stop reason that the engine gives to an interrupted answer.
CUT = "interrupted"


class History:
    """Messages in log order. open: calls without a result yet, by id."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.open: dict[str, ToolCall] = {}
        self._answered: set[str] = set()
        self._told_of: dict[str, ToolCall] = {}
        self._partial = ""
        self._gap = False

    def add(self, message: Message) -> None:
        if isinstance(message, AssistantMessage):
            self._partial = ""
            self._answer_open()
            self.open.update((call.id, call) for call in message.calls)
        else:
            self.flush()
            if isinstance(message, UserMessage):
                self._answer_open()
            elif message.call_id in self.open:
                self._answered.add(message.call_id)
                del self.open[message.call_id]
            elif message.call_id in self._answered:
                return
            else:
                self._call_again(message)
        self._put(message)

    def called(self, call: ToolCall) -> None:
        """Record a requested call, in case the message that requests it was lost."""
        self._told_of[call.id] = call

    def came(self, piece: Partial) -> None:
        """Append a piece of an unfinished answer."""
        self._partial = self._partial + piece.text if piece.start else piece.text

    def lost(self) -> None:
        """Note that records are missing at this point."""
        self._gap = True

    def turn_started(self) -> None:
        """Handle the start of a turn, on a user message or on open calls."""
        self.flush()
        if self._gap and not self.open and not (self.messages and isinstance(self.messages[-1], UserMessage)):
            self._put(UserMessage(LOST_MESSAGE))

    def rewind(self, messages: int) -> None:
        """Cut the history back to its first `messages` messages."""
        self.flush()
        del self.messages[messages:]
        self.open.clear()

    def flush(self) -> None:
        """Turn an unfinished answer into a message: no more of it will come."""
        text, self._partial = self._partial, ""
        if text.strip():
            self.add(AssistantMessage((Text(text),), CUT))

    def end(self) -> tuple[Message, ...]:
        """Return the whole history; calls at its end may be open."""
        self.flush()
        return tuple(self.messages)

    def _put(self, message: Message) -> None:
        if not self.messages and not isinstance(message, UserMessage):
            # Now rather than at the end, so that later records refer to messages by the right index.
            self.messages.append(UserMessage(LOST_MESSAGE))
        self.messages.append(message)
        self._gap = False

    def _answer_open(self) -> None:
        for call in self.open.values():
            self._put(ToolMessage(call.id, call.name, LOST_RESULT, is_error=True))
        self._answered |= self.open.keys()
        self.open.clear()

    def _call_again(self, result: ToolMessage) -> None:
        """Insert the call of this result before it; its message was lost."""
        self._answer_open()
        call = self._told_of.get(result.call_id) or ToolCall(result.call_id, result.name, {})
        self._answered.add(call.id)
        self._put(AssistantMessage((call,)))

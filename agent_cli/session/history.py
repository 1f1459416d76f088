"""The messages of a log as a history that every provider takes, also where records between them were lost.

A call whose result is missing gets one that says so; a result whose call is missing gets its call back, from what was
logged about it; a turn whose message is missing begins with a line in its place. Of an answer that never came to its
end, what was saved is a message of its own, as after an interruption.
"""

from __future__ import annotations

from agent_cli.core.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from agent_cli.session.records import Partial

LOST_RESULT = "The result of this call was lost: its record in the session file was damaged."
LOST_MESSAGE = "(A message was lost here: its record in the session file was damaged.)"
# What the engine calls an answer that was broken off.
CUT = "interrupted"


class History:
    """Messages in the order of the log. `open` are the calls that want a result, by id."""

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
        """The log says what was asked for; its message says so too, unless that was lost."""
        self._told_of[call.id] = call

    def came(self, piece: Partial) -> None:
        """More of an answer, which is not there yet."""
        self._partial = self._partial + piece.text if piece.start else piece.text

    def lost(self) -> None:
        """Records are missing here."""
        self._gap = True

    def turn_started(self) -> None:
        """A turn begins on a message of a user's, or on open calls."""
        self.flush()
        if self._gap and not self.open and not (self.messages and isinstance(self.messages[-1], UserMessage)):
            self._put(UserMessage(LOST_MESSAGE))

    def rewind(self, messages: int) -> None:
        """The user went back to where there were so many."""
        self.flush()
        del self.messages[messages:]
        self.open.clear()

    def flush(self) -> None:
        """What came of an answer is all there will be of it."""
        text, self._partial = self._partial, ""
        if text.strip():
            self.add(AssistantMessage((Text(text),), CUT))

    def end(self) -> tuple[Message, ...]:
        """The whole history; calls at its end may be open."""
        self.flush()
        return tuple(self.messages)

    def _put(self, message: Message) -> None:
        if not self.messages and not isinstance(message, UserMessage):
            # At once, so that messages have the numbers that they have for who goes on with the session.
            self.messages.append(UserMessage(LOST_MESSAGE))
        self.messages.append(message)
        self._gap = False

    def _answer_open(self) -> None:
        for call in self.open.values():
            self._put(ToolMessage(call.id, call.name, LOST_RESULT, is_error=True))
        self._answered |= self.open.keys()
        self.open.clear()

    def _call_again(self, result: ToolMessage) -> None:
        """Put the call of this result before it; its message was lost."""
        self._answer_open()
        call = self._told_of.get(result.call_id) or ToolCall(result.call_id, result.name, {})
        self._answered.add(call.id)
        self._put(AssistantMessage((call,)))

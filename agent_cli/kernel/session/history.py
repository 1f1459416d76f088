"""Rebuild from a log a history that every provider accepts, even if records are missing; or only its last exchanges.

A call without a result gets one that reports the loss; a result without a call gets the call from its own record; a
turn without its message begins with a placeholder. The saved part of an unfinished answer becomes a message, as after
an interruption.

The last exchanges are read from the end of the log, so their cost does not depend on its length.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from agent_cli.kernel.events import (
    Event,
    MessageAdded,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolRequested,
    ToolStarted,
    events_by_tag,
)
from agent_cli.kernel.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
    is_user_message,
)
from agent_cli.kernel.session.files import LogLine, open_log, read
from agent_cli.kernel.session.records import Partial
from agent_tools.record import DecodeError, Value, from_json
from agent_tools.results import CommandOutput

LOST_RESULT = "The result of this call was lost: its record in the session file was damaged."
LOST_MESSAGE = "(A message was lost here: its record in the session file was damaged.)"
# Stop reason that the engine gives to an interrupted answer.
INTERRUPTED = "interrupted"


class History:
    """Messages in log order.

    open: calls without a result yet, by id.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.open: dict[str, ToolCall] = {}
        self._add_answer: set[str] = set()
        self._shown_calls: dict[str, ToolCall] = {}
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
                self._add_answer.add(message.call_id)
                del self.open[message.call_id]
            elif message.call_id in self._add_answer:
                return
            else:
                self._insert_call(message)
        self._put(message)

    def note_call(self, call: ToolCall) -> None:
        """Record a requested call, in case the message that requests it is lost."""
        self._shown_calls[call.id] = call

    def add_partial(self, piece: Partial) -> None:
        """Append a piece of an unfinished answer."""
        self._partial = self._partial + piece.text if piece.start else piece.text

    def mark_lost(self) -> None:
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
            self.add(AssistantMessage((Text(text),), INTERRUPTED))

    def end(self) -> tuple[Message, ...]:
        """Return the whole history; calls at its end may be open."""
        self.flush()
        return tuple(self.messages)

    def _put(self, message: Message) -> None:
        if not self.messages and not isinstance(message, UserMessage):
            # Now rather than at the end, so that later records refer to the right index.
            self.messages.append(UserMessage(LOST_MESSAGE))
        self.messages.append(message)
        self._gap = False

    def _answer_open(self) -> None:
        for call in self.open.values():
            self._put(ToolMessage(call.id, call.name, LOST_RESULT, is_error=True))
        self._add_answer |= self.open.keys()
        self.open.clear()

    def _insert_call(self, result: ToolMessage) -> None:
        """Insert the call of this result before it; its message was lost."""
        self._answer_open()
        call = self._shown_calls.get(result.call_id) or ToolCall(result.call_id, result.name, {})
        self._add_answer.add(call.id)
        self._put(AssistantMessage((call,)))


# Bytes of the log to read; events and characters of an answer to show.
TAIL_BYTES = 4 << 20
MAX_EVENTS = 200
MAX_ANSWER_CHARS = 6_000

_KINDS = events_by_tag(
    "ApprovalResolved MessageAdded PlanContinued QuestionAnswered SubagentEvent ToolFinished ToolRequested ToolStarted "
    "TurnFinished TurnStarted Warned"
)


class Exchange(Value):
    """A user message and the events after it.

    skipped: number of earlier events that are not shown.
    """

    question: str
    events: tuple[Event, ...]
    skipped: int = 0

    def parts(self) -> Iterator[str | Event]:
        """Yield the user's messages, as text, and the other events, in order."""
        yield self.question.strip()
        for event in self.events:
            if isinstance(event, MessageAdded) and isinstance(event.message, UserMessage):
                yield event.message.text
            else:
                yield event


def last_exchanges(log: Path, most: int, tail: int = TAIL_BYTES, *, whole: bool = False) -> list[Exchange]:
    """Return the last exchanges of a log, at most `most` and only from its last `tail` bytes.

    whole: return all their events, each at full length.
    """
    try:
        with open_log(log) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - tail))
            lines = [line for line in read(file) if line is not None]
    except OSError:
        return []
    if any(line.type == "Rewound" for line in lines):
        if size > tail:
            # A rewind counts messages from the beginning of the log.
            return last_exchanges(log, most, size, whole=whole)
        lines = _drop_rewound(lines)
    # A message that mentions files is followed by the files that were read.
    lines = [line for line in lines if line.type != "FilesSeen"]
    starts = [n for n in range(len(lines)) if _begins(lines, n)]
    questions = [_question(lines, start) for start in starts]
    ends = [*questions[1:], len(lines)]
    return [
        bounded_exchange(_user_message(lines[question]).words, _events(lines[start + 1 : end]), whole=whole)
        for start, question, end in list(zip(starts, questions, ends, strict=False))[-most:]
    ]


def _question(lines: list[LogLine], start: int) -> int:
    """Return the line of the user's message of a turn. The program and hooks add text before and after it."""
    number = start
    while number >= 0 and _message_type(lines[number]) == "UserMessage":
        if _user_message(lines[number]).from_user:
            return number
        number -= 1
    return start


def _user_message(line: LogLine) -> UserMessage:
    """Return the message of the user in a line, without its media."""
    about = line.data["message"]
    return UserMessage(str(about["text"]), typed=str(about.get("typed", "")))


def _begins(lines: list[LogLine], number: int) -> bool:
    """Return True if a turn begins at this line: a message with the start of a turn right after it.

    At the end of a log, it is a message of the user whose turn never began.
    """
    if _message_type(lines[number]) != "UserMessage":
        return False
    if number + 1 < len(lines):
        return lines[number + 1].type == "TurnStarted"
    return _user_message(lines[number]).from_user


def _message_type(line: LogLine) -> str:
    """Return the type of the message in a line; "" if it is no message."""
    return str(line.data["message"]["type"]) if line.type == "MessageAdded" else ""


def _drop_rewound(lines: list[LogLine]) -> list[LogLine]:
    """Drop the lines that the user has rewound."""
    standing: list[LogLine] = []
    places: list[int] = []
    cut_off = False
    for line in lines:
        if line.type == "Rewound":
            messages = line.data["messages"]
            del standing[places[messages] if messages < len(places) else len(standing) :]
            del places[messages:]
            cut_off = False
            continue
        if line.type == "Partial":
            cut_off = True
        elif line.type == "MessageAdded":
            # The saved part of an interrupted answer counts as a message.
            places += [len(standing)] * (2 if cut_off and _message_type(line) != "AssistantMessage" else 1)
            cut_off = False
        standing.append(line)
    return standing


def _events(lines: list[LogLine]) -> list[Event]:
    """Return the events to show, including the saved part of interrupted answers."""
    events: list[Event] = []
    text = ""
    for line in lines:
        if line.type == "Partial":
            with suppress(DecodeError):
                piece = from_json(Partial, line.data)
                text = text + piece.text if piece.start else piece.text
        elif (event := _event(line)) is not None:
            if isinstance(event, MessageAdded):
                if not isinstance(event.message, AssistantMessage):
                    events += _cut_off(text)
                text = ""
            events.append(event)
    return events + _cut_off(text)


def _cut_off(text: str) -> list[Event]:
    return [MessageAdded(AssistantMessage((Text(text),), INTERRUPTED))] if text.strip() else []


def _event(line: LogLine) -> Event | None:
    cls = _KINDS.get(line.type)
    try:
        event: Event | None = from_json(cls, line.data) if cls else None
    except DecodeError:
        return None
    return event


def exchanges_of(history: Iterable[Message], most: int) -> list[Exchange]:
    """Return the last exchanges from messages alone, without the log: calls by name, without displays."""
    messages = list(history)
    questions = [(n, message.words) for n, message in enumerate(messages) if is_user_message(message)]
    ends = [*(n for n, _ in questions[1:]), len(messages)]
    spans = list(zip(questions, ends, strict=False))[-most:]
    return [_exchange(words, messages[start + 1 : end]) for (start, words), end in spans]


def _exchange(question: str, messages: list[Message]) -> Exchange:
    events: list[Event] = []
    for message in messages:
        events.append(MessageAdded(message))
        if isinstance(message, AssistantMessage):
            events += [ToolRequested(c.id, c.name, c.arguments, c.name) for c in message.calls]
        elif isinstance(message, ToolMessage):
            events.append(ToolStarted(message.call_id, message.name))
            events.append(ToolFinished(message.call_id, message.name, message.is_error, 0))
    return bounded_exchange(question, events)


def bounded_exchange(question: str, events: list[Event], *, whole: bool = False) -> Exchange:
    """Limit an exchange to its end, unless `whole`; answers become streamed text.

    Messages that the user added stay messages. A call whose beginning is cut off is dropped entirely.
    """
    shown: list[Event] = []
    for event in events:
        if isinstance(event, MessageAdded):
            if isinstance(event.message, AssistantMessage) and event.message.text.strip():
                # What came between two answers may not be shown.
                apart = "\n\n" if shown and isinstance(shown[-1], TextDelta) else ""
                shown.append(TextDelta(apart + (event.message.text if whole else shortened(event.message.text))))
            elif isinstance(event.message, ToolMessage):
                shown.append(event)
            elif is_user_message(event.message):
                shown.append(MessageAdded(UserMessage(event.message.words)))
        else:
            if isinstance(event, ToolFinished) and isinstance(event.display, CommandOutput) and event.display.output:
                # The output of a command has no record of its own.
                output = event.display.output if whole else event.display.output[:MAX_ANSWER_CHARS]
                shown.append(ToolProgress(event.call_id, output.rstrip("\n") + "\n"))
            shown.append(event)
    left = shown if whole else shown[-MAX_EVENTS:]
    cut = {_call_of(event) for event in shown[: len(shown) - len(left)]} - {""}
    left = [event for event in left if _call_of(event) not in cut]
    return Exchange(question, tuple(left), len(shown) - len(left))


def _call_of(event: Event) -> str:
    """Return the ID of the call that an event is about; "" for none."""
    about = event.message if isinstance(event, MessageAdded) else event
    return str(getattr(about, "call_id", ""))


def shortened(text: str) -> str:
    """Return the end of a long answer, starting at a paragraph."""
    if len(text) <= MAX_ANSWER_CHARS:
        return text
    start = text.find("\n\n", len(text) - MAX_ANSWER_CHARS)
    return "…\n\n" + text[start + 2 if start >= 0 else len(text) - MAX_ANSWER_CHARS :]

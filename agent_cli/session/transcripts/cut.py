"""Where a conversation is cut off that is resumed at an earlier message."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent_cli.core.events import MessageAdded, Rewound, TurnStarted, events_by_tag
from agent_cli.core.message_ids import MessageIds
from agent_cli.core.messages import AssistantMessage, Message, UserMessage, is_user_message
from agent_cli.session.files import LogLine, open_log, read
from agent_cli.session.history import History
from agent_cli.session.records import Partial, SessionNotFoundError
from agent_tools.record import DecodeError, from_json

_KINDS = events_by_tag("MessageAdded Rewound TurnStarted")
_REJECTED = "Resume rejected by --resume-drops-turn:"
# A notice that comes on its own, perhaps in the middle of a turn.
_NOTICE = "[Background command "


def messages_to_keep(
    history: Sequence[Message], uuids: Sequence[Sequence[str]], at: str, drops: str | None = None
) -> int:
    """Return how many messages are left up to the one with the UUID `at`.

    uuids: those of each message.
    drops: UUID of the user's message whose turn is to be dropped, and nothing else.
    Raises SessionNotFoundError, also if the cut would drop more.
    """
    count = _number(uuids, at) + 1
    if not count:
        raise SessionNotFoundError(f"No message of this session has the UUID {at} (--resume-session-at).")
    if drops is None or count == len(history):
        return count
    prompt = _number(uuids, drops)
    if prompt < count:
        raise SessionNotFoundError(f"{_REJECTED} no message after {at} has the UUID {drops}.")
    for number in range(count, len(history)):
        message = history[number]
        if number < prompt and not (isinstance(message, UserMessage) and not is_user_message(message)):
            raise SessionNotFoundError(f"{_REJECTED} another turn's messages stand between {at} and {drops}.")
        foreign = number != prompt and (is_user_message(message) or message.text.startswith(_NOTICE))
        if foreign and isinstance(message, UserMessage):
            raise SessionNotFoundError(f"{_REJECTED} the session has messages since that are not of that turn.")
    return count


def _number(uuids: Sequence[Sequence[str]], uuid: str) -> int:
    """Return the place of the last message with this UUID; -1 if none has it."""
    return next((n for n in reversed(range(len(uuids))) if uuid.lower() in uuids[n]), -1)


def uuids_in(log: Path, session_id: str) -> list[tuple[str, ...]]:
    """Return the UUIDs of each message in a session's history. Raises OSError."""
    reading = _Reading(session_id)
    with open_log(log) as file:
        for line in read(file):
            if line is not None:
                reading.take(line)
    return reading.end()


class _Reading:
    """Follows a log as `restore` does, for the places of its messages."""

    def __init__(self, session_id: str) -> None:
        self._history = History()
        self._ids = MessageIds(session_id)
        self._uuids: list[tuple[str, ...]] = []

    def take(self, line: LogLine) -> None:
        try:
            if line.type == "Partial":
                self._history.came(from_json(Partial, line.data))
                return
            cls = _KINDS.get(line.type)
            event = from_json(cls, line.data) if cls else None
        except DecodeError:
            return
        match event:
            case TurnStarted():
                self._history.turn_started()
            case Rewound(messages=messages):
                self._history.rewind(messages)
                del self._uuids[messages:]
            case MessageAdded(message=message):
                self._ids.take(event)
                self._history.add(message)
                blocks = len(message.parts) if isinstance(message, AssistantMessage) else 2
                known = tuple(self._ids.latest("", block) for block in range(max(blocks, 1)))
                self._uuids += [()] * (len(self._history.messages) - len(self._uuids) - 1) + [known]

    def end(self) -> list[tuple[str, ...]]:
        return self._uuids + [()] * (len(self._history.end()) - len(self._uuids))

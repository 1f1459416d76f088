"""Messages as entries of a transcript, in Claude Code's format: one entry per content block, chained by `parentUuid`.

Transcripts are stored beside the session, or in Claude Code's configuration folder, where its tools look for them.

    <configuration>/projects/<encoded working directory>/<session id>.jsonl
    <configuration>/projects/<encoded working directory>/<session id>/subagents/agent-<agent id>.jsonl

Also finds where to cut off a conversation that is resumed at an earlier message.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_cli.kernel.events import MessageAdded, Rewound, TurnStarted, events_by_tag
from agent_cli.kernel.message_ids import MessageIds, subagent_id
from agent_cli.kernel.messages import (
    AssistantMessage,
    Message,
    Part,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
    claude_blocks,
    is_user_message,
)
from agent_cli.kernel.results import Usage
from agent_cli.kernel.session.files import LogLine, open_log, projects_folder, read
from agent_cli.kernel.session.history import History
from agent_cli.kernel.session.records import Partial, SessionNotFoundError
from agent_tools.record import DecodeError, Value, from_json
from agent_tools.results import CommandOutput, Media

# Longer names of folders end in a checksum.
_MAX_CHARS = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def is_session_id(text: str) -> bool:
    """Return True if the text is a whole session ID."""
    return _UUID.fullmatch(text.lower()) is not None


def project_folder(env: Mapping[str, str], home: Path | None, cwd: Path) -> Path:
    """Return the folder for the transcripts of sessions in a working directory."""
    return projects_folder(env, home) / encoded_path(cwd)


def encoded_path(cwd: Path) -> str:
    """Encode a directory as one name: characters other than ASCII letters and digits become hyphens."""
    text = unicodedata.normalize("NFC", os.path.realpath(cwd))
    name = re.sub(r"[^a-zA-Z0-9]", "-", text)
    return name if len(name) <= _MAX_CHARS else f"{name[:_MAX_CHARS]}-{_checksum(text)}"


def _checksum(text: str) -> str:
    """Return the usual string hash of JavaScript programs (h * 31 + code, 32 bits) in base 36."""
    sum_ = 0
    for character in text:
        sum_ = (sum_ * 31 + ord(character)) & 0xFFFFFFFF
    rest = (1 << 32) - sum_ if sum_ >> 31 else sum_
    digits = ""
    while rest:
        rest, digit = divmod(rest, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


def subagent_path(transcript: Path, call_id: str) -> Path:
    """Return the transcript of the sub-agent that works for a call."""
    return transcript.with_suffix("") / "subagents" / f"agent-{subagent_id(call_id)}.jsonl"


def find_transcripts(env: Mapping[str, str], home: Path | None, session_id: str) -> Iterator[Path]:
    """Yield the transcripts of a session in all projects."""
    if not is_session_id(session_id):
        return
    try:
        folders = sorted(projects_folder(env, home).iterdir())
    except OSError:
        return
    for folder in folders:
        path = folder / f"{session_id.lower()}.jsonl"
        if path.is_file():
            yield path


_KINDS = events_by_tag("MessageAdded Rewound TurnStarted")
_REJECTED = "Resume rejected by --resume-drops-turn:"
# A notice that the program adds, perhaps in the middle of a turn.
_NOTICE = "[Background command "


def messages_to_keep(
    history: Sequence[Message], uuids: Sequence[Sequence[str]], at: str, drops: str | None = None
) -> int:
    """Return how many messages there are up to the one with the UUID `at`.

    uuids: those of each message.
    drops: UUID of the user's message whose turn, and nothing else, is to be dropped.

    Raises SessionNotFoundError, also if more would be dropped.
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
            raise SessionNotFoundError(f"{_REJECTED} messages of another turn are between {at} and {drops}.")
        foreign = number != prompt and (is_user_message(message) or message.text.startswith(_NOTICE))
        if foreign and isinstance(message, UserMessage):
            raise SessionNotFoundError(f"{_REJECTED} the session has messages since that are not of that turn.")
    return count


def _number(uuids: Sequence[Sequence[str]], uuid: str) -> int:
    """Return the index of the last message with this UUID; -1 if there is none."""
    return next((n for n in reversed(range(len(uuids))) if uuid.lower() in uuids[n]), -1)


def uuids_in(log: Path, session_id: str) -> list[tuple[str, ...]]:
    """Return the UUIDs of each message in a session's history. Raises OSError."""
    reader = _UuidReader(session_id)
    with open_log(log) as file:
        for line in read(file):
            if line is not None:
                reader.take(line)
    return reader.end()


class _UuidReader:
    """Replays a log like `restore`, to find the UUIDs of its messages."""

    def __init__(self, session_id: str) -> None:
        self._history = History()
        self._ids = MessageIds(session_id)
        self._uuids: list[tuple[str, ...]] = []

    def take(self, line: LogLine) -> None:
        try:
            if line.type == "Partial":
                self._history.add_partial(from_json(Partial, line.data))
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
                self._ids.observe(event)
                self._history.add(message)
                blocks = len(message.parts) if isinstance(message, AssistantMessage) else 2
                known = tuple(self._ids.latest("", block) for block in range(max(blocks, 1)))
                self._uuids += [()] * (len(self._history.messages) - len(self._uuids) - 1) + [known]

    def end(self) -> list[tuple[str, ...]]:
        return self._uuids + [()] * (len(self._history.end()) - len(self._uuids))


Entry = dict[str, Any]
# A provider's ID this long is unique.
_MIN_UNIQUE_CHARS = 16


class EntryContext(Value):
    """The fields that all entries of a session share.

    agent_id: the sub-agent whose transcript it is.
    """

    session_id: str
    cwd: str
    branch: str
    version: str
    agent_id: str = ""

    def entry(self, kind: str, uuid: str, parent: str | None, time: str, **fields: Any) -> Entry:
        """Return an entry of a kind that is part of the chain."""
        made: Entry = {"parentUuid": parent, "isSidechain": bool(self.agent_id), "userType": "external"}
        if self.agent_id:
            made["agentId"] = self.agent_id
        made |= {"cwd": self.cwd, "sessionId": self.session_id, "version": self.version, "gitBranch": self.branch}
        return made | {"type": kind, **fields, "uuid": uuid, "timestamp": time}


def user_parts(message: UserMessage) -> list[tuple[Any, bool]]:
    """Return the contents of the entries for a user message, each with True if the program wrote it.

    The user's own words come first; what the program added to them gets its own entry.
    """
    if not is_user_message(message):
        return [(_content(message.text, message.media), True)]
    words = message.words
    rest = message.text[len(words) :].strip("\n") if message.text.startswith(words) else message.text
    parts: list[tuple[Any, bool]] = [(_content(words, message.media), False)]
    return [*parts, (rest, True)] if rest else parts


def _content(text: str, media: tuple[Media, ...]) -> Any:
    blocks = [{"type": "text", "text": text}] if text else []
    return [*blocks, *claude_blocks(media)] if media else text


def shown_parts(message: AssistantMessage) -> list[tuple[int, dict[str, Any]]]:
    """Return the blocks of an answer with their positions, without reasoning that only its provider can read."""
    every = list(enumerate(message.parts))
    shown = [(n, p) for n, p in every if not (isinstance(p, Thinking) and p.provider and not p.text)]
    return [(number, content_block(part)) for number, part in shown or every]


def content_block(part: Part) -> dict[str, Any]:
    """Return a part of an answer as a block of the Messages API."""
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Thinking(data=data, provider="") if data:
            return {"type": "redacted_thinking", "data": data}
        case Thinking(text=text, signature=signature, provider=provider):
            return {"type": "thinking", "thinking": text, "signature": "" if provider else signature}
        case _:
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": part.arguments}


def assistant_body(
    message: AssistantMessage, block: dict[str, Any], name: str, usage: Usage, *, last: bool
) -> dict[str, Any]:
    """Return the `message` of an assistant entry.

    name: its ID if the provider's is not unique.
    """
    return {
        # Readers join the blocks with the same ID, which a provider that counts its answers would repeat.
        "id": message.provider_id if len(message.provider_id) >= _MIN_UNIQUE_CHARS else name,
        "type": "message",
        "role": "assistant",
        "model": message.model,
        "content": [block],
        "stop_reason": (message.stop_reason or None) if last else None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": max(0, usage.input - usage.cache_read - usage.cache_write),
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "output_tokens": usage.output,
        },
    }


def result_fields(message: ToolMessage, display: object) -> dict[str, Any]:
    """Return the fields of a user entry with a tool's result."""
    block = {
        "tool_use_id": message.call_id,
        "type": "tool_result",
        "content": _content(message.text, message.media),
        "is_error": message.is_error,
    }
    return {"message": {"role": "user", "content": [block]}, "toolUseResult": _details(message, display)}


def _details(message: ToolMessage, display: object) -> Any:
    if message.is_error or not isinstance(display, CommandOutput):
        return f"Error: {message.text}" if message.is_error else message.text
    return {
        "stdout": display.output,
        "stderr": "",
        "interrupted": display.exit_code is None,
        "isImage": False,
        "noOutputExpected": False,
    }

"""Read a conversation from a transcript in Claude Code's format, to continue it in one of our sessions.

The conversation is the chain that ends in the last message of the file. If calls ran at the same time, their results
may be outside the chain; they still belong to it. Torn and unknown lines are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from agent_cli.kernel.messages import (
    AssistantMessage,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
    parse_media,
)
from agent_cli.kernel.results import Usage
from agent_cli.kernel.session.files import bounded_lines, open_log
from agent_cli.kernel.session.history import History
from agent_cli.kernel.session.records import Header, Restored, SessionNotFoundError
from agent_cli.kernel.session.transcripts.entries import Entry
from agent_tools.record import Value
from agent_tools.results import Media

_CHAINED = ("user", "assistant", "system", "attachment", "progress")
# The model name of answers that the program wrote itself, for errors of the API.
_SYNTHETIC = "<synthetic>"


class TranscriptMessages(Value):
    """The conversation of a transcript.

    messages: with the UUIDs of their blocks.
    damaged: number of lines that could not be read.
    """

    messages: tuple[tuple[Message, tuple[str, ...]], ...]
    name: str
    cwd: str
    created: str
    updated: str
    damaged: int


def read_conversation(
    path: Path, selected: Callable[[list[Entry]], list[Entry]] = lambda entries: entries
) -> TranscriptMessages:
    """Read the active branch of a transcript. Raises SessionNotFoundError.

    selected: returns the entries to use of those of the branch.
    """
    entries, name, damaged = _entries(path)
    times = [str(e["timestamp"]) for e in entries if isinstance(e.get("timestamp"), str)]
    cwd = next((str(e["cwd"]) for e in entries if e.get("cwd")), "")
    messages = tuple(_messages(selected(_conversation(entries))))
    return TranscriptMessages(messages, name, cwd, times[0] if times else "", times[-1] if times else "", damaged)


def read_transcript(path: Path, session_id: str) -> Restored:
    """Return the conversation of a transcript as a session without a log. Raises SessionNotFoundError."""
    made = read_conversation(path)
    history = History()
    uuids: list[tuple[str, ...]] = []
    for message, known in made.messages:
        history.add(message)
        # Messages that the history adds have no UUID.
        uuids += [()] * (len(history.messages) - len(uuids) - 1) + [known]
    if not history.messages:
        raise SessionNotFoundError(f"There is no message in the transcript {path}.")
    return Restored(
        header=Header(session_id, made.cwd, "", "", "", (), ""),
        history=tuple(history.messages),
        seen={},
        plan=(),
        usage=Usage(),
        last=None,
        seq=0,
        parent="",
        created=made.created or "1970-01-01T00:00:00.000Z",
        updated=made.updated,
        rebuilt=True,
        name=made.name,
        uuids=tuple(uuids),
    )


def working_directory(path: Path) -> str:
    """Return the directory that a transcript's session worked in; "" if unknown."""
    try:
        with open_log(path) as file:
            for line in file:
                entry = _entry(line)
                if entry is not None and isinstance(entry.get("cwd"), str):
                    return str(entry["cwd"])
    except OSError:
        pass
    return ""


def _entry(line: bytes) -> Entry | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _entries(path: Path) -> tuple[list[Entry], str, int]:
    """Return the entries of the chain, in file order, the session's name, and the number of damaged lines.

    Raises SessionNotFoundError.
    """
    entries: list[Entry] = []
    given = made = ""
    damaged = 0
    try:
        with open_log(path) as file:
            for line in bounded_lines(file):
                entry = _entry(line)
                damaged += entry is None and bool(line.strip())
                entry = entry or {}
                if entry.get("type") in _CHAINED and isinstance(entry.get("uuid"), str):
                    # The large parts that no message contains.
                    entry.pop("toolUseResult", None)
                    attached = entry.pop("attachment", None)
                    if isinstance(attached, dict) and attached.get("type") == "file":
                        entry["attachment"] = attached
                    entries.append(entry)
                elif isinstance(entry.get("customTitle"), str):
                    given = entry["customTitle"]
                elif isinstance(entry.get("aiTitle"), str):
                    made = entry["aiTitle"]
    except OSError as error:
        raise SessionNotFoundError(f"Cannot read the transcript {path}: {error.strerror or error}.") from None
    return entries, given or made, damaged


def _conversation(entries: list[Entry]) -> list[Entry]:
    """Return the entries of the conversation at the end of the file, in order."""
    by_uuid = {entry["uuid"]: entry for entry in entries}
    leaf = next((e for e in reversed(entries) if _is_message(e) and not e.get("isMeta")), None)
    chain = _chain_to(leaf, by_uuid)
    named = {_message_id(e) for e in chain if e["type"] == "assistant"} - {""}
    start = entries.index(chain[0]) if chain else 0
    of_chain = {e["uuid"] for e in chain}
    # Blocks of the same answer, and results of their calls, that are in other branches.
    blocks = [e for e in entries[start:] if e["uuid"] in of_chain or _message_id(e) in named]
    calls = {b["id"] for e in blocks for b in _blocks(e) if b.get("type") == "tool_use" and "id" in b}
    of_chain |= {e["uuid"] for e in blocks}
    of_chain |= {e["uuid"] for e in entries[start:] if _is_message(e) and calls & _add_answer(e)}
    found = [e for e in entries if e["uuid"] in of_chain]
    return _with_preserved(found, by_uuid)


def _chain_to(entry: Entry | None, by_uuid: dict[str, Entry], until: str = "") -> list[Entry]:
    """Return the chain that ends in an entry, from its first entry on.

    until: UUID of the entry to begin with.
    """
    chain: list[Entry] = []
    seen: set[str] = set()
    while entry is not None and entry["uuid"] not in seen:
        seen.add(entry["uuid"])
        chain.append(entry)
        if entry["uuid"] == until:
            break
        entry = by_uuid.get(str(entry.get("parentUuid")))
    return chain[::-1]


def _with_preserved(found: list[Entry], by_uuid: dict[str, Entry]) -> list[Entry]:
    """Return the entries, with the messages that the model is still shown after the summary of the last compaction."""
    compactions = [e["compactMetadata"] for e in found if isinstance(e.get("compactMetadata"), dict)]
    segment = compactions[-1].get("preservedSegment") if compactions else None
    if not isinstance(segment, dict):
        return found
    known = {e["uuid"] for e in found}
    tail = by_uuid.get(str(segment.get("tailUuid")))
    kept = _chain_to(tail, by_uuid, str(segment.get("headUuid")))
    at = next((n for n, e in enumerate(found, 1) if e["uuid"] == segment.get("anchorUuid")), 0)
    return [*found[:at], *(e for e in kept if e["uuid"] not in known), *found[at:]]


def _is_message(entry: Entry) -> bool:
    return entry["type"] in ("user", "assistant") and not entry.get("isSidechain") and not entry.get("teamName")


def _message_id(entry: Entry) -> str:
    message = entry.get("message")
    return str(message.get("id") or "") if isinstance(message, dict) and entry["type"] == "assistant" else ""


def _blocks(entry: Entry) -> list[dict[str, Any]]:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []


def _add_answer(entry: Entry) -> set[str]:
    return {str(b.get("tool_use_id")) for b in _blocks(entry) if b.get("type") == "tool_result"}


def _messages(entries: Iterable[Entry]) -> list[tuple[Message, tuple[str, ...]]]:
    """Return the messages of the entries with the UUIDs of their blocks."""
    made: list[tuple[Message, tuple[str, ...]]] = []
    names: dict[str, str] = {}
    # The answer that further blocks may belong to: its ID and index.
    last = "", -1
    for entry in entries:
        uuid, blocks = entry["uuid"], _blocks(entry)
        if not _is_message(entry) or not blocks:
            continue
        if entry["type"] == "assistant":
            parts = tuple(part for block in blocks if (part := _part(block)) is not None)
            about = entry["message"]
            if not parts or about.get("model") == _SYNTHETIC:
                continue
            names.update((part.id, part.name) for part in parts if isinstance(part, ToolCall))
            stop, name = str(about.get("stop_reason") or ""), _message_id(entry)
            if name and name == last[0]:
                before, uuids = made[last[1]]
                assert isinstance(before, AssistantMessage)
                joined = before.replace(parts=(*before.parts, *parts), stop_reason=stop or before.stop_reason)
                made[last[1]] = joined, (*uuids, *[uuid] * len(parts))
                continue
            last = name, len(made)
            message = AssistantMessage(parts, stop, name, str(about.get("model") or ""))
            made.append((message, (uuid,) * len(parts)))
            continue
        results = [b for b in blocks if b.get("type") == "tool_result"]
        for block in results:
            call = str(block.get("tool_use_id"))
            text, media = _content(block.get("content"))
            made.append((ToolMessage(call, names.get(call, ""), text, bool(block.get("is_error")), media), (uuid,)))
        text, media = _content([b for b in blocks if b not in results])
        if text or media:
            made.append((UserMessage(text, media), (uuid,)))
            last = "", -1
    return made


def _part(block: dict[str, Any]) -> Part | None:
    """Return a block of an answer as a part; None for other kinds."""
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "thinking", "thinking": str(text)}:
            return Thinking(text, signature=str(block.get("signature") or ""))
        case {"type": "redacted_thinking", "data": str(data)}:
            return Thinking(data=data)
        case {"type": "tool_use", "id": str(identity), "name": str(name), "input": dict(arguments)}:
            return ToolCall(identity, name, arguments)
    return None


def _content(content: Any) -> tuple[str, tuple[Media, ...]]:
    """Return the text and the media of a message's content."""
    if isinstance(content, str):
        return content, ()
    blocks = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
    text = "\n".join(b["text"] for b in blocks if b.get("type") == "text" and isinstance(b.get("text"), str))
    media: list[Media] = []
    for block in blocks:
        try:
            media += parse_media([block])
        except (KeyError, TypeError, ValueError):
            continue
    return text, tuple(media)

"""Find a session by its ID, a prefix of it, its name, or words in its messages."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from agent_cli.kernel.messages import AssistantMessage, Message, ToolMessage, UserMessage, without_note
from agent_cli.kernel.session.files import decode_record, read_header, read_log
from agent_cli.kernel.session.records import SessionNotFoundError
from agent_cli.kernel.session.summary import (
    SessionSummary,
    project_folders,
    session_files,
    summaries_of_all_projects,
    summarize_sessions,
)
from agent_tools.record import DecodeError, from_json
from agent_tools.text import counted, shorten

_ID = re.compile(r"[0-9a-f][0-9a-f-]{3,35}")
_TEXTS = (b'"type":"MessageAdded"', b'"type":"SessionNamed"')
_CONTEXT_CHARS = 40
_MAX_LISTED = 8


def is_id_like(text: str) -> bool:
    """Return True if a word looks like a session ID or a prefix of one."""
    return _ID.fullmatch(text.lower()) is not None


def one_session(folder: Path, text: str, *, anywhere: bool) -> Path:
    """Return the log of the one session that fits; see `SessionStore.find`. folder: of its project's sessions."""
    ids = [path.stem for path in session_files(folder)]
    if is_id_like(text):
        found = [i for i in ids if i.startswith(text.lower())]
        if len(found) == 1:
            return folder / f"{found[0]}.jsonl"
    every = list(summarize_sessions(folder))
    if is_id_like(text) and len(found) > 1:
        meant = [g for g in every if g.session_id in found]
        raise _several(f"{len(found)} sessions of this project begin with {text}.", meant)
    meant = resolve_reference(every, text)
    if len(meant) == 1:
        return meant[0].path
    if meant:
        raise _several(f"{counted(len(meant), 'session')} of this project fit {shorten(text, 60)!r}.", meant)
    elsewhere = [f for f in other_sessions(folder) if f.stem.startswith(text.lower())] if is_id_like(text) else []
    if anywhere and len(elsewhere) == 1:
        return elsewhere[0]
    raise SessionNotFoundError(_not_here(text, elsewhere))


def find_in_all(state: Path, text: str) -> Path:
    """Return the log of the one session of any project that fits, or the latest; see `SessionStore.find_in_all`."""
    found = summaries_of_all_projects(state)
    if not found:
        raise SessionNotFoundError("There are no sessions yet.")
    if text:
        ids = [g for g in found if is_id_like(text) and g.session_id.startswith(text.lower())]
        found = ids or resolve_reference(found, text)
    if len(found) > 1 and text:
        raise _several(f"{counted(len(found), 'session')} match {shorten(text, 60)!r}.", found)
    if not found:
        raise SessionNotFoundError(f"No session matches {shorten(text, 60)!r}. See: agent sessions list --all-projects")
    return found[0].path


def _several(text: str, found: list[SessionSummary]) -> SessionNotFoundError:
    """Return the error for several sessions that fit, the latest first: it names the first of them."""
    shown = "; ".join(f"{g.session_id[:8]} {shorten(g.title, 40)}" for g in found[:_MAX_LISTED])
    more = f"; and {len(found) - _MAX_LISTED} more" if len(found) > _MAX_LISTED else ""
    return SessionNotFoundError(f"{text} Give the ID of one: {shown}{more}", found)


def resolve_reference(every: Sequence[SessionSummary], text: str) -> list[SessionSummary]:
    """Return the sessions with this name; else those whose title has the words; else those whose messages have them."""
    words = text.lower().split()
    named = [g for g in every if g.name and g.name.lower() == text.strip().lower()]
    if named or not words:
        return named
    titled = [g for g in every if all(w in f"{g.name} {g.first}".lower() for w in words)]
    return titled or [g for g in every if contains_text(g.path, words)]


def _not_here(text: str, elsewhere: Sequence[Path]) -> str:
    """Return the message for a session that is not in this project."""
    root = str(read_header(elsewhere[0]).get("root", "")) if len(elsewhere) == 1 else ""
    if root and not os.path.isdir(root):  # noqa: PTH112
        return (
            f"Session {text} is of {shorten(root)}, which no longer exists, and not known to be of this repository; "
            f"agent --resume {text} --fork-session continues a copy of it here"
        )
    if root:
        return (
            f"Session {text} is of {shorten(root)}: resume it there; "
            f"agent --resume {text} --fork-session makes a copy of it here"
        )
    if is_id_like(text):
        return f"No session of this project begins with {text}. See: agent sessions list"
    return f"No session of this project fits {shorten(text, 60)!r}. See: agent sessions list"


def other_sessions(folder: Path) -> Iterable[Path]:
    """Yield the logs of all projects but the one with this folder."""
    others = (other for other in project_folders(folder.parent.parent) if other != folder)
    return (file for other in others for file in session_files(other))


def contains_text(path: Path, words: Sequence[str]) -> str:
    """Return an excerpt around the first of the words if a session contains all of them; else "".

    words: in lower case. Searches names and messages, including tool results, but not the system prompt.
    """
    try:
        data = read_log(path)
    except OSError:
        return ""
    # Most files and lines are ruled out by their bytes; only the rest is decoded.
    signs = [sign for word in words if (sign := _sign(word))]
    lower = data.lower()
    if not all(sign in lower for sign in signs):
        return ""
    del lower
    left = set(words)
    piece = ""
    for line in data.split(b"\n"):
        head = line[:300]
        if not any(kind in head for kind in _TEXTS):
            continue
        if signs and len(signs) == len(words) and not any(sign in line.lower() for sign in signs):
            continue
        text = _text(decode_record(line.rstrip(b"\r")) or {})
        folded = text.lower()
        here = [word for word in words if word in folded]
        if here and not piece:
            piece = _excerpt(text, folded.find(here[0]))
        left -= set(here)
        if not left:
            return piece
    return ""


def _sign(word: str) -> bytes:
    """Return bytes that the log contains if it contains the word in any case; b"" if there are none."""
    runs = re.findall(r"[\x21-\x7e]+", word)
    longest: str = max(runs, key=len, default="")
    return json.dumps(longest)[1:-1].encode("ascii")


def _text(record: dict[str, Any]) -> str:
    """Return the text of a record."""
    data = record.get("data", {})
    if record.get("type") == "SessionNamed":
        return str(data.get("name", ""))
    try:
        message: Message = from_json(Message, data.get("message"))
    except DecodeError:
        return ""
    if isinstance(message, AssistantMessage):
        arguments = (str(v) for call in message.calls for v in call.arguments.values())
        return "\n".join([message.text, *arguments])
    assert isinstance(message, UserMessage | ToolMessage)
    return without_note(message.text) if isinstance(message, UserMessage) else message.text


def _excerpt(text: str, position: int) -> str:
    start = max(0, position - _CONTEXT_CHARS)
    return ("…" if start else "") + " ".join(text[start : position + 2 * _CONTEXT_CHARS].split())

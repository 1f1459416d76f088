"""The common form of sessions that other programs wrote: messages of ours, with calls as that program made them.

A reader of one program's files makes it, and `convert` turns it into a session of ours. Nothing here writes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_cli.kernel.messages import Message, parse_media
from agent_cli.kernel.session.files import bounded_lines, open_log
from agent_tools.record import Value
from agent_tools.results import Media, TodoItem
from agent_tools.text import utc_stamp

_MAX_HEAD_BYTES = 1 << 20
_STATES = ("pending", "in_progress", "completed", "cancelled")


class FoundSession(Value):
    """A session of another program.

    path: its file. title: its name, or its first words. updated: as the times of our log.
    """

    program: str
    session_id: str
    path: Path
    cwd: str
    title: str
    updated: str


class Seen(Value):
    """What a call showed of a file, or made of it.

    call_id: `MENTION` if a message of the user contained the file.
    path: the file; "" if `command` may have printed files.
    first: number of the first line; 0 if unknown.
    old: the text that was replaced by `text`; None if `text` was shown or written.
    cwd: where the command ran; "" in the session's folder.
    """

    call_id: str
    path: str
    text: str
    first: int = 0
    old: str | None = None
    command: str = ""
    cwd: str = ""


class ForeignSession(Value):
    """A session as another program wrote it: what its model would be shown next.

    messages: with calls under that program's names; results may be missing or out of order.
    named: the title is a name, and not its first words.
    damaged: number of lines that could not be read.
    """

    found: FoundSession
    messages: tuple[Message, ...]
    plan: tuple[TodoItem, ...] = ()
    seen: tuple[Seen, ...] = ()
    named: bool = False
    damaged: int = 0


def json_lines(path: Path) -> Iterator[dict[str, Any] | None]:
    """Yield the objects of a file of JSON lines; None for a line that is none. Raises OSError."""
    with open_log(path) as file:
        for line in bounded_lines(file):
            yield json_object(line) if line.strip() else {}


def json_object(text: bytes | str) -> dict[str, Any] | None:
    """Return the JSON object in a text; None if it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def head_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects in the first lines of a file; none if it cannot be read."""
    left = _MAX_HEAD_BYTES
    try:
        with open_log(path) as file:
            while left > 0 and (line := file.readline(left)):
                left -= len(line)
                if found := json_object(line):
                    yield found
    except OSError:
        return


def modified(path: Path) -> str:
    """Return when a file was changed, as the times of our log."""
    try:
        return utc_stamp(path.stat().st_mtime, milliseconds=True)
    except OSError:
        return ""


def works_in(cwd: str, root: Path | None) -> bool:
    """Return True if a session worked in this project. root: None for any."""
    real = os.path.realpath(cwd) if cwd else ""
    return root is None or real == str(root) or real.startswith(f"{str(root).rstrip('/')}/")


def folder(env: Mapping[str, str], variable: str, home: Path | None, default: str) -> Path:
    """Return a folder that a variable names, else the default one below the home folder."""
    return Path(env[variable]) if env.get(variable) else (home or Path.home()) / default


def todo_items(items: Any) -> tuple[TodoItem, ...]:
    """Return a todo list of any of the programs; items of an unknown form are left out."""
    found = []
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict):
            text = next((item[k] for k in ("content", "step", "subject", "description") if item.get(k)), "")
            status: Any = item.get("status") if item.get("status") in _STATES else "pending"
            if isinstance(text, str) and text:
                found.append(TodoItem(text, status))
    return tuple(found)


def media_of(mime: Any, data: Any) -> tuple[Media, ...]:
    """Return an image or a PDF that is given in base64; () if it is neither."""
    kind = "document" if mime == "application/pdf" else "image"
    try:
        return parse_media([{"type": kind, "source": {"type": "base64", "media_type": mime, "data": data}}])
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()


def media_of_url(url: Any) -> tuple[Media, ...]:
    """Return the image or PDF of a data URL; () for any other address."""
    if not isinstance(url, str) or not url.startswith("data:"):
        return ()
    mime, _, data = url[len("data:") :].partition(";base64,")
    return media_of(mime, data)


def file_block(path: str, text: str) -> str:
    """Return a file that a message mentions, as it follows our messages; "" for a name that cannot be written so."""
    return "" if {'"', "\n"} & set(path) or not path else f'\n\n<file path="{path}">\n{text.rstrip()}\n</file>'


def summary_message(text: str) -> str:
    """Return the message with the summary of a conversation that was compacted."""
    return f"<compacted>\n{text.strip()}\n</compacted>"

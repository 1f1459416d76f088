"""Old results that say nothing any more, because the same was looked at or run again later."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from agent_cli.core.counting import tokens_of_text
from agent_cli.core.messages import AssistantMessage, Message, ToolCall, ToolMessage
from agent_tools.arguments import FILE_NAMES
from agent_tools.base import Tool
from agent_tools.builtin import ClassOf, tool_class

# What the engine answers instead of running a call: it points to the earlier result.
SKIPPED = "Skipped: unchanged since"
_LEAST = 60
_FILE_NAMES = ("file_path", "notebook_path", "filePath", *FILE_NAMES)
# How a tool that reads files says that there is more of the file.
MORE = "continue with offset="
# Before what means something else in another directory.
_HERE = "here: "
_MOVES = re.compile(r"\b(?:cd|pushd|popd)\b")
_FROM_ANYWHERE = re.compile(r"\s*cd\s+/")


def superseded(
    messages: Sequence[Message], cwd: str, pins: Iterable[str] = (), class_of: ClassOf = tool_class
) -> dict[str, str]:
    """What to put in the place of results that later ones have replaced, by call; a line each.

    A later reading of the whole file replaces every reading of it; so does writing it anew. A command replaces the same
    command only where both ran in one directory.
    """
    calls = {call.id: call for m in messages if isinstance(m, AssistantMessage) for call in m.calls}
    kept = set(pins)
    later: set[str] = set()
    found: dict[str, str] = {}
    for message in reversed(messages):
        call = calls.get(message.call_id) if isinstance(message, ToolMessage) else None
        if call is None or not isinstance(message, ToolMessage):
            continue
        kind = class_of(call.name)
        if kind.command_argument and _MOVES.search(str(call.arguments.get(kind.command_argument))):
            later = {key for key in later if not key.startswith(_HERE)}
        keys = _keys(call, kind, cwd)
        if any(key in later for key in keys) and tokens_of_text(message.text) > _LEAST and message.text not in kept:
            found[call.id] = f"[Cut: {_why(kind)}. The later result is the one that counts.]"
        if not message.text.startswith(SKIPPED) and (not message.is_error or kind.command_argument):
            later.update(_replaces(call, kind, cwd, whole=MORE not in message.text[-300:]))
    return found


def _why(kind: type[Tool[Any]]) -> str:
    if kind.reopens:
        return "this file was read again, or written, later"
    return "this was run again later" if kind.command_argument else "this was looked up again later"


def _keys(call: ToolCall, kind: type[Tool[Any]], cwd: str) -> list[str]:
    """Under which names a later call can replace this one's result."""
    if not kind.repeatable:
        return []
    path = _file(call, kind, cwd) if kind.reopens else ""
    return [_exactly(call, kind), *([f"file {path}"] if path else [])]


def _replaces(call: ToolCall, kind: type[Tool[Any]], cwd: str, *, whole: bool) -> list[str]:
    """Which results before it a call replaces. whole: what was read went to the end of the file."""
    path = _file(call, kind, cwd)
    whole = kind.replaces_file or (kind.reopens and whole and not (call.arguments.keys() - {*_FILE_NAMES}))
    return [*([f"file {path}"] if whole and path else []), *([_exactly(call, kind)] if kind.repeatable else [])]


def _exactly(call: ToolCall, kind: type[Tool[Any]]) -> str:
    # What a command is said to be for does not make it another.
    given = {k: v for k, v in call.arguments.items() if k != "description"}
    bound = kind.command_argument and not _FROM_ANYWHERE.match(str(given.get(kind.command_argument)))
    return f"{_HERE if bound else ''}{call.name} {json.dumps(given, sort_keys=True)}"


def file_of(call: ToolCall, cwd: str, class_of: ClassOf = tool_class) -> str:
    """The file that a call is about, as an absolute path; "" for none."""
    return _file(call, class_of(call.name), cwd)


def file_named(call: ToolCall, class_of: ClassOf = tool_class) -> str:
    """The file that a call is about, as it names it; "" for none."""
    return _named(call, class_of(call.name))


def _file(call: ToolCall, kind: type[Tool[Any]], cwd: str) -> str:
    given = _named(call, kind)
    return os.path.normpath(os.path.join(cwd, given)) if given else ""


def _named(call: ToolCall, kind: type[Tool[Any]]) -> str:
    if not kind.file_argument:
        return ""
    given = next((call.arguments[n] for n in (kind.file_argument, *_FILE_NAMES) if call.arguments.get(n)), "")
    return given if isinstance(given, str) else ""

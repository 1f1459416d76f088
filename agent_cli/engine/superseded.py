"""Old results that say nothing any more, because the same was looked at or run again later."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence

from agent_cli.core.counting import tokens_of_text
from agent_cli.core.messages import AssistantMessage, Message, ToolCall, ToolMessage
from agent_tools.arguments import FILE_NAMES

# Whose results tell of a state, so that a later one replaces an earlier one.
_LOOKS = ("Read", "Bash", "Grep", "Glob", "LS", "WebFetch", "WebSearch")
# What the engine answers instead of running a call: it points to the earlier result.
SKIPPED = "Skipped: unchanged since"
_LEAST = 60
_FILE_TOOLS = ("Read", "Write", "Edit", "MultiEdit", "NotebookRead", "NotebookEdit")
_FILE_NAMES = ("file_path", "notebook_path", "filePath", *FILE_NAMES)
# How Read says that there is more of the file.
MORE = "continue with offset="
# Before what means something else in another directory.
_HERE = "here: "
_MOVES = re.compile(r"\b(?:cd|pushd|popd)\b")
_FROM_ANYWHERE = re.compile(r"\s*cd\s+/")


def superseded(messages: Sequence[Message], cwd: str, pins: Iterable[str] = ()) -> dict[str, str]:
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
        if call.name == "Bash" and _MOVES.search(str(call.arguments.get("command"))):
            later = {key for key in later if not key.startswith(_HERE)}
        keys = _keys(call, cwd)
        if any(key in later for key in keys) and tokens_of_text(message.text) > _LEAST and message.text not in kept:
            found[call.id] = f"[Cut: {_why(call)}. The later result is the one that counts.]"
        if not message.text.startswith(SKIPPED) and (not message.is_error or call.name == "Bash"):
            later.update(_replaces(call, cwd, whole=MORE not in message.text[-300:]))
    return found


def _why(call: ToolCall) -> str:
    if call.name == "Read":
        return "this file was read again, or written, later"
    return "this was run again later" if call.name == "Bash" else "this was looked up again later"


def _keys(call: ToolCall, cwd: str) -> list[str]:
    """Under which names a later call can replace this one's result."""
    if call.name not in _LOOKS:
        return []
    return [_exactly(call), *([f"file {path}"] if call.name == "Read" and (path := file_of(call, cwd)) else [])]


def _replaces(call: ToolCall, cwd: str, *, whole: bool) -> list[str]:
    """Which results before it a call replaces. whole: what was read went to the end of the file."""
    path = file_of(call, cwd)
    whole = call.name == "Write" or (call.name == "Read" and whole and not (call.arguments.keys() - {*_FILE_NAMES}))
    return [*([f"file {path}"] if whole and path else []), *([_exactly(call)] if call.name in _LOOKS else [])]


def _exactly(call: ToolCall) -> str:
    # What a command is said to be for does not make it another.
    given = {k: v for k, v in call.arguments.items() if k != "description"}
    bound = call.name == "Bash" and not _FROM_ANYWHERE.match(str(given.get("command")))
    return f"{_HERE if bound else ''}{call.name} {json.dumps(given, sort_keys=True)}"


def file_of(call: ToolCall, cwd: str) -> str:
    """The file that a call of a file tool names, as an absolute path; "" for none."""
    given = file_named(call)
    return os.path.normpath(os.path.join(cwd, given)) if given else ""


def file_named(call: ToolCall) -> str:
    """The file that a call of a file tool names, as it does; "" for none."""
    if call.name not in _FILE_TOOLS:
        return ""
    given = next((call.arguments[name] for name in _FILE_NAMES if call.arguments.get(name)), "")
    return given if isinstance(given, str) else ""

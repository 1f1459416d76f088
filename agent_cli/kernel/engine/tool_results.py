"""The results of calls as Claude Code's `tool_use_result` objects, which readers show instead of the text."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from agent_cli.kernel.events import ToolFinished
from agent_cli.kernel.messages import ToolMessage
from agent_cli.kernel.results import Usage
from agent_tools.edit.diff import parse_hunks
from agent_tools.fs.safe_files import read_regular
from agent_tools.results import CommandOutput, Diff, FileView, Listing, TodoItem, TodoView

CHANGES = frozenset({"Edit", "MultiEdit", "Write"})
# A larger file is not included as it was before a change.
_MAX_BYTES = 1 << 20
_NUMBER = re.compile(r" *\d+\t")


def text_before(path: str) -> str | None:
    """Return the text of a file that is about to be changed; None if it does not exist, is no text, or is very long."""
    try:
        data = read_regular(Path(path), _MAX_BYTES + 1)
        return None if len(data) > _MAX_BYTES else data.decode("utf-8")
    except (OSError, ValueError):
        return None


def absolute_path(path: Any, cwd: str) -> str:
    """Return the path that an argument names, as an absolute one."""
    return os.path.normpath(os.path.join(cwd, os.path.expanduser(str(path or ""))))


class ToolUseResults:
    """The objects for the calls of a session, which remember the text of files that are about to be changed.

    cwd: of the session.
    """

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._before: dict[object, str | None] = {}

    def started(self, call: object, tool: str, arguments: dict[str, Any]) -> None:
        """Note that a call begins. call: identifies it."""
        if tool in CHANGES:
            self._before[call] = text_before(absolute_path(arguments.get("file_path"), self._cwd))

    def finished(
        self, call: object, event: ToolFinished, message: ToolMessage, arguments: dict[str, Any],
        todos: tuple[TodoItem, ...],
    ) -> Any:  # fmt: skip
        """Return the object of a call: see `tool_use_result`."""
        before = self._before.pop(call, None)
        return tool_use_result(event, message, arguments, self._cwd, before=before, todos=todos)


def tool_use_result(
    finished: ToolFinished,
    message: ToolMessage,
    arguments: dict[str, Any],
    cwd: str,
    *,
    before: str | None = None,
    todos: tuple[TodoItem, ...] = (),
) -> Any:
    """Return the object for a call, or its text where Claude Code has no object.

    before: the text of the file before the call changed it.
    todos: the plan before the call.
    """
    path = absolute_path(arguments.get("file_path"), cwd)
    match finished.display:
        case CommandOutput() as ran:
            return {
                "stdout": ran.output,
                "stderr": "",
                "exit_code": ran.exit_code,
                "interrupted": ran.exit_code is None,
                "isImage": False,
                "noOutputExpected": False,
            }
        case Diff() as diff if finished.tool in CHANGES and not message.is_error:
            return _change(finished.tool, diff, arguments, path, before)
        case FileView() as view if finished.tool == "Read" and not path.lower().endswith(".ipynb"):
            return {
                "type": "text",
                "file": {"filePath": path, **_file_part(view, message.text, arguments.get("limit"))},
            }
        case TodoView(items=items):
            return {"oldTodos": [_todo(item) for item in todos], "newTodos": [_todo(item) for item in items]}
        case Listing() as found if finished.tool == "Glob":
            return {
                "durationMs": finished.duration_ms,
                "numFiles": len(found.lines),
                "filenames": list(found.lines),
                "truncated": found.more > 0,
                "totalMatches": len(found.lines) + found.more,
                "countIsComplete": True,
            }
        case Listing() as found if finished.tool == "Grep":
            return _grep_result(found, arguments)
    if finished.tool == "Read" and message.media and not message.is_error:
        media = message.media[0]
        size = len(media.data) * 3 // 4 - media.data[-2:].count("=")
        if media.kind == "pdf":
            return {"type": "pdf", "file": {"filePath": path, "base64": media.data, "originalSize": size}}
        return {"type": "image", "file": {"base64": media.data, "type": media.mime, "originalSize": size}}
    return f"Error: {message.text}" if message.is_error else message.text


def _file_part(view: FileView, text: str, limit: Any) -> dict[str, Any]:
    """Return the text that was read, with its counts. Text after the last line break is a line, even if empty."""
    lines = [_NUMBER.sub("", line, 1) for line in text.split("\n")[: view.lines]]
    rest = view.ended or not view.total
    if rest and view.first + view.lines > view.total and (limit is None or limit > view.lines):
        lines.append("")
    total = view.total + rest
    return {"content": "\n".join(lines), "numLines": len(lines), "startLine": view.first, "totalLines": total}


def _change(tool: str, diff: Diff, arguments: dict[str, Any], path: str, before: str | None) -> dict[str, Any]:
    common = {
        "filePath": path,
        "originalFile": None if diff.created else before,
        "structuredPatch": structured_patch(diff.patch),
        "userModified": False,
    }
    if tool == "Write":
        return {
            "type": "create" if diff.created else "update",
            "content": arguments.get("content", ""),
            **common,
            "structuredPatch": [] if diff.created else common["structuredPatch"],
        }
    if tool == "MultiEdit":
        return {"edits": arguments.get("edits", []), "originalFileContents": common["originalFile"], **common}
    return {
        "oldString": arguments.get("old_string", ""),
        "newString": arguments.get("new_string", ""),
        "replaceAll": bool(arguments.get("replace_all", False)),
        **common,
    }


def structured_patch(patch: str) -> list[dict[str, Any]]:
    """Return the hunks of a unified diff."""
    return [
        {
            "oldStart": hunk.old[0],
            "oldLines": hunk.old[1],
            "newStart": hunk.new[0],
            "newLines": hunk.new[1],
            "lines": list(hunk.lines),
        }
        for hunk in parse_hunks(patch)
    ]


def _grep_result(found: Listing, arguments: dict[str, Any]) -> dict[str, Any]:
    mode = arguments.get("output_mode") or "files_with_matches"
    skipped = arguments.get("offset") or 0
    total = len(found.lines) + found.more + (skipped if found.lines else 0)
    limit = {"appliedLimit": len(found.lines)} if found.more else {}
    offset = {"appliedOffset": skipped} if skipped else {}
    if mode == "files_with_matches":
        files = {"filenames": list(found.lines), "numFiles": len(found.lines), "totalFiles": total}
        return {"mode": mode, **files, **limit, **offset}
    lines: dict[str, Any] = {"content": "\n".join(found.lines)}
    if mode == "count":
        counts = [line.rpartition(":")[2] for line in found.lines]
        lines |= {"numFiles": len(found.lines), "numMatches": sum(int(c) for c in counts if c.isdecimal())}
    else:
        lines |= {"numFiles": 0, "numLines": len(found.lines), "totalLines": total}
    return {"mode": mode, "filenames": [], **lines, **limit, **offset}


def subagent_result(text: str, prompt: str, usage: Usage, calls: int, milliseconds: int) -> dict[str, Any]:
    """Return the report of a sub-agent with its usage."""
    return {
        "status": "completed",
        "prompt": prompt,
        "content": [{"type": "text", "text": text}],
        "totalToolUseCount": calls,
        "totalDurationMs": milliseconds,
        "totalTokens": usage.input + usage.output,
        "usage": usage.claude_fields,
    }


def _todo(item: TodoItem) -> dict[str, str]:
    return {"content": item.content, "status": item.status, "activeForm": item.activeForm or item.content}

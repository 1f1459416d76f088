"""Sessions of Claude Code: `projects/<folder>/<session id>.jsonl` in its configuration folder.

`kernel.session.transcripts.reader` finds the active branch, from the latest compaction on. Side chains of sub-agents
are in files of their own: their report is the result of the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_cli.kernel.messages import Message, UserMessage
from agent_cli.kernel.session.files import projects_folder
from agent_cli.kernel.session.transcripts.entries import Entry, encoded_path, is_session_id
from agent_cli.kernel.session.transcripts.reader import read_conversation
from agent_cli.takeover import form
from agent_cli.takeover.form import ForeignSession, FoundSession, Seen
from agent_tools.fs.read_state import MENTION
from agent_tools.fs.safe_files import read_regular
from agent_tools.results import TodoItem

_COMMAND = re.compile(r"<command-name>(.*?)</command-name>.*?(?:<command-args>(.*?)</command-args>|\Z)", re.DOTALL)
_LOCAL = "<local-command-"
_CONTINUES = "Continue from "
_NUMBERED = re.compile(r"^ *(\d+)(?:→|\t)(.*)$", re.MULTILINE)
_MAX_TASKS, _MAX_TASK_BYTES = 200, 100_000


def find_claude(env: Mapping[str, str], home: Path | None, root: Path | None) -> Iterator[FoundSession]:
    """Yield the sessions below a folder, or all. root: None for all."""
    prefix = encoded_path(root)[:180] if root is not None else ""
    try:
        folders = [f for f in projects_folder(env, home).iterdir() if f.name.startswith(prefix) and f.is_dir()]
    except OSError:
        return
    for path in (path for folder in folders for path in folder.glob("*.jsonl") if is_session_id(path.stem)):
        cwd = title = ""
        for entry in form.head_of(path):
            cwd = cwd or str(entry.get("cwd") or "")
            title = _first_words(entry)
            if title or (cwd and not form.works_in(cwd, root)):
                break
        if cwd and form.works_in(cwd, root):
            yield FoundSession("claude", path.stem, path, cwd, title, form.modified(path))


def _first_words(entry: Entry) -> str:
    """Return the first words of the user in an entry; "" for any other entry."""
    text = _text(entry) if entry.get("type") == "user" and not entry.get("isMeta") else ""
    return "" if entry.get("isCompactSummary") or text.startswith(("<command-", _LOCAL)) else UserMessage(text).title


def read_claude(found: FoundSession, env: Mapping[str, str], home: Path | None) -> ForeignSession:
    """Read a session. Raises SessionNotFoundError."""
    seen: list[Seen] = []
    todos: list[TodoItem] = []

    def selected(entries: list[Entry]) -> list[Entry]:
        seen.extend(_seen(entries))
        todos.extend(_todos(entries))
        return _said(entries)

    made = read_conversation(found.path, selected)
    messages: tuple[Message, ...] = tuple(message for message, _ in made.messages)
    plan = _tasks(projects_folder(env, home).parent / "tasks" / found.session_id) or tuple(todos)
    found = found.replace(title=made.name or found.title)
    return ForeignSession(found, messages, plan, tuple(seen), bool(made.name), made.damaged)


def _text(entry: Entry) -> str:
    content = (entry.get("message") or {}).get("content") if isinstance(entry.get("message"), dict) else None
    if isinstance(content, list):
        content = "\n".join(str(b.get("text")) for b in content if isinstance(b, dict) and b.get("type") == "text")
    return content if isinstance(content, str) else ""


def _said(entries: list[Entry]) -> list[Entry]:
    """Return the entries with what the program itself wrote marked as such; without its local commands."""
    kept: list[Entry] = []
    for entry in entries:
        path, content = _mentioned(entry)
        if kept and kept[-1]["type"] == "user" and (block := form.file_block(path, content)):
            kept[-1] = _with_text(kept[-1], _text(kept[-1]) + block)
            continue
        text = _text(entry) if entry["type"] == "user" else ""
        if text.startswith(_LOCAL):
            # What ran was no message: leave out the command before its output.
            if kept and _text(kept[-1]).startswith("<command-name>"):
                kept.pop()
            continue
        if entry.get("isMeta") and text.startswith(_CONTINUES):
            continue
        if entry.get("isCompactSummary"):
            text = form.summary_message(text)
        elif entry.get("isMeta") and text:
            text = f"<reminder>\n{text}\n</reminder>"
        kept.append(_with_text(entry, text) if text and text != _text(entry) else entry)
    return [_as_typed(entry) for entry in kept]


def _as_typed(entry: Entry) -> Entry:
    """Return a slash command as the user typed it."""
    text = _text(entry)
    if entry["type"] != "user" or not text.startswith("<command-") or (found := _COMMAND.search(text)) is None:
        return entry
    typed = " ".join(filter(None, (part.strip() for part in found.groups() if part)))
    return _with_text(entry, typed)


def _with_text(entry: Entry, text: str) -> Entry:
    """Return a message with another text, and the images that it has."""
    content = entry["message"]["content"]
    others = (
        [b for b in content if isinstance(b, dict) and b.get("type") != "text"] if isinstance(content, list) else []
    )
    return {**entry, "message": {**entry["message"], "content": [{"type": "text", "text": text}, *others]}}


def _mentioned(entry: Entry) -> tuple[str, str]:
    """Return the file that an entry attaches to the message before it, and its text; "" for none."""
    attached = entry.get("attachment") or {}
    shown = attached.get("content")
    file = shown.get("file") if isinstance(shown, dict) else None
    if not isinstance(file, dict) or not isinstance(file.get("content"), str):
        return "", ""
    return str(attached.get("displayPath") or file.get("filePath") or ""), file["content"]


def _blocks(entries: list[Entry]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        content = (entry.get("message") or {}).get("content")
        yield from (b for b in content if isinstance(b, dict)) if isinstance(content, list) else ()


def _results(entries: list[Entry]) -> dict[str, str | None]:
    """Return the texts of results by call; None for one that failed."""
    found: dict[str, str | None] = {}
    for block in _blocks(entries):
        if block.get("type") == "tool_result":
            content = block.get("content")
            parts = content if isinstance(content, list) else [{"text": content}]
            text = "\n".join(str(p.get("text") or "") for p in parts if isinstance(p, dict))
            found[str(block.get("tool_use_id"))] = None if block.get("is_error") else text
    return found


def _calls(entries: list[Entry]) -> Iterator[tuple[str, str, dict[str, Any], str]]:
    """Yield the calls that succeeded: ID, name, arguments and result."""
    results = _results(entries)
    for block in _blocks(entries):
        identity, given = str(block.get("id")), block.get("input")
        if block.get("type") == "tool_use" and isinstance(given, dict) and (text := results.get(identity)) is not None:
            yield identity, str(block.get("name")), given, text


def _seen(entries: list[Entry]) -> Iterator[Seen]:
    for path, text in map(_mentioned, entries):
        if path:
            yield Seen(MENTION, path, text, 1)
    for identity, name, given, text in _calls(entries):
        path = str(given.get("file_path") or "")
        if name == "Bash":
            yield Seen(identity, "", text, command=str(given.get("command") or ""))
        elif name == "Read" and (lines := _NUMBERED.findall(text)):
            # What follows the last line feed has a number, too.
            lines = lines[:-1] if len(lines) > 1 and not lines[-1][1] else lines
            yield Seen(identity, path, "\n".join(line for _, line in lines), int(lines[0][0]))
        elif name == "Write":
            yield Seen(identity, path, str(given.get("content") or ""), 1)
        elif name in ("Edit", "MultiEdit"):
            for edit in given.get("edits") or [given]:
                if isinstance(edit, dict):
                    yield Seen(identity, path, str(edit.get("new_string")), old=str(edit.get("old_string")))


def _todos(entries: list[Entry]) -> tuple[TodoItem, ...]:
    lists = [form.todo_items(given.get("todos")) for _, name, given, _ in _calls(entries) if name == "TodoWrite"]
    return lists[-1] if lists else ()


def _tasks(folder: Path) -> tuple[TodoItem, ...]:
    """Return the list of tasks that a session keeps in files of their own."""
    try:
        paths = sorted((p for p in folder.glob("*.json") if p.stem.isdigit()), key=lambda p: int(p.stem))
        found = [form.json_object(read_regular(path, _MAX_TASK_BYTES)) for path in paths[:_MAX_TASKS]]
    except OSError:
        return ()
    return form.todo_items([task for task in found if task and task.get("status") != "deleted"])

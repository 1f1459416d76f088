"""Sessions of Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*`, as JSON lines, or one JSON object until 2026.

A later record of a message replaces the earlier one, `$set` replaces fields of the whole, and `$rewindTo` drops a
message and all after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from agent_cli.kernel.messages import AssistantMessage, Message, Part, Text, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.session.records import SessionNotFoundError
from agent_cli.takeover import form
from agent_cli.takeover.form import ForeignSession, FoundSession, Seen
from agent_tools.fs.safe_files import read_regular
from agent_tools.results import TodoItem

Record = dict[str, Any]
_MAX_NAME_BYTES, _MAX_OLD_BYTES = 8192, 256 << 20
_CONTEXT = "<session_context>"
_WRAPPED = re.compile(r"\A<untrusted_context>\n(.*?)\n?</untrusted_context>\Z", re.DOTALL)
_SHELL = re.compile(
    r"\A(?:Command: [^\n]*\n)?(?:Directory: [^\n]*\n)?(?:Output|Stdout): (.*?)(?:\n[A-Z][\w ]+: [^\n]*)*\Z", re.DOTALL
)
_PART = re.compile(r"Showing lines (\d+)-\d+ of \d+ total lines.*?--- FILE CONTENT \(truncated\) ---\n", re.DOTALL)


def find_gemini(env: Mapping[str, str], home: Path | None, root: Path | None) -> Iterator[FoundSession]:
    """Yield the sessions below a folder, or all. root: None for all."""
    top = form.folder(env, "GEMINI_CLI_HOME", home, "") / ".gemini"
    try:
        projects = [p for p in (top / "tmp").iterdir() if (p / "chats").is_dir()]
    except OSError:
        return
    hashed = {sha256(str(root).encode()).hexdigest(): str(root)} if root is not None else {}
    for project in projects:
        try:
            cwd = read_regular(project / ".project_root", _MAX_NAME_BYTES).decode().strip()
        except (OSError, UnicodeDecodeError):
            cwd = hashed.get(project.name, "")
        if not form.works_in(cwd, root) or (not cwd and root is not None):
            continue
        for path in sorted((project / "chats").glob("session-*.json*")):
            try:
                about, messages, _ = _load(path)
            except (OSError, ValueError):
                continue
            if about.get("kind") != "subagent" and messages:
                title = UserMessage(
                    next((t for m in messages if m.get("type") == "user" and (t := _said(m))), "")
                ).title
                yield FoundSession(
                    "gemini", str(about.get("sessionId") or path.stem), path, cwd, title, form.modified(path)
                )


def _load(path: Path) -> tuple[Record, list[Record], int]:
    """Return the fields of a session, its messages, and the number of damaged lines. Raises OSError, ValueError."""
    if path.suffix == ".json":
        whole = form.json_object(read_regular(path, _MAX_OLD_BYTES))
        if whole is None:
            raise ValueError
        return whole, _records(whole.get("messages")), 0
    about: Record = {}
    messages: dict[str, Record] = {}
    damaged = 0
    for record in form.json_lines(path):
        if record is None:
            damaged += 1
        elif isinstance(changed := record.get("$set"), dict):
            if isinstance(changed.get("messages"), list):
                messages = {str(m.get("id")): m for m in _records(changed["messages"])}
            about |= {name: value for name, value in changed.items() if name != "messages"}
        elif "$rewindTo" in record:
            ids = list(messages)
            for gone in ids[ids.index(record["$rewindTo"]) :] if record["$rewindTo"] in messages else []:
                del messages[gone]
        elif "type" in record and "id" in record:
            messages[str(record["id"])] = record
        elif "sessionId" in record:
            about |= record
    return about, list(messages.values()), damaged


def _records(items: Any) -> list[Record]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def read_gemini(found: FoundSession, env: Mapping[str, str], home: Path | None) -> ForeignSession:
    """Read a session. Raises SessionNotFoundError."""
    try:
        _, records, damaged = _load(found.path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no session"
        raise SessionNotFoundError(f"Cannot read {found.path}: {why}.") from None
    messages: list[Message] = []
    calls: dict[str, tuple[str, Record]] = {}
    plan: tuple[TodoItem, ...] = ()
    seen: list[Seen] = []
    answered: set[str] = set()
    for record in records:
        if record.get("type") == "user":
            if text := _said(record):
                messages.append(UserMessage(text, tuple(_media(record))))
        elif record.get("type") == "gemini":
            parts = list(_answer(record))
            calls |= {p.id: (p.name, p.arguments) for p in parts if isinstance(p, ToolCall)}
            if parts:
                messages.append(AssistantMessage(tuple(parts), model=str(record.get("model") or "")))
        for identity, text, failed in _results(record):
            if identity in answered or identity not in calls:
                continue
            answered.add(identity)
            name, arguments = calls[identity]
            messages.append(ToolMessage(identity, name, text, failed))
            if not failed:
                plan = form.todo_items(arguments.get("todos")) if name == "write_todos" else plan
                seen += _seen(identity, name, arguments, text)
    return ForeignSession(found, tuple(messages), plan, tuple(seen), damaged=damaged)


def _parts(record: Record) -> list[Record]:
    content = record.get("content")
    return [{"text": content}] if isinstance(content, str) else _records(content)


def _said(record: Record) -> str:
    texts = [str(p["text"]) for p in _parts(record) if isinstance(p.get("text"), str)]
    return "\n".join(text for text in texts if text and not text.startswith(_CONTEXT))


def _media(record: Record) -> Iterable[Any]:
    for part in _parts(record):
        if isinstance(inline := part.get("inlineData"), dict):
            yield from form.media_of(inline.get("mimeType"), inline.get("data"))


def _answer(record: Record) -> Iterator[Part]:
    said = [p for p in _parts(record) if isinstance(p.get("text"), str) and not p.get("thought")]
    if text := "".join(p["text"] for p in said):
        yield Text(text)
    made = [p["functionCall"] for p in _parts(record) if isinstance(p.get("functionCall"), dict)]
    for call in [*made, *_records(record.get("toolCalls"))]:
        arguments = call.get("args")
        if isinstance(call.get("id"), str) and isinstance(call.get("name"), str):
            yield ToolCall(call["id"], call["name"], arguments if isinstance(arguments, dict) else {})


def _results(record: Record) -> Iterator[tuple[str, str, bool]]:
    """Yield the results in a record: of the calls of an answer, or of a user message that is made of them."""
    for call in _records(record.get("toolCalls")):
        parts = _records(call.get("result"))
        if parts or call.get("status") in ("success", "error", "cancelled"):
            text = "\n".join(filter(None, (_output(p) for p in parts)))
            yield str(call.get("id")), text, call.get("status") in ("error", "cancelled")
    for part in _parts(record):
        if isinstance(answer := part.get("functionResponse"), dict):
            response = answer.get("response")
            yield str(answer.get("id")), _output(part), isinstance(response, dict) and "error" in response


def _output(part: Record) -> str:
    answer = part.get("functionResponse")
    response = answer.get("response") if isinstance(answer, dict) else None
    known = response if isinstance(response, dict) else {}
    text = str(known.get("output") or known.get("error") or part.get("text") or "")
    if (wrapped := _WRAPPED.match(text)) is not None:
        shell = _SHELL.match(wrapped[1])
        return shell[1] if shell else wrapped[1]
    return text


def _seen(identity: str, name: str, arguments: Record, text: str) -> Iterator[Seen]:
    path = str(arguments.get("file_path") or arguments.get("absolute_path") or "")
    if name == "read_file":
        part = _PART.search(text)
        first = int(part[1]) if part else int(arguments.get("start_line") or arguments.get("offset") or 0) or 1
        yield Seen(identity, path, text[part.end() :] if part else text, first)
    elif name == "write_file":
        yield Seen(identity, path, str(arguments.get("content") or ""), 1)
    elif name == "replace":
        yield Seen(identity, path, str(arguments.get("new_string")), old=str(arguments.get("old_string")))
    elif name == "run_shell_command":
        cwd = str(arguments.get("dir_path") or arguments.get("directory") or "")
        yield Seen(identity, "", text, command=str(arguments.get("command") or ""), cwd=cwd)

"""Sessions of Codex: `sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl` in CODEX_HOME, one record a line.

A fork names the session that it goes on from, and how much of it. A compaction contains what replaces the history.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_cli.kernel.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.session.records import SessionNotFoundError
from agent_cli.takeover import form
from agent_cli.takeover.form import ForeignSession, FoundSession, Seen
from agent_tools.results import Media, TodoItem

Record = dict[str, Any]
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# How what the program writes in the user's name begins.
_OWN = (
    "<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<INSTRUCTIONS>", "<skill",
    "<permissions", "<collaboration_mode>",
)  # fmt: skip
_ABORTED, _SUMMARY = "<turn_aborted>", "Another language model started to solve this problem"
_OUTPUT = re.compile(
    r"\A(?:Chunk ID: .*\n)?(?:Exit code: (\d+)\n)?Wall time: .*\n"
    r"(?:Process exited with code (\d+)\n)?(?:Process running with .*\n)?"
    r"(?:(?:Original token [a-z]+|Total output lines): .*\n)*Output:\n"
)
_UNSUPPORTED, _INTERRUPTED = "unsupported call:", "aborted by user"
_MAX_FORKS = 20


def find_codex(env: Mapping[str, str], home: Path | None, root: Path | None) -> Iterator[FoundSession]:
    """Yield the sessions below a folder, or all. root: None for all."""
    for path in _files(env, home):
        records = form.head_of(path)
        about = next((_payload(r) for r in records if r.get("type") == "session_meta"), {})
        cwd, source = str(about.get("cwd") or ""), about.get("source")
        # Sub-agents have files of their own.
        if about and form.works_in(cwd, root) and not (isinstance(source, dict) and "subagent" in source):
            title = UserMessage(next((t for r in records if (t := _typed(_payload(r)))), "")).title
            yield FoundSession("codex", _id_of(path), path, cwd, title, form.modified(path))


def _files(env: Mapping[str, str], home: Path | None) -> list[Path]:
    top = form.folder(env, "CODEX_HOME", home, ".codex")
    return [p for name in ("sessions", "archived_sessions") for p in top.joinpath(name).rglob("rollout-*.jsonl")]


def _id_of(path: Path) -> str:
    return path.stem[-36:]


def _payload(record: Record) -> Record:
    payload = record.get("payload")
    return payload if isinstance(payload, dict) else {}


def _typed(item: Record) -> str:
    """Return the text of a message that the user typed; "" for any other item."""
    text = _said(item) if item.get("type") == "message" and item.get("role") == "user" else ""
    return "" if text.startswith(_ABORTED) else text


def read_codex(found: FoundSession, env: Mapping[str, str], home: Path | None) -> ForeignSession:
    """Read a session. Raises SessionNotFoundError."""
    reader = _Reader()
    try:
        reader.read(found.path, None, lambda session_id: _path_of(session_id, env, home))
    except OSError as error:
        raise SessionNotFoundError(f"Cannot read {found.path}: {error.strerror or error}.") from None
    return ForeignSession(found, tuple(reader.messages), reader.plan, tuple(reader.seen), damaged=reader.damaged)


def _path_of(session_id: str, env: Mapping[str, str], home: Path | None) -> Path | None:
    return next((path for path in _files(env, home) if _id_of(path) == session_id), None)


class _Reader:
    """Collects what the records of a session say."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.plan: tuple[TodoItem, ...] = ()
        self.seen: list[Seen] = []
        self.damaged = 0
        self._forks = 0
        self._calls: dict[str, tuple[str, dict[str, Any]]] = {}

    def read(self, path: Path, end: int | None, find_base: Any) -> None:
        """Read a file. end: ordinal of the first record that is not read. Raises OSError."""
        for number, record in enumerate(form.json_lines(path)):
            if record is None:
                self.damaged += 1
                continue
            ordinal = record.get("ordinal")
            if end is not None and (ordinal if isinstance(ordinal, int) else number) >= end:
                break
            payload = _payload(record)
            if record.get("type") == "session_meta":
                self._read_base(payload, find_base)
            elif record.get("type") == "compacted":
                self._compact(payload)
            elif record.get("type") == "response_item":
                self._take(payload)
            elif payload.get("type") == "thread_rolled_back" and isinstance(payload.get("num_turns"), int):
                self._roll_back(payload["num_turns"])

    def _read_base(self, about: Record, find_base: Any) -> None:
        base = about.get("history_base")
        if not isinstance(base, dict) or not _ID.fullmatch(str(base.get("thread_id"))) or self._forks >= _MAX_FORKS:
            return
        self._forks += 1
        path, end = find_base(base["thread_id"]), base.get("end_ordinal_exclusive")
        if path is None:
            raise SessionNotFoundError(f"Session {base['thread_id']}, of which this is a fork, is not there any more.")
        self.read(path, end if isinstance(end, int) else None, find_base)

    def _compact(self, payload: Record) -> None:
        """Begin again with what a compaction left."""
        users = [m for m in self.messages if isinstance(m, UserMessage)]
        self.messages, self.seen = [], []
        if isinstance(kept := payload.get("replacement_history"), list):
            for item in kept:
                self._take(item if isinstance(item, dict) else {})
        else:
            self.messages = [*users, UserMessage(form.summary_message(str(payload.get("message") or "")))]

    def _roll_back(self, turns: int) -> None:
        """Drop the latest turns, which the user took back."""
        starts = [n for n, m in enumerate(self.messages) if isinstance(m, UserMessage) and not _is_own(m.text)]
        if turns > 0 and starts:
            del self.messages[starts[-min(turns, len(starts))] :]

    def _take(self, item: Record) -> None:
        match item:
            case {"type": "message", "role": "user"}:
                text, media = _said(item), _media(item.get("content"))
                if text.startswith(_SUMMARY):
                    text = form.summary_message(text)
                elif text.startswith(_ABORTED):
                    text = f"<reminder>\n{text}\n</reminder>"
                if text or media:
                    self.messages.append(UserMessage(text, media))
            case {"type": "message", "role": "assistant"}:
                if text := _text(item.get("content")):
                    self.messages.append(AssistantMessage((Text(text),)))
            case {"type": "function_call", "name": str(name), "call_id": str(identity)}:
                self._call(identity, name, form.json_object(str(item.get("arguments"))) or {})
            case {"type": "custom_tool_call", "name": str(name), "call_id": str(identity)}:
                self._call(identity, name, {"input": str(item.get("input"))})
            case {"type": "local_shell_call", "call_id": str(identity), "action": dict(action)}:
                self._call(identity, "shell", {"command": action.get("command")})
            case {"type": "web_search_call", "action": dict(action)}:
                self._call(str(item.get("id") or f"search_{len(self.messages)}"), "web_search_call", action)
            case {"type": "function_call_output" | "custom_tool_call_output", "call_id": str(identity)}:
                self._result(identity, item.get("output"))

    def _call(self, identity: str, name: str, arguments: dict[str, Any]) -> None:
        self._calls[identity] = name, arguments
        call = ToolCall(identity, name, arguments)
        last = self.messages[-1] if self.messages else None
        if isinstance(last, AssistantMessage):
            self.messages[-1] = last.replace(parts=(*last.parts, call))
        else:
            self.messages.append(AssistantMessage((call,)))

    def _result(self, identity: str, output: Any) -> None:
        text, failed = _text(output), False
        if (wrapped := form.json_object(text)) is not None and isinstance(wrapped.get("output"), str):
            code = (wrapped.get("metadata") or {}).get("exit_code")
            text, failed = wrapped["output"], code not in (0, None)
        elif (head := _OUTPUT.match(text)) is not None:
            code = head[1] or head[2] or "0"
            text, failed = text[head.end() :], code != "0"
            text += f"\n(exit code {code})" if failed else ""
        failed = failed or text.startswith(_UNSUPPORTED) or text.endswith(_INTERRUPTED)
        name, arguments = self._calls.get(identity, ("", {}))
        self.messages.append(ToolMessage(identity, name, text, failed, _media(output)))
        if failed:
            return
        if name == "update_plan":
            self.plan = form.todo_items(arguments.get("plan"))
        elif name == "create_goal":
            self.plan = form.todo_items([{"step": arguments.get("objective"), "status": "in_progress"}])
        elif name == "update_goal" and arguments.get("status") == "complete":
            self.plan = tuple(item.replace(status="completed") for item in self.plan)
        elif isinstance(command := arguments.get("cmd") or arguments.get("command"), str):
            cwd = str(arguments.get("workdir") or "")
            self.seen.append(Seen(identity, "", text, command=command, cwd=cwd))
        elif isinstance(command, list) and len(command) == 3 and command[1] in ("-c", "-lc"):
            self.seen.append(Seen(identity, "", text, command=str(command[2])))
        elif name == "apply_patch":
            self.seen += _patched(identity, str(arguments.get("input") or ""))


def _patched(identity: str, patch: str) -> Iterator[Seen]:
    """Yield what a patch made of files, hunk by hunk."""
    path, added = "", False
    old: list[str] = []
    new: list[str] = []

    def hunk() -> Iterator[Seen]:
        if path and (old or new):
            text = "\n".join(new)
            yield Seen(identity, path, text, 1) if added else Seen(identity, path, text, old="\n".join(old))

    for line in [*patch.splitlines(), "@@"]:
        if line.startswith(("@@", "*** ")):
            yield from hunk()
            old, new = [], []
            if found := re.match(r"\*\*\* (Add|Update|Delete) File: (.+)", line):
                path, added = found[2].strip(), found[1] == "Add"
        else:
            old += [line[1:]] if not line.startswith("+") else []
            new += [line[1:]] if not line.startswith("-") else []


def _said(item: Record) -> str:
    """Return the user's words in a message, without what the program wrote in their name."""
    parts = item.get("content")
    texts = [str(p.get("text") or "") for p in parts if isinstance(p, dict)] if isinstance(parts, list) else []
    return "\n".join(text for text in texts if text and not text.startswith(_OWN))


def _is_own(text: str) -> bool:
    return text.startswith(("<reminder>", "<compacted>"))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(p["text"] for p in parts if isinstance(p, dict) and isinstance(p.get("text"), str))


def _media(content: Any) -> tuple[Media, ...]:
    parts = content if isinstance(content, list) else []
    return tuple(m for p in parts if isinstance(p, dict) for m in form.media_of_url(p.get("image_url")))

"""Turn a session of another program into one of ours: calls of known tools become ours, every other one a line of text.

Every call has exactly one result, behind the answer that made it; a call without one is closed as interrupted. A file
has been read if the results showed what it contains now.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agent_cli.kernel.events import (
    Event,
    FilesSeen,
    MessageAdded,
    PlanChanged,
    RoundStarted,
    ToolFinished,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from agent_cli.kernel.messages import (
    AssistantMessage,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
    is_user_message,
)
from agent_cli.kernel.results import Diagnostics, Usage
from agent_cli.takeover.form import ForeignSession, Seen
from agent_tools.base import Tool, ToolContext, ToolError
from agent_tools.foreign_calls import resolve_call
from agent_tools.fs.encoding import decode_text, split_lines
from agent_tools.fs.read_state import MENTION, call_source, note_read
from agent_tools.fs.safe_files import read_regular
from agent_tools.fs.workspace import Workspace
from agent_tools.plan import plan_items
from agent_tools.registry import BUILTIN
from agent_tools.results import TodoItem
from agent_tools.schema import ArgumentNames
from agent_tools.shell.shown_files import printed_paths
from agent_tools.text import cut_line, sanitize_output, shorten

_TOOLS: dict[str, Tool[Any]] = {tool.name: tool for tool in BUILTIN}
_INTERRUPTED = "The session was interrupted before this call had a result: it may have run, or in part."
_NO_BEGINNING = "<reminder>\nThe beginning of this conversation is not in its file.\n</reminder>"
_MAX_RESULT_CHARS = 30_000
_MAX_LINE_CHARS = 200
_MAX_FILE_BYTES = 10_000_000
_MAX_NAMED = 20


def our_messages(session: ForeignSession) -> list[Message]:
    """Return the messages of a session with calls of our tools."""
    results: dict[str, ToolMessage] = {}
    for message in session.messages:
        if isinstance(message, ToolMessage):
            results.setdefault(message.call_id, message)
    made: list[Message] = []
    known: set[str] = set()
    for message in session.messages:
        if isinstance(message, UserMessage):
            made.append(message.replace(text=sanitize_output(message.text)))
        elif isinstance(message, AssistantMessage):
            new = tuple(part for p in message.parts if (part := _our_part(p, results, known)) is not None)
            answer = AssistantMessage(new)
            last = made[-1] if made else None
            if isinstance(last, AssistantMessage):
                made[-1] = answer = last.replace(parts=(*last.parts, *answer.parts))
            elif new:
                made.append(answer)
            made += [_our_result(part, results.get(part.id)) for part in new if isinstance(part, ToolCall)]
    if made and not isinstance(made[0], UserMessage):
        made.insert(0, UserMessage(_NO_BEGINNING))
    return made


def _our_part(part: Part, results: dict[str, ToolMessage], known: set[str]) -> Part | None:
    """Return a part as one of ours; None for reasoning, which only its provider can read, and for a repeated call."""
    if isinstance(part, Thinking):
        return None
    if isinstance(part, Text):
        return Text(sanitize_output(part.text)) if part.text.strip() else None
    if part.id in known:
        return None
    known.add(part.id)
    return _our_call(part) or Text(_one_line(part, results.get(part.id)))


def _our_call(call: ToolCall) -> ToolCall | None:
    """Return a call as one of our tools; None if there is none for it."""
    meant = resolve_call(call.name, call.arguments, _TOOLS)
    if meant is None:
        return None
    tool, arguments = _TOOLS[meant.tool], meant.arguments
    names = ArgumentNames(tool.Args)
    # Options that only the other program has are left out.
    kept = tool.canonical({name: value for name, value in arguments.items() if names.field(name) is not None})
    try:
        tool.read(kept)
    except ToolError:
        return None
    return ToolCall(call.id, tool.name, kept)


def _one_line(call: ToolCall, result: ToolMessage | None) -> str:
    """Return a call of a tool that we do not have, with the beginning of its result."""
    given = json.dumps(call.arguments, ensure_ascii=False) if call.arguments else ""
    said = " ".join(result.text.split()) if result is not None else "no result: the session was interrupted"
    how = " failed" if result is not None and result.is_error else ""
    given, said = (shorten(text, _MAX_LINE_CHARS) for text in (" ".join(given.split()), said))
    return sanitize_output(f"[{call.name}{how}: {given} -> {said}]\n")


def _our_result(call: ToolCall, result: ToolMessage | None) -> ToolMessage:
    if result is None:
        return ToolMessage(call.id, call.name, _INTERRUPTED, is_error=True)
    text = sanitize_output(result.text)
    if len(text) > _MAX_RESULT_CHARS:
        half, gone = _MAX_RESULT_CHARS // 2, len(text) - _MAX_RESULT_CHARS
        text = f"{text[:half]}\n[{gone:,} characters left out]\n{text[-half:]}"
    return ToolMessage(call.id, call.name, text, result.is_error, result.media)


def our_events(
    messages: Iterable[Message], files: KnownFiles, plan: tuple[TodoItem, ...], note: str
) -> Iterator[Event]:
    """Yield what the log of a session of ours has of these messages. note: the message at their end."""
    yield from (end := _Turns(files.context)).events(messages)
    if plan:
        yield PlanChanged(plan)
    yield FilesSeen(files.marks)
    yield MessageAdded(UserMessage(note))
    yield end.finished()


class _Turns:
    """Divides messages into turns, each from a message of the user on."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._rounds = self._calls = 0

    def events(self, messages: Iterable[Message]) -> Iterator[Event]:
        begun = False
        for message in messages:
            starts = is_user_message(message) or (not begun and not isinstance(message, UserMessage))
            if starts and begun:
                yield self.finished()
            if isinstance(message, AssistantMessage):
                self._rounds, self._calls = self._rounds + 1, self._calls + len(message.calls)
                yield RoundStarted(self._rounds)
            elif isinstance(message, ToolMessage):
                yield ToolFinished(message.call_id, message.name, message.is_error, 0)
            yield MessageAdded(message)
            if starts:
                yield TurnStarted("", "")
                begun, self._rounds, self._calls = True, 0, 0
            if isinstance(message, AssistantMessage):
                for call in message.calls:
                    yield ToolRequested(call.id, call.name, call.arguments, self._summary(call))
                    yield ToolStarted(call.id, call.name)

    def _summary(self, call: ToolCall) -> str:
        tool = _TOOLS[call.name]
        try:
            return tool.summary(tool.read(call.arguments), self._context)
        except (ToolError, OSError, ValueError):
            return call.name

    def finished(self) -> TurnFinished:
        return TurnFinished("Complete", Diagnostics(self._rounds, self._calls, 0, 0, "", "completed"), Usage())


def our_plan(session: ForeignSession, messages: Iterable[Message]) -> tuple[TodoItem, ...]:
    """Return the todo list of a session, else the steps of the plan that was approved last."""
    if session.plan:
        return session.plan
    failed = {m.call_id for m in messages if isinstance(m, ToolMessage) and m.is_error}
    calls = (part for m in messages if isinstance(m, AssistantMessage) for part in m.calls)
    plans = [str(c.arguments.get("plan")) for c in calls if c.name == "ExitPlanMode" and c.id not in failed]
    return tuple(TodoItem(item) for item in plan_items(plans[-1])) if plans else ()


class _Shown:
    """Consecutive lines that the model knows of a file. first: number of the first one; 0 if unknown."""

    def __init__(self, lines: list[str], first: int, call_id: str) -> None:
        self.lines, self.first, self.call_id = lines, first, call_id

    def place_in(self, now: list[str]) -> tuple[int, int] | None:
        """Return the first and last line that the file has there now; None if they are not, or not only once."""
        count = len(self.lines)
        if self.first:
            same = count and now[self.first - 1 : self.first - 1 + count] == self.lines
            return (self.first, self.first + count - 1) if same else None
        places = _places(self.lines, now)
        return (places[0] + 1, places[0] + count) if len(places) == 1 else None


def _places(part: list[str], whole: list[str]) -> list[int]:
    """Return the indexes of lines at which these lines begin."""
    if not part:
        return []
    count = len(part)
    return [n for n in range(len(whole) - count + 1) if whole[n] == part[0] and whole[n : n + count] == part]


class KnownFiles:
    """What the model of the other program knew of files, and which of them still are so.

    messages: those of `our_messages`.
    """

    def __init__(self, session: ForeignSession, messages: Iterable[Message], root: Path) -> None:
        self._tools = {call.id: call.name for m in messages if isinstance(m, AssistantMessage) for call in m.calls}
        self._cwd = Path(session.found.cwd or root)
        self._shown: dict[Path, list[_Shown]] = {}
        for seen in session.seen:
            if seen.call_id in self._tools or seen.call_id == MENTION:
                self._take(seen)
        self.context = context = ToolContext(Workspace(root))
        self.changed: list[str] = []
        for path, pieces in self._shown.items():
            if not self._note(path, pieces, context):
                self.changed.append(context.workspace.spell(path))
        self.unchanged = [context.workspace.spell(Path(path)) for path in context.seen]
        self.marks = context.seen

    def _take(self, seen: Seen) -> None:
        if seen.command:
            for path in printed_paths(seen.command, self._cwd / seen.cwd):
                self._add(path, _Shown(_lines(seen.text), -1, seen.call_id))
            return
        path = Path(os.path.realpath(self._cwd / seen.path))
        if seen.old is None:
            self._add(path, _Shown(_lines(seen.text), seen.first, seen.call_id))
            return
        for piece in self._shown.get(path, []):
            text = "\n".join(piece.lines)
            if seen.old and seen.old in text:
                piece.lines, piece.call_id = text.replace(seen.old, seen.text, 1).split("\n"), seen.call_id
            elif piece.first > 1:
                piece.first = 0  # it may have moved

    def _add(self, path: Path, shown: _Shown) -> None:
        path = Path(os.path.realpath(path))
        pieces = self._shown.setdefault(path, [])
        if shown.first == 1:
            pieces.clear()
        pieces.append(shown)

    def _note(self, path: Path, pieces: list[_Shown], context: ToolContext) -> bool:
        """Note a file as read; return False if it is not as shown."""
        try:
            data = read_regular(path, _MAX_FILE_BYTES)
        except OSError:
            return False
        text = decode_text(data)
        now = _lines(text.content) if text is not None else []
        places = []
        for piece in pieces:
            place = _printed(piece, now) if piece.first == -1 else piece.place_in(now)
            if place is None:
                return False
            places.append((piece.call_id, place))
        for call_id, place in places:
            context.source = call_id if call_id == MENTION else call_source(self._tools[call_id], call_id)
            note_read(path, data, context, None if place == (1, len(now)) else (place,))
        return bool(places)


def _printed(piece: _Shown, now: list[str]) -> tuple[int, int] | None:
    """Return the lines of a file that the output of a command contains: all of them, or the output is part of it."""
    if _places(now, piece.lines):
        return 1, len(now)
    return _Shown(piece.lines, 0, piece.call_id).place_in(now)


def _lines(text: str) -> list[str]:
    return [line.rstrip("\r\n") for line in split_lines(text)]


def origin_note(session: ForeignSession, name: str, files: KnownFiles) -> str:
    """Return the message at the end of the history that says where it comes from. name: of the program."""
    found = session.found
    lines = [
        f"This conversation was begun in {name} (session {found.session_id}, in {cut_line(found.cwd)}) and is "
        "continued here. Its calls are shown as calls of your tools. What they changed cannot be undone with /undo.",
    ]
    if files.unchanged:
        lines.append(f"You know the contents that these files have now: {_named(files.unchanged)}.")
    if files.changed:
        lines.append(f"These files have changed since; read them before you edit them: {_named(files.changed)}.")
    if session.damaged:
        lines.append(f"{session.damaged} lines of its file could not be read.")
    return "<session_change>\n{}\n</session_change>".format("\n".join(lines))


def _named(paths: list[str]) -> str:
    more = f" and {len(paths) - _MAX_NAMED} more" if len(paths) > _MAX_NAMED else ""
    return ", ".join(paths[:_MAX_NAMED]) + more

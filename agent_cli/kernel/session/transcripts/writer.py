"""Write a session's transcript in Claude Code's format, from the events that its log records.

The log is the source of truth. A transcript begins when it is first needed: it is then caught up from the log, which
adds what is missing and nothing twice, since the UUIDs of its entries are derived from the log. From then on it follows
the events. Lines are appended whole; a torn last line is terminated and otherwise left alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_cli.kernel.events import Compacted, Event, MessageAdded, Rewound, TurnStarted, events_by_tag
from agent_cli.kernel.message_ids import MessageIds, derived_uuid, subagent_id
from agent_cli.kernel.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agent_cli.kernel.results import Usage
from agent_cli.kernel.session.files import LogLine, open_log, read
from agent_cli.kernel.session.history import History
from agent_cli.kernel.session.live import LiveSession
from agent_cli.kernel.session.log import SessionLog
from agent_cli.kernel.session.records import Partial
from agent_cli.kernel.session.transcripts.entries import (
    Entry,
    EntryContext,
    assistant_body,
    result_fields,
    shown_parts,
    subagent_path,
    user_parts,
)
from agent_tools.fs.safe_files import open_regular, private_folder, write_atomic
from agent_tools.record import DecodeError, from_json
from agent_tools.text import utc_stamp

Mirror = Callable[[str, list[Entry]], None]
_KINDS = events_by_tag(
    "Compacted MessageAdded Rewound SessionNamed SubagentEvent ToolFinished TurnFinished TurnStarted UsageAdded"
)


class TranscriptWriter:
    """The transcript of a session and of its sub-agents. Not safe for several threads at once.

    log: the session's log.
    mirror: called with the path and the entries of each write, also while catching up.
    warn: called once if it cannot be written; the session continues without it.
    """

    def __init__(
        self,
        log: SessionLog,
        path: Path,
        context: EntryContext,
        warn: Callable[[str], None],
        mirror: Mirror | None = None,
    ) -> None:
        self.path = path
        self._mirror = mirror
        self._log = log
        self._context = context
        self._warn = warn
        self._failed = False
        self._chains: dict[str, _Chain] = {}
        self._ids = MessageIds(context.session_id)
        self._view = LiveSession()

    def begin(self) -> None:
        """Catch up with the log."""
        self._catch_up()
        self._write()

    def __call__(self, event: Event) -> None:
        """Write what an event adds, right after it was recorded."""
        self._take(event, utc_stamp(milliseconds=True))
        self._write()

    def _catch_up(self) -> None:
        history = History()
        try:
            with open_log(self._log.path) as file:
                for line in read(file):
                    if line is not None:
                        self._replay(line, history)
        except OSError:
            # A new session has no log yet.
            return

    def _replay(self, line: LogLine, history: History) -> None:
        """Apply a line of the log; `history` shows which messages a resumed session rebuilt from damaged records."""
        try:
            if line.type == "Partial":
                history.add_partial(from_json(Partial, line.data))
                return
            cls = _KINDS.get(line.type)
            event = from_json(cls, line.data) if cls else None
        except DecodeError:
            return
        if isinstance(event, MessageAdded):
            history.add(event.message)
            main = self._chain(self._view)
            main.settle()
            for message in history.messages[len(main.tails) : -1]:
                main.add_restored(message, line.time)
        elif isinstance(event, Rewound):
            history.rewind(event.messages)
        elif isinstance(event, TurnStarted):
            history.turn_started()
        if event is not None:
            self._take(event, line.time)

    def _take(self, event: Event, now: str) -> None:
        self._ids.observe(event)
        change = self._view.follow(event)
        chain, what = self._chain(change.view), change.event
        match change.kind:
            case "message" | "answer" | "answered":
                usage = change.message.usage if change.message is not None else Usage()
                chain.add(what.message, now, usage)
            case "finished":
                chain.settle(what.call_id, what.display)
            case "compacted" if what.head:
                chain.compact(what, now)
            case "rewound":
                chain.rewind(what.messages)
            case "named":
                chain.title(what.name, by_user=not what.model)
            case "ended":
                chain.settle()

    def _chain(self, view: LiveSession) -> _Chain:
        scope = view.task_id
        if scope not in self._chains:
            path = subagent_path(self.path, scope) if scope else self.path
            context = self._context.replace(agent_id=subagent_id(scope)) if scope else self._context
            self._chains[scope] = _Chain(path, context, self._ids, scope, _subagent_facts(view))
        return self._chains[scope]

    def _write(self) -> None:
        """Append the new entries to their files, with one write each."""
        for chain in self._chains.values():
            entries, chain.written = chain.written, []
            if not entries or self._failed:
                continue
            lines = [self._log.redact(_line(entry)) for entry in entries]
            try:
                chain.append("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
            except OSError as error:
                self._failed = True
                self._warn(f"The transcript {chain.path} cannot be written: {error.strerror or error}.")
                continue
            if self._mirror is not None:
                self._mirror(str(chain.path), [*chain.take_about(), *map(json.loads, lines)])


class _Chain:
    """One file of a transcript: its entries, each the child of the one before.

    heads, tails: UUIDs of the first and of the last entry of each message of the history.
    written: entries that are not on disk yet.
    about: facts about the sub-agent.
    """

    def __init__(
        self, path: Path, context: EntryContext, ids: MessageIds, scope: str, about: dict[str, str] | None
    ) -> None:
        self.path = path
        self.heads: list[str] = []
        self.tails: list[str] = []
        self.written: list[Entry] = []
        self.about = about
        self._context = context
        self._ids = ids
        self._scope = scope
        self._parent: str | None = None
        self._present = _present(path)
        self._result: tuple[ToolMessage, str, str] | None = None
        self._compactions = 0
        self._unannounced = about is not None

    def add(self, message: Message, now: str, usage: Usage) -> None:
        """Add a message. A tool's result is delayed until its display is known, which follows right after it.

        usage: of an answer.
        """
        self.settle()
        if isinstance(message, ToolMessage):
            self._result = message, self._ids.latest(self._scope), now
        else:
            self._add(message, now, lambda block: self._ids.latest(self._scope, block), usage)

    def add_restored(self, message: Message, now: str) -> None:
        """Add a message that has no record, but was rebuilt from damaged ones."""
        number = len(self.tails)
        if isinstance(message, ToolMessage):
            self._put_result(message, derived_uuid(self._context.session_id, "restored", number), now)
        else:
            names = self._context.session_id, "restored", number
            self._add(message, now, lambda block: derived_uuid(*names, block), Usage())

    def _add(self, message: Message, now: str, uuid: Callable[[int], str], usage: Usage) -> None:
        self.heads.append(uuid(0))
        if isinstance(message, UserMessage):
            for number, (content, is_synthetic) in enumerate(user_parts(message)):
                more: dict[str, Any] = {"isMeta": True} if is_synthetic else {}
                self._put("user", uuid(number), now, message={"role": "user", "content": content}, **more)
        elif isinstance(message, AssistantMessage):
            parts = shown_parts(message)
            digits = uuid(0).replace("-", "")
            for number, block in parts:
                last = number == parts[-1][0]
                body = assistant_body(message, block, f"msg_{digits}", usage, last=last)
                # Counters of usage count an answer once only if its blocks have both IDs in common.
                self._put("assistant", uuid(number), now, message=body, requestId=f"req_{digits}")
        self.tails.append(self._parent or "")

    def settle(self, call_id: str = "", display: object = None) -> None:
        """Write the delayed result.

        call_id: only if it is of this call.
        """
        if self._result is None or (call_id and self._result[0].call_id != call_id):
            return
        (message, uuid, now), self._result = self._result, None
        self._put_result(message, uuid, now, display)

    def _put_result(self, message: ToolMessage, uuid: str, now: str, display: object = None) -> None:
        self._put("user", uuid, now, **result_fields(message, display))
        self.heads.append(uuid)
        self.tails.append(self._parent or "")

    def compact(self, event: Compacted, now: str) -> None:
        """Begin a new chain with the summary; the entries before it stay."""
        self.settle()
        self._compactions += 1
        before, start = self._parent, max(0, len(self.tails) - event.kept)
        names = self._context.session_id, self._scope, "compacted", self._compactions
        about: dict[str, Any] = {
            "trigger": "manual" if event.trigger == "manual" else "auto",
            "preTokens": event.tokens_before,
        }
        summary = derived_uuid(*names, 1)
        if start < len(self.tails):
            segment = {"headUuid": self.heads[start], "anchorUuid": summary, "tailUuid": self.tails[-1]}
            about["preservedSegment"] = segment
        self._parent = None
        self._put(
            "system", derived_uuid(*names), now, subtype="compact_boundary", content="Conversation compacted",
            isMeta=False, level="info", logicalParentUuid=before, compactMetadata=about,
        )  # fmt: skip
        text = "\n\n".join(m.text for m in event.head if not isinstance(m, AssistantMessage))
        message = {"role": "user", "content": text}
        self._put("user", summary, now, isCompactSummary=True, isVisibleInTranscriptOnly=True, message=message)

    def rewind(self, messages: int) -> None:
        """Continue after the first `messages` messages; what follows them stays in the file as a dead branch."""
        self.settle()
        del self.heads[messages:], self.tails[messages:]
        self._parent = (self.tails[-1] or None) if self.tails else None

    def title(self, name: str, *, by_user: bool) -> None:
        """Name the session."""
        kind, field = ("custom-title", "customTitle") if by_user else ("ai-title", "aiTitle")
        if (kind, name) not in self._present:
            self._present.add((kind, name))
            self.written.append({"type": kind, field: name, "sessionId": self._context.session_id})

    def _put(self, kind: str, uuid: str, now: str, **fields: Any) -> None:
        if uuid not in self._present:
            self._present.add(uuid)
            self.written.append(self._context.entry(kind, uuid, self._parent, now, **fields))
        self._parent = uuid

    def append(self, data: bytes) -> None:
        """Append lines to the file with one write. Raises OSError."""
        private_folder(self.path.parent)
        if self.about is not None and self._unannounced:
            about = self.path.with_suffix(".meta.json")
            if not about.exists():
                write_atomic(about, json.dumps(self.about, separators=(",", ":")).encode("ascii"), sync=False)
        fd = open_regular(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                data = b"\n" + data
            done = os.write(fd, data)
            while done < len(data):
                done += os.write(fd, data[done:])
        finally:
            os.close(fd)

    def take_about(self) -> list[Entry]:
        """Return the facts about the sub-agent as an entry for the mirror, only the first time."""
        first, self._unannounced = self._unannounced, False
        return [{"type": "agent_metadata", **self.about}] if first and self.about else []


def _subagent_facts(view: LiveSession) -> dict[str, str] | None:
    """Return the facts about a sub-agent; None for the session itself."""
    if view.above is None:
        return None
    about = {"agentType": view.agent, "toolUseId": view.task_id}
    return about | ({"parentAgentId": subagent_id(view.above.task_id)} if view.above.task_id else {})


def _present(path: Path) -> set[Any]:
    """Return the UUIDs and titles of the entries in a file."""
    found: set[Any] = set()
    with suppress(OSError), open_log(path) as file:
        for line in file:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict):
                kind = str(entry.get("type"))
                titles = {"custom-title": "customTitle", "ai-title": "aiTitle"}
                found.add((kind, entry.get(titles[kind])) if kind in titles else entry.get("uuid"))
    return found


def _line(entry: Entry) -> str:
    """Return an entry as one line; as ASCII if it has characters that UTF-8 cannot encode."""
    text = json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(entry, separators=(",", ":"))
    return text

"""Events as Claude Code's print-mode JSON lines: one object per line, each with session_id and uuid.

Differences, which docs/headless.md lists: usage appears once per model call (on the last line of its message), and
`--verbose` is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agent_cli.core import message_ids
from agent_cli.core.events import (
    AnswerRestarted,
    ApprovalRequested,
    ApprovalResolved,
    ArgumentsDelta,
    CallStarted,
    Compacted,
    Compacting,
    Event,
    FirstChunk,
    HookFinished,
    HookStarted,
    MessageAdded,
    ModelRetry,
    Noted,
    PlanChanged,
    PlanContinued,
    QuestionAnswered,
    QuestionAsked,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingSigned,
    ToolFinished,
    ToolProgress,
    ToolRequested,
    ToolStarted,
    TurnFinished,
    TurnPaused,
    TurnResumed,
    UsageAdded,
    Warned,
    decider_word,
)
from agent_cli.core.messages import AssistantMessage, Thinking, ToolCall, ToolMessage, claude_blocks, new_uuid
from agent_cli.core.results import Failure, Usage
from agent_cli.core.version import CLAUDE_CODE_VERSION, __version__
from agent_cli.engine.tool_results import CHANGES, absolute_path, text_before, tool_use_result, usage_object
from agent_cli.headless.result_object import error_word, retry_fields
from agent_cli.headless.stream_parts import PartialMessage, TaskLines
from agent_cli.session.pending_items import pending_item
from agent_cli.session.transcripts.entries import content_block
from agent_tools.lazy import lazy_imports
from agent_tools.registry import tool_traits
from agent_tools.results import TodoItem
from agent_tools.shell.jobs import Job
from agent_tools.text import utc_stamp

with lazy_imports():
    from agent_cli.hooks import events as hook_events


class StreamJson:
    """A listener that writes JSON lines.

    write: called with one object per line.
    cwd: the folder that the paths of calls are relative to.
    partial: also write answers while they stream; needs `TurnOptions.pieces`.
    hook_events: also write hooks other than those of SessionStart.
    subagent_text: also write the text and thinking of sub-agents, not only their calls.
    states: also write when the session starts to run, waits for the user, or is idle.
    jobs: returns the background commands.
    progress: also write when calls start, and their output as it arrives.
    ids: assigns the UUIDs of messages; None for random ones.
    """

    def __init__(
        self,
        write: Callable[[dict[str, Any]], None],
        session_id: str,
        model: str,
        partial: bool,
        hook_events: bool = False,
        *,
        cwd: str = "",
        subagent_text: bool = False,
        states: bool = False,
        jobs: Callable[[], Iterable[Job]] = tuple,
        progress: bool = False,
        ids: message_ids.MessageIds | None = None,
    ) -> None:
        self._write = write
        self.session_id = session_id
        self._model = model
        self._partial = partial
        self._hook_events = hook_events
        self._cwd = cwd
        self.subagent_text = subagent_text
        self.states = states
        self._jobs = jobs
        self._progress = progress
        self._uuids = ids
        self.tasks = TaskLines(self._system)
        # The next three by Task call; None for the conversation itself.
        self._usage: dict[str | None, Usage] = {}
        self._ids: dict[str | None, str] = {}
        self._messages: dict[str | None, PartialMessage] = {}
        self._requested: set[str] = set()
        # Questions without an answer, with the Task call of the sub-agent that asks; None for the conversation itself.
        self._open: dict[str, str | None] = {}
        self._calls: dict[str, ToolRequested] = {}
        self._before: dict[str, str | None] = {}
        self._denied: dict[str, ApprovalResolved] = {}
        self._results: dict[str, tuple[ToolMessage, str, str | None]] = {}
        self._todos: tuple[TodoItem, ...] = ()
        self._parent: str | None = None
        self._compacting = False
        self._state = ""

    def line(self, fields: dict[str, Any]) -> None:
        """Write a line with the session's ID, and a UUID unless it has one."""
        self._write({**fields, "session_id": self.session_id, "uuid": fields.get("uuid") or new_uuid()})

    def init(self, **known: Any) -> None:
        """Write the first line of a turn, which describes the session. known: its fields."""
        self.line(
            {
                "type": "system",
                "subtype": "init",
                "model": self._model,
                "claude_code_version": CLAUDE_CODE_VERSION,
                "agent_version": __version__,
                "fast_mode_state": "off",
                **known,
            }
        )

    def replay(self, message: Mapping[str, Any]) -> None:
        """Write a message of the user back, with its own UUID."""
        known = {"parent_tool_use_id": None, "isReplay": True, "timestamp": utc_stamp(milliseconds=True)}
        self.line({"type": "user", "message": message["message"], **known, "uuid": message.get("uuid")})

    def reset(self, new: str) -> None:
        """Write that a new conversation starts, in a session whose ID the next lines have."""
        self.line({"type": "conversation_reset", "new_conversation_id": new})
        self.session_id = new

    def state(self, state: str) -> None:
        """Write the new state of the session: `running`, `requires_action` or `idle`."""
        if self.states and state != self._state:
            self._state = state
            self._system("session_state_changed", state=state)

    def failed(self, failure: Failure, text: str) -> None:
        """Write that the model could not be used, as a synthetic assistant line."""
        if failure.kind == "refused":
            self._system(
                "model_refusal_no_fallback", original_model=self._model, request_id=None, content=failure.message
            )
        stop = "refusal" if failure.kind == "refused" else "stop_sequence"
        body = self._body(f"msg_{new_uuid()}", "<synthetic>", [{"type": "text", "text": text}], stop, Usage())
        self._message_line({"type": "assistant", "message": body, "error": error_word(failure)})

    def close(self) -> None:
        """End the open answer and the running tasks."""
        for message in self._messages.values():
            message.stop(None, usage_object(Usage()))
        self._messages.clear()
        self._parent = None
        self.tasks.watch(self._jobs())
        self.tasks.close(self._jobs())

    def __call__(self, event: Event) -> None:
        self._parent = None
        while isinstance(event, SubagentEvent):
            self._parent, event = event.call_id, event.event
        if self._parent is not None:
            self.tasks.follow(self._parent, event)
        if isinstance(event, FirstChunk):
            # All lines of a message have the same ID, even if the provider gives none.
            self._ids[self._parent] = event.id or f"msg_{new_uuid()}"
        if self._partial and (self._parent is None or self.subagent_text):
            self._partial_line(event)
        match event:
            case AnswerRestarted() if self._partial:
                self._system("answer_restarted", parent_tool_use_id=self._parent)
            case UsageAdded(usage=usage, aside=False):
                self._usage[self._parent] = usage
            case Compacting():
                self._compacting = True
                self._system("status", status="compacting")
            case Compacted() as compacted:
                self._compacted(compacted)
            case MessageAdded(message=AssistantMessage() as message):
                self._assistant(message)
            case MessageAdded(message=ToolMessage() as message):
                self._results[message.call_id] = message, self._uuid(), self._parent
            case ToolRequested() as requested:
                self._calls[requested.call_id] = requested
            case ToolStarted() as started:
                self._started(started)
            case ToolFinished() as finished:
                self._result(finished)
            case ModelRetry() as retry:
                self._system("api_retry", **retry_fields(retry))
            case Warned(text=text) | Noted(text=text):
                self._system("informational", level="warning" if isinstance(event, Warned) else "info", content=text)
            case HookStarted() | HookFinished() as hook:
                self._hook(hook)
            case TurnPaused(rounds_used=used, rounds_left=left):
                parent = self._parent
                pending = sum(parent is None or asked == parent for asked in self._open.values())
                self._system("paused", pending=pending, rounds_used=used, rounds_left=left, parent_tool_use_id=parent)
            case TurnResumed(reason=reason, rounds_left=left):
                self._system("resumed", reason=reason, rounds_left=left, parent_tool_use_id=self._parent)
            case PlanChanged(items=items, paused=paused):
                self._todos = items
                steps = [{"content": i.content, "status": i.status} for i in items]
                self._system("plan", items=steps, paused=paused)
            case PlanContinued() as continued:
                self._system("plan_continued", **{name: getattr(continued, name) for name in continued._fields})
            case (ApprovalRequested() | ApprovalResolved() | QuestionAsked() | QuestionAnswered()) as asked:
                self._question_line(asked)
            case ToolProgress(call_id=call_id, text=text) if self._progress:
                self._call_line("tool_progress", call_id, content=text)
            case TurnFinished():
                self._turn_finished()

    def _partial_line(self, event: Event) -> None:
        """Write a piece of a streaming answer as stream events."""
        message = self._messages.get(self._parent)
        match event:
            case FirstChunk(model=model, usage=usage, ms=ms):
                self._stop_message(None)
                parent = self._parent

                def write(piece: dict[str, Any]) -> None:
                    more = {"ttft_ms": ms} if piece["type"] == "message_start" else {}
                    self.line({"type": "stream_event", "event": piece, "parent_tool_use_id": parent, **more})

                message = PartialMessage(write, self._ids[parent], model or self._model, usage_object(usage))
                self._messages[parent] = message
            case AnswerRestarted() | TurnFinished():
                self._stop_message(None)
            case TextDelta(text=text) if message is not None:
                message.text(text)
            case ThinkingDelta(text=text) if message is not None:
                message.thinking(text)
            case ThinkingSigned(signature=signature, data=data) if message is not None:
                message.signed(signature, data)
            case CallStarted(call_id=call_id, tool=tool) if message is not None:
                message.call(call_id, tool)
            case ArgumentsDelta(call_id=call_id, json=text) if message is not None:
                message.arguments(call_id, text)

    def _stop_message(self, stop_reason: str | None, usage: Usage | None = None) -> None:
        message = self._messages.pop(self._parent, None)
        if message is not None:
            message.stop(stop_reason, usage_object(usage or Usage()))

    def _system(self, subtype: str, **fields: Any) -> None:
        self.line({"type": "system", "subtype": subtype, **fields})

    def _call_line(self, subtype: str, call_id: str, **fields: Any) -> None:
        self._system(subtype, tool_use_id=call_id, **fields, parent_tool_use_id=self._parent)

    def _question_line(self, event: ApprovalRequested | ApprovalResolved | QuestionAsked | QuestionAnswered) -> None:
        """Write approvals and questions with their answers, and refusals without a question."""
        given = {ApprovalResolved: "decision", QuestionAnswered: "verdict"}.get(type(event))
        if given is not None and getattr(event, given) != "defer":
            self._open.pop(event.call_id, None)
        match event:
            case ApprovalRequested() | QuestionAsked():
                self.state("requires_action")
                self._requested.add(event.call_id)
                self._open[event.call_id] = self._parent
                item = pending_item(event)
                self._call_line("approval_requested", item.pop("call_id"), **item)
            case ApprovalResolved(decision="defer") | QuestionAnswered(verdict="defer"):
                return
            case ApprovalResolved() if event.call_id in self._requested or event.decision == "reject":
                known = {
                    "decision": event.decision,
                    "by": decider_word(event.by),
                    "reason": event.reason,
                    "rule": event.rule or None,
                }
                self._call_line("approval_resolved", event.call_id, **known)
                if event.decision == "reject" and event.by in ("rule", "mode", "default"):
                    self._denied[event.call_id] = event
                self.state("running")
            case QuestionAnswered():
                self.state("running")
                known = {"decision": event.verdict, "by": decider_word(event.by), "text": event.text}
                self._call_line("approval_resolved", event.call_id, **known, mode=event.mode or None)

    def _compacted(self, event: Compacted) -> None:
        """Write Claude Code's line about a compaction, with additional fields."""
        metadata = {
            "trigger": "manual" if event.trigger == "manual" else "auto",
            "pre_tokens": event.tokens_before,
            "post_tokens": event.tokens_after,
            "reason": event.trigger,
            "kept": event.kept,
            "dropped": event.dropped,
            "cut": len(event.cuts),
            "summary_by": event.by or None,
        }
        self._end_compacting("success")
        self._system("compact_boundary", compact_metadata=metadata, parent_tool_use_id=self._parent)

    def _end_compacting(self, how: str) -> None:
        if self._compacting:
            self._compacting = False
            self._system("status", status=None, compact_result=how)

    def _hook(self, event: HookStarted | HookFinished) -> None:
        """Write a hook's line; hooks of SessionStart always, as Claude Code does, others only if requested.

        A failure is always named.
        """
        if not self._hook_events and event.event != "SessionStart":
            if isinstance(event, HookFinished) and event.failed:
                self._system("informational", level="warning", content=hook_events.hook_line(event))
            return
        known = {"hook_id": event.hook_id, "hook_name": event.name, "hook_event": event.event}
        if isinstance(event, HookStarted):
            self._system("hook_started", **known)
            return
        code = {} if event.exit_code is None else {"exit_code": event.exit_code}
        # That format has no word for a hook that refused.
        outcome = "error" if event.outcome == "blocked" else event.outcome
        self._system(
            "hook_response", **known, output=event.stdout + event.stderr, stdout=event.stdout, stderr=event.stderr,
            **code, outcome=outcome, blocked=event.outcome == "blocked", duration_ms=event.duration_ms, note=event.note,
        )  # fmt: skip

    def _uuid(self, block: int = 0) -> str:
        """Return the UUID of the latest message, or of one of its blocks; "" if UUIDs are not assigned."""
        return self._uuids.latest(self._parent or "", block) if self._uuids is not None else ""

    def _assistant(self, message: AssistantMessage) -> None:
        """Write one line per content block; the last one carries the usage.

        Text and thinking that were streamed share one line: readers match a line with all events before it.
        """
        self._end_compacting("failed")
        # Encrypted thinking is not shown; without a summary it has no text.
        every = list(enumerate(message.parts))
        parts = [(n, p) for n, p in every if not (isinstance(p, Thinking) and p.provider and not p.text)] or every
        used = self._usage.pop(self._parent, Usage())
        partial = self._messages.get(self._parent)
        if partial is not None:
            partial.finish([part for _, part in parts])
        message_id = self._ids.pop(self._parent, "") or message.provider_id or f"msg_{new_uuid()}"
        # That format has no stop reason for an answer that broke off.
        aborted = message.stop_reason in ("interrupted", "error")
        stop = None if aborted else message.stop_reason or None
        if self._parent is not None and not self.subagent_text:
            parts = [(n, p) for n, p in parts if isinstance(p, ToolCall)]
        sent = [pair for pair in parts if partial is not None and not isinstance(pair[1], ToolCall)]
        groups = [group for group in (sent, *([pair] for pair in parts if pair not in sent)) if group]
        for group in groups:
            last, number = group is groups[-1], group[-1][0]
            ending = (stop, used) if last else (None, Usage())
            blocks = [content_block(part) for _, part in group]
            body = self._body(message_id, message.model or self._model, blocks, *ending)
            ended = {"aborted": True} if aborted and last else {}
            self._message_line({"type": "assistant", "message": body, "uuid": self._uuid(number), **ended})
        self._stop_message(stop, used)

    def _body(
        self, message_id: str, model: str, blocks: list[dict[str, Any]], stop: str | None, used: Usage
    ) -> dict[str, Any]:
        return {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": blocks,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage_object(used),
            "container": None,
            "context_management": None,
        }

    def _message_line(self, fields: dict[str, Any]) -> None:
        """Write a message of the conversation, or of a sub-agent."""
        task = self.tasks.running.get(self._parent or "")
        known = {"parent_tool_use_id": self._parent, "timestamp": utc_stamp(milliseconds=True)}
        if task is not None:
            known |= {"agent_id": task.call_id, "subagent_type": task.kind, "task_description": task.description}
        self.line({**fields, **known})

    def _started(self, event: ToolStarted) -> None:
        if self._progress:
            self._call_line("tool_started", event.call_id, tool_name=event.tool)
        call = self._calls.get(event.call_id)
        arguments = call.arguments if call is not None else {}
        if tool_traits(event.tool).nested:
            self.tasks.started(event.call_id, arguments, self._parent)
        elif event.tool in CHANGES:
            self._before[event.call_id] = text_before(absolute_path(arguments.get("file_path"), self._cwd))

    def _turn_finished(self) -> None:
        """Write results that have not been written yet; at the end of the whole turn, also end its tasks."""
        top = self._parent is None
        for call_id, (message, _, parent) in list(self._results.items()):
            if top or parent == self._parent:
                self._parent = parent
                self._result(ToolFinished(call_id, message.name, message.is_error, 0))
        if not top:
            return
        self._parent = None
        self._end_compacting("failed")
        for call_id in list(self.tasks.running)[::-1]:
            self.tasks.finished(call_id, "stopped", "")
        self.tasks.watch(self._jobs())
        self._calls.clear()

    def _result(self, event: ToolFinished) -> None:
        if event.call_id not in self._results:
            return
        message, uuid, _ = self._results.pop(event.call_id)
        if (denied := self._denied.pop(event.call_id, None)) is not None:
            self._permission_denied(denied, message)
        content: Any = message.text
        if message.media:
            content = [{"type": "text", "text": message.text}, *claude_blocks(message.media)]
        block = {
            "type": "tool_result",
            "tool_use_id": message.call_id,
            "content": content,
            "is_error": message.is_error,
        }
        call = self._calls.pop(event.call_id, None)
        arguments = call.arguments if call is not None else {}
        before = self._before.pop(event.call_id, None)
        task = self.tasks.finished(event.call_id, "failed" if message.is_error else "completed", message.text)
        job = self.tasks.watch(self._jobs(), event.call_id)
        details = tool_use_result(event, message, arguments, self._cwd, before=before, todos=self._todos)
        if job is not None and tool_traits(event.tool).command_argument:
            command = {"stdout": message.text, "stderr": "", "interrupted": False, "isImage": False}
            details = {**(details if isinstance(details, dict) else command), "backgroundTaskId": job}
        elif task is not None and not message.is_error:
            details = task.report(message.text)
        self._message_line(
            {
                "type": "user",
                "message": {"role": "user", "content": [block]},
                "tool_use_result": details,
                "duration_ms": event.duration_ms,
                "uuid": uuid,
            }
        )

    def _permission_denied(self, event: ApprovalResolved, message: ToolMessage) -> None:
        agent = {} if self._parent is None else {"agent_id": self._parent}
        kind = event.by if event.by in ("rule", "mode") else "other"
        self._system(
            "permission_denied", tool_name=message.name, tool_use_id=event.call_id, decision_reason_type=kind,
            decision_reason=event.reason, message=message.text, **agent,
        )  # fmt: skip

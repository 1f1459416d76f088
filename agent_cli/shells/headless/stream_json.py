"""Events as Claude Code's print-mode JSON lines: one object per line, each with session_id and uuid.

Differences, which docs/headless.md lists: usage appears once per model call (on the last line of its message), and
`--verbose` is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agent_cli import (
    ApprovalResolved,
    AssistantMessage,
    CallView,
    Failure,
    LiveSession,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolFinished,
    Usage,
    ViewChange,
    __version__,
)
from agent_cli.kernel import message_ids
from agent_cli.kernel.engine.tool_results import ToolUseResults
from agent_cli.kernel.events import ArgumentsDelta, CallStarted, ThinkingSigned, decider_word
from agent_cli.kernel.messages import Thinking, claude_blocks
from agent_cli.kernel.session.pending_items import pending_item
from agent_cli.kernel.session.transcripts.entries import content_block
from agent_cli.kernel.session.view_entries import MessageView
from agent_cli.kernel.version import CLAUDE_CODE_VERSION
from agent_cli.shells.headless.result_object import error_word, retry_fields
from agent_cli.shells.headless.stream_parts import PartialMessage, TaskLines
from agent_tools.registry import tool_traits
from agent_tools.shell.jobs import Job
from agent_tools.text import new_uuid, utc_stamp

# What writes a piece of an answer.
_TASK_ENDS = {"Complete": "completed"}
_PIECES: dict[type, Callable[..., None]] = {
    TextDelta: PartialMessage.text,
    ThinkingDelta: PartialMessage.thinking,
    ThinkingSigned: PartialMessage.signed,
    CallStarted: PartialMessage.call,
    ArgumentsDelta: PartialMessage.arguments,
}


class StreamJson:
    """Writes JSON lines.

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
        # The answers that are being written, by Task call; None for the conversation itself.
        self._messages: dict[str | None, PartialMessage] = {}
        # Calls whose results are not written, with their UUIDs and conversations; and what files had in them before.
        self._results: dict[CallView, tuple[str, LiveSession]] = {}
        self._details = ToolUseResults(cwd)
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

    def between_turns(self) -> bool:
        """Report background commands that have ended since the last turn; return True if others still run."""
        self.tasks.watch(self._jobs())
        return any(job.running for job in self._jobs())

    def close(self) -> None:
        """End the open answer and the running tasks."""
        for message in self._messages.values():
            message.stop(None, Usage().claude_fields)
        self._messages.clear()
        self._parent = None
        self.tasks.watch(self._jobs())
        self.tasks.close(self._jobs())

    def show(self, change: ViewChange) -> None:
        """Write what an event changed."""
        view, event = change.view, change.event
        self._parent = view.task_id or None
        if self._partial and (self._parent is None or self.subagent_text):
            self._partial_line(change)
        if change.call is not None:
            self._of_call(change, change.call)
            return
        match change.kind:
            case "answer" if change.message is not None:
                self._assistant(change.message)
            case "restarted" if self._partial:
                self._system("answer_restarted", parent_tool_use_id=self._parent)
            case "compacting":
                self._compacting = True
                self._system("status", status="compacting")
            case "compacted":
                self._compacted(event)
            case "retry":
                self._system("api_retry", **retry_fields(event))
            case "warning" | "notice":
                level = "warning" if change.kind == "warning" else "info"
                self._system("informational", level=level, content=change.note)
            case "hook started" | "hook":
                self._hook(change)
            case "paused":
                used, left, pending = event.rounds_used, event.rounds_left, sum(call.asks for call in view.asked)
                parent = self._parent
                self._system("paused", pending=pending, rounds_used=used, rounds_left=left, parent_tool_use_id=parent)
            case "resumed":
                left, parent = event.rounds_left, self._parent
                self._system("resumed", reason=event.reason, rounds_left=left, parent_tool_use_id=parent)
            case "plan":
                steps = [{"content": i.content, "status": i.status} for i in event.items]
                self._system("plan", items=steps, paused=event.paused)
            case "continued":
                self._system("plan_continued", **{name: getattr(event, name) for name in event._fields})
            case "ended":
                self._turn_finished()
                if view.background and event.result != "Suspended":
                    self.tasks.finished(view.task_id, _TASK_ENDS.get(event.result, "failed"), event.text)

    def _of_call(self, change: ViewChange, call: CallView) -> None:
        """Write what has happened to a call."""
        match change.kind:
            case "requested":
                self.tasks.progress(change.view.task_id, call)
            case "asked":
                self.state("requires_action")
                item = pending_item(change.event)
                self._call_line("approval_requested", item.pop("call_id"), **item)
            case "decided":
                self._decided(call)
            case "started":
                self._started(call, change.event.tool)
            case "output" if self._progress:
                self._call_line("tool_progress", call.call_id, content=change.event.text)
            case "answered":
                self._results[call] = self._uuid(), change.view
            case "finished":
                self._result(call)

    def _partial_line(self, change: ViewChange) -> None:
        """Write a piece of a streaming answer as stream events."""
        event, message = change.event, self._messages.get(self._parent)
        match change.kind:
            case "first":
                self._stop_message(None)
                parent = self._parent

                def write(piece: dict[str, Any]) -> None:
                    more = {"ttft_ms": event.ms} if piece["type"] == "message_start" else {}
                    self.line({"type": "stream_event", "event": piece, "parent_tool_use_id": parent, **more})

                # All lines of a message have the same ID, even if the provider gives none.
                message_id = event.id or f"msg_{new_uuid()}"
                message = PartialMessage(write, message_id, event.model or self._model, event.usage.claude_fields)
                self._messages[parent] = message
            case "restarted" | "ended":
                self._stop_message(None)
            case "text" | "thinking" | "piece" if message is not None:
                _PIECES[type(event)](message, *(getattr(event, name) for name in event._fields))

    def _stop_message(self, stop_reason: str | None, usage: Usage | None = None) -> None:
        message = self._messages.pop(self._parent, None)
        if message is not None:
            message.stop(stop_reason, (usage or Usage()).claude_fields)

    def _system(self, subtype: str, **fields: Any) -> None:
        self.line({"type": "system", "subtype": subtype, **fields})

    def _call_line(self, subtype: str, call_id: str, **fields: Any) -> None:
        self._system(subtype, tool_use_id=call_id, **fields, parent_tool_use_id=self._parent)

    def _decided(self, call: CallView) -> None:
        """Write the answer to a question, or a refusal without one."""
        event = call.answer
        if event is None or call.asks:
            return
        known: dict[str, Any] = {"decision": call.decision, "by": decider_word(event.by)}
        if not isinstance(event, ApprovalResolved):
            self.state("running")
            self._call_line("approval_resolved", call.call_id, **known, text=event.text, mode=event.mode or None)
        elif call.question is not None or event.decision == "reject":
            known |= {"reason": event.reason, "rule": event.rule or None}
            self._call_line("approval_resolved", call.call_id, **known)
            self.state("running")

    def _compacted(self, event: Any) -> None:
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

    def _hook(self, change: ViewChange) -> None:
        """Write a hook's line; hooks of SessionStart always, as Claude Code does, others only if requested.

        A failure is always named.
        """
        event, ended = change.event, change.kind == "hook"
        if not self._hook_events and event.event != "SessionStart":
            if ended and event.failed:
                self._system("informational", level="warning", content=change.note)
            return
        known = {"hook_id": event.hook_id, "hook_name": event.name, "hook_event": event.event}
        if not ended:
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

    def _assistant(self, view: MessageView) -> None:
        """Write one line per content block; the last one carries the usage.

        Text and thinking that were streamed share one line: readers match a line with all events before it.
        """
        message, used = view.message, view.usage
        if not isinstance(message, AssistantMessage):
            return
        self._end_compacting("failed")
        # Encrypted thinking is not shown; without a summary it has no text.
        every = list(enumerate(message.parts))
        parts = [(n, p) for n, p in every if not (isinstance(p, Thinking) and p.provider and not p.text)] or every
        partial = self._messages.get(self._parent)
        if partial is not None:
            partial.finish([part for _, part in parts])
        given = view.first.id if view.first is not None else message.provider_id
        message_id = partial.id if partial is not None else given or f"msg_{new_uuid()}"
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
            "usage": used.claude_fields,
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

    def _started(self, call: CallView, tool: str) -> None:
        if self._progress:
            self._call_line("tool_started", call.call_id, tool_name=tool)
        if tool_traits(tool).nested:
            self.tasks.started(call, self._parent)
        else:
            self._details.started(call, tool, call.arguments)

    def _turn_finished(self) -> None:
        """Write results that have not been written yet; at the end of the whole turn, also end its tasks."""
        top = self._parent is None
        for call, (_, view) in list(self._results.items()):
            if top or view.task_id == self._parent:
                self._parent = view.task_id or None
                self._result(call)
        if not top:
            return
        self._parent = None
        self._end_compacting("failed")
        for call_id in list(self.tasks.running)[::-1]:
            self.tasks.finished(call_id, "stopped", "")
        self.tasks.watch(self._jobs())

    def _result(self, call: CallView) -> None:
        message = call.result
        if call not in self._results or message is None:
            return
        uuid, view = self._results.pop(call)
        event = call.finished or ToolFinished(call.call_id, message.name, message.is_error, 0)
        if call.decision == "reject" and call.by in ("rule", "mode", "default"):
            self._permission_denied(call, message.name, message.text)
        content: Any = message.text
        if message.media:
            content = [{"type": "text", "text": message.text}, *claude_blocks(message.media)]
        block = {
            "type": "tool_result",
            "tool_use_id": message.call_id,
            "content": content,
            "is_error": message.is_error,
        }
        task = self.tasks.running.get(call.call_id)
        if task is not None and task.background and not message.is_error:
            task = None  # it has only begun
        else:
            task = self.tasks.finished(call.call_id, "failed" if message.is_error else "completed", message.text)
        job = self.tasks.watch(self._jobs(), call.call_id)
        details = self._details.finished(call, event, message, call.arguments, view.plan)
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

    def _permission_denied(self, call: CallView, tool: str, text: str) -> None:
        agent = {} if self._parent is None else {"agent_id": self._parent}
        kind = call.by if call.by in ("rule", "mode") else "other"
        self._system(
            "permission_denied", tool_name=tool, tool_use_id=call.call_id, decision_reason_type=kind,
            decision_reason=call.reason, message=text, **agent,
        )  # fmt: skip

"""Events as Claude Code's print-mode JSON lines: one object per line, each with session_id and uuid.

Differences, which docs/headless.md lists: usage appears once per model call (on the last line of its message), and
`--verbose` is not needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_cli.core.events import (
    AnswerRestarted,
    ApprovalRequested,
    ApprovalResolved,
    Compacted,
    Compacting,
    Event,
    HookFinished,
    HookStarted,
    MessageAdded,
    Noted,
    PlanChanged,
    PlanContinued,
    QuestionAnswered,
    QuestionAsked,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnPaused,
    TurnResumed,
    UsageAdded,
    Warned,
    decider_word,
    unwrap,
)
from agent_cli.core.messages import AssistantMessage, Part, Text, Thinking, ToolMessage, claude_blocks, new_uuid
from agent_cli.core.results import Usage
from agent_cli.core.version import __version__
from agent_cli.headless.output import usage_object
from agent_cli.headless.pending import pending_item
from agent_tools.display import CommandOutput


class StreamJson:
    """A listener that writes JSON lines.

    write: called with one object per line.
    progress: also report when calls start, and their output as it arrives.
    """

    def __init__(
        self,
        write: Callable[[dict[str, Any]], None],
        session_id: str,
        model: str,
        partial: bool,
        hook_events: bool = False,
    ) -> None:
        self._write = write
        self._session_id = session_id
        self._model = model
        self._partial = partial
        self._hook_events = hook_events
        # By Task call; None for the conversation itself.
        self._usage: dict[str | None, Usage] = {}
        self.progress = False
        self._requested: set[str] = set()
        self._results: dict[str, ToolMessage] = {}
        self._parent: str | None = None

    def line(self, fields: dict[str, Any]) -> None:
        self._write({**fields, "session_id": self._session_id, "uuid": new_uuid()})

    def init(self, **known: Any) -> None:
        """Write the first line: what this run works with. known: its fields."""
        self.line(
            {
                "type": "system",
                "subtype": "init",
                "model": self._model,
                "agent_version": __version__,
                "output_style": "default",
                **known,
            }
        )

    def __call__(self, event: Event) -> None:
        self._parent = event.call_id if isinstance(event, SubagentEvent) else None
        match unwrap(event):
            case TextDelta(text=text):
                self._delta({"type": "text_delta", "text": text})
            case ThinkingDelta(text=text):
                self._delta({"type": "thinking_delta", "thinking": text})
            case AnswerRestarted() if self._partial:
                self._system("answer_restarted", parent_tool_use_id=self._parent)
            case UsageAdded(usage=usage, aside=False):
                self._usage[self._parent] = usage
            case Compacting():
                self._system("status", status="compacting")
            case Compacted() as compacted:
                self._compacted(compacted)
            case MessageAdded(message=AssistantMessage() as message):
                self._assistant(message)
            case MessageAdded(message=ToolMessage() as message):
                self._results[message.call_id] = message
            case ToolFinished() as finished:
                self._result(finished)
            case Warned(text=text):
                self._system("informational", level="warning", content=text)
            case Noted(text=text):
                self._system("informational", level="info", content=text)
            case HookStarted() | HookFinished() as hook:
                self._hook(hook)
            case TurnPaused(pending=pending, rounds_used=used, rounds_left=left):
                self._system("paused", pending=pending, rounds_used=used, rounds_left=left)
            case TurnResumed(reason=reason, rounds_left=left):
                self._system("resumed", reason=reason, rounds_left=left)
            case PlanChanged(items=items, paused=paused):
                steps = [{"content": i.content, "status": i.status} for i in items]
                self._system("plan", items=steps, paused=paused)
            case PlanContinued(round=number, attempt=attempt, text_length=length):
                self._system("plan_continued", round=number, attempt=attempt, text_length=length)
            case (ApprovalRequested() | ApprovalResolved() | QuestionAsked() | QuestionAnswered()) as asked:
                self._asked(asked)
            case ToolStarted(call_id=call_id, tool=tool) if self.progress:
                self._of_call("tool_started", call_id, tool_name=tool)
            case ToolProgress(call_id=call_id, text=text) if self.progress:
                self._of_call("tool_progress", call_id, content=text)

    def _delta(self, delta: dict[str, Any]) -> None:
        if self._partial:
            event = {"type": "content_block_delta", "index": 0, "delta": delta}
            self.line({"type": "stream_event", "event": event, "parent_tool_use_id": self._parent})

    def _system(self, subtype: str, **fields: Any) -> None:
        self.line({"type": "system", "subtype": subtype, **fields})

    def _of_call(self, subtype: str, call_id: str, **fields: Any) -> None:
        self._system(subtype, tool_use_id=call_id, **fields, parent_tool_use_id=self._parent)

    def _asked(self, event: ApprovalRequested | ApprovalResolved | QuestionAsked | QuestionAnswered) -> None:
        """Write the user's approvals and questions, and their answers; also refusals without a question, not automatic
        approvals.
        """
        match event:
            case ApprovalRequested() | QuestionAsked():
                self._requested.add(event.call_id)
                item = pending_item(event)
                self._of_call("approval_requested", item.pop("call_id"), **item)
            case ApprovalResolved(decision="defer") | QuestionAnswered(verdict="defer"):
                return
            case ApprovalResolved() if event.call_id in self._requested or event.decision == "reject":
                known = {
                    "decision": event.decision,
                    "by": decider_word(event.by),
                    "reason": event.reason,
                    "rule": event.rule or None,
                }
                self._of_call("approval_resolved", event.call_id, **known)
            case QuestionAnswered():
                known = {
                    "decision": event.verdict,
                    "by": decider_word(event.by),
                    "text": event.text,
                    "mode": event.mode or None,
                }
                self._of_call("approval_resolved", event.call_id, **known)

    def _compacted(self, event: Compacted) -> None:
        """Write Claude Code's line, which knows two triggers, with additional fields."""
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
        self._system("compact_boundary", compact_metadata=metadata, parent_tool_use_id=self._parent)

    def _hook(self, event: HookStarted | HookFinished) -> None:
        """Write the hooks of a session's start always, as Claude Code does; others only if requested."""
        if not self._hook_events and event.event != "SessionStart":
            return
        known = {"hook_id": event.hook_id, "hook_name": event.name, "hook_event": event.event}
        if isinstance(event, HookStarted):
            self._system("hook_started", **known)
            return
        self._system(
            "hook_response", **known, output=event.stdout + event.stderr, stdout=event.stdout, stderr=event.stderr,
            exit_code=event.exit_code, outcome=event.outcome, duration_ms=event.duration_ms, note=event.note,
        )  # fmt: skip

    def _assistant(self, message: AssistantMessage) -> None:
        """Write one line per content block; the last one carries the usage."""
        # What is encrypted is not shown; without a summary nothing of it is left.
        shown = [p for p in message.parts if not (isinstance(p, Thinking) and p.provider and not p.text)]
        parts = shown or message.parts
        used = self._usage.pop(self._parent, Usage())
        for number, part in enumerate(parts, 1):
            last = number == len(parts)
            body = {
                "id": message.provider_id,
                "type": "message",
                "role": "assistant",
                "model": message.model or self._model,
                "content": [_block(part)],
                "stop_reason": message.stop_reason if last else None,
                "usage": usage_object(used if last else Usage()),
            }
            self.line({"type": "assistant", "message": body, "parent_tool_use_id": self._parent})

    def _result(self, event: ToolFinished) -> None:
        message = self._results.pop(event.call_id, None)
        if message is None:
            return
        content: Any = message.text
        if message.media:
            content = [{"type": "text", "text": message.text}, *claude_blocks(message.media)]
        block = {
            "type": "tool_result",
            "tool_use_id": message.call_id,
            "content": content,
            "is_error": message.is_error,
        }
        details: Any = message.text
        if isinstance(event.display, CommandOutput):
            details = {
                "stdout": event.display.output,
                "stderr": "",
                "exit_code": event.display.exit_code,
                "interrupted": event.display.exit_code is None,
                "isImage": False,
                "noOutputExpected": False,
            }
        self.line(
            {
                "type": "user",
                "message": {"role": "user", "content": [block]},
                "tool_use_result": details,
                "duration_ms": event.duration_ms,
                "parent_tool_use_id": self._parent,
            }
        )


def _block(part: Part) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Thinking(data=data, provider="") if data:
            return {"type": "redacted_thinking", "data": data}
        case Thinking(text=text, signature=signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case _:
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": part.arguments}

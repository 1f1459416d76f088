"""Export a session as a trajectory in ATIF, the interchange format of the Harbor evaluation harness.

One step for each message: the system prompt, messages of the user and of the program, answers of the model with their
calls, the results of those, and their usage. Each sub-agent has its own trajectory inside that of its parent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from agent_cli.kernel.events import Compacted, QuestionAsked, Rewound, TurnFinished, decider_word
from agent_cli.kernel.messages import AssistantMessage, Thinking, is_synthetic
from agent_cli.kernel.results import Usage
from agent_cli.kernel.session.records import Header, SessionNotFoundError
from agent_cli.kernel.session.view import SessionView
from agent_cli.kernel.session.view_entries import CallView, EntryView, MessageView, NoteView, SessionEntries
from agent_cli.kernel.version import __version__
from agent_tools.results import Media

SCHEMA = "ATIF-v1.7"
# Returns the definitions of tools by name, in OpenAI's form.
ToolDefinitions = Callable[[Sequence[str]], list[dict[str, Any]]]
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def atif(data: bytes, name: str, definitions: ToolDefinitions) -> str:
    """Export a log as ATIF, as indented ASCII JSON. Raises SessionNotFoundError if nothing can be read."""
    return json.dumps(build_trajectory(data, name, definitions), indent=2) + "\n"


def build_trajectory(data: bytes, name: str, definitions: ToolDefinitions) -> dict[str, Any]:
    """Return the trajectory of a log. Raises SessionNotFoundError if nothing can be read."""
    view = SessionView.of_log(data)
    header = view.header or Header(name, "", "", "", "", (), "")
    steps = _Steps(view)
    if header.system:
        steps.add("system", header.system, view.created, at=0)
    if not steps.found:
        raise SessionNotFoundError(f"Nothing of session {name} can be read.")
    agent = _agent(header, steps.model or header.model)
    agent["tool_definitions"] = definitions(header.tools)
    if header.version not in ("", __version__):
        agent["extra"] = {"tool_definitions_of": __version__}
    found = steps.trajectory(header, agent)
    found["trajectory_id"] = header.session_id
    found["extra"] = {
        "cwd": header.cwd,
        "root": header.root,
        "branch": header.branch,
        "forked_from": header.forked_from,
        "turns": [_turn(end) for end in view.ends],
        "damaged_records": view.bad,
    }
    return found


class _Steps:
    """The steps of a conversation.

    identity: of the trajectory of a sub-agent; "" for the session itself.
    effort: how hard the model was told to think in the session of a sub-agent.
    """

    def __init__(self, view: SessionEntries, identity: str = "", effort: str = "") -> None:
        self.view, self.identity = view, identity
        self.found: list[dict[str, Any]] = []
        self.model = ""
        self._effort = effort
        efforts = {call: self._effort_of(answer) for answer in view.messages for call in answer.calls}
        self.inner = {
            call: _Steps(call.nested, f"{call.nested.agent}-{number}", efforts.get(call, effort))
            for number, call in enumerate(view.begun, 1)
            if call.nested is not None
        }
        for entry in view.entries:
            self._add_entry(entry)

    def _effort_of(self, answer: MessageView) -> str:
        return self._effort or answer.effort

    def add(self, source: str, message: Any, time: str, at: int | None = None, **fields: Any) -> None:
        step = {"timestamp": time, "source": source, "message": message, **fields}
        self.found.insert(len(self.found) if at is None else at, step)

    def _add_entry(self, entry: EntryView) -> None:
        if isinstance(entry, MessageView):
            message = entry.message
            if isinstance(message, AssistantMessage):
                self._add_answer(entry, message)
            else:
                source = "system" if is_synthetic(message.text) else "user"
                self.add(source, _content(message.text, message.media), entry.time)
        elif isinstance(entry, NoteView) and isinstance(event := entry.event, Compacted):
            facts = {
                "trigger": event.trigger,
                "kept": event.kept,
                "dropped": event.dropped,
                "tokens_before": event.tokens_before,
                "tokens_after": event.tokens_after,
            }
            self.add("system", event.summary or entry.text, entry.time, extra={"compaction": facts})
        elif isinstance(entry, NoteView) and isinstance(event, Rewound):
            note = {"rewound_to_messages": event.messages}
            self.add("system", "The user went back to an earlier message.", entry.time, extra=note)

    def _add_answer(self, entry: MessageView, message: AssistantMessage) -> None:
        fields: dict[str, Any] = {}
        self.model = message.model or self.model
        if message.model:
            fields["model_name"] = message.model
        if effort := self._effort_of(entry):
            fields["reasoning_effort"] = effort
        if thinking := "\n\n".join(p.text for p in message.parts if isinstance(p, Thinking) and p.text):
            fields["reasoning_content"] = thinking
        if message.calls:
            fields["tool_calls"] = [
                {"tool_call_id": call.id, "function_name": call.name, "arguments": call.arguments}
                | ({"extra": {"arguments_as_sent": call.broken}} if call.broken else {})
                for call in message.calls
            ]
        fields["metrics"] = _metrics(entry.usage)
        fields["llm_call_count"] = 1
        fields["extra"] = {"stop_reason": message.stop_reason, "response_id": message.provider_id}
        # A result must have its call; one whose call was lost is left out.
        if results := [self._result(call) for call in entry.calls if call.result is not None]:
            fields["observation"] = {"results": results}
        self.add("agent", message.text, entry.time, **fields)

    def _result(self, call: CallView) -> dict[str, Any]:
        assert call.result is not None
        facts = {
            "summary": call.summary if call.requested else "",
            "decision": call.decision,
            "decided_by": decider_word(call.by),
            "reason": "" if isinstance(call.question, QuestionAsked) else call.reason,
            "duration_ms": call.finished.duration_ms if call.finished is not None else None,
        }
        known: dict[str, Any] = {name: value for name, value in facts.items() if value not in ("", None)}
        known["is_error"] = call.result.is_error
        content = _content(call.result.text, call.result.media)
        result: dict[str, Any] = {"source_call_id": call.call_id, "content": content, "extra": known}
        if (inner := self.inner.get(call)) is not None and inner.found:
            reference = {"trajectory_id": inner.identity, "extra": {"agent": inner.view.agent}}
            result["subagent_trajectory_ref"] = [reference]
        return result

    def trajectory(self, header: Header, agent: dict[str, Any]) -> dict[str, Any]:
        """Return the trajectory as plain data."""
        own, cost = self.view.own_usage, self.view.usage
        found: dict[str, Any] = {
            "schema_version": SCHEMA,
            "session_id": header.session_id,
            "agent": agent,
            "steps": [{"step_id": number, **step} for number, step in enumerate(self.found, 1)],
            "final_metrics": {
                "total_prompt_tokens": own.input,
                "total_completion_tokens": own.output,
                "total_cached_tokens": own.cache_read,
                "total_cost_usd": cost.cost if cost.reliable else None,
                "total_steps": len(self.found),
                "extra": {"reasoning_tokens": own.reasoning, "cache_write_tokens": own.cache_write},
            },
        }
        inner = [child._nested(header, agent["model_name"]) for child in self.inner.values() if child.found]
        return found | ({"subagent_trajectories": inner} if inner else {})

    def _nested(self, header: Header, model: str) -> dict[str, Any]:
        agent = _agent(header, self.model or model) | {"extra": {"agent": self.view.agent}}
        extra = {"turns": [_turn(end) for end in self.view.ends]}
        return self.trajectory(header, agent) | {"trajectory_id": self.identity, "extra": extra}


def _turn(event: TurnFinished) -> dict[str, Any]:
    found = event.diagnostics
    return {
        "result": event.result,
        "terminal_reason": found.terminal_reason,
        "stop_reason": found.stop_reason,
        "rounds": found.rounds,
        "tool_calls": found.tool_calls,
        "duration_ms": found.duration_ms,
        "model_ms": found.model_ms,
        "degraded": event.degraded,
        "error": event.failure.message if event.failure else "",
    }


def _agent(header: Header, model: str) -> dict[str, Any]:
    return {"name": "agent", "version": header.version or __version__, "model_name": model}


def _metrics(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "cached_tokens": usage.cache_read,
        "cost_usd": usage.cost if usage.reliable else None,
        "extra": {"reasoning_tokens": usage.reasoning, "cache_write_tokens": usage.cache_write},
    }


def _content(text: str, media: Sequence[Media]) -> str | list[dict[str, Any]]:
    """Return text, or with images a list of parts. Other media are only named, as the format has no place for them."""
    if not media:
        return text
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for item in media:
        if item.mime in _IMAGES:
            source = {"media_type": item.mime, "path": f"data:{item.mime};base64,{item.data}"}
            parts.append({"type": "image", "source": source})
        else:
            parts.append({"type": "text", "text": f"[{item.mime}: {item.name or 'without a name'}]"})
    return parts

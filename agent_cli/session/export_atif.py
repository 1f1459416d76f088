"""Export a session as a trajectory in ATIF, the interchange format of the Harbor evaluation harness.

One step for each message: the system prompt, messages of the user and of the program, answers of the model with their
calls, the results of those, and their usage. Each sub-agent has its own trajectory inside that of its parent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from agent_cli.core.events import (
    ApprovalResolved,
    Compacted,
    Event,
    MessageAdded,
    QuestionAnswered,
    Rewound,
    SubagentEvent,
    ToolFinished,
    ToolRequested,
    TurnFinished,
    TurnStarted,
    UsageAdded,
    decider_word,
    events_by_tag,
)
from agent_cli.core.messages import AssistantMessage, Thinking, ToolMessage, UserMessage, is_synthetic
from agent_cli.core.results import Usage
from agent_cli.core.version import __version__
from agent_cli.core.window import compacted_line
from agent_cli.session.records import Header, SessionNotFoundError
from agent_cli.session.restore import records
from agent_tools.record import DecodeError, from_json
from agent_tools.results import Media

SCHEMA = "ATIF-v1.7"
# Returns the definitions of tools by name, in OpenAI's form.
ToolDefinitions = Callable[[Sequence[str]], list[dict[str, Any]]]
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_KINDS = events_by_tag(
    "ApprovalResolved Compacted MessageAdded QuestionAnswered Rewound SubagentEvent ToolFinished ToolRequested "
    "TurnFinished TurnStarted UsageAdded"
)


def atif(data: bytes, name: str, definitions: ToolDefinitions) -> str:
    """Export a log as ATIF, as indented ASCII JSON. Raises SessionNotFoundError if nothing can be read."""
    return json.dumps(build_trajectory(data, name, definitions), indent=2) + "\n"


def build_trajectory(data: bytes, name: str, definitions: ToolDefinitions) -> dict[str, Any]:
    """Return the trajectory of a log. Raises SessionNotFoundError if nothing can be read."""
    good, bad = records(data)
    header = Header(name, "", "", "", "", (), "")
    root = _Trajectory("")
    for record in good:
        try:
            if record["type"] == "Header":
                header = from_json(Header, record["data"])
                if header.system:
                    root.add_step("system", header.system, record["time"])
            elif (cls := _KINDS.get(record["type"])) is not None:
                root.apply(from_json(cls, record["data"]), record["time"])
        except DecodeError:
            bad += 1
    if not root.steps:
        raise SessionNotFoundError(f"Nothing of session {name} can be read.")
    agent = _agent(header, root.model or header.model)
    agent["tool_definitions"] = definitions(header.tools)
    if header.version not in ("", __version__):
        agent["extra"] = {"tool_definitions_of": __version__}
    found = root.end(header, agent)
    found["trajectory_id"] = header.session_id
    found["extra"] = {
        "cwd": header.cwd,
        "root": header.root,
        "branch": header.branch,
        "forked_from": header.forked_from,
        "turns": root.turns,
        "damaged_records": bad,
    }
    return found


class _Trajectory:
    """Collects the steps of a conversation.

    agent: the type of the sub-agent; "" for the session itself.
    """

    def __init__(self, agent: str, identity: str = "") -> None:
        self.agent = agent
        self.identity = identity
        self.model = ""
        self.steps: list[dict[str, Any]] = []
        self.turns: list[dict[str, Any]] = []
        self.usage = Usage()
        self._cost = Usage()
        self._effort = ""
        self._last = Usage()
        # For each call id, the step with the call and the facts about it; an id may repeat, then the last call counts.
        self._open: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._inner: list[_Trajectory] = []
        # Trajectories of sub-agents whose call has no result yet, by call id.
        self._working: dict[str, _Trajectory] = {}

    def add_step(self, source: str, message: Any, time: str, **fields: Any) -> dict[str, Any]:
        step = {"step_id": len(self.steps) + 1, "timestamp": time, "source": source, "message": message, **fields}
        self.steps.append(step)
        return step

    def apply(self, event: Event, time: str) -> None:
        match event:
            case TurnStarted(saved=saved):
                self._effort = str(saved.get("settings", {}).get("effort") or "")
            case UsageAdded(usage=usage, aside=aside):
                self.usage += usage
                self._cost += usage
                self._last = self._last if aside else usage
            case MessageAdded(message=UserMessage(text=text, media=media)):
                self.add_step("system" if is_synthetic(text) else "user", _content(text, media), time)
            case MessageAdded(message=AssistantMessage() as message):
                self._add_answer(message, time)
            case MessageAdded(message=ToolMessage() as message):
                self._result(message)
            case ToolRequested(call_id=call_id, summary=summary):
                self._note(call_id, summary=summary)
            case ApprovalResolved(call_id=call_id, decision=decision, by=by, reason=reason):
                self._note(call_id, decision=decision, decided_by=decider_word(by), reason=reason)
            case QuestionAnswered(call_id=call_id, verdict=verdict, by=by):
                self._note(call_id, decision=verdict, decided_by=decider_word(by))
            case ToolFinished(call_id=call_id, duration_ms=duration):
                self._note(call_id, duration_ms=duration)
            case SubagentEvent(agent=agent, call_id=call_id, event=inner):
                self._apply_nested(agent, call_id, inner, time)
            case Compacted() as compacted:
                self._add_compaction(compacted, time)
            case Rewound(messages=messages):
                note = {"rewound_to_messages": messages}
                self.add_step("system", "The user went back to an earlier message.", time, extra=note)
            case TurnFinished() as finished:
                self._add_turn(finished)

    def _add_answer(self, message: AssistantMessage, time: str) -> None:
        fields: dict[str, Any] = {}
        self.model = message.model or self.model
        if message.model:
            fields["model_name"] = message.model
        if self._effort:
            fields["reasoning_effort"] = self._effort
        if thinking := "\n\n".join(p.text for p in message.parts if isinstance(p, Thinking) and p.text):
            fields["reasoning_content"] = thinking
        if message.calls:
            fields["tool_calls"] = [
                {"tool_call_id": call.id, "function_name": call.name, "arguments": call.arguments}
                | ({"extra": {"arguments_as_sent": call.broken}} if call.broken else {})
                for call in message.calls
            ]
        fields["metrics"], self._last = _metrics(self._last), Usage()
        fields["llm_call_count"] = 1
        fields["extra"] = {"stop_reason": message.stop_reason, "response_id": message.provider_id}
        step = self.add_step("agent", message.text, time, **fields)
        self._open |= {call.id: (step, {}) for call in message.calls}

    def _note(self, call_id: str, **facts: Any) -> None:
        if call_id in self._open:
            self._open[call_id][1].update({name: value for name, value in facts.items() if value not in ("", None)})

    def _result(self, message: ToolMessage) -> None:
        """Add a result to the step of its call. One whose call was lost is left out: a result must have its call."""
        step, facts = self._open.get(message.call_id, ({}, {}))
        if not step or "is_error" in facts:
            return
        facts["is_error"] = message.is_error
        result = {"source_call_id": message.call_id, "content": _content(message.text, message.media), "extra": facts}
        if (inner := self._working.pop(message.call_id, None)) is not None and inner.steps:
            reference = {"trajectory_id": inner.identity, "extra": {"agent": inner.agent}}
            result["subagent_trajectory_ref"] = [reference]
        step.setdefault("observation", {"results": []})["results"].append(result)

    def _apply_nested(self, agent: str, call_id: str, event: Event, time: str) -> None:
        if call_id not in self._working:
            self._working[call_id] = _Trajectory(agent, f"{agent}-{len(self._inner) + 1}")
            self._inner.append(self._working[call_id])
        inner = self._working[call_id]
        inner._effort = self._effort
        inner.apply(event, time)
        if isinstance(event, UsageAdded):
            self._cost += event.usage

    def _add_compaction(self, event: Compacted, time: str) -> None:
        facts = {
            "trigger": event.trigger,
            "kept": event.kept,
            "dropped": event.dropped,
            "tokens_before": event.tokens_before,
            "tokens_after": event.tokens_after,
        }
        self.add_step("system", event.summary or compacted_line(event), time, extra={"compaction": facts})

    def _add_turn(self, event: TurnFinished) -> None:
        found = event.diagnostics
        self.turns.append(
            {
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
        )

    def end(self, header: Header, agent: dict[str, Any]) -> dict[str, Any]:
        """Return the trajectory as plain data."""
        found: dict[str, Any] = {
            "schema_version": SCHEMA,
            "session_id": header.session_id,
            "agent": agent,
            "steps": self.steps,
            "final_metrics": {
                "total_prompt_tokens": self.usage.input,
                "total_completion_tokens": self.usage.output,
                "total_cached_tokens": self.usage.cache_read,
                "total_cost_usd": self._cost.cost if self._cost.reliable else None,
                "total_steps": len(self.steps),
                "extra": {"reasoning_tokens": self.usage.reasoning, "cache_write_tokens": self.usage.cache_write},
            },
        }
        inner = [child._end_nested(header, agent["model_name"]) for child in self._inner if child.steps]
        return found | ({"subagent_trajectories": inner} if inner else {})

    def _end_nested(self, header: Header, model: str) -> dict[str, Any]:
        agent = _agent(header, self.model or model) | {"extra": {"agent": self.agent}}
        return self.end(header, agent) | {"trajectory_id": self.identity, "extra": {"turns": self.turns}}


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

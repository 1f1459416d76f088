"""A session as metrics, events and spans: a projection of its view, for all front ends.

`SessionTelemetry` is called with every event. Names and attributes are those that Claude Code documents; spans also
have those of OpenTelemetry's conventions for generative AI. Texts are exported only as far as the user has said so.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from agent_cli.config.telemetry import TelemetryOptions
from agent_cli.kernel.events import KINDS, PIECES, ApprovalResolved, Event
from agent_cli.kernel.messages import is_synthetic, user_text
from agent_cli.kernel.results import Usage
from agent_cli.kernel.session.live import LiveSession, ViewChange
from agent_cli.kernel.session.view_entries import CallView
from agent_cli.telemetry.facts import Attributes, SessionFacts, language_of, split_label
from agent_cli.telemetry.pipeline import Pipeline
from agent_cli.telemetry.records import EventRecord, SpanRecord
from agent_tools.registry import tool_traits

_COMMIT = re.compile(r"\bgit\b[^;&|\n]*\scommit\b")
_PULL_REQUEST = re.compile(r"\b(?:gh\s+pr|glab\s+mr)\s+create\b")
_PASSED_BY = frozenset(PIECES | {"output", "reading", "plan", "warning", "notice", "paused", "pinned"})
_AUXILIARY = "auxiliary"


class _ModelCall:
    """A model call under way. sent: when its latest attempt was."""

    def __init__(self, span: SpanRecord) -> None:
        self.span, self.sent, self.attempts = span, span.start, 1
        self.usage = Usage()


class _ToolCall:
    """A call under way. asked, started: when the user was asked, and when it began to run; 0 for not yet."""

    def __init__(self, span: SpanRecord) -> None:
        self.span = span
        self.asked = self.started = self.ended = 0
        self.source = "config"
        self.decision = ("", "")


class SessionTelemetry:
    """Exports what happens in a session. Takes its events from any thread.

    built_in: says whether a type of sub-agent is the program's own. prompt_id: returns the ID of the message that is
    worked on. clock: nanoseconds since the epoch.
    """

    def __init__(
        self,
        options: TelemetryOptions,
        facts: SessionFacts,
        redact: Callable[[str], str],
        prompt_id: Callable[[], str],
        built_in: Callable[[str], bool],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._options, self._facts, self._clock = options, facts, clock
        self._prompt_id, self._built_in = prompt_id, built_in
        self._about = Attributes(options, facts, redact)
        self._to = Pipeline(options, self._about.resource(), facts.env)
        self._view = LiveSession()
        self._lock = Lock()
        self._broken = False
        self._sequence = self._turns = self._blocked = 0
        self._turn: SpanRecord | None = None
        self._models: dict[LiveSession, _ModelCall] = {}
        self._calls: dict[CallView, _ToolCall] = {}
        self._inherited = (0, 0) if facts.attended else _trace_parent(facts.env.get("TRACEPARENT", ""))
        self._count("session.count", 1, start_type=facts.start_type)

    def __call__(self, event: Event) -> None:
        """Take the next event."""
        with self._lock:
            if KINDS.get(type(event)) in PIECES or self._broken:
                return
            try:
                self._follow(self._view.follow(event), self._clock())
            except Exception as error:  # noqa: BLE001 - a mistake here must not end the turn; the last line names it
                self._broken = True
                self._to.fail(f"no more is exported after an internal error ({type(error).__name__}: {error})")

    def close(self) -> str:
        """Send what is left, for a limited time; return what could not be sent, "" for nothing."""
        return self._to.close()

    def _follow(self, change: ViewChange, now: int) -> None:
        if change.kind in _PASSED_BY:
            return
        if change.call is not None:
            self._follow_call(change, change.call, now)
        elif change.kind in ("round", "retry", "first", "usage", "answer"):
            self._follow_model(change, now)
        elif change.kind == "begun" and change.view.task is None:
            self._begin_turn(change, now)
        elif change.kind == "ended":
            self._end(change, now)
        elif change.kind == "message" and change.message is not None and change.view.task is None:
            turn = change.view.turn
            if turn is not None and change.message in turn.added:
                self._prompt(change.message.message.text, now)
        elif change.kind == "compacted":
            event = change.event
            self._event("compaction", now, trigger="manual" if event.trigger == "manual" else "auto", success="true",
                        pre_tokens=event.tokens_before, post_tokens=event.tokens_after)  # fmt: skip
        elif change.kind == "hook":
            self._hook(change.event, now)
        elif change.kind == "named" and change.event.model:
            self._spend(change.event.model, change.event.usage, now, _AUXILIARY, "generate_session_title")

    # The turn.

    def _begin_turn(self, change: ViewChange, now: int) -> None:
        self._turns += 1
        self._blocked = 0
        trace, parent = self._inherited
        turn = self._turn = SpanRecord("claude_code.interaction", trace or _new_id(16), _new_id(8), parent, now)
        turn.remote = bool(parent)
        query = change.view.turn.words if change.view.turn is not None else ""
        turn.attributes |= {
            "user_prompt": self._about.text(query, shown=self._options.prompts),
            "user_prompt_length": len(query),
            "interaction.sequence": self._turns,
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "agent",
        }
        if change.view.turn is not None and query and not change.view.turn.resumed:
            self._prompt(query, now)

    def _prompt(self, text: str, now: int) -> None:
        if not is_synthetic(text):
            text = user_text(text)
            shown = self._about.text(text, shown=self._options.prompts)
            self._event("user_prompt", now, prompt_length=str(len(text)), prompt=shown)

    def _end(self, change: ViewChange, now: int) -> None:
        """End a turn, or that of a sub-agent, with what of it is still under way."""
        event, view = change.event, change.view
        if (call := self._models.pop(view, None)) is not None:
            self._fail_model(call, event.failure, view, now)
        if view.task is not None and view.background and event.result != "Suspended":
            self._subagent(view.task, view, event.diagnostics.duration_ms, now)
        if view.task is not None or (turn := self._turn) is None:
            return
        for tool in [tool for tool in self._calls.values() if event.result != "Suspended"]:
            self._span(tool.span, now, "tool", {})
        self._calls = {} if event.result != "Suspended" else self._calls
        active = max(0, now - turn.start - self._blocked)
        self._count("active_time.total", active / 1e9, type="cli")
        more = {"interaction.duration_ms": _ms(now - turn.start)}
        self._span(turn, now, "interaction", more | self._gen_ai_usage(event.usage))
        self._turn = None

    def _hook(self, hook: Any, now: int) -> None:
        kinds = ("success", "blocked", "error", "cancelled")
        names = ("num_success", "num_blocking", "num_non_blocking_error", "num_cancelled")
        counts = {name: int(hook.outcome == kind) for name, kind in zip(names, kinds, strict=True)}
        self._event("hook_execution_complete", now, hook_event=hook.event, hook_name=hook.name or hook.event,
                    num_hooks=1, total_duration_ms=hook.duration_ms, **counts)  # fmt: skip

    # Model calls.

    def _follow_model(self, change: ViewChange, now: int) -> None:
        view, event, call = change.view, change.event, self._models.get(change.view)
        if change.kind == "round":
            self._models[view] = _ModelCall(self._child("claude_code.llm_request", view, now))
        elif change.kind == "usage":
            auxiliary = event.aside
            if call is not None and not auxiliary:
                call.usage += event.usage
            source = _AUXILIARY if auxiliary else "subagent" if view.task is not None else "main"
            sent = call.sent if call is not None and not auxiliary else 0
            self._spend(event.model, event.usage, now, source, _AUXILIARY if auxiliary else self._source(view), sent)
        elif call is not None and change.kind == "retry":
            call.span.events.append(("gen_ai.request.attempt", now, {"attempt": event.attempt}))
            call.attempts = event.attempt + 1
            call.sent = now + int(event.wait * 1e9)
        elif call is not None and change.kind == "first":
            call.sent = now - event.ms * 1_000_000
            call.span.start = call.sent if call.attempts == 1 else call.span.start
            call.span.attributes |= {"ttft_ms": event.ms}
            call.span.attributes |= {"gen_ai.response.id": event.id} if event.id else {}
            call.span.attributes |= {"gen_ai.response.model": event.model} if event.model else {}
        elif change.kind == "answer" and change.message is not None:
            self._answer(change, call, now)

    def _answer(self, change: ViewChange, call: _ModelCall | None, now: int) -> None:
        view, message = change.view, change.message
        assert message is not None
        answer: Any = message.message
        stop = answer.stop_reason
        if (text := answer.text).strip():
            shown = self._about.text(text, shown=self._options.answers)
            self._event("assistant_response", now, response_length=len(text), response=shown,
                        model=self._model(view)[1], query_source=self._source(view))  # fmt: skip
        if stop == "refusal":
            self._event("api_refusal", now, model=self._model(view)[1], query_source=self._source(view),
                        attempt=call.attempts if call is not None else 1)  # fmt: skip
        if call is None or self._models.pop(view, None) is None:
            return
        more: dict[str, Any] = {"success": True, "response.has_tool_call": bool(answer.calls)}
        more |= {"stop_reason": stop, "gen_ai.response.finish_reasons": [stop]} if stop else {}
        self._end_model(call, view, now, more)

    def _end_model(self, call: _ModelCall, view: LiveSession, now: int, more: Mapping[str, Any]) -> None:
        provider, model = self._model(view)
        usage = call.usage
        self._span(call.span, now, "llm_request", {
            "model": model, "gen_ai.request.model": model, "gen_ai.system": provider, "gen_ai.provider.name": provider,
            "gen_ai.operation.name": "chat", "query_source": self._source(view),
            "duration_ms": _ms(now - call.span.start),
            "llm_request.context": "tool" if view.task is not None else "interaction", "attempt": call.attempts,
            "speed": "normal", **_tokens(usage), **self._gen_ai_usage(usage), **more,
        })  # fmt: skip

    def _fail_model(self, call: _ModelCall, failure: Any, view: LiveSession, now: int) -> None:
        """End a model call that brought no answer; `failure` is None if it was interrupted."""
        kind = failure.kind if failure is not None else "cancelled"
        more: dict[str, Any] = {"success": False, "error.type": kind}
        if failure is not None:
            about: dict[str, Any] = {"error": self._about.text(failure.message, shown=True)}
            about |= {"status_code": failure.status} if failure.status else {}
            more |= about
            about["model"] = self._model(view)[1]
            self._event("api_error", now, duration_ms=_ms(now - call.sent), attempt=call.attempts, speed="normal",
                        query_source=self._source(view), **about)  # fmt: skip
            if call.attempts > 1:
                self._event("api_retries_exhausted", now, total_attempts=call.attempts, speed="normal",
                            total_retry_duration_ms=_ms(now - call.span.start), **about)  # fmt: skip
        call.span.error = kind
        self._end_model(call, view, now, more)

    def _spend(self, label: str, usage: Usage, now: int, source: str, subsystem: str, sent: int = 0) -> None:
        """Count what a model call took."""
        model = split_label(label)[1]
        about = {"model": model, "query_source": source}
        about |= {"effort": self._view.effort} if self._view.effort and source == "main" else {}
        kinds = {"input": "input_tokens", "output": "output_tokens", "cacheRead": "cache_read_tokens",
                 "cacheCreation": "cache_creation_tokens"}  # fmt: skip
        tokens = _tokens(usage)
        for kind, name in kinds.items():
            if tokens[name]:
                self._count("token.usage", tokens[name], type=kind, **about)
        if usage.reliable:
            self._count("cost.usage", usage.cost, **about)
        cost = {"cost_usd": usage.cost, "cost_usd_micros": round(usage.cost * 1e6)} if usage.reliable else {}
        took = {"duration_ms": _ms(now - sent)} if sent else {}
        about |= {"query_source": subsystem, "speed": "normal"}
        self._event("api_request", now, **about, **tokens, **cost, **took)

    # Calls of tools.

    def _follow_call(self, change: ViewChange, call: CallView, now: int) -> None:
        event, tool = change.event, self._calls.get(call)
        if tool is None and change.kind != "answered":
            tool = self._calls[call] = _ToolCall(self._child("claude_code.tool", change.view, now))
        if tool is None:
            return
        if change.kind == "asked":
            tool.asked = tool.asked or now
        elif change.kind == "decided":
            self._decided(tool, call, event, now)
        elif change.kind == "started":
            tool.started = now
        elif change.kind == "finished":
            tool.ended = now
            for diff in call.diffs:
                for kind, lines in (("added", diff.added), ("removed", diff.removed)):
                    if lines:
                        self._count("lines_of_code.count", lines, type=kind, model=self._model(change.view)[1])
        # The result is added while the call ends, or instead of running it.
        if (
            change.kind in ("finished", "answered")
            and call.result is not None
            and bool(tool.ended) == bool(tool.started)
        ):
            del self._calls[call]
            self._answered(tool, call, now)

    def _decided(self, tool: _ToolCall, call: CallView, event: Any, now: int) -> None:
        if tool.asked:
            self._blocked += now - tool.asked
            more = {"duration_ms": _ms(now - tool.asked), "decision": _word(event), "source": _source(event)}
            if call.decision != "defer":
                self._span(_within(tool.span, "blocked_on_user", tool.asked), now, "tool.blocked_on_user", more)
            tool.asked = 0
        if not isinstance(event, ApprovalResolved) or event.decision == "defer":
            return
        if tool.decision == (event.decision, event.by):
            return  # decided while the turn waited, and repeated where it continues
        tool.decision = event.decision, event.by
        tool.source = _source(event)
        mcp = call.tool.startswith("mcp__")
        arguments = event.arguments if event.arguments is not None else call.arguments
        self._event("tool_decision", now, tool_name=self._about.tool_name(call.tool), tool_use_id=call.call_id,
                    decision=_word(event), source=tool.source, tool_source="mcp" if mcp else "builtin",
                    **self._about.parameters(call.tool, arguments))  # fmt: skip
        traits = tool_traits(call.tool)
        if traits.changes_files and traits.file_argument:
            path = str(arguments.get(traits.file_argument, ""))
            self._count("code_edit_tool.decision", 1, tool_name=call.tool, decision=_word(event), source=tool.source,
                        language=language_of(path))  # fmt: skip

    def _answered(self, tool: _ToolCall, call: CallView, now: int) -> None:
        """A call has its result: export how it ran, if it did."""
        name, text = self._about.tool_name(call.tool), call.result.text if call.result is not None else ""
        same = {"tool_use_id": call.call_id, "gen_ai.tool.call.id": call.call_id}
        if tool.ended:
            self._ran(tool, call, name, text, same)
        traits = tool_traits(call.tool)
        if self._options.content:
            given, taken = (self._about.text(each, shown=True) for each in (_json(call.arguments), text))
            tool.span.events.append(("tool.output", now, {"input": given, "output": taken}))
        self._span(tool.span, now, "tool", {
            "tool_name": name, **same, "duration_ms": _ms(now - tool.span.start), "result_tokens": len(text) // 4,
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
            "gen_ai.tool.type": "extension" if call.tool.startswith("mcp__") else "function",
            **self._about.target(call.tool, call.arguments),
        })  # fmt: skip
        if traits.nested and isinstance(call.nested, LiveSession) and not call.nested.background:
            self._subagent(call, call.nested, _ms(now - tool.span.start), now)

    def _ran(self, tool: _ToolCall, call: CallView, name: str, text: str, same: Mapping[str, str]) -> None:
        failed, run = call.status == "failed", _within(tool.span, "execution", tool.started)
        took = _ms(tool.ended - tool.started)
        error = self._about.text(text, shown=True) if self._options.details else "ToolError"
        run.error = error if failed else None
        more = {"error": error, "error.type": "ToolError"} if failed else {}
        self._span(run, tool.ended, "tool.execution", {**same, "duration_ms": took, "success": not failed, **more})
        given = self._about.arguments(call.arguments)
        self._event("tool_result", tool.ended, tool_name=name, tool_use_id=call.call_id,
                    success="false" if failed else "true", duration_ms=str(took), decision_type="accept",
                    decision_source=tool.source, tool_input_size_bytes=_size(_json(call.arguments)),
                    tool_result_size_bytes=_size(text),
                    **({"error_type": "ToolError"} if failed else {}),
                    **({"error": error} if failed and self._options.details else {}),
                    **self._about.parameters(call.tool, call.arguments), **given)  # fmt: skip
        command = str(call.arguments.get(tool_traits(call.tool).command_argument, ""))
        if not failed:
            for metric, pattern in (("commit.count", _COMMIT), ("pull_request.count", _PULL_REQUEST)):
                if command and pattern.search(command):
                    self._count(metric, 1)

    def _subagent(self, call: CallView, nested: LiveSession, took: int, now: int) -> None:
        kind = str(call.arguments.get("subagent_type") or nested.agent) if nested.background else nested.agent
        name = self._about.agent_name(kind, built_in=self._built_in(kind))
        self._event("subagent_completed", now, agent_type=name, is_built_in=self._built_in(kind),
                    is_async=nested.background, total_tool_uses=nested.every, duration_ms=took,
                    total_tokens=nested.context, model=self._model(nested)[1])  # fmt: skip

    # Records.

    def _child(self, name: str, view: LiveSession, now: int) -> SpanRecord:
        """Return a span within the turn, or within the call that a sub-agent works for."""
        above = view.above
        task = self._calls.get(view.task) if view.task is not None and above is not None else None
        around = task.span if task is not None else self._turn
        if around is None:
            return SpanRecord(name, _new_id(16), _new_id(8), 0, now)
        return SpanRecord(name, around.trace, _new_id(8), around.id, now)

    def _model(self, view: LiveSession) -> tuple[str, str]:
        """Return the provider and the model of a conversation."""
        return split_label(view.turn.model if view.turn is not None else "")

    def _source(self, view: LiveSession) -> str:
        """Return the part of the program that asks the model."""
        if view.task is not None:
            return self._about.agent_name(view.agent, built_in=self._built_in(view.agent))
        return "repl_main_thread" if self._facts.attended else "sdk"

    def _gen_ai_usage(self, usage: Usage) -> dict[str, int]:
        return {
            "gen_ai.usage.input_tokens": usage.input,
            "gen_ai.usage.output_tokens": usage.output,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
        }

    def _count(self, name: str, amount: float, **attributes: Any) -> None:
        self._to.count(f"claude_code.{name}", amount, {**self._about.of_metrics, **attributes})

    def _event(self, name: str, now: int, **attributes: Any) -> None:
        trace, span = (self._turn.trace, self._turn.id) if self._turn is not None else self._inherited
        about = {
            **self._about.all,
            "event.name": name,
            "event.timestamp": datetime.fromtimestamp(now / 1e9, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "event.sequence": self._sequence,
            **({"prompt.id": prompt} if (prompt := self._prompt_id()) else {}),
        }
        self._sequence += 1
        self._to.event(EventRecord(f"claude_code.{name}", now, {**about, **attributes}, trace, span))

    def _span(self, span: SpanRecord, now: int, kind: str, attributes: Mapping[str, Any]) -> None:
        span.end = now
        conversation = {"span.type": kind, "gen_ai.conversation.id": self._facts.session_id}
        span.attributes = {**self._about.all, **conversation, **span.attributes, **attributes}
        self._to.span(span)


def _within(span: SpanRecord, name: str, start: int) -> SpanRecord:
    """Return a part of the span of a call."""
    return SpanRecord(f"{span.name}.{name}", span.trace, _new_id(8), span.id, start)


def _json(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, default=str)


def _size(text: str) -> str:
    """Return the size in bytes; as text, since backends keep the type that they have seen first."""
    return str(len(text.encode("utf-8", "replace")))


def _tokens(usage: Usage) -> dict[str, int]:
    """Return the tokens of a model call by their names in events; `input` leaves out what was cached."""
    return {
        "input_tokens": max(0, usage.input - usage.cache_read - usage.cache_write),
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_creation_tokens": usage.cache_write,
    }


def _word(event: Any) -> str:
    """Return what was decided about a call, or answered to its question."""
    decision = event.decision if isinstance(event, ApprovalResolved) else event.verdict
    return "accept" if decision in ("approve", "answer") else "reject"


def _source(event: Any) -> str:
    """Return where a decision came from."""
    if event.by == "hook":
        return "hook"
    if event.by != "person":
        return "config"
    if not isinstance(event, ApprovalResolved):
        return "user_temporary" if _word(event) == "accept" else "user_reject"
    if event.decision == "approve":
        return "user_permanent" if event.rule and event.scope != "session" else "user_temporary"
    return "user_reject"


def _trace_parent(text: str) -> tuple[int, int]:
    """Return the trace and the span in W3C's header `traceparent`; zeros if it has none."""
    found = re.fullmatch(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}.*", text.strip())
    return (int(found[1], 16), int(found[2], 16)) if found else (0, 0)


def _new_id(size: int) -> int:
    return int.from_bytes(os.urandom(size), "big") or 1


def _ms(nanoseconds: int) -> int:
    return max(0, nanoseconds) // 1_000_000

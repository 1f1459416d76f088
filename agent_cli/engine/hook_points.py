"""Run hooks at the steps of a turn and apply their answers. Loaded only if some hook matches a step.

A hook can tighten any decision. Its "allow" overrides only a question asked by default: not a deny, an ask rule, a
protected path, or a refusal by the mode. Changed arguments are checked and decided from the start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_cli.core.decisions import Answer, Approve, Decision, EditedCall, Level, Reject
from agent_cli.core.events import ApprovalRequested, Event, ToolFinished, UsageAdded, Warned
from agent_cli.core.hooks import Hook, HookEvent, HookResult, RefreshFields
from agent_cli.core.message_ids import subagent_id
from agent_cli.core.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from agent_cli.core.modes import AgentType
from agent_cli.core.rules import rule_update
from agent_cli.engine import tool_results
from agent_cli.engine.tool_call import prepare_call
from agent_cli.engine.turn import Turn, TurnDeps
from agent_cli.engine.types import CallError, CheckedCall, PreparedCall, SubagentEnd
from agent_cli.permissions.policy import change_rules
from agent_tools.base import Effect, Steps, ToolResult
from agent_tools.cancel import CancelledError
from agent_tools.record import from_json
from agent_tools.registry import SHELL, tool_name
from agent_tools.results import CommandOutput
from agent_tools.shell.jobs import Job, Jobs
from agent_tools.task import COMMON_NAMES, COMMON_TOOL_NAMES

# How many times PermissionRequest hooks may change one call.
_MAX_CHANGES = 3
_PATH_ARGUMENTS = ("file_path", "notebook_path")


def base_payload(deps: TurnDeps, turn: Turn | None = None) -> dict[str, Any]:
    """Return the fields that every hook of a running turn receives."""
    found: dict[str, Any] = {"permission_mode": deps.policy.mode}
    if deps.state.prompt_id:
        found["prompt_id"] = deps.state.prompt_id
    if turn is not None and (effort := turn.options.effort_in_use):
        found["effort"] = {"level": effort}
    if deps.agent:
        found |= agent_fields(deps)
    return found


def agent_fields(deps: TurnDeps) -> dict[str, Any]:
    """Return the fields about a running sub-agent: its ID, and its type by the name that scripts compare."""
    return {"agent_id": subagent_id(deps.state.agent_id), "agent_type": COMMON_NAMES.get(deps.agent, deps.agent)}


def _run(
    turn: Turn, event: HookEvent, data: dict[str, Any], refresh: RefreshFields | None = None
) -> Generator[Event, None, HookResult]:
    """Run the hooks of a step and charge their model calls to the turn. Raises CancelledError."""
    running = Steps(turn.deps.hooks.run(event, data, turn.deps.context.cancel, refresh))
    for found in running:
        if isinstance(found, UsageAdded):
            turn.usage += found.usage
            turn.budget.cost += found.usage.cost
        yield found
    return running.result


class HookOutcome:
    """The result of a call's PreToolUse hooks.

    given: the arguments they received.
    changed: the call with the arguments they changed, or None.
    """

    def __init__(self, call: ToolCall, result: HookResult, changed: ToolCall | None) -> None:
        self.given = call.arguments
        self.result = result
        self.changed = changed


class RoundHooks:
    """The hooks of one round's calls; each runs once per call. together: the round has several calls."""

    def __init__(self, turn: Turn, *, together: bool) -> None:
        self._turn = turn
        self._together = together
        self._outcomes: dict[str, HookOutcome] = {}
        # How many times PermissionRequest hooks changed a call.
        self._changes: dict[str, int] = {}

    def pre_tool_use(self, call: ToolCall) -> Generator[Event, None, CheckedCall]:
        """Return the call made ready, with its PreToolUse hooks applied. Raises CancelledError."""
        turn = self._turn
        item = prepare_call(turn, call, together=self._together)
        if isinstance(item, CallError):
            return item
        outcome = self._outcomes.get(call.id)
        if outcome is None or outcome.given != call.arguments:
            given = tool_input(turn, item)
            data = {**base_payload(turn.deps, turn), **_call_fields(item), "tool_input": given}
            result = yield from _run(turn, "PreToolUse", data, self._refresh_effects(item))
            changed = None
            if result.changed is not None and result.changed not in (given, call.arguments):
                changed = with_input(item, result.changed)
            outcome = self._outcomes[call.id] = HookOutcome(call, result, changed)
            if result.stop is not None:
                turn.stopped = result.stop
        if outcome.changed is not None:
            item = prepare_call(turn, outcome.changed, together=self._together)
            if isinstance(item, CallError):
                return CallError(f"A hook changed the arguments of this call, and they cannot be used: {item.text}")
        decision = merge_decision(item.decision, outcome.result, turn.deps.policy.mode, suspends=not turn.deps.attended)
        return item.replace(decision=decision)

    def permission(self, item: PreparedCall, request: ApprovalRequested) -> Generator[Event, None, Answer | None]:
        """Return the PermissionRequest hooks' answer to a question; None if they leave it to the user."""
        turn = self._turn
        given = tool_input(turn, item)
        data = {**base_payload(turn.deps, turn), **_call_fields(item), "tool_input": given, "reason": request.reason}
        if request.always:
            data["permission_suggestions"] = [rule_update(request.always)]
        result = yield from _run(turn, "PermissionRequest", data, self._refresh_effects(item))
        if result.stop is not None:
            turn.stopped = result.stop
        if result.verdict == "deny" or result.stop is not None:
            why = result.reason or result.stop
            return Reject(f"was refused by a hook{f': {why}' if why else ''}", by="hook")
        for update in result.updates:
            for problem in change_rules(turn.deps.policy, update, turn.deps.save_rule):
                yield Warned(f"hook: {problem}")
        if result.changed is not None and result.changed not in (given, item.call.arguments):
            count = self._changes[item.call.id] = self._changes.get(item.call.id, 0) + 1
            return EditedCall(with_input(item, result.changed).arguments, by="hook") if count <= _MAX_CHANGES else None
        return Approve(by="hook") if result.verdict == "allow" and not item.decision.final else None

    def note(self, call: ToolCall) -> str:
        """Return the hooks' notes for the model, to append to the result of a call."""
        outcome = self._outcomes.get(call.id)
        if outcome is None:
            return ""
        changed = [f"[A hook changed the arguments to {outcome.changed.arguments}.]"] if outcome.changed else []
        return "".join(f"\n\n{text}" for text in (*changed, *outcome.result.context))

    def _refresh_effects(self, given: PreparedCall) -> RefreshFields:
        """Return a function that recomputes the effects after a hook changed the input."""

        def refresh(arguments: dict[str, Any]) -> dict[str, Any]:
            item = prepare_call(self._turn, with_input(given, arguments), together=self._together)
            return {"effects": [] if isinstance(item, CallError) else _call_fields(item)["effects"]}

        return refresh


def before_command(
    deps: TurnDeps, command: str, call_id: str, decision: Decision
) -> Generator[Event, None, tuple[Decision, str]]:
    """Run the PreToolUse hooks for a command in a prompt; return the decision and the command, perhaps changed.

    Raises CancelledError.
    """

    def payload(arguments: dict[str, Any]) -> dict[str, Any]:
        effects = [{"kind": "run", "target": str(arguments.get("command", ""))}]
        return {"tool_input": arguments, "effects": effects}

    data = {**base_payload(deps), "tool_name": SHELL.name, "tool_use_id": call_id, **payload({"command": command})}
    result = yield from deps.hooks.run("PreToolUse", data, deps.context.cancel, payload)
    changed = str((result.changed or {}).get("command", command))
    if changed != command:
        decision = deps.policy.decide(SHELL.name, (Effect("run", changed),))
    return merge_decision(decision, result, deps.policy.mode), changed


def merge_decision(decision: Decision, result: HookResult, mode: str, *, suspends: bool = False) -> Decision:
    """Combine the policy's decision with the result of the hooks.

    suspends: a call may be deferred; where it may not, the user is asked.
    """
    why = f": {result.reason}" if result.reason else ""
    if result.stop is not None or result.verdict == "deny":
        if decision.level is Level.DENY:
            return decision
        why = why or (f": {result.stop}" if result.stop else "")
        return Decision(Level.DENY, f"was refused by a hook{why}", "hook")
    if result.verdict == "defer" and decision.level is not Level.DENY and suspends:
        return Decision(Level.ASK, f"is deferred by a hook{why}", "hook", final=True, deferred=True)
    if result.verdict in ("ask", "defer") and decision.level is not Level.DENY:
        if mode == "dontAsk":
            text = f"needs approval according to a hook{why}, and the mode dontAsk denies that"
            return Decision(Level.DENY, text, "hook")
        if decision.level is Level.ASK:
            return decision.replace(reason=f"{decision.reason}, and a hook asks for approval{why}", final=True)
        return Decision(Level.ASK, f"needs approval according to a hook{why}", "hook", final=True)
    if result.verdict == "allow" and decision.level is Level.ASK and not decision.final:
        return decision.replace(level=Level.ALLOW, reason=f"is allowed by a hook{why}", by="hook", rule="")
    return decision


def original_text(turn: Turn, item: PreparedCall) -> str | None:
    """Return the text of the file that a call is about to change, for its hooks; None for other calls."""
    if item.tool.name not in tool_results.CHANGES:
        return None
    path = tool_input(turn, item).get("file_path")
    return tool_results.text_before(tool_results.absolute_path(path, "/"))


def post_tool_use(
    turn: Turn, item: PreparedCall, result: ToolResult, ms: int, *, interrupted: bool, before: str | None = None
) -> Generator[Event, None, tuple[ToolResult, str]]:
    """Run the PostToolUse or PostToolUseFailure hooks; return the result, perhaps changed, and notes for the model.

    before: the text of the file before the call changed it.
    """
    event: HookEvent = "PostToolUseFailure" if result.is_error else "PostToolUse"
    if not turn.deps.hooks.wants(event, item.tool.name):
        return result, ""
    data = {**base_payload(turn.deps, turn), **_call_fields(item), "tool_input": tool_input(turn, item)}
    if result.is_error:
        data |= {"error": _error(result), "is_interrupt": interrupted}
    else:
        data["tool_response"] = _response(item, result, data["tool_input"], ms, before)
        if (ended := turn.deps.state.ended.pop(item.call.id, None)) is not None:
            data["tool_response"] |= _subagent_response(item, result, ended)
    data["duration_ms"] = ms
    try:
        found = yield from _run(turn, event, data)
    except CancelledError:
        # The call itself is done: keep its result; the turn ends after it.
        return result, ""
    if found.stop is not None:
        turn.stopped = found.stop
    notes = [f"[A hook says about this call:]\n{found.reason}"] if found.verdict == "deny" and found.reason else []
    if found.output is not None:
        result = result.replace(text=output_text(found.output), media=())
    return result, "".join(f"\n\n{text}" for text in [*notes, *found.context])


def output_text(output: Any) -> str:
    """Return the text of a hook's updatedToolOutput: a string, the output of a command, or blocks of an MCP result."""
    if isinstance(output, str):
        return output
    blocks = output.get("content") if isinstance(output, dict) else output
    if isinstance(blocks, str):
        return blocks
    if isinstance(blocks, list) and all(isinstance(b, dict) and isinstance(b.get("text"), str) for b in blocks):
        return "\n".join(b["text"] for b in blocks)
    if isinstance(output, dict) and isinstance(output.get("stdout"), str):
        return "\n".join(filter(None, (output["stdout"].rstrip("\n"), str(output.get("stderr") or ""))))
    return json.dumps(output, ensure_ascii=False)


def agent_hooks(kind: AgentType) -> list[Hook]:
    """Return the hooks of a type's front matter; its Stop is the SubagentStop of this type only."""
    found: list[Hook] = [from_json(Hook, plain) for plain in kind.hooks]
    only = kind.name if kind.name.replace("-", "_").isidentifier() else f"^{re.escape(kind.name)}$"
    return [h.replace(event="SubagentStop", matcher=only) if h.event == "Stop" else h for h in found]


def subagent_start(deps: TurnDeps) -> Generator[Event, None, tuple[str, ...]]:
    """Run the SubagentStart hooks; return messages for the sub-agent. Raises CancelledError."""
    if not deps.hooks.wants("SubagentStart", COMMON_NAMES.get(deps.agent, deps.agent)):
        return ()
    result = yield from deps.hooks.run("SubagentStart", base_payload(deps), deps.context.cancel)
    return context_messages("SubagentStart", result.context)


def stop_hooks(turn: Turn, text: str) -> Generator[Event, None, str | None]:
    """Run the Stop or SubagentStop hooks; return a message that continues the turn, or None to let it end."""
    deps = turn.deps
    event: HookEvent = "SubagentStop" if deps.depth else "Stop"
    times = turn.nudges.get("stop_hook", 0)
    if not deps.hooks.wants(event, COMMON_NAMES.get(deps.agent, deps.agent)):
        return None
    if times >= turn.options.hook_continues:
        if times:
            yield Warned(f"{event} hooks continued this turn {times} times, the limit of hook_continues.")
        return None
    data = {**base_payload(deps, turn), "stop_hook_active": bool(times), "last_assistant_message": text}
    if deps.depth:
        data["agent_transcript_path"] = deps.state.agent_transcript(deps.state.agent_id) or ""
    running = [job for job in deps.context.state(Jobs).all() if job.running]
    data |= {"background_tasks": [_background_task(job) for job in running], "session_crons": []}
    result = yield from _run(turn, event, data)
    if result.verdict != "deny" or result.stop is not None:
        return None
    turn.nudges["stop_hook"] = times + 1
    return f"<hook_feedback>\nA hook keeps you from stopping:\n{result.reason or 'Go on.'}\n</hook_feedback>"


def _background_task(job: Job) -> dict[str, str]:
    """Return a background command as Claude Code lists it."""
    found = {"id": job.id, "type": "shell", "status": "running"}
    return {**found, "description": job.command, "command": job.command}


def begin_notification(turn: Turn, kind: str, message: str) -> None:
    """Run the Notification hooks in the background while the user is asked."""
    turn.deps.hooks.run_in_background("Notification", _notification(turn, kind, message))


def run_notification(turn: Turn, kind: str, message: str) -> Generator[Event, None, None]:
    """Run the Notification hooks to their end before a turn is suspended; in the background they would be cut short."""
    yield from _run(turn, "Notification", _notification(turn, kind, message))


def _notification(turn: Turn, kind: str, message: str) -> dict[str, Any]:
    return {**base_payload(turn.deps, turn), "notification_type": kind, "message": message}


def pre_compact(turn: Turn, trigger: str, focus: str = "") -> Generator[Event, None, HookResult]:
    """Run the PreCompact hooks; `context` of the result extends the instructions.

    trigger: "manual" or "auto". A verdict of "deny" cancels the compaction. Raises CancelledError.
    """
    if not turn.deps.hooks.wants("PreCompact", trigger):
        return HookResult()
    data = {**base_payload(turn.deps), "trigger": trigger, "custom_instructions": focus or None}
    return (yield from _run(turn, "PreCompact", data))


def post_compact(turn: Turn, trigger: str, summary: str) -> Generator[Event, None, None]:
    """Run the PostCompact hooks. trigger: "manual" or "auto"."""
    data = {**base_payload(turn.deps), "trigger": trigger, "compact_summary": summary}
    # The compaction is done; the turn notices the interruption by itself.
    with suppress(CancelledError):
        yield from _run(turn, "PostCompact", data)


def after_batch(turn: Turn) -> Generator[Event, None, None]:
    """Run the PostToolBatch hooks on the calls of the last answer, which all have results. Raises CancelledError."""
    start = next((n for n in reversed(range(len(turn.history))) if isinstance(turn.history[n], AssistantMessage)), 0)
    answer, *rest = turn.history[start:]
    results = {m.call_id: m.text for m in rest if isinstance(m, ToolMessage)}
    cwd = turn.deps.context.workspace.cwd
    calls = [
        {
            "tool_name": _common_name(call.name),
            "tool_input": absolute({**turn.deps.traits_of(call.name).hook_defaults, **call.arguments}, cwd),
            "tool_use_id": call.id,
            "tool_response": results[call.id],
        }
        for call in (answer.calls if isinstance(answer, AssistantMessage) else ())
        if call.id in results
    ]
    result = yield from _run(turn, "PostToolBatch", {**base_payload(turn.deps, turn), "tool_calls": calls})
    if result.stop is not None or result.verdict == "deny":
        turn.stopped = result.stop or result.reason or "it gave no reason"
        return
    for text in context_messages("PostToolBatch", result.context):
        yield from turn.add(UserMessage(text))


def tool_input(turn: Turn, item: PreparedCall) -> dict[str, Any]:
    """Return a call's arguments for hooks: those of the tool that is really called, with absolute paths."""
    arguments = item.call.arguments
    if _is_proxy(item):
        arguments = arguments.get("arguments") or {}
    return absolute({**item.tool.hook_defaults, **arguments}, turn.deps.context.workspace.cwd)


def with_input(item: PreparedCall, arguments: dict[str, Any]) -> ToolCall:
    """Return the call with other arguments for the tool that is really called."""
    whole = {**item.call.arguments, "arguments": arguments} if _is_proxy(item) else arguments
    return item.call.replace(arguments=whole)


def _is_proxy(item: PreparedCall) -> bool:
    return item.tool.name != item.call.name


def absolute(arguments: dict[str, Any], cwd: Path) -> dict[str, Any]:
    """Return the arguments with absolute paths."""
    found = dict(arguments)
    for name in _PATH_ARGUMENTS:
        path = found.get(name)
        if isinstance(path, str) and path and not path.startswith("~"):
            found[name] = str(cwd / Path(path))
    return found


def _call_fields(item: PreparedCall) -> dict[str, Any]:
    """Return the fields about a call: Claude Code's, and the effects, which name every file that the call touches."""
    effects = [{"kind": e.kind, "target": e.target} for e in item.effects]
    return {"tool_name": _common_name(item.tool.name), "tool_use_id": item.call.id, "effects": effects}


def _common_name(name: str) -> str:
    """Return a tool's name as Claude Code writes it."""
    name = tool_name(name)
    return COMMON_TOOL_NAMES.get(name, name)


def _error(result: ToolResult) -> str:
    """Return the text of a failed call; of a command with its exit code first, as in Claude Code."""
    ran = result.display
    if isinstance(ran, CommandOutput) and ran.exit_code:
        return "\n".join(filter(None, (f"Exit code {ran.exit_code}", ran.output)))
    return result.text


def _subagent_response(item: PreparedCall, result: ToolResult, ended: SubagentEnd) -> dict[str, Any]:
    """Return the result of a sub-agent as Claude Code's object for it."""
    report = tool_results.subagent_result(
        result.text, item.args.prompt, ended.usage, len(ended.calls), ended.milliseconds
    )
    return {
        **report,
        "agentId": subagent_id(item.call.id),
        "agentType": COMMON_NAMES.get(ended.kind, ended.kind),
        "resolvedModel": ended.model,
        "toolsUsed": list(dict.fromkeys(map(_common_name, ended.calls))),
    }


def _response(
    item: PreparedCall, result: ToolResult, arguments: dict[str, Any], ms: int, before: str | None
) -> dict[str, Any]:
    """Return the result as Claude Code's object for this tool, and content and success, which every tool has."""
    found: dict[str, Any] = {"content": result.text, "success": not result.is_error}
    if written := sorted(item.writes):
        found["filePath"] = written[0]
    name = item.tool.name
    finished = ToolFinished(item.call.id, name, result.is_error, ms, result.display)
    message = ToolMessage(item.call.id, name, result.text, result.is_error, media=result.media)
    shaped = tool_results.tool_use_result(finished, message, arguments, "/", before=before)
    return found | shaped if isinstance(shaped, dict) else found


def context_messages(event: HookEvent, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the hooks' additions, each marked as a message that is not the user's."""
    return tuple(f'<hook_context event="{event}">\n{text}\n</hook_context>' for text in texts)

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

from agent_cli.hooks import Hook, HookResult, RefreshFields, events, hooks_from_plain
from agent_cli.hooks.events import HookedCall, HookStep
from agent_cli.kernel.decisions import Answer, Approve, Decision, EditedCall, Level, Reject
from agent_cli.kernel.engine import tool_results
from agent_cli.kernel.engine.tool_call import prepare_call
from agent_cli.kernel.engine.turn import Turn, TurnDeps
from agent_cli.kernel.engine.types import CallError, CheckedCall, PreparedCall, SubagentEnd
from agent_cli.kernel.events import ApprovalRequested, Event, ToolFinished, UsageAdded, Warned
from agent_cli.kernel.message_ids import subagent_id
from agent_cli.kernel.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from agent_cli.kernel.modes import AgentType
from agent_cli.kernel.results import Failed, LimitReached, TurnResult
from agent_cli.kernel.rules import rule_update
from agent_cli.policy.policy import change_rules
from agent_tools.base import AskHooks, Effect, Steps, ToolError, ToolResult
from agent_tools.cancel import CancelledError
from agent_tools.registry import SHELL
from agent_tools.results import CommandOutput
from agent_tools.shell.jobs import Jobs
from agent_tools.task import COMMON_NAMES
from agent_tools.text import shorten

# How many times PermissionRequest hooks may change one call.
_MAX_CHANGES = 3
# How often Stop hooks may continue a turn.
MAX_CONTINUES = 50
_PATH_ARGUMENTS = ("file_path", "notebook_path")


def fire(
    at: Turn | TurnDeps, step: HookStep, refresh: RefreshFields | None = None
) -> Generator[Event, None, HookResult]:
    """Run the hooks of a step, and charge their model calls to the turn. Raises CancelledError."""
    turn = at if isinstance(at, Turn) else None
    deps = turn.deps if turn is not None else at
    assert isinstance(deps, TurnDeps)
    if not deps.hooks.wants(step.event, step.subject):
        return HookResult()
    data = {**_base_payload(deps, turn), **step.fields}
    running = Steps(deps.hooks.run(step.event, data, deps.context.cancel, refresh))
    for found in running:
        if turn is not None and isinstance(found, UsageAdded):
            turn.usage += found.usage
            turn.budget.cost += found.usage.cost
        yield found
    return running.result


def fire_context(at: Turn | TurnDeps, step: HookStep) -> Generator[Event, None, tuple[str, ...]]:
    """Run the hooks of a step; return their additions as messages for the model. Raises CancelledError."""
    return context_messages(step.event, (yield from fire(at, step)).context)


def _base_payload(deps: TurnDeps, turn: Turn | None = None) -> dict[str, Any]:
    """Return the fields that every hook of a running turn receives."""
    found: dict[str, Any] = {"permission_mode": deps.policy.mode}
    if deps.state.prompt_id:
        found["prompt_id"] = deps.state.prompt_id
    if turn is not None and (effort := turn.options.effort_in_use):
        found["effort"] = {"level": effort}
    return found | (_agent(deps) if deps.agent else {})


def _agent(deps: TurnDeps) -> dict[str, Any]:
    return events.agent_fields(deps.state.agent_id, deps.agent)


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
            step = events.pre_tool_use(_hooked(item, given))
            result = yield from fire(turn, step, self._refresh_effects(item))
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
        suggestions = [rule_update(request.always)] if request.always else []
        step = events.permission_request(_hooked(item, given), request.reason, suggestions)
        result = yield from fire(turn, step, self._refresh_effects(item))
        if result.stop is not None:
            turn.stopped = result.stop
        if (why := result.refusal) is not None:
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
            return {"effects": [] if isinstance(item, CallError) else _hooked(item, arguments).fields()["effects"]}

        return refresh


def before_skill_command(deps: TurnDeps, name: str, command: str, call_id: str) -> Generator[Event, None, None]:
    """Run the PreSkillShellCommand hooks on a command in a skill or command. Raises ToolError if one refuses."""
    call = HookedCall(SHELL.name, call_id, {"command": command}, (Effect("run", command),))
    result = yield from fire(deps, events.pre_skill_shell_command(call, name))
    if result.verdict not in ("", "allow") or result.stop is not None:
        why = result.reason or result.stop or "it gave no reason"
        raise ToolError(f"/{name} was not sent: a hook refuses its command `{shorten(command, 100)}`: {why}")


def before_command(
    deps: TurnDeps, command: str, call_id: str, decision: Decision
) -> Generator[Event, None, tuple[Decision, str]]:
    """Run the PreToolUse hooks for a command in a prompt; return the decision and the command, perhaps changed.

    Raises CancelledError.
    """

    def hooked(arguments: dict[str, Any]) -> HookedCall:
        return HookedCall(SHELL.name, call_id, arguments, (Effect("run", str(arguments.get("command", ""))),))

    step = events.pre_tool_use(hooked({"command": command}))
    result = yield from fire(deps, step, lambda arguments: hooked(arguments).fields())
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


def after_call(
    turn: Turn, item: PreparedCall, result: ToolResult, ms: int, *, interrupted: bool, before: str | None = None
) -> Generator[Event, None, tuple[ToolResult, str]]:
    """Run the PostToolUse or PostToolUseFailure hooks; return the result, perhaps changed, and notes for the model.

    before: the text of the file before the call changed it.
    """
    call = _hooked(item, tool_input(turn, item))
    if result.is_error:
        step = events.post_tool_use_failure(call, _error(result), interrupted, ms)
    else:
        response = _response(item, result, call.arguments, ms, before)
        if (ended := turn.deps.state.ended.pop(item.call.id, None)) is not None:
            response |= _subagent_response(item, result, ended)
        step = events.post_tool_use(call, response, ms)
    try:
        found = yield from fire(turn, step)
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
    found: list[Hook] = hooks_from_plain(kind.hooks)
    only = kind.name if kind.name.replace("-", "_").isidentifier() else f"^{re.escape(kind.name)}$"
    return [h.replace(event="SubagentStop", matcher=only) if h.event == "Stop" else h for h in found]


def stop_hooks(turn: Turn, text: str) -> Generator[Event, None, str | None]:
    """Run the Stop or SubagentStop hooks; return a message that continues the turn, or None to let it end."""
    deps = turn.deps
    times = turn.nudges.get("stop_hook", 0)
    running = [job for job in deps.context.state(Jobs).all() if job.running]
    if deps.depth:
        transcript = deps.state.agent_transcript(deps.state.agent_id) or ""
        step = events.subagent_stop(text, bool(times), running, _agent(deps), transcript)
    else:
        step = events.stop(text, bool(times), running)
    if times >= MAX_CONTINUES and deps.hooks.wants(step.event, step.subject):
        if times:
            yield Warned(f"{step.event} hooks continued this turn {times} times, which is the limit.")
        return None
    result = yield from fire(turn, step)
    if result.verdict != "deny" or result.stop is not None:
        return None
    turn.nudges["stop_hook"] = times + 1
    return f"<hook_feedback>\nA hook keeps you from stopping:\n{result.reason or 'Go on.'}\n</hook_feedback>"


def begin_subagent(deps: TurnDeps) -> Generator[Event, None, tuple[str, ...]]:
    """Run the SubagentStart hooks; return messages for the sub-agent. Raises CancelledError."""
    return (yield from fire_context(deps, events.subagent_start(_agent(deps))))


def begin_notification(turn: Turn, kind: str, message: str) -> None:
    """Run the Notification hooks in the background while the user is asked."""
    step = events.notification(kind, message)
    turn.deps.hooks.run_in_background(step.event, {**_base_payload(turn.deps, turn), **step.fields})


def after_compaction(turn: Turn, trigger: str, summary: str) -> Generator[Event, None, None]:
    """Run the PostCompact hooks. trigger: "manual" or "auto"."""
    # The compaction is done; the turn notices the interruption by itself.
    with suppress(CancelledError):
        yield from fire(turn, events.post_compact(trigger, summary))


def on_form(turn: Turn, step: AskHooks) -> Generator[Event, None, dict[str, Any] | None]:
    """Run the hooks on a form of a server, or on its answer; return theirs, None for none. Raises CancelledError."""
    if step.answer is None:
        found = yield from fire(turn, events.elicitation(step.server, step.form))
    else:
        found = yield from fire(turn, events.elicitation_result(step.server, step.form, step.answer))
    return {"action": "decline"} if found.refusal is not None else found.output


def after_denial(turn: Turn, item: PreparedCall, reason: str) -> Generator[Event, None, None]:
    """Run the PermissionDenied hooks on a call that was refused. Raises CancelledError."""
    yield from fire(turn, events.permission_denied(_hooked(item, tool_input(turn, item)), reason))


def after_move(turn: Turn, before: str) -> Generator[Event, None, None]:
    """Run the CwdChanged hooks, if a command changed the working directory. before: the earlier one."""
    now = str(turn.deps.context.workspace.cwd)
    if now != before:
        with suppress(CancelledError):  # the call itself is done
            yield from fire(turn, events.cwd_changed(before, now))


def after_failure(turn: Turn, result: TurnResult) -> Generator[Event, None, None]:
    """Run the StopFailure hooks of a turn that the model or its limits ended."""
    failure = result.failure if isinstance(result, Failed) else None
    cut = isinstance(result, LimitReached) and result.cap == "output"
    if failure is not None or cut:
        kind, message = (failure.kind, failure.message) if failure is not None else ("max_output_tokens", "")
        answers = (m.text for m in reversed(turn.history) if isinstance(m, AssistantMessage) and m.text)
        with suppress(CancelledError):
            yield from fire(turn, events.stop_failure(kind, message, next(answers, "")))


def after_batch(turn: Turn) -> Generator[Event, None, None]:
    """Run the PostToolBatch hooks on the calls of the last answer, which all have results. Raises CancelledError."""
    start = next((n for n in reversed(range(len(turn.history))) if isinstance(turn.history[n], AssistantMessage)), 0)
    answer, *rest = turn.history[start:]
    results = {m.call_id: m.text for m in rest if isinstance(m, ToolMessage)}
    cwd = turn.deps.context.workspace.cwd
    calls = []
    for call in answer.calls if isinstance(answer, AssistantMessage) else ():
        if call.id in results:
            given = absolute({**turn.deps.traits_of(call.name).hook_defaults, **call.arguments}, cwd)
            calls.append((HookedCall(call.name, call.id, given), results[call.id]))
    result = yield from fire(turn, events.post_tool_batch(calls))
    if (why := result.refusal) is not None:
        turn.stopped = result.stop or why or "it gave no reason"
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


def _hooked(item: PreparedCall, arguments: dict[str, Any]) -> HookedCall:
    return HookedCall(item.tool.name, item.call.id, arguments, item.effects)


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
        "toolsUsed": list(dict.fromkeys(map(events.common_tool, ended.calls))),
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


def context_messages(event: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the hooks' additions, each marked as a message that is not the user's."""
    return tuple(f'<hook_context event="{event}">\n{text}\n</hook_context>' for text in texts)

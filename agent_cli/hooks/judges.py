"""Hooks that a model judges: a condition with one request, or a sub-agent that looks into the project itself.

Both see what a command gets on standard input, and answer if the condition is met.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from time import monotonic

from agent_cli.config.prompts import prompt
from agent_cli.core.decisions import Answer, Approve, Reject, defer
from agent_cli.core.events import ApprovalRequested, UsageAdded
from agent_cli.core.hooks import NO_HOOKS, Hook
from agent_cli.core.messages import UserMessage
from agent_cli.core.results import Complete, Failed, Failure, Spent, Usage
from agent_cli.engine.conversation import consume
from agent_cli.engine.loop import run_turn
from agent_cli.engine.subagents import parent_environment
from agent_cli.engine.turn import TurnDeps
from agent_cli.engine.types import ChangeObserver, ConversationState, ModelHandle, ToolTable, TurnOptions
from agent_cli.hooks.handlers import HookRun, hook_deadline
from agent_cli.providers.base import ModelError, PlainAnswer, Request
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.results import TurnOverrides
from agent_tools.shell.state import ShellState

_ANSWER = 1_000
_PLACE = "$ARGUMENTS"
_ROUNDS = 50

Ask = Callable[[str, CancelToken, list[UsageAdded]], str]


def judge_prompt(hook: Hook, given: str, opened: Callable[[str], ModelHandle], cancel: CancelToken) -> HookRun:
    """Ask the model about the condition. Never raises. given: JSON, inserted at $ARGUMENTS or appended."""

    def ask(text: str, until: CancelToken, used: list[UsageAdded]) -> str:
        model = opened(hook.model)
        request = Request(model.model, prompt("hook"), (UserMessage(text),), max_tokens=_ANSWER, aside=True)
        answer = PlainAnswer()
        try:
            answer.read(model.transport.stream(request, until))
        finally:
            if answer.usage is not None:
                used.append(UsageAdded(model.label, model.price(answer.usage), aside=True))
        until.check()
        return answer.text

    return _judge(hook, given, ask, cancel)


def judge_agent(
    hook: Hook,
    given: str,
    opened: Callable[[str], ModelHandle],
    session: Callable[[], tuple[TurnDeps, TurnOptions]],
    transcript: str,
    cancel: CancelToken,
) -> HookRun:
    """Let a sub-agent that only reads find out if the condition is met. Never raises.

    session: what turns of the session run with. transcript: a file outside the workspace that it may read.
    """

    def ask(text: str, until: CancelToken, used: list[UsageAdded]) -> str:
        parent, options = session()
        model = opened(hook.model)
        context = parent.context.nested()
        context.cancel = until
        policy = parent.policy.for_subagent(context.workspace, context.state(ShellState).exported)
        context.run_conditions = policy.run_conditions
        tools = [tool for tool in parent.tools.values() if tool.parallel_safe and not tool.nested]

        def approve(request: ApprovalRequested) -> Answer:
            effects = request.effects
            if transcript and effects and all(e.kind == "read" and e.target == transcript for e in effects):
                return Approve(by="hook")
            return Reject("is not available to the check of a hook", by="hook")

        deps = parent.replace(
            transport=model.transport, price=model.price, tools=ToolTable(tools), context=context, policy=policy,
            state=ConversationState(), inbox=list, guards=(), fallbacks=(), approver=approve, asker=defer,
            attended=False, gates=None, watch=ChangeObserver(), hooks=NO_HOOKS, agents={}, agent="hook", depth=1,
            above=(),
        )  # fmt: skip
        options = model.options(options).replace(
            system=f"{prompt('hook')}\n{prompt('hook_agent')}\n{parent_environment(options.system)}",
            tools=tuple(spec for spec in options.tools if spec.name in deps.tools),
            limits=options.limits.replace(rounds=_ROUNDS), spent=Spent(), plan_review="off", after_turn="", saved={},
            prefill="", review="off", overrides=TurnOverrides(), suspended_state={},
        )  # fmt: skip
        total = Usage()

        def count(event: object) -> None:
            nonlocal total
            if isinstance(event, UsageAdded):
                total += event.usage

        try:
            result = consume(run_turn([UserMessage(text)], deps, options), count)
        finally:
            if total != Usage():
                used.append(UsageAdded(model.label, total, aside=True))
        until.check()
        if isinstance(result, Complete):
            return result.text
        failure = result.failure if isinstance(result, Failed) else None
        raise ModelError(failure or Failure("malformed", "The check did not come to an end."))

    return _judge(hook, given, ask, cancel)


def _judge(hook: Hook, given: str, ask: Ask, cancel: CancelToken) -> HookRun:
    """Put the condition to a model within the hook's time, and read its verdict."""
    started = monotonic()
    text = hook.command.replace(_PLACE, given) if _PLACE in hook.command else f"{hook.command}\n\n{given}"
    used: list[UsageAdded] = []
    try:
        with hook_deadline(hook.timeout, cancel) as until:
            code, said = read_hook_verdict(ask(text, until, used))
    except CancelledError:
        return HookRun(None, "interrupted" if cancel.cancelled else "time-out", monotonic() - started, used=tuple(used))
    except ModelError as error:
        why = f"got no answer: {error.failure.message}"
        return HookRun(None, "error", monotonic() - started, error=why, used=tuple(used))
    seconds = monotonic() - started
    if code is None:
        why = "did not get an answer with ok and a reason"
        return HookRun(None, "error", seconds, said.encode(), error=why, used=tuple(used))
    return HookRun(code, "exit", seconds, err=said.encode(), used=tuple(used))


def read_hook_verdict(text: str) -> tuple[int | None, str]:
    """Return the exit code that an answer stands for, and its reason; None with the text if it is invalid."""
    # Not by a regular expression: it would try a hundred thousand opening braces as a beginning each.
    start, end = text.find("{"), text.rfind("}") + 1
    try:
        data = json.loads(text[start:end]) if 0 <= start < end else None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or not isinstance(data.get("ok"), bool):
        return None, text
    return (0, "") if data["ok"] else (2, str(data.get("reason") or "the condition is not met"))

"""Hooks that are conditions: a model evaluates them, with one request or as a sub-agent that can read the project."""

from __future__ import annotations

from collections.abc import Callable

from agent_cli.config.prompts import prompt
from agent_cli.hooks import NO_HOOKS, Hook
from agent_cli.kernel.decisions import Answer, Approve, Reject, defer
from agent_cli.kernel.engine.conversation import consume
from agent_cli.kernel.engine.environment import environment_of
from agent_cli.kernel.engine.loop import run_turn
from agent_cli.kernel.engine.turn import TurnDeps
from agent_cli.kernel.engine.types import ChangeObserver, ConversationState, ModelHandle, ToolTable, TurnOptions
from agent_cli.kernel.events import ApprovalRequested, UsageAdded
from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.results import Complete, Failed, Failure, Spent, Usage
from agent_cli.models.base import ModelError, Request, TextCollector
from agent_tools.base import ToolError
from agent_tools.cancel import CancelToken
from agent_tools.results import TurnOverrides

_MAX_ANSWER_TOKENS = 1_000
_MAX_ROUNDS = 50


def evaluate_condition(
    open_model: Callable[[str], ModelHandle],
    live: ConversationState | None,
    transcript: str,
    hook: Hook,
    text: str,
    cancel: CancelToken,
    used: list[UsageAdded],
) -> str:
    """Ask the hook's model about its condition; return its answer. Raises ToolError, CancelledError.

    live: the conversation, whose tools a sub-agent uses.
    transcript: a file outside the workspace that the sub-agent may read.
    used: collects what it costs.
    """
    try:
        model = open_model(hook.model)
        if hook.kind == "prompt":
            answer = _ask(model, text, cancel, used)
        elif live is None or live.running is None:
            raise ToolError("There is no session to look into.")
        else:
            answer = _ask_agent(model, text, cancel, used, *live.running, transcript)
    except ModelError as error:
        raise ToolError(error.failure.message) from None
    cancel.check()
    return answer


def _ask(model: ModelHandle, text: str, cancel: CancelToken, used: list[UsageAdded]) -> str:
    request = Request(model.model, prompt("hook"), (UserMessage(text),), max_tokens=_MAX_ANSWER_TOKENS, aside=True)
    answer = TextCollector()
    try:
        answer.read(model.client.stream(request, cancel))
    finally:
        if answer.usage is not None:
            used.append(UsageAdded(model.label, model.price(answer.usage), aside=True))
    return answer.text


def _ask_agent(
    model: ModelHandle,
    text: str,
    cancel: CancelToken,
    used: list[UsageAdded],
    parent: TurnDeps,
    options: TurnOptions,
    transcript: str,
) -> str:
    """Let a read-only sub-agent find out whether the condition is met."""
    tools = [tool for tool in parent.tools.values() if tool.parallel_safe and not tool.nested]

    def approve(request: ApprovalRequested) -> Answer:
        effects = request.effects
        if transcript and effects and all(e.kind == "read" and e.target == transcript for e in effects):
            return Approve(by="hook")
        return Reject("is not available to the check of a hook", by="hook")

    deps = parent.nested(
        client=model.client, price=model.price, tools=ToolTable(tools), state=ConversationState(),
        approver=approve, asker=defer, attended=False, gates=None, watch=ChangeObserver(),
        hooks=NO_HOOKS, agents={}, agent="hook", depth=1, above=(),
    )  # fmt: skip
    deps.context.cancel = cancel
    options = model.options(options).replace(
        system=f"{prompt('hook')}\n{prompt('hook_agent')}\n{environment_of(options.system)}",
        tools=tuple(spec for spec in options.tools if spec.name in deps.tools),
        limits=options.limits.replace(rounds=_MAX_ROUNDS), spent=Spent(), plan_review="off", after_turn="",
        saved={}, review="off", overrides=TurnOverrides(), suspended_state={},
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
    if isinstance(result, Complete):
        return result.text
    cancel.check()
    failure = result.failure if isinstance(result, Failed) else None
    raise ModelError(failure or Failure("malformed", "The check did not come to an end."))

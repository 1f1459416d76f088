"""A hook that is a condition in words: a model is shown what a command is given, and says whether the condition is met.

Where it is not, that is what exit code 2 is for a command, with the model's reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Timer
from time import monotonic

from agent_cli.config.prompts import prompt
from agent_cli.core.events import UsageAdded
from agent_cli.core.hooks import Hook
from agent_cli.core.messages import UserMessage
from agent_cli.engine.turn import Opened
from agent_cli.extensions.hooks.process import HookRun
from agent_cli.model.transport import ModelError, PlainAnswer, Request
from agent_tools.cancel import CancelledError, CancelToken

_ANSWER = 1_000
_PLACE = "$ARGUMENTS"


def judge_prompt(hook: Hook, given: str, opened: Callable[[str], Opened], cancel: CancelToken) -> HookRun:
    """Ask the model. Nothing is raised. given: JSON, which stands where the condition says $ARGUMENTS, or behind it."""
    started = monotonic()
    until = CancelToken()
    forget = cancel.on_cancel(until.cancel)
    timer = Timer(hook.timeout, until.cancel)
    timer.daemon = True
    timer.start()
    used: list[UsageAdded] = []
    try:
        code, text = read_hook_verdict(_answer(hook, given, opened(hook.model), until, used))
    except CancelledError:
        return HookRun(None, "interrupted" if cancel.cancelled else "time-out", monotonic() - started, used=tuple(used))
    except ModelError as error:
        why = f"got no answer: {error.failure.message}"
        return HookRun(None, "error", monotonic() - started, error=why, used=tuple(used))
    finally:
        timer.cancel()
        forget()
    seconds = monotonic() - started
    if code is None:
        why = "was not answered with ok and a reason"
        return HookRun(None, "error", seconds, text.encode(), error=why, used=tuple(used))
    return HookRun(code, "exit", seconds, err=text.encode(), used=tuple(used))


def _answer(hook: Hook, given: str, model: Opened, cancel: CancelToken, used: list[UsageAdded]) -> str:
    text = hook.command.replace(_PLACE, given) if _PLACE in hook.command else f"{hook.command}\n\n{given}"
    request = Request(model.model, prompt("hook"), (UserMessage(text),), max_tokens=_ANSWER, aside=True)
    answer = PlainAnswer()
    try:
        answer.read(model.transport.stream(request, cancel))
    finally:
        if answer.usage is not None:
            used.append(UsageAdded(model.label, model.price(answer.usage), aside=True))
    cancel.check()
    return answer.text


def read_hook_verdict(text: str) -> tuple[int | None, str]:
    """The exit code that an answer stands for, and its reason; None with the answer where it is none."""
    # Not by a pattern, which takes a hundred thousand opening braces for as many beginnings.
    start, end = text.find("{"), text.rfind("}") + 1
    try:
        data = json.loads(text[start:end]) if 0 <= start < end else None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or not isinstance(data.get("ok"), bool):
        return None, text
    return (0, "") if data["ok"] else (2, str(data.get("reason") or "the condition is not met"))

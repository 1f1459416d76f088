"""Run one hook: a command, a web server, or a condition.

A command gets its input in an unlinked file, its two outputs are captured separately and bounded, and its process group
is ended as a whole. A web server gets the same input as a POST and answers with what a command would print. A condition
in natural language is evaluated by a model, which sees the same input and says if the condition is met.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import Literal

from agent_cli.config.prompts import prompt
from agent_cli.core.events import UsageAdded
from agent_cli.core.hooks import Hook
from agent_cli.core.messages import UserMessage
from agent_cli.engine.types import ModelHandle
from agent_cli.providers.base import ModelError, PlainAnswer, Request
from agent_tools.base import ToolError
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.net.urls import split_url
from agent_tools.net.web_client import WebClient, WebLimits
from agent_tools.record import Value
from agent_tools.shell.process import RunningProcess

MOST = 1 << 20
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")


class HookRun(Value):
    """The run of a hook.

    code: exit code; None if there is none.
    cause: how it ended.
    error: why there is no answer; "" if there is one.
    used: usage of models that it asked.
    """

    code: int | None
    cause: Literal["exit", "time-out", "interrupted", "error"]
    seconds: float
    out: bytes = b""
    err: bytes = b""
    error: str = ""
    used: tuple[UsageAdded, ...] = ()


def shell_argv(command: str) -> list[str]:
    """Return the argv for a command line: bash without start-up files, or sh."""
    shell = next((s for s in _SHELLS if os.access(s, os.X_OK)), "sh")
    return [shell, *(["--noprofile", "--norc"] if shell.endswith("bash") else []), "-c", command]


def run_hook(
    argv: list[str], given: bytes, cwd: Path, env: dict[str, str], seconds: float, cancel: CancelToken
) -> HookRun:
    """Run a command until it ends, times out or is cancelled. Never raises; processes it left behind may continue."""
    started = monotonic()
    out, err = _BoundedBuffer(), _BoundedBuffer()
    try:
        with tempfile.TemporaryFile() as file:
            file.write(given)
            file.seek(0)
            running = RunningProcess(argv, cwd, env, out.feed, stdin=file.fileno(), feed_errors=err.feed)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return HookRun(None, "error", monotonic() - started, error=f"could not be started: {why}")
    forget = cancel.on_cancel(running.wake)
    try:
        while (cause := running.step(started + seconds, cancel.cancelled)) is None:
            pass
        running.drain()
        code = running.process.wait()
        return HookRun(
            code if cause == "exit" else None, cause, monotonic() - started, bytes(out.data), bytes(err.data)
        )
    finally:
        forget()
        if running.process.returncode is None:
            running.end()
        running.close()


class _BoundedBuffer:
    """The first bytes of an output; the rest is read and dropped."""

    def __init__(self) -> None:
        self.data = bytearray()

    def feed(self, data: bytes) -> None:
        self.data += data[: MOST - len(self.data)]


_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def post(hook: Hook, given: bytes, env: Mapping[str, str], cancel: CancelToken) -> HookRun:
    """Send the hook's input to its server. Never raises. env: source of the variables that its headers use."""
    started = monotonic()
    headers = {name: with_variables(value, hook.variables, env) for name, value in hook.headers.items()}
    limits = WebLimits(max_bytes=MOST, timeout=hook.timeout)
    try:
        # The user named the server, so it may be on this machine.
        answer = WebClient(limits, env, None, cancel).send(
            split_url(hook.command), {**headers, "Content-Type": "application/json"}, given
        )
    except CancelledError:
        return HookRun(None, "interrupted", monotonic() - started)
    except ToolError as error:
        return HookRun(None, "error", monotonic() - started, error=f"got no answer: {error}")
    seconds = monotonic() - started
    if answer.cut or not 200 <= answer.status < 300:
        why = answer.cut or f"was answered with status {answer.status}"
        return HookRun(None, "error", seconds, answer.body, error=why)
    return HookRun(0, "exit", seconds, answer.body)


def with_variables(text: str, allowed: tuple[str, ...], env: Mapping[str, str]) -> str:
    """Return a header with the variables that the hook lists; all others are empty, so that none leaks unnoticed."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return env.get(name, "") if name in allowed else ""

    return _VARIABLE.sub(value, text)


_ANSWER = 1_000
_PLACE = "$ARGUMENTS"


def judge_prompt(hook: Hook, given: str, opened: Callable[[str], ModelHandle], cancel: CancelToken) -> HookRun:
    """Ask the model about the condition. Never raises. given: JSON, inserted at $ARGUMENTS or appended."""
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
        why = "did not get an answer with ok and a reason"
        return HookRun(None, "error", seconds, text.encode(), error=why, used=tuple(used))
    return HookRun(code, "exit", seconds, err=text.encode(), used=tuple(used))


def _answer(hook: Hook, given: str, model: ModelHandle, cancel: CancelToken, used: list[UsageAdded]) -> str:
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

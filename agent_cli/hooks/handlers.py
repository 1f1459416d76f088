"""One hook's process: its input in a nameless file, its two outputs kept apart and bounded, its group ended whole.

A hook that is a web server: it is sent as a POST what a command is given, and its answer is what one prints.
A hook that is a condition in words: a model is shown what a command is given, and says whether the condition is met.
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
    """What came of a hook. code: None where there is none. error: how it came to no answer, with that cause.

    used: what models were asked for it."""

    code: int | None
    cause: Literal["exit", "time-out", "interrupted", "error"]
    seconds: float
    out: bytes = b""
    err: bytes = b""
    error: str = ""
    used: tuple[UsageAdded, ...] = ()


def shell_argv(command: str) -> list[str]:
    """A command line for the shell that hooks run in: bash without start-up files, or sh."""
    shell = next((s for s in _SHELLS if os.access(s, os.X_OK)), "sh")
    return [shell, *(["--noprofile", "--norc"] if shell.endswith("bash") else []), "-c", command]


def run_hook(
    argv: list[str], given: bytes, cwd: Path, env: dict[str, str], seconds: float, cancel: CancelToken
) -> HookRun:
    """Run a command to its end, its time, or the cancellation. Nothing is raised; what it left behind may go on."""
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
    """Ask the server. Nothing is raised. env: where its headers take variables from, if the hook names them."""
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
    """A header with the variables that the hook names; all others are empty, so that none leaves unnoticed."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return env.get(name, "") if name in allowed else ""

    return _VARIABLE.sub(value, text)


_ANSWER = 1_000
_PLACE = "$ARGUMENTS"


def judge_prompt(hook: Hook, given: str, opened: Callable[[str], ModelHandle], cancel: CancelToken) -> HookRun:
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

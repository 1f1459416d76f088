"""Run one hook: a command, a web server, or a tool of an MCP server. `answers` interprets what it printed.

A command reads its input from an unlinked file; its two outputs are captured separately, up to a limit, and its whole
process group is ended. A web server gets the same input in a POST request and responds with what a command would print.
So does a tool, which gets the arguments of the hook.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import Any, Literal

from agent_cli.core.events import UsageAdded
from agent_cli.core.hooks import Hook
from agent_cli.hooks.matching import CallServerTool
from agent_tools.base import ToolError
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.net.urls import split_url
from agent_tools.net.web_client import WebClient, WebLimits
from agent_tools.record import Value
from agent_tools.shell.process import RunningProcess

MAX_OUTPUT_BYTES = 1 << 20
_MAX_ASYNC_LINE_BYTES = 1_000
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")


class HookRun(Value):
    """The run of a hook.

    code: exit code; None if there is none.
    cause: how it ended.
    error: why there is no answer; "" if there is one.
    used: the usage of its model calls.
    """

    code: int | None
    cause: Literal["exit", "time-out", "interrupted", "error"]
    seconds: float
    out: bytes = b""
    err: bytes = b""
    error: str = ""
    used: tuple[UsageAdded, ...] = ()


def shell_argv(command: str, shell: str = "") -> list[str]:
    """Return the argv for a command line: the shell that is named, else bash without start-up files, or sh."""
    if shell in ("powershell", "pwsh"):
        # The older program is there on Windows only.
        return [shutil.which("pwsh") or shell, "-NoProfile", "-NonInteractive", "-Command", command]
    if shell not in ("", "bash"):
        return [shell, "-c", command]
    found = next((s for s in _SHELLS if os.access(s, os.X_OK)), "sh")
    return [found, *(["--noprofile", "--norc"] if found.endswith("bash") else []), "-c", command]


def hook_folder(hook: Hook, root: Path, cwd: Path, env: Mapping[str, str]) -> Path:
    """Return the folder that a command runs in. env: its variables, which the name of a folder may use.

    Raises ToolError if it does not exist.
    """
    if not hook.cwd:
        return cwd
    text = _VARIABLE.sub(lambda found: env.get(found[1] or found[2], ""), hook.cwd)
    folder = root / os.path.expanduser(text)
    if not os.path.isdir(folder):  # noqa: PTH112 - the method raises where a parent is closed
        raise ToolError(f"could not be started: there is no folder {folder}")
    return folder


def run_hook(
    argv: list[str],
    given: bytes,
    cwd: Path,
    env: dict[str, str],
    seconds: float,
    cancel: CancelToken,
    detach: Callable[[Callable[[CancelToken], None]], None] | None = None,
) -> HookRun:
    """Run a command until it ends, times out or is cancelled. Never raises; processes it left behind may continue.

    detach: runs the rest of a command in the background, if its first line is `{"async": true}`.
    """
    started = monotonic()
    out, err = _BoundedBuffer(), _BoundedBuffer()
    try:
        with tempfile.TemporaryFile() as file:
            file.write(given)
            file.seek(0)
            running = RunningProcess(argv, cwd, env, out.feed, stdin=file.fileno(), feed_errors=err.feed)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return HookRun(None, "error", monotonic() - started, error=f"could not be started: {argv[0]}: {why}")
    forget = cancel.on_cancel(running.wake)
    detached = False
    try:
        while (cause := running.step(started + seconds, cancel.cancelled)) is None:
            if detach is not None and (more := _async_seconds(out.data, seconds)):
                detached = True
                detach(lambda stop: _finish(running, monotonic() + more, stop))
                return HookRun(0, "exit", monotonic() - started, b"", bytes(err.data))
        running.drain()
        code = running.process.wait()
        return HookRun(
            code if cause == "exit" else None, cause, monotonic() - started, bytes(out.data), bytes(err.data)
        )
    finally:
        forget()
        if not detached:
            _end_process(running)


def _finish(running: RunningProcess, until: float, stop: CancelToken) -> None:
    """Wait for a command in the background; end it at `until`, in seconds of `monotonic`."""
    forget = stop.on_cancel(running.wake)
    try:
        while running.step(until, stop.cancelled) is None:
            pass
    finally:
        forget()
        _end_process(running)


def _end_process(running: RunningProcess) -> None:
    if running.process.returncode is None:
        running.end()
    running.close()


def _async_seconds(out: bytes | bytearray, usual: float) -> float:
    """Return how long a command may run in the background if its first line asks for that; else 0."""
    line, end, _ = bytes(out[:_MAX_ASYNC_LINE_BYTES]).partition(b"\n")
    if not end or b'"async"' not in line:
        return 0.0
    try:
        asked = json.loads(line)
    except ValueError:
        return 0.0
    if not isinstance(asked, dict) or asked.get("async") is not True:
        return 0.0
    limit = asked.get("asyncTimeout")
    return limit / 1000 if isinstance(limit, int | float) and limit > 0 else usual


class _BoundedBuffer:
    """The first bytes of an output; the rest is dropped."""

    def __init__(self) -> None:
        self.data = bytearray()

    def feed(self, data: bytes) -> None:
        self.data += data[: MAX_OUTPUT_BYTES - len(self.data)]


_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def post_to_server(hook: Hook, given: bytes, env: Mapping[str, str], cancel: CancelToken) -> HookRun:
    """Send the hook's input to its server. Never raises. env: source of the variables that its headers use."""
    started = monotonic()
    headers = {name: fill_header(value, hook.variables, env) for name, value in hook.headers.items()}
    limits = WebLimits(max_bytes=MAX_OUTPUT_BYTES, timeout=hook.timeout)
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


def fill_header(text: str, allowed: tuple[str, ...], env: Mapping[str, str]) -> str:
    """Return a header with the variables that the hook lists; all others become empty, so that none leaks."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return env.get(name, "") if name in allowed else ""

    return _VARIABLE.sub(value, text)


@contextmanager
def hook_deadline(seconds: float, cancel: CancelToken) -> Iterator[CancelToken]:
    """Provide a token that is cancelled after this time, or when `cancel` is."""
    until = CancelToken()
    forget = cancel.on_cancel(until.cancel)
    timer = Timer(seconds, until.cancel)
    timer.daemon = True
    timer.start()
    try:
        yield until
    finally:
        timer.cancel()
        forget()


_FIELD = re.compile(r"\$\{([\w.-]+)\}")


def call_server_tool(hook: Hook, given: Mapping[str, Any], call: CallServerTool, cancel: CancelToken) -> HookRun:
    """Call the hook's tool of an MCP server; its text counts as the output of a command. Never raises."""
    started = monotonic()
    try:
        with hook_deadline(hook.timeout, cancel) as until:
            text = call(hook.server, hook.tool, fill_fields(hook.input, given), until)
    except CancelledError:
        return HookRun(None, "interrupted" if cancel.cancelled else "time-out", monotonic() - started)
    except ToolError as error:
        return HookRun(None, "error", monotonic() - started, error=f"got no answer: {error}")
    return HookRun(0, "exit", monotonic() - started, text.encode("utf-8", "replace"))


def fill_fields(template: Any, given: Mapping[str, Any]) -> Any:
    """Return the arguments with each `${field.inner}` replaced by that value of the hook's input, or "" if it has none.

    A string that consists of one placeholder becomes the value itself, such as a number or an object.
    """
    if isinstance(template, dict):
        return {name: fill_fields(value, given) for name, value in template.items()}
    if isinstance(template, list | tuple):
        return [fill_fields(value, given) for value in template]
    if not isinstance(template, str):
        return template

    def value(path: str) -> Any:
        found: Any = given
        for part in path.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        return "" if found is None else found

    if whole := _FIELD.fullmatch(template):
        return value(whole[1])

    def words(match: re.Match[str]) -> str:
        found = value(match[1])
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=str)

    return _FIELD.sub(words, template)

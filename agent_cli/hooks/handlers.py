"""Run one hook: a command, a web server, a tool of an MCP server, a condition that a model evaluates, or a function.

Each kind is one row of `_KINDS`: a function that gets the hook and its input, and returns a `HookRun`, whatever
happens. `answers` interprets what was printed.

A command reads its input from an unlinked file; its two outputs are captured separately, up to a limit, and its whole
process group is ended. A web server gets the same input in a POST request and responds with what a command would print.
So does a tool, which gets the arguments of the hook. A condition is evaluated with one request, or by a sub-agent that
can read the project.
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
from queue import Empty, SimpleQueue
from threading import Thread, Timer
from time import monotonic
from typing import Any

from agent_cli.hooks.answers import MAX_OUTPUT_BYTES, HookRun, read_hook_verdict
from agent_cli.hooks.declaration import AnyHook, Hook, HookSurroundings, PythonHook
from agent_cli.kernel.events import UsageAdded
from agent_tools.base import ToolError
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.net.urls import split_url
from agent_tools.net.web_client import WebClient, WebLimits
from agent_tools.record import Value
from agent_tools.shell.process import RunningProcess
from agent_tools.text import shorten

_MAX_ASYNC_LINE_BYTES = 1_000
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")
_PLACEHOLDER = "$ARGUMENTS"


class HookInput(Value):
    """What a hook is run with.

    payload: what it reads.
    env: its environment variables.
    detach: runs the rest of a command in the background, if its first line is `{"async": true}`.
    used: collects the usage of its model calls.
    """

    payload: Mapping[str, Any]
    env: dict[str, str]
    around: HookSurroundings
    cancel: CancelToken
    detach: Callable[[Callable[[CancelToken], None]], None]
    used: list[UsageAdded]

    @property
    def text(self) -> str:
        """The payload as JSON."""
        return json.dumps(self.payload, ensure_ascii=False, default=str)

    @property
    def data(self) -> bytes:
        return self.text.encode("utf-8", "replace")


def run_handler(hook: AnyHook, given: HookInput) -> HookRun:
    """Run a hook until it ends, times out or is cancelled. Never raises."""
    started = monotonic()
    try:
        if hook.unusable:
            ran = HookRun(None, "error", error=f"cannot run: {hook.unusable}")
        elif isinstance(hook, PythonHook):
            ran = _call_function(hook, given)
        else:
            ran = _KINDS[hook.kind](hook, given)
    except CancelledError:
        ran = HookRun(None, "interrupted" if given.cancel.cancelled else "time-out")
    except ToolError as error:
        ran = HookRun(None, "error", error=f"got no answer: {error}")
    return ran.replace(seconds=monotonic() - started, used=tuple(given.used))


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


def _run_command(hook: Hook, given: HookInput) -> HookRun:
    """Run a command; processes that it left behind may continue."""
    around, cancel = given.around, given.cancel
    argv = [hook.command, *hook.args] if hook.args else shell_argv(hook.command, hook.shell)
    out, err = _BoundedBuffer(), _BoundedBuffer()
    started = monotonic()
    try:
        folder = hook_folder(hook, around.session.root, around.cwd(), given.env)
    except ToolError as error:
        return HookRun(None, "error", error=str(error))
    try:
        with tempfile.TemporaryFile() as file:
            file.write(given.data)
            file.seek(0)
            running = RunningProcess(argv, folder, given.env, out.feed, stdin=file.fileno(), feed_errors=err.feed)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return HookRun(None, "error", error=f"could not be started: {argv[0]}: {why}")
    forget = cancel.on_cancel(running.wake)
    detached = False
    try:
        while (cause := running.step(started + hook.timeout, cancel.cancelled)) is None:
            if more := _async_seconds(out.data, hook.timeout):
                detached = True
                given.detach(lambda stop: _finish(running, monotonic() + more, stop))
                return HookRun(0, "exit", err=bytes(err.data))
        running.drain()
        code = running.process.wait()
        return HookRun(code if cause == "exit" else None, cause, out=bytes(out.data), err=bytes(err.data))
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


def _post_to_server(hook: Hook, given: HookInput) -> HookRun:
    """Send the hook's input to its server. The environment is the source of the variables that its headers use."""
    headers = {name: fill_header(value, hook.variables, given.env) for name, value in hook.headers.items()}
    limits = WebLimits(max_bytes=MAX_OUTPUT_BYTES, timeout=hook.timeout)
    # The user named the server, so it may be on this machine.
    answer = WebClient(limits, given.env, None, given.cancel).send(
        split_url(hook.command), {**headers, "Content-Type": "application/json"}, given.data
    )
    if answer.cut or not 200 <= answer.status < 300:
        why = answer.cut or f"was answered with status {answer.status}"
        return HookRun(None, "error", out=answer.body, error=why)
    return HookRun(0, "exit", out=answer.body)


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


def _call_server_tool(hook: Hook, given: HookInput) -> HookRun:
    """Call the hook's tool of an MCP server; its text counts as the output of a command."""
    with hook_deadline(hook.timeout, given.cancel) as until:
        arguments = fill_fields(hook.input, given.payload)
        text = given.around.call_tool(hook.server, hook.tool, arguments, until)
    return HookRun(0, "exit", out=text.encode("utf-8", "replace"))


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


def _evaluate(hook: Hook, given: HookInput) -> HookRun:
    """Ask a model about the condition, and read its verdict. The input is at $ARGUMENTS, or at the end."""
    data = given.data.decode("utf-8")
    text = hook.command.replace(_PLACEHOLDER, data) if _PLACEHOLDER in hook.command else f"{hook.command}\n\n{data}"
    with hook_deadline(hook.timeout, given.cancel) as until:
        code, answer = read_hook_verdict(given.around.evaluate(hook, text, until, given.used))
    if code is None:
        return HookRun(None, "error", out=answer.encode(), error="did not get an answer with ok and a reason")
    return HookRun(code, "exit", err=answer.encode())


_KINDS: dict[str, Callable[[Hook, HookInput], HookRun]] = {
    "command": _run_command,
    "http": _post_to_server,
    "mcp_tool": _call_server_tool,
    "prompt": _evaluate,
    "agent": _evaluate,
}


def _call_function(hook: PythonHook, given: HookInput) -> HookRun:
    """Call a Python hook; an exception counts as its failure."""
    data = json.loads(given.text)
    try:
        returned = _call_with_timeout(hook, data, given.cancel) if hook.timeout else hook.call(data)
        if returned is not None and not isinstance(returned, Mapping):
            raise TypeError(f"it returned {type(returned).__name__}, neither a dict nor None")
    except CancelledError:
        return HookRun(None, "interrupted")
    except _HookTimeoutError:
        return HookRun(None, "time-out")
    except Exception as error:  # noqa: BLE001 - a faulty hook must cost its answer, not the turn
        return HookRun(None, "error", error=f"failed: {shorten(f'{type(error).__name__}: {error}', 300)}")
    return HookRun(0, "exit", returned=returned or {})


class _HookTimeoutError(Exception):
    """A Python hook has not answered within its time limit."""


def _call_with_timeout(hook: PythonHook, given: dict[str, Any], cancel: CancelToken) -> Any:
    """Return a hook's answer within its time limit. Raises CancelledError, _HookTimeoutError, and its errors."""
    steps: SimpleQueue[tuple[str, Any]] = SimpleQueue()

    def work() -> None:
        try:
            steps.put(("returned", hook.call(given)))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            steps.put(("raised", error))

    cancel.check()
    Thread(target=work, name="hook", daemon=True).start()
    forget = cancel.on_cancel(lambda: steps.put(("cancel", None)))
    try:
        kind, found = steps.get(timeout=hook.timeout)
    except Empty:
        kind, found = "late", None
    finally:
        forget()
    if kind == "returned":
        return found
    if kind == "raised":
        raise found
    if hook.cancelled is not None:
        hook.cancelled(given)
    raise CancelledError if kind == "cancel" else _HookTimeoutError

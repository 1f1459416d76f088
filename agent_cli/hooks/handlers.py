"""Run one hook (a command, a web server, a tool of an MCP server) and interpret its answer by Claude Code's contract.

A command reads its input from an unlinked file; its two outputs are captured separately, up to a limit, and its whole
process group is ended. A web server gets the same input in a POST request and responds with what a command would print.
So does a tool, which gets the arguments of the hook.

exit 0: standard output is the answer, as JSON, or as plain text if the event adds it to the context. exit 2: blocks,
with standard error as the reason. Everything else is a failure of the hook, which blocks nothing unless it is strict.
An answer is read strictly if it allows and leniently if it blocks: a block counts, whatever else is wrong with it.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import Any, Literal

from agent_cli.core.events import UsageAdded
from agent_cli.core.hooks import HOOK_EVENTS, Hook, HookEvent, HookResult, HookVerdict
from agent_cli.hooks.matching import CallServerTool
from agent_tools.base import ToolError
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.net.urls import split_url
from agent_tools.net.web_client import WebClient, WebLimits
from agent_tools.record import Value
from agent_tools.shell.process import RunningProcess
from agent_tools.text import sanitize_output, shorten

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


def shell_argv(command: str) -> list[str]:
    """Return the argv for a command line: bash without start-up files, or sh."""
    shell = next((s for s in _SHELLS if os.access(s, os.X_OK)), "sh")
    return [shell, *(["--noprofile", "--norc"] if shell.endswith("bash") else []), "-c", command]


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
        return HookRun(None, "error", monotonic() - started, error=f"could not be started: {why}")
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


_MAX_TEXT_CHARS = 10_000
# The second name is older, and only for tools of MCP servers.
_OUTPUTS = ("updatedToolOutput", "updatedMCPToolOutput")
_VERDICTS: dict[str, HookVerdict] = {
    "allow": "allow", "approve": "allow", "deny": "deny", "block": "deny", "ask": "ask", "defer": "defer",
}  # fmt: skip


class HookResponse(Value):
    """The answer of one hook.

    error: what was wrong with it, for the user; "" for nothing.
    message: the hook's message for the user.
    quiet: do not show its output.
    mistaken_block: it failed with exit code 1, which many mistake for a block.
    """

    result: HookResult = HookResult()
    error: str = ""
    message: str = ""
    quiet: bool = False
    mistaken_block: bool = False


def read_answer(event: HookEvent, ran: HookRun, *, strict: bool) -> HookResponse:
    """Interpret the run of a hook."""
    err = _decode(ran.err)
    if ran.cause == "error":
        return _failed(event, ran.error, "", strict)
    if ran.cause == "time-out":
        return _failed(event, f"was ended after {ran.seconds:.3g} s", err, strict)
    if ran.code == 2:
        return _blocked(event, err or _reason_in(ran.out) or "it gave no reason")
    if ran.code:
        how = f"was ended by signal {-ran.code}" if ran.code < 0 else f"exited with {ran.code}"
        answer = _failed(event, how, err, strict)
        return answer.replace(mistaken_block=ran.code == 1 and not strict and HOOK_EVENTS[event].blocks)
    if len(ran.out) >= MAX_OUTPUT_BYTES:
        return _failed(event, f"printed more than {MAX_OUTPUT_BYTES:,} bytes", "", strict)
    return read_output(event, ran.out.decode("utf-8", "replace"), strict=strict)


def read_output(event: HookEvent, text: str, *, strict: bool) -> HookResponse:
    """Interpret standard output after exit code 0."""
    text = text.strip()
    if not text.startswith("{"):
        texts = (clip_hook_text(sanitize_output(text)),) if text and HOOK_EVENTS[event].plain_text else ()
        return HookResponse(HookResult(context=texts))
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return _failed(event, "printed invalid JSON", "", strict)
    return read_object(event, data, strict=strict)


def read_object(event: HookEvent, data: Mapping[str, Any], *, strict: bool) -> HookResponse:
    """Interpret an answer given as an object."""
    found = _AnswerReader(event, data)
    result = found.result()
    message, quiet = found.text(data, "systemMessage"), found.flag(data, "suppressOutput", False)
    if found.wrong and strict and result.verdict != "deny" and HOOK_EVENTS[event].blocks:
        result = result.replace(verdict="deny", reason=f"its answer cannot be read: {found.wrong[0]}")
    elif found.wrong and result.verdict == "allow":
        result = result.replace(verdict="", reason="", updates=())
    error = f"its answer cannot be read: {'; '.join(found.wrong)}" if found.wrong else ""
    return HookResponse(result, error, message, quiet)


class _AnswerReader:
    """Reads an answer. wrong: a phrase for each part that is invalid."""

    def __init__(self, event: HookEvent, data: Mapping[str, Any]) -> None:
        self.row = HOOK_EVENTS[event]
        self.data = data
        self.wrong: list[str] = []
        inner = data.get("hookSpecificOutput")
        if inner is not None and not isinstance(inner, dict):
            self.wrong.append("hookSpecificOutput is not an object")
        self.inner: dict[str, Any] = inner if isinstance(inner, dict) else {}
        named = self.inner.get("hookEventName", event)
        if named != event:
            self.wrong.append(f"hookEventName is {shorten(str(named), 40)}, not {event}")

    def result(self) -> HookResult:
        verdict, reason = self._verdict()
        changed = self._changed()
        context = self.text(self.inner, "additionalContext")
        stop = None
        if not self.flag(self.data, "continue", True):
            stop = self.text(self.data, "stopReason") or "a hook ended the turn"
        if verdict == "deny" and self._decision().get("interrupt") is True:
            stop = reason or "a hook ended the turn"
        return HookResult(
            verdict,
            reason,
            changed,
            self._output() if self.row.changes_output else None,
            (clip_hook_text(context),) if context and self.row.adds_context else (),
            stop,
            self._updates() if verdict == "allow" else (),
        )

    def _updates(self) -> tuple[dict[str, Any], ...]:
        found = self._decision().get("updatedPermissions") or []
        if isinstance(found, list) and all(isinstance(update, dict) for update in found):
            return tuple(found)
        self.wrong.append("updatedPermissions is not a list of updates")
        return ()

    def _output(self) -> Any:
        return next((self.inner[k] for k in _OUTPUTS if self.inner.get(k) is not None), None)

    def _decision(self) -> dict[str, Any]:
        """Return the object with the behavior, for events whose answers have one."""
        found = self.inner.get("decision") if self.row.verdict_key == "behavior" else None
        return found if isinstance(found, dict) else {}

    def _verdict(self) -> tuple[HookVerdict, str]:
        key = self.row.verdict_key
        if key == "behavior":
            if self.inner.get("decision") is not None and not self._decision():
                self.wrong.append("decision is not an object")
            word, reason = self._decision().get("behavior"), self.text(self._decision(), "message")
            if word is None and self.data.get("decision") in ("block", "deny"):
                # The key is in the wrong place, but the intention is clear.
                word, reason = "deny", self.text(self.data, "reason")
        elif key == "permissionDecision":
            word = self.inner.get("permissionDecision", self.data.get("decision"))
            reason = self.text(self.inner, "permissionDecisionReason") or self.text(self.data, "reason")
        else:
            word, reason = self.data.get("decision"), self.text(self.data, "reason")
        if word is None:
            return "", ""
        verdict = _VERDICTS.get(word, "") if isinstance(word, str) else ""
        if verdict in self.row.verdicts:
            return verdict, clip_hook_text(reason)
        if not verdict or key != "decision":
            self.wrong.append(f"the decision {shorten(str(word), 40)!r} is unknown")
        elif verdict != "allow":
            self.wrong.append(f"{self.row.name} does not accept the decision {shorten(str(word), 40)!r}")
        return "", ""

    def _changed(self) -> dict[str, Any] | None:
        where = self._decision() if self.row.verdict_key == "behavior" else self.inner
        changed = where.get("updatedInput")
        if changed is None or not self.row.changes_input:
            return None
        if not isinstance(changed, dict):
            self.wrong.append("updatedInput is not an object")
            return None
        return changed

    def text(self, where: Mapping[str, Any], key: str) -> str:
        found = where.get(key)
        if found is None:
            return ""
        if not isinstance(found, str):
            self.wrong.append(f"{key} is not text")
            return ""
        return sanitize_output(found).strip()

    def flag(self, where: Mapping[str, Any], key: str, default: bool) -> bool:
        found = where.get(key)
        if found is None:
            return default
        if not isinstance(found, bool):
            self.wrong.append(f"{key} is not true or false")
            return default
        return found


def _blocked(event: HookEvent, reason: str) -> HookResponse:
    """Return a block for exit code 2; for events that cannot be blocked, an error for the user."""
    if HOOK_EVENTS[event].blocks:
        return HookResponse(HookResult("deny", clip_hook_text(reason)))
    return HookResponse(error=f"exited with 2: {shorten(reason, 300)}")


def _failed(event: HookEvent, how: str, err: str, strict: bool) -> HookResponse:
    """Return the failure of a hook: an error, and a block if it is strict."""
    text = f"{how}: {shorten(err, 300)}" if err else how
    result = HookResult("deny", clip_hook_text(f"it {text}")) if strict and HOOK_EVENTS[event].blocks else HookResult()
    return HookResponse(result, text)


def _reason_in(out: bytes) -> str:
    """Return the reason in an answer printed along with exit code 2; "" if there is none."""
    try:
        data = json.loads(out.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return ""
    inner = data.get("hookSpecificOutput") if isinstance(data, dict) else None
    inner = inner if isinstance(inner, dict) else {}
    decision = inner.get("decision") if isinstance(inner.get("decision"), dict) else {}
    found = [inner.get("permissionDecisionReason"), (decision or {}).get("message")]
    found += [data.get("reason"), data.get("stopReason")] if isinstance(data, dict) else []
    return next((sanitize_output(text) for text in found if isinstance(text, str) and text), "")


def _decode(data: bytes) -> str:
    return sanitize_output(data.decode("utf-8", "replace")).strip()


def clip_hook_text(text: str) -> str:
    """Truncate a hook's text for the model."""
    if len(text) <= _MAX_TEXT_CHARS:
        return text
    return f"{text[:_MAX_TEXT_CHARS]}\n[{len(text) - _MAX_TEXT_CHARS:,} more characters of this hook's text were cut]"

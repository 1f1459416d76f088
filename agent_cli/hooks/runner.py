"""Run the hooks of a step one after another and combine their answers.

Each hook sees the input as changed by those before it. If one changes the input of a call, hooks that saw another input
run again, so that none has approved what another changed. The strictest verdict wins; only the user's own hooks can
allow.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any

from agent_cli.core.events import Event, HookFinished, HookStarted, Warned
from agent_cli.core.hooks import HOOK_EVENTS, Hook, HookEvent, HookResult, RefreshFields, Verdict
from agent_cli.hooks.handlers import (
    HookResponse,
    HookRun,
    call_server_tool,
    clip_hook_text,
    post,
    read_answer,
    read_object,
    run_hook,
    shell_argv,
)
from agent_cli.hooks.judges import judge_agent, judge_prompt
from agent_cli.hooks.matching import HookSet, PythonHook
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.text import sanitize_output, shorten

_PASSES = 4
_SHOWN = 4_000
# Time that background hooks have left when the session ends.
_LAST = 1.0
_ORDER = ("", "allow", "ask", "defer", "deny")
EXIT_1 = "exited with 1, which blocks nothing: exit with 2 to block, or set strict = true on it."


class Runner:
    """Runs the hooks of one conversation."""

    def __init__(self, table: HookSet) -> None:
        self._table = table
        self._hinted: set[str] = set()
        # By identity, as two hooks may be equal; each is held here, so that no other gets its number.
        self._once: dict[int, Hook] = {}
        self._begun: list[tuple[Thread, list[Event]]] = []
        self._end = CancelToken()

    def run(
        self,
        table: HookSet,
        event: HookEvent,
        data: Mapping[str, Any],
        cancel: CancelToken,
        again: RefreshFields | None = None,
    ) -> Generator[Event, None, HookResult]:
        """Run the hooks of a step, which are those of the conversation or of a sub-agent. Raises CancelledError."""
        given = dict(data)
        hooks = self._left(table, event, data)
        aside = [h for h in hooks if isinstance(h, Hook) and h.background and self._table.is_for(h, given)]
        if aside:
            self._in_background(aside, event, dict(data))
        hooks = [h for h in hooks if not (isinstance(h, Hook) and h.background)]
        results: dict[int, HookResult] = {}
        seen: dict[int, Any] = {}
        changed = False
        for _ in range(_PASSES):
            for number, hook in enumerate(hooks):
                if number in seen and seen[number] == given.get("tool_input"):
                    continue
                if not self._table.is_for(hook, given):
                    seen[number] = given.get("tool_input")
                    continue
                result = yield from self._one(hook, event, given, cancel)
                if result.changed is not None and result.changed != given.get("tool_input"):
                    given["tool_input"], changed = result.changed, True
                    given |= again(result.changed) if again else {}
                before = results.get(number)
                # A refusal stands, whatever later hooks changed in the input.
                results[number] = before if before is not None and before.verdict == "deny" else result
                seen[number] = given.get("tool_input")
            if all(seen[number] == given.get("tool_input") for number in seen):
                break
        else:
            reason = "the hooks change the input of this call again and again"
            return HookResult("deny", reason)
        found = combine_results(list(results.values()))
        return found.replace(changed=given["tool_input"] if changed else None)

    def _one(
        self, hook: Hook | PythonHook, event: HookEvent, given: dict[str, Any], cancel: CancelToken
    ) -> Generator[Event, None, HookResult]:
        """Run one hook and report its events."""
        hook_id = os.urandom(8).hex()
        subject = _subject(event, given)
        name = f"{event}:{subject}" if subject else event
        yield HookStarted(hook_id, event, name, hook.command)
        full = {**self._fields(event), **given}
        if isinstance(hook, Hook):
            ran, answer = self._configured(hook, event, full, cancel)
        else:
            ran, answer = _function(hook, event, full, cancel)
        yield from ran.used
        note = answer.error
        result = answer.result
        if isinstance(hook, Hook) and hook.once and ran.cause == "exit" and not answer.error:
            self._once[id(hook)] = hook
        if result.verdict == "allow" and not hook.own:
            result = result.replace(verdict="", reason="", updates=())
            note = note or "its allow was ignored: only hooks in your own settings may allow"
        outcome = "cancelled" if ran.cause in ("time-out", "interrupted") else "error" if answer.error else "success"
        if result.verdict == "deny" and not answer.error:
            outcome, note = "blocked", shorten(result.reason, 300)
        yield HookFinished(
            event, hook.command, ran.code, round(ran.seconds * 1000), hook_id, name, hook.source,
            outcome,  # type: ignore[arg-type]
            note, "" if answer.quiet else _shown(ran.out), _shown(ran.err),
        )  # fmt: skip
        if ran.cause == "interrupted":
            raise CancelledError
        if answer.message:
            yield Warned(f"hook: {answer.message[:2_000]}{'…' if len(answer.message) > 2_000 else ''}")
        if answer.mistaken_block and hook.command not in self._hinted:
            self._hinted.add(hook.command)
            yield Warned(f"The {event} hook `{shorten(hook.command, 120)}` ({hook.source}) {EXIT_1}")
        return result

    def _configured(
        self, hook: Hook, event: HookEvent, full: dict[str, Any], cancel: CancelToken
    ) -> tuple[HookRun, HookResponse]:
        payload = {name: value for name, value in full.items() if name != "env_file"}
        given = json.dumps(payload, ensure_ascii=False, default=str).encode("utf-8", "replace")
        env = self._environment(hook, full)
        if hook.kind == "http":
            ran = post(hook, given, env, cancel)
        elif hook.kind == "prompt":
            ran = judge_prompt(hook, given.decode("utf-8"), self._table.opened, cancel)
        elif hook.kind == "agent":
            path = self._table.session.transcript_path
            ran = judge_agent(hook, given.decode("utf-8"), self._table.opened, self._table.turn, path, cancel)
        elif hook.kind == "mcp_tool":
            ran = call_server_tool(hook, payload, self._table.call_tool, cancel)
        else:
            argv = [hook.command, *hook.args] if hook.args else shell_argv(hook.command)
            ran = run_hook(argv, given, self._table.cwd(), env, hook.timeout, cancel, self._aside)
        answer = HookResponse() if ran.cause == "interrupted" else read_answer(event, ran, strict=hook.strict)
        return ran, answer

    def _fields(self, event: HookEvent) -> dict[str, Any]:
        session = self._table.session
        return {
            "session_id": session.session_id,
            "transcript_path": session.transcript_path,
            "cwd": str(self._table.cwd()),
            "hook_event_name": event,
        }

    def _environment(self, hook: Hook, full: Mapping[str, Any]) -> dict[str, str]:
        root = str(self._table.session.root)
        env = {**self._table.environment(hook.own), "CLAUDE_PROJECT_DIR": root, "AGENT_PROJECT_DIR": root}
        env |= {"AGENT_HOOK_EVENT": hook.event, **hook.env}
        if file := full.get("env_file"):
            env["CLAUDE_ENV_FILE"] = env["AGENT_ENV_FILE"] = str(file)
        return env

    def run_in_background(self, table: HookSet, event: HookEvent, data: Mapping[str, Any]) -> None:
        """Run the hooks of a step in a background thread."""
        hooks = [h for h in self._left(table, event, data) if self._table.is_for(h, data)]
        self._in_background(hooks, event, dict(data))

    def _left(self, table: HookSet, event: HookEvent, data: Mapping[str, Any]) -> list[Hook | PythonHook]:
        """Return the hooks of a step without those that were to run once and did."""
        return [h for h in table.matching(event, _subject(event, data)) if id(h) not in self._once]

    def _aside(self, work: Callable[[CancelToken], None]) -> None:
        """Run the rest of a hook in a background thread, until the session ends."""
        thread = Thread(target=work, args=(self._end,), daemon=True)
        self._begun.append((thread, []))
        thread.start()

    def _in_background(self, hooks: Sequence[Hook | PythonHook], event: HookEvent, given: dict[str, Any]) -> None:
        events: list[Event] = []

        def work() -> None:
            for hook in hooks:
                try:
                    steps = self._one(hook, event, given, self._end)
                    result = yield_from(steps, events.append)
                except CancelledError:
                    return
                if isinstance(hook, Hook) and hook.wakes and result.verdict == "deny":
                    self._table.wake(f"<hook>\nA {event} hook in the background reports:\n{result.reason}\n</hook>")

        thread = Thread(target=work, daemon=True)
        self._begun.append((thread, events))
        thread.start()

    def drain(self) -> list[Event]:
        done = [events for thread, events in self._begun if not thread.is_alive()]
        self._begun = [(thread, events) for thread, events in self._begun if thread.is_alive()]
        return [event for events in done for event in events]

    def close(self) -> None:
        until = monotonic() + _LAST
        for thread, _ in self._begun:
            thread.join(max(until - monotonic(), 0.0))
        self._end.cancel()
        for thread, _ in self._begun:
            thread.join(1.0)


def yield_from(steps: Generator[Event, None, HookResult], take: Callable[[Event], None]) -> HookResult:
    """Run a generator of events to its end and return its result; each event goes to `take`."""
    while True:
        try:
            take(next(steps))
        except StopIteration as stop:
            result: HookResult = stop.value
            return result


def _subject(event: HookEvent, data: Mapping[str, Any]) -> str:
    """Return what matchers are compared with; "" for an event without matchers."""
    return str(data.get(HOOK_EVENTS[event].matched, ""))


def _function(
    hook: PythonHook, event: HookEvent, full: dict[str, Any], cancel: CancelToken
) -> tuple[HookRun, HookResponse]:
    """Call a Python hook; an exception is its failure."""
    started = monotonic()
    given = json.loads(json.dumps(full, default=str))
    try:
        said = _within(hook, given, cancel) if hook.timeout else hook.call(given)
        if said is not None and not isinstance(said, Mapping):
            raise TypeError(f"it returned {type(said).__name__}, neither a dict nor None")
    except CancelledError:
        return HookRun(None, "interrupted", monotonic() - started), HookResponse()
    except _LateError:
        ran = HookRun(None, "time-out", monotonic() - started)
        return ran, read_answer(event, ran, strict=hook.strict)
    except Exception as error:  # noqa: BLE001 - a faulty hook must cost its answer, not the turn
        how = f"failed: {shorten(f'{type(error).__name__}: {error}', 300)}"
        ran = HookRun(None, "error", monotonic() - started, error=how)
        return ran, read_answer(event, ran, strict=hook.strict)
    answer = read_object(event, said, strict=hook.strict) if said else HookResponse()
    return HookRun(0, "exit", monotonic() - started), answer


class _LateError(Exception):
    """A Python hook has not answered in its time."""


def _within(hook: PythonHook, given: dict[str, Any], cancel: CancelToken) -> Any:
    """Return the answer of a hook with a time limit. Raises CancelledError, _LateError, and what the hook raises."""
    steps: SimpleQueue[tuple[str, Any]] = SimpleQueue()

    def work() -> None:
        try:
            steps.put(("said", hook.call(given)))
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
    if kind == "said":
        return found
    if kind == "raised":
        raise found
    if hook.cancelled is not None:
        hook.cancelled(given)
    raise CancelledError if kind == "cancel" else _LateError


def combine_results(results: list[HookResult]) -> HookResult:
    """Combine the answers of several hooks: the strictest verdict, its reasons, all additions."""
    verdict: Verdict = max((r.verdict for r in results), key=_ORDER.index, default="")
    reasons = dict.fromkeys(r.reason for r in results if r.verdict == verdict and r.reason)
    stop = next((r.stop for r in results if r.stop is not None), None)
    context = tuple(text for r in results for text in r.context)
    output = next((r.output for r in reversed(results) if r.output is not None), None)
    updates = tuple(update for r in results if r.verdict == verdict == "allow" for update in r.updates)
    return HookResult(verdict, clip_hook_text("\n".join(reasons)), None, output, context, stop, updates)


def _shown(data: bytes) -> str:
    """Return the beginning of an output, for the log."""
    text = sanitize_output(data[: _SHOWN * 4].decode("utf-8", "replace")).rstrip()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

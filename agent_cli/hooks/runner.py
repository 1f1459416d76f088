"""Run the hooks of a step one after another and combine their answers.

Each hook sees the input as changed by those before it. If one changes the input of a call, hooks that saw another input
run again, so that none has approved what another changed. The strictest verdict wins; only the user's own hooks can
allow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from threading import Thread
from time import monotonic
from typing import Any

from agent_cli.hooks.answers import HookResponse, HookRun, clip_hook_text, read_answer
from agent_cli.hooks.declaration import (
    AnyHook,
    Hook,
    HookResult,
    HookSurroundings,
    HookVerdict,
    RefreshFields,
)
from agent_cli.hooks.events import HOOK_EVENTS, STRICTNESS, event_subject
from agent_cli.hooks.handlers import HookInput, run_handler
from agent_cli.hooks.matching import is_for
from agent_cli.kernel.events import Event, HookFinished, HookStarted, Warned
from agent_cli.kernel.messages import HOOK_REPORT
from agent_tools.base import Steps
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.text import sanitize_output, shorten

# Returns the hooks of an event and a subject.
Matching = Callable[[str, str], list[AnyHook]]
_MAX_PASSES = 4
_MAX_LOGGED_CHARS = 4_000
# How long the end of the session waits for background hooks.
_CLOSE_SECONDS = 1.0
_POLL_SECONDS = 0.05
EXIT_1 = "exited with 1, which blocks nothing: exit with 2 to block, or set strict = true on it."


class Runner:
    """Runs the hooks of one conversation."""

    def __init__(self, around: HookSurroundings) -> None:
        self._around = around
        self._hinted: set[str] = set()
        # Hooks that ran once, by id, as two hooks may be equal. The reference keeps the id from being reused.
        self._once: dict[int, AnyHook] = {}
        self._background: list[tuple[Thread, list[Event]]] = []
        # Those whose report the model gets.
        self._reporting: list[Thread] = []
        self._end = CancelToken()

    def run(
        self,
        matching: Matching,
        event: str,
        data: Mapping[str, Any],
        cancel: CancelToken,
        refresh: RefreshFields | None = None,
    ) -> Generator[Event, None, HookResult]:
        """Run the hooks of a step. Raises CancelledError. matching: that of the conversation or of a sub-agent."""
        given = dict(data)
        hooks = self._hooks_to_run(matching, event, data)
        background = [h for h in hooks if h.background and is_for(h, given, self._around)]
        if background:
            self._in_background(background, event, dict(data))
        hooks = [h for h in hooks if not h.background]
        results: dict[int, HookResult] = {}
        seen: dict[int, Any] = {}
        changed = False
        for _ in range(_MAX_PASSES):
            for number, hook in enumerate(hooks):
                if number in seen and seen[number] == given.get("tool_input"):
                    continue
                if not is_for(hook, given, self._around):
                    seen[number] = given.get("tool_input")
                    continue
                result = yield from self._run_one(hook, event, given, cancel)
                if result.changed is not None and result.changed != given.get("tool_input"):
                    given["tool_input"], changed = result.changed, True
                    given |= refresh(result.changed) if refresh else {}
                before = results.get(number)
                # A refusal is final, whatever later hooks change in the input.
                results[number] = before if before is not None and before.verdict == "deny" else result
                seen[number] = given.get("tool_input")
            if all(seen[number] == given.get("tool_input") for number in seen):
                break
        else:
            reason = "the hooks change the input of this call again and again"
            return HookResult("deny", reason)
        found = combine_results(list(results.values()))
        return found.replace(changed=given["tool_input"] if changed else None)

    def _run_one(
        self, hook: AnyHook, event: str, given: dict[str, Any], cancel: CancelToken
    ) -> Generator[Event, None, HookResult]:
        """Run one hook and report its events."""
        hook_id = os.urandom(8).hex()
        subject = event_subject(event, given)
        name = f"{event}:{subject}" if subject else event
        yield HookStarted(hook_id, event, name, hook.command)
        full = {**self._fields(event), **given}
        env: dict[str, str] = {}
        if isinstance(hook, Hook):
            env = self._environment(hook, str(full.pop("env_file", "")))
        ran = run_handler(hook, HookInput(full, env, self._around, cancel, self._run_rest_in_background, []))
        answer = read_answer(event, ran, strict=hook.strict)
        yield from ran.used
        note = answer.error
        result = answer.result
        if _is_over(hook, ran, answer):
            self._once[id(hook)] = hook
        if hook.refuses_only and (result.verdict == "allow" or result.changed is not None):
            verdict: HookVerdict = "" if result.verdict == "allow" else result.verdict
            result = result.replace(verdict=verdict, changed=None, updates=())
            note = note or "its allow was ignored: it has a key that is not understood, which may limit it"
        if result.verdict == "allow" and not hook.from_user:
            result = result.replace(verdict="", reason="", updates=())
            note = note or "its allow was ignored: only hooks in your own settings may allow"
        if result.output is not None and HOOK_EVENTS[event].answers_form and not hook.from_user:
            accepts = result.output["action"] == "accept"
            result = result.replace(output=None if accepts else result.output)
            note = note or ("its answer was ignored: only hooks in your own settings may accept" if accepts else "")
        outcome = "cancelled" if ran.cause in ("time-out", "interrupted") else "error" if answer.error else "success"
        if result.verdict == "deny" and not answer.error:
            outcome, note = "blocked", shorten(result.reason, 300)
        yield HookFinished(
            event, hook.command, ran.code, round(ran.seconds * 1000), hook_id, name, hook.source,
            outcome,  # type: ignore[arg-type]
            note, "" if answer.quiet else _logged_output(ran.out), _logged_output(ran.err),
        )  # fmt: skip
        if ran.cause == "interrupted":
            raise CancelledError
        if answer.message:
            yield Warned(f"hook: {answer.message[:2_000]}{'…' if len(answer.message) > 2_000 else ''}")
        if answer.mistaken_block and hook.command not in self._hinted:
            self._hinted.add(hook.command)
            yield Warned(f"The {event} hook `{shorten(hook.command, 120)}` ({hook.source}) {EXIT_1}")
        return result

    def _fields(self, event: str) -> dict[str, Any]:
        session = self._around.session
        return {
            "session_id": session.session_id,
            "transcript_path": session.transcript_path,
            "cwd": str(self._around.cwd()),
            "hook_event_name": event,
        }

    def _environment(self, hook: Hook, env_file: str) -> dict[str, str]:
        root = str(self._around.session.root)
        env = {**self._around.environment(hook), "CLAUDE_PROJECT_DIR": root, "AGENT_PROJECT_DIR": root}
        env |= {"AGENT_HOOK_EVENT": hook.event, **hook.env}
        return env | ({"CLAUDE_ENV_FILE": env_file, "AGENT_ENV_FILE": env_file} if env_file else {})

    def run_in_background(self, matching: Matching, event: str, data: Mapping[str, Any]) -> None:
        """Run the hooks of a step in a background thread."""
        hooks = [h for h in self._hooks_to_run(matching, event, data) if is_for(h, data, self._around)]
        self._in_background(hooks, event, dict(data))

    def _hooks_to_run(self, matching: Matching, event: str, data: Mapping[str, Any]) -> list[AnyHook]:
        """Return the hooks of a step, except run-once hooks that have run."""
        return [h for h in matching(event, event_subject(event, data)) if id(h) not in self._once]

    def _run_rest_in_background(self, work: Callable[[CancelToken], None]) -> None:
        """Run the rest of a hook in a background thread, until the session ends."""
        thread = Thread(target=work, args=(self._end,), daemon=True)
        self._background.append((thread, []))
        thread.start()

    def _in_background(self, hooks: Sequence[AnyHook], event: str, given: dict[str, Any]) -> None:
        events: list[Event] = []

        def work() -> None:
            for hook in hooks:
                try:
                    steps = Steps(self._run_one(hook, event, given, self._end))
                    events.extend(steps)
                except CancelledError:
                    return
                if hook.wakes and steps.result.verdict == "deny":
                    reason = steps.result.reason
                    self._around.wake(f"{HOOK_REPORT}A {event} hook in the background reports:\n{reason}\n</hook>")

        thread = Thread(target=work, daemon=True)
        self._background.append((thread, events))
        if any(hook.wakes for hook in hooks):
            self._reporting.append(thread)
        thread.start()

    def drain(self) -> list[Event]:
        done = [events for thread, events in self._background if not thread.is_alive()]
        self._background = [(thread, events) for thread, events in self._background if thread.is_alive()]
        return [event for events in done for event in events]

    def wait(self, cancel: CancelToken) -> None:
        """Wait for the hooks in the background that may report to the model, each up to its own time limit."""
        for thread in self._reporting:
            while thread.is_alive() and not cancel.wait(_POLL_SECONDS):
                continue
        self._reporting = [thread for thread in self._reporting if thread.is_alive()]

    def close(self) -> None:
        until = monotonic() + _CLOSE_SECONDS
        for thread, _ in self._background:
            thread.join(max(until - monotonic(), 0.0))
        self._end.cancel()
        for thread, _ in self._background:
            thread.join(1.0)


def _is_over(hook: AnyHook, ran: HookRun, answer: HookResponse) -> bool:
    """Return True if a hook has run for the last time: once is enough, or it can only be named."""
    if hook.unusable:
        return not hook.strict
    return hook.once and ran.cause == "exit" and not answer.error


def combine_results(results: list[HookResult]) -> HookResult:
    """Combine the answers of several hooks: the strictest verdict, its reasons, all additions."""
    verdict: HookVerdict = max((r.verdict for r in results), key=STRICTNESS.index, default="")
    reasons = dict.fromkeys(r.reason for r in results if r.verdict == verdict and r.reason)
    stop = next((r.stop for r in results if r.stop is not None), None)
    context = tuple(text for r in results for text in r.context)
    output = next((r.output for r in reversed(results) if r.output is not None), None)
    updates = tuple(update for r in results if r.verdict == verdict == "allow" for update in r.updates)
    return HookResult(verdict, clip_hook_text("\n".join(reasons)), None, output, context, stop, updates)


def _logged_output(data: bytes) -> str:
    """Return the beginning of an output, to be stored in the log."""
    text = sanitize_output(data[: _MAX_LOGGED_CHARS * 4].decode("utf-8", "replace")).rstrip()
    return text if len(text) <= _MAX_LOGGED_CHARS else f"{text[:_MAX_LOGGED_CHARS]}…"

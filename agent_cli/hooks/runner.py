"""Run the hooks of a step one after another and combine their answers.

Each hook sees the input as changed by those before it. If one changes the input of a call, hooks that saw another input
run again, so that none has approved what another changed. The strictest verdict wins; only the user's own hooks can
allow.

Some hooks are conditions that a model evaluates: with one request, or as a sub-agent that can read the project. Both
receive what a command reads from standard input, and answer whether the condition is met.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any

from agent_cli.config.prompts import prompt
from agent_cli.core.decisions import Answer, Approve, Reject, defer
from agent_cli.core.events import ApprovalRequested, Event, HookFinished, HookStarted, UsageAdded, Warned
from agent_cli.core.hooks import (
    HOOK_EVENTS,
    NO_HOOKS,
    STRICTNESS,
    Hook,
    HookEvent,
    HookResult,
    HookVerdict,
    RefreshFields,
)
from agent_cli.core.messages import UserMessage
from agent_cli.core.results import Complete, Failed, Failure, Spent, Usage
from agent_cli.engine.conversation import consume
from agent_cli.engine.loop import run_turn
from agent_cli.engine.subagents import parent_environment
from agent_cli.engine.turn import TurnDeps
from agent_cli.engine.types import ChangeObserver, ConversationState, ModelHandle, ToolTable, TurnOptions
from agent_cli.hooks.answers import HookResponse, clip_hook_text, find_objects, read_answer, read_object
from agent_cli.hooks.handlers import (
    HookRun,
    call_server_tool,
    hook_deadline,
    hook_folder,
    post_to_server,
    run_hook,
    shell_argv,
)
from agent_cli.hooks.matching import HookSet, PythonHook
from agent_cli.providers.base import ModelError, Request, TextCollector
from agent_tools.base import Steps, ToolError
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.results import TurnOverrides
from agent_tools.text import sanitize_output, shorten

_MAX_ANSWER_TOKENS = 1_000
_PLACEHOLDER = "$ARGUMENTS"
_MAX_ROUNDS = 50

Ask = Callable[[str, CancelToken, list[UsageAdded]], str]


def evaluate_prompt(hook: Hook, given: str, open_model: Callable[[str], ModelHandle], cancel: CancelToken) -> HookRun:
    """Ask the model whether the condition is met. Never raises. given: JSON, inserted at $ARGUMENTS or appended."""

    def ask(text: str, until: CancelToken, used: list[UsageAdded]) -> str:
        model = open_model(hook.model)
        request = Request(model.model, prompt("hook"), (UserMessage(text),), max_tokens=_MAX_ANSWER_TOKENS, aside=True)
        answer = TextCollector()
        try:
            answer.read(model.client.stream(request, until))
        finally:
            if answer.usage is not None:
                used.append(UsageAdded(model.label, model.price(answer.usage), aside=True))
        until.check()
        return answer.text

    return _evaluate(hook, given, ask, cancel)


def evaluate_agent(
    hook: Hook,
    given: str,
    open_model: Callable[[str], ModelHandle],
    session: Callable[[], tuple[TurnDeps, TurnOptions]],
    transcript: str,
    cancel: CancelToken,
) -> HookRun:
    """Let a read-only sub-agent find out whether the condition is met. Never raises.

    session: returns the dependencies and options of the session's turns.
    transcript: a file outside the workspace that the sub-agent may read.
    """

    def ask(text: str, until: CancelToken, used: list[UsageAdded]) -> str:
        parent, options = session()
        model = open_model(hook.model)
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
        deps.context.cancel = until
        options = model.options(options).replace(
            system=f"{prompt('hook')}\n{prompt('hook_agent')}\n{parent_environment(options.system)}",
            tools=tuple(spec for spec in options.tools if spec.name in deps.tools),
            limits=options.limits.replace(rounds=_MAX_ROUNDS), spent=Spent(), plan_review="off", after_turn="",
            saved={}, prefill="", review="off", overrides=TurnOverrides(), suspended_state={},
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

    return _evaluate(hook, given, ask, cancel)


def _evaluate(hook: Hook, given: str, ask: Ask, cancel: CancelToken) -> HookRun:
    """Ask a model about the condition within the hook's time limit, and read its verdict."""
    started = monotonic()
    text = hook.command.replace(_PLACEHOLDER, given) if _PLACEHOLDER in hook.command else f"{hook.command}\n\n{given}"
    used: list[UsageAdded] = []
    try:
        with hook_deadline(hook.timeout, cancel) as until:
            code, answer = read_hook_verdict(ask(text, until, used))
    except CancelledError:
        return HookRun(None, "interrupted" if cancel.cancelled else "time-out", monotonic() - started, used=tuple(used))
    except ModelError as error:
        why = f"got no answer: {error.failure.message}"
        return HookRun(None, "error", monotonic() - started, error=why, used=tuple(used))
    seconds = monotonic() - started
    if code is None:
        why = "did not get an answer with ok and a reason"
        return HookRun(None, "error", seconds, answer.encode(), error=why, used=tuple(used))
    return HookRun(code, "exit", seconds, err=answer.encode(), used=tuple(used))


def read_hook_verdict(text: str) -> tuple[int | None, str]:
    """Return the equivalent exit code of an answer, and its reason; None and the text if it is invalid.

    A refusal takes effect wherever it is in the answer.
    """
    for _, found in find_objects(text, anywhere=True):
        if found.get("ok") is False or found.get("decision") in ("block", "deny"):
            return 2, str(found.get("reason") or "the condition is not met")
    # A regular expression would take very long for text with a hundred thousand opening braces.
    start, end = text.find("{"), text.rfind("}") + 1
    try:
        data = json.loads(text[start:end]) if 0 <= start < end else None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or not isinstance(data.get("ok"), bool):
        return None, text
    return (0, "") if data["ok"] else (2, str(data.get("reason") or "the condition is not met"))


_MAX_PASSES = 4
_MAX_LOGGED_CHARS = 4_000
# How long the end of the session waits for background hooks.
_CLOSE_SECONDS = 1.0
EXIT_1 = "exited with 1, which blocks nothing: exit with 2 to block, or set strict = true on it."


class Runner:
    """Runs the hooks of one conversation."""

    def __init__(self, hooks: HookSet) -> None:
        self._hooks = hooks
        self._hinted: set[str] = set()
        # Hooks that ran once, by id, as two hooks may be equal. The reference keeps the id from being reused.
        self._once: dict[int, Hook] = {}
        self._background: list[tuple[Thread, list[Event]]] = []
        self._end = CancelToken()

    def run(
        self,
        hook_set: HookSet,
        event: HookEvent,
        data: Mapping[str, Any],
        cancel: CancelToken,
        refresh: RefreshFields | None = None,
    ) -> Generator[Event, None, HookResult]:
        """Run the hooks of a step. Raises CancelledError. hook_set: those of the conversation or of a sub-agent."""
        given = dict(data)
        hooks = self._hooks_to_run(hook_set, event, data)
        background = [h for h in hooks if isinstance(h, Hook) and h.background and self._hooks.is_for(h, given)]
        if background:
            self._in_background(background, event, dict(data))
        hooks = [h for h in hooks if not (isinstance(h, Hook) and h.background)]
        results: dict[int, HookResult] = {}
        seen: dict[int, Any] = {}
        changed = False
        for _ in range(_MAX_PASSES):
            for number, hook in enumerate(hooks):
                if number in seen and seen[number] == given.get("tool_input"):
                    continue
                if not self._hooks.is_for(hook, given):
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
        self, hook: Hook | PythonHook, event: HookEvent, given: dict[str, Any], cancel: CancelToken
    ) -> Generator[Event, None, HookResult]:
        """Run one hook and report its events."""
        hook_id = os.urandom(8).hex()
        subject = _subject(event, given)
        name = f"{event}:{subject}" if subject else event
        yield HookStarted(hook_id, event, name, hook.command)
        full = {**self._fields(event), **given}
        if isinstance(hook, Hook):
            ran, answer = self._run_configured(hook, event, full, cancel)
        else:
            ran, answer = _call_python_hook(hook, event, full, cancel)
        yield from ran.used
        note = answer.error
        result = answer.result
        if isinstance(hook, Hook) and _is_over(hook, ran, answer):
            self._once[id(hook)] = hook
        if isinstance(hook, Hook) and hook.refuses_only and (result.verdict == "allow" or result.changed is not None):
            verdict: HookVerdict = "" if result.verdict == "allow" else result.verdict
            result = result.replace(verdict=verdict, changed=None, updates=())
            note = note or "its allow was ignored: it has a key that is not understood, which may limit it"
        if result.verdict == "allow" and not hook.from_user:
            result = result.replace(verdict="", reason="", updates=())
            note = note or "its allow was ignored: only hooks in your own settings may allow"
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

    def _run_configured(
        self, hook: Hook, event: HookEvent, full: dict[str, Any], cancel: CancelToken
    ) -> tuple[HookRun, HookResponse]:
        payload = {name: value for name, value in full.items() if name != "env_file"}
        given = json.dumps(payload, ensure_ascii=False, default=str).encode("utf-8", "replace")
        env = self._environment(hook, full)
        if hook.unusable:
            ran = HookRun(None, "error", 0.0, error=f"cannot run: {hook.unusable}")
        elif hook.kind == "http":
            ran = post_to_server(hook, given, env, cancel)
        elif hook.kind == "prompt":
            ran = evaluate_prompt(hook, given.decode("utf-8"), self._hooks.open_model, cancel)
        elif hook.kind == "agent":
            path = self._hooks.session.transcript_path
            ran = evaluate_agent(hook, given.decode("utf-8"), self._hooks.open_model, self._hooks.turn, path, cancel)
        elif hook.kind == "mcp_tool":
            ran = call_server_tool(hook, payload, self._hooks.call_tool, cancel)
        else:
            ran = self._run_command(hook, given, env, cancel)
        answer = HookResponse() if ran.cause == "interrupted" else read_answer(event, ran, strict=hook.strict)
        return ran, answer

    def _run_command(self, hook: Hook, given: bytes, env: dict[str, str], cancel: CancelToken) -> HookRun:
        argv = [hook.command, *hook.args] if hook.args else shell_argv(hook.command, hook.shell)
        try:
            folder = hook_folder(hook, self._hooks.session.root, self._hooks.cwd(), env)
        except ToolError as error:
            return HookRun(None, "error", 0.0, error=str(error))
        return run_hook(argv, given, folder, env, hook.timeout, cancel, self._run_rest_in_background)

    def _fields(self, event: HookEvent) -> dict[str, Any]:
        session = self._hooks.session
        return {
            "session_id": session.session_id,
            "transcript_path": session.transcript_path,
            "cwd": str(self._hooks.cwd()),
            "hook_event_name": event,
        }

    def _environment(self, hook: Hook, full: Mapping[str, Any]) -> dict[str, str]:
        root = str(self._hooks.session.root)
        env = {**self._hooks.environment(hook.from_user), "CLAUDE_PROJECT_DIR": root, "AGENT_PROJECT_DIR": root}
        env |= {"AGENT_HOOK_EVENT": hook.event, **hook.env}
        if file := full.get("env_file"):
            env["CLAUDE_ENV_FILE"] = env["AGENT_ENV_FILE"] = str(file)
        return env

    def run_in_background(self, hook_set: HookSet, event: HookEvent, data: Mapping[str, Any]) -> None:
        """Run the hooks of a step in a background thread."""
        hooks = [h for h in self._hooks_to_run(hook_set, event, data) if self._hooks.is_for(h, data)]
        self._in_background(hooks, event, dict(data))

    def _hooks_to_run(self, hook_set: HookSet, event: HookEvent, data: Mapping[str, Any]) -> list[Hook | PythonHook]:
        """Return the hooks of a step, except run-once hooks that have run."""
        return [h for h in hook_set.matching(event, _subject(event, data)) if id(h) not in self._once]

    def _run_rest_in_background(self, work: Callable[[CancelToken], None]) -> None:
        """Run the rest of a hook in a background thread, until the session ends."""
        thread = Thread(target=work, args=(self._end,), daemon=True)
        self._background.append((thread, []))
        thread.start()

    def _in_background(self, hooks: Sequence[Hook | PythonHook], event: HookEvent, given: dict[str, Any]) -> None:
        events: list[Event] = []

        def work() -> None:
            for hook in hooks:
                try:
                    steps = Steps(self._run_one(hook, event, given, self._end))
                    events.extend(steps)
                except CancelledError:
                    return
                if isinstance(hook, Hook) and hook.wakes and steps.result.verdict == "deny":
                    reason = steps.result.reason
                    self._hooks.wake(f"<hook>\nA {event} hook in the background reports:\n{reason}\n</hook>")

        thread = Thread(target=work, daemon=True)
        self._background.append((thread, events))
        thread.start()

    def drain(self) -> list[Event]:
        done = [events for thread, events in self._background if not thread.is_alive()]
        self._background = [(thread, events) for thread, events in self._background if thread.is_alive()]
        return [event for events in done for event in events]

    def close(self) -> None:
        until = monotonic() + _CLOSE_SECONDS
        for thread, _ in self._background:
            thread.join(max(until - monotonic(), 0.0))
        self._end.cancel()
        for thread, _ in self._background:
            thread.join(1.0)


def _is_over(hook: Hook, ran: HookRun, answer: HookResponse) -> bool:
    """Return True if a hook has run for the last time: once is enough, or it can only be named."""
    if hook.unusable:
        return not hook.strict
    return hook.once and ran.cause == "exit" and not answer.error


def _subject(event: HookEvent, data: Mapping[str, Any]) -> str:
    """Return the name that matchers are compared with; "" for an event without matchers."""
    return str(data.get(HOOK_EVENTS[event].matched, ""))


def _call_python_hook(
    hook: PythonHook, event: HookEvent, full: dict[str, Any], cancel: CancelToken
) -> tuple[HookRun, HookResponse]:
    """Call a Python hook; an exception counts as its failure."""
    started = monotonic()
    given = json.loads(json.dumps(full, default=str))
    try:
        returned = _call_with_timeout(hook, given, cancel) if hook.timeout else hook.call(given)
        if returned is not None and not isinstance(returned, Mapping):
            raise TypeError(f"it returned {type(returned).__name__}, neither a dict nor None")
    except CancelledError:
        return HookRun(None, "interrupted", monotonic() - started), HookResponse()
    except _HookTimeoutError:
        ran = HookRun(None, "time-out", monotonic() - started)
        return ran, read_answer(event, ran, strict=hook.strict)
    except Exception as error:  # noqa: BLE001 - a faulty hook must cost its answer, not the turn
        how = f"failed: {shorten(f'{type(error).__name__}: {error}', 300)}"
        ran = HookRun(None, "error", monotonic() - started, error=how)
        return ran, read_answer(event, ran, strict=hook.strict)
    answer = read_object(event, returned, strict=hook.strict) if returned else HookResponse()
    return HookRun(0, "exit", monotonic() - started), answer


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

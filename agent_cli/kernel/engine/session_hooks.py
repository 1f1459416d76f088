"""Run the hooks of the events around a session and its messages, from Setup to SessionEnd.

Loaded only if some hook matches.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_cli.hooks import events
from agent_cli.hooks.events import HookStep, ModelSwitch
from agent_cli.kernel.engine.hook_points import context_messages, fire, fire_context
from agent_cli.kernel.engine.turn import TurnDeps
from agent_cli.kernel.engine.types import Price, SessionOrigin
from agent_cli.kernel.events import Event, HookFinished, Warned
from agent_cli.kernel.messages import SYNTHETIC_PREFIXES
from agent_cli.kernel.results import Denial, Failed, Failure, TurnResult, Usage, empty_end
from agent_tools.base import Steps
from agent_tools.cancel import CancelledError
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.requirements import find_bash
from agent_tools.shell.state import ShellState, command_env, parse_export_lines

with lazy_imports():
    from agent_tools import text as agent_tools_text
    from agent_tools.shell import process

_SOURCE = '. "$1" >/dev/null 2>&1 </dev/null; export -p'
_TIMEOUT_SECONDS = 30.0


def _resume_fields(deps: TurnDeps, origin: SessionOrigin) -> dict[str, Any]:
    """Return the fields that tell what it costs to continue a resumed session: age, size, price of caching it again."""
    if origin.source not in ("resume", "fork"):
        return {}
    found: dict[str, Any] = {}
    if origin.idle_since is not None:
        found["seconds_since_last_response"] = max(0, round(time.time() - origin.idle_since))
    if (report := deps.state.window.report) is not None:
        tokens = report.filled
        cost = deps.price(Usage(input=tokens, cache_write=tokens)).cost
        found |= {"context_tokens": tokens, "estimated_cache_write_usd": round(cost, 4)}
        if origin.idle_since is not None:
            found["prompt_cache_likely_expired"] = found["seconds_since_last_response"] > origin.cache_seconds
    return found


def start_hooks(deps: TurnDeps, step: HookStep) -> Generator[Event, None, tuple[str, ...]]:
    """Run the hooks of Setup or SessionStart, which may set variables; return messages for the model.

    Variables exported in the file that CLAUDE_ENV_FILE names are set for the session's commands; bash reads it.
    """
    if not deps.hooks.wants(step.event, step.subject):
        return ()
    handle, name = tempfile.mkstemp(prefix="agent-env-")
    os.close(handle)
    try:
        found = yield from fire_context(deps, step.replace(fields={**step.fields, "env_file": name}))
        if Path(name).stat().st_size and not _load_environment(deps, Path(name)):
            yield Warned(f"The variables that {step.event} hooks wrote to CLAUDE_ENV_FILE could not be read.")
    except FileNotFoundError:
        pass
    finally:
        Path(name).unlink(missing_ok=True)
    return found


def _load_environment(deps: TurnDeps, file: Path) -> bool:
    """Set the variables that the file exports, for the session's commands; return False if it cannot be read."""
    context = deps.context
    bash = find_bash(context)
    if bash is None:
        return False
    base, _ = command_env(context)
    output = agent_tools_text.HeadTail(1 << 20, 0)
    argv = [bash, "--noprofile", "--norc", "-c", _SOURCE, "bash", str(file)]
    env = context.state(ShellState).applied(base)
    running = process.run_process(argv, context.workspace.root, env, _TIMEOUT_SECONDS, context.cancel, output)
    if Steps(running).finish().cause != "exit" or not output.complete:
        return False
    found = {os.fsdecode(n): os.fsdecode(v) for n, v in parse_export_lines(b"".join(output.lines(1 << 20)))}
    return context.state(ShellState).learn(found, base)


class ExpandedCommand(Value):
    """A slash command in a message.

    source: builtin, user, project, skill, plugin or mcp.
    """

    name: str
    arguments: str
    source: str


def _may_send(deps: TurnDeps, step: HookStep) -> Generator[Event, None, tuple[tuple[str, ...], str | None]]:
    """Run hooks that may block a message; return messages for the model, and why it is blocked or None."""
    result = yield from fire(deps, step)
    if (why := result.refusal) is not None:
        return (), why or "a hook blocked it"
    return context_messages(step.event, result.context), None


def filter_inbox(deps: TurnDeps, texts: list[str]) -> Generator[Event, None, list[str]]:
    """Run the UserPromptSubmit hooks on messages sent while a turn runs; drop the blocked ones."""
    found = []
    for text in texts:
        if text.startswith(SYNTHETIC_PREFIXES):
            found.append(text)
            continue
        added, blocked = yield from _may_send(deps, events.user_prompt_submit(text))
        if blocked is not None:
            yield Warned(f"Your message was not sent: a hook blocked it: {blocked}")
        else:
            found += [text, *added]
    return found


class HooksOutcome(Value):
    """The result of the hooks that run before a message is sent.

    texts: messages to send with it.
    result: the result of a turn that the hooks prevented; None if the turn can start.
    session_started: the SessionStart hooks have run.
    """

    texts: tuple[str, ...] = ()
    result: TurnResult | None = None
    session_started: bool = True


class MessageStart(Value):
    """Describes a message to the hooks that run before it is sent.

    command: the slash command that the message calls; None if it calls none.
    """

    origin: SessionOrigin
    model: str
    typed: str
    command: ExpandedCommand | None = None


def _session_start(deps: TurnDeps, start: MessageStart) -> HookStep:
    return events.session_start(start.origin.source, start.model, _resume_fields(deps, start.origin))


def message_hooks(deps: TurnDeps, start: MessageStart) -> Generator[Event, None, HooksOutcome]:
    """Run the hooks of Setup and SessionStart, then those of UserPromptExpansion and UserPromptSubmit."""
    started: tuple[str, ...] = ()
    event = "UserPromptSubmit"
    source, typed = start.origin.source, start.typed
    session_started = not source
    try:
        if source and (setup := start.origin.setup):
            started = yield from start_hooks(deps, events.setup(setup))
        if source:
            for path, kind, by in start.origin.memory:
                yield from fire(deps, events.instructions_loaded(path, kind, by))
            started += yield from start_hooks(deps, _session_start(deps, start))
            session_started = True
        expanded: tuple[str, ...] = ()
        blocked = None
        if start.command is not None:
            of = start.command
            step = events.user_prompt_expansion(typed, of.name, of.arguments, of.source)
            expanded, blocked = yield from _may_send(deps, step)
        if blocked is not None:
            event = "UserPromptExpansion"
        else:
            added, blocked = yield from _may_send(deps, events.user_prompt_submit(typed))
    except CancelledError:
        return HooksOutcome(started, Failed(empty_end("interrupted")), session_started)
    if blocked is None:
        return HooksOutcome((*started, *expanded, *added))
    message = f"The message was not sent: a hook blocked it: {blocked}"
    if deps.attended:
        yield Warned(message)
    denial = Denial("", event, {"prompt": typed}, f"was blocked by a hook: {blocked}", "hook")
    end = empty_end("stopped_by_hook").replace(denials=(denial,))
    return HooksOutcome(started, Failed(end, failure=Failure("blocked", message), text=message))


def resume_hooks(deps: TurnDeps, start: MessageStart) -> Generator[Event, None, HooksOutcome]:
    """Run the SessionStart hooks before a suspended turn is resumed."""
    try:
        return HooksOutcome((yield from start_hooks(deps, _session_start(deps, start))))
    except CancelledError:
        return HooksOutcome(session_started=False)


def listener(record: Callable[[HookFinished], None], warn: Callable[[str], None]) -> Callable[[Event], None]:
    """Return a listener for hooks that run beside the turns."""

    def note(event: Event) -> None:
        if isinstance(event, HookFinished):
            record(event)
        elif isinstance(event, Warned):
            warn(event.text)

    return note


def model_switch(
    deps: TurnDeps, origin: SessionOrigin, names: tuple[str, str], requested: str, source: str, price: Price
) -> ModelSwitch:
    """Return the facts about a switch for its hooks. names: of the models before and after it, the latter's price."""
    report, last = deps.state.window.report, deps.state.answered or origin.idle_since
    tokens = report.filled if report is not None else 0
    priced = price(Usage(input=tokens, cache_write=tokens))
    warm = tokens > 0 and last is not None and time.time() - last < origin.cache_seconds
    minutes = origin.cache_seconds // 60
    return ModelSwitch(*names, requested, source, tokens, warm, minutes, priced.cost, priced.reliable)


def before_switch(
    deps: TurnDeps, switch: ModelSwitch, confirm: Callable[[str], bool] | None
) -> Generator[Event, None, str | None]:
    """Run the PreModelSwitch hooks; return why the model stays, None if it changes. confirm: asks the user, if any."""
    result = yield from fire(deps, events.pre_model_switch(switch))
    if (why := result.refusal) is not None:
        return f"A hook keeps the model{f': {why}' if why else ''}."
    if result.verdict == "ask":
        why = f": {result.reason}" if result.reason else ""
        if confirm is None:
            return f"A hook wants this switch approved, and nobody can approve it{why}."
        if not confirm(f"A hook wants your approval of the switch to {switch.to_model}{why}. Switch?"):
            return "The model stays."
    return None


def after_switch(deps: TurnDeps, switch: ModelSwitch) -> Generator[Event, None, None]:
    """Run the PostModelSwitch hooks; the model gets their additions with its next request."""
    deps.state.inbox.extend((yield from fire_context(deps, events.post_model_switch(switch))))


def folder_added(deps: TurnDeps, folder: str, source: str) -> None:
    """Run the DirectoryAdded hooks in the background."""
    step = events.directory_added(folder, source)
    if deps.hooks.wants(step.event, step.subject):
        deps.hooks.run_in_background(step.event, {"permission_mode": deps.policy.mode, **step.fields})


def end_hooks(deps: TurnDeps, reason: str) -> Generator[Event, None, None]:
    """Run the SessionEnd hooks."""
    with suppress(CancelledError):
        yield from fire(deps, events.session_end(reason))

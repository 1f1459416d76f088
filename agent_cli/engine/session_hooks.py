"""Before a message is sent: the hooks of SessionStart and UserPromptSubmit, and what they add to the conversation."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.core.events import Event, Warned
from agent_cli.core.hooks import HookEvent
from agent_cli.core.messages import OF_PROGRAM
from agent_cli.core.outcome import Denial, Diagnostics, Failed, Failure, TerminalReason, TurnEnd, TurnResult
from agent_cli.core.usage import Usage
from agent_cli.engine.hooked import base_payload
from agent_cli.engine.turn import Kit
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.shell import find_bash
from agent_tools.shell_env import command_env
from agent_tools.shell_state import exports

if TYPE_CHECKING:
    from agent_cli.engine.drive import Conversation

_SOURCE = '. "$1" >/dev/null 2>&1 </dev/null; export -p'
_SECONDS = 30.0


def session_start(kit: Kit, source: str, model: str) -> Generator[Event, None, tuple[str, ...]]:
    """Run the SessionStart hooks; returns messages for the model. source: startup, resume, clear or compact.

    What a hook writes into the file that CLAUDE_ENV_FILE names is read by bash, and what it exports is there for the
    commands of the session. Raises CancelledError.
    """
    if not kit.hooks.wants("SessionStart", source):
        return ()
    handle, name = tempfile.mkstemp(prefix="agent-env-")
    os.close(handle)
    try:
        data = {**base_payload(kit), "source": source, "model": model, "env_file": name}
        result = yield from kit.hooks.run("SessionStart", data, kit.context.cancel)
        if Path(name).stat().st_size and not _take_environment(kit, Path(name)):
            yield Warned("What the SessionStart hooks wrote into CLAUDE_ENV_FILE could not be used.")
    except FileNotFoundError:
        pass
    finally:
        Path(name).unlink(missing_ok=True)
    return contexts("SessionStart", result.context)


def _take_environment(kit: Kit, file: Path) -> bool:
    """Give the commands of the session what the file exports."""
    from agent_tools.clipping import HeadTail
    from agent_tools.process import run_process

    context = kit.context
    bash = find_bash(context)
    if bash is None:
        return False
    base, _ = command_env(context)
    kept = HeadTail(1 << 20, 0)
    argv = [bash, "--noprofile", "--norc", "-c", _SOURCE, "bash", str(file)]
    running = run_process(argv, context.workspace.root, context.shell.applied(base), _SECONDS, context.cancel, kept)
    try:
        while True:
            next(running)
    except StopIteration as stop:
        if stop.value.cause != "exit" or not kept.complete:
            return False
    found = {os.fsdecode(n): os.fsdecode(v) for n, v in exports(b"".join(kept.lines(1 << 20)))}
    return context.shell.learn(found, base)


def prompt_submit(kit: Kit, prompt: str) -> Generator[Event, None, tuple[tuple[str, ...], str | None]]:
    """Run the UserPromptSubmit hooks; returns messages for the model, and why the prompt is blocked or None.

    Raises CancelledError.
    """
    if not kit.hooks.wants("UserPromptSubmit"):
        return (), None
    result = yield from kit.hooks.run("UserPromptSubmit", {**base_payload(kit), "prompt": prompt}, kit.context.cancel)
    if result.verdict == "deny" or result.stop is not None:
        return (), result.reason or result.stop or "a hook blocked it"
    return contexts("UserPromptSubmit", result.context), None


def incoming(kit: Kit, texts: list[str]) -> Generator[Event, None, list[str]]:
    """Messages that came while a turn ran, as its hooks leave them: one that is blocked is not sent."""
    found = []
    for text in texts:
        if text.startswith(OF_PROGRAM):
            found.append(text)
            continue
        added, blocked = yield from prompt_submit(kit, text)
        if blocked is not None:
            yield Warned(f"Your message was not sent: a hook blocked it: {blocked}")
        else:
            found += [text, *added]
    return found


def contexts(event: HookEvent, texts: tuple[str, ...]) -> tuple[str, ...]:
    """What hooks add, each as a message that is told from the user's words."""
    return tuple(f'<hook_context event="{event}">\n{text}\n</hook_context>' for text in texts)


def opening(conversation: Conversation, typed: str) -> Generator[Event, None, tuple[str, ...] | TurnResult]:
    """What hooks do before a message is sent: messages to send with it, or the end of a turn that does not begin."""
    kit = conversation.kit
    kit.context.cancel = CancelToken()
    try:
        started = yield from _begin(conversation)
        added, blocked = yield from prompt_submit(kit, typed)
    except CancelledError:
        return Failed(_nothing("interrupted"))
    if blocked is None:
        return (*started, *added)
    # What the session start had to say is not lost with this message.
    conversation.inbox += started
    message = f"The message was not sent: a hook blocked it: {blocked}"
    if kit.attended:
        yield Warned(message)
    denial = Denial("", "UserPromptSubmit", {"prompt": typed}, f"was blocked by a hook: {blocked}", "hook")
    end = _nothing("stopped_by_hook").but(denials=(denial,))
    return Failed(end, failure=Failure("blocked", message), text=message)


def beginning(conversation: Conversation) -> Generator[Event, None, tuple[str, ...]]:
    """What hooks do before a suspended turn goes on."""
    conversation.kit.context.cancel = CancelToken()
    try:
        return (yield from _begin(conversation))
    except CancelledError:
        return ()


def _begin(conversation: Conversation) -> Generator[Event, None, tuple[str, ...]]:
    source, conversation.source = conversation.source, ""
    if not source:
        return ()
    try:
        return (yield from session_start(conversation.kit, source, conversation.options.label))
    except CancelledError:
        conversation.source = source
        raise


def ending(conversation: Conversation, reason: str) -> Generator[Event, None, None]:
    """The hooks of SessionEnd."""
    kit = conversation.kit
    try:
        yield from kit.hooks.run("SessionEnd", {**base_payload(kit), "reason": reason}, kit.context.cancel)
    except CancelledError:
        return


def _nothing(reason: TerminalReason) -> TurnEnd:
    return TurnEnd((), Usage(), Diagnostics(0, 0, 0, 0, "", reason))

"""Questions at the start of a session.

The first start: which model, if there are several; how commands run; hints to begin with.
Later starts: trust in a project that is new or has changed, and the summary of a resumed session.
"""

from __future__ import annotations

import os
from typing import Any

from rich.console import Console

from agent_cli.config.layers import Layers
from agent_cli.config.parsing import SettingsError
from agent_cli.config.run_options import RunOptions
from agent_cli.core.events import Warned
from agent_cli.core.place import RunEnvironment
from agent_cli.runtime.environment import (
    decline_trust,
    is_declined,
    project_files,
    read_settings,
    remember_trust,
)
from agent_cli.runtime.mcp import approvals_of, unapproved
from agent_cli.runtime.saved_settings import save_setting
from agent_cli.session.history import exchange_of, last_exchange
from agent_cli.session.records import Restored
from agent_cli.session.store import SessionStore, state_folder
from agent_cli.terminal.dialogs.lines import LineDialogs
from agent_cli.terminal.dialogs.model import Dialog, Prose
from agent_cli.terminal.dialogs.questions import Dialogs, confirm_dialog
from agent_cli.terminal.editor import read_line
from agent_cli.terminal.slash import SlashContext
from agent_tools.lazy import lazy_imports
from agent_tools.lookalikes import visible
from agent_tools.text import counted, one_line, shorten

with lazy_imports():
    from agent_cli.providers import discover  # only at few starts
    from agent_tools.sandbox import sandbox  # only at few starts

_SANDBOX = (
    (
        "In the sandbox, without asking",
        "tests, builds and linters just run; deleting files, leaving the workspace and the network still ask",
    ),
    ("Ask before every command", "what you allow runs in the sandbox, too"),
)


def hints(mode_key: str, *, unasked: bool) -> tuple[str, str]:
    """Return hints for beginners. mode_key: changes the permission mode. unasked: commands run in the sandbox."""
    asked = "commands run in the sandbox; leaving it asks first" if unasked else "changes need your approval"
    return (
        "  /help lists the commands; @ mentions a file, ! runs a command",
        f"  {asked}; {mode_key} changes what is asked about",
    )


def is_first_start(place: RunEnvironment) -> bool:
    """Return True if this user has no state directory yet."""
    return not os.path.isdir(state_folder(place.env))  # noqa: PTH112 - the method raises in closed folders


def ask_before_start(
    options: RunOptions, place: RunEnvironment, layers: Layers, console: Console, *, first: bool
) -> Layers:
    """Ask what is needed before a session begins, if a user is present; return the updated settings.

    first: it is the user's first session. Raises UsageError.
    """
    dialogs = LineDialogs(console, read_line)
    if os.isatty(0):
        layers = _settle_trust(options, place, layers, dialogs)
        _settle_servers(options, place, layers, dialogs)
    if first:
        choose_first_model(dialogs, options, layers, place)
        choose_sandbox(dialogs, layers, place)
    return layers


def _settle_trust(options: RunOptions, place: RunEnvironment, layers: Layers, dialogs: Dialogs) -> Layers:
    """Ask for trust in the project if it brings anything that would take effect."""
    if layers.trust.state not in ("untrusted", "changed"):
        return layers
    # Files are read before and after the settings, so that the user agrees to exactly what was shown.
    files = project_files(place)
    if is_declined(place, files):
        return layers
    layers = read_settings(options, place)
    if not dialogs.put(trust_dialog(layers)):
        if not decline_trust(place, files):
            dialogs.say("Not trusted; you are asked again when it changes. To trust it later: agent trust")
        return layers
    if why := remember_trust(place, files):
        dialogs.say(f"warning: your answer was not kept, because {why}; --trust trusts for one session")
    return read_settings(options, place)


def _settle_servers(options: RunOptions, place: RunEnvironment, layers: Layers, dialogs: Dialogs) -> None:
    """Ask about project MCP servers that are not approved as declared."""
    for found, why in unapproved(options, place, layers):
        if dialogs.put(server_dialog(found, why)) and (problem := approvals_of(place).approve(found)):
            dialogs.say(f"warning: your answer was not kept, because {problem}")


def choose_first_model(dialogs: Dialogs, options: RunOptions, layers: Layers, place: RunEnvironment) -> None:
    """Ask which model to use if none is configured and several are available; save the answer for the user."""
    if options.model or layers.settings().model or options.resume or options.continue_ or not os.isatty(0):
        return
    found = discover.discover(place.env)
    if len(found) < 2:
        return
    chosen = dialogs.choose("Which model? (/model changes it at any time)", found)
    if chosen is None:
        return
    name = found[chosen][0]
    layers.add({"model": name}, "your choice", place.root)
    _save(dialogs, place, "model", name)


def choose_sandbox(dialogs: Dialogs, layers: Layers, place: RunEnvironment) -> None:
    """Ask whether commands run in the sandbox without approval, if there is one and no setting says so."""
    asked = layers.settings().sandbox
    if asked.mode == "off" or "sandbox.auto_allow" in layers.origins or not os.isatty(0):
        return
    if sandbox.choose(asked.mode, sandbox.trial_profile(), place.env).kind != "bubblewrap":
        return
    chosen = dialogs.choose("How should commands run? (/config sandbox.auto_allow changes it later)", _SANDBOX)
    if chosen is not None:
        layers.add({"sandbox": {"auto_allow": chosen == 0}}, "your choice", place.root)
        _save(dialogs, place, "sandbox.auto_allow", chosen == 0)


def _save(dialogs: Dialogs, place: RunEnvironment, key: str, value: Any) -> None:
    if place.home is None:
        return
    try:
        save_setting(place.home / ".agentrc", key, value)
    except (SettingsError, OSError):
        dialogs.say("  this applies to this session only; ~/.agentrc could not be changed")
    else:
        dialogs.say(f"  saved as `{key}` in ~/.agentrc")


def trust_dialog(layers: Layers) -> Dialog:
    """Return the question whether to trust the project, with everything it brings in full."""
    trust = layers.trust
    if trust.state == "changed":
        title, *lines = f"{trust.root} has changed since you trusted it: {', '.join(trust.changed)}", "  It brings:"
    else:
        title, lines = f"You have not trusted {trust.root} yet. It brings:", []
    for held in layers.held:
        lines.append(f"  - {os.path.relpath(held.source, trust.root)} sets {held.key}: {held.shown}")
    lines += [
        *(f"  - {phrase}" for phrase in trust.brings),
        "  y: all of this takes effect, until it changes, and git may be used in it without a question",
        "  n: it is ignored; only what makes things stricter takes effect",
    ]
    return _before_start(title, lines, "Trust it?")


def server_dialog(found: Any, why: str) -> Dialog:
    """Return the question whether an MCP server of the project may start."""
    title = f"The MCP server {found.name} of this project {why}. It is {found.line}"
    given = [f"  {what}: {given}" for what, given in found.given.items()]
    return _before_start(title, given, "Let it start, until it changes?")


def _before_start(title: str, lines: list[str], question: str) -> Dialog:
    """Return a yes-or-no question whose continuation lines are indented, so they cannot pass for ours."""
    body = [Prose(visible(one_line(line)), more="    ") for line in lines]
    return confirm_dialog(visible(one_line(title)), body, question)


# Lines shown of the user's message.
_LINES = 12
BROKE_OFF = "the last turn broke off here"


def greet_resumed(ctx: SlashContext) -> None:
    """Report what was restored and show the last exchange."""
    restored = ctx.agent.restored
    if restored is None:
        return
    ctx.say(f"  {restored_words(restored)}")
    log = SessionStore(state_folder(ctx.place.env), ctx.place.root).path(restored.header.session_id)
    exchange = last_exchange(log) or exchange_of(restored.history)
    if exchange is None:
        return
    lines = exchange.question.strip().splitlines()
    more = f"… {counted(len(lines) - _LINES, 'more line')}"
    for number, line in enumerate(lines[:_LINES] + ([more] if len(lines) > _LINES else [])):
        ctx.say(f"{'  ' if number else '> '}{line}")
    if exchange.skipped:
        ctx.say(f"  … {counted(exchange.skipped, 'earlier step')} of this turn")
    for event in exchange.events:
        ctx.show_event(event)
    if restored.last is None and restored.waiting is None:
        ctx.show_event(Warned(BROKE_OFF))


def restored_words(restored: Restored) -> str:
    """Summarize a restored session on one line."""
    cost = f", ${restored.usage.cost:.4f} so far" if restored.usage.cost else ""
    tokens = f", {counted(restored.tokens, 'token')}" if restored.tokens else ""
    name = f": {shorten(restored.name, 60)}" if restored.name else ""
    messages = counted(len(restored.history), "message")
    return f"restored {messages}{tokens}{cost} of session {restored.header.session_id[:8]}{name}"

"""Run one tool call without a session, through the same steps as a call of the model.

Settings, rules and mode are those of a one-shot run; nobody can be asked (so what needs approval is denied), and files
need not be read first.
"""

from __future__ import annotations

import json
import os
from typing import Any

from agent_cli.config.layers import Layers
from agent_cli.config.run_options import RunOptions
from agent_cli.config.schema import Settings
from agent_cli.core.events import ApprovalRequested, Event, Warned
from agent_cli.core.hooks import Hooks
from agent_cli.core.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from agent_cli.core.place import RunEnvironment
from agent_cli.engine.executor import run_calls
from agent_cli.engine.loop import run_turn
from agent_cli.engine.turn import ConversationState, ToolTable, Turn, TurnDeps
from agent_cli.engine.types import TurnOptions
from agent_cli.headless.printing import print_notice
from agent_cli.headless.run import deny
from agent_cli.permissions.policy import Policy
from agent_cli.providers.scripted import Scripted
from agent_cli.runtime.environment import check_mode, find_place, read_settings
from agent_cli.runtime.hooks import make_hooks
from agent_cli.runtime.tools import make_context, make_policy, make_workspace
from agent_tools.base import ToolContext
from agent_tools.cancel import CancelledError
from agent_tools.media import Media
from agent_tools.record import Value
from agent_tools.registry import BUILTIN
from agent_tools.text import escape_controls, one_line


class ToolRun(Value, tag="Ran"):
    """The result of the call. hint: the rule that would have allowed what was denied."""

    text: str
    is_error: bool
    denied: bool = False
    hint: str = ""
    media: tuple[Media, ...] = ()


class Alone(Value):
    """The dependencies of calls without user and model, as in a one-shot run here."""

    place: RunEnvironment
    layers: Layers
    settings: Settings
    context: ToolContext
    policy: Policy
    hooks: Hooks


def alone(options: RunOptions) -> Alone:
    """Build them from the environment and its settings. Raises UsageError."""
    place = find_place(os.environ)
    layers = read_settings(options, place)
    for text in layers.ignored:
        print_notice(f"agent: {one_line(text)}.")
    settings = layers.settings()
    check_mode(settings.permissions.mode, place.env)
    workspace = make_workspace(place, settings)
    context = make_context(workspace, settings, place, require_read_first=False)
    policy = make_policy(workspace, settings, layers, context, place.home, answered=False)
    hooks = make_hooks(settings, layers, place, context, ("", None), asked=False)
    return Alone(place, layers, settings, context, policy, hooks)


def run_call(call: ToolCall, here: Alone) -> ToolRun:
    """Run one call through the executor: prepare, permit, run, finish; with the hooks of calls."""
    context = here.context
    rules: list[str] = []

    def refuse(request: ApprovalRequested) -> Any:
        rules.append(request.always)
        return deny(request)

    # The engine needs a model; this script without replies must never be called.
    deps = TurnDeps(
        Scripted([]), ToolTable(BUILTIN), context, here.policy, refuse, ConversationState(), hooks=here.hooks
    )
    options = TurnOptions(model="none", label="none", system="")
    # The arguments are the caller's own words, including URLs.
    said = UserMessage(json.dumps(call.arguments, ensure_ascii=False))
    turn = Turn([said, AssistantMessage((call,))], deps, options, run_turn)
    steps = run_calls(turn, (call,))
    try:
        for event in steps:
            _show(event)
    except CancelledError:
        pass  # the call was answered before this was raised
    last = turn.history[-1]
    if not isinstance(last, ToolMessage):
        return ToolRun("Interrupted." if context.cancel.cancelled else "This tool needs the user to answer.", True)
    return ToolRun(last.text, last.is_error, bool(turn.denials), rules[0] if rules else "", last.media)


def _show(event: Event) -> None:
    """Show only warnings of a single tool run."""
    if isinstance(event, Warned):
        print_notice(f"agent: {escape_controls(event.text)}")

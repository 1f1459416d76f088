"""`agent tools`: list the tools, or run one from a script on the same road that a call of the model takes.

A run is a context of its own: settings, rules and mode as in a one-shot run, nobody to ask (so what would ask is
denied), and no earlier Read demanded.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
from typing import Any

from agent_cli.config.layers import Layers
from agent_cli.config.run_options import RunOptions
from agent_cli.config.schema import Settings
from agent_cli.core.events import ApprovalRequested, Event, Warned
from agent_cli.core.hooks import Hooks
from agent_cli.core.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from agent_cli.core.place import RunEnvironment, UsageError
from agent_cli.engine.executor import run_calls
from agent_cli.engine.loop import run_turn
from agent_cli.engine.turn import ConversationState, ToolTable, Turn, TurnDeps
from agent_cli.engine.types import TurnOptions
from agent_cli.extensions.loader import load_extensions
from agent_cli.headless.output import echo, put_json
from agent_cli.headless.printing import print_notice
from agent_cli.headless.run import Signals, deny
from agent_cli.permissions.policy import Policy
from agent_cli.providers.scripted import Scripted
from agent_cli.runtime.environment import check_mode, find_place, read_settings
from agent_cli.runtime.hooks import make_hooks
from agent_cli.runtime.permissions import make_policy
from agent_cli.runtime.tools import make_context, make_workspace, tool_specs
from agent_tools.base import ToolContext
from agent_tools.cancel import CancelledError
from agent_tools.media import Media
from agent_tools.record import Value
from agent_tools.registry import BUILTIN
from agent_tools.text import inert, one_line


class ToolRun(Value, tag="Ran"):
    """How the call ended. `hint`: the rule that would have allowed what was denied."""

    text: str
    is_error: bool
    denied: bool = False
    hint: str = ""
    media: tuple[Media, ...] = ()


class Alone(Value):
    """What calls run with where nobody is there to ask and no model either: as in a one-shot run here."""

    place: RunEnvironment
    layers: Layers
    settings: Settings
    context: ToolContext
    policy: Policy
    hooks: Hooks


def alone(options: RunOptions) -> Alone:
    """The place, its settings, and what is joined from them. Raises UsageError."""
    place = find_place(os.environ)
    layers = read_settings(options, place)
    for text in layers.ignored:
        print_notice(f"agent: {one_line(text)}.")
    settings = layers.settings()
    check_mode(settings.permissions.mode, place.env)
    workspace = make_workspace(place, settings)
    context = make_context(workspace, settings, place, demand_read=False)
    policy = make_policy(workspace, settings, layers, context, place.home, answered=False)
    hooks = make_hooks(settings, layers, place, context, ("", None), asked=False)
    return Alone(place, layers, settings, context, policy, hooks)


def list_tools(as_json: bool) -> int:
    """Every built-in tool; the exit code."""
    specs = tool_specs(list(BUILTIN))
    if as_json:
        put_json([{"name": s.name, "description": s.description, "schema": s.schema} for s in specs])
        return 0
    width = max(len(s.name) for s in specs)
    echo("\n".join(f"{s.name:{width}}  {s.description.splitlines()[0]}" for s in specs))
    return 0


def run_tool(name: str, arguments: str | None, options: RunOptions, as_json: bool) -> int:
    """Run one tool; 0, or 1 for an error or a denial. Raises UsageError for an unknown tool and for bad JSON."""
    _check_name(name)
    call = ToolCall("call", name, _decode(_given(arguments)))
    here = alone(options)
    context = here.context
    load_extensions(options, here.place, here.layers, here.settings, lambda text: print_notice(f"agent: {text}")).join(
        context
    )
    # Long output is cut here: a file with all of it would be gone with this process.
    context.workspace.scratch.close()
    watch = Signals(lambda: context.cancel.cancel())
    try:
        with watch:
            ran = _left_out(name, here.settings) or run_call(call, here)
    finally:
        here.hooks.close()
        context.close()
    _print(ran, as_json)
    return 128 + watch.caught if watch.caught else int(ran.is_error)


def run_call(call: ToolCall, here: Alone) -> ToolRun:
    """One call through the executor: prepare, permit, run, finish; with the hooks of calls."""
    context = here.context
    rules: list[str] = []

    def refuse(request: ApprovalRequested) -> Any:
        rules.append(request.always)
        return deny(request)

    # The engine wants a model; a script without replies is one that must never be asked.
    kit = TurnDeps(
        Scripted([]), ToolTable(BUILTIN), context, here.policy, refuse, ConversationState(), hooks=here.hooks
    )
    options = TurnOptions(model="none", label="none", system="")
    # The arguments are the caller's own words, addresses of pages included.
    said = UserMessage(json.dumps(call.arguments, ensure_ascii=False))
    turn = Turn([said, AssistantMessage((call,))], kit, options, run_turn)
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
    """Of what happens while a single tool runs, only warnings are shown."""
    if isinstance(event, Warned):
        print_notice(f"agent: {inert(event.text)}")


def _print(ran: ToolRun, as_json: bool) -> None:
    """The result on standard output; a denial, which is none, on standard error."""
    if as_json:
        put_json({"text": ran.text, "is_error": ran.is_error})
    elif not ran.denied:
        echo(ran.text)
    if ran.denied:
        allow = f" To allow it: --allowedTools '{inert(ran.hint)}'" if ran.hint and "'" not in ran.hint else ""
        print_notice(f"agent: {inert(ran.text)}{allow}")


def _left_out(name: str, settings: Settings) -> ToolRun | None:
    """The denial of a tool that the settings do not offer; None where they do."""
    wanted = settings.tools
    if wanted is None or "default" in wanted or name in wanted:
        return None
    return ToolRun(f"Permission was denied: the setting `tools` leaves {name} out.", True, denied=True)


def _check_name(name: str) -> None:
    """Raises UsageError for a name that is no tool, with the nearest that is."""
    known = {tool.name.lower(): tool.name for tool in BUILTIN}
    if name in known.values():
        return
    near = difflib.get_close_matches(name.lower(), known, 1)
    hint = f" Did you mean {known[near[0]]}?" if near else f" The tools are: {', '.join(known.values())}."
    raise UsageError(f"There is no tool named {inert(name)}.{hint}")


def _given(arguments: str | None) -> str:
    """The JSON text: the argument, or standard input where there is none (or `-`) and it is no terminal."""
    if arguments not in (None, "-"):
        return arguments or ""
    if sys.stdin is None or (arguments is None and sys.stdin.isatty()):
        return ""
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError("The arguments on standard input are not UTF-8 text.") from None


def _decode(text: str) -> dict[str, Any]:
    """The arguments as an object; nothing at all is an empty one. Raises UsageError."""
    if not text.strip():
        return {}
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The arguments are not JSON: {error}.") from None
    if not isinstance(data, dict):
        raise UsageError('The arguments must be one JSON object, for example {"pattern": "*.py"}.')
    return data

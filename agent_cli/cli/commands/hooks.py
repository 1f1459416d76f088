"""List and test hooks: your own commands, run at session events."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Annotated, Any

import typer

from agent_cli import Config, Layers, RunEnvironment, UsageError, Warned, find_environment, read_settings
from agent_cli.cli import completion
from agent_cli.cli.app import AsJson, ListingGroup, with_run_options
from agent_cli.cli.help import examples
from agent_cli.console import echo, print_ignored, print_json, print_notice, table
from agent_cli.hooks import Hook, HookResult
from agent_cli.hooks.events import HOOK_EVENTS, HookEventRow, event_subject, hook_line
from agent_cli.kernel.events import HookFinished
from agent_cli.kernel.runtime.hooks import LoneHooks
from agent_cli.knowledge.loader import Extensions, load_extensions
from agent_tools.base import ToolContext, ToolError
from agent_tools.fs.safe_files import read_regular
from agent_tools.fs.workspace import Workspace
from agent_tools.record import Value
from agent_tools.registry import SHELL, tool_traits
from agent_tools.text import one_line

_MAX_ENV_FILE_BYTES = 1 << 20


app = typer.Typer(cls=ListingGroup, add_completion=False)


class HookListEntry(Value):
    """A hook in the list. status: "runs", or why it does not."""

    hook: Hook
    status: str


def hook_rows(layers: Layers) -> list[HookListEntry]:
    """Return all configured hooks in the order they run, then those that are held."""
    settings = layers.settings()
    running = layers.active_hooks(settings)
    found = [HookListEntry(h, "runs" if h in running else "disabled (disable_hooks)") for h in settings.hooks]
    found = [e.replace(status="cannot run") if e.hook.unusable else e for e in found]
    return found + [HookListEntry(h, "held: the project is not trusted") for h in layers.held_hooks]


def front_matter_rows(found: Extensions) -> list[HookListEntry]:
    """Return the hooks in the front matter of agents, skills and commands, with when they run."""
    return [HookListEntry(hook, f"runs {when}") for when, hook in found.front_hooks]


@app.command("list", epilog=examples("agent hooks list"))
@with_run_options("settings", "trust")
def list_hooks(config: Config, as_json: AsJson = False) -> int:
    """List the hooks in the order they run, with their source, and whether they run."""
    run_env = find_environment(os.environ)
    layers = _layers(config, run_env)
    rows = hook_rows(layers) + front_matter_rows(
        load_extensions(config, run_env, layers, layers.settings(), print_notice)
    )
    if as_json:
        print_json([_to_json(row) for row in rows])
    elif rows:
        echo("\n".join(hook_table_lines(rows, run_env)))
    else:
        echo("There are no hooks. See docs/hooks.md for how to write one.")
    return 0


def hook_table_lines(rows: list[HookListEntry], run_env: RunEnvironment) -> list[str]:
    """Format the hooks as a table."""
    cells = [(r.hook.event, r.hook.where or "*", _command(r.hook), _source(r.hook, run_env), r.status) for r in rows]
    return table(("EVENT", "MATCHER", "COMMAND", "FROM", "STATE"), cells)


def _command(hook: Hook) -> str:
    more = ", strict" if hook.strict else ""
    limit = f" ({hook.timeout:g} s{more})" if hook.timeout != Hook.timeout or more else ""
    return one_line(" ".join((hook.command, *hook.args))) + limit


def _source(hook: Hook, run_env: RunEnvironment) -> str:
    home = str(run_env.home) if run_env.home else None
    inside = os.path.relpath(hook.source, run_env.root) if hook.source.startswith(f"{run_env.root}/") else ""
    return inside or (hook.source.replace(home, "~", 1) if home and hook.source.startswith(f"{home}/") else hook.source)


def _to_json(row: HookListEntry) -> dict[str, Any]:
    hook = row.hook
    return {
        "event": hook.event, "matcher": hook.matcher, "if": hook.only, "type": hook.kind, "command": hook.command,
        "args": list(hook.args), "headers": hook.headers, "allowed_env_vars": list(hook.variables),
        "timeout": hook.timeout, "strict": hook.strict, "source": hook.source, "own": hook.from_user,
        "standing": row.status,
    }  # fmt: skip


@app.command(
    "test",
    epilog=examples(
        "agent hooks test SessionStart", 'agent hooks test PreToolUse --tool Bash --input \'{"command": "make"}\''
    ),
)
@with_run_options("settings", "trust")
def test_hooks(
    config: Config,
    event: Annotated[
        str, typer.Argument(help="Event, e.g. PreToolUse.", metavar="EVENT", autocompletion=completion.complete_events)
    ],
    given: Annotated[
        str, typer.Option("--input", metavar="JSON", help="Fields of the event; for a tool call, its input is enough.")
    ] = "",
    tool: Annotated[
        str,
        typer.Option(
            "--tool", metavar="NAME", help="Tool to call, e.g. Bash.", autocompletion=completion.complete_tools
        ),
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Run the hooks of an event for real, and show their answers and what would happen."""
    row = next((r for r in HOOK_EVENTS.values() if r.name.lower() == event.lower()), None)
    if row is None:
        raise UsageError(f"Unknown hook event {event!r}. Known events: {', '.join(HOOK_EVENTS)}.")
    name = row.name
    data = _event_data(row, given, tool)
    run_env = find_environment(os.environ)
    layers = _layers(config, run_env)
    held = [h for h in layers.held_hooks if h.event == name]
    context = ToolContext(Workspace(run_env.root, (), run_env.cwd), env=dict(run_env.env))
    hooks = LoneHooks(layers, run_env, context, "00000000-test")
    if row.about_call:
        try:
            hooks.complete_call(data)
        except ToolError as error:
            raise UsageError(f"--input: {error}") from None
    subject = event_subject(name, data)
    chosen = hooks.matching(name, subject)
    if not as_json:
        for hook in held:
            echo(f"held, as the project is not trusted: {one_line(str(hook))}")
        if not chosen:
            echo(f"No hook would run at {name}{f' for {subject}' if subject else ''}.")
    ran: list[HookFinished] = []
    result = HookResult()
    if chosen:
        with tempfile.NamedTemporaryFile() as file:
            more = {"env_file": file.name} if row.sets_variables else {}

            def show(found: object) -> None:
                if isinstance(found, HookFinished):
                    ran.append(found)
                    if not as_json:
                        _print_run(found)
                elif isinstance(found, Warned) and not as_json:
                    echo(f"  to you: {found.text}")

            result = hooks.run_once(name, {**data, **more}, show)
            exported = read_regular(file.name, _MAX_ENV_FILE_BYTES).decode("utf-8", "replace").strip()
    if as_json:
        print_json(
            {
                "input": data, "verdict": result.verdict or None, "reason": result.reason, "changed": result.changed,
                "context": list(result.context), "stop": result.stop,
                "hooks": [{n: getattr(r, n) for n in r._fields} for r in ran],
            }
        )  # fmt: skip
    elif chosen:
        for line in describe_result(row, result):
            echo(line)
        if exported:
            echo(f"for commands: {exported}")
    return 0


def _print_run(ran: HookFinished) -> None:
    echo(f"{hook_line(ran)} ({ran.source})")
    for what, text in (("stdout", ran.stdout), ("stderr", ran.stderr)):
        for number, line in enumerate(text.splitlines()):
            echo(f"  {what if not number else ' ' * len(what)} | {line}")


def describe_result(event: HookEventRow, result: HookResult) -> list[str]:
    """Describe the combined result of the hooks."""
    why = f": {result.reason}" if result.reason else ""
    lines = [f"{event.verdicts[result.verdict][1]}{why}"] if result.verdict in event.verdicts else []
    if result.changed is not None:
        lines.append(f"the input would be {json.dumps(result.changed, ensure_ascii=False)}")
    lines += [f"the model would get: {text}" for text in result.context]
    if result.stop is not None:
        lines.append(f"the turn would end: {result.stop}")
    return [f"=> {line}" for line in lines or ["nothing would change"]]


def _layers(config: Config, run_env: RunEnvironment) -> Layers:
    layers = read_settings(config, run_env)
    print_ignored(layers.ignored)
    return layers


def _event_data(event: HookEventRow, given: str, tool: str) -> dict[str, Any]:
    """Return the fields of the event: samples, overridden by the user's input."""
    data: dict[str, Any] = {"permission_mode": "default", **event.example}
    if event.about_call:
        name = tool or SHELL.name
        data |= {"tool_name": name, "tool_input": dict(tool_traits(name).example), "tool_use_id": "test"}
    elif tool:
        about_calls = ", ".join(row.name for row in HOOK_EVENTS.values() if row.about_call)
        raise UsageError(f"--tool is for {about_calls}; {event.name} has none.")
    if not given:
        return data
    try:
        found = json.loads(given)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--input: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError("--input: expected a JSON object.")
    # For a tool, its input is enough.
    bare = event.about_call and not found.keys() & {"tool_input", "tool_name", "tool_response"}
    return data | ({"tool_input": found} if bare else found)

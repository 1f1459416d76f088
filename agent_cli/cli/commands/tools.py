"""List the tools, or run one from a script.

A call runs without a session, through the same steps as a call of the model. Settings, rules and mode are those of a
one-shot run; nobody can be asked (so what needs approval is denied), and files need not be read first.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
from typing import Annotated, Any

import typer

from agent_cli import Config, ToolCall, UsageError, find_environment, read_settings
from agent_cli.cli import completion
from agent_cli.cli.app import ListingGroup, with_run_options
from agent_cli.cli.help import examples
from agent_cli.console import echo, print_ignored, print_json, print_warning
from agent_cli.kernel.runtime.tool_box import ToolBox, ToolRun
from agent_tools.process.child import StopSignals
from agent_tools.registry import BUILTIN
from agent_tools.text import escape_controls

app = typer.Typer(cls=ListingGroup, add_completion=False)


@app.command("list", epilog=examples("agent tools list"))
def list_tools(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the schema of each tool.")] = False,
) -> int:
    """List the tools."""
    specs = ToolBox.all_specs()
    if as_json:
        print_json([{"name": s.name, "description": s.description, "schema": s.schema} for s in specs])
        return 0
    width = max(len(s.name) for s in specs)
    echo("\n".join(f"{s.name:{width}}  {s.description.splitlines()[0]}" for s in specs))
    return 0


@app.command("run", epilog=examples('agent tools run Grep \'{"pattern": "TODO"}\''))
@with_run_options(
    "permission_mode", "allowed_tools", "ask_tools", "disallowed_tools", "add_dir",
    "settings", "trust", "bare", print=True,
)  # fmt: skip
def run_tool(
    config: Config,
    name: Annotated[
        str, typer.Argument(help="Tool, e.g. Grep.", metavar="NAME", autocompletion=completion.complete_tools)
    ],
    arguments: Annotated[
        str | None, typer.Argument(metavar="[JSON]", help="Its arguments; read from standard input by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print text and is_error as JSON.")] = False,
) -> int:
    """Run one tool with the permissions of a session. Exits with 0, 1 on an error or a denial, 2 on wrong usage."""
    _check_name(name)
    call = ToolCall("call", name, _decode(_read_arguments(arguments)))
    here = open_tool_box(config, extensions=True)
    context = here.context
    # Long output is truncated here: a file with all of it would be deleted with this process.
    context.workspace.scratch.close()
    watch = StopSignals(lambda: context.cancel.cancel())
    try:
        with watch:
            ran = _disabled_result(name, here) or here.run(call, warn_of_call)
    finally:
        here.close()
    _print(ran, as_json)
    return 128 + watch.caught if watch.caught else int(ran.is_error)


def _print(ran: ToolRun, as_json: bool) -> None:
    """Print the result on standard output; a denial, which is no result, on standard error."""
    if as_json:
        print_json({"text": ran.text, "is_error": ran.is_error})
    elif not ran.denied:
        echo(ran.text)
    if ran.denied:
        allow = (
            f" To allow it: --allowedTools '{escape_controls(ran.hint)}'" if ran.hint and "'" not in ran.hint else ""
        )
        print_warning(f"{escape_controls(ran.text)}{allow}")


def _disabled_result(name: str, here: ToolBox) -> ToolRun | None:
    """Return the denial if the settings disable the tool, else None."""
    wanted = here.settings.tools
    if wanted is None or "default" in wanted or name in wanted:
        return None
    return ToolRun(f"Permission was denied: the setting `tools` does not include {name}.", True, denied=True)


def _check_name(name: str) -> None:
    """Raise UsageError, with the nearest name, if there is no such tool."""
    known = {tool.name.lower(): tool.name for tool in BUILTIN}
    if name in known.values():
        return
    near = difflib.get_close_matches(name.lower(), known, 1)
    hint = f" Did you mean {known[near[0]]}?" if near else f" The tools are: {', '.join(known.values())}."
    raise UsageError(f"Unknown tool {escape_controls(name)}.{hint}")


def _read_arguments(arguments: str | None) -> str:
    """Return the JSON text: the argument, or standard input without one (or for `-`) unless it is a terminal."""
    if arguments not in (None, "-"):
        return arguments or ""
    if sys.stdin is None or (arguments is None and sys.stdin.isatty()):
        return ""
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError("The arguments on standard input are not UTF-8 text.") from None


def _decode(text: str) -> dict[str, Any]:
    """Parse the arguments as an object; no input is an empty one. Raises UsageError."""
    if not text.strip():
        return {}
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The arguments are not JSON: {error}.") from None
    if not isinstance(data, dict):
        raise UsageError('The arguments must be one JSON object, for example {"pattern": "*.py"}.')
    return data


def open_tool_box(config: Config, *, extensions: bool) -> ToolBox:
    """Return the tools with the environment of this process and its settings. Raises UsageError.

    extensions: with the user's commands, skills and types of sub-agents.
    """
    run_env = find_environment(os.environ)
    layers = read_settings(config, run_env)
    print_ignored(layers.ignored)
    return ToolBox.one_shot(config, run_env, layers, print_warning, extensions=extensions)


def warn_of_call(text: str) -> None:
    """Show a warning of a single tool run, the only event that is shown."""
    print_warning(escape_controls(text))

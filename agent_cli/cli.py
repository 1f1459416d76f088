"""The command line in Typer: the commands, and the options of a run built from the table in `options.py`.

Typer reads every line that the quick parser does not, words the mistakes, prints --help and completes in the shell.
"""

from __future__ import annotations

import inspect
import sys
from typing import Annotated, Any, cast, get_args

import typer
from typer.core import TyperGroup

from agent_cli import __version__
from agent_cli.core.modes import MODES
from agent_cli.options import FORMATS, RunOptions, flags, spell_out

PROMPT = "send-prompt"


class PromptGroup(TyperGroup):
    """A group whose first word, where it names no command, begins the prompt; options may stand on either side."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["prompt"] = not (args and args[0] in self.commands and args[0] != PROMPT)
        ctx.allow_interspersed_args = ctx.meta["prompt"]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if ctx.meta["prompt"]:
            return PROMPT, self.commands[PROMPT], ["--", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=PromptGroup,
    invoke_without_command=True,
    subcommand_metavar="[PROMPT... | COMMAND]",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "Exit codes of -p: 0 done or degraded, 1 failed, 2 usage or settings, 3 waiting for a person, 4 stopped by a "
        "limit, 5 denied (--fail-on-denied), 75 worth trying again, 130 interrupted. "
        "`agent -- WORD` sends a word that is also a command."
    ),
)
tools_app = typer.Typer(help="List the tools, or run one from a script.", no_args_is_help=True)
sessions_app = typer.Typer(help="The sessions of this project.", no_args_is_help=True)
app.add_typer(tools_app, name="tools")
app.add_typer(sessions_app, name="sessions")
permissions_app = typer.Typer(help="The permission rules in force.", no_args_is_help=True)
app.add_typer(permissions_app, name="permissions")


def _choice(choices: tuple[str, ...]) -> Any:
    def check(value: str | None) -> str | None:
        if value == "auto" and "bypassPermissions" in choices:
            raise typer.BadParameter("auto (a model that decides) is not offered; use acceptEdits or allow rules.")
        if value is not None and value not in choices:
            raise typer.BadParameter(f"{value} is none of {', '.join(choices)}.")
        return value

    return check


def _parameters() -> list[inspect.Parameter]:
    """The run's options as Typer parameters."""
    parameters = []
    for name, (flag, kind) in flags().items():
        inner = next((a for a in get_args(kind) if a is not type(None)), kind)
        many = str(kind).startswith("tuple")
        option = typer.Option(
            *flag.names,
            help=flag.help,
            rich_help_panel=flag.panel,
            metavar=flag.metavar or ("|".join(flag.choices) or None),
            callback=_choice(flag.choices) if flag.choices else None,
        )
        default = None if many else getattr(RunOptions, name)
        hint = list[str] | None if many else bool if kind is bool else inner | None
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, option])
        )
    return parameters


def _version(value: bool) -> None:
    if value:
        typer.echo(f"agent {__version__}")
        raise typer.Exit


def _run(ctx: typer.Context, **values: Any) -> None:
    """A coding agent in your terminal. Without a command: start a session, with PROMPT as its first message."""
    values.pop("version", None)
    chosen: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if v not in (None, [])
    }
    options = RunOptions(**chosen)
    if ctx.invoked_subcommand is None:
        _start(options)
    ctx.obj = options


_context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
_show_version = inspect.Parameter(
    "version",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="The version.")],
)
_every = [_context, *_parameters(), _show_version]
cast(Any, _run).__signature__ = inspect.Signature(_every)
_run.__annotations__ = {p.name: p.annotation for p in _every}
app.callback()(_run)


@app.command(PROMPT, hidden=True)
def send_prompt(ctx: typer.Context, words: list[str]) -> None:
    """The prompt of a run."""
    _start(ctx.obj.but(prompt=tuple(words)))


def _start(options: RunOptions) -> None:
    from agent_cli.start import start

    raise typer.Exit(start(options, typed=sys.argv[1:]))


@app.command()
def demo(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; the demo's own rules answer.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the demo's folder.")] = False,
) -> None:
    """Watch the agent repair a small broken project. No key and no network needed."""
    from agent_cli.demo.run import run_demo

    raise typer.Exit(run_demo(yes=yes, keep=keep))


@app.command()
def doctor(json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False) -> None:
    """Say what is configured, found and missing."""
    from agent_cli.commands.doctor import run_doctor

    raise typer.Exit(run_doctor(as_json=json))


@app.command()
def models(
    search: Annotated[str, typer.Argument(help="Part of a name.")] = "",
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List known models with their window and price."""
    from agent_cli.commands.models import list_models

    raise typer.Exit(list_models(search, as_json=json))


@tools_app.command("list")
def tools_list(json: Annotated[bool, typer.Option("--json", help="With their JSON schemas.")] = False) -> None:
    """List the tools."""
    from agent_cli.commands.tools import list_tools

    raise typer.Exit(list_tools(as_json=json))


@tools_app.command("run")
def tools_run(
    name: Annotated[str, typer.Argument(help="The tool, e.g. Grep.")],
    arguments: Annotated[str | None, typer.Argument(help="Its arguments as JSON; else read from stdin.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print text and is_error as JSON.")] = False,
    permission_mode: Annotated[str | None, typer.Option("--permission-mode")] = None,
    allowed_tools: Annotated[list[str] | None, typer.Option("--allowedTools", "--allowed-tools")] = None,
    ask_tools: Annotated[list[str] | None, typer.Option("--askTools", "--ask-tools")] = None,
    disallowed_tools: Annotated[list[str] | None, typer.Option("--disallowedTools", "--disallowed-tools")] = None,
    add_dir: Annotated[list[str] | None, typer.Option("--add-dir")] = None,
    settings: Annotated[list[str] | None, typer.Option("--settings")] = None,
    trust: Annotated[bool, typer.Option("--trust")] = False,
    bare: Annotated[bool, typer.Option("--bare")] = False,
) -> None:
    """Run one tool, under the same permissions as in a session. Exit 0, 1 for an error or a denial, 2 for misuse."""
    from agent_cli.commands.tools import run_tool

    options = RunOptions(
        print=True,
        permission_mode=permission_mode,
        allowed_tools=tuple(allowed_tools or ()),
        ask_tools=tuple(ask_tools or ()),
        disallowed_tools=tuple(disallowed_tools or ()),
        add_dir=tuple(add_dir or ()),
        settings=tuple(settings or ()),
        trust=trust,
        bare=bare,
    )
    raise typer.Exit(run_tool(name, arguments, options, as_json=json))


Rules = Annotated[list[str] | None, typer.Option(metavar="RULE", help="A rule to judge by; repeatable.")]


@permissions_app.command("check")
def permissions_check(
    tool: Annotated[str, typer.Option(help="The tool, e.g. Bash.")] = "",
    given: Annotated[str, typer.Option("--input", metavar="JSON", help="The arguments of the call.")] = "",
    allow: Rules = None,
    ask: Rules = None,
    deny: Rules = None,
    mode: Annotated[str, typer.Option(help="The permission mode.")] = "",
    cwd: Annotated[str, typer.Option(metavar="DIR", help="Where the call would be made.")] = "",
    settings: Annotated[list[str] | None, typer.Option("--settings")] = None,
    isolated: Annotated[bool, typer.Option("--isolated", help="Without your rules and this machine's home.")] = False,
    batch: Annotated[bool, typer.Option("--batch", help="Answer JSON lines from stdin, each at once.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Explain what would be decided about a call. Nothing is run, and nothing needs to exist."""
    from agent_cli.commands.check_permission import check_batch, check_one

    files = tuple(settings or ())
    if batch:
        raise typer.Exit(check_batch(isolated=isolated, settings=files))
    request = {"tool": tool, "input": given, "allow": allow, "ask": ask, "deny": deny, "mode": mode, "cwd": cwd}
    raise typer.Exit(check_one(request, isolated=isolated, settings=files, as_json=json))


@permissions_app.command("list")
def permissions_list(
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    permission_mode: Annotated[str | None, typer.Option("--permission-mode", callback=_choice(MODES))] = None,
    allowed_tools: Annotated[list[str] | None, typer.Option("--allowedTools", "--allowed-tools")] = None,
    ask_tools: Annotated[list[str] | None, typer.Option("--askTools", "--ask-tools")] = None,
    disallowed_tools: Annotated[list[str] | None, typer.Option("--disallowedTools", "--disallowed-tools")] = None,
    settings: Annotated[list[str] | None, typer.Option("--settings")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="As in a run with --trust.")] = False,
    bare: Annotated[bool, typer.Option("--bare")] = False,
) -> None:
    """List the rules that a run with these flags would have, and where each comes from."""
    from agent_cli.commands.permissions import list_rules

    options = RunOptions(
        permission_mode=permission_mode,
        allowed_tools=tuple(allowed_tools or ()),
        ask_tools=tuple(ask_tools or ()),
        disallowed_tools=tuple(disallowed_tools or ()),
        settings=tuple(settings or ()),
        trust=trust,
        bare=bare,
    )
    raise typer.Exit(list_rules(options, as_json=json))


@permissions_app.command("learn")
def permissions_learn(
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    days: Annotated[int, typer.Option(min=1, help="How far to look back.")] = 30,
) -> None:
    """Propose the narrowest rules that would have spared the questions that you answered with yes."""
    from agent_cli.commands.learn import learn_rules

    raise typer.Exit(learn_rules(days, as_json=json))


@app.command()
def trust(
    folder: Annotated[str, typer.Argument(help="A folder of the repository; the one here by default.")] = "",
    show: Annotated[bool, typer.Option("--show", help="Only show what it brings.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take trust back.")] = False,
    every: Annotated[bool, typer.Option("--list", help="List the repositories that are trusted.")] = False,
) -> None:
    """Trust a repository as it is now: its settings, commands, agents and hooks then count."""
    from agent_cli.commands.trust import list_trusted, trust_folder

    raise typer.Exit(list_trusted() if every else trust_folder(folder, show=show, revoke=revoke))


@sessions_app.command("list")
def sessions_list(json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """List the sessions of this project, the latest first."""
    from agent_cli.commands.sessions import list_sessions

    raise typer.Exit(list_sessions(as_json=json))


Words = Annotated[list[str] | None, typer.Argument(help="[SESSION] [CALL]...; the latest session, its one open call.")]
Every = Annotated[bool, typer.Option("--all", help="All open calls of the session.")]
OutputFormat = Annotated[
    str, typer.Option("--output-format", metavar="text|json|stream-json", callback=_choice(FORMATS))
]
Verbose = Annotated[bool, typer.Option("--verbose")]


@app.command()
def pending(json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """List what waits for a person in this project."""
    from agent_cli.commands.decide import list_pending

    raise typer.Exit(list_pending(as_json=json))


def _decision(words: list[str] | None, decision: str, output_format: str, verbose: bool, **more: Any) -> None:
    from agent_cli.commands.decide import decide_calls

    options = RunOptions(print=True, output_format=output_format, verbose=verbose)
    raise typer.Exit(decide_calls(words or [], decision, options, **more))


@app.command()
def approve(
    words: Words = None,
    every: Every = False,
    mode: Annotated[str, typer.Option("--mode", help="For a plan: the permission mode to go on in.")] = "",
    text: Annotated[str, typer.Option("--with", help="For a plan: words that go to the model with it.")] = "",
    output_format: OutputFormat = "text",
    verbose: Verbose = False,
) -> None:
    """Approve open calls; when the last is decided, the turn goes on as with -p."""
    if mode and mode not in MODES:
        raise typer.BadParameter(f"{mode} is none of {', '.join(MODES)}.")
    _decision(words, "approve", output_format, verbose, every=every, mode=mode, text=text)


@app.command()
def reject(
    words: Words = None,
    every: Every = False,
    why: Annotated[str, typer.Option("--why", help="Words that go to the model.")] = "",
    output_format: OutputFormat = "text",
    verbose: Verbose = False,
) -> None:
    """Refuse open calls, or send a plan back with --why; without words a plan is cancelled."""
    _decision(words, "reject", output_format, verbose, every=every, text=why)


@app.command()
def answer(
    words: Annotated[list[str], typer.Argument(help="[SESSION] [CALL] TEXT")],
    output_format: OutputFormat = "text",
    verbose: Verbose = False,
) -> None:
    """Answer a question of the model."""
    _decision(words[:-1], "answer", output_format, verbose, every=False, text=words[-1])


@app.command()
def show(
    session: Annotated[str, typer.Argument(help="Its ID or the beginning of it; the latest by default.")] = "",
    turn: Annotated[int | None, typer.Option("--turn", help="Only this turn, from 1; -1 is the last.")] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show what happened in a session: rounds, calls, decisions, durations, tokens, cost."""
    from agent_cli.commands.show import show_session

    raise typer.Exit(show_session(session, turn, as_json=json))


def run_cli(argv: list[str]) -> int:
    """Let Typer read the command line; the exit code."""
    command = typer.main.get_command(app)
    try:
        code = command.main(args=spell_out(argv), prog_name="agent", standalone_mode=True)
    except SystemExit as exit_:
        if isinstance(exit_.__context__, BrokenPipeError):  # which Typer turns into a plain 1
            raise exit_.__context__ from None
        return exit_.code if isinstance(exit_.code, int) else 1
    return code if isinstance(code, int) else 0

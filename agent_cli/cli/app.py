"""The Typer command line: the options of a run, built from their table, and the files of `commands`, loaded lazily.

Typer parses every line that the quick parser does not, words the errors and completes in the shell. `cli.help` lays out
--help; `cli.completion` completes values.

Also options that several commands share, and a decorator for commands that take options of a run.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from typing import Annotated, Any, cast, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from agent_cli import __version__
from agent_cli.cli import SHARED, command_help, command_names, commands, completion
from agent_cli.cli.help import examples, one_of, use_help_layout
from agent_cli.cli.hints import option_hint
from agent_cli.cli.option_parser import normalize_argv
from agent_cli.cli.run_options import FORMATS, HOST, RunOptions, flags, session_config
from agent_cli.kernel.run_environment import OutputError
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.cli import run  # the engine, which no command list or help needs

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsJsonObject = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Calls = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SESSION] [CALL]...", help="The session and its calls; by default the one call that waits.",
        autocompletion=completion.complete_waiting_sessions,
    ),
]  # fmt: skip
EveryCall = Annotated[bool, typer.Option("--all", help="Decide all open calls of the session.")]
SessionArgument = Annotated[
    str,
    typer.Argument(
        metavar="[SESSION]", help="ID of the session, or the beginning of it; the latest by default.",
        autocompletion=completion.complete_sessions,
    ),
]  # fmt: skip
Verbose = Annotated[bool, typer.Option("--verbose", help="Print more to standard error.")]


def check_finite(value: float | None) -> float | None:
    """Return the number of an option (a callback): `nan` and `inf` would pass any comparison with a limit."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a number.")
    return value


def check_choice(choices: tuple[str, ...], aliases: tuple[str, ...] = ()) -> Any:
    """Return a callback that accepts only these values and aliases; its error does not name the aliases."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in (*choices, *aliases):
            raise typer.BadParameter(f"{value} is not one of {', '.join(filter(None, choices))}.")
        return value

    return check


OutputFormat = Annotated[
    str,
    typer.Option(
        "--output-format", metavar="FORMAT", help=f"Format of the answer: {one_of(FORMATS)}.",
        callback=check_choice(FORMATS), autocompletion=completion.one_of_choices(FORMATS),
    ),
]  # fmt: skip


def run_parameters(*names: str) -> list[inspect.Parameter]:
    """Return the given options of a run, or all of them, in the order of the table; all have headings in --help."""
    return [_parameter(name, headed=not names) for name in flags() if not names or name in names]


def _parameter(name: str, *, headed: bool) -> inspect.Parameter:
    flag, kind = flags()[name]
    inner = next((a for a in get_args(kind) if a is not type(None)), kind)
    many = str(kind).startswith("tuple")
    text = f"{flag.help[:-1]}: {one_of(flag.choices)}." if flag.choices else flag.help
    if not headed:  # of a command, which has no -p
        text = text.removeprefix("With -p: ")
    option = typer.Option(
        *flag.names,
        help=f"{text[:1].upper()}{text[1:]}",
        rich_help_panel=flag.panel if headed else None,
        metavar=flag.metavar or None,
        hidden=headed and flag.panel == HOST,
        callback=check_choice(flag.choices, flag.aliases) if flag.choices else None,
        autocompletion=completion.one_of_choices(flag.choices) if flag.choices else completion.VALUES.get(name),
    )
    default = None if many else getattr(RunOptions, name)
    hint = list[str] | None if many else bool if kind is bool else inner | None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, option])


def to_run_options(values: dict[str, Any]) -> RunOptions:
    """Convert Typer's values to the options of a run."""
    chosen: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if v not in (None, [])
    }
    return RunOptions(**chosen)


def set_signature(command: Callable[..., object], every: list[inspect.Parameter]) -> None:
    """Set the parameters of a command's signature."""
    cast(Any, command).__signature__ = inspect.Signature(every)
    command.__annotations__ = {p.name: p.annotation for p in every}


def with_run_options(*names: str, **fixed: Any) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Decorate a command to take these options of a run too, together with `fixed`.

    It gets them as its parameter `config`, a `Config`, or `options`, the `RunOptions`.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        every = inspect.signature(command, eval_str=True).parameters
        own = [p for p in every.values() if p.name not in ("config", "options")]

        @wraps(command)
        def run(**values: Any) -> int:
            given = {name: values.pop(name) for name in names}
            options = to_run_options({**given, **fixed})
            wanted = {"config": session_config(options)} if "config" in every else {"options": options}
            return command(**values, **wanted)

        set_signature(run, [*own, *run_parameters(*names)])
        return run

    return decorate


# What other programs call subcommands.
_OTHER_NAMES = {"install": "add", "i": "add", "uninstall": "remove", "ls": "list"}


class ListingGroup(TyperGroup):
    """A command with subcommands, which lists or shows without one."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a subcommand, also by the name that other programs have for it."""
        return super().get_command(ctx, cmd_name if cmd_name in self.commands else _OTHER_NAMES.get(cmd_name, cmd_name))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing and (
            not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        ):
            args = [self.default_command, *args]
        return super().parse_args(ctx, args)

    @property
    def default_command(self) -> str:
        """The subcommand that runs if none is named."""
        return "list" if "list" in self.commands else "show"


PROMPT = "send-prompt"


class PromptGroup(TyperGroup):
    """The commands, each imported when it runs or its own help is shown.

    A first word that names no command begins the prompt; options may then be on either side.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return command_names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the stub of a command for lists and completion: its name and line of help."""
        return TyperCommand(cmd_name, help=command_help(cmd_name))

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete options, and the names of commands as the first word."""
        found = super().shell_complete(ctx, incomplete)
        return found if ctx.meta["first"] else [item for item in found if item.value.startswith("-")]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["first"] = not args
        ctx.meta["prompt"] = not (args and args[0] in command_names())
        ctx.allow_interspersed_args = ctx.meta["prompt"]
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            unknown = getattr(error, "option_name", "") if type(error).__name__ == "NoSuchOption" else ""
            if hint := option_hint(unknown or ""):
                vars(error).update(message=f"{cast(Any, error).message}. {hint}", possibilities=None)
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if ctx.meta["prompt"] and ctx.resilient_parsing:
            return None, None, []  # completion: options may follow the words of a prompt
        if ctx.meta["prompt"]:
            return PROMPT, self.commands[PROMPT], ["--", *args]
        return args[0], load_command(args[0]), args[1:]

    def invoke(self, ctx: Any) -> Any:
        raise typer.Exit(super().invoke(ctx) or 0)


@cache
def load_command(name: str) -> Any:
    """Load a command from its file, as Typer needs it."""
    file = SHARED[name][0] if name in SHARED else name
    module = import_module(f"{commands.__name__}.{file}")
    command: Any
    if name in SHARED:
        command = typer.main.get_group(module.shared).commands[name]
    else:
        command = typer.main.get_command(module.app)
    command.name = name
    command.help = command.help or command_help(name)
    return use_help_layout(command)


app = typer.Typer(
    cls=PromptGroup,
    invoke_without_command=True,
    subcommand_metavar="[PROMPT... | COMMAND]",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog=(
        "Further options, for programs that run agent: docs/options.md.\n\n"
        "Exit codes of -p:\n"
        "0 done or degraded, 1 failed, 2 usage or settings, 3 waiting for you, 4 stopped by a limit, 5 denied, "
        "75 worth trying again, 130 interrupted.\n\n"
        + examples(
            "agent                               start a session",
            'agent "fix the failing test"        start with this message',
            "agent -c                            continue the latest session",
            'agent -p "explain this repository"  print one answer and exit',
            "git diff | agent -p 'review this'   send standard input along",
            "agent -- doctor                     send a word that is also a command",
        )
    ),
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"agent {__version__}")
        raise typer.Exit


def _run(ctx: typer.Context, **values: Any) -> int:
    """A coding agent in your terminal. Without a command: start a session, with PROMPT as its first message."""
    values.pop("version", None)
    options = to_run_options(values)
    ctx.obj = options
    return _start(options) if ctx.invoked_subcommand is None else 0


_context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
_show_version = inspect.Parameter(
    "version",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool, typer.Option("--version", "-v", "-V", callback=_version, is_eager=True, help="Print the version.")
    ],
)
set_signature(_run, [_context, *run_parameters(), _show_version])
app.callback()(_run)


@app.command(PROMPT, hidden=True)
def send_prompt(ctx: typer.Context, words: list[str]) -> int:
    """Join the prompt of a run."""
    return _start(ctx.obj.replace(prompt=tuple(words)))


def _start(options: RunOptions) -> int:
    return run.start(options, typed=sys.argv[1:])


@cache
def build_command_tree() -> Any:
    """Build Typer's command tree; this takes longer than most commands."""
    return use_help_layout(typer.main.get_command(app))


def _raised_by_echo(error: OSError) -> bool:
    """Return True for an error of Typer's own output, which comes at once where Python does not buffer."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and frame.tb_frame.f_code.co_name == "echo"


def run_cli(argv: list[str]) -> int:
    """Let Typer parse the command line; return the exit code."""
    completion.join_assignment(os.environ)
    try:
        code = build_command_tree().main(args=normalize_argv(argv), prog_name="agent", standalone_mode=True)
    except OSError as error:
        if _raised_by_echo(error):
            raise OutputError(error) from None
        raise
    except SystemExit as exit_:
        if isinstance(exit_.__context__, BrokenPipeError):  # which Typer turns into a plain 1
            raise exit_.__context__ from None
        return exit_.code if isinstance(exit_.code, int) else 1
    return code if isinstance(code, int) else 0

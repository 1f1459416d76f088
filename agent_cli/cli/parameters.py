"""The options of a run as Typer parameters: all of them for the program itself, some for a command.

Also options with a fixed set of values, and those shared by several commands.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, cast, get_args

import typer

from agent_cli.config.run_options import FORMATS, RunOptions, flags

AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
AsJsonObject = Annotated[bool, typer.Option("--json", help="As one JSON object.")]
Calls = Annotated[
    list[str] | None,
    typer.Argument(help="[SESSION] [CALL]...; the session that waits and its one open call by default."),
]
EveryCall = Annotated[bool, typer.Option("--all", help="All open calls of the session.")]
Session = Annotated[str, typer.Argument(help="Its ID or the beginning of it; the latest by default.")]
Verbose = Annotated[bool, typer.Option("--verbose")]


def choice(choices: tuple[str, ...]) -> Any:
    """Return a callback that accepts only these values."""

    def check(value: str | None) -> str | None:
        if value == "auto" and "bypassPermissions" in choices:
            raise typer.BadParameter("auto (a model that decides) is not offered; use acceptEdits or allow rules.")
        if value is not None and value not in choices:
            raise typer.BadParameter(f"{value} is none of {', '.join(choices)}.")
        return value

    return check


OutputFormat = Annotated[
    str, typer.Option("--output-format", metavar="text|json|stream-json", callback=choice(FORMATS))
]


def parameters(*names: str) -> list[inspect.Parameter]:
    """Return these options, or all, in the order of the table; all of them have headings in --help."""
    return [_parameter(name, headed=not names) for name in flags() if not names or name in names]


def _parameter(name: str, *, headed: bool) -> inspect.Parameter:
    flag, kind = flags()[name]
    inner = next((a for a in get_args(kind) if a is not type(None)), kind)
    many = str(kind).startswith("tuple")
    option = typer.Option(
        *flag.names,
        help=flag.help,
        rich_help_panel=flag.panel if headed else None,
        metavar=flag.metavar or ("|".join(flag.choices) or None),
        callback=choice(flag.choices) if flag.choices else None,
    )
    default = None if many else getattr(RunOptions, name)
    hint = list[str] | None if many else bool if kind is bool else inner | None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, option])


def options_of(values: dict[str, Any]) -> RunOptions:
    """Convert Typer's values to the options of a run."""
    chosen: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if v not in (None, [])
    }
    return RunOptions(**chosen)


def signed(command: Callable[..., object], every: list[inspect.Parameter]) -> None:
    """Give a command these parameters in its signature."""
    cast(Any, command).__signature__ = inspect.Signature(every)
    command.__annotations__ = {p.name: p.annotation for p in every}


def takes(*names: str, **fixed: Any) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Decorate a command to take these options of a run besides its own, passed as `options`, with `fixed`."""

    def made(command: Callable[..., int]) -> Callable[..., int]:
        own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "options"]

        @wraps(command)
        def run(**values: Any) -> int:
            given = {name: values.pop(name) for name in names}
            return command(**values, options=options_of({**given, **fixed}))

        signed(run, [*own, *parameters(*names)])
        return run

    return made

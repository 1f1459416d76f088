"""List the models that can be used here, with their window and price."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from agent_cli import Config, RunEnvironment, UsageError, find_environment, read_settings
from agent_cli.cli import completion
from agent_cli.cli.app import AsJson
from agent_cli.cli.help import examples
from agent_cli.config.schema import Settings
from agent_cli.console import echo, print_json, print_notice, print_warning, table
from agent_cli.kernel.runtime.models import ReachableModels
from agent_cli.models.catalog import ModelInfo
from agent_cli.models.offers import example_models, in_shares
from agent_tools.record import Value
from agent_tools.text import counted, escape_controls

_HEADER = ("", "MODEL", "WINDOW", "MAX OUTPUT", "INPUT $/M", "OUTPUT $/M")


class CurrentModel(Value):
    """The model that a run would use now, "" for none. origin: "configured", or "default" if it was found."""

    name: str
    origin: str


app = typer.Typer(add_completion=False)


@app.command(epilog=examples("agent models", "agent models claude", "agent models --all"))
def models(
    search: Annotated[
        str, typer.Argument(help="Part of a name.", metavar="[SEARCH]", autocompletion=completion.complete_models)
    ] = "",
    show_all: Annotated[
        bool, typer.Option("--all", help="List all known models, including old ones and models of other providers.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    run_env = find_environment(os.environ)
    settings = _settings(run_env)
    reachable = ReachableModels(run_env, settings)
    current = CurrentModel(reachable.current, "configured" if settings.model else "default")
    searched = bool(search.split()) or show_all
    found = reachable.offers.search(search, everything=show_all) if searched else reachable.offers.usable()
    sample = not found and not searched
    if sample:
        found = example_models()
    if not any(found):
        print_notice(
            f"No known model's name contains {escape_controls(search)!r}; you can also use a model that is not listed."
        )
        return 1
    shown = [m for listed in found for m in listed]
    if as_json:
        print_json([_to_json(m, current) for m in shown])
        return 0
    if not show_all:
        shown = in_shares(found)
    echo("\n".join(table(_HEADER, [_row(m, current) for m in shown], frozenset((2, 3, 4, 5)))))
    if sample:
        print_notice("No provider is configured yet; these are models of some. To connect one: agent login")
    left = sum(map(len, found)) - len(shown)
    more = f"{left:,} more" if left else "More"
    print_notice(
        f"{counted(len(shown), 'model')}; prices per million tokens.{_legend(shown, current)}"
        + ("" if show_all else f" {more}: --all{'' if search else ', or agent models NAME'}.")
    )
    return 0


def _legend(shown: list[ModelInfo], current: CurrentModel) -> str:
    if all(m.name != current.name for m in shown):
        return ""
    return " * is the default, set in your settings." if current.origin == "configured" else " * is the default."


def _settings(run_env: RunEnvironment) -> Settings:
    """Return the settings here. An error in them is reported, but does not prevent the list."""
    try:
        return read_settings(Config(), run_env).settings()
    except UsageError as mistake:
        print_warning(f"{escape_controls(str(mistake))}")
        return Settings()


def _row(model: ModelInfo, current: CurrentModel) -> tuple[str, ...]:
    mark = "*" if current.name == model.name else ""
    price_in, price_out = model.price_per_million
    return (
        mark,
        model.name,
        _count(model.context_window),
        _count(model.max_output),
        _dollars(price_in),
        _dollars(price_out),
    )


def _to_json(model: ModelInfo, current: CurrentModel) -> dict[str, Any]:
    price_in, price_out = model.price_per_million
    return {
        "name": model.name,
        "provider": model.provider,
        "context_window": model.context_window,
        "max_output": model.max_output,
        "input_per_million": price_in,
        "output_per_million": price_out,
        "tools": model.tools,
        "reasoning": model.reasoning,
        "vision": bool(model.vision),
        "pdf": bool(model.pdf),
        "deprecated": model.deprecated or None,
        "chosen": current.origin if current.name == model.name else None,
    }


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _dollars(price: float | None) -> str:
    return "?" if price is None else f"{price:.2f}" if price >= 0.1 or price == 0 else f"{price:.4f}"

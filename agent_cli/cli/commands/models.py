"""List known models with their window and price."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from agent_cli.cli import completion
from agent_cli.cli.app import AsJson
from agent_cli.cli.help import examples
from agent_cli.config.run_options import RunOptions
from agent_cli.config.schema import Settings
from agent_cli.core.run_environment import UsageError
from agent_cli.headless.output import echo, print_json, print_notice, print_warning, table
from agent_cli.providers.catalog import ModelInfo, known_models, lookup
from agent_cli.providers.resolve import ModelSetupError, resolve
from agent_cli.providers.server_info import default_model
from agent_cli.runtime.environment import find_environment, read_settings
from agent_cli.runtime.models import key_store, wire_api_of
from agent_tools.record import Value
from agent_tools.text import escape_controls

MARKS = {"configured": "*", "default": "+"}
LEGEND = "Prices are dollars per million tokens."


class CurrentModel(Value):
    """The model that a run would use now. origin: "configured", or "default" if it was found."""

    name: str
    origin: str


app = typer.Typer(add_completion=False)


@app.command(epilog=examples("agent models", "agent models claude"))
def models(
    search: Annotated[
        str, typer.Argument(help="Part of a name.", metavar="[SEARCH]", autocompletion=completion.complete_models)
    ] = "",
    as_json: AsJson = False,
) -> int:
    chosen = current_model()
    listed = _with_current(known_models(search), chosen, search)
    if not listed:
        print_notice(
            f"No known model's name contains {escape_controls(search)!r}; models that are not listed can be used too."
        )
        return 1
    if as_json:
        print_json([_to_json(m, chosen) for m in listed])
        return 0
    rows = [_row(m, chosen) for m in listed]
    header = ("", "MODEL", "WINDOW", "MAX OUTPUT", "INPUT $/M", "OUTPUT $/M")
    lines = table(header, rows, frozenset((2, 3, 4, 5)))
    note = f"{len(listed)} model{'' if len(listed) == 1 else 's'}. {LEGEND}"
    if chosen and any(m.name == chosen.name for m in listed):
        words = {"configured": "the configured model", "default": "found, and used because none is configured"}
        note += f" {MARKS[chosen.origin]} {words[chosen.origin]}."
    echo("\n".join(lines))
    print_notice(note)
    return 0


def current_model() -> CurrentModel | None:
    """Return the model that a run would use here.

    An error in the settings is reported, but does not prevent the list.
    """
    run_env = find_environment(os.environ)
    try:
        settings = read_settings(RunOptions(), run_env).settings()
    except UsageError as mistake:
        print_warning(f"{escape_controls(str(mistake))}")
        settings = Settings()
    try:
        logins = key_store(run_env, settings)
        name = settings.model or default_model(run_env.env, logins=logins)
        wire_api = wire_api_of(settings)
        resolved = resolve(
            name, base_url=settings.base_url, transport=settings.transport, wire_api=wire_api, env=run_env.env,
            logins=logins,
        )  # fmt: skip
    except ModelSetupError:
        # It cannot be called without its key, but it is still the configured model.
        return CurrentModel(settings.model, "configured") if settings.model else None
    return CurrentModel(resolved.name, "configured" if settings.model else "default")


def _with_current(models: list[ModelInfo], chosen: CurrentModel | None, search: str) -> list[ModelInfo]:
    """Add the chosen model to the list even if the catalog does not know it (usually a local one)."""
    if chosen is None or any(m.name == chosen.name for m in models) or chosen.name.startswith("scripted:"):
        return models
    if not all(word in chosen.name.lower() for word in search.lower().split()):
        return models
    provider, _, model = chosen.name.partition("/")
    return [lookup(provider, model) or ModelInfo(name=chosen.name, provider=provider), *models]


def _row(model: ModelInfo, chosen: CurrentModel | None) -> tuple[str, ...]:
    mark = MARKS[chosen.origin] if chosen and chosen.name == model.name else ""
    price_in, price_out = _prices(model)
    return (
        mark,
        model.name,
        _count(model.context_window),
        _count(model.max_output),
        _dollars(price_in),
        _dollars(price_out),
    )


def _to_json(model: ModelInfo, chosen: CurrentModel | None) -> dict[str, Any]:
    price_in, price_out = _prices(model)
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
        "chosen": chosen.origin if chosen and chosen.name == model.name else None,
    }


def _prices(model: ModelInfo) -> tuple[float | None, float | None]:
    """Return input and output price in dollars per million tokens, for the smallest request size."""
    if not model.prices:
        return None, None
    first = model.prices[0]
    return tuple(None if p is None else round(p * 1_000_000, 6) for p in (first.input, first.output))  # type: ignore[return-value]


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _dollars(price: float | None) -> str:
    return "?" if price is None else f"{price:.2f}" if price >= 0.1 or price == 0 else f"{price:.4f}"

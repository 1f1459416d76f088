"""Log in to a model provider: store an API key, or sign in to OpenRouter."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from agent_cli import Config, UsageError, find_environment
from agent_cli.cli import completion
from agent_cli.cli.help import examples
from agent_cli.console import echo, print_warning
from agent_cli.models.credentials import Secret
from agent_cli.models.login import LoginError, key_problem
from agent_cli.models.registry import Provider
from agent_cli.shells.terminal.dialogs.lines import LineDialogs
from agent_cli.shells.terminal.line_input import read_line, run_interruptible
from agent_cli.shells.terminal.login import ModelLogin, log_out, provider_with_key
from agent_cli.shells.terminal.render.console import make_console
from agent_tools.text import one_line

app = typer.Typer(add_completion=False)
shared = typer.Typer()
_MAX_KEY_CHARS = 16_384
_OTHER_PROVIDER = typer.Argument(
    metavar="[PROVIDER]", help="Such as openai; the one you logged in to by default.",
    autocompletion=completion.complete_logins,
)  # fmt: skip


@app.command(epilog=examples("agent login", "agent login openai", "agent login openai < key.txt"))
def login(
    provider: Annotated[
        str,
        typer.Argument(
            metavar="[PROVIDER]", help="Such as anthropic, openai or openrouter; you are asked by default.",
            autocompletion=completion.complete_providers,
        ),
    ] = "",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser; print the address only.")] = False,
) -> int:  # fmt: skip
    run_env = find_environment(os.environ)
    chosen = provider_with_key(provider) if provider else None
    console = make_console("auto", os.environ, plain=False)
    setup = ModelLogin(LineDialogs(console, read_line), run_interruptible, run_env, Config(), browser=not no_browser)
    had_model = setup.has_model()
    name: str | int | None
    if not sys.stdin.isatty():
        name = _store_from_input(setup, chosen)
    elif not sys.stdout.isatty():
        raise UsageError("agent login asks questions: run it in a terminal.")
    else:
        name = setup.log_in(chosen) if chosen is not None else setup.connect("What do you want to use?")
    if not isinstance(name, str):
        return 1
    if name and not had_model:
        setup.keep_model(name)
        echo("Start a session in a project: agent")
    elif name:
        echo(f"To use it: agent --model {name}, or /model in a session.")
    return 0


def _store_from_input(setup: ModelLogin, provider: Provider | None) -> str | None:
    """Check and store the key on standard input; return the model to begin with, None if that failed."""
    if provider is None:
        raise UsageError("Name the provider whose key is on standard input: agent login PROVIDER < FILE")
    text = sys.stdin.readline(_MAX_KEY_CHARS).strip()
    if not text:
        raise UsageError("There is no key on standard input.")
    if problem := key_problem(text):
        raise UsageError(problem)
    try:
        return setup.store(provider, Secret(text))
    except LoginError as error:
        print_warning(f"Nothing was stored: {one_line(str(error))}")
        return None


@shared.command(epilog=examples("agent logout", "agent logout openai"))
def logout(provider: Annotated[str, _OTHER_PROVIDER] = "") -> int:
    run_env = find_environment(os.environ)
    echo(log_out(run_env, Config(), provider))
    return 0

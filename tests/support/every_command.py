"""All commands of the program, as Typer has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent_cli.cli import command_names
from agent_cli.cli.app import build_command_tree, load_command


def every_command() -> Iterator[tuple[str, Any]]:
    yield "agent", build_command_tree()
    for name in command_names():
        yield from below(f"agent {name}", load_command(name))


def below(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from below(f"{path} {name}", inner)


COMMANDS = dict(every_command())

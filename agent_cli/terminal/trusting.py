"""The one question at the start of a session in a repository that was not seen before, or that changed."""

from __future__ import annotations

import os
from typing import Any

from rich.console import Console

from agent_cli.config.layers import Layers
from agent_cli.terminal.approval import ReadLine
from agent_cli.terminal.console import prose
from agent_cli.terminal.input import wait_until_quiet
from agent_tools.clipping import one_line
from agent_tools.lookalikes import visible


def ask_trust(console: Console, read_line: ReadLine, layers: Layers) -> bool:
    """Whether the user trusts the project. Exactly `y` or `yes` is a yes; the end of input and Ctrl-C are a no."""
    for line in trust_lines(layers):
        _show(line, console)
    return _agreed(console, read_line, "Trust it? [y/N] ")


def ask_server(console: Console, read_line: ReadLine, found: Any, why: str) -> bool:
    """Whether the user lets an MCP server of the project start."""
    _show(f"? The MCP server {found.name} of this project {why}. It is {found.line}", console)
    for what, given in found.given.items():
        _show(f"  {what}: {given}", console)
    return _agreed(console, read_line, "Let it start, until it changes? [y/N] ")


def _show(line: str, console: Console) -> None:
    """A line, indented where it goes on in the next row, so that nothing in it can pass for a line of ours."""
    for row in prose(visible(one_line(line)), console, more="    "):
        console.print(row)


def _agreed(console: Console, read_line: ReadLine, label: str) -> bool:
    """Whether the user says yes; the end of input and Ctrl-C are a no."""
    try:
        wait_until_quiet()
        return read_line(label).strip().lower() in ("y", "yes")
    except EOFError:
        return False
    except KeyboardInterrupt:
        console.print()  # behind the ^C that the terminal has shown
        return False


def trust_lines(layers: Layers) -> list[str]:
    """What the project brings, in lines; each value in full."""
    trust = layers.trust
    if trust.state == "changed":
        lines = [f"? {trust.root} has changed since you trusted it: {', '.join(trust.changed)}", "  It brings:"]
    else:
        lines = [f"? You have not trusted {trust.root} yet. It brings:"]
    for held in layers.held:
        lines.append(f"  - {os.path.relpath(held.source, trust.root)} sets {held.key}: {held.shown}")
    lines += [f"  - {phrase}" for phrase in trust.brings]
    return [
        *lines,
        "  y: all of this counts from now on, until it changes, and git may be asked about it without a question",
        "  n: it is left out; only what makes things stricter counts",
    ]

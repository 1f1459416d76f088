"""The man page, `docs/agent.1`, from the options and commands of the program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agent_cli.cli import command_names, run_options
from agent_cli.cli.app import build_command_tree, load_command
from agent_cli.kernel.version import __version__
from agent_tools.record import Value

_FILES = (
    ("~/.agentrc", "Your settings. In a project: .agentrc, and .agentrc.local for you alone."),
    ("~/.agent", "Your commands, agents, skills, memory and plugins. In a project: .agent."),
    ("~/.local/state/agent", "Sessions and snapshots of files; AGENT_STATE_DIR names another folder."),
)


class Entry(Value):
    """A term with its explanation."""

    term: str
    text: str

    def lines(self) -> Iterator[str]:
        yield from (".TP", f".B {_escaped(self.term)}", _escaped(self.text))


def _escaped(text: str) -> str:
    """Return a text that groff and mandoc show as it is."""
    plain = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain


def _options() -> Iterator[str]:
    panels: dict[str, list[Entry]] = {}
    for flag, _ in run_options.flags().values():
        choices = f" One of {', '.join(flag.choices)}." if flag.choices else ""
        term = f"{', '.join(flag.names)} {flag.metavar}".strip()
        panels.setdefault(flag.panel, []).append(Entry(term, flag.help + choices))
    for panel, entries in panels.items():
        yield f".SS {_escaped(panel)}"
        for entry in entries:
            yield from entry.lines()


def _commands() -> Iterator[str]:
    build_command_tree()
    for name in command_names():
        yield from _command(load_command(name), f"agent {name}")


def _command(command: Any, path: str) -> Iterator[str]:
    ctx = command.make_context(path, [], resilient_parsing=True)
    pieces = (piece.strip("{}") for piece in command.collect_usage_pieces(ctx))
    about = (command.help or "").partition("\n\n")[0]
    yield from Entry(" ".join((path, *pieces)), about).lines()
    for name, inner in getattr(command, "commands", {}).items():
        yield from _command(inner, f"{path} {name}")


def man_page(exit_codes: Iterable[tuple[int, str]]) -> str:
    """Return the page. exit_codes: of a run, each with its meaning."""
    lines = [
        f'.TH AGENT 1 "" "agent {__version__}" "User Commands"',
        ".SH NAME", "agent \\- a coding agent in your terminal",
        ".SH SYNOPSIS", ".B agent", "[OPTIONS] [PROMPT...]", ".br", ".B agent", "COMMAND ...",
        ".SH DESCRIPTION",
        "Without a command, agent starts a session, with PROMPT as its first message. With \\-p, it carries out one "
        "task, prints the answer and exits. agent COMMAND \\-\\-help lists the options of a command.",
        ".SH OPTIONS", *_options(),
        ".SH COMMANDS", *_commands(),
        ".SH FILES", *(line for term, text in _FILES for line in Entry(term, text).lines()),
        ".SH EXIT STATUS", *(line for code, text in exit_codes for line in Entry(str(code), text).lines()),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"

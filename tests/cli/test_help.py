"""Every --help, of every command: nothing cut, nothing broken, nothing unexplained, at any width."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from agent_cli.cli import command_names
from agent_cli.cli.help import GROUPS, _commands
from agent_cli.cli.option_parser import parse_options
from agent_cli.cli.run_options import HOST, flags
from tests.support.every_command import COMMANDS
from tests.support.hypothesis_examples import cases
from tests.support.imported_modules import loaded
from tests.support.program import agent


def shown(path: str, width: int, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Any]:
    """The help of a command at a width, and its context."""
    monkeypatch.setenv("COLUMNS", str(width))
    command = COMMANDS[path]
    names = path.split(" ")
    context = typer.Context(COMMANDS["agent"], info_name="agent")
    for depth in range(2, len(names) + 1):
        context = typer.Context(COMMANDS[" ".join(names[:depth])], info_name=names[depth - 1], parent=context)
    return command.get_help(context), context


# The narrowest and one that is common; with EXAMPLES=all, others.
@pytest.mark.parametrize("width", cases((40, 80, 100, 120), (40, 100)))
@pytest.mark.parametrize("path", COMMANDS)
def test_names_and_values_are_whole(path: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text, context = shown(path, width, monkeypatch)
    assert "…" not in text
    assert not [line for line in text.partition("Examples:")[0].splitlines() if len(line) > width]
    words = set(re.split(r"[\s,]+", text))
    for parameter in COMMANDS[path].get_params(context):
        if parameter.hidden:
            continue
        if parameter.param_type_name == "option":
            assert {*parameter.opts, *parameter.secondary_opts} <= words
        # Whatever its help lists is still one word on one line.
        parts = {word.strip(",.:()") for word in (parameter.help or "").split()}
        assert parts <= {word.strip(",.:()") for word in text.split()}


@pytest.mark.parametrize("path", COMMANDS)
def test_everything_is_explained_in_a_sentence(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, context = shown(path, 80, monkeypatch)
    command = COMMANDS[path]
    assert re.search(r"^[A-Z].*\.$", command.help.partition("\n\n")[0], re.DOTALL)
    for parameter in command.get_params(context):
        if not parameter.hidden:
            assert re.search(r"^[A-Z'].*\.$", parameter.help or "", re.DOTALL), parameter.name


@pytest.mark.parametrize("path", [p for p in COMMANDS if not getattr(COMMANDS[p], "commands", {})])
def test_examples_come_last_and_begin_with_the_command(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, _ = shown(path, 80, monkeypatch)
    found = text.partition("\nExamples:\n")[2].splitlines()
    assert found
    assert all(f"{path}" in line and len(line) <= 80 for line in found)


def test_commands_come_before_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, _ = shown("agent", 80, monkeypatch)
    headings = [line for line in text.splitlines() if re.fullmatch(r"[A-Z][\w ,-]*:", line)]
    assert headings == [
        *(f"{name}:" for name in GROUPS), "The task:", "Session:", "Model:", "Permissions:", "Output:",
        "Limits and exit codes:", "Settings and prompts:", "Other options:",
        "Exit codes of -p:", "Examples:",
    ]  # fmt: skip
    commands = text[text.index(f"{next(iter(GROUPS))}:") : text.index("The task:")]
    assert sorted(re.findall(r"^  (\w+)", commands, re.MULTILINE)) == command_names()
    assert {name for names in GROUPS.values() for name in names} <= {*command_names()}


def test_options_that_programs_send_work_and_are_only_in_the_documentation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, _ = shown("agent", 80, monkeypatch)
    sent = [flag for flag, _ in flags().values() if flag.panel == HOST]
    people = [flag for flag, _ in flags().values() if flag.panel != HOST]
    assert len(people) <= 55
    assert not [flag for flag in sent if f"{flag.names[0]} " in text]
    assert not [flag for flag in people if flag.names[-1] not in text]
    assert parse_options(["--thinking", "disabled", "--system-prompt-file", "x"]) is not None


def test_a_command_that_no_group_names_is_in_the_last() -> None:
    group = SimpleNamespace(
        list_commands=lambda ctx: ["ping", "serve"],
        get_command=lambda ctx, name: SimpleNamespace(help=f"Help of {name}.", hidden=False),
    )
    found = list(_commands(group, SimpleNamespace(parent=None)))
    assert found == [("Other commands:", [("serve", "Help of serve."), ("ping", "Help of ping.")])]


def test_help_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    text, _ = shown("agent", 80, monkeypatch)
    assert (
        "Permissions:\n"
        "  --permission-mode MODE    Approval mode: default, acceptEdits, plan, dontAsk\n"
        "                            or bypassPermissions.\n"
        "  --allowedTools, --allowed-tools RULES\n"
    ) in text


def test_help_imports_no_rich(tmp_path: Any) -> None:
    for args in (["--help"], ["sessions", "list", "--help"]):
        assert not {"rich", "pygments", "agent_cli.kernel.engine"} & loaded(tmp_path, *args)


def test_a_command_does_not_speak_of_the_flag_p_which_it_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    text, _ = shown("agent review", 80, monkeypatch)
    assert "With -p" not in text
    assert "Also write a report" in text


@pytest.mark.parametrize("path", [p for p in COMMANDS if hasattr(COMMANDS[p], "default_command")])
def test_a_command_with_subcommands_lists_or_shows_without_one(path: str, work: Path) -> None:
    words = path.split()[1:]
    default = COMMANDS[path].default_command
    alone, whole = agent(words, work), agent([*words, default], work)
    assert (alone.returncode, alone.stdout, alone.stderr) == (whole.returncode, whole.stdout, whole.stderr)
    assert "Usage:" not in alone.stdout + alone.stderr
    assert f"the same as {path} {default}." in " ".join(agent([*words, "--help"], work).stdout.split())


def test_options_of_the_listing_need_no_subcommand(work: Path) -> None:
    assert agent(["sessions", "--json"], work).stdout == "[]\n"

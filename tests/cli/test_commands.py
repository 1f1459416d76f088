"""The commands of `agent`: found by the names of their files, and imported only when a command of the file is meant."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import agent_cli.cli
from agent_cli.__main__ import guarded
from agent_cli.cli import command_help, command_names, commands
from agent_cli.cli.app import load_command
from tests.support.imported_modules import loaded

NEW = '''"""Greet somebody: the example of the tests."""

from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def greet(name: str, loud: Annotated[bool, typer.Option("--loud", help="In capitals.")] = False) -> int:
    print(f"Hello {name}".upper() if loud else f"Hello {name}")
    return 3
'''


def imported(modules: set[str]) -> set[str]:
    """Which commands were imported."""
    return {name.rpartition(".")[2] for name in modules if name.startswith("agent_cli.cli.commands.")}


@pytest.fixture
def greeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder of commands is one that holds a single new file, and what a text editor leaves beside it."""
    (tmp_path / "greet.py").write_text(NEW)
    for other in ("_shared.py", ".#greet.py", "greet.py~", "__init__.py"):
        (tmp_path / other).write_text("raise SystemExit('imported')\n")
    monkeypatch.setattr(agent_cli.cli, "_COMMANDS", str(tmp_path))
    monkeypatch.setattr(commands, "__path__", [str(tmp_path)])
    monkeypatch.setenv("COLUMNS", "80")
    yield
    load_command.cache_clear()
    sys.modules.pop("agent_cli.cli.commands.greet", None)


@pytest.mark.usefixtures("greeting")
def test_a_new_file_is_a_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert command_names() == ["greet"]
    assert guarded(["greet", "Ada", "--loud"]) == 3
    assert capsys.readouterr().out == "HELLO ADA\n"
    assert guarded(["greet", "--nope"]) == 2
    assert "No such option: --nope" in capsys.readouterr().err
    assert guarded(["greet", "--help"]) == 0
    assert "Greet somebody: the example of the tests." in capsys.readouterr().out
    assert guarded(["--help"]) == 0
    assert "  greet                     Greet somebody: the example of the tests." in capsys.readouterr().out
    monkeypatch.setenv("_AGENT_COMPLETE", "complete_bash")
    for words, word, offered in (("agent gr", "1", "greet"), ("agent greet --lo", "2", "--loud")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", word)
        assert guarded([]) == 0
        assert capsys.readouterr().out.split() == [offered]


@pytest.mark.parametrize("name", command_names())
def test_the_first_line_of_a_file_is_the_help_of_its_command(name: str) -> None:
    line = command_help(name)
    assert line.endswith(".")
    assert '"""' not in line
    assert load_command(name).help == line
    assert load_command(name).name == name


@pytest.mark.parametrize(
    ("args", "env", "needed"),
    [
        (["--help"], {}, set()),
        (["mcp", "--help"], {}, {"mcp"}),
        (["permissions", "list", "--help"], {}, {"permissions"}),
        (["why", "--help"], {}, {"why"}),
        (["approve", "--help"], {}, {"pending"}),
        ([], {"_AGENT_COMPLETE": "complete_bash", "COMP_WORDS": "agent ", "COMP_CWORD": "1"}, set()),
        ([], {"_AGENT_COMPLETE": "complete_bash", "COMP_WORDS": "agent --mo", "COMP_CWORD": "1"}, set()),
        ([], {"_AGENT_COMPLETE": "complete_bash", "COMP_WORDS": "agent mcp ", "COMP_CWORD": "2"}, {"mcp"}),
    ],
)
def test_only_the_command_that_is_meant_is_imported(
    tmp_path: Path, args: list[str], env: dict[str, str], needed: set[str]
) -> None:
    modules = loaded(tmp_path, *args, **env)
    assert imported(modules) == needed
    if not needed:
        assert not {"agent_cli.cli.run", "agent_cli.kernel.runtime", "agent_cli.kernel.engine"} & modules


@pytest.mark.parametrize("args", [["mcp", "list"], ["doctor"]])
def test_declared_servers_are_listed_without_the_sdk(tmp_path: Path, args: list[str]) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".agentrc").write_text('[mcp.servers.here]\ncommand = "true"\n')
    modules = loaded(tmp_path, *args, OPENAI_API_KEY="k")
    assert "agent_cli.mcp.approvals" in modules
    assert not {"mcp", "agent_cli.mcp.client"} & modules

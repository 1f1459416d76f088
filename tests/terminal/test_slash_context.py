"""What slash commands are given, and that a new one is one file."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from agent_cli.shells.terminal.slash import SlashContext, builtin_commands
from tests.support.fork_server import ROOT
from tests.support.program import clean_env
from tests.support.program_files import nodes
from tests.support.scripts import script

TERMINAL = ROOT / "agent_cli" / "shells" / "terminal"
FILES = sorted((TERMINAL / "commands").glob("[!_]*.py"))
GREET = '''"""A greeting."""

from agent_cli.shells.terminal.slash import SlashContext, slash


@slash("greet", "say hello", "NAME")
def _greet(ctx: SlashContext, words: str) -> None:
    ctx.say(f"Hello {words} in {ctx.run_env.root.name}.")
'''


def test_commands_import_no_front_end() -> None:
    front_ends = ("repl", "run", "startup", "app.")
    for path in FILES:
        imported = {n.module for n in nodes(path) if isinstance(n, ast.ImportFrom)}
        names = {name.removeprefix("agent_cli.shells.terminal.") for name in imported if name}
        assert not [n for n in names if f"{n}.".startswith(tuple(f"{f.rstrip('.')}." for f in front_ends))], path


def test_every_member_of_the_context_is_used_by_a_command() -> None:
    classes = SlashContext.__mro__[:-3]
    members = {name for cls in classes for name in {**vars(cls), **cls.__annotations__} if not name.startswith("_")}
    used = {
        node.attr
        for path in (*FILES, TERMINAL / "slash.py")
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ctx"
    }
    assert used == members


def test_every_file_of_commands_is_loaded() -> None:
    modules = {command.run.__module__.rpartition(".")[2] for command in builtin_commands().values()}
    assert modules == {path.stem for path in FILES}


def test_a_new_command_is_one_file(work: Path, tmp_path: Path) -> None:
    """The program with one more file in `commands/`; all else of it is linked."""
    copy = tmp_path / "copy"
    for folder in (ROOT, ROOT / "agent_cli", TERMINAL.parent, TERMINAL, TERMINAL / "commands"):
        here = copy / folder.relative_to(ROOT)
        here.mkdir()
        for path in folder.iterdir():
            if path.name not in ("agent_cli", "shells", "terminal", "commands", ".git") and not path.name.startswith(
                "__pyc"
            ):
                (here / path.name).symlink_to(path)
    (copy / "agent_cli" / "shells" / "terminal" / "commands" / "greet.py").write_text(GREET)
    env = clean_env(tmp_path / "home") | {"PYTHONPATH": f"{copy}{os.pathsep}{ROOT / 'tools'}"}
    model = script(tmp_path / "s.toml", [{"text": "Done."}])
    done = subprocess.run(
        [sys.executable, "-m", "agent_cli", "--plain", "--model", model],
        cwd=work, env=env, input="/greet Ada\n/help\n/help greet\n", capture_output=True, text=True, check=True,
        timeout=60,
    )  # fmt: skip
    assert "Hello Ada in work." in done.stdout
    assert " /help /greet\n" in done.stdout
    assert "  /greet NAME                   say hello\n" in done.stdout

"""The guide to a new tool, and the table of where to change something, tried in a copy of the repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fork_server import ROOT
from tests.support.scripts import call, script

# What is no part of the repository, but for what its modules were compiled to: that is as young as they are.
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", ".*_cache", ".hypothesis", "dist")
# What is held of every tool, and what the guide asks for.
TESTS = (
    "tests/tools/test_word_count.py", "tests/tools/test_builtin.py", "tests/tools/test_traits.py",
    "tests/tools/test_named_tools.py", "tests/test_tests.py", "tests/test_layers.py::test_there_are_no_cycles",
    "tests/test_docs.py::test_what_the_pages_take_from_the_program_is_up_to_date",
    "tests/test_docs.py::test_the_tree_of_the_architecture_is_that_of_the_folders",
    "tests/test_docs.py::test_every_tool_and_command_is_named",
    "tests/runtime/test_system_prompt.py::test_the_first_request_of_a_session_has_at_most_18_kb",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_tool_is_added_as_the_guide_says(tmp_path: Path) -> None:
    copy = tmp_path / "agent"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT, symlinks=True)
    guide = (ROOT / "docs/adding-a-tool.md").read_text("utf-8")
    names = ("tools/agent_tools/word_count.py", "tests/tools/test_word_count.py")
    for name, text in zip(names, re.findall(r"```python\n(.*?)```", guide, re.DOTALL), strict=True):
        assert f"`{name}`:\n\n```python\n{text}```" in guide
        (copy / name).write_text(text)
    line, row = re.findall(r"```text\n(.*?)```", guide, re.DOTALL)
    insert(copy / "tools/agent_tools/registry.py", after=r"ROWS = \(\n(?:.*\n)*?(?=\)\n)", text=line)
    insert(copy / "docs/tools.md", after=r"\| `Read`, .*\n", text=row)
    python(copy, "-m", "agent_tools.generate")
    python(copy, "-m", "docs.pages")
    assert python(copy, "-m", "agent_cli", "tools", "run", "WordCount", '{"file_path": "README.md"}').endswith(
        " characters\n"
    )
    python(copy, "-m", "pytest", "-p", "no:cacheprovider", "-x", *TESTS)


# The rows of "Where to change something" in docs/architecture.md: what to insert, in which file, behind what.
ADDED = {
    "a provider": {
        "agent_cli/models/registry.py": (
            r'    _direct\("hyperbolic".*\n',
            '    _direct("baseten", "https://inference.baseten.co/v1", "BASETEN_API_KEY"),\n',
        ),
    },
    "a slash command": {
        "agent_cli/shells/terminal/commands/memory.py": (
            r"(?s).*",
            '\n\n@slash("words", "count the words of the conversation")\n'
            "def _words(ctx: SlashContext, words: str) -> None:\n"
            '    ctx.say(f"  {sum(len(str(m).split()) for m in ctx.agent.history):,} words.")\n',
        ),
    },
    "a hook event": {
        "agent_cli/hooks/events.py": (
            r"\n(?=\ndef runs_before_message)",
            '\n@hook_event("PlanUpdate", "the plan changed", ["Read it."])\n'
            "def plan_update(steps: list[str]) -> dict[str, Any]:\n"
            '    return {"plan": steps}\n\n',
        ),
        "agent_cli/kernel/engine/execute.py": (
            r"    from agent_cli.kernel.engine import background, hook_points, subagents\n",
            "    from agent_cli.hooks import events as hook_events\n",
        ),
        " agent_cli/kernel/engine/execute.py": (
            r"        yield PlanChanged\(context.plan\)\n",
            '        if turn.deps.hooks.wants("PlanUpdate"):\n'
            "            steps = [step.content for step in context.plan]\n"
            "            yield from hook_points.fire(turn, hook_events.plan_update(steps))\n",
        ),
    },
    "a setting": {
        "agent_cli/config/schema.py": (
            r"    after_turn: .*\n",
            '    farewell: Annotated[str, "what `agent ping` says"] = "pong"\n',
        ),
    },
    "an option": {
        "agent_cli/cli/run_options.py": (
            r"(?=    model: Annotated\[)",
            '    farewell: Annotated[str | None, _flag("--farewell", MODEL, "What agent ping says.", '
            'setting="farewell", metavar="WORD")] = None\n',
        ),
    },
    "a command": {
        "agent_cli/cli/commands/ping.py": (
            "",
            '"""Say that the program is there."""\n\n'
            "from __future__ import annotations\n\n"
            "import typer\n\n"
            "from agent_cli.cli.app import with_run_options\n"
            "from agent_cli.cli.help import examples\n"
            "from agent_cli.config.config import Config\n"
            "from agent_cli.console import echo\n"
            "from agent_cli.kernel.runtime.environment import find_environment, read_settings\n\n"
            "app = typer.Typer(add_completion=False)\n\n\n"
            '@app.command(epilog=examples("agent ping --farewell hello"))\n'
            '@with_run_options("farewell")\n'
            "def ping(config: Config) -> int:\n"
            "    echo(read_settings(config, find_environment({}, None)).settings().farewell)\n"
            "    return 0\n",
        ),
        "tests/policy/test_hostile_commands.py": (r'    "pending": \[\[\]\],\n', '    "ping": [[]],\n'),
    },
    "a program": {
        "agent_cli/policy/programs/rows/reading.py": (
            r'(?=    "ls": reading_row\()',
            '    "cal2": reading_row("text", "13jmwy"),\n',
        ),
    },
    "a checker": {
        "tools/agent_tools/diagnostics/checkers.py": (
            r"(?=    CheckerRow\(\"mypy\")",
            '    CheckerRow("hadolint", "docker", (".dockerfile",), ("-",), parsers.text_lines, stdin=True),\n',
        ),
    },
}
CHANGED = (
    "tests/cli/test_help.py", "tests/cli/test_options.py", "tests/hooks/test_examples.py",
    "tests/terminal/test_slash.py",
    "tests/config/test_reference.py", "tests/policy/test_hostile_commands.py::test_no_command_is_forgotten",
    "tests/test_layers.py::test_there_are_no_cycles", "tests/test_docs.py",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_change_is_where_the_architecture_says(tmp_path: Path) -> None:
    copy = tmp_path / "agent"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT, symlinks=True)
    for files in ADDED.values():
        for name, (after, text) in files.items():
            (copy / name.strip()).touch()
            insert(copy / name.strip(), after=after, text=text)
    python(copy, "-m", "agent_cli.config.reference")
    python(copy, "-m", "docs.pages")
    assert python(copy, "-m", "agent_cli", "ping") == "pong\n"
    assert python(copy, "-m", "agent_cli", "ping", "--farewell", "hello") == "hello\n"
    seen = copy.parent / "seen"
    settings = f'[[hooks]]\nevent = "PlanUpdate"\ncommand = "cat > {seen}"\n'
    calls = [call("TodoWrite", todos=[{"content": "Greet", "status": "pending"}])]
    model = script(copy.parent / "s.toml", [{"calls": calls}, {"text": "Done."}])
    python(copy, "-m", "agent_cli", "-p", "--model", model, "--settings", settings, "hello")
    assert json.loads(seen.read_text())["plan"] == ["Greet"]
    python(copy, "-m", "pytest", "-p", "no:cacheprovider", "-x", *CHANGED)


def insert(path: Path, *, after: str, text: str) -> None:
    """Insert a text behind the first match of a pattern."""
    old = path.read_text("utf-8")
    found = re.search(after, old)
    assert found is not None, after
    path.write_text(old[: found.end()] + text + old[found.end() :], "utf-8")


def python(copy: Path, *words: str) -> str:
    """Run Python with the modules of the copy; return its output."""
    home = copy.parent / "home"
    env = {**os.environ, "PYTHONPATH": f"{copy}:{copy / 'tools'}", "HOME": str(home), "AGENT_STATE_DIR": str(home)}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=copy,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
    return done.stdout

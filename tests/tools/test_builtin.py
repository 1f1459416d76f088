"""What holds for all built-in tools: their schemas, their texts, and what importing them costs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent_tools.generate import FILE, generate_schemas
from agent_tools.registry import BUILTIN
from tests.support.tool_bench import Bench

PROMPTS = Path(__file__).parents[2] / "prompts" / "tools"
NAMES = [tool.name for tool in BUILTIN]
# A new one goes behind them: what is before it in a request stays as it is, and so cached.
ORDER = (
    "Read Write Edit MultiEdit Glob Grep LS Bash BashOutput KillShell NotebookRead NotebookEdit WebFetch WebSearch "
    "TodoWrite TodoRead PlanProgress AskUserQuestion Task ExitPlanMode SlashCommand Skill apply_patch BashInput"
).split()


def test_the_tools_and_their_order() -> None:
    assert NAMES[: len(ORDER)] == ORDER
    assert len(set(NAMES)) == len(NAMES)


def test_the_generated_schemas_are_up_to_date() -> None:
    assert FILE.read_text("utf-8") == generate_schemas(), "run `make schemas`"
    assert list(json.loads(FILE.read_text("utf-8"))) == NAMES


def test_every_tool_is_taught_and_all_together_stay_small() -> None:
    taught = {t.name: t.description or (PROMPTS / f"{t.name}.md").read_text("utf-8") for t in BUILTIN}
    assert all(text.strip() for text in taught.values())
    sent = [{"name": t.name, "description": taught[t.name], "input_schema": t.schema()} for t in BUILTIN]
    # Every request carries them.
    assert len(json.dumps(sent, separators=(",", ":"))) < 795 * len(BUILTIN)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_arguments_are_answered_in_words(bench: Bench, name: str) -> None:
    wrong = {"file_path": 3.5, "pattern": [1], "path": {}, "command": None, "todos": "x", "content": 1}
    if name == "TodoRead":
        bench(name)
        return
    assert "Invalid arguments" in bench.fails(name, **wrong)
    assert "Invalid arguments" in bench.fails(name)


def test_importing_the_tools_loads_nothing_heavy() -> None:
    heavy = tuple(
        "dataclasses pydantic asyncio tomllib tempfile difflib shutil inspect agent_cli ssl http selectolax pypdf ddgs "
        "html_to_markdown agent_tools.net.http agent_tools.web.cache agent_tools.net.connect "
        "agent_tools.net.web_client".split()
    )
    code = f"import sys, agent_tools.registry; print([m for m in {heavy!r} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_env())
    assert ran.stdout.strip() == "[]"


def _env() -> dict[str, str]:
    return {"PYTHONPATH": str(Path(__file__).parents[2] / "tools"), "PATH": "/usr/bin:/bin"}

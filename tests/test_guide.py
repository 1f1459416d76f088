"""The guide to a new tool, followed to the letter in a copy of the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fork_server import ROOT

# What is no part of the repository.
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "dist")
# What is held of every tool, and what the guide asks for.
TESTS = (
    "tests/tools/test_word_count.py", "tests/tools/test_builtin.py", "tests/tools/test_traits.py",
    "tests/tools/test_named_tools.py", "tests/test_tests.py", "tests/test_layers.py::test_there_are_no_cycles",
    "tests/test_docs.py::test_what_the_pages_take_from_the_program_is_up_to_date",
    "tests/test_docs.py::test_the_tree_of_the_architecture_is_that_of_the_folders",
    "tests/test_docs.py::test_every_tool_and_command_is_named",
    "tests/runtime/test_system_prompt.py::test_the_first_request_of_a_session_has_at_most_20_kb",
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
    insert(copy / "docs/guide.md", after=r"\| `Read`, .*\n", text=row)
    python(copy, "-m", "agent_tools.generate")
    python(copy, "-m", "docs.pages")
    assert python(copy, "-m", "agent_cli", "tools", "run", "WordCount", '{"file_path": "README.md"}').endswith(
        " characters\n"
    )
    python(copy, "-m", "pytest", "-p", "no:cacheprovider", "-x", *TESTS)


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
    done = subprocess.run([sys.executable, *words], cwd=copy, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
    return done.stdout

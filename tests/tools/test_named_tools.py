"""Advice names only tools that are on offer: every text of the program that names a tool is found here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_tools.registry import BUILTIN
from tests.support.fork_server import ROOT
from tests.support.program_files import tree

# "Read", "Write", "Edit" and "Skill" also begin sentences: they name a tool where they are not the first word.
NAMES = {tool.name for tool in BUILTIN} | {"ToolSearch", "UseTool"}
VERBS = {"Read", "Write", "Edit", "Skill", "Task"}
FOLDERS = ("tools/agent_tools", "agent_cli/kernel/engine", "agent_cli/mcp", "agent_cli/knowledge")
# These ask which tools are on offer: `Workspace.advice`, and errors that are worded by it.
ASKING = {"advice", "UnusableFileError"}
# What the user reads, or no model at all; and texts of a tool about itself or one that is always offered with it.
ALLOWED = {
    "tools/agent_tools/tool_search.py": {"UseTool", "ToolSearch"},
    "agent_cli/knowledge/agents.py": NAMES,
    "tools/agent_tools/net/web_client.py": {"WebFetch"},
    "tools/agent_tools/web/fetch.py": {"WebFetch"},
    "tools/agent_tools/web/providers.py": {"WebSearch"},
    "tools/agent_tools/search/ls.py": {"LS"},
    "tools/agent_tools/read.py": {"Read"},
    "tools/agent_tools/sandbox/denials.py": {"Read"},  # in a rule
    "tools/agent_tools/saved_prompts.py": {"Skill"},
    "tools/agent_tools/shell/jobs.py": {"Bash"},
    "tools/agent_tools/fs/workspace.py": {"Bash"},  # `advice` itself, which asks whether it is offered
}
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def texts(module: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts of a file that are no docstring, no name by itself, no annotation, and no argument of `ASKING`."""
    skipped: set[ast.AST] = set()
    for node in ast.walk(module):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                skipped.add(first.value)
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in ASKING:
                skipped |= {inner for argument in node.args for inner in ast.walk(argument)}
        if isinstance(node, ast.AnnAssign):
            skipped |= set(ast.walk(node.annotation))
        if isinstance(node, ast.FunctionDef) and node.name == "summary":
            skipped |= set(ast.walk(node))
    for node in ast.walk(module):
        if node not in skipped and isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def named(text: str) -> set[str]:
    """The tools that a text names; a text without a blank is a name, not advice."""
    if " " not in text.strip():
        return set()
    found = set()
    for match in re.finditer(r"[A-Za-z]+", text):
        word, before = match[0], text[: match.start()]
        begins = re.search(r"(?:^\s*|[.!?:\]\n] ?)$", before) is not None
        if word in NAMES and not (word in VERBS and begins):
            found.add(word)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_text_names_a_tool_that_may_not_be_on_offer(path: Path) -> None:
    allowed = ALLOWED.get(str(path.relative_to(ROOT)), set())
    assert [(line, text) for line, text in texts(tree(path)) if named(text) - allowed] == []


def test_the_search_finds_what_it_is_for() -> None:
    source = ast.parse(
        'def f():\n    """Use Grep."""\n    return "too long; Grep or Read it" + ctx.advice("LS", "Use LS.")'
    )
    assert [named(text) for _, text in texts(source)] == [{"Grep", "Read"}, set()][:1]
    assert named("Read it again, then edit.") == set() and named("or Read it") == {"Read"}

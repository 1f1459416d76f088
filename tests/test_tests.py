"""How the tests stand: where their helpers are, that none leans on another, and that folders mirror the packages."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

from tests.support.fork_server import ROOT

TESTS = ROOT / "tests"
# Topics across the program: races between a tool and another process, the real program in a terminal, whole days, and
# clients that others wrote.
ACROSS = {"web", "races", "pty", "stories", "support", "tools", "outside"}
# Tables of one topic, which its tests read.
TABLES = "tests.policy.corpus"
IMPORTS = re.compile(r"^[ \t]*(?:from tests\b[^(\n]*(?:\([^)]*\))?|import tests\b.*)", re.MULTILINE)


@cache
def imported(path: Path) -> frozenset[str]:
    """The modules of the tests that a file names in its imports, those in functions too.

    Only the statements are parsed: all the files would take half a minute.
    """
    found = set()
    for statement in IMPORTS.findall(path.read_text("utf-8")):
        node = ast.parse(statement.strip()).body[0]
        if isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return frozenset(found)


def test_no_test_imports_from_another_or_from_a_conftest() -> None:
    wrong = {
        (str(path.relative_to(ROOT)), name)
        for path in TESTS.rglob("*.py")
        for name in imported(path)
        if any(part.startswith("test_") or part == "conftest" for part in name.split(".")[:3] + name.split(".")[3:4])
        and (ROOT / (name.replace(".", "/") + ".py")).is_file()
    }
    assert not wrong, "what two tests need belongs in tests/support, a fixture in a conftest"


def test_what_several_tests_use_is_in_support() -> None:
    users = Counter(
        name
        for path in TESTS.rglob("test_*.py")
        for name in imported(path)
        if (ROOT / (name.replace(".", "/") + ".py")).is_file() and not name.startswith(("tests.support.", TABLES))
    )
    assert {name: count for name, count in users.items() if count > 1} == {}


def test_folders_mirror_the_packages() -> None:
    def folders(base: Path) -> set[str]:
        return {path.parent.name for path in base.glob("*/__init__.py")}

    program = ROOT / "agent_cli"
    parts = {name for room in ("kernel", "knowledge", "shells", "extras") for name in folders(program / room)}
    assert folders(TESTS) == (folders(program) - {"shells", "extras"}) | parts | ACROSS
    assert folders(TESTS / "tools") == folders(ROOT / "tools/agent_tools")


def test_no_fixture_is_there_twice() -> None:
    """What two files need is in the conftest of their folder, or of all."""
    found: dict[str, list[str]] = {}
    for path in TESTS.rglob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.parse(text).body if "fixture" in text else ():
            if isinstance(node, ast.FunctionDef) and any("fixture" in ast.unparse(d) for d in node.decorator_list):
                code = ast.unparse([*node.decorator_list, node.args, *node.body[ast.get_docstring(node) is not None :]])
                found.setdefault(f"{node.name} {code}", []).append(f"{path.relative_to(ROOT)}: {node.name}")
    assert [places for places in found.values() if len(places) > 1] == []

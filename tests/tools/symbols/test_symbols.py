"""What a language server knows of symbols, and a rename in all files, with servers that work, lie, hang and die."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_tools.diagnostics import language_server
from agent_tools.registry import is_available
from tests.support import symbol_server
from tests.support.checkers import CheckerFolder
from tests.support.symbol_bench import CORE, USE, SymbolBench
from tests.support.tool_bench import TOOLS

NAMES = ("Symbols", "Definition", "References", "RenameSymbol")
PYLSP = shutil.which("pylsp", path=str(Path(sys.executable).parent))


@pytest.fixture
def bench(work: Path) -> Iterator[SymbolBench]:
    found = SymbolBench(work)
    found.ctx.command_rule = lambda command: True
    yield found
    found.ctx.close()


@pytest.fixture
def python(bench: SymbolBench) -> SymbolBench:
    """A Python project, for the real server."""
    if PYLSP is None:
        pytest.skip("NOT TESTED: pylsp is not installed")
    bench.ctx.env["PATH"] = f"{Path(PYLSP).parent}:/usr/bin:/bin"
    bench.file("pkg/__init__.py")
    bench.file("pkg/core.py", CORE)
    bench.file("pkg/use.py", USE)
    return bench


GO = "package a\n\nfunc load() {} // load\nfunc other() { load() }\n"


@pytest.fixture
def go(bench: SymbolBench, checkers: CheckerFolder) -> Callable[[str], SymbolBench]:
    """A Go project, for a server that behaves in a given way."""

    def with_server(mode: str) -> SymbolBench:
        checkers.add_server("gopls", mode, symbol_server)
        bench.ctx.env["PATH"] = checkers.path
        bench.file("a.go", GO)
        bench.file("b.go", 'package a\n\nfunc more() { _ = "😀"; load() }\n')
        return bench

    return with_server


def test_symbols_of_a_real_server_are_no_homonyms(python: SymbolBench) -> None:
    assert all(is_available(TOOLS[name], python.ctx) for name in NAMES)
    outline = python.call("Symbols", file_path="pkg/core.py").splitlines()
    assert [line.split("-")[0].strip() for line in outline[1:]] == ["4", "9", "10"]
    assert outline[1].endswith("function load") and outline[3].endswith("method load")
    named = python.call("Symbols", query="load").splitlines()
    assert "pkg/core.py:4: function load" in named and "pkg/core.py:10: method load (in Store)" in named
    for symbol in ("load", "core.load"):
        found = python.call("Definition", file_path="pkg/use.py", line=10, symbol=symbol)
        assert found == "pkg/core.py:4: def load(path):"
    assert python.call("Definition", file_path="pkg/use.py", line=7, symbol="load").startswith("pkg/use.py:6:")
    uses = python.call("References", file_path="pkg/core.py", line=4, symbol="load").splitlines()
    assert [line.rpartition(": ")[0].split(": ")[0] for line in uses[1:]] == [
        "pkg/core.py:4", "pkg/core.py:11", "pkg/use.py:1", "pkg/use.py:10",
    ]  # fmt: skip


def test_a_rename_by_a_real_server_leaves_homonyms_alone(python: SymbolBench) -> None:
    done = python.call("RenameSymbol", file_path="pkg/core.py", line=4, symbol="load", new_name="read_it")
    assert done == "Renamed load to read_it in 2 files:\npkg/core.py (+2 -2)\npkg/use.py (+2 -2)"
    core, use = CORE.replace("def load(path)", "def read_it(path)").replace('load("é', 'read_it("é'), USE
    use = use.replace("Store, load", "Store, read_it").replace('(load("x"), core.load(', '(read_it("x"), core.read_it(')
    assert (python.root / "pkg/core.py").read_text() == core
    assert (python.root / "pkg/use.py").read_text() == use
    again = python.call("References", file_path="pkg/use.py", line=1, symbol="read_it")
    assert "pkg/core.py:4: def read_it(path):" in again, "the server was told of its own change"


def test_uses_are_complete_when_a_server_has_not_found_all_files_yet(go: Callable[[str], SymbolBench]) -> None:
    uses = go("part").call("References", file_path="b.go", line=3, symbol="load").splitlines()
    assert uses[0] == "3 places:" and [line.partition(":")[0] for line in uses[1:]] == ["a.go", "a.go", "b.go"]


def test_a_symbol_that_is_not_in_the_line_is_looked_for(go: Callable[[str], SymbolBench]) -> None:
    bench = go("good")
    ask = {"file_path": "a.go", "symbol": "load"}
    assert bench.refused("Definition", line=1, **ask) == "load is not in line 1 of a.go; it is in lines 3, 4."
    assert bench.refused("Definition", line=99, **ask).startswith("load is not in line 99")
    assert "nor elsewhere in it" in bench.refused("Definition", file_path="a.go", line=3, symbol="loa")
    assert "symbol is empty" in bench.refused("References", file_path="a.go", line=3, symbol=" ")
    assert "does not exist" in bench.refused("References", file_path="c.go", line=3, symbol="load")
    assert "give file_path" in bench.refused("Symbols")
    assert "must be one name" in bench.refused("RenameSymbol", line=3, new_name="a b", **ask)


@pytest.mark.parametrize("mode", ["good", "units", "whole", "early", "part"])
def test_a_rename_by_servers_that_count_and_answer_otherwise(go: Callable[[str], SymbolBench], mode: str) -> None:
    bench = go(mode)
    done = bench.call("RenameSymbol", file_path="b.go", line=3, symbol="load", new_name="fetch")
    assert done.splitlines()[0] == "Renamed load to fetch in 2 files:"
    assert (bench.root / "b.go").read_text() == 'package a\n\nfunc more() { _ = "😀"; fetch() }\n'
    text = (bench.root / "a.go").read_text()
    assert text.startswith("package a\n\nfunc fetch() {} // ") and text.endswith("{ fetch() }\n")


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("outside", "It would also change /"),
        ("files", "would also create, rename or delete files"),
        ("stale", "has not seen the latest a.go"),
        ("refuses", "The language server gopls refused textDocument/rename: cannot rename this."),
        ("dead", "The language server gopls ended by itself."),
    ],
)
def test_a_rename_that_is_not_what_it_should_be_changes_nothing(
    go: Callable[[str], SymbolBench], mode: str, why: str
) -> None:
    bench = go(mode)
    outside = bench.root.parent / "outside.go"
    outside.write_text(GO)
    assert why in bench.refused("RenameSymbol", file_path="a.go", line=3, symbol="load", new_name="fetch")
    assert (bench.root / "a.go").read_text() == outside.read_text() == GO


def test_a_file_that_changed_since_the_rename_was_shown_is_not_overwritten(go: Callable[[str], SymbolBench]) -> None:
    bench = go("good")
    arguments = {"file_path": "a.go", "line": 3, "symbol": "load", "new_name": "fetch"}
    said = bench.refused("RenameSymbol", lambda: bench.file("b.go", "package b // load\n"), **arguments)
    assert said == "b.go has changed since the rename was worked out: nothing was changed. Call again."
    assert (bench.root / "a.go").read_text() == GO
    assert bench.call("RenameSymbol", **arguments).startswith("Renamed load to fetch in 1 file:")


def test_a_server_is_told_what_others_changed(go: Callable[[str], SymbolBench], checkers: CheckerFolder) -> None:
    bench = go("good")
    ask = {"file_path": "a.go", "line": 3, "symbol": "load"}
    assert "b.go:3" in bench.call("References", **ask)
    bench.file("b.go", "package a\n\n\n\nfunc more() { load() }\n")
    bench.file("c.go", "package a\n")
    assert "b.go:5" in bench.call("References", **ask)
    (bench.root / "c.go").unlink()
    bench.call("References", **ask)
    told = [line for line in checkers.runs() if line[0].isdigit()]
    assert {"2 b.go", "1 c.go", "3 c.go"} <= set(told)


def test_a_server_that_still_indexes_or_does_not_answer_says_so(
    go: Callable[[str], SymbolBench], monkeypatch: pytest.MonkeyPatch, checkers: CheckerFolder
) -> None:
    monkeypatch.setattr(language_server, "TIMEOUT_SECONDS", 0.3)
    bench = go("busy")
    ask = {"file_path": "a.go", "line": 3, "symbol": "load"}
    for _ in range(3):
        said = bench.refused("References", **ask)
        assert said == "The language server gopls is still indexing the project. Use Grep instead."
    assert checkers.runs().count("started") == 1, "it is left alone"


def test_a_server_that_hangs_is_ended_and_given_up(
    go: Callable[[str], SymbolBench], monkeypatch: pytest.MonkeyPatch, checkers: CheckerFolder
) -> None:
    monkeypatch.setattr(language_server, "TIMEOUT_SECONDS", 0.3)
    bench = go("deaf")
    ask = {"file_path": "a.go", "line": 3, "symbol": "load"}
    for _ in range(2):
        assert "gopls did not answer in time" in bench.refused("References", **ask)
    assert "No language server that may run here is installed for a.go." in bench.refused("References", **ask)
    assert checkers.runs().count("started") == 2


def test_a_server_that_died_is_started_again(go: Callable[[str], SymbolBench], checkers: CheckerFolder) -> None:
    bench = go("dead")
    assert "ended by itself" in bench.refused("Symbols", file_path="a.go")
    checkers.add_server("gopls", "good", symbol_server)
    assert bench.call("Symbols", file_path="a.go") == "2 symbols:\n3 function load\n4 function other"


def test_files_that_may_not_be_read_are_not_shown(go: Callable[[str], SymbolBench]) -> None:
    bench = go("good")
    bench.ctx.readable = lambda path: not path.endswith("b.go")
    shown = bench.call("References", file_path="a.go", line=3, symbol="load")
    assert "b.go" not in shown and "[1 more place not shown: reading needs the user's approval" in shown
    assert "more" not in bench.call("Symbols", query="load")
    said = bench.refused("RenameSymbol", file_path="b.go", line=3, symbol="load", new_name="x")
    assert "cannot be read without the user's approval" in said


@pytest.mark.parametrize("missing", ["server", "rule", "file", "checks"])
def test_the_tools_are_offered_where_a_server_may_answer(
    go: Callable[[str], SymbolBench], missing: str, bench: SymbolBench
) -> None:
    if missing != "server":
        go("good")
    else:
        bench.ctx.env["PATH"] = "/nowhere"
    if missing == "rule":
        bench.ctx.command_rule = lambda command: None
    elif missing == "checks":
        bench.ctx.command_rule = None
    elif missing == "file":
        for path in bench.root.glob("*.go"):
            path.rename(path.with_suffix(".txt"))
    assert not any(is_available(TOOLS[name], bench.ctx) for name in NAMES)


def test_lines_that_a_search_for_symbols_showed_may_be_edited(go: Callable[[str], SymbolBench]) -> None:
    bench = go("good")
    os.utime(bench.root / "b.go", (1, 1))
    bench.call("References", file_path="a.go", line=3, symbol="load")
    done = bench("Edit", file_path="b.go", old_string='_ = "😀"; load()', new_string="load()")
    assert done.text.startswith("Edited b.go")

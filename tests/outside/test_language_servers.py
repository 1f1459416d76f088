"""Symbols by the language servers of npm, in projects where a search would be wrong; run by `make outside`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.client_home import CLIENTS
from tests.support.symbol_bench import CORE, USE, SymbolBench

SERVERS = CLIENTS / "npm/node_modules/.bin"
A = """// load
export function load(path: string) { return "load " + path }
export class Store { load() { return load("é") } }
"""
B = """import { load, Store } from "./a"
const o = { load }
export function other() { const load = 3; return load }
console.log(load("x"), new Store().load(), o.load)
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Callable[[str], SymbolBench]]:
    """A workspace in whose PATH only this server is."""
    made: list[SymbolBench] = []

    def with_server(name: str) -> SymbolBench:
        if not (SERVERS / name).exists():
            pytest.skip(f"NOT TESTED: {name} is not installed")
        folder, work = tmp_path / "bin", tmp_path / "work"
        folder.mkdir()
        work.mkdir()
        (folder / name).symlink_to(SERVERS / name)
        bench = SymbolBench(work)
        bench.ctx.command_rule = lambda command: True
        bench.ctx.env["PATH"] = f"{folder}:/usr/local/bin:/usr/bin:/bin"
        made.append(bench)
        return bench

    yield with_server
    for bench in made:
        bench.ctx.close()


def test_pyright(project: Callable[[str], SymbolBench]) -> None:
    bench = project("pyright-langserver")
    for name, text in (("__init__", ""), ("core", CORE), ("use", USE)):
        bench.file(f"pkg/{name}.py", text)
    uses = bench.call("References", file_path="pkg/core.py", line=4, symbol="load")
    assert uses.splitlines()[0] == "4 places:" and "pkg/use.py:10: " in uses
    done = bench.call("RenameSymbol", file_path="pkg/core.py", line=4, symbol="load", new_name="read_it")
    assert done == "Renamed load to read_it in 2 files:\npkg/core.py (+2 -2)\npkg/use.py (+2 -2)"
    assert "    load = 3\n    return load\n" in (bench.root / "pkg/use.py").read_text()


def test_typescript(project: Callable[[str], SymbolBench]) -> None:
    bench = project("typescript-language-server")
    (bench.root / "node_modules").symlink_to(CLIENTS / "npm/node_modules")
    bench.file("tsconfig.json", '{"compilerOptions": {"strict": true, "module": "commonjs"}, "include": ["src"]}')
    bench.file("src/a.ts", A)
    bench.file("src/b.ts", B)
    assert "src/a.ts:2: function load" in bench.call("Symbols", query="load")
    done = bench.call("RenameSymbol", file_path="src/a.ts", line=2, symbol="load", new_name="readIt")
    assert done == "Renamed load to readIt in 2 files:\nsrc/a.ts (+2 -2)\nsrc/b.ts (+3 -3)"
    text = (bench.root / "src/b.ts").read_text()
    assert "const o = { load: readIt }" in text and "const load = 3; return load" in text

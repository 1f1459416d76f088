"""Who may import whom, that nothing is circular, that heavy libraries have one door each, and that files stay short."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.helpers import ROOT

LEAF = {"agent_tools"}
ALLOWED: dict[str, set[str]] = {
    "agent_tools": LEAF,
    "agent_cli.core": LEAF,
    "agent_cli.model": LEAF | {"agent_cli.core"},
    "agent_cli.permission": LEAF | {"agent_cli.core"},
    "agent_cli.session": LEAF | {"agent_cli.core"},
    "agent_cli.snapshots": LEAF | {"agent_cli.core", "agent_cli.permission"},
    "agent_cli.commits": LEAF
    | {"agent_cli.core", "agent_cli.config", "agent_cli.snapshots", "agent_cli.place", "agent_cli.model.transport",
       "agent_cli.engine.turn"},
    "agent_cli.config": LEAF | {"agent_cli.core"},
    "agent_cli.engine": LEAF
    | {"agent_cli.core", "agent_cli.config", "agent_cli.permission", "agent_cli.model.transport"},
    "agent_cli.headless": LEAF | {"agent_cli.core", "agent_cli.config", "agent_cli.engine.drive", "agent_cli.session"},
    "agent_cli.embedding": LEAF
    | {"agent_cli.core", "agent_cli.extensions.hooks", "agent_cli.headless.run", "agent_cli.place",
       "agent_cli.plugins"},
    "agent_cli.extensions": LEAF
    | {"agent_cli.core", "agent_cli.config", "agent_cli.engine", "agent_cli.permission", "agent_cli.options",
       "agent_cli.place", "agent_cli.model.transport"},
    # The REPL is where the user changes what was joined, so it may call on assembly.
    "agent_cli.terminal": LEAF
    | {"agent_cli.core", "agent_cli.config", "agent_cli.engine.drive", "agent_cli.session", "agent_cli.assembly",
       "agent_cli.keeping", "agent_cli.snapshots", "agent_cli.commits", "agent_cli.place", "agent_cli.mcp_servers",
       "agent_cli.titles", "agent_cli.waiting", "agent_cli.options",
       "agent_cli.permission.decision",
       "agent_cli.attach", "agent_cli.engine.beside", "agent_cli.engine.context",
       "agent_cli.model.transport", "agent_cli.model.select", "agent_cli.model.discover",
       "agent_cli.commands.doctor"},
}  # fmt: skip
# The doors: which file may import a heavy library, at any place in it.
DOORS = {
    "litellm": {"agent_cli/model/litellm_worker.py"},
    "prompt_toolkit": {
        f"agent_cli/terminal/{name}.py"
        for name in ("output", "ansi", "history", "line", "layout", "keys", "live", "guarded", "picker")
    },
    "rich": {"agent_cli/terminal/console.py", "agent_cli/terminal/show.py", "agent_cli/terminal/views.py",
             "agent_cli/terminal/approval.py", "agent_cli/terminal/asking.py", "agent_cli/terminal/trusting.py",
             "agent_cli/terminal/diffs.py", "agent_cli/terminal/highlight.py", "agent_cli/terminal/markdown.py",
             "agent_cli/terminal/render.py", "agent_cli/terminal/tables.py", "agent_cli/terminal/wrapping.py",
             "agent_cli/terminal/writing.py", "agent_cli/terminal/decisions.py", "agent_cli/terminal/transcript.py",
             "agent_cli/terminal/details.py"},
    "markdown_it": {"agent_cli/terminal/markdown.py", "agent_cli/session/export/prose.py"},
    "pygments": {"agent_cli/terminal/highlight.py"},
    "typer": {"agent_cli/cli.py", *(f"agent_cli/entries/{p.name}" for p in (ROOT / "agent_cli/entries").glob("*.py"))},
    "pydantic": {"tools/agent_tools/arguments.py", "agent_cli/config/reading.py", "agent_cli/extensions/mcp/sdk.py",
                 "agent_cli/extensions/mcp/oauth.py"},
    "jsonschema": {"agent_cli/engine/structured.py"},
    "keyring": {"agent_cli/model/keys.py"},
    "platformdirs": {"agent_cli/session/store.py"},
    "selectolax": {"tools/agent_tools/markdown.py"},
    "html_to_markdown": {"tools/agent_tools/markdown.py"},
    "pypdf": {"tools/agent_tools/pdf_worker.py"},
    "PIL": {"tools/agent_tools/images.py"},
    "ddgs": {"tools/agent_tools/search_providers.py"},
    "tomlkit": {
        "agent_cli/config/own_settings.py",
        "agent_cli/permission/saved_rules.py",
        "agent_cli/extensions/mcp/editing.py",
    },
    "yaml": {"agent_cli/config/front_matter.py"},
    "git": {"agent_cli/commits/repository.py"},
    "openai": set(),
    "anthropic": set(),
    "httpx": {"agent_cli/model/litellm_worker.py"},
    "mcp": {f"agent_cli/extensions/mcp/{name}.py" for name in ("sdk", "http", "pipes", "serving", "oauth")},
    "httpx2": {f"agent_cli/extensions/mcp/{name}.py" for name in ("http", "oauth")},
    "mcp_types": {f"agent_cli/extensions/mcp/{name}.py" for name in ("sdk", "pipes", "serving")},
    "anyio": {f"agent_cli/extensions/mcp/{name}.py" for name in ("sdk", "pipes", "serving")},
    "asyncio": {f"agent_cli/extensions/mcp/{name}.py" for name in ("loop", "keeping", "oauth")},
    "dataclasses": set(),
}  # fmt: skip
LIMIT = 400


def modules() -> dict[str, Path]:
    found = {}
    for base, package in ((ROOT, "agent_cli"), (ROOT / "tools", "agent_tools")):
        for path in sorted((base / package).rglob("*.py")):
            if "project" in path.parts:
                continue
            parts = path.relative_to(base).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


@cache
def imports(path: Path, *, top_only: bool) -> frozenset[str]:
    """The dotted names a file imports; `top_only` leaves out those inside functions and type checking blocks."""
    tree = ast.parse(path.read_text("utf-8"))
    nodes = list(tree.body) if top_only else list(ast.walk(tree))
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{a.name}" for a in node.names if f"{node.module}.{a.name}" in MODULES}
    return frozenset(names)


def room(module: str) -> str | None:
    return next((r for r in ALLOWED if module == r or module.startswith(f"{r}.")), None)


def covers(allowed: set[str], name: str) -> bool:
    return any(name == a or name.startswith(f"{a}.") for a in allowed)


@pytest.mark.parametrize("module", [m for m in MODULES if room(m)])
def test_rooms_import_only_what_they_may(module: str) -> None:
    home = room(module)
    assert home is not None
    ours = {n for n in imports(MODULES[module], top_only=False) if n.split(".")[0] in ("agent_cli", "agent_tools")}
    wrong = {n for n in ours if n != "agent_cli" and not covers(ALLOWED[home] | {home}, n)}
    assert not wrong, f"{module} may not import {sorted(wrong)}"


def test_there_are_no_cycles() -> None:
    graph = {m: {n for n in imports(p, top_only=True) if n in MODULES and n != m} for m, p in MODULES.items()}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for other in sorted(graph[module]):
                visit(other, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("library", DOORS)
def test_heavy_libraries_have_named_doors(library: str) -> None:
    users = {
        str(p.relative_to(ROOT)) for p in MODULES.values()
        if any(n.split(".")[0] == library for n in imports(p, top_only=False))
    }  # fmt: skip
    assert users <= DOORS[library]


def test_files_stay_short() -> None:
    paths = [*MODULES.values(), *(ROOT / "tests").rglob("*.py")]
    long = {str(p.relative_to(ROOT)): n for p in paths if (n := len(p.read_text("utf-8").splitlines())) > LIMIT}
    assert not long


def test_no_two_classes_and_no_two_public_functions_share_a_name() -> None:
    """A name that is grepped for leads to one place. `main` is the entry of a program of its own."""
    found: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                found.setdefault(node.name, set()).add(module)
    assert {name: paths for name, paths in found.items() if len(paths) > 1 and name != "main"} == {}

"""Who may import whom, that nothing is circular, that heavy libraries have one door each, and the size of packages."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.support.fork_server import ROOT
from tests.support.program_files import MODULES, nodes, tree

# Downwards: a package may import those of the lines above it that it names, and agent_tools. Every import counts,
# those in functions and for type checking too.
MAY_IMPORT: dict[str, str] = {
    "kernel": "",
    "hooks": "kernel",
    "config": "kernel hooks",
    "models": "kernel",
    "kernel.session": "kernel hooks",
    "console": "kernel kernel.session",
    "knowledge.memory_imports": "kernel config",
    "knowledge.memory": "kernel config knowledge.memory_imports",
    "policy": "kernel knowledge.memory knowledge.memory_imports",
    "knowledge.plugins": "kernel hooks config",
    "undo": "kernel policy",
    "kernel.engine": "kernel hooks config policy models",
    "knowledge": "kernel hooks config policy knowledge.plugins models kernel.engine",
    "mcp": "kernel config",
    "ide": "kernel",
    "git": "kernel config policy undo models kernel.engine kernel.session",
    "telemetry": "kernel config kernel.session",
    "stage": "kernel config policy kernel.engine kernel.session",
    "takeover": "kernel kernel.session",
    "kernel.runtime": "kernel config models kernel.session knowledge.memory policy knowledge.plugins undo "
    "kernel.engine hooks knowledge mcp git telemetry ide stage",
    "library": "kernel config kernel.session hooks knowledge kernel.runtime",
    "doctor": "kernel config models kernel.session console knowledge.memory knowledge.plugins undo knowledge mcp "
    "telemetry kernel.runtime",
    "shells.headless": "kernel hooks kernel.session console kernel.engine",
    "shells.host": "kernel config console policy hooks knowledge mcp kernel.runtime shells.headless models",
    "shells.terminal": "kernel hooks config models kernel.session knowledge.memory policy knowledge.plugins undo "
    "kernel.engine knowledge git kernel.runtime doctor ide takeover",
    "shells.acp": "kernel kernel.session knowledge kernel.runtime shells.terminal",
    "extras.reports": "kernel undo",
    "extras.evaluation": "config kernel.session console kernel.runtime",
    "extras.batch": "kernel kernel.session console policy extras.evaluation",
    "extras.gate": "kernel.session kernel.runtime",
    "extras.schedules": "kernel.session",
    "extras.server": "kernel config models kernel.session console undo knowledge git kernel.runtime "
    "extras.schedules takeover",
    "cli": "kernel hooks config models kernel.session console policy knowledge.plugins undo kernel.engine "
    "knowledge mcp git kernel.runtime doctor shells.headless shells.host extras.reports extras.evaluation "
    "extras.batch shells.terminal shells.acp extras.server extras.schedules takeover extras.gate",
}
# Rooms: what is started by `cli` only, and imports nothing of the other rooms, except for these: a host's session ends
# as a one-shot run does; an editor has the slash commands and questions of the terminal; a batch runs tasks as an
# evaluation does; the page starts schedules.
ROOMS = ("shells", "extras", "cli")
BETWEEN_ROOMS = {
    ("shells.host", "shells.headless"),
    ("shells.acp", "shells.terminal"),
    ("extras.batch", "extras.evaluation"),
    ("extras.server", "extras.schedules"),
}
# What goes upwards all the same, each with its reason.
UPWARDS = {}
# The doors: which file may import a heavy library, at any place in it.
_TERMINAL = "agent_cli/shells/terminal"
DOORS = {
    "acp": {"agent_cli/shells/acp/protocol.py"},
    "cronsim": {"agent_cli/extras/schedules/times.py"},
    **{name: {"agent_cli/extras/batch/cluster.py"} for name in ("dask", "distributed")},
    "litellm": {"agent_cli/models/litellm_worker.py"},
    "prompt_toolkit": {
        *(f"{_TERMINAL}/app/{name}.py" for name in (
            "output", "input_line", "key_reader", "layout", "keys", "app", "question_panel", "playback", "typed_text",
            "rows", "view_screen")),
        f"{_TERMINAL}/dialogs/session_picker.py",
        f"{_TERMINAL}/render/ansi.py",
    },
    "rich": {
        f"{_TERMINAL}/startup.py",
        f"{_TERMINAL}/dialogs/lines.py",
        f"{_TERMINAL}/dialogs/view.py",
        f"{_TERMINAL}/app/question_view.py",
        *(f"{_TERMINAL}/commands/{name}.py" for name in (
            "changes", "config", "context", "extensions", "help", "memory", "session")),
        *(f"{_TERMINAL}/render/{name}.py" for name in (
            "console", "details", "events", "code", "markdown", "ansi", "live_writer", "writer", "transcript")),
    },
    "markdown_it": {f"{_TERMINAL}/render/markdown.py", "agent_cli/kernel/session/export.py",
                    "agent_cli/extras/server/drawing.py"},
    "pygments": {f"{_TERMINAL}/render/code.py", "agent_cli/extras/server/drawing.py"},
    "typer": {"agent_cli/cli/app.py",
              *(f"agent_cli/cli/commands/{p.name}" for p in (ROOT / "agent_cli/cli/commands").glob("[a-z]*.py"))},
    "pydantic": {"agent_cli/shells/acp/protocol.py", "agent_cli/extras/server/app.py",
    "agent_cli/extras/server/schemas.py",
                 "tools/agent_tools/schema.py", "agent_cli/config/parsing.py",
                 "agent_cli/mcp/oauth.py"},
    "jsonschema": {"agent_cli/kernel/engine/structured_output.py"},
    "keyring": {"agent_cli/models/credentials.py"},
    "platformdirs": {"agent_cli/kernel/session/store.py"},
    "selectolax": {"tools/agent_tools/web/html_worker.py"},
    "html_to_markdown": {"tools/agent_tools/web/html_worker.py"},
    "pypdf": {"tools/agent_tools/documents/pdf_worker.py"},
    "PIL": {"tools/agent_tools/documents/images.py"},
    "ddgs": {"tools/agent_tools/web/providers.py"},
    "tomlkit": {
        "agent_cli/kernel/runtime/saved_settings.py",
        "agent_cli/mcp/config.py",
    },
    "yaml": {"agent_cli/config/prompts.py"},
    "git": {"agent_cli/git/repository.py"},
    "google": {"agent_cli/telemetry/exporters.py"},
    "opentelemetry": {"agent_cli/telemetry/exporters.py"},
    "openai": set(),
    "anthropic": set(),
    "httpx": {"agent_cli/models/litellm_worker.py"},
    "mcp": {
        "agent_cli/cli/serve_tools.py",
        *(f"agent_cli/mcp/{name}.py" for name in ("http_transport", "oauth")),
    },
    "httpx2": {f"agent_cli/mcp/{name}.py" for name in ("http_transport", "oauth")},
    "mcp_types": {"agent_cli/cli/serve_tools.py", "agent_cli/mcp/http_transport.py"},
    "anyio": {"agent_cli/cli/serve_tools.py", "agent_cli/mcp/http_transport.py"},
    "starlette": {f"agent_cli/extras/server/{name}.py" for name in (
        "actions", "app", "coding", "commands", "guard", "managing", "push", "queries", "schedules", "shipping",
        "uploads")},
    "cryptography": {"agent_cli/extras/server/web_push.py"},
    "uvicorn": {"agent_cli/extras/server/app.py"},
    "asyncio": {*(f"agent_cli/shells/acp/{name}.py" for name in ("client", "server")),
                *(f"agent_cli/extras/server/{name}.py" for name in (
                    "actions", "app", "coding", "commands", "delivery", "guard", "hub", "managing", "notify",
                    "pool", "push", "queries", "schedules", "shipping", "streams", "uploads")),
                *(f"agent_cli/mcp/{name}.py" for name in (
                    "client", "jsonrpc", "stdio", "server", "supervisor", "oauth"))},
    "dataclasses": set(),
}  # fmt: skip
# Lines of each package, its tables included. A change may raise one, with the reason in its message.
BUDGETS = {
    "agent_cli": 1750, "agent_tools": 4320, "agent_tools.diagnostics": 1750, "agent_tools.documents": 1200,
    "agent_tools.edit": 2700, "agent_tools.fs": 2500, "agent_tools.net": 1600, "agent_tools.process": 980,
    "agent_tools.sandbox": 5570, "agent_tools.search": 1200, "agent_tools.shell": 3170, "agent_tools.symbols": 850,
    "agent_tools.web": 850, "cli": 7700, "config": 2650, "console": 150, "doctor": 780, "shells.acp": 2150,
    "extras.batch": 1700, "extras.evaluation": 1190, "extras.gate": 920, "extras.reports": 1330,
    "extras.schedules": 740, "extras.server": 6860, "git": 1800, "hooks": 2540, "ide": 550, "kernel": 2500,
    "kernel.engine": 10600, "kernel.runtime": 8050, "kernel.session": 7170, "knowledge": 1950,
    "knowledge.memory": 500, "knowledge.memory_imports": 200, "knowledge.plugins": 1200, "library": 700, "mcp": 4450,
    "models": 8450, "policy": 12960, "shells.headless": 1950, "shells.host": 1800, "shells.terminal": 16500,
    "stage": 1670, "takeover": 1470, "telemetry": 1100, "undo": 3240,
}  # fmt: skip


@cache
def imports(path: Path, *, top_only: bool) -> frozenset[str]:
    """The dotted names a file imports; `top_only` leaves out those inside functions and type checking blocks."""
    names: set[str] = set()
    for node in tree(path).body if top_only else nodes(path):
        if isinstance(node, ast.Import):
            names |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            below = {f"{node.module}.{a.name}" for a in node.names} & MODULES.keys()
            names |= below if len(below) == len(node.names) else {node.module, *below}
    if "iter_modules(__path__)" in path.read_text("utf-8"):  # a package that imports every file in it
        names |= {module for module, file in MODULES.items() if file.parent == path.parent}
    return frozenset(names)


def package(module: str) -> str:
    """The package of a module: the longest name in the table that it begins with, or "" for what stands beside them."""
    parts = module.split(".")
    if parts[0] == "agent_tools":
        return "agent_tools"
    names = (".".join(parts[1:end]) for end in (3, 2))
    return next((name for name in names if name in MAY_IMPORT), "")


def ours(module: str, *, top_only: bool) -> set[str]:
    return {n for n in imports(MODULES[module], top_only=top_only) if n in MODULES and n != module}


def test_every_file_is_in_a_package() -> None:
    outside = {"agent_cli", "agent_cli.__main__", *(f"agent_cli.{room}" for room in ROOMS)}
    assert {module for module in MODULES if not package(module)} <= outside


@pytest.mark.parametrize("home", [*MAY_IMPORT, "agent_tools"])
def test_packages_import_only_what_they_may(home: str) -> None:
    allowed = {home, "agent_tools", *MAY_IMPORT.get(home, "").split()}
    wrong = {
        (module, other)
        for module in MODULES
        if package(module) == home
        for other in ours(module, top_only=False)
        if other != "agent_cli" and package(other) not in allowed and (module, other) not in UPWARDS
    }
    assert not wrong


def test_the_table_goes_downwards() -> None:
    names = list(MAY_IMPORT)
    for place, (name, allowed) in enumerate(MAY_IMPORT.items()):
        assert set(allowed.split()) <= set(names[:place]), name


def test_rooms_know_nothing_of_each_other() -> None:
    pairs = {
        (name, other)
        for name, allowed in MAY_IMPORT.items()
        for other in allowed.split()
        if name.startswith(ROOMS[:2]) and other.startswith(ROOMS)
    }
    assert pairs == BETWEEN_ROOMS


def circles(*, top_only: bool) -> list[list[str]]:
    """The groups of modules that import each other, the largest first (Tarjan)."""
    graph = {m: ours(m, top_only=top_only) for m in MODULES}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in graph[module]:
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            place = stack.index(module)
            if len(stack) - place > 1:
                found.append(sorted(stack[place:]))
            del stack[place:]

    for module in graph:
        if module not in index:
            visit(module)
    return sorted(found, key=len, reverse=True)


@pytest.mark.parametrize("top_only", [True, False])
def test_there_are_no_cycles(top_only: bool) -> None:
    """Neither of imports at the top nor with those in functions, lazy ones, and those for type checking."""
    assert circles(top_only=top_only) == []


def is_own(node: ast.AST) -> bool:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in getattr(node, "names", ())]
    return any(name.partition(".")[0] in ("agent_cli", "agent_tools") for name in names)


def test_own_modules_are_imported_at_the_top() -> None:
    """What is dear is imported lazily, as a module, in a block of `lazy_imports` that nothing else is in."""
    wrong = []
    for module, path in MODULES.items():
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                own = (n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom) and is_own(n))
                wrong += [f"{module}:{n.lineno}" for n in own]
        for block in tree(path).body:
            if isinstance(block, ast.With) and "lazy_imports" in ast.unparse(block.items[0]):
                for node in block.body:
                    if not isinstance(node, ast.ImportFrom) or (
                        is_own(node) and not {f"{node.module}.{a.name}" for a in node.names} <= MODULES.keys()
                    ):
                        wrong.append(f"{module}:{node.lineno}")
    assert wrong == []


def test_the_table_of_the_architecture_is_this_one() -> None:
    names = {package: ", ".join(f"`{name}`" for name in may.split()) for package, may in MAY_IMPORT.items()}
    rows = [f"| `{package}` | {may or 'nothing'} |" for package, may in names.items()]
    assert "\n".join(rows) in (ROOT / "docs/architecture.md").read_text("utf-8")


@pytest.mark.parametrize("library", DOORS)
def test_heavy_libraries_have_named_doors(library: str) -> None:
    users = {
        str(p.relative_to(ROOT)) for p in MODULES.values()
        if any(n.split(".")[0] == library for n in imports(p, top_only=False))
    }  # fmt: skip
    assert users == DOORS[library]


def test_only_a_user_decision_makes_answers_of_users() -> None:
    """Everyone else answers in the name of a hook or of the program; the log's own answers are read back by `core`."""
    answers = {"Approve", "Reject", "EditedCall", "QuestionReply"}
    homes = {"agent_cli.kernel.runtime.user_decision", "agent_cli.kernel.decisions"}
    found = {
        (module, name)
        for module, path in MODULES.items()
        if module not in homes
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and (name := getattr(node.func, "id", getattr(node.func, "attr", ""))) in answers
        and not any(k.arg == "by" and getattr(k.value, "value", "") in ("hook", "default") for k in node.keywords)
    }
    # A call that the user edited and has seen is not asked about again.
    assert found == {("agent_cli.kernel.engine.approvals", "Approve")}
    renamed = [n.names for path in MODULES.values() for n in nodes(path) if isinstance(n, ast.ImportFrom)]
    assert not [alias.name for names in renamed for alias in names if alias.name in answers and alias.asname]


def test_there_is_one_http_client() -> None:
    """`net/http`. The MCP SDK and LiteLLM bring their own, which have doors."""
    users = {
        module for module, path in MODULES.items()
        if imports(path, top_only=False) & {"http.client", "urllib.request", "urllib3", "requests", "aiohttp"}
    }  # fmt: skip
    assert users == {"agent_tools.net.http", "agent_tools.net.http_connection"}


def test_packages_stay_within_their_budgets() -> None:
    found: dict[str, int] = {}
    for module, path in MODULES.items():
        parts = module.split(".")
        tools = parts[1] if path.parent.parent.name == "agent_tools" else ""
        name = ".".join(filter(None, ("agent_tools", tools))) if package(module) == "agent_tools" else package(module)
        found[name or "agent_cli"] = found.get(name or "agent_cli", 0) + len(path.read_text("utf-8").splitlines())
    assert set(found) == set(BUDGETS)
    assert {name: (lines, BUDGETS[name]) for name, lines in found.items() if lines > BUDGETS[name]} == {}


def test_the_gate_knows_programs_by_name_only_where_they_are_described() -> None:
    names = set("git find sed npm awk make gh go docker curl rm mv tar rsync ssh cargo pip kill".split())
    found = {
        (module, node.value)
        for module, path in MODULES.items()
        if module.startswith("agent_cli.policy.") and not module.startswith("agent_cli.policy.programs.")
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
    }
    assert found == set()


def test_functions_have_at_most_eighty_lines() -> None:
    found = {
        f"{module}.{node.name}": node.end_lineno - node.lineno + 1
        for module, path in MODULES.items()
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    }
    assert {name: lines for name, lines in found.items() if lines > 80} == {}


def test_front_ends_take_public_names_from_the_package() -> None:
    """What an embedding program has is what they use. The API itself is made of the modules below it."""
    public = {
        (node.module, alias.name)
        for node in nodes(MODULES["agent_cli"])
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    wrong = {
        (module, alias.name)
        for module, path in MODULES.items()
        if module.startswith(tuple(f"agent_cli.{room}." for room in ROOMS))
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (node.module, alias.name) in public and str(node.module).startswith("agent_cli.")
    }
    assert wrong == set()


# Names of other rooms, by room, that the shells, the command line, the extras and the doctor import beside the API. It
# falls; a front end that needs more asks the objects that it has, and they get a method.
INSIDE = 438


def test_front_ends_import_few_names_from_inside() -> None:
    found = set()
    for module, path in MODULES.items():
        room = module.split(".")[1] if module.count(".") > 1 else ""
        for node in nodes(path) if room in (*ROOMS, "doctor") else ():
            for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                whole = f"{node.module}.{alias.name}"
                home, name = (whole, "") if whole in MODULES else (node.module or "", alias.name)
                if home.startswith("agent_cli.") and home.split(".")[1] != room:
                    found.add((room, home, name))
    assert len(found) <= INSIDE, len(found)


def test_the_view_folds_the_events_and_the_front_ends_do_not() -> None:
    """A fold tells four or more kinds of events apart. `state` finds out what may run next, also from a damaged log."""
    kinds = {n.name for n in tree(MODULES["agent_cli.kernel.events"]).body if isinstance(n, ast.ClassDef)}
    found: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        for node in nodes(path):
            asked: ast.AST | None = node.cls if isinstance(node, ast.MatchClass) else None
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance" and len(node.args) == 2:
                asked = node.args[1]
            names = {n.id for n in ast.walk(asked) if isinstance(n, ast.Name)} if asked is not None else set()
            found.setdefault(module, set()).update(names & kinds)
    folds = {module for module, names in found.items() if len(names) >= 4}
    assert folds == {"agent_cli.kernel.session.view", "agent_cli.kernel.session.state"}


def test_no_two_classes_and_no_two_public_functions_share_a_name() -> None:
    """A name that is grepped for leads to one place. `main` is the entry of a program of its own."""
    found: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                found.setdefault(node.name, set()).add(module)
    assert {name: paths for name, paths in found.items() if len(paths) > 1 and name != "main"} == {}

"""What the documentation says is held to the program: flags, links, exit codes, settings, providers, tools, events."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agent_cli.cli import command_names
from agent_cli.cli.commands import review
from agent_cli.config import run_options
from agent_cli.config.layers import Layers
from agent_cli.config.policy import read_policy
from agent_cli.core import events
from agent_cli.core.decisions import Level
from agent_cli.core.rules import read_rule
from agent_cli.headless import output
from agent_cli.permissions.policy import Policy
from agent_cli.permissions.programs import git_reads, reads
from agent_cli.permissions.programs.table import ROWS
from agent_cli.providers.registry import PROVIDERS
from agent_cli.providers.scripted import KEYS
from agent_cli.terminal.commands import REGISTRY
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from agent_tools.record import Value
from agent_tools.registry import BUILTIN
from docs.pages import pages
from tests.support.fork_server import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
# Typer's own, and those of commands beside the agent, which are read from the source of the command line.
TYPER = {"--help", "--version", "--install-completion", "--show-completion"}
IDS = [str(p.relative_to(ROOT)) for p in PAGES]


def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def page(name: str) -> str:
    return text_of(ROOT / "docs" / name)


def fences(text: str, language: str) -> list[str]:
    """The contents of the code blocks in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def known_flags() -> set[str]:
    named = {name for flag, _ in run_options.flags().values() for name in flag.names}
    written = "".join(path.read_text("utf-8") for path in (ROOT / "agent_cli/cli").rglob("*.py"))
    return named | TYPER | set(re.findall(r'"(--?[a-z][\w-]*)"', written))


def agent_lines(text: str) -> list[str]:
    """Command lines of `agent` in code, continuation lines joined, quoted words left out."""
    code = "\n".join(
        [*re.findall(r"^```\w*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE), *re.findall(r"`(agent [^`]*)`", text)]
    )
    code = re.sub(r"\\\n", " ", code)
    code = re.sub(r"'[^'\n]*'|\"[^\"\n]*\"", "''", code)
    found = re.findall(r"(?:^|[\s|$(;/])agent ((?:-|[a-z])[^|\n;#]*)", code, re.MULTILINE)
    return [line for line in found if not line.startswith("said")]


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_every_flag_of_agent_exists(path: Path) -> None:
    used = {
        w.partition("=")[0]
        for line in agent_lines(text_of(path))
        for w in re.findall(r"(?<!\S)--?[a-zA-Z][\w=-]*", line)
    }
    assert used <= known_flags()


def test_the_headless_page_has_every_flag() -> None:
    left_out = {"--plain"}
    shown = set(re.findall(r"(--?[a-zA-Z][\w-]*)", page("headless.md")))
    assert {n for flag, _ in run_options.flags().values() for n in flag.names} - left_out <= shown


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(path)):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        linked = (path.parent / name).resolve() if name else path
        assert linked.exists(), target
        assert not anchor or anchor in anchors(text_of(linked)), target


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


def test_the_exit_codes_are_those_of_the_program() -> None:
    section = page("headless.md").partition("\n## Exit codes\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \|([\w, ]*)\|", section, re.MULTILINE)
    table = {int(code): set(filter(None, words.strip().split(", "))) for code, words in rows}
    words = output.Outcome.__args__  # type: ignore[attr-defined]
    found: dict[int, set[str]] = {output.USAGE: set(), output.PIPE: set(), review.FINDINGS_EXIT_CODE: set()}
    for word in words:
        for degraded in (False, True):
            found.setdefault(output.exit_code(word, fail_on_degraded=degraded), set()).add(word)
    assert table == found


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_settings_in_examples_are_accepted(path: Path, tmp_path: Path) -> None:
    for text in fences(text_of(path), "toml"):
        if "[[reply]]" in text:
            assert all(reply.keys() <= KEYS for reply in tomllib.loads(text)["reply"])
            continue
        if "allowed_servers" in text:
            (file := tmp_path / "policy.toml").write_text(text)
            assert read_policy({}, str(file)).sources
            continue
        layers = Layers()
        layers.add_text(text, "the example", ROOT)
        assert layers.origins
        assert not layers.ignored


def test_the_table_of_providers_is_complete() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\w ]+) \| ([^|]+) \|.*\| (.*) \|$", page("models.md"), re.MULTILINE)
    ways = {
        "openai": "Chat Completions",
        "responses": "Responses",
        "anthropic": "Anthropic Messages",
        "gemini": "Gemini",
        "ollama": "Ollama",
        "litellm": "LiteLLM",
    }
    shown = [(name, way, tuple(re.findall(r"`(\w+)`", keys)), default.strip(" `")) for name, way, keys, default in rows]
    assert [r for r in shown if r[1] in ways.values()] == [(p.name, ways[p.wire], p.keys, p.default) for p in PROVIDERS]


def test_the_rules_for_commands_cover_what_the_table_says(tmp_path: Path) -> None:
    rows = [re.split(r"(?<!\\)\|", line)[1:4] for line in page("permissions.md").splitlines() if "| `Bash" in line]
    assert len(rows) >= 4
    for rule_cell, covered, left_out in rows:
        for text in re.findall(r"`([^`]+)`", rule_cell):
            policy = Policy(Workspace(tmp_path), [read_rule("allow", text, "the page", tmp_path)])
            for cell, allowed in ((covered, True), (left_out, False)):
                for command in re.findall(r"`([^`]+)`", cell.replace("\\|", "|")):
                    level = policy.decide("Bash", [Effect("run", command)]).level
                    assert (level is Level.ALLOW) == allowed, (text, command)


def judged() -> str:
    return page("permissions.md").partition("\n## How a command is judged\n")[2].partition("\n## ")[0]


def test_commands_are_judged_as_the_table_says(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / ".env").write_text("x")
    rows = [re.split(r"(?<!\\)\|", line)[1:4] for line in judged().splitlines() if line.startswith("| `")]
    assert len(rows) >= 8
    for cell, _, answer in rows:
        commands, _, rule = cell.replace("\\|", "|").partition(" under ")
        rules = [read_rule("allow", text, "the page", tmp_path) for text in re.findall("`([^`]+)`", rule)]
        for command in re.findall("`([^`]+)`", commands):
            level = Policy(Workspace(tmp_path), rules).decide("Bash", [Effect("run", command)]).level
            assert (level is Level.ALLOW) == ("allowed" in answer), command


def test_all_programs_that_only_read_are_named() -> None:
    tables = page("programs.md").partition("\n## Programs that only read\n")[2].partition("\n## Programs whose")[0]
    text = judged() + tables
    found = set(re.findall(r"[\w:\[.-]+", " ".join(re.findall("`([^`]+)`", text))))
    assert found >= {name for name, row in ROWS.items() if row.reads_only} | reads.BUILTINS
    assert found >= git_reads._SUBCOMMANDS.keys() | {word for pair in git_reads._NESTED for word in pair}


def test_the_table_of_events_is_complete() -> None:
    section = page("architecture.md").partition("\n## Events\n")[2]
    shown = set(re.findall(r"`(\w+)`", "\n".join(line.split("|")[1] for line in section.splitlines() if "| `" in line)))
    kinds = {
        n
        for n, c in vars(events).items()
        if inspect.isclass(c) and issubclass(c, Value) and c.__module__ == events.__name__
    }
    assert shown == kinds


def test_what_the_pages_take_from_the_program_is_up_to_date() -> None:
    for path, text in pages():
        assert text_of(path) == text, f"run `make pages` ({path.name})"


def test_the_tree_of_the_architecture_is_that_of_the_folders() -> None:
    block = page("architecture.md").partition("\n## Tree\n")[2].partition("```text\n")[2].partition("```")[0]
    found: set[str] = set()
    folders: list[str] = []
    for line in block.partition("agent_cli/\n")[2].splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        first, *others = line.split()
        if first.endswith("/"):
            folders[max(depth - 1, 0) if folders and folders[0] != "tools" else depth :] = [first.rstrip("/")]
        else:
            found |= {"/".join([*folders, name]) for name in (first, *others)}
    there = {
        str(p.relative_to(ROOT).with_suffix("" if p.suffix == ".py" else p.suffix)).removeprefix("agent_cli/")
        for base in ("agent_cli", "tools/agent_tools")
        for p in (ROOT / base).rglob("*.*")
        if p.suffix in (".py", ".bash", ".json") and p.name != "__init__.py" and "project" not in p.parts
    }
    assert {name for name in found if not name.startswith("tests")} == there


@pytest.mark.parametrize(
    ("at", "file"), [(0, "tools/agent_tools/word_count.py"), (1, "tests/tools/test_word_count.py")]
)
def test_the_tool_of_the_guide_passes_the_linter(at: int, file: str) -> None:
    code = re.findall(r"```python\n(.*?)```", page("adding-a-tool.md"), re.DOTALL)[at]
    command = [str(Path(sys.executable).with_name("ruff")), "check", "--no-cache", "--stdin-filename", file, "-"]
    done = subprocess.run(command, cwd=ROOT, input=code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_tests_that_prove_security_are_there() -> None:
    named = set(re.findall(r"\(\.\./(tests/[^)#]+)\)", page("security.md")))
    assert len(named) >= 30
    assert not [name for name in named if not (ROOT / name).is_file()]
    # Each row of the table names one.
    table = page("security.md").partition("## How each promise is tested")[2].partition("\n\n`make fuzz`")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 15
    assert not [row for row in rows if "(../tests/" not in row]


def test_what_is_reported_of_other_agents_has_a_source() -> None:
    table = page("security.md").partition("## Compared with other agents")[2].partition("\n\n[")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    for row in rows:
        *_, codex, claude = row.strip("| ").split(" | ")
        assert all(re.search(r"\]\[\w+-\w+\]", text) or text == "not documented" for text in (codex, claude)), row


def test_every_tool_and_command_is_named() -> None:
    assert all(f"`{tool.name}`" in page("guide.md") for tool in BUILTIN)
    assert all(f"`{name}`" in page("guide.md") for name in command_names())
    assert all(re.search(rf"`/{name}\b", page("guide.md")) for name in REGISTRY)


def test_the_first_words_that_are_commands_are_listed() -> None:
    listed = page("guide.md").partition("A first word that is a command (")[2].partition(")")[0]
    assert sorted(re.findall(r"`([^`]+)`", listed)) == command_names()


# What stands for something else in the guide's table of errors: names, numbers, the system's own words.
VARIABLE = r"\.\.\.|'x'|\d+ s |openai|OPENAI_API_KEY|max_rounds|connection refused|[;:]|[A-Z]{3,}"


def test_the_error_sentences_of_the_guide_are_the_programs() -> None:
    section = page("guide.md").partition("\n## When something fails\n")[2]
    found = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    sources = "".join(text_of(p) for room in ("agent_cli", "tools") for p in sorted((ROOT / room).rglob("*.py")))
    spelled = re.sub(r'"\s*\n\s*f?"', "", sources).lower()
    pieces = [piece.strip(" .:").lower() for sentence in found for piece in re.split(VARIABLE, sentence)]
    assert len(found) > 15
    assert not [piece for piece in pieces if len(piece) > 8 and piece not in spelled]


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_lines_are_not_too_long(path: Path) -> None:
    if path.name in ("configuration.md", "benchmarks.md"):
        return
    prose = re.sub(r"^```.*?^```$", "", text_of(path), flags=re.DOTALL | re.MULTILINE)
    assert not [line for line in prose.splitlines() if len(line) > 120 and not line.startswith("|")]


def test_the_files_that_contributors_are_sent_to_are_there() -> None:
    top = {"agent_cli", "tools", "tests", "prompts", "docs", "benchmarks"}
    # Where a name may begin: at the root, or with any package: `render/events` as well as `agent_cli/terminal/render`.
    homes = {name: [ROOT] for name in top}
    for base in ("agent_cli", "tools"):
        for package in (ROOT / base).rglob("*/__init__.py"):
            homes.setdefault(package.parent.name, []).append(package.parent.parent)
    examples = re.compile(r"NAME|word_count|WordCount")
    missing = []
    for page in (ROOT / "docs/architecture.md", ROOT / "docs/adding-a-tool.md", ROOT / "CONTRIBUTING.md"):
        for name in re.findall(r"`([\w./-]+/[\w./-]*)`", text_of(page)):
            bases = homes.get(name.split("/")[0], [])
            # `engine/loop` is a file, and `git.run` in `process/git.run` something in one.
            spelled = (name, f"{name}.py", f"{name.rpartition('.')[0]}.py")
            if bases and not examples.search(name) and not any((b / each).exists() for b in bases for each in spelled):
                missing.append(f"{page.name}: {name}")
    assert missing == []

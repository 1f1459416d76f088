"""What the documentation says is held to the program: flags, links, exit codes, settings, providers, tools, events."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agent_cli.cli import command_names, run_options
from agent_cli.cli.commands import review
from agent_cli.config.layers import Layers
from agent_cli.config.policy import read_policy
from agent_cli.config.reference import setting_fields
from agent_cli.hooks.events import HOOK_EVENTS
from agent_cli.kernel import events
from agent_cli.kernel.decisions import Level
from agent_cli.kernel.rules import read_rule
from agent_cli.models.scripted import KEYS
from agent_cli.policy.policy import Policy
from agent_cli.policy.programs import git_reads, reads
from agent_cli.policy.programs.table import ROWS
from agent_cli.shells.headless import output
from agent_cli.shells.terminal.slash import builtin_commands
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from agent_tools.record import Value
from agent_tools.registry import BUILTIN
from docs.pages import handwritten, pages
from docs.website import for_the_site
from tests.documented_promises import promises
from tests.support.fork_server import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
# Typer's own, and those of commands beside the agent, which are read from the source of the command line.
TYPER = {"--help", "--version", "--install-completion", "--show-completion"}
# Of README and the pages outside of the reference and what is for contributors.
MAX_GUIDE_WORDS = 42_500
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


def test_every_option_setting_and_hook_event_is_documented() -> None:
    assert {n for flag, _ in run_options.flags().values() for n in flag.names} <= words_in("options.md")
    assert {key for _, key, *_ in setting_fields()} <= words_in("configuration.md")
    assert HOOK_EVENTS.keys() <= words_in("hooks.md")


def words_in(name: str) -> set[str]:
    """The words in code of a page, without its code blocks."""
    text = re.sub(r"^ *```.*?^ *```$", "", page(name), flags=re.DOTALL | re.MULTILINE)
    return {word.rstrip(",") for code in re.findall("`([^`]+)`", text) for word in code.split()}


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", text_of(path)):
        assert not re.search(r"\s", target), target
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        linked = (path.parent / name).resolve() if name else path
        assert linked.exists(), target
        assert not anchor or anchor in anchors(text_of(linked)), target


def test_the_pages_that_the_program_names_are_there() -> None:
    files = [*(ROOT / "agent_cli").rglob("*.py"), *(ROOT / "tools").rglob("*.py"), ROOT / "action.yml"]
    named = {name for path in files for name in re.findall(r"docs/[a-z-]+\.md", text_of(path))}
    assert len(named) > 10
    assert not [name for name in named if not (ROOT / name).is_file()]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


def test_the_exit_codes_are_those_of_the_program() -> None:
    rows = re.findall(r"^\| (\d+) \|([\w, ]*)\|", page("exit-codes.md"), re.MULTILINE)
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
    return page("permissions.md").partition("\n## How a command is checked\n")[2].partition("\n## ")[0]


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
    text = page("programs.md").partition("\n## Programs whose files are known\n")[0]
    found = set(re.findall(r"[\w:\[.-]+", " ".join(re.findall("`([^`]+)`", text))))
    assert found >= {name for name, row in ROWS.items() if row.reads_only} | reads.BUILTINS
    assert found >= git_reads.SUBCOMMANDS.keys() | {word for pair in git_reads.NESTED for word in pair}


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


def test_the_man_page_has_each_option_and_command() -> None:
    text = text_of(ROOT / "docs/agent.1").replace("\\-", "-")
    for flag, _ in run_options.flags().values():
        assert f"\n.B {', '.join(flag.names)}" in text
    for name in command_names():
        assert f"\n.B agent {name}" in text
    # Nothing in a text is taken for a request of the formatter.
    assert {line.split(" ")[0] for line in text.splitlines() if line.startswith((".", "'"))} == {
        ".TH", ".SH", ".SS", ".TP", ".B", ".br",
    }  # fmt: skip


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
    named = set(re.findall(r"\(\.\./(tests/[^)#]+)\)", page("security-tests.md")))
    assert len(named) >= 30
    assert not [name for name in named if not (ROOT / name).is_file()]
    # Each row of the table names one.
    rows = [line for line in page("security-tests.md").splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 15
    assert not [row for row in rows if "(../tests/" not in row]


def test_what_is_reported_of_other_agents_has_a_source() -> None:
    table = page("security.md").partition("## Compared with other agents")[2].partition("\n\n[")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    for row in rows:
        *_, codex, claude = row.strip("| ").split(" | ")
        assert all(re.search(r"\]\[\w+-\w+\]", text) or text == "not documented" for text in (codex, claude)), row


def test_every_tool_and_command_is_named() -> None:
    assert {tool.name for tool in BUILTIN} <= words_in("tools.md")
    assert set(command_names()) <= words_in("commands.md")
    assert {f"/{name}" for name in builtin_commands()} <= words_in("slash-commands.md")


@pytest.mark.parametrize("terms", promises(), ids=lambda terms: terms[0])
def test_each_promise_is_still_found(terms: list[str]) -> None:
    assert any(all(any(a.lower() in block for a in term.split("|")) for term in terms) for block in paragraphs())


@cache
def paragraphs() -> list[str]:
    """The paragraphs, list items and table rows about security, each with the code below it, without links."""
    text = "\n\n".join(page(name) for name in ("security.md", "sandbox.md", "permissions.md"))
    text = re.sub(r"\n\n(?=```)", "\n", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text))
    return [re.sub(r"\s+", " ", block).lower() for block in re.split(r"\n\n+|\n(?=- |\| |\d+\. )", text)]


def test_the_guides_are_short_enough() -> None:
    others = {*section("Reference"), *section("Contributing"), "CONTRIBUTING.md", "CHANGELOG.md"}
    words = {path.name: prose_words(text_of(path)) for path in PAGES if path.name not in others}
    assert sum(words.values()) <= MAX_GUIDE_WORDS, words


def prose_words(text: str) -> int:
    """The number of words that are written by hand, without code blocks, addresses, and the bars of tables."""
    text = re.sub(r"^ *```.*?^ *```$|^\[[\w-]+\]: .*$", "", handwritten(text), flags=re.DOTALL | re.MULTILINE)
    return len(re.sub(r"\]\([^)]*\)|\]\[[\w-]+\]|<[^>]+>|[|]|--+:?", " ", text).split())


def site() -> dict[str, Any]:
    nav = tomllib.loads(text_of(ROOT / "zensical.toml"))["project"]["nav"]
    return {heading: entry for part in nav for heading, entry in part.items()}


def section(heading: str) -> list[str]:
    """The pages below a heading of the site."""

    def below(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        for each in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
            yield from below(each)

    return list(below(site()[heading]))


def test_each_page_is_once_in_the_site() -> None:
    shown = [name for heading in site() for name in section(heading)]
    there = {path.name for path in (ROOT / "docs").glob("*.md")} | {"changelog.md", "contributing.md"}
    assert sorted(shown) == sorted(there)


def test_links_of_the_site_stay_in_it() -> None:
    text = "[a](hooks.md#events) [b](../tests/x.py) [c](../CHANGELOG.md) [d](#e) ![g](a.svg) `a\\|<b>`"
    assert for_the_site(text, "docs", "https://host/repo") == (
        "[a](hooks.md#events) [b](https://host/repo/blob/main/tests/x.py) [c](changelog.md) [d](#e) "
        "![g](a.svg) <code>a&#124;&lt;b&gt;</code>"
    )


# What stands for something else in the tables of messages: names, numbers, the system's own words.
VARIABLE = r"\.\.\.|'x'|\d+ s |openai|OPENAI_API_KEY|max_rounds|connection refused|[;:]|[A-Z]{3,}"


def test_the_messages_of_troubleshooting_are_the_programs() -> None:
    found = re.findall(r"^\| `([^`]+)` \|", page("troubleshooting.md"), re.MULTILINE)
    sources = "".join(text_of(p) for room in ("agent_cli", "tools") for p in sorted((ROOT / room).rglob("*.py")))
    spelled = re.sub(r'"\s*\n\s*f?"', "", sources).lower()
    pieces = [piece.strip(" .:").lower() for sentence in found for piece in re.split(VARIABLE, sentence)]
    assert len(found) > 15
    assert not [piece for piece in pieces if len(piece) > 8 and piece not in spelled]


def test_the_changelog_has_one_line_a_change() -> None:
    lines = [line for line in text_of(ROOT / "CHANGELOG.md").splitlines()[5:] if line]
    assert not [line for line in lines if not line.startswith(("#", "- ", "The first version."))]
    first = text_of(ROOT / "CHANGELOG.md").partition("\n## [0.1.0]")[2].partition("\n## [")[0]
    assert first.count("\n- ") <= 35


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_lines_are_not_too_long(path: Path) -> None:
    if path.name in ("configuration.md", "benchmarks.md", "CHANGELOG.md"):
        return
    prose = re.sub(r"^```.*?^```$", "", text_of(path), flags=re.DOTALL | re.MULTILINE)
    assert not [line for line in prose.splitlines() if len(line) > 120 and not line.startswith("|")]


def test_the_files_that_contributors_are_sent_to_are_there() -> None:
    top = {"agent_cli", "tools", "tests", "prompts", "docs", "benchmarks"}
    # Where a name may begin: at the root, or with any package: `render/events` or `shells/terminal/render`.
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

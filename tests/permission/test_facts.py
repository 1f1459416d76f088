"""The facts that a question tells: parts, targets, names, network, rules; and what is offered as "always"."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.core.rules import read_rule
from agent_cli.permission.decision import Level
from agent_cli.permission.policy import Policy
from agent_tools.base import Effect
from agent_tools.clipping import UNSAFE
from agent_tools.workspace import Workspace
from tests.permission.test_destructive import git


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work" / "src").mkdir(parents=True)
    return tmp_path / "work"


def told(root: Path, command: str, *allow: str, kind: str = "run", tool: str = "Bash") -> list[str]:
    gate = Policy(Workspace(root), [read_rule("allow", r, "test", root) for r in allow])
    effects = (Effect(kind, command),)  # type: ignore[arg-type]
    return list(gate.facts(tool, effects, gate.decide(tool, effects)))


def always(root: Path, command: str) -> str:
    return Policy(Workspace(root)).always_rule("Bash", (Effect("run", command),))


def test_each_part_with_its_verdict(root: Path) -> None:
    lines = told(root, "git status && npm test && python x.py", "Bash(git status:*)", "Bash(npm test)")
    assert lines[0].startswith("part 1, allowed: git status (is allowed by Bash(git status:*)")
    assert lines[1].startswith("part 2, allowed: npm test")
    assert lines[2].startswith("part 3, lacks a rule: python x.py (runs a command")
    assert lines[-1] == "no narrow rule can allow it"


def test_links_are_followed_and_other_names_are_told(root: Path, tmp_path: Path) -> None:
    (tmp_path / "far").write_text("x")
    (root / "out").symlink_to(tmp_path / "far")
    assert f"out -> {tmp_path / 'far'}" in told(root, "make > out")
    assert f"out -> {tmp_path / 'far'}" in told(root, "touch out")
    (root / "one").write_text("x")
    os.link(root / "one", tmp_path / "two")
    said = f"{root / 'one'} has 1 other name (hard links), which change with it"
    assert said in told(root, "touch one")
    assert said in told(root, str(root / "one"), kind="write", tool="Edit")


def test_changes_that_are_in_no_commit(root: Path) -> None:
    git(root, "init")
    (root / "a.py").write_text("one\n")
    git(root, "add", ".")
    git(root, "commit", "-m", "first")
    assert not told(root, str(root / "a.py"), kind="write", tool="Edit")
    (root / "a.py").write_text("one\ntwo\n")
    said = f"{root / 'a.py'} has uncommitted changes (+1 -0 lines)"
    assert said in told(root, str(root / "a.py"), kind="write", tool="Edit")
    assert said in told(root, "sed -i s/a/b/ a.py")


def test_network_and_folder(root: Path) -> None:
    lines = told(root, "cd src && curl https://example.org -o x && npm install")
    assert "network: yes, by curl https://example.org -o x, npm install" in lines
    assert f"runs in {root / 'src'} from its cd on" in lines
    assert "network: by no program that is known for it" in told(root, "make")
    assert told(root, "https://example.org/x", kind="fetch", tool="WebFetch") == ["network: yes, host example.org"]


def test_the_narrowest_rule(root: Path) -> None:
    assert "the narrowest rule that would allow it: Bash(npm test)" in told(root, "npm test")
    lines = told(root, "npm test && git status -s && npm run lint", "Bash(git status:*)")
    assert lines[-1] == "the narrowest rules that would allow it: Bash(npm test), Bash(npm run lint)"
    assert told(root, "make $X")[-1].startswith("no narrow rule can allow it (")
    gate = Policy(Workspace(root), [read_rule("ask", "Bash(make:*)", "test", root)])
    effects = (Effect("run", "make"),)
    assert not any("narrow" in line for line in gate.facts("Bash", effects, gate.decide("Bash", effects)))


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("npm run test", "Bash(npm run test)"),
        ("pytest tests/test_a.py -q", "Bash(pytest tests/test_a.py -q)"),
        ("grep 'a b' x", "Bash(grep 'a b' x)"),
        ("git commit -m 'fix (all) of $it'", "Bash(git commit:*)"),
        ("git add src/a.py", "Bash(git add:*)"),
        ("git push", "Bash(git push)"),
        ("ruff format .", "Bash(ruff format:*)"),
        ("ruff check -o x .", "Bash(ruff check -o x .)"),
        ("python x.py", ""),
        ("bash run.sh", ""),
        ("npx tsc", ""),
        ("make", ""),
        ("timeout 5 npm test", ""),
        ("sudo npm test", ""),
        ("find . -exec npm test ';'", ""),
        ("npm test && npm run lint", ""),
        ("npm test > log", ""),
        ("npm test $X", ""),
        ("npm test *", ""),
        ("FOO=1 npm test", ""),
        ("git commit -m $(id)", ""),
        ("npm te\u200bst", ""),
        ("echo " + "x" * 5000 + " $(id)", ""),
    ],
)
def test_what_always_offers(root: Path, command: str, rule: str) -> None:
    assert always(root, command) == rule
    if rule:
        gate = Policy(Workspace(root), [read_rule("allow", rule, "test", root)])
        assert gate.decide("Bash", [Effect("run", command)]).level is Level.ALLOW


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("Bash(npm test)", "just this command, word for word, in every directory"),
        ("Bash(git commit:*)", "every command that begins with `git commit`, whatever follows"),
        ("Edit(//w/a.py)", "every change to /w/a.py"),
        ("Read(//etc/hosts)", "every reading of /etc/hosts"),
        ("WebFetch(domain:example.org)", "every page of example.org"),
        ("WebSearch", "every call of WebSearch"),
        ("SlashCommand(/review)", "/review, with any arguments"),
    ],
)
def test_what_it_grants_in_words(root: Path, rule: str, words: str) -> None:
    assert Policy(Workspace(root)).granted(rule) == words


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab $;|&>'\"\\\t\n\r\x1b\u202e\u200b\x07rmgit-/"), max_size=30))
def test_nothing_that_steers_a_terminal_comes_out(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    root = tmp_path_factory.getbasetemp()
    for command in (text, f"rm '{text}'", f"git checkout -- {text}"):
        for line in told(root, command):
            assert not re.search(UNSAFE, line), line
            assert "\n" not in line


def test_names_of_files_are_spelled_out(root: Path) -> None:
    (root / "a\x1b[31m\u202eb").write_text("x")
    assert any("a\\x1b[31m\\u202eb" in line for line in told(root, "rm -r ."))


def test_nobody_pays_for_it_where_nobody_reads_it(root: Path) -> None:
    gate = Policy(Workspace(root), answered=False)
    effects = (Effect("run", "rm -r src"),)
    assert gate.facts("Bash", effects, gate.decide("Bash", effects)) == ()

"""Rules that test themselves: examples are put to the rule when it loads, and a rule that fails them is a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_cli.kernel.rules import RuleList, read_rule
from agent_cli.policy.command_rules import check_examples
from tests.support.program import agent
from tests.support.scripts import script


def wrong(kind: RuleList, text: str, root: Path, match: str = "", not_match: str = "") -> list[str]:
    examples = {"match": (match,) if match else (), "not_match": (not_match,) if not_match else ()}
    rule = read_rule(kind, text, "rules.toml:7", root).replace(**examples)
    return check_examples([rule], root / "src", root / "home")


FIT = [
    ("allow", "Bash(npm run test:*)", "npm run test unit", "npm run tests"),
    ("allow", "Bash(npm run test:*)", "npm run test a && npm run test b", "npm run test && rm -rf x"),
    ("allow", "Bash(npm run test:*)", "npm run test", "npm run test $(rm x)"),
    ("allow", "Bash(git log*)", "git log --oneline", "git lo"),
    ("allow", "Bash(git * main)", "git push main", "git push other"),
    ("allow", "Bash(git * main)", "git push origin main", "git main"),
    ("allow", "Bash(git * main *)", "git push main", "git push mainx"),
    ("allow", "Bash(git * main:*)", "git push main x", "git push mainx"),
    ("allow", "Bash(npm run * -- * --ci)", "npm run a -- b --ci", "npm run a --ci"),
    ("deny", "Bash(* -- * --ci)", "npm run a -- b --ci", "npm run --ci -- a b"),
    ("deny", "Bash(* --force)", "git push --force", "git push --force-with-lease"),
    ("deny", "Bash(rm:*)", "ls && rm -rf x", "echo rm"),
    ("deny", "Bash(rm:*)", "timeout 5 rm x", "trim x"),
    ("ask", "Bash(git push:*)", "git push -f", "git pull"),
    ("deny", "Read(.env*)", "sub/.env.local", "env.txt"),
    ("deny", "Read(~/.ssh/**)", "~/.ssh/id_rsa", ".ssh/x"),
    ("allow", "Edit(/docs/**)", "../docs/a.md", "docs/a.md"),
    ("allow", "Edit(docs/**)", "docs/a.md", "../docs/a.md"),
    ("allow", "Edit(//etc/hosts)", "/etc/hosts", "/etc/hosts2"),
    ("allow", "Write(a.txt)", "a.txt", "b.txt"),
    ("allow", "WebFetch(domain:example.org)", "https://example.org/x", "https://example.org.evil.com/"),
]


@pytest.mark.parametrize(("kind", "text", "match", "not_match"), FIT)
def test_examples_that_fit(kind: RuleList, text: str, match: str, not_match: str, tmp_path: Path) -> None:
    assert wrong(kind, text, tmp_path, match, not_match) == []


@pytest.mark.parametrize(("kind", "text", "match", "not_match"), FIT)
def test_examples_that_do_not_fit(kind: RuleList, text: str, match: str, not_match: str, tmp_path: Path) -> None:
    assert wrong(kind, text, tmp_path, match=not_match) == [
        f"rules.toml:7: permissions.{kind}: {text} does not cover its example: {not_match!r}"
    ]
    assert wrong(kind, text, tmp_path, not_match=match) == [
        f"rules.toml:7: permissions.{kind}: {text} covers what its not_match names: {match!r}"
    ]


def test_a_rule_about_something_else_has_no_examples(tmp_path: Path) -> None:
    assert "can have no examples" in wrong("allow", "TodoWrite", tmp_path, "x")[0]


def test_a_rule_that_fails_its_examples_ends_the_run_with_file_and_line(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "ok"}])
    settings = work / "rules.toml"
    settings.write_text(
        '[[permissions.rules]]\nlist = "allow"\nrule = "Bash(npm run test*)"\nwhy = "tests"\n'
        'match = ["npm run test"]\nnot_match = ["npm run testament"]\n'
    )
    done = agent(["-p", "--model", model, "--settings", "rules.toml", "hi"], work)
    assert done.returncode == 2
    assert "rules.toml:3: permissions.allow: Bash(npm run test*) covers what its not_match names" in done.stderr
    settings.write_text(settings.read_text().replace("test*)", "test:*)"))
    assert agent(["-p", "--model", model, "--settings", "rules.toml", "hi"], work).returncode == 0


@pytest.mark.parametrize(
    ("flag", "text", "words"),
    [
        ("--allowedTools", "Bash(x", "--allowedTools: 'Bash(x': a parenthesis is not closed"),
        ("--disallowedTools", "bash", "--disallowedTools: permissions.deny: 'bash' is not a known tool"),
        ("--askTools", "Bash()", "--askTools: permissions.ask: 'Bash()': the parentheses are empty"),
    ],
)
def test_a_bad_rule_of_a_flag_names_the_flag(work: Path, flag: str, text: str, words: str) -> None:
    done = agent(["-p", flag, text, "--", "hi"], work)
    assert done.returncode == 2
    assert words in done.stderr

"""A read of git runs hardened. Nothing of that reaches a later command: hooks run, pushes arrive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_tools.process.guarded_git import hardened_variables
from agent_tools.shell.state import NON_INTERACTIVE
from tests.support.program import agent
from tests.support.repositories import git, with_remote
from tests.support.sandboxes import missing
from tests.support.scripts import call, script

IMPOSED = hardened_variables("/x/y", None, {}).keys() - NON_INTERACTIVE.keys()
ALLOWED = "Bash(git add:*),Bash(git commit:*),Bash(git push:*),Bash(git fetch:*),Bash(git ls-remote:*),Bash(env)"
# The hook runs, the push arrives, and what only reads still needs no rule.
WORK = [
    "git commit -q -am second",
    "git push -q origin HEAD:main",
    "git fetch -q origin",
    "git ls-remote origin",
    "ls",
    "cat a.txt",
    "env",
]


@pytest.fixture
def repository(work: Path) -> Path:
    return with_remote(work)


def bash(*commands: str) -> list[dict[str, Any]]:
    return [{"calls": [call("Bash", command=c)]} for c in commands]


def run(work: Path, replies: list[dict[str, Any]], *more: str, **env: str) -> list[tuple[bool, str]]:
    """A one-shot run with rules for what changes; of each command, whether it failed and what the model read."""
    model = script(work.parent / "s.toml", [*replies, {"text": "Ok."}])
    args = ["-p", "--model", model, "--allowedTools", ALLOWED, "--output-format", "stream-json", *more, "--", "go"]
    done = agent(args, work, {"GIT_CONFIG_NOSYSTEM": "1", **env})
    assert done.returncode == 0, done.stdout + done.stderr
    found = []
    for line in map(json.loads, done.stdout.splitlines()):
        for block in line.get("message", {}).get("content", ()):
            if isinstance(block, dict) and block.get("type") == "tool_result":
                found.append((bool(block.get("is_error")), str(block["content"])))
    return found


def worked(results: list[tuple[bool, str]], work: Path) -> None:
    assert not [text for failed, text in results if failed], results
    assert not [v for v in results[-1][1].splitlines() if v.partition("=")[0] in IMPOSED]
    assert (work / "hook-ran").read_text() == "ran\n"
    assert git(work, "rev-parse", "HEAD") == git(work / "remote.git", "rev-parse", "main")


def test_after_a_read(repository: Path) -> None:
    worked(run(repository, bash("git status", "git log --oneline", *WORK)), repository)


def test_after_going_on(repository: Path) -> None:
    run(repository, bash("git status"))
    # The script of a session that goes on begins where the answers so far end.
    worked(run(repository, [*bash("git status"), {"text": "Ok."}, *bash("git status", *WORK)], "-c"), repository)


def test_after_a_read_in_plan_mode(repository: Path) -> None:
    first = [*bash("git status", "git diff"), {"text": "Ok."}]
    seen = run(repository, first[:-1], "--permission-mode", "plan")
    assert not [text for failed, text in seen if failed]
    worked(run(repository, [*first, *bash("git status", *WORK)], "-c"), repository)


def test_after_a_read_in_the_sandbox(repository: Path) -> None:
    if reason := missing("bubblewrap"):
        pytest.skip(f"NOT TESTED: no bubblewrap here: {reason}")
    sandboxed = {"AGENT_SANDBOX_MODE": "require", "TMPDIR": "/var/tmp"}
    worked(run(repository, bash("git status", *WORK), **sandboxed), repository)
    logs = (repository.parent / "home").rglob("*.jsonl")
    shells = [json.loads(line)["data"].get("shell") for log in logs for line in log.read_text().splitlines()]
    assert not [shell for shell in shells if shell], "nothing carried over"


def test_a_minimal_environment(repository: Path) -> None:
    worked(run(repository, bash("git status", *WORK), LANG="", TMPDIR="", LC_ALL=""), repository)

"""In a session at a terminal: a read of git, by `!` or in plan mode, leaves nothing behind for later commands."""

from __future__ import annotations

from pathlib import Path

from tests.support.pty_session import Terminal
from tests.support.repositories import git, with_remote
from tests.support.scripts import call, script

ALLOWED = "Bash(git commit:*),Bash(git push:*)"
WORK = [
    {"calls": [call("Bash", command="git status")]},
    {"calls": [call("Bash", command="git commit -q -am second")]},
    {"calls": [call("Bash", command="git push -q origin HEAD:main")]},
    {"calls": [call("Bash", command="ls")], "expect": "exit code 0"},
]


def session(work: Path, replies: list[dict[str, object]], *args: str) -> Terminal:
    with_remote(work)
    model = script(work.parent / "s.toml", [*replies, {"text": "All pushed.", "expect": "a.txt"}])
    return Terminal(["--model", model, "--allowedTools", ALLOWED, *args], work, GIT_CONFIG_NOSYSTEM="1")


def pushed(work: Path) -> None:
    assert (work / "hook-ran").read_text() == "ran\n"
    assert git(work, "rev-parse", "HEAD") == git(work / "remote.git", "rev-parse", "main")


def test_after_a_status_by_the_user(work: Path) -> None:
    terminal = session(work, list(WORK))
    terminal.ready()
    terminal.type("!git status")
    terminal.expect("modified:")
    terminal.type("!env | grep -c '^GIT_CONFIG_COUNT'")
    terminal.expect("exit code 1")
    terminal.type("commit and push")
    terminal.expect("All pushed.")
    terminal.leave()
    pushed(work)


def test_after_a_plan(work: Path) -> None:
    replies = [WORK[0], {"calls": [call("ExitPlanMode", plan="Commit and push")]}, *WORK]
    terminal = session(work, replies, "--permission-mode", "plan", "plan it")
    terminal.expect("Approve this plan?")
    terminal.type("y")
    terminal.expect("All pushed.")
    terminal.leave()
    pushed(work)

"""Settings that appear while a command runs in the sandbox: moved away or trusted anew, saved rules, undo, doctor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_cli.kernel.rules import Trust
from agent_cli.kernel.runtime.saved_settings import saver
from agent_cli.policy.trust import Scan, TrustStore, evaluate_trust
from tests.support.program import agent
from tests.support.repositories import git
from tests.support.sandboxes import SandboxTester, missing
from tests.support.scripts import call, script

INSIDE = ["--settings", "sandbox = {mode = 'require', auto_allow = true, auto_allow_destructive = true}"]


@pytest.fixture
def repository(work: Path) -> Path:
    """A repository whose branch `feature` has settings, with the branch `main` checked out."""
    if reason := missing("bubblewrap"):
        pytest.skip(f"NOT TESTED: no bubblewrap here: {reason}")
    git(work, "init", "-q", "-b", "main")
    (work / "a.txt").write_text("one\n")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "first")
    git(work, "checkout", "-qb", "feature")
    (work / ".agentrc").write_text("[permissions]\nallow = ['Bash(touch:*)']\n")
    (work / ".agent").mkdir()
    (work / ".agent/hooks.json").write_text(
        '{"SessionStart": [{"hooks": [{"type": "command", "command": "touch ran"}]}]}'
    )
    git(work, "add", "-A")
    git(work, "commit", "-qm", "settings")
    git(work, "checkout", "-q", "main")
    return work


def run(work: Path, *commands: str, more: list[str] | None = None) -> str:
    """Run the commands in a session, each in a round; return the results of the last one."""
    replies = [{"calls": [call("Bash", command=command)]} for command in commands]
    model = script(work.parent / "s.toml", [*replies, {"text": "Ok."}])
    flags = ["--output-format", "stream-json", "--verbose", *INSIDE, *(more or [])]
    done = agent(["-p", "--model", model, *flags, "go"], work, env={"AGENT_SANDBOX_MODE": ""})
    assert done.returncode == 0, done.stderr
    results = [
        block["content"]
        for line in map(json.loads, done.stdout.splitlines())
        if line["type"] == "user"
        for block in line["message"]["content"]
        if block["type"] == "tool_result"
    ]
    return "\n".join(map(str, results))


def hidden(work: Path, command: str) -> str:
    """Return a command line that runs a command whose text is not seen before it runs."""
    (work.parent / "home").mkdir(exist_ok=True)
    (work / "do.sh").write_text(f"rm do.sh; {command}\n")
    return "bash do.sh"


def test_settings_of_a_checkout_stay_and_take_effect_only_once_trusted(repository: Path) -> None:
    state = repository.parent / "home/state"
    assert evaluate_trust(repository, state, (), None, by_flag=False)[0].state == "plain"
    assert "exit code 0" in run(repository, "git checkout -q feature && git status --short")
    assert (repository / ".agent/hooks.json").exists() and (repository / ".agentrc").exists()
    run(repository, "true")
    assert not (repository / "ran").exists()
    assert evaluate_trust(repository, state, (), None, by_flag=False)[0].state == "untrusted"


def test_settings_of_a_command_are_moved_to_the_state_folder(repository: Path) -> None:
    made = hidden(repository, "mkdir x && echo '{}' > x/hooks.json && mv x .agent; echo '[mcp]' > .agentrc")
    shown = run(repository, made, "ls -A")
    moved = repository.parent / "home/state/moved"
    assert not (repository / ".agent").exists() and not (repository / ".agentrc").exists()
    assert {path.name for path in moved.rglob("*") if path.is_file()} == {"hooks.json", ".agentrc"}
    assert shown.count(f"it was moved to {moved}") == 2
    assert ".git\na.txt\n[exit code 0" in shown


def test_undo_brings_back_what_a_command_moved_under_such_a_name(repository: Path) -> None:
    (repository / "notes.txt").write_text("not in git\n")
    shown = run(repository, hidden(repository, "mv notes.txt .mcp.json; mv a.txt .agentrc; ls -A"))
    assert shown.count("it was moved to") == 2
    assert not (repository / "notes.txt").exists() and not (repository / ".mcp.json").exists()
    done = agent(["undo", "--yes"], repository)
    assert done.returncode == 0, done.stderr + done.stdout
    assert (repository / "notes.txt").read_text() == "not in git\n" and (repository / "a.txt").read_text() == "one\n"
    assert not (repository / ".mcp.json").exists()


def test_a_session_beside_a_running_command_reports_nothing(repository: Path) -> None:
    tester = SandboxTester("bubblewrap", repository.parent)

    def findings() -> list[str]:
        found = json.loads(agent(["doctor", "--json"], repository).stdout)
        return [f"{finding['topic']}: {finding['mark']}" for finding in found["findings"]]

    before = findings()
    with tester.sandbox.prepare(["true"], repository, {}, tester.profile()):
        assert findings() == before
        model = script(repository.parent / "s.toml", [{"text": "Hello."}])
        done = agent(["-p", "--model", model, "hi"], repository)
        assert (done.returncode, done.stdout, done.stderr) == (0, "Hello.\n", "")


def test_a_saved_rule_trusts_no_settings_that_came_meanwhile(repository: Path) -> None:
    state = repository.parent / "state"

    def trust() -> Trust:
        return evaluate_trust(repository, state, (), None, by_flag=False)[0]

    begun = trust()
    assert begun.state == "plain"
    save = saver(begun, state)
    assert save is not None and save("Bash(make:*)") == ""
    assert trust().trusted
    TrustStore(state).forget(repository)
    git(repository, "checkout", "-q", "feature")
    assert "have changed since the session began" in save("Bash(tox:*)")
    assert "tox" not in (repository / ".agentrc.local").read_text()
    assert not trust().trusted and ".agentrc" in Scan(repository).files

"""Commands that may do more than read, in a sandbox in which they can only read: in plan mode, and by a setting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_cli.kernel.decisions import Level
from agent_cli.kernel.rules import read_rule, split_rules
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from agent_tools.sandbox.conditions import OUTSIDE_SANDBOX
from tests.support.program import agent
from tests.support.repositories import git
from tests.support.sandboxes import confined, missing, tree
from tests.support.scripts import call, script


@pytest.fixture
def project(tmp_path: Path) -> Path:
    if reason := missing("bubblewrap"):
        pytest.skip(f"NOT TESTED: no bubblewrap here: {reason}")
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src/a.py").write_text("print(1)\n")
    (root / ".env").write_text("KEY=sesame\n")
    git(root, "init")
    git(root, "add", "src")
    git(root, "commit", "-m", "first")
    return root


def run(root: Path, command: str) -> tuple[int, str]:
    done = agent(
        ["tools", "run", "Bash", json.dumps({"command": command}), "--permission-mode", "plan"],
        root,
        {"AGENT_SANDBOX_MODE": ""},
    )
    return done.returncode, done.stdout + done.stderr


def test_a_program_reads_and_its_temporary_files_are_there(project: Path) -> None:
    kept = 'import pathlib; p = pathlib.Path("/tmp/x"); p.write_text("kept"); print(p.read_text())'
    code, text = run(project, f"python3 src/a.py && python3 -c '{kept}'")
    assert code == 0 and "1" in text and "kept" in text


WRITING = [
    "python3 -c 'open(\"new\", \"w\")'", "git commit --allow-empty -m x",
    "python3 -c 'import os; os.remove(\"src/a.py\")'",
]  # fmt: skip
MAY_ONLY_READ = ["make", "npm test", "python3 x.py", "git ls-files | xargs ./check", "tsc --noEmit"]
DOING_MORE = ["rm -rf src", "echo x > y", "git push", "curl http://x", "cat /etc/hosts", "cp a b"]


@pytest.mark.parametrize("command", WRITING)
def test_what_writes_is_stopped_and_says_how_to_ask(project: Path, command: str) -> None:
    before, head = tree(project), git(project, "rev-parse", "HEAD")
    code, text = run(project, command)
    assert code != 0 and "plan mode ran this command read-only" in text and "dangerouslyDisableSandbox" in text
    assert tree(project) == before and git(project, "rev-parse", "HEAD") == head


def test_secrets_and_denied_files_are_not_readable(project: Path) -> None:
    assert "sesame" not in run(project, "python3 -c 'print(open(\".env\").read())'")[1]
    settings = project / ".claude"
    settings.mkdir()
    (settings / "settings.json").write_text('{"permissions": {"deny": ["Read(src/a.py)"]}}')
    assert "print(1)" not in run(project, "python3 -c 'print(open(\"src/a.py\").read())'")[1]


def test_there_is_no_network(project: Path) -> None:
    connect = 'import socket; socket.create_connection(("192.0.2.1", 80), 3)'
    code, text = run(project, f"python3 -c '{connect}'")
    assert code != 0 and "unreachable" in text.lower()


def decision(root: Path, command: str, *more: Effect, allow: str = "", **options: object) -> Level:
    rules = [read_rule("allow", r, "test", root) for r in split_rules(allow)]
    policy = Policy(Workspace(root), rules, "plan", home=str(root.parent), **options)  # type: ignore[arg-type]
    return policy.decide("Bash", (Effect("run", command), *more)).level


@pytest.mark.parametrize("command", MAY_ONLY_READ)
def test_what_may_only_read_runs_where_there_is_a_sandbox(project: Path, command: str) -> None:
    assert decision(project, command, confined=confined(project, auto_allow=False)) is Level.ALLOW
    assert decision(project, command) is Level.DENY
    assert decision(project, command, allow="Bash") is Level.DENY


@pytest.mark.parametrize("command", DOING_MORE)
def test_what_is_known_to_do_more_is_denied(project: Path, command: str) -> None:
    assert decision(project, command, confined=confined(project, auto_allow=False)) is Level.DENY


def test_outside_the_sandbox_the_user_is_asked(project: Path) -> None:
    box, outside = confined(project, auto_allow=False), Effect("call", OUTSIDE_SANDBOX)
    assert decision(project, "make", outside, confined=box) is Level.ASK
    assert decision(project, "make", outside, confined=box, allow="Bash") is Level.ASK
    assert decision(project, "make", outside, confined=box, answered=False) is Level.DENY


def reading(project: Path, mode: str = "default", allow: str = "", **options: object) -> Policy:
    """A policy under sandbox.auto_allow = "read-only"."""
    box = confined(project, auto_allow=False, tries_reading=True)
    rules = [read_rule("allow", r, "test", project) for r in split_rules(allow)]
    return Policy(Workspace(project), rules, mode, home=str(project.parent), confined=box, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "dontAsk"])
@pytest.mark.parametrize("command", MAY_ONLY_READ)
def test_by_the_setting_what_may_only_read_runs_read_only_until_it_is_stopped(
    project: Path, command: str, mode: str
) -> None:
    policy = reading(project, mode)
    asked = Level.DENY if mode == "dontAsk" else Level.ASK
    assert policy.decide("Bash", [Effect("run", command)]).level is Level.ALLOW
    conditions = policy.run_conditions(command)
    assert conditions.read_only and "call it again" in conditions.stopped()
    assert policy.decide("Bash", [Effect("run", command)]).level is asked
    assert not policy.run_conditions(command).read_only


@pytest.mark.parametrize("command", DOING_MORE)
def test_by_the_setting_what_is_known_to_do_more_asks_at_once(project: Path, command: str) -> None:
    policy = reading(project)
    assert policy.decide("Bash", [Effect("run", command)]).level is Level.ASK
    assert not policy.run_conditions(command).read_only


def test_by_the_setting_what_a_rule_allows_may_write(project: Path) -> None:
    policy = reading(project, allow="Bash(make:*)")
    assert policy.decide("Bash", [Effect("run", "make all")]).level is Level.ALLOW
    assert not policy.run_conditions("make all").read_only


@pytest.mark.parametrize(
    "command",
    [
        'python3 -c \'open("new", "w")\'',
        "python3 -c 'import os; os.remove(\"src/a.py\")'",
        "git ls-files | xargs python3 -c 'import pathlib, sys; pathlib.Path(sys.argv[1] + \"x\").touch()'",
    ],
)
def test_by_the_setting_a_stopped_command_says_so_and_then_asks(project: Path, command: str) -> None:
    before = tree(project)
    model = script(project.parent / "s.toml", [{"calls": [call("Bash", command=command)]}] * 2)
    settings = ["--settings", "sandbox = {mode = 'require', auto_allow = 'read-only'}", "--on-ask", "suspend"]
    run = agent(["-p", "--model", model, *settings, "go"], project, {"AGENT_SANDBOX_MODE": ""})
    assert run.returncode == 3 and tree(project) == before, run.stdout + run.stderr
    approved = agent(["approve", "--all"], project, {"AGENT_SANDBOX_MODE": ""})
    assert tree(project) != before, approved.stdout + approved.stderr

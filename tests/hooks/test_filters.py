"""Hooks that are for some calls only: `if`, a rule in the grammar of permissions, read on the safe side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.rules import read_rule
from agent_cli.policy.command_rules import rule_applies
from agent_tools.base import Effect
from tests.support.program import agent, run_allowing_bash
from tests.support.scripts import call, script


@pytest.mark.parametrize(
    ("rule", "command", "about"),
    [
        ("Bash(git push *)", "git push origin main", True),
        ("Bash(git push *)", "make && git push", True),
        ("Bash(git push:*)", "git -C sub push", True),
        ("Bash(git push *)", "timeout 5 /usr/bin/git push", True),
        ("Bash(git push *)", "git status", False),
        ("Bash(git push *)", "echo git push", False),
        ("Bash(rm *)", "$TOOL x", True),
        ("Bash(git push *)", "git $VERB", True),
        ("Bash(git push *)", "git -c $A $B", True),
        ("Bash(git push *)", "git status $A", False),
        ("Bash(git push *)", "echo $(git status)", False),
        ("Bash(git push *)", "echo $(git push)", True),
        ("Bash(git push *)", "cat x | xargs grep y", False),
        ("Bash(git push *)", "cat x | xargs git", True),
        ("Bash(rm *)", "r? x", True),
        ("Bash(*push*)", "git $VERB", True),
        ("Bash(rm *)", "if then (", True),
        ("Bash(make test)", "make test", True),
        ("Bash", "ls", True),
        ("Edit(*.py)", "touch a.py", False),
    ],
)
def test_commands(tmp_path: Path, rule: str, command: str, about: bool) -> None:
    assert of(rule, tmp_path, "Bash", Effect("run", command)) is about


@pytest.mark.parametrize(
    ("rule", "tool", "effect", "about"),
    [
        ("Edit(*.py)", "Edit", ("write", "src/a.py"), True),
        ("Edit(*.py)", "Write", ("write", "src/a.py"), True),
        ("Edit(/src/**)", "Edit", ("write", "src/a.ts"), True),
        ("Edit(/src/**)", "Edit", ("write", "b.ts"), False),
        ("Read(.env)", "Read", ("read", "x/.env"), True),
        ("WebFetch(domain:example.org)", "WebFetch", ("fetch", "https://example.org/a"), True),
        ("WebFetch(domain:example.org)", "WebFetch", ("fetch", "https://example.com/a"), False),
        ("mcp__git", "mcp__git__log", ("call", "mcp__git__log"), True),
        ("Bash(ls)", "Edit", ("write", "a"), False),
    ],
)
def test_other_calls(tmp_path: Path, rule: str, tool: str, effect: tuple[Any, str], about: bool) -> None:
    kind, target = effect
    target = str(tmp_path / target) if kind in ("read", "write") else target
    assert of(rule, tmp_path, tool, Effect(kind, target)) is about


def of(rule: str, root: Path, tool: str, effect: Effect) -> bool:
    return rule_applies(read_rule("deny", rule, "", root), tool, [effect], root, Path("/home/ada"))


def test_it_runs_for_its_calls_and_is_asked_again_when_another_hook_makes_one_of_them(work: Path, home: Path) -> None:
    rename = """python3 -c 'import json, sys
call = json.load(sys.stdin)["tool_input"]
new = {**call, "command": call["command"].replace("make publish", "git push")}
print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": new}}))'"""
    (home / ".agentrc").write_text(
        '[[hooks]]\nevent = "PreToolUse"\nif = "Bash(git push *)"\ncommand = "echo no pushing >&2; exit 2"\n'
        f"[[hooks]]\nevent = 'PreToolUse'\nmatcher = 'Bash'\ncommand = '''{rename}'''\n"
    )
    calls = [{"calls": [call("Bash", command=c)]} for c in ("touch made", "make publish")]
    done = run_allowing_bash(work, [*calls, {"text": "ok", "expect": "no pushing"}])
    assert done.stdout == "ok\n", done.stderr
    assert (work / "made").exists()
    listed = agent(["hooks", "list"], work).stdout
    assert "Bash if" not in listed and "Bash(git push *)" in listed
    tried = agent(["hooks", "test", "PreToolUse", "--input", '{"command": "ls"}'], work)
    assert "no pushing" not in tried.stdout
    assert "no pushing" in agent(["hooks", "test", "PreToolUse", "--input", '{"command": "git push"}'], work).stdout


def test_claude_codes_file(work: Path, home: Path) -> None:
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text(
        '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "if": "Bash(touch *)", '
        '"command": "exit 2"}]}]}}'
    )
    model = script(work.parent / "s.toml", [{"calls": [call("Bash", command="touch made; true")]}, {"text": "ok"}])
    agent(["-p", "--model", model, "--allowedTools", "Bash", "hi"], work)
    assert not (work / "made").exists()

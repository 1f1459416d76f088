"""CI: nothing is asked, nothing hangs, every refusal is in a list for machines; a deferred question has its facts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.program import agent
from tests.support.scripts import call, script

CALLS = [
    call("Bash", command="uname -s -r"),
    call("Bash", command="git push --force"),
    call("Bash", command="touch x && make"),
    call("Edit", file_path="a.txt", old_string="world", new_string="there"),
    call("Bash", command="rm -r gone"),
]
CI = ["-p", "--permission-mode", "dontAsk", "--allowedTools", "Bash(touch:*) Bash(git:*)", "--disallowedTools"]


@pytest.mark.parametrize("output", ["json", "stream-json"])
def test_every_refusal_is_in_the_list(work: Path, output: str) -> None:
    replies = [{"calls": [call("Read", file_path="a.txt")]}, *({"calls": [c]} for c in CALLS), {"text": "Done."}]
    model = script(work / "s.toml", replies)
    args = [*CI, "Bash(git push:*)", "--askTools", "Bash(rm:*)", "--model", model, "--output-format", output, "go"]
    done = agent(args, work, timeout=30)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    denials = result["permission_denials"]
    assert [d["tool_input"].get("command", d["tool_name"]) for d in denials] == [
        "git push --force",
        "touch x && make",
        "Edit",
        "rm -r gone",
    ]
    assert [d["rule"] for d in denials] == ["Bash(git push:*)", None, None, "Bash(rm:*)"]
    assert [d["by"] for d in denials] == ["rule", "mode", "mode", "mode"]
    assert all(d["tool_use_id"] and d["reason"].startswith("Permission was denied: the call ") for d in denials)
    assert "make" in denials[1]["reason"]
    assert not (work / "x").exists()
    assert "pending" not in result


def test_where_nobody_can_be_asked_a_broad_rule_stands(work: Path) -> None:
    (work / "old").mkdir()
    model = script(work / "s.toml", [{"calls": [call("Bash", command="rm -r old")]}, {"text": "Done."}])
    done = agent(["-p", "--allowedTools", "Bash", "--model", model, "go"], work)
    assert done.returncode == 0, done.stderr
    assert not (work / "old").exists()


def test_a_question_for_later_has_its_facts(work: Path) -> None:
    (work / "old").mkdir()
    (work / "old/file").write_text("x")
    model = script(work / "s.toml", [{"calls": [call("Bash", command="rm -r old")]}, {"text": "Done."}])
    run = ["-p", "--allowedTools", "Bash", "--on-ask", "suspend", "--output-format", "json", "--model", model, "go"]
    done = agent(run, work)
    assert done.returncode == 3, done.stderr
    item = json.loads(done.stdout)["pending"][0]
    assert "destroys, which Bash does not name (rm)" in item["reason"]
    assert "deletes 1 file (1 byte) in 1 folder: old/file" in item["facts"]
    assert item["rule"] == "Bash(rm -r old)"
    assert json.loads(agent(["pending", "--json"], work).stdout)[0]["pending"][0]["facts"] == item["facts"]
    assert "deletes 1 file (1 byte) in 1 folder: old/file" in agent(["pending"], work).stdout
    found = json.loads(agent(["show", "--json"], work).stdout)["turns"][0]["calls"][0]
    assert found["facts"] == [*item["facts"], "the narrowest rule that would allow it: Bash(rm -r old)"]
    assert agent(["approve"], work).returncode == 0
    assert not (work / "old").exists()


def test_check_names_the_rules_that_are_lacking(work: Path) -> None:
    given = json.dumps({"command": "npm run lint && pytest -q"})
    args = ["permissions", "check", "--tool", "Bash", "--input", given]
    found = agent(args, work).stdout
    assert "the narrowest rules that would allow it: Bash(npm run lint), Bash(pytest:*)" in found
    rules = json.loads(agent([*args, "--json"], work).stdout)["narrowest"]
    allowed = [word for rule in rules for word in ("--allow", rule)]
    assert json.loads(agent([*args, *allowed, "--json"], work).stdout)["decision"] == "allow"


CONTINUE = "Do not ask: continue without it, and say at the end that it was not done."
PLAN = "Put it into the plan instead, and continue with calls that only read."


@pytest.mark.parametrize(
    ("flags", "advice"),
    [
        (("--disallowedTools", "Bash(touch:*)"), CONTINUE),
        (("--permission-mode", "dontAsk"), CONTINUE),
        (("--permission-mode", "plan"), PLAN),
        (("--permission-mode", "plan", "--disallowedTools", "Bash(touch:*)"), CONTINUE),
    ],
    ids=["rule", "dontAsk", "plan", "rule in plan mode"],
)
def test_the_model_learns_what_to_do_without_a_denied_call(work: Path, flags: tuple[str, ...], advice: str) -> None:
    replies = [{"calls": [call("Bash", command="touch x")]}, {"text": "Done.", "expect": advice}]
    model = script(work.parent / "s.toml", replies)
    done = agent(["-p", *flags, "--model", model, "go"], work)
    assert done.returncode == 0 and not (work / "x").exists(), done.stderr
    assert "Denied: Bash: Permission was denied: the call " in done.stderr and advice not in done.stderr


def test_a_hook_says_itself_what_to_do(work: Path) -> None:
    hook = {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo 'Use make.' >&2; exit 2"}]}
    settings = json.dumps({"hooks": {"PreToolUse": [hook]}})
    replies = [{"calls": [call("Bash", command="touch x")]}, {"text": "Done.", "expect": "Use make."}]
    args = ["-p", "--settings", settings, "--model", script(work.parent / "s.toml", replies), "--output-format", "json"]
    done = agent([*args, "go"], work)
    assert done.returncode == 0, done.stdout + done.stderr
    (denial,) = json.loads(done.stdout)["permission_denials"]
    assert denial["reason"] == "Permission was denied: the call was refused by a hook: Use make."

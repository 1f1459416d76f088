"""`agent show` and the stage in lists: a session as it is told afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.program import agent
from tests.support.scripts import call, script


def stage(work: Path) -> str:
    found: list[dict[str, Any]] = json.loads(agent(["sessions", "list", "--json"], work).stdout)
    return str(found[0]["stage"])


def test_a_session_is_reported_turn_by_turn(work: Path) -> None:
    use = {"input": 100, "output": 5, "cache_read": 40}
    replies = [
        {"calls": [call("LS", path="."), call("Bash", command="touch x")], "usage": use},
        {"text": "Done.", "usage": use},
        {"text": "Again.", "usage": use},
    ]
    model = script(work / "s.toml", replies)
    agent(["-p", "--model", model, "list it"], work)
    agent(["-p", "-c", "--model", model, "and again"], work)
    shown = agent(["show"], work).stdout
    assert "> list it" in shown
    assert "LS .: approved, done" in shown or "List" in shown
    assert "Run: touch x: denied" in shown
    assert "total: 300 tokens in (120 cached), 15 out" in shown
    found = json.loads(agent(["show", "--json", "--turn", "-1"], work).stdout)
    (turn,) = found["turns"]
    assert (turn["turn"], turn["query"], turn["rounds"], turn["terminal_reason"]) == (2, "and again", 1, "completed")
    assert turn["usage"]["input"] == 100
    assert agent(["show", "--turn", "7"], work).returncode == 2
    assert agent(["show", "ffffffff"], work).returncode == 2


def test_turns_of_a_copy_and_behind_one_that_broke_off_are_reported_apart(work: Path) -> None:
    model = script(work / "s.toml", [{"text": f"{n}.", "usage": {"input": 100, "output": 5}} for n in range(4)])
    agent(["-p", "--model", model, "one"], work)
    agent(["-p", "-c", "--model", model, "two"], work)
    agent(["-p", "-c", "--fork-session", "--model", model, "three"], work)
    found = json.loads(agent(["show", "--json"], work).stdout)
    assert [(t["query"], t["copied"], t["rounds"]) for t in found["turns"]] == [
        ("one", True, 0), ("two", True, 0), ("three", False, 1),
    ]  # fmt: skip
    assert found["usage"]["input"] == 100
    assert agent(["show"], work).stdout.count("copied from another session") == 2
    cost = agent(["--plain", "-c", "--model", model], work, stdin="/cost\nfour\n/cost\n").stdout
    assert "turn 1: 100 tokens in, 5 out; $0.0000  three" in cost and "turn 2: 100" in cost

    log = max((work.parent / "home/state/sessions").rglob("*.jsonl"), key=lambda p: p.stat().st_mtime)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))
    agent(["-p", "-c", "--model", script(work / "t.toml", [{"text": "Five."}] * 5), "five"], work)
    queries = [t["query"] for t in json.loads(agent(["show", "--json"], work).stdout)["turns"]]
    assert queries == ["one", "two", "three", "four", "five"]


def test_stages(work: Path) -> None:
    run = call("Bash", command="touch made")
    ask = call("AskUserQuestion", questions=[{"question": "Which?"}])
    plan = call("ExitPlanMode", plan="1. Go")
    for reply, flags, expected in (
        ({"text": "Hi."}, [], "completed"),
        ({"calls": [run]}, ["--on-ask", "suspend"], "awaiting_tool_approval"),
        ({"calls": [ask]}, ["--on-ask", "suspend"], "awaiting_answer"),
        ({"calls": [plan]}, ["--permission-mode", "plan"], "awaiting_plan_approval"),
        ({"error": {"kind": "auth", "message": "No."}}, [], "failed"),
    ):
        model = script(work / "s.toml", [reply])
        agent(["-p", "--model", model, *flags, "go"], work)
        assert stage(work) == expected


def test_hooks_are_reported_with_the_message_that_they_ran_for(work: Path) -> None:
    home = work.parent / "home"
    home.mkdir(exist_ok=True)
    names = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
    (home / ".agentrc").write_text("".join(f'[[hooks]]\nevent = "{n}"\ncommand = "true"\n' for n in names))
    model = script(work / "s.toml", [{"text": "Done."}, {"text": "Again."}])
    agent(["-p", "--model", model, "one"], work)
    agent(["-p", "-c", "--model", model, "two"], work)
    first, second = json.loads(agent(["show", "--json"], work).stdout)["turns"]
    assert [h["name"] for h in first["hooks"]] == ["SessionStart:startup", *names[1:3], "SessionEnd:other"]
    assert [h["name"] for h in second["hooks"]] == ["SessionStart:resume", *names[1:3], "SessionEnd:other"]

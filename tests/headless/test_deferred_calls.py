"""A PreToolUse hook answers `defer`: the run ends with the call open, and resuming the session runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.hook_logs import given, hooks
from tests.support.program import agent
from tests.support.scripts import call, script

DEFER = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "defer",
                                "permissionDecisionReason": "not before noon"}}  # fmt: skip
MADE = call("Bash", command="touch made")


def run(work: Path, *words: str, calls: tuple[dict[str, Any], ...] = (MADE,)) -> dict[str, Any]:
    """Run one line of a conversation that makes the calls and then ends; return its result."""
    model = script(work.parent / "s.toml", [{"calls": list(calls)}, {"text": "done"}, {"text": "and now"}])
    done = agent(["-p", "--model", model, "--allowedTools", "Bash", "--output-format", "json", *words], work)
    result: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"error": done.stderr}
    return {**result, "code": done.returncode}


def test_a_deferred_call_ends_the_run(work: Path, home: Path) -> None:
    hooks(home, {"PreToolUse": DEFER})
    result = run(work, "hi")
    shown = {name: result[name] for name in ("subtype", "is_error", "stop_reason", "terminal_reason", "code")}
    assert shown == {"subtype": "success", "is_error": False, "stop_reason": "tool_deferred",
                     "terminal_reason": "tool_deferred", "code": 3}  # fmt: skip
    assert result["deferred_tool_use"] == {"id": "call-1-1", "name": "Bash", "input": {"command": "touch made"}}
    assert "not before noon" in result["pending"][0]["reason"]
    assert not (work / "made").exists()


@pytest.mark.parametrize("words", [[], ["What now?"]])
def test_resuming_asks_the_hook_again_and_runs_the_call(work: Path, home: Path, words: list[str]) -> None:
    hooks(home, {"PreToolUse": DEFER})
    run(work, "hi")
    again = run(work, "-c", *words)
    assert (again["stop_reason"], (work / "made").exists()) == ("tool_deferred", False)
    log = hooks(home)
    result = run(work, "-c", *words)
    assert (work / "made").exists()
    assert (result["subtype"], result["code"]) == ("success", 0)
    assert result["stop_reason"] != "tool_deferred" and "deferred_tool_use" not in result
    assert [entry["tool_use_id"] for entry in given(log, "PostToolUse")] == ["call-1-1"]
    assert result["result"] == ("and now" if words else "done")


def test_without_a_message_there_must_be_a_deferred_call(work: Path) -> None:
    assert run(work, "hi")["code"] == 0
    nothing = run(work, "-c")
    assert nothing["code"] == 2
    assert "There is no prompt" in nothing["error"]


def test_a_refusal_is_stricter_and_a_deferral_stricter_than_an_allow(work: Path, home: Path) -> None:
    hooks(home, {"PreToolUse": DEFER})
    settings = json.loads((home / ".claude/settings.json").read_text())
    settings["hooks"]["PreToolUse"].append({"hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]})
    (home / ".claude/settings.json").write_text(json.dumps(settings))
    result = run(work, "hi")
    assert (result["stop_reason"], len(result["permission_denials"])) == ("end_turn", 1)


def test_the_call_before_a_deferred_one_runs(work: Path, home: Path) -> None:
    entry = {"matcher": "Bash", "hooks": [{"type": "command", "command": f"echo '{json.dumps(DEFER)}'"}]}
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text(json.dumps({"hooks": {"PreToolUse": [entry]}}))
    (work / "a.txt").write_text("x")
    result = run(work, "hi", calls=(call("Read", file_path="a.txt"), MADE))
    assert result["deferred_tool_use"]["name"] == "Bash"
    assert result["num_tool_calls"] == 1


def test_an_approval_runs_the_call_whatever_the_hook_says(work: Path, home: Path) -> None:
    hooks(home, {"PreToolUse": DEFER})
    result = run(work, "hi")
    done = agent(["approve", result["session_id"]], work)
    assert done.returncode == 0, done.stderr
    assert (work / "made").exists()


def test_a_host_resumes_a_deferred_call_with_its_next_message(work: Path, home: Path) -> None:
    hooks(home, {"PreToolUse": DEFER})
    run(work, "hi")
    hooks(home)
    message = {"type": "user", "message": {"role": "user", "content": "What now?"}}
    args = ["-c", "--input-format", "stream-json", "--output-format", "stream-json", "--allowedTools", "Bash"]
    done = agent([*args, "--model", f"scripted:{work.parent / 's.toml'}"], work, stdin=json.dumps(message) + "\n")
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["type"], result["result"], (work / "made").exists()) == ("result", "and now", True)

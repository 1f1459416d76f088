"""What hooks are given, field by field as Claude Code gives it (compared with version 2.1.330)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.hook_logs import given, hooks, run
from tests.support.model_server import ModelServer, Reply
from tests.support.program import agent
from tests.support.scripts import call, task


def anthropic(server: ModelServer) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url}


def test_a_changed_file_comes_with_its_text_before(work: Path, home: Path) -> None:
    log = hooks(home)
    (work / "a.txt").write_text("hello world\n")
    calls = [
        call("Read", file_path="a.txt"), call("Edit", file_path="a.txt", old_string="world", new_string="you"),
        call("Write", file_path="a.txt", content="new\n"), call("Write", file_path="b.txt", content="new\n"),
    ]  # fmt: skip
    run(work, [*({"calls": [one]} for one in calls), {"text": "ok"}], "--permission-mode", "acceptEdits")
    lines = [entry["tool_response"] for entry in given(log, "PostToolUse")[1:]]
    assert [entry["originalFile"] for entry in lines] == ["hello world\n", "hello you\n", None]


def test_searches_have_their_counts(work: Path, home: Path) -> None:
    log = hooks(home)
    for name in ("a", "b", "c"):
        (work / f"{name}.txt").write_text("hello\nhello\n")
    searches: list[dict[str, Any]] = [
        {}, {"head_limit": 1}, {"output_mode": "content", "head_limit": 2, "offset": 1}, {"output_mode": "count"},
    ]  # fmt: skip
    calls = [call("Glob", pattern="*.txt"), *(call("Grep", pattern="hello", **more) for more in searches)]
    run(work, [{"calls": calls}, {"text": "ok"}])
    globbed, files, first, lines, counts = (entry["tool_response"] for entry in given(log, "PostToolUse"))
    assert [globbed[k] for k in ("numFiles", "totalMatches", "countIsComplete")] == [3, 3, True]
    assert (files["numFiles"], files["totalFiles"], "appliedLimit" in files) == (3, 3, False)
    assert (first["numFiles"], first["totalFiles"], first["appliedLimit"]) == (1, 3, 1)
    shown = [lines[k] for k in ("numFiles", "numLines", "totalLines", "appliedLimit", "appliedOffset")]
    assert shown == [0, 2, 6, 2, 1]
    assert (counts["numFiles"], counts["numMatches"], "numLines" in counts) == (3, 6, False)


def test_a_failed_command_begins_with_its_exit_code(work: Path, home: Path) -> None:
    log = hooks(home)
    commands = [call("Bash", command="echo no; exit 3"), call("Bash", command="exit 4")]
    run(work, [{"calls": commands}, {"text": "ok"}], "--allowedTools", "Bash")
    assert [entry["error"] for entry in given(log, "PostToolUseFailure")] == ["Exit code 3\nno", "Exit code 4"]


def test_a_sub_agent_is_an_agent_with_a_report(work: Path, home: Path) -> None:
    log = hooks(home)
    replies = [{"calls": [task("explore")]}, {"calls": [call("LS", path=".")]}, {"text": "found"}, {"text": "done"}]
    run(work, replies)
    names = [entry["tool_name"] for entry in given(log, "PreToolUse") if "agent_id" not in entry]
    (ended,) = [entry for entry in given(log, "PostToolUse") if entry["tool_name"] == "Agent"]
    (start,) = given(log, "SubagentStart")
    found = ended["tool_response"]
    assert names[0] == "Agent"
    assert [found[k] for k in ("status", "prompt", "agentType")] == ["completed", "find it", "Explore"]
    assert found["agentId"] == start["agent_id"]
    assert found["content"][0]["type"] == "text"
    # The sub-agent has a connection of its own, which gives it the same replies from the beginning.
    assert (found["toolsUsed"], found["totalToolUseCount"]) == (["Agent", "LS"], 2)
    assert found["totalTokens"] == found["usage"]["input_tokens"] + found["usage"]["output_tokens"]
    assert isinstance(found["totalDurationMs"], int)


@pytest.mark.parametrize("matcher", ["Task", "Agent", "^Task$", "^Agent$", "Bash|Agent"])
def test_hooks_for_either_name_of_sub_agents_run(work: Path, home: Path, matcher: str) -> None:
    entry = {"matcher": matcher, "hooks": [{"type": "command", "command": f"touch {work / 'ran'}"}]}
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text(json.dumps({"hooks": {"PreToolUse": [entry]}}))
    run(work, [{"calls": [task("explore")]}, {"text": "found"}, {"text": "done"}])
    assert (work / "ran").exists()


def test_a_resumed_session_says_how_old_and_how_large_it_is(work: Path, home: Path) -> None:
    log = hooks(home, events=("SessionStart",))
    with ModelServer([Reply(text="hello")], repeat=True) as server:
        for more in ([], ["-c"], ["-c", "--fork-session"]):
            done = agent(["-p", "--model", "anthropic/claude-sonnet-4-5", *more, "hi"], work, anthropic(server))
            assert done.returncode == 0, done.stderr
    start, resumed, forked = given(log, "SessionStart")
    fields = ("seconds_since_last_response", "context_tokens", "prompt_cache_likely_expired")
    assert [entry["source"] for entry in (start, resumed, forked)] == ["startup", "resume", "fork"]
    assert not set(start) & {*fields, "estimated_cache_write_usd"}
    for entry in (resumed, forked):
        assert 0 <= entry["seconds_since_last_response"] < 100
        assert entry["context_tokens"] == 19
        assert entry["prompt_cache_likely_expired"] is False
        assert entry["estimated_cache_write_usd"] == 0.0001


def test_compaction_has_an_event_before_and_after_it(work: Path, home: Path) -> None:
    log = hooks(home, events=("PreCompact", "SessionStart", "PostCompact"))
    text = "They greeted each other, and did nothing else. " * 10
    with ModelServer([Reply(text="hello"), Reply(text=text)]) as server:
        for words in (["hi"], ["-c", "/compact the greeting"]):
            agent(["-p", "--model", "anthropic/claude-sonnet-4-5", *words], work, anthropic(server))
    (before,), (after,) = given(log, "PreCompact"), given(log, "PostCompact")
    assert (before["trigger"], before["custom_instructions"]) == ("manual", "the greeting")
    assert before["prompt_id"] == after["prompt_id"] != ""
    assert [entry["source"] for entry in given(log, "SessionStart")] == ["startup", "compact"]
    assert (after["trigger"], after["compact_summary"]) == ("manual", text.strip())


def test_what_a_hook_adds_at_a_compaction_is_there_for_the_next_run(work: Path, home: Path) -> None:
    context = {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "Remember the parrot."}}
    hooks(home, {"SessionStart": context}, events=("SessionStart",))
    settings = json.loads((home / ".claude/settings.json").read_text())
    settings["hooks"]["SessionStart"][0]["matcher"] = "compact"
    (home / ".claude/settings.json").write_text(json.dumps(settings))
    text = "They greeted each other, and did nothing else. " * 10
    with ModelServer([Reply(text="hello"), Reply(text=text), Reply(text="ok")]) as server:
        for words in (["hi"], ["-c", "/compact"], ["-c", "again"]):
            agent(["-p", "--model", "anthropic/claude-sonnet-4-5", *words], work, anthropic(server))
    assert "Remember the parrot." in json.dumps(server.requests[-1].body["messages"])


def test_a_batch_has_all_calls_of_an_answer(work: Path, home: Path) -> None:
    context = {"hookSpecificOutput": {"hookEventName": "PostToolBatch", "additionalContext": "Look out."}}
    log = hooks(home, {"PostToolBatch": context})
    (work / "a.txt").write_text("one\n")
    calls = [call("Read", file_path="a.txt"), call("Read", file_path="missing.txt")]
    run(work, [{"calls": calls}, {"calls": [call("LS", path=".")]}, {"text": "done"}])
    first, second = (entry["tool_calls"] for entry in given(log, "PostToolBatch"))
    assert [entry["tool_name"] for entry in first] == ["Read", "Read"]
    assert first[0]["tool_input"] == {"file_path": str(work / "a.txt")}
    assert "one" in first[0]["tool_response"] and "missing.txt" in first[1]["tool_response"]
    assert [entry["tool_name"] for entry in second] == ["LS"]
    sessions = [file for file in home.rglob("*.jsonl") if file != log]
    assert any("Look out." in file.read_text("utf-8") for file in sessions)


def test_a_hook_after_a_batch_ends_the_turn(work: Path, home: Path) -> None:
    log = hooks(home, {"PostToolBatch": {"decision": "block", "reason": "enough"}})
    replies = [{"calls": [call("LS", path=".")]}, {"text": "never"}]
    done = run(work, replies, "--output-format", "json")
    result = json.loads(done.stdout)
    assert (result["terminal_reason"], result["num_turns"], len(given(log, "PostToolBatch"))) == ("hook_stopped", 1, 1)
    assert "enough" in done.stderr

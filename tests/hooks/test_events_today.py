"""The events and fields that Claude Code has today, in the program: each hook appends what it is given to a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.engine.hook_points import output_text
from agent_cli.kernel.rules import rule_update
from tests.support.hook_logs import given, hooks, run
from tests.support.scripts import call


def test_a_failed_call_has_an_event_of_its_own(work: Path, home: Path) -> None:
    say = {"hookSpecificOutput": {"hookEventName": "PostToolUseFailure", "additionalContext": "Look again."}}
    log = hooks(home, {"PostToolUseFailure": say})
    replies = [{"calls": [call("Read", file_path="missing.txt")]}, {"text": "done"}]
    done = run(work, replies, "--output-format", "stream-json")
    (failed,) = given(log, "PostToolUseFailure")
    assert "missing.txt" in failed["error"]
    assert failed["is_interrupt"] is False
    assert failed["tool_name"] == "Read"
    assert failed["tool_use_id"]
    assert given(log, "PostToolUse") == []
    assert "Look again." in done.stdout


def test_a_permission_request_is_answered_also_where_nobody_sits(work: Path, home: Path) -> None:
    allow = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}
    log = hooks(home, {"PermissionRequest": allow})
    run(work, [{"calls": [call("Bash", command="touch made")]}, {"text": "done"}])
    assert (work / "made").exists()
    (asked,) = given(log, "PermissionRequest")
    assert asked["tool_input"]["command"] == "touch made"
    for offered in asked.get("permission_suggestions", []):
        assert offered["type"] == "addRules"


def test_sub_agents_start_and_stop_with_their_id(work: Path, home: Path) -> None:
    say = {"hookSpecificOutput": {"hookEventName": "SubagentStart", "additionalContext": "Mind the tests."}}
    log = hooks(home, {"SubagentStart": say})
    task = call("Agent", subagent_type="Explore", description="look", prompt="Look around.")
    replies = [{"calls": [task]}, {"calls": [call("LS", path=".")]}, {"text": "found"}, {"text": "done"}]
    done = run(work, replies, "--output-format", "stream-json", "--verbose")
    (start,), (stop,) = given(log, "SubagentStart"), given(log, "SubagentStop")
    assert start["agent_type"] == stop["agent_type"] == "Explore"
    assert start["agent_id"] == stop["agent_id"] != ""
    path = Path(stop["agent_transcript_path"])
    assert path.name == f"agent-{stop['agent_id']}.jsonl" and "Look around." in path.read_text()
    # The sub-agent has a connection of its own, which gives it the same replies from the beginning.
    calls = [(line.get("agent_id"), line.get("agent_type")) for line in given(log, "PreToolUse")]
    assert (start["agent_id"], "Explore") in calls
    (outer,) = [line for line in given(log, "PreToolUse") if line["tool_name"] == "Agent"]
    assert "agent_id" not in outer
    assert done.returncode == 0
    sessions = [file for file in home.rglob("*.jsonl") if file != log]
    assert any("Mind the tests." in file.read_text("utf-8") for file in sessions)


def test_one_id_for_all_that_a_prompt_leads_to(work: Path, home: Path) -> None:
    log = hooks(home)
    run(work, [{"calls": [call("LS", path=".")]}, {"text": "done"}])
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.strip()]
    events = {"UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch", "Stop"}
    assert {line["hook_event_name"] for line in lines} == events
    assert len({line["prompt_id"] for line in lines}) == 1


def test_a_command_that_becomes_a_prompt(work: Path, home: Path) -> None:
    log = hooks(home)
    (home / ".claude/commands").mkdir()
    (home / ".claude/commands/greet.md").write_text("Say hello to $ARGUMENTS.")
    run(work, [{"text": "hello"}], prompt="/greet Ada")
    (expanded,) = given(log, "UserPromptExpansion")
    fields = ("expansion_type", "command_name", "command_args", "command_source", "prompt")
    assert [expanded[f] for f in fields] == ["slash_command", "greet", "Ada", "user", "/greet Ada"]
    block = {"decision": "block", "reason": "not today"}
    hooks(home, {"UserPromptExpansion": block})
    blocked = run(work, [{"text": "hello"}], prompt="/greet Ada")
    assert "not today" in blocked.stdout + blocked.stderr
    assert len(given(log, "UserPromptSubmit")) == 1


@pytest.mark.parametrize(
    "output", ["seen by the model", {"stdout": "seen by the model", "stderr": ""},
               {"content": [{"type": "text", "text": "seen by the model"}]}],
)  # fmt: skip
def test_a_hook_replaces_what_the_model_is_shown(work: Path, home: Path, output: Any) -> None:
    (work / "a.txt").write_text("secret")
    hooks(home, {"PostToolUse": {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": output}}})
    done = run(work, [{"calls": [call("Read", file_path="a.txt")]}, {"text": "done"}], "--output-format", "stream-json")
    results = [json.loads(line) for line in done.stdout.splitlines() if '"tool_result"' in line]
    text = json.dumps([line["message"] for line in results])
    assert "seen by the model" in text
    assert "secret" not in text


@pytest.mark.parametrize("trigger", ["init", "maintenance"])
def test_setup_runs_where_it_is_asked_for(work: Path, home: Path, trigger: str) -> None:
    log = hooks(home)
    run(work, [{"text": "done"}])
    assert given(log, "Setup") == []
    run(work, [{"text": "done"}], f"--{trigger}")
    assert [line["trigger"] for line in given(log, "Setup")] == [trigger]


def test_line_breaks_of_a_message_stay(work: Path, home: Path) -> None:
    hooks(home, {"Stop": {"systemMessage": "one\ntwo\n  three"}})
    done = run(work, [{"text": "done"}])
    assert "one\n" in done.stderr
    assert "\\n" not in done.stderr


def test_the_forms_of_an_output_and_of_a_suggestion() -> None:
    assert output_text({"stdout": "a\n", "stderr": "b"}) == "a\nb"
    assert output_text({"other": 1}) == '{"other": 1}'
    assert rule_update("Bash(git status:*)") == {
        "type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "git status:*"}],
        "behavior": "allow", "destination": "localSettings",
    }  # fmt: skip
    assert rule_update("WebSearch")["rules"] == [{"toolName": "WebSearch"}]


def test_the_limit_of_stop_hooks_is_named_when_it_ends_a_turn(work: Path, home: Path) -> None:
    log = hooks(home, {"Stop": {"decision": "block", "reason": "Go on."}})
    done = run(work, [{"text": f"Done {number}."} for number in range(60)])
    assert done.returncode == 0
    assert len(given(log, "Stop")) == 50
    assert "Stop hooks continued this turn 50 times" in done.stderr


WAIT = "for n in $(seq 300); do [ -e made ] && break; sleep 0.1; done"


def test_a_hook_that_asks_for_it_runs_on_in_the_background(work: Path, home: Path) -> None:
    script = home / "later.sh"
    script.write_text('#!/bin/sh\necho \'{"async": true, "asyncTimeout": 20000}\'\nsleep 0.5\ntouch "$1"\n')
    script.chmod(0o755)
    table = {"SessionStart": [{"hooks": [{"type": "command", "command": f"{script} {work / 'made'}"}]}]}
    (home / ".claude").mkdir(exist_ok=True)
    (home / ".claude/settings.json").write_text(json.dumps({"hooks": table}))
    done = run(work, [{"calls": [call("Bash", command=WAIT)]}, {"text": "done"}])
    assert done.stderr.count("hook") == 0
    assert (work / "made").exists()


def test_a_background_hook_that_blocks_wakes_the_model(work: Path, home: Path) -> None:
    command = f"echo 'Look at this again.' >&2; touch {work / 'made'}; exit 2"
    entry = {"type": "command", "command": command, "asyncRewake": True, "rewakeMessage": "x", "rewakeSummary": "y"}
    (home / ".claude").mkdir(exist_ok=True)
    (home / ".claude/settings.json").write_text(
        json.dumps({"hooks": {"PreToolUse": [{"matcher": "LS", "hooks": [entry]}]}})
    )
    replies = [
        {"calls": [call("LS", path=".")]},
        {"calls": [call("Bash", command=f"{WAIT}; sleep 1")]},
        {"text": "done"},
    ]
    done = run(work, replies, "--output-format", "stream-json", "--verbose")
    assert done.returncode == 0, done.stderr
    log = next((home / "state").rglob("*.jsonl")).read_text()
    assert "Look at this again." in log and "PreToolUse hook in the background" in log


def test_results_and_the_end_have_the_fields_that_claude_code_gives(work: Path, home: Path) -> None:
    log = hooks(home)
    (work / "a.txt").write_text("one\ntwo\n")
    path = str(work / "new.txt")
    calls = [
        call("Read", file_path="a.txt"), call("Write", file_path="new.txt", content="x\n"),
        call("Edit", file_path="new.txt", old_string="x", new_string="y"), call("Glob", pattern="*.txt"),
        call("Bash", command="sleep 60", run_in_background=True), call("Bash", command="echo hi"),
    ]  # fmt: skip
    run(work, [*({"calls": [one]} for one in calls), {"text": "ok"}], "--allowedTools", "Edit", "Bash")
    found = {entry["tool_name"]: entry["tool_response"] for entry in given(log, "PostToolUse")}
    assert found["Read"]["type"] == "text"
    content = {"filePath": str(work / "a.txt"), "content": "one\ntwo\n"}
    assert found["Read"]["file"] == {**content, "numLines": 3, "startLine": 1, "totalLines": 3}
    edits = [entry["tool_input"] for entry in given(log, "PreToolUse") if entry["tool_name"] == "Edit"]
    assert edits == [{"file_path": path, "old_string": "x", "new_string": "y", "replace_all": False}]
    written = {"type": "create", "filePath": path, "content": "x\n", "structuredPatch": [], "userModified": False}
    assert written.items() <= found["Write"].items()
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-x", "+y"]}
    edited = {"filePath": path, "oldString": "x", "newString": "y", "replaceAll": False, "structuredPatch": [hunk],
              "originalFile": "x\n"}  # fmt: skip
    assert edited.items() <= found["Edit"].items()
    assert {"numFiles": 2, "truncated": False, "totalMatches": 2, "countIsComplete": True}.items() <= found[
        "Glob"
    ].items()
    assert {"noOutputExpected", "stdout", "success", "content"} <= set(found["Bash"])
    (stop,) = given(log, "Stop")
    task = {"id": "b1", "type": "shell", "status": "running", "description": "sleep 60", "command": "sleep 60"}
    assert (stop["background_tasks"], stop["session_crons"]) == ([task], [])


@pytest.mark.parametrize("own", [True, False])
def test_an_answer_to_a_question_may_add_rules_for_the_session(work: Path, home: Path, own: bool) -> None:
    rule = {"toolName": "Bash", "ruleContent": "touch:*"}
    update = {"type": "addRules", "rules": [rule, 5], "behavior": "allow", "destination": "session"}
    answer = {"behavior": "allow", "updatedPermissions": [update], "updatedInput": {"command": "touch changed"}}
    found = {"hookEventName": "PermissionRequest", "decision": answer}
    log = hooks(home, {"PermissionRequest": {"hookSpecificOutput": found}})
    if not own:
        (work / ".claude").mkdir()
        (home / ".claude/settings.json").rename(work / ".claude/settings.json")
    replies = [{"calls": [call("Bash", command=f"touch {name}")]} for name in ("one", "two")]
    done = run(work, [*replies, {"text": "ok"}], *([] if own else ["--trust"]))
    assert done.stdout.endswith("ok\n"), done.stderr
    asked = [entry["tool_input"]["command"] for entry in given(log, "PermissionRequest")]
    assert asked[:1] == ["touch one"]
    assert [(work / name).exists() for name in ("one", "changed", "two")] == [False, own, own]


def test_permission_updates_that_make_no_sense_allow_nothing(work: Path, home: Path) -> None:
    found = {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow", "updatedPermissions": "all"}}
    hooks(home, {"PermissionRequest": {"hookSpecificOutput": found}})
    done = run(work, [{"calls": [call("Bash", command="touch made")]}, {"text": "ok"}])
    assert "updatedPermissions is not a list of updates" in done.stderr
    assert not (work / "made").exists()

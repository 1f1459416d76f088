"""Turns that wait for a user over processes: suspended, listed, decided elsewhere, gone on with."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from agent_cli.kernel.session.timeline import build_timeline
from tests.support.fork_server import start
from tests.support.program import agent, clean_env
from tests.support.scripts import call, script
from tests.support.suspended_runs import WRITE, log, once, pending, plan_run, suspend


def test_propose_approve_run_observe_propose_again_approve_sum_up(work: Path) -> None:
    replies = [
        {"text": "First.", "calls": [call("Read", file_path="a.txt"), once("one")]},
        {"text": "Second.", "calls": [once("two")]},
        {"text": "Both done.", "expect": "exit code 0"},
    ]
    done = suspend(work, replies)
    assert "waiting: Run: echo one >> log (call-1-2)" in done.stderr
    assert log(work) == []
    assert [i["summary"] for i in pending(work)[0]["pending"]] == ["Run: echo one >> log"]
    first = agent(["approve"], work)
    assert first.returncode == 3, first.stderr
    assert log(work) == ["one"]
    assert "waiting: Run: echo two >> log (call-2-1)" in first.stderr
    second = agent(["approve", "--output-format", "json"], work)
    found = json.loads(second.stdout)
    assert (second.returncode, found["result"], found["num_turns"]) == (0, "Both done.", 3)
    assert log(work) == ["one", "two"]
    assert pending(work) == []
    assert agent(["approve"], work).returncode == 2


def test_all_calls_of_a_round_wait_until_the_last_is_decided(work: Path) -> None:
    suspend(
        work,
        [{"calls": [once("one"), call("Read", file_path="a.txt"), once("two")]}, {"text": "Ok.", "expect": "not that"}],
    )
    unclear = agent(["approve"], work)
    assert unclear.returncode == 2
    assert "2 calls are waiting: name one, or use --all" in unclear.stderr
    assert "call-1-1" in unclear.stderr
    assert agent(["approve", "nope-call"], work).returncode == 2
    half = agent(["approve", "call-1-1"], work)
    assert half.returncode == 3
    assert log(work) == []
    done = agent(["reject", "call-1-3", "--why", "not that"], work)
    assert (done.returncode, done.stdout) == (0, "Ok.\n"), done.stderr
    assert log(work) == ["one"]


def test_a_suspended_turn_keeps_its_bounds_rules_and_mode(work: Path) -> None:
    replies = [
        {"calls": [once("one")]},
        {"calls": [call("Bash", command="touch made")]},
        {"calls": [once("x")]},
        {"text": "Cut."},
    ]
    suspend(work, replies, "--max-turns", "2", "--allowedTools", "Bash(touch:*)")
    (work / ".agentrc").write_text("max_rounds = 1\n")
    done = agent(["approve", "--all", "--output-format", "json"], work)
    assert done.returncode == 4, done.stderr
    assert json.loads(done.stdout)["num_turns"] == 2
    assert (work / "made").exists()
    assert log(work) == ["one"]


def test_what_changed_since_it_was_shown_is_proposed_again(work: Path) -> None:
    edit = call("Edit", file_path="a.txt", old_string="world", new_string="you")
    suspend(work, [{"calls": [call("Read", file_path="a.txt")]}, {"calls": [edit]}, {"text": "Ok."}])
    (work / "a.txt").write_text("hello world, and more\n")
    again = agent(["approve"], work)
    assert (again.returncode, (work / "a.txt").read_text()) == (3, "hello world, and more\n"), again.stderr
    assert agent(["approve"], work).returncode == 0
    assert (work / "a.txt").read_text() == "hello you, and more\n"


def test_two_people_cannot_run_a_call_twice(work: Path) -> None:
    suspend(work, [{"calls": [call("Bash", command="echo one >> log; sleep 0.5")]}, {"text": "Ok."}])
    env = clean_env(work.parent / "home")
    both = [start(["approve"], work, env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    codes = sorted(p.wait(30) for p in both)
    for process in both:
        process.communicate()
    assert codes == [0, 2]
    assert log(work) == ["one"]


def test_a_new_message_has_to_wait(work: Path) -> None:
    suspend(work, [{"calls": [once("one")]}, {"text": "Ok."}])
    model = f"scripted:{work / 's.toml'}"
    done = agent(["-p", "-c", "--model", model, "more"], work)
    assert done.returncode == 3
    assert "waiting: Run: echo one >> log" in done.stderr
    assert agent(["approve"], work).returncode == 0


def test_a_question_is_answered_from_elsewhere(work: Path) -> None:
    ask = call("AskUserQuestion", questions=[{"question": "A or B?", "options": [{"label": "A"}, {"label": "B"}]}])
    suspend(work, [{"calls": [ask]}, {"text": "B it is.", "expect": "take B"}])
    assert pending(work)[0]["pending"][0]["kind"] == "question"
    assert agent(["approve"], work).returncode == 2
    done = agent(["answer", "take B"], work)
    assert (done.returncode, done.stdout) == (0, "B it is.\n"), done.stderr


def test_on_ask_deny_lets_the_model_decide_and_fail_ends_the_run(work: Path) -> None:
    ask = call("AskUserQuestion", questions=[{"question": "A or B?"}])
    model = script(work / "s.toml", [{"calls": [ask]}, {"text": "I assume A.", "expect": "state the assumption"}])
    assert agent(["-p", "--model", model, "q"], work).returncode == 0
    model = script(work / "s.toml", [{"calls": [once("one")]}, {"text": "Never."}])
    done = agent(["-p", "--model", model, "--on-ask", "fail", "--output-format", "json", "q"], work)
    assert done.returncode == 1
    assert json.loads(done.stdout)["outcome"] == "failed"
    assert (
        "the user is needed for: Run: echo one >> log. Allow it with --allowedTools, or let the run wait" in done.stderr
    )
    assert log(work) == []


def test_a_plan_waits_and_is_approved_into_a_mode(work: Path) -> None:
    plan_run(work, {"calls": [WRITE], "expect": "approved the plan"}, {"text": "Written."})
    done = agent(["approve", "--mode", "acceptEdits"], work)
    assert (done.returncode, done.stdout) == (0, "Written.\n"), done.stderr
    assert (work / "b.txt").exists()


def test_a_plan_is_answered_in_words_by_the_next_message(work: Path) -> None:
    plan_run(work, {"text": "Smaller then.", "expect": "<plan_feedback>"})
    done = agent(["-p", "-c", "--model", f"scripted:{work / 's.toml'}", "smaller steps please"], work)
    assert (done.returncode, done.stdout) == (0, "Smaller then.\n"), done.stderr
    assert not (work / "b.txt").exists()


def test_a_rejected_plan_ends_the_work(work: Path) -> None:
    plan_run(work, {"text": "never"})
    done = agent(["reject", "--output-format", "json"], work)
    assert json.loads(done.stdout)["terminal_reason"] == "cancelled"
    assert not (work / "b.txt").exists()


def test_a_plan_expires(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan_run(work, {"text": "Too late.", "expect": "expired"})
    path = next((work.parent / "home" / "state").rglob("*.jsonl"))
    from agent_cli.kernel.session import pending_plans

    asked = pending_plans.seconds_of(json.loads(path.read_bytes().splitlines()[-1])["time"])
    assert not pending_plans.is_expired(asked, 60)
    now = time.time()
    monkeypatch.setattr(pending_plans.time, "time", lambda: now + 3601)
    assert pending_plans.is_expired(asked, 60)
    assert not pending_plans.is_expired(asked, 0)


def test_a_plan_is_taken_exactly_once(tmp_path: Path) -> None:
    from agent_cli.kernel.session.pending_plans import WaitingPlan, claim_plan, save_plan

    plan = WaitingPlan("s", "c", {"plan": "x"}, 1.0)
    save_plan(tmp_path, plan)
    assert claim_plan(tmp_path, "other") is None
    assert claim_plan(tmp_path, "s") == plan
    assert claim_plan(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_new_session_takes_up_the_plan_only_where_that_is_set(work: Path) -> None:
    plan_run(work)
    model = script(work / "t.toml", [{"text": "Plain."}])
    assert agent(["-p", "--model", model, "hello"], work).stdout == "Plain.\n"
    model = script(work / "t.toml", [{"text": "On it.", "expect": "<plan_feedback>"}])
    fresh = ["-p", "--model", model, "--settings", "plan_review_fresh = true", "smaller steps"]
    assert agent(fresh, work).stdout == "On it.\n"
    assert pending(work) == []
    model = script(work / "t.toml", [{"text": "Plain again."}])
    done = agent(["-p", "--model", model, "--settings", "plan_review_fresh = true", "hello"], work)
    assert done.stdout == "Plain again.\n"


def test_waiting_resuming_and_the_plan_are_reported_in_stream_json(work: Path) -> None:
    todos = [{"content": "a", "status": "in_progress"}, {"content": "b", "status": "pending"}]
    done = [{"content": "a", "status": "completed"}, {"content": "b", "status": "completed"}]
    replies = [
        {"calls": [call("TodoWrite", todos=todos), once("one")]},
        {"text": "Half."},
        {"calls": [call("TodoWrite", todos=done)]},
        {"text": "All."},
    ]
    first = suspend(work, replies, "--output-format", "stream-json")
    second = agent(["approve", "--output-format", "stream-json"], work)
    lines = [json.loads(line) for line in (first.stdout + second.stdout).splitlines()]
    kinds = [x["subtype"] for x in lines if x["type"] == "system" and x["subtype"] != "init"]
    asked = ["approval_requested", "approval_resolved", "tool_started"]
    assert kinds[:7] == ["plan", "approval_requested", "paused", "resumed", *asked]
    assert [k for k in kinds[7:] if not k.startswith("tool_")] == ["plan_continued", "plan"]
    assert next(x for x in lines if x.get("subtype") == "plan_continued")["text_length"] == len("Half.")
    assert lines[0]["agents"] == ["explore", "general", "plan", "review"]


def test_sub_agents_are_reported_apart_in_stream_json(work: Path) -> None:
    task = call("Task", subagent_type="explore", description="look", prompt="look")
    model = script(work / "s.toml", [{"calls": [task]}, {"text": "Seen."}])
    done = agent(["-p", "--model", model, "--output-format", "stream-json", "q"], work)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    parents = [x["parent_tool_use_id"] for x in lines if x["type"] in ("assistant", "user")]
    assert parents[0] is None
    assert "call-1-1" in parents
    assert parents[-1] is None


def test_a_plan_is_printed_and_listed_with_all_it_comes_down_to(work: Path) -> None:
    lists = {"steps": ["One", "Two"], "files_to_modify": ["a.txt"], "commands": ["make"], "tests": ["make test"]}
    plan = call("ExitPlanMode", plan="Mind the docs.", **lists)
    done = suspend(work, [{"calls": [plan]}], "--permission-mode", "plan")
    text = (
        "Mind the docs.\n\n## Steps\n1. One\n2. Two\n\n## Files to modify\n- a.txt\n\n## Commands\n- make\n\n"
        "## Tests\n- make test\n"
    )
    assert done.stdout == text
    listed = agent(["pending"], work).stdout
    assert all(line.strip() in listed for line in text.splitlines())


def test_what_a_command_would_destroy_changed_before_it_was_approved(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"calls": [call("Bash", command="rm a.txt")]}, {"text": "Removed."}])
    assert agent(["-p", "--model", model, "--on-ask", "suspend", "go"], work).returncode == 3
    (work / "a.txt").write_text("something new and important\n")
    again = agent(["approve"], work)
    assert again.returncode == 3 and (work / "a.txt").exists(), "it waits again, with the new facts"
    assert "28 bytes" in agent(["pending"], work).stdout
    assert "Removed." in agent(["approve"], work).stdout
    assert not (work / "a.txt").exists()


def test_the_line_paused_counts_what_waits_and_names_the_sub_agent(work: Path) -> None:
    calls = [once("one"), call("Bash", command="ls"), WRITE]
    flags = ["--output-format", "stream-json", "--permission-mode", "default"]
    first = suspend(work, [{"calls": calls}, {"text": "Ok."}], *flags)
    lines = [json.loads(line) for line in first.stdout.splitlines()]
    asked = [x for x in lines if x.get("subtype") == "approval_requested"]
    [paused] = [x for x in lines if x.get("subtype") == "paused"]
    assert paused["pending"] == len(asked) == len(lines[-1]["pending"]) == 2
    assert paused["parent_tool_use_id"] is None


def test_the_pause_of_a_sub_agent_names_its_call(work: Path) -> None:
    task = call("Task", subagent_type="general", description="look", prompt="look")
    replies = [{"calls": [task]}, {"calls": [once("one")]}, {"text": "Sub."}, {"text": "Ok."}]
    first = suspend(work, replies, "--output-format", "stream-json")
    second = agent(["approve", "--output-format", "stream-json"], work)
    lines = [json.loads(line) for line in (first.stdout + second.stdout).splitlines()]
    for kind in ("paused", "resumed"):
        assert {None, "call-1-1"} <= {x.get("parent_tool_use_id") for x in lines if x.get("subtype") == kind}


def test_what_was_approved_after_a_pause_is_learned_once(work: Path) -> None:
    suspend(work, [{"calls": [call("Bash", command="touch made")]}, {"text": "Ok."}])
    assert agent(["approve"], work).returncode == 0
    learned = json.loads(agent(["permissions", "learn", "--json"], work).stdout)
    assert learned["questions"] == 1 and [rule["count"] for rule in learned["rules"]] == [1]


def test_a_run_that_was_killed_after_the_approval_no_longer_waits(work: Path) -> None:
    suspend(work, [{"calls": [call("Bash", command="touch made")]}, {"text": "Ok."}])
    path = next((work.parent / "home" / "state").rglob("*.jsonl"))
    waiting = path.read_bytes()
    assert agent(["approve"], work).returncode == 0
    lines = path.read_bytes().splitlines(keepends=True)
    decided = next(
        n for n, line in enumerate(lines) if b'"approve"' in line and json.loads(line)["type"] == "ApprovalResolved"
    )
    reasons = [build_timeline(data)[0].terminal_reason for data in (waiting, b"".join(lines[: decided + 1]))]
    assert reasons == ["await_approval", ""]
    assert build_timeline(path.read_bytes())[0].terminal_reason == "completed"


def pauses(done: subprocess.CompletedProcess[str]) -> tuple[list[tuple[int, str | None]], int]:
    """Return the count and the parent of each `paused` line, and how many decisions the result names."""
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = [(x["pending"], x["parent_tool_use_id"]) for x in lines if x.get("subtype") == "paused"]
    return found, len(lines[-1]["pending"])


def test_paused_counts_the_decisions_that_are_missing(work: Path) -> None:
    calls = [once("one"), call("Bash", command="ls"), call("Write", file_path="n.txt", content="x")]
    done = suspend(work, [{"calls": calls}], "--output-format", "stream-json")
    assert pauses(done) == ([(2, None)], 2)


def test_the_pause_of_a_sub_agent_names_its_task(work: Path) -> None:
    inner = script(work / "inner.toml", [{"calls": [once("a"), once("b")]}, {"text": "Did it."}])
    kinds = work.parent / "home/.agent/agents"
    kinds.mkdir(parents=True)
    (kinds / "helper.md").write_text(f"---\nname: helper\ndescription: helps\nmodel: {inner}\n---\nHelp.\n")
    task = call("Task", subagent_type="helper", description="look", prompt="look")
    done = suspend(work, [{"calls": [task]}, {"text": "End."}], "--output-format", "stream-json")
    assert pauses(done) == ([(2, "call-1-1"), (2, None)], 2)
    after = agent(["approve", "--all", "--output-format", "stream-json"], work)
    resumed = [x for x in map(json.loads, after.stdout.splitlines()) if x.get("subtype") == "resumed"]
    assert [x["parent_tool_use_id"] for x in resumed] == [None, "call-1-1"]

"""The commands around an approval: which session they take, what they show, and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import agent
from tests.support.scripts import call, script
from tests.support.suspended_runs import as_printed, log, once, pending, plan_run, printed, suspend

ASK = call(
    "AskUserQuestion",
    questions=[
        {"question": "Which way?", "options": [{"label": "Left", "description": "shorter"}, {"label": "Right"}]}
    ],
)


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_without_an_id_the_session_that_waits_is_taken_not_the_latest(work: Path) -> None:
    suspend(work, [{"calls": [once("one")]}, {"text": "Ok."}])
    later = script(work / "later.toml", [{"text": "Hello."}])
    assert agent(["-p", "--model", later, "something else"], work).returncode == 0
    done = agent(["approve"], work)
    assert (done.returncode, done.stdout, log(work)) == (0, "Ok.\n", ["one"]), done.stderr
    assert "Nothing waits for you in this project" in agent(["reject"], work).stderr


def test_where_several_sessions_wait_they_are_listed_and_one_is_asked_for(work: Path) -> None:
    suspend(work, [{"calls": [once("one")]}, {"text": "First."}])
    suspend(work, [{"calls": [once("two")]}, {"text": "Second."}])
    unclear = agent(["approve"], work)
    assert unclear.returncode == 2
    assert "2 sessions wait for you: name one of them" in unclear.stderr
    assert log(work) == []
    commands = [c for c in printed(unclear.stderr) if c.startswith("agent approve")]
    assert len(commands) == 2
    # The latest is listed first.
    assert as_printed(commands[0], work).stdout == "Second.\n"
    assert log(work) == ["two"]
    assert agent(["approve"], work).returncode == 0


def test_every_printed_command_works_as_it_is_printed(work: Path) -> None:
    replies = [{"calls": [once("one"), once("two")]}, {"text": "Done."}]
    for take, ran in ((0, ["one", "two"]), (1, []), (2, ["one"])):
        (work / "log").unlink(missing_ok=True)
        done = suspend(work, replies)
        commands = printed(done.stderr)
        assert [c.split()[1] for c in commands] == ["approve", "reject"] * 3
        assert "--all" in commands[0]
        assert as_printed(commands[take], work).returncode == (3 if take == 2 else 0)
        if take == 2:
            rest = agent(["reject"], work)
            assert rest.returncode == 0, rest.stderr
        assert log(work) == ran


def test_pending_shows_what_is_needed_to_decide(work: Path) -> None:
    suspend(work, [{"text": "I will write a line first.", "calls": [once("one")]}, {"text": "Ok."}])
    shown = agent(["pending"], work).stdout
    for words in ("asked ", "request: do it", "assistant: I will write a line first.", "call: Run: echo one >> log"):
        assert words in shown
    item = pending(work)[0]["pending"][0]
    assert item["request"] == "do it"
    assert item["said"] == "I will write a line first."
    assert item["asked_at"]
    assert item["agent"] is None
    assert as_printed(printed(shown)[0], work).returncode == 0


def test_the_result_says_the_same_of_what_waits(work: Path) -> None:
    done = suspend(work, [{"text": "Look at this.", "calls": [once("one")]}], "--output-format", "json")
    waiting = json.loads(done.stdout)["pending"][0]
    assert (waiting["request"], waiting["said"], waiting["call_id"]) == ("do it", "Look at this.", "call-1-1")
    # The words before a call are still known where only a part of the calls was decided, and later.
    assert pending(work)[0]["pending"][0]["said"] == "Look at this."


def test_pending_shows_all_questions_with_their_options(work: Path) -> None:
    ask = call(
        "AskUserQuestion",
        questions=[
            {"question": "Which way?", "options": [{"label": "Left", "description": "shorter"}, {"label": "Right"}]},
            {"question": "How far?"},
        ],
    )
    done = suspend(work, [{"calls": [ask]}, {"text": "Off.", "expect": "Which way? -> Right\nHow far? -> 3 km"}])
    for text in (done.stderr, agent(["pending"], work).stdout):
        assert "question 1: Which way?" in text
        assert "1. Left - shorter" in text
        assert "2. Right" in text
        assert "question 2: How far?" in text
    one = agent(["answer", "2"], work)
    assert one.returncode == 2
    assert "There are 2 questions, and 1 answer was given" in one.stderr
    done = agent(["answer", "2", "3 km"], work)
    assert (done.returncode, done.stdout) == (0, "Off.\n"), done.stderr


def test_the_facts_are_the_same_whether_or_not_somebody_can_answer(work: Path) -> None:
    def ask(on_ask: str) -> list[str]:
        (work / "a.txt").write_text("one\n")
        model = script(work.parent / "s.toml", [{"calls": [call("Bash", command="rm a.txt")]}, {"text": "Ok."}])
        done = agent(["-p", "--model", model, "--on-ask", on_ask, "--output-format", "stream-json", "go"], work)
        (asked,) = [line for line in lines(done) if line.get("subtype") == "approval_requested"]
        return list(asked["facts"])

    denied, suspended = ask("deny"), ask("suspend")
    assert denied == suspended == pending(work)[0]["pending"][0]["facts"]
    assert any(fact.startswith("deletes 1 file") for fact in denied)
    assert "undo: a copy is saved first, and /undo restores it" in denied


def test_a_call_of_a_sub_agent_is_shown_with_it(work: Path) -> None:
    own = script(work.parent / "own.toml", [{"text": "Now I write.", "calls": [once("one")]}, {"text": "Sub."}])
    types = work.parent / "home" / ".agent" / "agents"
    types.mkdir(parents=True)
    (types / "writer.md").write_text(f"---\nname: writer\ndescription: Writes.\nmodel: {own}\n---\nWrite it.")
    task = call("Task", subagent_type="writer", description="log", prompt="write the log")
    replies = [{"calls": [task]}, {"text": "Main."}]
    first = suspend(work, replies, "--output-format", "stream-json")
    item = pending(work)[0]["pending"][0]
    assert (item["agent"], item["agent_task"], item["parent_tool_use_id"]) == ("writer", "log", "call-1-1")
    assert (item["said"], item["request"]) == ("Now I write.", "do it")
    assert lines(first)[-1]["pending"][0]["agent"] == "writer"
    assert "sub-agent writer (log): Run: echo one" in agent(["pending"], work).stdout
    second = agent(["approve", "--output-format", "stream-json"], work)
    found = lines(first) + lines(second)
    asked = [x for x in found if x.get("subtype", "").startswith("approval_")]
    assert [x["subtype"] for x in asked] == ["approval_requested", "approval_requested", "approval_resolved"]
    assert {x["parent_tool_use_id"] for x in asked} == {"call-1-1"}
    assert (asked[-1]["decision"], asked[-1]["by"]) == ("approve", "user")


def test_sessions_of_other_projects_are_shown_and_decided(work: Path) -> None:
    suspend(work, [{"calls": [once("one")]}, {"text": "Ok."}])
    other = work.parent / "other"
    other.mkdir()
    (other / ".git").mkdir()
    assert "Nothing waits for you in this project" in agent(["pending"], other).stdout
    shown = agent(["pending", "--all"], other).stdout
    assert f"in {work}" in shown
    found = json.loads(agent(["pending", "--all", "--json"], other).stdout)
    assert found[0]["root"] == str(work)
    done = as_printed(printed(shown)[0], other)
    assert (done.returncode, done.stdout, log(work)) == (0, "Ok.\n", ["one"]), done.stderr


def test_an_answer_names_an_option_by_number_or_label(work: Path) -> None:
    for words in (["2"], ["right"], ["call-1-1", "2"]):
        suspend(work, [{"calls": [ASK]}, {"text": "Right it is.", "expect": "Which way? -> Right"}])
        done = agent(["answer", *words], work)
        assert (done.returncode, done.stdout) == (0, "Right it is.\n"), done.stderr


def test_the_id_of_a_session_is_never_an_answer(work: Path) -> None:
    suspend(work, [{"calls": [ASK]}, {"text": "Ok.", "expect": "Which way? -> Left"}])
    session = pending(work)[0]["session_id"]
    for words in ([session], [session[:8]], [session[:8], "call-1-1"], ["call-1-1"], [session[:8], " "]):
        done = agent(["answer", *words], work)
        assert done.returncode == 2, words
        assert f"agent answer {session[:8]} 1" in done.stderr
    for words in (["approve"], ["approve", "--all"], ["reject", "--undo"]):
        assert agent(words, work).returncode == 2, words
    strange = agent(["answer", "0" * 8 + session[8:]], work)
    assert strange.returncode == 2
    assert "No session matches" in strange.stderr
    wrong = agent(["answer", session[:8], "7"], work)
    assert wrong.returncode == 2
    assert "There is no option 7: choose 1 to 2" in wrong.stderr
    assert agent(["answer", session[:8], "1"], work).returncode == 0


def test_mode_and_comment_of_an_approved_call_are_honoured(work: Path) -> None:
    edit = {"calls": [call("Write", file_path="m.txt", content="x")], "expect": "be quick"}
    suspend(work, [{"calls": [call("Write", file_path="n.txt", content="x")]}, edit, {"text": "Ok."}])
    done = agent(["approve", "--mode", "acceptEdits", "--with", "be quick"], work)
    assert (done.returncode, done.stdout.strip()) == (0, "Ok."), done.stderr
    assert (work / "m.txt").exists()


THIRTY = "".join(f"line {n}\n" for n in range(30))
CHANGE = call(
    "MultiEdit",
    file_path="f.txt",
    edits=[{"old_string": f"line {n}\n", "new_string": f"new {n}\n"} for n in (3, 25)],
)
READ = {"calls": [call("Read", file_path="f.txt")]}


def test_an_approval_takes_hunks_rule_scope_and_comment(work: Path) -> None:
    (work / "f.txt").write_text(THIRTY)
    (work / ".agentrc").write_text("max_rounds = 9\n")
    again = call("Edit", file_path="f.txt", old_string="line 9\n", new_string="new 9\n")
    trust = ["--trust"]
    suspend(work, [READ, {"calls": [CHANGE]}, {"calls": [again], "expect": "said: mind it"}, {"text": "Ok."}], *trust)
    shown = agent(["pending"], work).stdout
    assert " (hunk 1)" in shown and " (hunk 2)" in shown
    rule = f"Edit(/{work}/f.txt)"
    assert f"rule {rule}" in shown
    done = agent(["approve", "--hunks", "2", "--rule", rule, "--scope", "project", "--with", "mind it"], work)
    assert (done.returncode, done.stdout) == (0, "Ok.\n"), done.stderr
    text = (work / "f.txt").read_text()
    assert ("new 3" in text, "new 25" in text, "new 9" in text) == (False, True, True)
    assert rule in (work / ".agentrc.local").read_text()


def test_a_rule_of_a_question_that_was_left_open_in_the_terminal_is_kept_in_the_project(work: Path) -> None:
    model = script(work / "s.toml", [{"calls": [call("Bash", command="touch made")]}, {"text": "Ok."}])
    left = agent(["--model", model, "do it"], work)
    assert len(pending(work)) == 1, left.stderr
    done = agent(["approve", "--rule", "Bash(touch made)", "--scope", "project"], work)
    assert (done.returncode, done.stdout) == (0, "Ok.\n"), done.stderr
    assert "not saved" not in done.stderr
    assert "Bash(touch made)" in (work / ".agentrc.local").read_text()


def test_an_approval_takes_arguments(work: Path) -> None:
    suspend(work, [{"calls": [once("one")]}, {"text": "Ok.", "expect": "said: two is better"}])
    arguments = json.dumps({"command": "echo two >> log"})
    first = agent(["approve", "--arguments", arguments, "--with", "two is better"], work)
    assert (first.returncode, log(work)) == (3, []), "what it does now has not been seen"
    assert "Run: echo two >> log" in first.stderr
    assert agent(["approve"], work).stdout == "Ok.\n"
    assert log(work) == ["two"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--rule", "Bash"], "rule: only the rules that the question offers can be added"),
        (["--scope", "project"], "scope: there is no rule"),
        (["--scope", "ever"], "ever is not one of session, project"),
        (["--hunks", "3"], "hunks: this change has 2"),
        (["--hunks", "0"], "expected the numbers of hunks from 1"),
        (["--hunks", ""], "expected the numbers of hunks from 1"),
        (["--hunks", "1", "--arguments", "{}"], "hunks, arguments: a decision has one of them"),
        (["--arguments", "[]"], "expected a JSON object"),
        (["--mode", "fast"], "fast is not one of default"),
        (["--plan", "x"], "No such option: --plan"),
    ],
)
def test_what_cannot_be_honoured_is_refused_and_decides_nothing(work: Path, options: list[str], why: str) -> None:
    (work / "f.txt").write_text(THIRTY)
    suspend(work, [READ, {"calls": [CHANGE]}, {"text": "Ok."}])
    refused = agent(["approve", *options], work)
    assert refused.returncode == 2
    assert why in " ".join(refused.stderr.split())
    assert (work / "f.txt").read_text() == THIRTY
    assert len(pending(work)) == 1


def test_fields_of_a_call_are_refused_for_a_plan_and_for_several_calls(work: Path) -> None:
    plan_run(work, {"text": "Ok."})
    for options, name in ((["--rule", "x"], "rule"), (["--hunks", "1"], "hunks"), (["--arguments", "{}"], "arguments")):
        refused = agent(["approve", "--mode", "acceptEdits", *options], work)
        assert refused.returncode == 2
        assert f"{name}: approve for a plan does not take that" in refused.stderr
    agent(["reject"], work)
    suspend(work, [{"calls": [once("one"), once("two")]}, {"text": "Ok."}])
    refused = agent(["approve", "--all", "--hunks", "1"], work)
    assert refused.returncode == 2
    assert "Hunks and arguments belong to one call" in refused.stderr
    assert log(work) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
def test_bypass_permissions_is_checked_as_at_a_start(work: Path) -> None:
    plan_run(work, {"calls": [call("Bash", command="touch made")]}, {"text": "Made."})
    command = ["approve", "--mode", "bypassPermissions"]
    contained = any(Path(p).exists() for p in ("/.dockerenv", "/run/.containerenv"))
    refused = agent(command, work)
    if not contained:
        assert refused.returncode == 2
        assert "bypassPermissions is refused for root" in refused.stderr
        assert pending(work)
        refused = agent(command, work, {"IS_SANDBOX": "1"})
    assert refused.returncode == 0, refused.stderr
    assert (work / "made").exists()


def test_a_deny_rule_added_meanwhile_counts(work: Path) -> None:
    suspend(work, [{"calls": [once("one")]}, {"text": "Denied.", "expect": "Permission was denied"}])
    (work.parent / "home" / ".agentrc").write_text('[permissions]\ndeny = ["Bash(echo:*)"]\n')
    done = agent(["approve", "--output-format", "json"], work)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["permission_denials"][0]["rule"] == "Bash(echo:*)"
    assert log(work) == []


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_a_message_to_a_session_that_waits_is_reported_to_be_unsent(work: Path, form: str) -> None:
    suspend(work, [{"calls": [once("one")]}, {"text": "Ok."}])
    model = f"scripted:{work / 's.toml'}"
    done = agent(["-p", "-c", "--model", model, "--output-format", form, "more"], work)
    assert done.returncode == 3
    assert "The message was not sent: this session waits for your decision." in done.stderr
    if form == "text":
        assert done.stdout == ""
        return
    result = json.loads(done.stdout)
    assert (result["type"], result["outcome"], result["message_sent"]) == ("result", "suspended", False)
    assert result["pending"][0]["call_id"] == "call-1-1"


def test_suspending_needs_a_saved_session(work: Path) -> None:
    model = script(work / "s.toml", [{"calls": [once("one")]}])
    done = agent(["-p", "--model", model, "--on-ask", "suspend", "--no-session-persistence", "q"], work)
    assert done.returncode == 2
    assert "--on-ask suspend needs a saved session" in done.stderr
    assert not (work.parent / "home" / "state" / "sessions").exists()


def test_a_copy_of_a_session_that_waits_does_not_become_the_latest(work: Path) -> None:
    suspend(work, [{"calls": [once("one")]}, {"text": "Ok."}])
    model = f"scripted:{work / 's.toml'}"
    done = agent(["-p", "-c", "--fork-session", "--model", model, "more"], work)
    assert done.returncode == 3
    assert "The message was not sent" in done.stderr
    assert len(json.loads(agent(["sessions", "list", "--json"], work).stdout)) == 1
    assert agent(["approve"], work).stdout == "Ok.\n"


def test_the_start_and_the_output_of_an_approved_call_are_streamed(work: Path) -> None:
    suspend(work, [{"calls": [call("Bash", command="echo hello; echo x > made")]}, {"text": "Ok."}])
    found = lines(agent(["approve", "--output-format", "stream-json"], work))
    kinds = [x.get("subtype", x["type"]) for x in found]
    order = ["approval_requested", "approval_resolved", "tool_started", "tool_progress", "user", "assistant"]
    assert [k for k in kinds if k in order] == order
    progress = next(x for x in found if x.get("subtype") == "tool_progress")
    assert (progress["tool_use_id"], progress["content"].strip()) == ("call-1-1", "hello")
    assert progress["parent_tool_use_id"] is None


def test_the_usage_by_model_is_of_the_whole_turn(work: Path) -> None:
    replies = [
        {"calls": [once("one")], "usage": {"input": 100, "output": 10}},
        {"calls": [once("two")], "usage": {"input": 200, "output": 20}},
        {"text": "Ok.", "usage": {"input": 300, "output": 30}},
    ]
    done = suspend(work, replies, "--output-format", "json")
    used = [json.loads(done.stdout)["modelUsage"]]
    for _ in range(2):
        used.append(json.loads(agent(["approve", "--output-format", "json"], work).stdout)["modelUsage"])
    tokens = [next(iter(u.values())) for u in used]
    first, _, last = ((t["inputTokens"], t["outputTokens"]) for t in tokens)
    assert first[0] * 3 < last[0]
    assert first[1] * 2 < last[1]


def test_the_printed_id_names_one_session(work: Path) -> None:
    model = script(work / "s.toml", [{"calls": [once("one")]}, {"text": "Ok."}])
    for last in "12":
        run = [
            "-p",
            "--model",
            model,
            "--on-ask",
            "suspend",
            "--session-id",
            f"00000000-0000-4000-8000-00000000000{last}",
        ]
        done = agent([*run, "do it"], work)
        assert done.returncode == 3, done.stderr
    assert "2 sessions begin with 00000000" in agent(["approve", "00000000"], work).stderr
    assert as_printed(printed(done.stderr)[0], work).returncode == 0
    assert [s["session_id"][-1] for s in pending(work)] == ["1"]

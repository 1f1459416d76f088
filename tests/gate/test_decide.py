"""`agent gate decide`: the hooks of other programs get the decision of the rules, or the user's."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.gate_hooks import (
    EDIT,
    HOSTS,
    LABELS,
    READ,
    WaitingHook,
    bash,
    begin,
    decide,
    pending,
    sent,
    verdict,
)
from tests.support.program import agent
from tests.support.waiting import soon

ANSWERS = {
    "claude": {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "{}",
                                      "permissionDecisionReason": "{}"}},
    "codex": {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "{}",
                                     "permissionDecisionReason": "{}"}},
    "copilot": {"permissionDecision": "{}", "permissionDecisionReason": "{}"},
    "gemini": {"decision": "{}", "reason": "{}"},
    "qwen": {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "{}",
                                    "permissionDecisionReason": "{}"}},
}  # fmt: skip


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "d").mkdir()
    (folder / "d/x").write_text("x\n")
    return folder


def rules(work: Path, text: str) -> None:
    home = work.parent / "home"
    home.mkdir(exist_ok=True)
    (home / ".agentrc").write_text(f"[permissions]\n{text}\n")


@pytest.mark.parametrize("host", HOSTS)
def test_what_needs_no_approval_is_allowed_at_once(work: Path, host: str) -> None:
    done = decide(work, host, sent(host, "before", work, READ[host]))
    assert (done.returncode, done.stderr) == (0, "")
    assert verdict(host, done.stdout)[0] == "allow"
    assert not (work.parent / "home/state/sessions").exists()  # nothing is recorded of what only reads


@pytest.mark.parametrize("host", HOSTS)
def test_a_deny_rule_refuses_in_the_form_of_the_program(work: Path, host: str) -> None:
    rules(work, "deny = ['Bash(rm:*)']")
    done = decide(work, host, sent(host, "before", work, bash(host, "ls && rm -r d")))
    why = f"agent gate: this call is denied by Bash(rm:*) ({work.parent}/home/.agentrc:2)."
    shape = json.dumps(ANSWERS[host]).replace('"{}"', '"deny"', 1).replace('"{}"', json.dumps(why), 1)
    assert json.loads(done.stdout) == json.loads(shape)
    assert done.returncode == 0


@pytest.mark.parametrize("host", HOSTS)
def test_a_question_waits_for_another_terminal_and_undo_reverts_the_turn(work: Path, host: str) -> None:
    begin(work, host)
    hook = WaitingHook(work, host, sent(host, "before", work, EDIT[host]))
    (found,) = pending(work)
    (item,) = found["pending"]
    assert (found["host"], item["request"]) == (LABELS[host], "tidy up")
    assert "+2" in item["preview"]["patch"]
    listed = agent(["pending"], work).stdout
    assert f"of {LABELS[host]}" in listed
    done = agent(["approve", found["session_id"][:8], "--with", "and test it"], work)
    assert done.stdout == f"Approved: {LABELS[host]} goes on.\n"
    out, _ = hook.process.communicate(timeout=60)
    assert verdict(host, out.decode() if host != "codex" else "")[0] == "allow"
    (work / "a.txt").write_text("one\n2\n")
    after = decide(work, host, sent(host, "after", work, EDIT[host])).stdout
    assert "and test it" in (after if host == "gemini" else out.decode())
    assert decide(work, host, sent(host, "end", work)).stdout == ""
    assert not pending(work)
    assert f"1 file modified: {LABELS[host]}: tidy up" in agent(["undo", "--list"], work).stdout
    assert agent(["undo", "--yes"], work).returncode == 0
    assert (work / "a.txt").read_text() == "one\ntwo\n"


def test_a_refusal_has_the_words_of_the_user(work: Path) -> None:
    hook = WaitingHook(work, "claude", sent("claude", "before", work, bash("claude", "rm -r d")))
    facts = pending(work)[0]["pending"][0]["facts"]
    assert any("deletes 1 file" in fact for fact in facts)
    agent(["reject", "--why", "keep it"], work)
    assert hook.end() == ("deny", "The user refused this call: keep it")
    assert "keep it" in agent(["show"], work).stdout


def test_a_call_that_nobody_answers_is_refused_in_time(work: Path) -> None:
    done = decide(work, "qwen", sent("qwen", "before", work, bash("qwen", "rm -r d")), "--wait", "1")
    assert verdict("qwen", done.stdout) == (
        "deny", "Nobody answered in time, so the call is refused. See: agent pending"
    )  # fmt: skip
    assert not pending(work)
    assert "does not wait for you" in agent(["approve", session_id(work)], work).stderr


def session_id(work: Path) -> str:
    (log,) = (work.parent / "home/state/sessions").glob("*/*.jsonl")
    return log.stem


@pytest.mark.parametrize("how", ["ended", "killed", "reader"])
def test_a_hook_that_is_gone_waits_no_more(work: Path, how: str) -> None:
    hook = WaitingHook(work, "claude", sent("claude", "before", work, bash("claude", "rm -r d")))
    if how == "reader":
        assert hook.process.stdout is not None
        hook.process.stdout.close()
        hook.process.stdout = None
    else:
        hook.process.send_signal(signal.SIGTERM if how == "ended" else signal.SIGKILL)
    hook.process.communicate(timeout=60)
    assert soon(lambda: not pending(work), 60)
    assert agent(["approve", session_id(work)], work).returncode == 2


def test_an_always_holds_for_the_session_and_the_project(work: Path) -> None:
    for scope, command in (("session", "touch b"), ("project", "touch c")):
        hook = WaitingHook(work, "claude", sent("claude", "before", work, bash("claude", command)))
        item = pending(work)[0]["pending"][0]
        done = agent(["approve", "--rule", item["rule"], "--scope", scope], work)
        assert done.returncode == 0, done.stderr
        assert hook.end()[0] == "allow"
        again = decide(work, "claude", sent("claude", "before", work, bash("claude", command)), "--wait", "1")
        assert verdict("claude", again.stdout)[0] == "allow"
    assert "Bash(touch c)" in (work / ".agentrc.local").read_text()
    other = sent("codex", "before", work, bash("codex", "touch c"))
    assert verdict("codex", decide(work, "codex", other, "--wait", "1").stdout)[0] == "allow"


@pytest.mark.parametrize("words", [["--hunks", "1"], ["--mode", "acceptEdits"], ["--arguments", '{"command": "ls"}']])
def test_a_decision_that_the_program_cannot_carry_out_is_refused(work: Path, words: list[str]) -> None:
    hook = WaitingHook(work, "claude", sent("claude", "before", work, bash("claude", "rm -r d")))
    done = agent(["approve", *words], work)
    assert done.returncode == 2
    assert "Claude Code cannot run another call" in done.stderr
    assert agent(["reject"], work).returncode == 0
    assert hook.end()[0] == "deny"


def test_an_approval_does_not_hold_for_files_that_have_changed_since(work: Path) -> None:
    hook = WaitingHook(work, "claude", sent("claude", "before", work, EDIT["claude"]))
    (work / "a.txt").write_text("one\ntwo\nthree\n")
    agent(["approve"], work)
    assert hook.end() == ("deny", "A file that the user was shown has changed since. Make the call again.")


def test_a_tool_that_is_not_known_is_asked_about(work: Path) -> None:
    call = ("mcp__tracker__close", {"issue": 7})
    hook = WaitingHook(work, "claude", sent("claude", "before", work, call))
    item = pending(work)[0]["pending"][0]
    assert (item["tool"], item["summary"]) == ("mcp__tracker__close", 'mcp__tracker__close {"issue": 7}')
    agent(["approve"], work)
    assert hook.end()[0] == "allow"
    rules(work, "allow = ['mcp__tracker__close']")
    done = decide(work, "claude", sent("claude", "before", work, call), "--wait", "1")
    assert verdict("claude", done.stdout)[0] == "allow"
    todo = sent("claude", "before", work, ("TodoWrite", {"todos": []}))
    assert verdict("claude", decide(work, "claude", todo, "--wait", "1").stdout)[0] == "allow"


def test_another_folder_is_outside_although_the_program_is_in_it(work: Path) -> None:
    begin(work, "codex")
    elsewhere = work.parent / "elsewhere"
    elsewhere.mkdir()
    done = decide(work, "codex", sent("codex", "before", elsewhere, bash("codex", "ls")), "--wait", "1")
    assert verdict("codex", done.stdout)[0] == "deny"


@pytest.mark.parametrize("text", ["", "no json", "[]", "{}", '{"session_id": "s", "hook_event_name": "Other"}'])
def test_an_input_that_is_not_understood_refuses(work: Path, text: str) -> None:
    done = decide(work, "claude", text)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("agent gate could not decide this call, so it is refused: ")


def test_an_error_refuses_in_the_form_of_the_program(work: Path) -> None:
    rules(work, "allow = ['Bash(']")
    done = decide(work, "gemini", sent("gemini", "before", work, READ["gemini"]))
    found, reason = verdict("gemini", done.stdout)
    assert (done.returncode, found) == (0, "deny")
    assert reason.startswith("agent gate could not decide this call, so it is refused: ")


def test_codex_is_answered_when_it_would_ask_itself(work: Path) -> None:
    call = bash("codex", "rm -r d")
    assert decide(work, "codex", sent("codex", "ask", work, call)).stdout == ""
    hook = WaitingHook(work, "codex", sent("codex", "before", work, call))
    agent(["approve"], work)
    assert hook.end()[0] == "allow"
    data = json.loads(decide(work, "codex", sent("codex", "ask", work, call)).stdout)
    wanted = {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}
    assert data["hookSpecificOutput"] == wanted


def test_such_a_session_is_not_continued_here(work: Path) -> None:
    begin(work, "claude")
    done = agent(["-p", "-c", "hello"], work)
    assert "There is no earlier session" in done.stderr
    done = agent(["-p", "--resume", session_id(work), "hello"], work)
    assert "is one of Claude Code, which only asks here" in done.stderr
    assert "Claude Code" in agent(["sessions", "list"], work).stdout


def test_turns_whose_calls_report_no_end_are_undone(work: Path) -> None:
    rules(work, "allow = ['Bash(rm:*)', 'Edit']")
    begin(work, "codex")
    for number, command in enumerate(("rm -r d", "echo 3 > b.txt"), 1):
        done = decide(work, "codex", sent("codex", "before", work, bash("codex", command), number))
        assert done.stdout == ""
        subprocess.run(["sh", "-c", command], cwd=work, check=True)
    decide(work, "codex", sent("codex", "end", work))
    assert agent(["undo", "--yes"], work).returncode == 0
    assert sorted(path.name for path in work.iterdir()) == ["a.txt", "d"]
    assert (work / "d/x").read_text() == "x\n"

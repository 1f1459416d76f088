"""Turns that a killed process left: approved calls that were not carried out, calls that had begun, and their ends."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_cli.cli import decide_calls
from agent_cli.cli.run_options import RunOptions
from agent_cli.config.config import Config
from agent_cli.kernel.decisions import defer, deny
from agent_cli.kernel.runtime import builder
from agent_cli.kernel.runtime.environment import find_environment
from agent_cli.kernel.runtime.session import Session
from agent_cli.kernel.session.files import encode_record
from agent_cli.kernel.session.store import StoredSession
from tests.support.fork_server import start
from tests.support.program import agent, clean_env
from tests.support.scripts import call, script
from tests.support.suspended_runs import log, once, pending, suspend


def fifo(path: Path) -> str:
    os.mkfifo(path)
    return str(path)


def started(work: Path, *args: str, **env: str) -> subprocess.Popen[bytes]:
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return start(args, work, clean_env(work.parent / "home", **env), **streams)


def suspend_with_hook(work: Path, replies: list[dict[str, Any]]) -> None:
    """Suspend a turn, with a hook that holds what continues it for as long as there is a pipe."""
    home = work.parent / "home"
    home.mkdir(exist_ok=True)
    pipe = work.parent / "reached"
    hook = f"if [ -p {pipe} ]; then echo > {pipe}; exec sleep 100; fi"
    (home / ".agentrc").write_text(f'[[hooks]]\nevent = "SessionStart"\ncommand = "{hook}"\n')
    suspend(work, replies)


def approve_and_kill(work: Path) -> None:
    """`agent approve`, killed between the decision and the call: in a hook that runs when the turn continues."""
    pipe = Path(fifo(work.parent / "reached"))
    run = started(work, "approve")
    pipe.read_text()
    run.kill()
    run.communicate()
    pipe.unlink()


TWO = [{"text": "First.", "calls": [once("one"), once("two")]}, {"text": "Done.", "expect": "exit code 0"}]


@pytest.mark.parametrize("command", ["approve", "resume"])
def test_an_approved_call_that_was_not_carried_out_is_listed_named_and_carried_out(work: Path, command: str) -> None:
    suspend_with_hook(work, [{"calls": [once("one")]}, {"text": "Done.", "expect": "exit code 0"}])
    approve_and_kill(work)
    assert log(work) == []
    [session] = pending(work)
    assert [i["decided"] for i in session["pending"]] == ["approved, not run"]
    listed = agent(["pending"], work).stdout
    assert "Run: echo one >> log (call-1-1, approved, not run)" in listed
    assert "> agent resume" in listed
    assert "approved by you, not run" in agent(["show"], work).stdout
    [line] = json.loads(agent(["sessions", "list", "--json"], work).stdout)
    assert line["stage"] == "interrupted"
    words = agent(["-c", "-p", "something else"], work)
    assert words.returncode == 3
    assert "decided: Run: echo one >> log (call-1-1, approved, not run)" in words.stderr
    assert "agent resume" in words.stderr
    assert log(work) == []
    done = agent([command, "--output-format", "json"], work)
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["result"], json.loads(done.stdout)["num_turns"]) == ("Done.", 2)
    assert log(work) == ["one"]
    assert pending(work) == []


def test_what_was_approved_can_still_be_rejected(work: Path) -> None:
    suspend_with_hook(work, [{"calls": [once("one")]}, {"text": "As you say.", "expect": "better not"}])
    approve_and_kill(work)
    done = agent(["reject", "--why", "better not"], work)
    assert (done.returncode, done.stdout) == (0, "As you say.\n"), done.stderr
    assert log(work) == []


def test_what_was_approved_can_be_approved_with_more(work: Path) -> None:
    touch = call("Bash", command="touch made")
    suspend_with_hook(work, [{"calls": [touch]}, {"text": "Done.", "expect": "said: be quick"}])
    approve_and_kill(work)
    refused = agent(["approve", "--rule", "Bash"], work)
    assert refused.returncode == 2 and "Bash(touch made)" in refused.stderr
    rule = ["--rule", "Bash(touch made)", "--scope", "project"]
    done = agent(["approve", "--with", "be quick", *rule], work)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert "Bash(touch made)" in (work / ".agentrc.local").read_text()


def test_what_has_changed_since_it_was_approved_is_asked_again(work: Path) -> None:
    edit = call("Edit", file_path="a.txt", old_string="world", new_string="you")
    suspend_with_hook(work, [{"calls": [call("Read", file_path="a.txt"), edit]}, {"text": "Done."}])
    approve_and_kill(work)
    (work / "a.txt").write_text("hello world, and more\n")
    agent(["resume"], work)
    assert (work / "a.txt").read_text() == "hello world, and more\n"


def test_a_call_that_had_begun_does_not_run_a_second_time(work: Path) -> None:
    begun = fifo(work.parent / "begun")
    command = f"echo one >> log; echo > {begun}; sleep 100"
    replies = [{"calls": [call("Bash", command=command)]}, {"text": "Looked.", "expect": "may have run in part"}]
    suspend(work, replies)
    run = started(work, "approve")
    Path(begun).read_text()
    assert pending(work) == []
    run.kill()
    run.communicate()
    assert pending(work) == []
    assert agent(["approve"], work).returncode == 2
    done = agent(["resume", "--output-format", "json"], work)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["num_turns"] == 2
    assert log(work) == ["one"]
    assert agent(["resume"], work).returncode == 2


def test_a_turn_without_open_calls_is_resumed_with_what_is_left_of_its_bounds(work: Path) -> None:
    begun = fifo(work.parent / "begun")
    replies = [
        {"calls": [call("Read", file_path="a.txt")]},
        {"calls": [call("Bash", command=f"echo > {begun}; sleep 100")]},
        {"calls": [call("Read", file_path="a.txt")]},
        {"text": "Cut."},
    ]
    model = script(work / "s.toml", replies)
    run = started(work, "-p", "--model", model, "--allowedTools", "Bash", "--max-turns", "3", "please")
    Path(begun).read_text()
    run.kill()
    run.communicate()
    done = agent(["resume", "--output-format", "json"], work)
    assert done.returncode == 4, done.stderr
    assert json.loads(done.stdout)["num_turns"] == 3


def test_nothing_to_resume_is_reported(work: Path) -> None:
    assert agent(["resume"], work).returncode == 2
    agent(["-p", "--model", script(work / "s.toml", [{"text": "Done."}]), "q"], work)
    done = agent(["resume"], work)
    assert done.returncode == 2
    assert "nothing to resume" in done.stderr
    unknown = agent(["resume", "00000000"], work)
    assert unknown.returncode == 2


def test_a_session_that_waits_lists_what_is_undecided(work: Path) -> None:
    suspend(work, TWO)
    done = agent(["resume"], work)
    assert done.returncode == 3
    assert "waiting: Run: echo one >> log (call-1-1)" in done.stderr
    assert log(work) == []


def both(work: Path, first: list[str], second: list[str]) -> list[tuple[int, str]]:
    """Two commands at once: exit codes and standard errors."""
    runs = [started(work, *first), started(work, *second)]
    return [(run.wait(60), ((run.stderr and run.stderr.read()) or b"").decode()) for run in runs]


def test_two_approvals_at_once_both_count(work: Path) -> None:
    suspend(work, TWO)
    ended = both(work, ["approve", "call-1-1"], ["approve", "call-1-2"])
    assert sorted(code for code, _ in ended) == [0, 3], ended
    assert log(work) == ["one", "two"]


def test_a_second_approval_of_the_same_call_finds_it_decided(work: Path) -> None:
    suspend(work, [{"calls": [once("one")]}, {"text": "Done."}])
    ended = both(work, ["approve"], ["approve"])
    assert sorted(code for code, _ in ended) == [0, 2], ended
    assert log(work) == ["one"]
    refusal = next(text for code, text in ended if code == 2)
    assert "Nothing waits" in refusal or "has decided this in the meantime" in refusal
    assert "fork" not in refusal


def test_a_session_that_is_about_to_be_closed_is_waited_for(work: Path) -> None:
    begun, ends = fifo(work.parent / "begun"), fifo(work.parent / "ends")
    command = f"echo > {begun}; read line < {ends}"
    model = script(work / "s.toml", [{"calls": [call("Bash", command=command)]}, {"text": "Done."}, {"text": "More."}])
    run = started(work, "-p", "--model", model, "--allowedTools", "Bash", "please")
    Path(begun).read_text()
    second = started(work, "-p", "-c", "--model", model, "and more")
    assert second.stderr is not None
    assert b"Waiting for it." in second.stderr.readline()
    Path(ends).write_text("now\n")
    out, _ = second.communicate(timeout=60)
    assert (run.wait(60), second.returncode, out) == (0, 0, b"More.\n")


def test_what_came_up_while_a_decision_waited_for_the_lock_is_not_decided(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another process approves first, and the turn asks about the next call: this one was shown to nobody."""
    suspend(work, [{"calls": [once("one")]}, {"calls": [once("two")]}, {"text": "Done."}])
    for name, value in clean_env(work.parent / "home").items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(work)

    open_now = Session.open

    def reopened_later(*args: Any, **more: Any) -> Any:
        assert agent(["approve"], work).returncode == 3
        return open_now(*args, **more)

    monkeypatch.setattr(Session, "open", reopened_later)
    assert decide_calls.decide_calls((), decide_calls.PendingDecision(word="approve"), RunOptions()) == 3
    found = capsys.readouterr().err
    assert "Another process has decided this in the meantime" in found
    assert "waiting: Run: echo two >> log" in found
    assert log(work) == ["one"]


def test_an_approved_call_behind_one_that_was_killed_is_still_carried_out(work: Path) -> None:
    begun = fifo(work.parent / "begun")
    first = call("Bash", command=f"echo one >> log; echo > {begun}; sleep 60")
    suspend(work, [{"calls": [first, once("two")]}, {"text": "Done.", "expect": "exit code 0"}])
    run = started(work, "approve", "--all")
    Path(begun).read_text()
    run.kill()
    run.wait(60)
    [session] = json.loads(agent(["pending", "--json"], work).stdout)
    assert [(item["summary"], item["decided"]) for item in session["pending"]] == [
        ("Run: echo two >> log", "approved, not run")
    ]
    done = agent(["approve"], work)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert log(work) == ["one", "two"]


def test_a_reason_reaches_the_model_also_where_a_rule_denies_the_call_by_now(work: Path) -> None:
    suspend(work, [{"calls": [once("one")]}, {"text": "I see.", "expect": "said: not on a Friday"}])
    (work / ".agentrc").write_text('[permissions]\ndeny = ["Bash(echo:*)"]\n')
    done = agent(["reject", "--why", "not on a Friday"], work)
    assert (done.returncode, done.stdout) == (0, "I see.\n"), done.stderr


def test_a_waiting_session_is_not_copied_in_a_terminal(work: Path) -> None:
    suspend(work, [{"calls": [once("one")]}, {"text": "Done."}])
    done = agent(["--plain", "-c", "--fork-session"], work)
    assert done.returncode == 2
    assert "waits for your decision and cannot be copied" in done.stderr
    assert agent(["approve"], work).returncode == 0
    assert log(work) == ["one"]


def test_a_record_that_cannot_be_read_is_reported_of_once(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "one"}, {"text": "two"}, {"text": "three"}])
    assert agent(["-p", "--model", model, "1"], work).returncode == 0
    (log,) = (work.parent / "home").rglob("*.jsonl")
    lines = log.read_bytes().splitlines()
    changed = [n for n, line in enumerate(lines) if b'"type":"UsageAdded"' in line]
    for n in changed:
        record = json.loads(lines[n])
        del record["crc"]
        record["data"]["usage"]["input"] = 1.5
        lines[n] = encode_record(record)
    log.write_bytes(b"".join(line + b"\n" for line in lines))
    assert changed and "damaged" in agent(["-p", "-c", "2"], work).stderr
    again = agent(["-p", "-c", "3"], work)
    assert again.stdout == "three\n" and "damaged" not in again.stderr, again.stderr


def test_a_waiting_session_is_read_once_and_built_once(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suspend(work, [{"calls": [once("one")]}, {"text": "Done."}])
    for name, value in clean_env(work.parent / "home").items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(work)
    counts = {"read": 0, "built": 0}

    def counting(name: str, function: Any) -> Any:
        def counted(*args: Any, **more: Any) -> Any:
            counts[name] += 1
            return function(*args, **more)

        return counted

    monkeypatch.setattr(StoredSession, "load", counting("read", StoredSession.load))
    monkeypatch.setattr(builder, "make_context", counting("built", builder.make_context))
    run_env, config = find_environment(os.environ), Config(latest=True)
    agent = Session.open(config, run_env, lambda on_ask: (deny, defer), print, as_saved="waiting", attended=True)
    try:
        assert agent.restored is not None
        assert agent.restored.waiting is not None
        assert agent.suspended
        assert counts == {"read": 1, "built": 1}
    finally:
        agent.close()


def test_a_rule_that_was_allowed_with_a_call_holds_in_the_processes_that_resume_the_turn(work: Path) -> None:
    other = {"calls": [call("Bash", command="mkdir x")]}
    suspend(work, [{"calls": [once("one")]}, other, {"calls": [once("one")]}, {"text": "Done."}])
    rule = pending(work)[0]["pending"][0]["rule"]
    assert agent(["approve", "--rule", rule], work).returncode == 3
    done = agent(["approve"], work)
    assert done.returncode == 0, done.stderr
    assert log(work) == ["one", "one"] and (work / "x").is_dir()

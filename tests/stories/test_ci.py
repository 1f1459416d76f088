"""A night in CI: runs that wait, decisions from other processes, a rule that is added meanwhile, kills, accounts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from agent_cli.kernel.results import Usage
from tests.support.model_replies import Call
from tests.support.program import clean_env
from tests.support.stories.day import Day, story
from tests.support.stories.headless import Headless
from tests.support.stories.model import bash, edit, read, refuses, says, write

HEADLESS = ("headless",)
COST = Usage(input=100, output=10, cost=0.01)


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def result_of(text: str) -> dict[str, Any]:
    return lines_of(text)[-1]


@story(fronts=HEADLESS, faults=("headless-connection", "headless-clock"))
def test_a_run_waits_and_is_decided_by_several(day: Day) -> None:
    day.repository(version__txt="1.0\n", begin__sh="echo began >> ../log\n")
    day.settings('[[hooks]]\nevent = "Notification"\ncommand = "touch ../notified"\n')
    day.model.will(
        says("I look.", read("version.txt"), bash("sh begin.sh"), usage=COST),
        says("Two things.", edit("version.txt", "1.0", "1.1"), bash("git tag v1.1"), usage=COST, sees="exit code 0"),
    )
    flags = ("--on-ask", "suspend", "--allowedTools", "Bash(sh begin.sh)", "--output-format", "stream-json")
    day.begin("release 1.1", *flags)
    day.front.settled()
    first = lines_of(day.front.text)
    assert first[-1]["outcome"] == "suspended" and first[-1]["subtype"] != "success"
    assert (day.base / "log").read_text() == "began\n"

    [waiting] = json.loads(day.agent("pending", "--json"))
    assert [item["summary"] for item in waiting["pending"]] == ["Edit version.txt (+1 -1)", "Run: git tag v1.1"]
    change, tag = (item["call_id"] for item in waiting["pending"])
    day.inject_fault()
    day.agent("approve", change, code=3)
    assert day.text("version.txt") == "1.0\n"
    # What is refused meanwhile is refused.
    day.file(".agentrc", '[permissions]\ndeny = ["Bash(git tag:*)", "Bash(git push:*)"]\n')
    day.model.will(
        says("Then I say it.", write("notes.md", "- 1.1\n"), usage=COST, sees=("not on a Friday", "version.txt")),
        says("Changed, not tagged.", usage=COST),
    )
    day.agent("reject", tag, "--why", "not on a Friday", code=3)
    assert day.text("version.txt") == "1.1\n"
    assert day.git("tag") == ""
    # Whose question it is is found without an ID, in a process of its own.
    last = day.agent("approve", "--output-format", "stream-json", code=0)
    found = lines_of(last)
    assert any(line["type"] == "user" for line in found), "the call itself is streamed"
    final = found[-1]
    assert (final["result"], final["outcome"]) == ("Changed, not tagged.", "done")
    # The account is of the whole turn: what came before the pauses counts.
    assert (final["num_turns"], final["num_tool_calls"]) == (4, 5)
    # Of an answer that broke off, what it has used is estimated.
    used = final["usage"]["input_tokens"]
    assert used > 400 if day.fault == "connection" else used == 400
    assert abs(final["total_cost_usd"] - 0.04) < 1e-9
    assert "Nothing waits" in day.agent("pending")
    day.agent("approve", code=2)

    day.model.will(
        says("I push.", bash("git push -q"), sees="now push"),
        says("That is denied here.", sees="denied"),
    )
    day.say("now push")
    day.front.settled()
    assert result_of(day.front.text)["permission_denials"][0]["by"] == "rule"
    assert "Restored 2 files" in day.agent("undo", "--yes")
    assert day.text("version.txt") == "1.0\n"
    assert not (day.work / "notes.md").exists()


@story(fronts=HEADLESS)
def test_what_was_approved_is_carried_out_after_a_kill(day: Day) -> None:
    day.repository(a__txt="a\n")
    day.file("slow.sh", "echo one >> log\necho $$ > ../pid\nexec sleep 60\n")
    day.model.will(says("Both.", bash("sh slow.sh"), bash("echo two >> log")))
    day.begin("do both")
    day.asked("sh slow.sh", "echo two >> log")
    front = day.front
    assert isinstance(front, Headless)
    front.start(["approve", "--all"])
    pid = day.base / "pid"
    day.until(lambda: pid.exists() and pid.read_text().strip(), "the command")
    front.kill()
    # Nothing runs on behind the user's back.
    day.until(lambda: int(pid.read_text()) not in day.processes(), "the end of the command")
    assert day.text("log") == "one\n"
    shown = day.agent("pending")
    assert "echo two >> log" in shown and "approved, not run" in shown
    day.model.will(says("One broke off, two is there.", sees=("Interrupted: the program ended", "exit code 0")))
    done = day.agent("approve", "--output-format", "json")
    assert result_of(done)["result"] == "One broke off, two is there."
    assert day.text("log") == "one\ntwo\n"
    assert "Nothing waits" in day.agent("pending")


@story(fronts=HEADLESS)
def test_two_approve_at_once_and_the_provider_is_down_afterwards(day: Day) -> None:
    day.repository(a__txt="a\n")
    day.env["AGENT_RETRIES"] = "0"
    day.model.will(says("I mark.", bash("echo marked >> log")), says("And again?", bash("echo again >> log")))
    day.begin("mark it once")
    day.asked("echo marked >> log")
    env = clean_env(day.home, **day.env)
    command = [sys.executable, "-m", "agent_cli", "approve"]
    both = [subprocess.Popen(command, cwd=day.work, env=env, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    lines = [process.communicate(timeout=30)[1] for process in both]
    codes = sorted(process.returncode for process in both)
    assert day.text("log").startswith("marked\n") and day.text("log").count("marked") == 1
    # The one that came second has found the next question, or nothing to decide; no advice to fork.
    assert codes[0] in (0, 2, 3) and "fork" not in "".join(lines), (codes, lines)


@story(fronts=HEADLESS)
def test_a_loop_that_tries_again_does_nothing_twice(day: Day) -> None:
    """The retry loop of the documentation, over a pause and a provider that fails behind it."""
    day.repository(mark__sh="echo marked >> log\n")
    day.env["AGENT_RETRIES"] = "0"
    day.model.will(says("I mark.", bash("sh mark.sh"), bash("touch asked")))
    day.begin("mark it", "--allowedTools", "Bash(sh mark.sh)")
    day.asked("touch asked")
    day.model.will(refuses(503, "down"))
    code = subprocess.run(
        [sys.executable, "-m", "agent_cli", "reject", "--why", "no", "--output-format", "json"],
        cwd=day.work, env=clean_env(day.home, **day.env), capture_output=True, check=False,
    ).returncode  # fmt: skip
    # A tool ran before the pause, so that it is not worth trying again from the start.
    assert code != 75
    assert day.text("log") == "marked\n"
    assert not (day.work / "asked").exists()


@story(fronts=HEADLESS)
def test_limits_are_reported_and_can_be_gone_on_from(day: Day) -> None:
    day.repository(a__txt="a\n")
    # A price that is not known, and that the server does not report either, cannot be kept.
    day.model.will(says("Hi."))
    refused = day.agent("-p", "--max-budget-usd", "1", "hi", code=2)
    assert "price" in refused or "cost" in refused
    # An answer that was cut is said to be so.
    cut = '{"file_path": "big.txt", "content": "aaaaaaa'
    day.model.will(
        says("A big file.", Call("Write", cut), stop="max_tokens"),
        says("In parts then.", write("big.txt", "a\n"), sees="Your answer was cut at"),
        says("Writ", stop="max_tokens"),
        says("ten.", sees="cut at the token limit"),
    )
    day.begin("write a big file", "--permission-mode", "acceptEdits", "--output-format", "json")
    day.front.settled()
    result = result_of(day.front.text)
    assert "ten." in result["result"]
    assert day.text("big.txt") == "a\n"
    # Nothing at all is an error.
    day.model.will(says(""), says(""))
    day.say("and?")
    day.front.settled()
    front = day.front
    assert isinstance(front, Headless)
    assert front.codes[-1] == 1
    assert result_of(front.text)["is_error"] is True
    # The same call again and again is noticed.
    for _ in range(60):
        day.model.will(says("", read("a.txt")))
    day.say("read it")
    day.front.settled()
    assert len(day.model.lines) > 10, "it was stopped"
    day.model.lines.clear()
    assert "repetition" in day.front.text
    # And what takes too long is ended in the middle.
    day.flags += ["--settings", "max_seconds = 1.5", "--allowedTools", "Bash(sleep:*)"]
    day.model.will(says("I wait.", bash("sleep 50")), says("It stands there."))
    day.say("wait")
    day.front.settled()
    assert front.codes[-1] == 4
    day.model.lines.clear()

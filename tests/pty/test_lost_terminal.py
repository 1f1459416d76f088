"""A question is open when the terminal goes or the process is killed: it waits, is listed, and is asked again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import agent
from tests.support.pty_screen import Drawn
from tests.support.pty_session import Terminal
from tests.support.scripts import call, script

ENDS = ("kill", "hang_up")
# The title of the question about a command, in lines and on the screen.
ASKED, DRAWN = "Run a command", "Run this command?"
FIRST = {"text": "First.", "calls": [call("Read", file_path="a.txt"), call("Bash", command="echo one >> log")]}
PLAN = {"calls": [call("ExitPlanMode", plan="Look, and change it.")]}
QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "Red", "description": ""}, {"label": "Blue", "description": ""}],
    "multiSelect": False,
}
ASK = {"calls": [call("AskUserQuestion", questions=[QUESTION])]}


def log(work: Path) -> list[str]:
    return (work / "log").read_text().split() if (work / "log").exists() else []


def pending(work: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(agent(["pending", "--json"], work).stdout)
    return found


def summaries(work: Path) -> list[str]:
    return [item["summary"] for session in pending(work) for item in session["pending"]]


def lose_in_lines(work: Path, how: str, asked: str, *args: str, **env: str) -> None:
    """Begin in lines, and lose the terminal when `asked` is on it."""
    terminal = Terminal([*args, "please"], work, **env)
    terminal.expect(asked)
    getattr(terminal, how)()


def lose_drawn(work: Path, how: str, asked: str, *args: str, **env: str) -> None:
    """Begin in the application, and lose the terminal when `asked` is on it."""
    with Drawn([*args, "please"], work, **env) as screen:
        screen.wait(DRAWN if asked == ASKED else asked)
        getattr(screen, how)()


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("lose", [lose_in_lines, lose_drawn])
def test_an_open_question_is_listed_and_approved_from_elsewhere(work: Path, lose: Any, how: str) -> None:
    model = script(work / "s.toml", [FIRST, {"text": "Both done.", "expect": "exit code 0"}])
    lose(work, how, ASKED, "--model", model)
    assert log(work) == []
    assert summaries(work) == ["Run: echo one >> log"]
    done = agent(["approve", "--output-format", "json"], work)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["result"], result["num_turns"], result["num_tool_calls"]) == ("Both done.", 2, 2)
    assert log(work) == ["one"]
    assert pending(work) == []


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("lose", [lose_in_lines, lose_drawn])
def test_an_open_question_is_asked_again(work: Path, lose: Any, how: str) -> None:
    model = script(work / "s.toml", [FIRST, {"text": "Both done.", "expect": "exit code 0"}])
    lose(work, how, ASKED, "--model", model)
    again = Terminal(["--model", model, "-c"], work)
    again.expect(ASKED)
    again.expect("echo one >> log")
    again.expect("Allow?")
    again.type("y")
    again.expect("Both done.")
    again.leave()
    assert log(work) == ["one"]


@pytest.mark.parametrize("how", ENDS)
def test_it_is_asked_again_in_the_application(work: Path, how: str) -> None:
    model = script(work / "s.toml", [FIRST, {"text": "Both done.", "expect": "exit code 0"}])
    lose_drawn(work, how, ASKED, "--model", model)
    with Drawn(["--model", model, "-c"], work) as screen:
        screen.wait(DRAWN)
        screen.wait("  echo one >> log\n")
        screen.rest()
        screen.type("y")
        screen.wait("Both done.")
        screen.leave()
    assert log(work) == ["one"]


def test_flags_given_on_resuming_replace_what_the_turn_began_with(work: Path) -> None:
    lose_in_lines(work, "hang_up", ASKED, "--model", script(work / "s.toml", [FIRST]))
    other = script(work / "other.toml", [{"text": "By the other."}, {"text": "Still the other."}])
    again = Terminal(["-c", "--model", other], work)
    again.expect("Allow?")
    again.type("y")
    again.expect("By the other.")
    again.type("and now?")
    again.expect("Still the other.")
    again.leave()
    assert log(work) == ["one"]


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("lose", [lose_in_lines, lose_drawn])
def test_a_plan_and_a_question_of_the_model_wait_too(work: Path, lose: Any, how: str) -> None:
    replies = [ASK, PLAN, {"text": "Done."}]
    model = script(work / "s.toml", replies)
    lose(work, how, "Which colour?", "--model", model, "--permission-mode", "plan")
    assert summaries(work) == ["Which colour?"]
    answered = agent(["answer", "Blue"], work)
    assert answered.returncode == 3, answered.stderr
    assert summaries(work) == ["Approve the plan"]
    terminal = Terminal(["--model", model, "-c"], work)
    terminal.expect("Approve this plan?")
    terminal.kill()
    assert summaries(work) == ["Approve the plan"]
    done = agent(["approve"], work)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("lose", [lose_in_lines, lose_drawn])
def test_the_question_of_a_sub_agent_waits(work: Path, lose: Any, how: str) -> None:
    worker = script(work / "w.toml", [FIRST, {"text": "Part done.", "expect": "exit code 0"}])
    agents = work.parent / "home" / ".agent" / "agents"
    agents.mkdir(parents=True)
    (agents / "worker.md").write_text(f"---\nname: worker\ndescription: Works.\nmodel: {worker}\n---\nWork.\n")
    task = call("Task", description="d", prompt="Do it.", subagent_type="worker")
    model = script(work / "s.toml", [{"calls": [task]}, {"text": "All done.", "expect": "Part done."}])
    lose(work, how, ASKED, "--model", model)
    assert summaries(work) == ["Run: echo one >> log"]
    done = agent(["approve", "--output-format", "json"], work)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["result"], result["num_turns"], result["num_tool_calls"]) == ("All done.", 4, 3)
    assert log(work) == ["one"]


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("lose", [lose_in_lines, lose_drawn])
def test_a_review_waits_and_its_files_are_known(work: Path, lose: Any, how: str) -> None:
    edit = call("Edit", file_path="a.txt", old_string="world", new_string="you")
    replies = [
        {"calls": [call("Read", file_path="a.txt")]},
        {"calls": [edit]},
        {"calls": [call("Read", file_path="a.txt")]},
        {"text": "Done.", "expect": "looks fine"},
    ]
    model = script(work / "s.toml", replies)
    lose(work, how, "was changed", "--model", model, "--permission-mode", "acceptEdits", AGENT_REVIEW="files")
    [session] = pending(work)
    assert [f["path"] for f in session["pending"][0]["review"]["files"]] == ["a.txt"]
    done = agent(["answer", "looks fine"], work)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr


def test_the_mode_and_the_bounds_of_the_turn_are_kept(work: Path) -> None:
    edit = call("Edit", file_path="a.txt", old_string="world", new_string="you")
    read = call("Read", file_path="a.txt")
    replies = [
        {"calls": [read, call("Bash", command="python3 -c 'print(1)'")]},
        {"calls": [edit]},
        {"calls": [read]},
        {"text": "Cut."},
    ]
    model = script(work / "s.toml", replies)
    args = ("--model", model, "--permission-mode", "acceptEdits", "--max-turns", "2")
    lose_in_lines(work, "kill", "Allow?", *args)
    done = agent(["approve", "--output-format", "json"], work)
    assert done.returncode == 4, done.stderr
    assert json.loads(done.stdout)["num_turns"] == 2
    assert (work / "a.txt").read_text() == "hello you\n"


def test_a_question_that_is_open_elsewhere_is_marked(work: Path) -> None:
    model = script(work / "s.toml", [FIRST, {"text": "Both done."}])
    terminal = Terminal(["--model", model, "please"], work)
    terminal.expect("Allow?")
    [session] = pending(work)
    assert session["open_in"].startswith("process ")
    listed = agent(["pending"], work).stdout
    assert "Run: echo one >> log" in listed
    assert "open in process" in listed
    refused = agent(["approve"], work)
    assert refused.returncode == 2
    assert "fork" not in refused.stderr
    assert "answer it there" in refused.stderr
    terminal.type("y")
    terminal.expect("Both done.")
    terminal.leave()
    assert pending(work) == []


def test_a_running_call_is_no_question(work: Path) -> None:
    running = call("Bash", command="echo begun; read -t 100 < <(sleep 100)")
    model = script(work / "s.toml", [{"calls": [running]}, {"text": "never"}])
    terminal = Terminal(["--model", model, "please"], work)
    terminal.expect("Allow?")
    terminal.type("y")
    terminal.expect("begun\r\n")
    terminal.kill()
    assert pending(work) == []


def test_ctrl_d_at_a_question_leaves_it_open(work: Path) -> None:
    model = script(work / "s.toml", [FIRST, {"text": "Both done."}])
    terminal = Terminal(["--model", model, "please"], work)
    terminal.expect("Allow?")
    terminal.press("d")
    terminal.leave()
    assert summaries(work) == ["Run: echo one >> log"]

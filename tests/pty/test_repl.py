"""The REPL in a terminal: prompt, approval, refusal with words, interrupts, resume."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.program import agent
from tests.support.pty_session import Terminal
from tests.support.scripts import call, script

READ = {"text": "I look.", "calls": [call("Read", file_path="a.txt")]}
EDIT = {"text": "I change it.", "calls": [call("Edit", file_path="a.txt", old_string="world", new_string="there")]}


def test_yes_runs_it_and_the_diff_is_shown_before(work: Path) -> None:
    model = script(work / "s.toml", [READ, EDIT, {"text": "All done."}])
    terminal = Terminal(["--model", model], work)
    terminal.expect("changes need your approval (/mode)")
    terminal.expect("/help lists the commands")
    terminal.type("please")
    shown = terminal.expect("Allow?")
    assert "Read a.txt" in shown
    assert "-hello world" in shown
    assert "+hello there" in shown
    assert (work / "a.txt").read_text() == "hello world\n"
    terminal.type("y")
    terminal.expect("All done.")
    assert (work / "a.txt").read_text() == "hello there\n"
    terminal.ready()
    assert "agent --resume" in terminal.leave()
    assert terminal.exit_code == 0


@pytest.mark.parametrize("plain", [True, False])
def test_no_with_a_reason_reaches_the_model(work: Path, plain: bool) -> None:
    model = script(work / "s.toml", [READ, EDIT, {"text": "As you wish.", "expect": "keep world, add a line"}])
    terminal = Terminal(["--model", model, *(["--plain"] if plain else []), "please"], work)
    terminal.expect("Allow?")
    terminal.type("keep world, add a line")
    terminal.expect("As you wish.")
    assert (work / "a.txt").read_text() == "hello world\n"
    terminal.leave()


@pytest.mark.parametrize("words", ["", "n", "no", "yep", "Y please"])
def test_only_y_or_yes_approves(work: Path, words: str) -> None:
    model = script(work / "s.toml", [READ, EDIT, {"text": "Understood.", "expect": "Denied by the user"}])
    terminal = Terminal(["--model", model, "please"], work)
    terminal.expect("Allow?")
    terminal.type(words)
    terminal.expect("Understood.")
    assert (work / "a.txt").read_text() == "hello world\n"
    terminal.leave()


def test_always_is_for_this_session(work: Path) -> None:
    run = {"calls": [call("Bash", command="bash -c \"$(printf 'echo x')\" > log")]}
    touch = {"calls": [call("Bash", command="touch made")]}
    model = script(work / "s.toml", [touch, touch, run, {"text": "Finished."}])
    terminal = Terminal(["--model", model, "please"], work)
    assert "a always this session: touch made" in terminal.expect("Allow?")
    terminal.type("a")
    assert "a always this session" not in terminal.expect("Allow?")
    terminal.type("y")
    terminal.expect("Finished.")
    assert (work / "log").read_text() == "x\n"
    terminal.leave()


def test_ctrl_c_in_the_middle_of_a_stream_keeps_the_conversation(work: Path) -> None:
    long = {"text": "one\n\ntwo three\n\nfour five six seven " * 50, "pause": 0.05}
    model = script(work / "s.toml", [long, {"text": "Still here."}])
    terminal = Terminal(["--model", model, "talk"], work)
    terminal.expect("three")
    terminal.press("c")
    # Long before its end.
    assert terminal.expect("interrupted").count("seven") < 50
    terminal.ready()
    terminal.type("and now")
    terminal.expect("Still here.")
    terminal.leave()


def test_ctrl_c_in_the_middle_of_a_command_ends_it(work: Path) -> None:
    command = "trap '' TERM; echo $$ > pid; echo st''arted; while true; do sleep 0.1; done"
    model = script(work / "s.toml", [{"calls": [call("Bash", command=command)]}, {"text": "Went on."}])
    terminal = Terminal(["--model", model, "run"], work)
    terminal.expect("Allow?")
    terminal.type("y")
    terminal.expect("started")
    terminal.press("c")
    terminal.expect("say what to do instead, or continue")
    pid = int((work / "pid").read_text())
    assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()
    terminal.ready()
    terminal.type("go on")
    terminal.expect("Went on.")
    terminal.leave()


def test_ctrl_c_at_the_question_interrupts_and_runs_nothing(work: Path) -> None:
    model = script(work / "s.toml", [{"calls": [call("Bash", command="touch made")]}, {"text": "Fine."}])
    terminal = Terminal(["--model", model, "run"], work)
    terminal.expect("Allow?")
    terminal.press("c")
    terminal.expect("interrupted")
    assert not (work / "made").exists()
    terminal.ready()
    terminal.type("again")
    terminal.expect("Fine.")
    terminal.leave()


def test_resume_goes_on_where_it_was(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "One."}, {"text": "Two."}])
    first = Terminal(["--model", model, "start"], work)
    first.expect("One.")
    first.ready()
    found = re.search(r"agent --resume (\S+)", first.leave())
    assert found
    second = Terminal(["--model", model, "--resume", found[1]], work)
    second.expect("restored 2 messages")
    second.type("more")
    second.expect("Two.")
    second.leave()


def test_slash_commands(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "One."}])
    terminal = Terminal(["--model", model], work)
    terminal.expect("/help lists")
    terminal.type("/mode plan")
    terminal.expect("mode: plan")
    terminal.type("/modle")
    terminal.expect("Did you mean /mode")
    terminal.type("/model nonsense")
    terminal.expect("provider")
    terminal.type("/exit")
    assert "resume" not in terminal.end()
    assert terminal.exit_code == 0


def test_escapes_from_a_file_do_not_reach_the_terminal(work: Path) -> None:
    evil = "\x1b]52;c;ZXZpbA==\x07\x1b[2J"
    model = script(work / "s.toml", [{"text": f"See {evil}."}])
    terminal = Terminal(["--model", model, "print it"], work)
    shown = terminal.expect("done · ")
    assert "\\x1b]52" in shown
    assert "\x07" not in shown
    terminal.leave()


def test_a_word_close_to_a_command_is_asked_about(work: Path) -> None:
    terminal = Terminal(["docter"], work)
    terminal.expect("Send it as a prompt now? [y/N]")
    terminal.type("n")
    assert "Nothing was sent" in terminal.end()
    assert terminal.exit_code == 2


def test_what_waits_is_asked_before_anything_else(work: Path) -> None:
    model = script(
        work / "s.toml", [{"calls": [call("Bash", command="touch made")]}, {"text": "Made it."}, {"text": "Hi."}]
    )
    suspended = agent(["-p", "--model", model, "--on-ask", "suspend", "go"], work)
    assert suspended.returncode == 3
    terminal = Terminal(["-c", "--model", model], work)
    terminal.expect("a call of this session waits for you")
    terminal.expect("Allow?")
    terminal.type("y")
    terminal.expect("Made it.")
    assert (work / "made").exists()
    terminal.leave()


def test_a_plan_is_approved_with_words(work: Path) -> None:
    plan = call("ExitPlanMode", plan="1. Touch it", commands=["touch made"])
    ask = call("AskUserQuestion", questions=[{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}])
    replies = [
        {"calls": [ask]},
        {"calls": [plan], "expect": "Which? -> B"},
        {"calls": [call("Bash", command="touch made")], "expect": "2. Look at it"},
        {"calls": [call("TodoWrite", todos=[{"content": "all", "status": "completed"}])]},
        {"text": "Done."},
    ]
    editor = work / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/^1. Touch it/&\\n2. Look at it/" "$1"\n')
    editor.chmod(0o755)
    args = ["--model", script(work / "s.toml", replies), "--permission-mode", "plan", "plan it"]
    terminal = Terminal(args, work, EDITOR=str(editor))
    terminal.expect("type an answer]")
    terminal.type("2")
    terminal.expect("## Commands")
    terminal.expect("Approve this plan?")
    terminal.type("e")
    assert "## Commands" in terminal.expect("Approve this plan?").partition("2. Look at it")[2]
    terminal.type("y be quick")
    terminal.expect("Allow?")
    terminal.type("y")
    terminal.expect("Done.")
    assert (work / "made").exists()
    terminal.leave()


def test_what_was_typed_before_the_question_is_no_answer_to_it(work: Path) -> None:
    slow = {"text": "one\n\ntwo three\n\nfour five six seven eight nine", "pause": 0.1, "calls": EDIT["calls"]}
    model = script(work / "s.toml", [READ, slow, {"text": "Not done."}])
    terminal = Terminal(["--model", model, "please"], work)
    terminal.expect("three")
    terminal.type("y")
    terminal.expect("Allow?")
    terminal.type("n")
    terminal.expect("Not done.")
    assert (work / "a.txt").read_text() == "hello world\n"
    terminal.leave()


def test_the_plan_is_changed_at_a_question_and_the_model_sees_it(work: Path) -> None:
    todos = [{"content": "write", "status": "in_progress"}, {"content": "test", "status": "pending"}]
    done = [{"content": "write", "status": "completed"}, {"content": "test", "status": "completed"}]
    replies = [
        {"calls": [call("TodoWrite", todos=todos)]},
        {"calls": [call("Bash", command="touch made")]},
        {"calls": [call("TodoWrite", todos=done)], "expect": "[ ] say so in the docs"},
        {"text": "All of it."},
    ]
    terminal = Terminal(["--model", script(work / "s.toml", replies), "do it"], work)
    terminal.expect("Allow?")
    terminal.type("/todos add say so in the docs")
    terminal.expect("to do: say so in the docs")
    terminal.expect("Allow?")
    terminal.type("y")
    terminal.expect("All of it.")
    assert (work / "made").exists()
    terminal.leave()


def test_an_interrupted_answer_is_counted_in_the_cost(work: Path) -> None:
    words = " ".join(f"word{n}" for n in range(200))
    terminal = Terminal(["--model", script(work / "s.toml", [{"text": words, "pause": 0.1}]), "please"], work)
    terminal.expect("word5")
    terminal.press("c")
    terminal.expect("interrupted")
    terminal.ready()
    terminal.type("/cost")
    shown = terminal.expect("was interrupted)")
    found = re.search(r"session: ([\d,]+) tokens in, (\d+) out", shown)
    assert found is not None, shown
    assert int(found[1].replace(",", "")) > 1_000 and int(found[2]) > 5
    terminal.leave()

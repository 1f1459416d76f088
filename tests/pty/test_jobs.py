"""Background commands in a session on a terminal: listed, told of, ended by /clear and on leaving."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.program import agent
from tests.support.pty_screen import Drawn
from tests.support.pty_session import Terminal
from tests.support.scripts import call, script
from tests.support.waiting import gone, soon


def test_background_commands_are_listed_and_end_with_the_session(work: Path) -> None:
    def start(name: str) -> dict[str, object]:
        return {"calls": [call("Bash", command=f"echo $$ > {name}; exec sleep 60", run_in_background=True)]}

    def pid(name: str) -> int:
        path = work / name
        assert soon(lambda: path.exists() and bool(path.read_text()))
        return int(path.read_text())

    replies = [start("one"), {"text": "Started."}, start("two"), {"text": "Again."}]
    terminal = Terminal(["--model", script(work.parent / "s.toml", replies), "--allowedTools", "Bash"], work)
    terminal.ready()
    terminal.type("/jobs")
    terminal.expect("There are no background jobs.")
    terminal.type("go")
    terminal.expect("Started.")
    terminal.type("/jobs")
    terminal.expect("b1  running, 0:")
    terminal.expect("exec sleep 60")
    terminal.type("/clear")
    terminal.expect("(previous one: /resume). 1 background job ended.")
    assert gone(pid("one"))
    terminal.type("go")
    terminal.expect("Started.")
    second = pid("one")
    assert "1 background job ended: echo $$ > one; exec sleep 60" in " ".join(terminal.leave().split())
    assert soon(lambda: gone(second))


@pytest.mark.parametrize("killed", [False, True])
def test_the_model_hears_once_which_background_commands_ended_with_the_program(work: Path, killed: bool) -> None:
    start = call("Bash", command="echo on; exec sleep 60", run_in_background=True)
    stop = {"calls": [call("KillShell", shell_id="b2")]}
    first = script(work.parent / "s.toml", [{"calls": [start, start, start]}, stop, {"text": "Started."}])
    terminal = Terminal(["--model", first, "--allowedTools", "Bash"], work)
    terminal.ready()
    terminal.type("go")
    terminal.expect("Started.")
    if killed:
        terminal.kill()
    else:
        terminal.leave()
    told = "The program was left and started again, which ended the background commands b1, b3."
    then = [{"text": "I see.", "expect": told}, {"text": "Yes."}]
    second = script(work.parent / "t.toml", then)
    assert agent(["-p", "-c", "--model", second, "go on"], work).stdout == "I see.\n"
    third = script(work.parent / "u.toml", [{"text": "Nothing new."}])
    done = agent(["-p", "-c", "--model", third, "--output-format", "json", "and on"], work)
    assert json.loads(done.stdout)["result"] == "Nothing new."
    (log,) = (work.parent / "home").rglob("sessions/*/*.jsonl")
    assert log.read_text().count("which ended the background commands") == 1


LATER = "until [ -e go ]; do sleep 0.05; done; echo built"


def allow(work: Path, turns: int) -> None:
    (work.parent / "home").mkdir(exist_ok=True)
    (work.parent / "home/.agentrc").write_text(f"wake_turns = {turns}\n")


@pytest.mark.parametrize("turns", [0, 2])
def test_what_ends_in_the_background_starts_a_turn_only_if_the_user_allows_it(work: Path, turns: int) -> None:
    replies = [{"calls": [call("Bash", command=LATER, run_in_background=True)]}, {"text": "Started."}]
    model = script(work.parent / "s.toml", [*replies, {"text": "It is built.", "expect": "[Background command b1"}])
    allow(work, turns)
    with Drawn(["--model", model, "--allowedTools", "Bash", "--", "build"], work) as screen:
        screen.wait("Started.")
        screen.wait("· 1 job")
        (work / "go").touch()
        screen.wait("job b1 ended: exit code 0")
        if turns:
            screen.wait("continuing with what ended in the background (1 of 2, see wake_turns)")
        else:
            screen.line("and?")
        screen.wait("It is built.")
        screen.leave()
    (log,) = (work.parent / "home").rglob("sessions/*/*.jsonl")
    assert ("and?" in log.read_text()) == (turns == 0)


def test_turns_that_start_by_themselves_are_limited_until_the_user_writes(work: Path) -> None:
    hook = {"type": "command", "command": "echo Again. >&2; exit 2", "asyncRewake": True}
    settings = json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}})
    model = script(work.parent / "s.toml", [{"text": f"Answer {n}."} for n in range(9)])
    allow(work, 2)
    with Drawn(["--model", model, "--settings", settings, "--", "go"], work) as screen:
        screen.wait("(2 of 2, see wake_turns)")
        screen.wait("Answer 2.")
        screen.line("go on")
        screen.wait("Answer 5.")
        screen.leave()
    (log,) = (work.parent / "home").rglob("sessions/*/*.jsonl")
    assert "Answer 6." not in log.read_text()

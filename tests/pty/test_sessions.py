"""Sessions as a user has them: gone on with from a menu, copied, named, exported; on the screen and in lines."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

from tests.support.program import agent
from tests.support.pty_screen import GRAVE_REST, Drawn
from tests.support.pty_session import Terminal
from tests.support.scripts import call, script

ASK = {"text": "I run it.", "calls": [call("Bash", command="touch made")]}


def two_sessions(work: Path) -> str:
    """Two sessions with one script; the model's name."""
    model = script(work.parent / "s.toml", [{"text": "The **first** answer."}, {"text": "More."}, {"text": "Last."}])
    for prompt in ("look at the parser", "write the docs"):
        assert agent(["-p", "--model", model, prompt], work).returncode == 0
    return model


def listed(work: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(agent(["sessions", "list", "--json"], work).stdout)
    return found


def test_a_session_is_picked_from_a_menu_and_shown_as_it_was(work: Path) -> None:
    two_sessions(work)
    with Drawn(["-r"], work) as screen:
        screen.wait("2 of 2")
        assert "write the docs" in screen.visible().splitlines()[1]
        assert b"\x1b[6n" not in screen.raw, "not every terminal says where its cursor is"
        screen.type("pars")
        screen.wait("1 of 2")
        screen.type("\r")
        screen.ready()
        screen.wait("The first answer.")
        text = screen.text()
        assert re.search(r"restored 2 messages, \d+ tokens of session [0-9a-f]{8}", text)
        assert text.index("> look at the parser") < text.index("The first answer.")
        assert "Resume:" not in screen.visible()
        screen.line("and now")
        screen.wait("More.")
        screen.leave()
    # With a note that the user is there now: it began with -p.
    assert [s["messages"] for s in listed(work)] == [5, 2]


def test_a_message_is_shown_as_it_was_written_without_what_was_sent_along(work: Path) -> None:
    (work / "a.txt").write_text("much text")
    model = script(work.parent / "s.toml", [{"text": "I see.", "expect": "much text"}])
    assert agent(["-p", "--model", model, "--permission-mode", "plan", "look at @a.txt"], work).returncode == 0
    shown = agent(["sessions", "list"], work).stdout
    assert shown.splitlines()[1].endswith("look at @a.txt")
    shown += agent(["show"], work).stdout
    again = agent(["-c", "--model", model, "--plain"], work, stdin="/cost\n/pin\n\n/rewind\n1\n")
    # What was before stands beside the output of this run.
    assert "> look at @a.txt\nI see.\n" in again.stderr
    shown += again.stdout + again.stderr
    assert "1. look at @a.txt\n" in again.stdout
    assert "much text" not in shown and "plan_mode" not in shown
    shown = agent(["sessions", "list", "--json"], work).stdout + agent(["show", "--json"], work).stdout
    assert '"query":"look at @a.txt"' in shown.replace(": ", ":")
    exported = agent(["sessions", "export"], work).stdout
    assert "look at @a.txt" in exported
    assert "plan_mode" not in shown + exported and "Plan mode is on" not in shown + exported


def test_escape_in_the_menu_leaves_and_starts_nothing(work: Path) -> None:
    two_sessions(work)
    with Drawn(["-r"], work) as screen:
        screen.wait("2 of 2")
        screen.type("zzz")
        screen.wait("0 of 2")
        screen.type("\r\x1b")
        assert "2 of 2" not in screen.end()
        assert screen.child.returncode == 0
    assert len(listed(work)) == 2


def test_line_by_line_a_number_or_words_choose(work: Path) -> None:
    two_sessions(work)
    terminal = Terminal(["-r"], work)
    assert "  2. look at the parser" in terminal.expect("Which session?")
    terminal.type("answer")
    assert "write the docs" in terminal.expect("Which session?")
    terminal.type("nowhere to be found")
    terminal.expect("No session fits")
    terminal.expect("Which session?")
    terminal.type("2")
    terminal.expect("> look at the parser")
    terminal.expect("The **first** answer.")
    terminal.leave()


def test_words_that_fit_one_session_go_on_with_it_and_send_nothing(work: Path) -> None:
    two_sessions(work)
    terminal = Terminal(["-r", "the", "docs"], work)
    terminal.expect("restored 2 messages")
    terminal.expect("write the docs")
    terminal.leave()
    assert [s["messages"] for s in listed(work)] == [2, 2]
    terminal = Terminal(["-r", "nothing like it"], work)
    assert "No session of this project fits 'nothing like it'" in terminal.end()
    assert terminal.exit_code == 2


def test_a_name_a_copy_and_back(work: Path) -> None:
    model = two_sessions(work)
    with Drawn(["--model", model, "-r", "docs"], work) as screen:
        screen.ready()
        screen.line("/rename The docs")
        screen.wait("This session is called The docs.")
        screen.line("/fork")
        screen.wait("In a copy of this session")
        screen.line("go on")
        screen.wait("More.")
        screen.line("/sessions")
        screen.wait("The docs (copy)")
        screen.line("/resume parser")
        screen.wait("> look at the parser")
        screen.line("/resume the docs")
        screen.wait("of session")
        screen.until(lambda: screen.text().count("restored 2 messages") == 3, "the named one")
        screen.leave()
    names = {str(s["name"]): s["messages"] for s in listed(work)}
    assert names == {"The docs (copy)": 5, "The docs": 2, "": 2}


def test_the_answer_is_copied_as_it_was_written_and_the_session_exported(work: Path) -> None:
    two_sessions(work)
    with Drawn(["-c"], work) as screen:
        screen.ready()
        screen.line("/copy")
        screen.wait("Copied: 21 characters.")
        screen.until(lambda: b"\x1b]52;c;" in screen.raw, "the sequence")
        sent = re.search(rb"\x1b\]52;c;([^\x07]*)\x07", screen.raw)
        assert sent
        assert base64.b64decode(sent[1]) == b"The **first** answer."
        screen.line("/export out.html")
        screen.wait("This session is in")
        assert "<strong>first</strong>" in (work / "out.html").read_text()
        screen.line("/export out.html")
        screen.wait("exists already")
        screen.rest(GRAVE_REST)
        screen.type("n")
        screen.gone("❯ y  Yes")
        screen.line("/export")
        screen.until(lambda: len(list(work.glob("session-*.md"))) == 1, "the file")
        screen.leave()


def test_what_waits_in_a_session_is_asked_when_it_is_resumed_inside_another(work: Path) -> None:
    model = script(work.parent / "s.toml", [ASK, {"text": "Made it."}])
    assert agent(["-p", "--model", model, "--on-ask", "suspend", "make the file"], work).returncode == 3
    terminal = Terminal(["--model", model], work)
    terminal.expect("/help lists")
    terminal.type("/resume make")
    terminal.expect("restored 2 messages")
    terminal.expect("> make the file")
    terminal.expect("a call of this session waits for you")
    terminal.expect("Allow?")
    terminal.type("y")
    terminal.expect("Made it.")
    assert (work / "made").exists()
    terminal.leave()


def test_a_turn_that_broke_off_says_so(work: Path) -> None:
    two_sessions(work)
    log = next(work.parent.rglob(f"{listed(work)[0]['session_id']}.jsonl"))
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(line for line in lines if b'"type":"TurnFinished"' not in line[:200]))
    terminal = Terminal(["-c"], work)
    terminal.expect("The **first** answer.")
    terminal.expect("the last turn broke off here; write continue to resume it")
    terminal.leave()


def test_the_small_model_gives_a_title_when_the_first_turn_is_over(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "Hello."}])
    small = script(work.parent / "small.toml", [{"text": '"A Greeting\x1b[2J"\n', "expect": "User: hi there"}])
    with Drawn(["--model", model, "--settings", json.dumps({"small_model": small})], work) as screen:
        screen.ready()
        screen.line("hi there")
        screen.wait("Hello.")
        logs = work.parent / "home/state/sessions"
        screen.until(lambda: any(b'"SessionNamed"' in p.read_bytes() for p in logs.rglob("*.jsonl")), "the title")
        screen.line("/rename")
        # The name as it is can be changed.
        screen.until(lambda: screen.input_line() == "> A Greeting\\x1b[2J", "the name")
        screen.type("\r")
        screen.wait("This session is called A Greeting")
        screen.leave()
    assert listed(work)[0]["name"] == "A Greeting\\x1b[2J"
    assert "\x1b" not in agent(["sessions", "list"], work).stdout


def test_the_cost_goes_on_from_where_it_was(work: Path) -> None:
    usage = {"input": 1000, "output": 10, "cost": 0.25}
    model = script(work.parent / "s.toml", [{"text": "One.", "usage": usage}, {"text": "Two.", "usage": usage}])
    agent(["-p", "--model", model, "first"], work)
    terminal = Terminal(["--model", model, "-c"], work)
    terminal.expect("restored 2 messages, 1.0k tokens")
    terminal.ready()
    terminal.type("/cost")
    terminal.expect("1,000 tokens in")
    terminal.ready()
    terminal.type("second")
    terminal.expect("Two.")
    terminal.ready()
    terminal.type("/cost")
    terminal.expect("2,000 tokens in")
    terminal.leave()


def test_the_state_of_a_first_session_is_private(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"calls": [call("Bash", command="echo x > made")]}, {"text": "Made."}])
    with Drawn(["--model", model, "--trust", "--permission-mode", "bypassPermissions"], work) as screen:
        screen.ready()
        screen.line("make it")
        screen.wait("Made.")
        screen.leave()
    state = work.parent / "home/state"
    folders = [p for p in (state, *state.rglob("*")) if p.is_dir()]
    assert any(p.name == "snapshots" for p in folders) and list(state.rglob("input.history"))
    assert [p for p in folders if p.stat().st_mode & 0o077 and "git" not in p.relative_to(state).parts] == []


def test_a_session_continues_in_the_mode_in_which_it_was_left(work: Path) -> None:
    edit = {"calls": [call("Write", file_path="b.txt", content="x\n")]}
    model = script(work / "s.toml", [edit, {"text": "Written."}, {"text": "Hello."}])
    first = Terminal(["--model", model, "please"], work)
    first.expect("Allow?")
    first.type("s")
    first.expect("Written.")
    first.leave()
    for args, mode in (((), "acceptEdits"), (("--permission-mode", "default"), "default")):
        again = Terminal(["-c", *args], work)
        assert f"· {mode}" in again.expect("restored ")
        again.leave()
    (work.parent / "home/.agentrc").write_text('[permissions]\nmode = "plan"\n')
    set_by_file = Terminal(["-c"], work)
    assert "· plan" in set_by_file.expect("restored ")
    set_by_file.leave()


def test_neither_bypass_nor_the_mode_of_a_run_without_a_user_is_taken_up_again(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "One."}, {"text": "Two."}])
    assert agent(["-p", "--model", model, "--permission-mode", "acceptEdits", "hello"], work).returncode == 0
    first = Terminal(["-c"], work)
    assert "· default" in first.expect("restored 2 messages")
    first.leave()
    bypassing = Terminal(["--model", model, "--yolo", "hello"], work, IS_SANDBOX="1")
    bypassing.expect("One.")
    bypassing.leave()
    again = Terminal(["-c"], work)
    assert "· default" in again.expect("restored 2 messages")
    again.leave()

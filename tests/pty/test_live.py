"""The application in a terminal: flows of a session, as they stand on the screen."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest

from agent_cli.shells.terminal.startup import first_approval_hint
from tests.support.program import agent
from tests.support.pty_screen import GRAVE_REST, Drawn
from tests.support.scripts import call, script

READ = {"text": "I look.", "calls": [call("Read", file_path="a.txt")]}
EDIT = {"text": "I change it.", "calls": [call("Edit", file_path="a.txt", old_string="world", new_string="there")]}
SLOW = {"text": "one two three four five six seven eight nine ten " * 20, "pause": 0.03}
BAR = "❯ y  Yes"


def masked(text: str, work: Path) -> str:
    """Without what differs from run to run."""
    text = re.sub(r"✓ [\d.]+m?s", "✓ Ns", text.replace(str(work), "WORK").replace("/s.toml", ""))
    text = re.sub(r"scripted:\S*", "MODEL", text)
    return re.sub(r"resume \w{8}", "resume ID", re.sub(r"agent \d+\.\d+\.\d+", "agent V", text))


def test_a_session_from_start_to_end(work: Path) -> None:
    model = script(work / "s.toml", [READ, EDIT, {"text": "## Done\n\n- **all** of it\n\n```python\nx = 1\n```\n"}])
    with Drawn(["--model", model], work, columns=200) as screen:
        screen.ready()
        screen.line("please")
        screen.wait(BAR)
        assert (work / "a.txt").read_text() == "hello world\n"
        screen.rest()
        screen.type("y")
        screen.wait("✓")
        screen.gone("interrupt")
        shown = masked(screen.leave(), work)
        assert screen.child.returncode == 0
    assert (work / "a.txt").read_text() == "hello there\n"
    hint = first_approval_hint(sandboxed=False, trusts=True)
    assert shown.rstrip() == SESSION.removeprefix("\n").rstrip().replace("  HINT", hint)


SESSION = """
agent V
  WORK
  MODEL
  changes need your approval (Shift-Tab) · @ file · ! command · /help lists the commands

> please

  I look.

● Read a.txt · 1 line

  I change it.

  HINT

● Edit a.txt +1 -1

  Done

  • all of it

    x = 1

✓ Ns · changed 1 file (+1 -1) · not verified: no test was run
To resume this session: agent --resume ID
"""


def test_typing_that_was_under_way_approves_nothing_and_is_kept(work: Path) -> None:
    slow = {"text": "one two three four five six", "pause": 0.1, "calls": EDIT["calls"]}
    model = script(work / "s.toml", [READ, slow, {"text": "All done."}])
    with Drawn(["--model", model, "please"], work) as screen:
        screen.wait("three")
        for letter in "yes maybe say any name now":
            screen.type(letter)
            screen.rest(0.05)
        screen.wait(BAR)
        screen.until(lambda: "> yes maybe say any name now" in screen.visible(), "the sentence")
        screen.until(lambda: "back to the question" in screen.visible(), "the question below it")
        assert (work / "a.txt").read_text() == "hello world\n"
        screen.type("\r")
        screen.wait("queued: yes maybe")
        assert (work / "a.txt").read_text() == "hello world\n"
        screen.rest()
        screen.type("y")
        screen.wait("All done.")
        assert (work / "a.txt").read_text() == "hello there\n"
        assert "\n> yes maybe say any name now\n" in screen.text()
        screen.leave()


def test_no_with_a_reason_reaches_the_model(work: Path) -> None:
    slow = {"text": "one two three four five six", "pause": 0.1, "calls": EDIT["calls"]}
    model = script(work / "s.toml", [READ, slow, {"text": "As you wish.", "expect": "keep world"}])
    with Drawn(["--model", model, "please"], work) as screen:
        screen.wait("three")
        screen.type("a draft")
        screen.wait("> a draft")
        screen.wait(BAR)
        screen.type("\x15")
        screen.until(lambda: screen.input_line().startswith(BAR), "the question")
        screen.rest()
        screen.type("r")
        screen.wait("no, because>")
        screen.line("keep world")
        screen.wait("As you wish.")
        screen.wait("denied: keep world")
        assert (work / "a.txt").read_text() == "hello world\n"
        screen.gone("interrupt")
        screen.clear()
        screen.leave()


def test_a_command_is_changed_before_it_runs(work: Path) -> None:
    model = script(work / "s.toml", [{"calls": [call("Bash", command="touch made")]}, {"text": "Ran."}])
    with Drawn(["--model", model, "go"], work) as screen:
        screen.wait(BAR)
        screen.rest()
        screen.type("e")
        screen.wait("command> touch made")
        screen.line("2")
        screen.wait("touch made2")
        screen.rest()
        screen.type("y")
        screen.wait("Ran.")
        screen.leave()
    assert (work / "made2").exists() and not (work / "made").exists()


def test_what_is_typed_meanwhile_goes_to_the_next_step_in_order(work: Path) -> None:
    # Long enough for all that is typed, also where the machine is busy.
    first = {**SLOW, "text": "one two three four five six seven eight nine ten " * 4, "calls": READ["calls"]}
    model = script(work / "s.toml", [first, {"text": "Both heard.", "expect": "and the second"}])
    with Drawn(["--model", model, "go"], work) as screen:
        screen.wait("two")
        for typed in ("the first", "and the second", "not this"):
            screen.line(typed)
            screen.wait(f"queued: {typed}")  # lines in one read would be a paste
        screen.type("\x1b[A")
        screen.wait("> not this")
        screen.type("\x15")
        screen.wait("Both heard.")
        text = screen.leave()
    assert text.index("> the first") < text.index("> and the second") < text.index("Both heard.")


@pytest.mark.parametrize("key", ["\x03", "\x1b"])
def test_an_interrupt_keeps_the_conversation_and_sends_what_is_queued(work: Path, key: str) -> None:
    model = script(work / "s.toml", [SLOW, {"text": "Still here.", "expect": "and now"}])
    with Drawn(["--model", model, "talk"], work) as screen:
        screen.wait("three")
        screen.line("and now")
        screen.wait("queued: and now")
        screen.type(key)
        screen.wait("interrupted: say what to do instead, or continue")
        # Long before its end.
        assert screen.text().count("seven") < SLOW["text"].count("seven")
        screen.wait("Still here.")
        screen.leave()


def test_ctrl_s_interrupts_and_sends_the_draft(work: Path) -> None:
    model = script(work / "s.toml", [SLOW, {"text": "Switched.", "expect": "other thing"}])
    with Drawn(["--model", model, "talk"], work) as screen:
        screen.wait("three")
        screen.type("other thing\x13")
        screen.wait("Switched.")
        screen.leave()


def test_ctrl_c_twice_leaves_a_running_turn_and_restores_the_terminal(work: Path) -> None:
    command = "trap '' TERM; echo $$ > pid; while true; do sleep 0.1; done"
    model = script(work / "s.toml", [{"calls": [call("Bash", command=command)]}, {"text": "Never."}])
    with Drawn(["--model", model], work) as screen:
        screen.ready()
        screen.line("go")
        screen.wait(BAR)
        screen.rest(GRAVE_REST)
        screen.type("y")
        screen.until(lambda: (work / "pid").exists() and (work / "pid").read_text().strip() != "")
        screen.type("\x03\x03")
        screen.end()
        assert screen.child.returncode == 0
        assert screen.modes() == screen.modes_before
        assert screen.raw.rstrip().endswith(b"\x1b[?2004l") or b"\x1b[?2004l" in screen.raw[-600:]
        pid = int((work / "pid").read_text())
        assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_question_is_a_menu_with_room_for_words(work: Path) -> None:
    options = [{"label": "Red", "description": "like fire"}, {"label": "Blue"}]
    ask = call("AskUserQuestion", questions=[{"question": "Which colour?", "options": options}])
    free = call("AskUserQuestion", questions=[{"question": "And why?"}])
    replies = [
        {"calls": [ask]},
        {"calls": [free], "expect": "Which colour? -> Blue"},
        {"text": "Ok.", "expect": "why not"},
    ]
    with Drawn(["--model", script(work / "s.toml", replies), "ask me"], work) as screen:
        screen.wait("❯ 1  Red · like fire")
        screen.rest()
        screen.type("2")
        screen.wait("answer>")
        screen.line("why not")
        screen.wait("Ok.")
        screen.leave()


def test_a_plan_is_edited_and_approved(work: Path) -> None:
    editor = work / "editor"
    editor.write_text('#!/bin/sh\nprintf "\\n2. Look at it\\n" >> "$1"\n')
    editor.chmod(0o755)
    replies = [
        {"calls": [call("ExitPlanMode", plan="1. Touch it")]},
        {"calls": [call("TodoWrite", todos=[{"content": "all", "status": "completed"}])], "expect": "2. Look at it"},
        {"text": "Done."},
    ]
    args = ["--model", script(work / "s.toml", replies), "--permission-mode", "plan", "plan it"]
    with Drawn(args, work, EDITOR=str(editor)) as screen:
        screen.wait("Yes, carry it out")
        screen.rest()
        screen.type("e")
        screen.wait("2. Look at it")
        screen.wait("Yes, carry it out")
        screen.rest()
        screen.type("y")
        screen.wait("Done.")
        screen.leave()


def test_what_waits_is_asked_at_once(work: Path) -> None:
    model = script(work / "s.toml", [{"calls": [call("Bash", command="touch made")]}, {"text": "Made it."}])
    assert agent(["-p", "--model", model, "--on-ask", "suspend", "go"], work).returncode == 3
    with Drawn(["-c", "--model", model], work) as screen:
        screen.wait("a call of this session waits for you")
        screen.wait(BAR)
        screen.rest()
        screen.type("y")
        screen.wait("Made it.")
        screen.leave()
    assert (work / "made").exists()


def test_commands_complete_and_run_and_shift_tab_changes_the_mode(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "One."}])
    with Drawn(["--model", model], work) as screen:
        screen.wait("asks before changes")
        screen.type("/to")
        screen.wait("/todos")
        screen.type("\t")
        screen.wait("> /todos")
        screen.type("\r")
        screen.wait("There is no plan.")
        screen.type("\x1b[Z")
        screen.wait("edits without asking")
        screen.type("look at @a.t")
        screen.wait("@a.txt")
        screen.type("\t")
        screen.until(lambda: screen.input_line() == "> look at @a.txt")
        screen.type("\x15")
        screen.line("/modle")
        screen.wait("Did you mean /mode")
        screen.line("/exit")
        screen.end()
        assert screen.child.returncode == 0


def test_escapes_from_the_model_and_a_command_do_not_reach_the_terminal(work: Path) -> None:
    evil = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b31m"
    command = "printf '\\033]0;owned\\007\\033[2J'"
    replies = [{"text": f"See {evil}.", "calls": [call("Bash", command=command)]}, {"text": "Ok."}]
    with Drawn(["--model", script(work / "s.toml", replies), f"print {evil}"], work) as screen:
        screen.wait("Ok.")
        screen.leave()
        # The title is ours; nothing but plain characters is in it.
        raw = re.sub(rb"\x1b\]0;[^\x00-\x1f\x7f]*\x07", b"", screen.raw)
        for sequence in (b"\x1b]52", b"\x1b]0;", b"\x1b[2J", "\x9b".encode()):
            assert sequence not in raw


def test_history_is_kept_for_the_project_and_for_the_person_alone(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "One."}])
    with Drawn(["--model", model, "--permission-mode", "plan"], work) as screen:
        screen.ready()
        screen.type("first\\")
        screen.wait("> first\\")
        screen.type("\r")
        screen.gone("> first\\")
        screen.line("second")
        screen.wait("One.")
        screen.leave()
    (kept,) = (work.parent / "home").rglob("input.history")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text() == '"first\\nsecond"\n'
    with Drawn(["--model", model], work) as screen:
        screen.ready()
        screen.type("\x1b[A")
        screen.wait("> first\n  second")
        screen.clear()
        screen.type("\x12fir")
        screen.wait("history: fir")
        screen.type("\r")
        screen.wait("> first\n  second")
        screen.clear()
        screen.leave()


def test_a_flood_of_output_leaves_the_keys_alive_and_is_interrupted(work: Path) -> None:
    model = script(work / "s.toml", [{"calls": [call("Bash", command="yes flood")]}, {"text": "Went on."}])
    with Drawn(["--model", model, "go"], work) as screen:
        screen.wait(BAR)
        screen.rest()
        screen.type("y")
        screen.wait("  flood")
        screen.type("a draft")
        screen.wait("> a draft")
        screen.type("\x03")
        screen.wait("interrupted: say what to do instead, or continue")
        screen.gone("stopping")
        assert screen.input_line() == "> a draft"
        screen.type("\x15go on\r")
        screen.wait("Went on.")
        screen.leave()


def test_there_are_no_more_than_fifteen_frames_a_second(work: Path) -> None:
    with Drawn(["--model", script(work / "s.toml", [{**SLOW, "pause": 0.005}]), "go"], work) as screen:
        screen.wait("three")
        began, before = time.monotonic(), len(screen.raw)
        screen.wait("✓")
        frames = screen.raw[before:].count(b"\x1b[?2026h")
        assert frames <= 16 * (time.monotonic() - began) + 4
        screen.leave()


@pytest.mark.parametrize(("columns", "rows"), [(20, 6), (300, 50)])
def test_narrow_low_and_wide_windows(work: Path, columns: int, rows: int) -> None:
    model = script(work / "s.toml", [READ, EDIT, {"text": "# All\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nAll done."}])
    with Drawn(["--model", model, "please"], work, columns, rows) as screen:
        screen.until(lambda: BAR in screen.visible(), "the question")
        screen.type("please")
        screen.until(lambda: screen.input_line().endswith("please"), "the draft")
        screen.type("\x15")
        screen.until(lambda: screen.input_line().startswith("❯"), "the question")
        screen.rest()
        screen.type("y")
        screen.wait("All done.")
        screen.gone("interrupt")
        screen.leave()
    assert (work / "a.txt").read_text() == "hello there\n"


def test_a_termination_restores_the_terminal(work: Path) -> None:
    with Drawn(["--model", script(work / "s.toml", [SLOW]), "go"], work) as screen:
        screen.wait("three")
        screen.child.send_signal(signal.SIGTERM)
        screen.child.wait(10)
        while screen.read(0.1):
            pass
        assert screen.child.returncode == 143
        assert b"\x1b[?2004l" in screen.raw[-600:]


def test_a_change_is_taken_in_parts_and_the_model_learns_which(work: Path) -> None:
    (work / "f.txt").write_text("".join(f"{n}\n" for n in range(30)))
    edit = {"file_path": "f.txt", "edits": [{"old_string": f"\n{n}\n", "new_string": f"\nx{n}\n"} for n in (5, 15, 25)]}
    replies = [
        {"calls": [call("Read", file_path="f.txt")]},
        {"calls": [call("MultiEdit", **edit)]},
        {"text": "Two of three.", "expect": "said: On f.txt:13: not yet"},
    ]
    with Drawn(["--model", script(work / "s.toml", replies), "go"], work, rows=45) as screen:
        screen.wait("3 hunks")
        why = ("\x1b[B", "❯ n"), ("\t", "skip, because>"), ("not yet\r", "Apply hunk 3 of 3")
        for keys, shown in (("h", "Apply hunk 1 of 3"), ("y", "Apply hunk 2 of 3"), *why, ("y", "Two of three.")):
            screen.rest()
            screen.type(keys)
            screen.wait(shown)
        assert "✗ skipped hunk 2 of 3 of f.txt: not yet" in screen.text()
        screen.leave()
    assert [line for line in (work / "f.txt").read_text().split() if "x" in line] == ["x5", "x25"]
    [log] = (work.parent / "home/state/sessions").rglob("*.jsonl")
    made = [line for line in map(json.loads, log.read_text("utf-8").splitlines()) if line["type"] == "ApprovalResolved"]
    by_user = [line["data"] for line in made if line["data"].get("by", "person") == "person"]
    assert [(line["decision"], line["reason"]) for line in by_user] == [("approve", "On f.txt:13: not yet")]
    assert "took 2 of the 3 parts" in by_user[0]["change"]

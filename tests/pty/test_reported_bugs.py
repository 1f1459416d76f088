"""Bugs that a working day in the terminal has found, each in the real program on a screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.pty_screen import DIM, Drawn
from tests.support.scripts import bash, call, script

TOUCH = {"calls": [call("Bash", command="touch made")]}


def in_line(screen: Drawn, text: str) -> None:
    screen.until(lambda: screen.input_line().rstrip() == f"> {text}".rstrip(), f"{text!r} in the line")


@pytest.mark.parametrize("key", ["2", "y", "n"])
def test_a_key_that_came_too_soon_is_no_part_of_the_next_command(work: Path, key: str) -> None:
    (work / "notes.txt").write_text("not in git\n")
    model = script(work / "s.toml", [bash("rm notes.txt"), {"text": "All done."}])
    with Drawn(["--model", model, "please"], work) as screen:
        screen.wait("Esc no")
        screen.type(key)
        screen.wait("too quick to be an answer")
        screen.until(lambda: f"> {key}" not in screen.visible(), "the end of the key in the line")
        screen.type("/cost")
        in_line(screen, "/cost")
        screen.type("\r")
        screen.wait("session: ")
        screen.rest()
        screen.type("q")
        screen.until(lambda: "Esc no" in screen.visible(), "the question")
        assert (work / "notes.txt").exists()
        screen.rest()
        screen.type("y")
        screen.wait("All done.")
        assert not (work / "notes.txt").exists()
        screen.leave()


def test_a_letter_at_undo_counts_once_the_question_was_seen_for_a_second(work: Path) -> None:
    write = {"calls": [call("Write", file_path="new.txt", content="one\n")]}
    model = script(work / "s.toml", [write, {"text": "Written."}])
    with Drawn(["--model", model, "--permission-mode", "acceptEdits", "please"], work) as screen:
        screen.wait("✓ ")
        screen.line("/undo")
        screen.wait("Esc no")
        screen.type("y")
        screen.wait("too quick to be an answer")
        assert (work / "new.txt").exists()
        screen.rest(1.5)
        screen.type("y")
        screen.wait("Reverted 1 file.")
        assert not (work / "new.txt").exists()
        screen.line("/redo")
        screen.wait("Redo?")
        screen.wait("re-apply 1 file")
        screen.rest(1.5)
        screen.type("y")
        screen.wait("Re-applied 1 file.")
        assert (work / "new.txt").read_text() == "one\n"
        screen.leave()


def test_a_new_session_keeps_the_model_and_the_mode(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "Hello."}])
    script(work / "other.toml", [{"text": "From the other."}])
    other = "scripted:other.toml"
    with Drawn(["--model", model], work, columns=200) as screen:
        screen.ready()
        screen.line(f"/model {other}")
        screen.until(lambda: "other.toml" in screen.visible().splitlines()[-1], "the other model")
        screen.type("\x1b[Z")
        screen.until(lambda: "edits without asking" in screen.visible().splitlines()[-1], "the mode")
        screen.line("/clear")
        screen.rest()
        last = screen.visible().splitlines()[-1]
        assert "edits without asking" in last and "other.toml" in last
        screen.line("hi")
        screen.wait("From the other.")
        screen.leave()


def test_what_a_long_command_asks_for_is_explained_in_place(work: Path) -> None:
    command = "\n".join(f"echo line {number}" for number in range(40)) + "\ntouch made"
    model = script(work / "s.toml", [bash(command), {"text": "All done."}])
    with Drawn(["--model", model, "please"], work, columns=80, rows=24) as screen:
        screen.wait("Esc no")
        screen.rest()
        screen.type("?")
        screen.until(lambda: "asked, as" in screen.visible(), "the explanation")
        assert "no rule allows" in screen.visible() and "this once" in screen.visible()
        screen.type("\x1b")
        screen.gone("asked, as")
        screen.rest()
        screen.type("n")
        screen.wait("All done.")
        screen.leave()


def test_a_check_that_failed_is_named_though_another_passed(work: Path) -> None:
    test = "import unittest\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.assertTrue(%s)\n"
    (work / "test_good.py").write_text(test % "True")
    (work / "test_bad.py").write_text(test % "False")
    write = {"calls": [call("Write", file_path="new.txt", content="one\n")]}
    runs = [bash("python3 -m unittest -q test_bad"), bash("python3 -m unittest -q test_good")]
    model = script(work / "s.toml", [write, *runs, {"text": "test_bad fails: test_it is False. The other passes."}])
    args = ["--permission-mode", "acceptEdits", "--allowedTools", "Bash(python3:*)"]
    with Drawn(["--model", model, *args, "please"], work, columns=160) as screen:
        screen.wait("✓ ")
        screen.wait("repair what the failed check reports")
        end = screen.text().rpartition("✓ ")[2]
        assert "not verified" in end and "test_bad failed" in end and "`" not in end
        screen.leave()


def test_a_hunk_that_begins_in_a_docstring_has_the_colours_of_its_place(work: Path) -> None:
    lines = ['"""A long', *(f"text of line {number}" for number in range(6)), '"""', "", "x = 1", "y = 2"]
    (work / "a.py").write_text("\n".join(lines) + "\n")
    edit = call("Edit", file_path="a.py", old_string="x = 1", new_string="x = 3")
    model = script(work / "s.toml", [{"calls": [call("Read", file_path="a.py")]}, {"calls": [edit]}, {"text": "Done."}])
    with Drawn(["--model", model, "please"], work, COLORTERM="truecolor", AGENT_TERMINAL_THEME="dark") as screen:
        screen.wait("Esc no")
        shown = screen.screen

        def colour(text: str, of: str) -> str:
            row = next(y for y, line in enumerate(shown.display) if text in line)
            return str(shown.buffer[row][shown.display[row].index(of)].fg).removeprefix(DIM)

        assert colour("text of line 5", "text") != colour("y = 2", "y"), "code is not the rest of a string"
        screen.rest()
        screen.type("n")
        screen.wait("Done.")
        screen.leave()


def test_left_goes_over_an_emoji_with_its_colour_as_a_whole(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "Seen."}])
    with Drawn(["--model", model], work) as screen:
        screen.ready()
        screen.type("ok 👍🏽")
        screen.until(lambda: "👍" in screen.input_line(), "the emoji")
        screen.type("\x1b[D")
        screen.type("X")
        screen.until(lambda: "ok X" in screen.input_line(), "the letter before it")
        screen.type("\r")
        screen.wait("Seen.")
        screen.leave()
    [log] = (work.parent / "home/state/sessions").rglob("*.jsonl")
    assert "ok X👍🏽" in json.dumps([json.loads(line) for line in log.read_text().splitlines()], ensure_ascii=False)

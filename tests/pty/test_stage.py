"""Staged turns in the application: one panel at the end of a turn, and `/stage` to begin and leave."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_tools.sandbox.bwrap import find_bwrap
from tests.support.pty_screen import GRAVE_REST, Drawn
from tests.support.repositories import git
from tests.support.scripts import call, script

pytestmark = pytest.mark.skipif(
    find_bwrap({"PATH": os.environ["PATH"]}) is None, reason="NOT TESTED: bubblewrap is not installed"
)
LINES = "".join(f"line {n}\n" for n in range(30))
WORK = {"calls": [call("Bash", command="sed -i 's/^line 2$/two/; s/^line 20$/twenty/' a.txt; echo made > made.txt")]}
AGAIN = {"expect": "only the first", "calls": [call("Bash", command="sed -i 's/^twenty$/line 20/' a.txt")]}


@pytest.fixture
def project(work: Path) -> Path:
    (work / "a.txt").write_text(LINES)
    git(work, "init", "-q")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "first")
    return work


def begin(work: Path, *replies: dict[str, object], stage: bool = True) -> list[str]:
    return [*(["--stage"] if stage else []), "--trust", "--model", script(work.parent / "s.toml", list(replies))]


def drawn_in(work: Path, *replies: dict[str, object], stage: bool = True) -> Drawn:
    return Drawn(begin(work, *replies, stage=stage), work, rows=40)


def test_a_turn_is_sent_back_applied_and_undone(project: Path) -> None:
    with drawn_in(project, WORK, {"text": "Done."}, AGAIN, {"text": "Only the first."}) as drawn:
        drawn.ready()
        drawn.wait("works in a copy, asks at the end")
        drawn.line("change it")
        drawn.wait("Apply 2 changes to your project?")
        assert "ran: sed -i" in drawn.visible() and "+twenty" in drawn.visible().replace(" ", "")
        drawn.rest()
        drawn.type("\x1b")  # does not discard
        drawn.wait("Esc back")
        drawn.line("only the first")
        drawn.wait("Only the first.")
        drawn.wait("Apply 2 changes to your project?")
        assert (project / "a.txt").read_text() == LINES
        drawn.rest(GRAVE_REST)
        drawn.type("y")
        drawn.wait("● Apply 2 files")
        drawn.until(lambda: (project / "made.txt").exists(), "the file")
        assert (project / "a.txt").read_text() == LINES.replace("line 2\n", "two\n")
        drawn.line("/undo")
        drawn.wait("Undo?")
        drawn.rest(GRAVE_REST)
        drawn.type("y")
        drawn.wait("Reverted 2 files.")
        assert git(project, "status", "--short") == ""
        drawn.leave()
    assert not list((project.parent / "home" / "state" / "stages").glob("*/*/stage.json"))


def test_a_stage_is_begun_and_left_in_a_session(project: Path) -> None:
    with drawn_in(project, WORK, {"text": "Done."}, {"text": "I see it."}, stage=False) as drawn:
        drawn.ready()
        drawn.line("/stage")
        drawn.wait("works in a copy, asks at the end")
        drawn.line("change it")
        drawn.wait("Apply 2 changes to your project?")
        drawn.rest(GRAVE_REST)
        drawn.type("n")
        drawn.wait("iscarded: the files stay in")
        assert git(project, "status", "--short") == ""
        drawn.line("/stage")
        drawn.until(lambda: drawn.visible().rstrip().splitlines()[-1].startswith("asks before changes"), "the end")
        drawn.wait("iscarded: the files stay in")
        drawn.leave()


def test_what_an_interrupted_turn_changed_is_applied_by_a_command(project: Path) -> None:
    slow = {"text": "words " * 50, "pause": 0.2}
    with drawn_in(project, WORK, slow) as drawn:
        drawn.ready()
        drawn.wait("works in a copy")
        drawn.line("change it")
        drawn.wait("words")
        drawn.type("\x1b")
        drawn.wait("interrupted")
        drawn.line("/stage")
        drawn.wait("The copy has 2 changes: /stage apply or /stage discard first.")
        drawn.line("/stage apply")
        drawn.wait("Apply 2 changes?")
        drawn.rest(GRAVE_REST)
        drawn.type("y")
        drawn.wait("Applied: a.txt, made.txt.")
        assert (project / "made.txt").exists()
        drawn.leave()


def test_the_question_names_the_only_file_that_was_changed(project: Path) -> None:
    write = {"calls": [call("Write", file_path="new.txt", content="one\n")]}
    with drawn_in(project, write, {"text": "Done."}) as drawn:
        drawn.wait("works in a copy, asks at the end")
        drawn.line("make it")
        drawn.wait("Apply 1 change to your project: new.txt?")

"""A review gate at which the user takes back what was done since their last look."""

from __future__ import annotations

from pathlib import Path

from tests.support.file_trees import tree_of
from tests.support.program import agent
from tests.support.scripts import call, script
from tests.support.session_logs import sent

FLAGS = ["--trust", "--permission-mode", "acceptEdits", "--allowedTools", "Bash(rm a.txt)", "--settings"]
FILES = 'review = "files"'
FIRST = {"calls": [call("Write", file_path="one.txt", content="1\n"), call("Bash", command="rm a.txt")]}
NEXT = {"calls": [call("Write", file_path="two.txt", content="2\n")]}
AGAIN = {"calls": [call("Write", file_path="one.txt", content="better\n")]}


def talk(work: Path, replies: list[dict[str, object]], *lines: str) -> str:
    model = script(work.parent / "s.toml", replies)
    done = agent([*FLAGS, FILES, "--plain", "--model", model], work, stdin="".join(f"{line}\n" for line in lines))
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    return done.stdout


def answers(work: Path) -> list[str]:
    """What the calls were answered."""
    return [text for text in sent(work) if "undid the changes" in text]


def test_what_was_done_since_the_last_look_is_taken_back_and_the_model_is_informed(work: Path) -> None:
    before = tree_of(work)
    found = talk(work, [FIRST, NEXT, {"text": "Stopped."}], "go", "u start smaller", "/exit")
    assert "u: undo this" in found
    assert "Restored: create again: a.txt; delete: one.txt." in found
    assert tree_of(work) == before
    (shown,) = answers(work)
    assert "Not run: the user reviewed the work so far and undid the changes." in shown
    assert "delete: one.txt" in shown and "They said: start smaller" in shown


def test_what_changed_is_in_the_question_with_what_commands_did(work: Path) -> None:
    found = talk(work, [FIRST, NEXT, {"text": "Stopped."}], "go", "n")
    shown = found[found.index("and 1 other file were changed.") : found.index("u: undo this")]
    assert "2 files changed, +1 -1\n" in shown
    assert "one.txt (new file, +1 -0)\n  1 +1\n" in shown
    assert "a.txt (change, +0 -1)\n    (deleted)\n" in shown and "1 -hello world\n" in shown


def test_commands_work_while_the_question_is_open(work: Path) -> None:
    lines = ["go", "/diff", "/cost", "/status", "/todos", "/undo", "/exit", "y"]
    found = talk(work, [FIRST, NEXT, {"text": "Went on."}], *lines)
    asked = found[found.index("Continue?") : found.index("Went on.")]
    assert "one.txt (new file, +1 -0)" in asked
    assert "session: " in asked and "There is no plan." in asked
    assert "/undo cannot run while a question is open" in asked and "/exit cannot run" in asked
    assert (work / "two.txt").exists() and (work / "one.txt").exists()


def test_the_next_try_stands_and_the_turn_is_undone_as_a_whole_and_made_again(work: Path) -> None:
    before = tree_of(work)
    found = talk(work, [FIRST, NEXT, AGAIN, {"text": "Better."}], "go", "u", "y", "/diff", "/undo", "1", "/redo", "1")
    assert "one.txt (new file, +1 -0)" in found and "changed by someone else" not in found
    assert "Reverted 1 file." in found and "Re-applied 1 file." in found
    assert (work / "one.txt").read_text() == "better\n"
    assert tree_of(work).keys() - before.keys() == {str(work / "one.txt")}


def test_redo_brings_back_what_the_gate_took(work: Path) -> None:
    talk(work, [FIRST, NEXT, {"text": "Stopped."}], "go", "u", "/redo", "1")
    assert (work / "one.txt").read_text() == "1\n" and not (work / "a.txt").exists()


def test_at_the_end_of_a_turn_the_model_goes_on_with_what_it_is_reported(work: Path) -> None:
    before = tree_of(work)
    talk(work, [FIRST, {"text": "Done."}, {"text": "I see.", "expect": "I undid the changes. Restored"}], "go", "u")
    assert tree_of(work) == before


def test_what_the_person_changed_since_is_left_and_reported(work: Path) -> None:
    model = script(work.parent / "s.toml", [FIRST, NEXT, {"text": "Stopped."}])
    waits = agent([*FLAGS, FILES, "-p", "--on-ask", "suspend", "--model", model, "go"], work)
    assert waits.returncode == 3, waits.stderr
    (work / "one.txt").write_text("mine\n")
    done = agent(["reject", "--undo", "--why", "no"], work)
    assert done.stdout == "Stopped.\n", done.stderr
    assert "Not restored: delete: one.txt (was changed since)" in done.stderr
    assert (work / "a.txt").exists() and (work / "one.txt").read_text() == "mine\n"
    assert "They said: no" in answers(work)[0]


def test_only_a_review_can_be_undone(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"calls": [call("Bash", command="make")]}, {"text": "Ok."}])
    agent(["-p", "--on-ask", "suspend", "--model", model, "go"], work)
    done = agent(["reject", "--undo"], work)
    assert done.returncode == 2 and "is no review, so there is nothing to undo" in done.stderr


def test_a_turn_that_began_in_plan_mode_is_named_by_the_users_words(work: Path) -> None:
    plan = {"calls": [call("ExitPlanMode", plan="Write it", steps=["write one.txt", "and look"])]}
    replies = [plan, FIRST, {"text": "One done."}, {"text": "Stopped."}]
    model = script(work.parent / "s.toml", replies)
    lines = ["make one.txt", "y acceptEdits", "/undo", "3", "/cost", "/rewind", ""]
    flags = [
        "--trust",
        "--allowedTools",
        "Bash(rm a.txt)",
        "--permission-mode",
        "plan",
        "--settings",
        "plan_nudges = 1",
    ]
    done = agent([*flags, "--plain", "--model", model], work, stdin="".join(f"{line}\n" for line in lines))
    assert "The turn: make one.txt\n" in done.stdout, done.stdout
    assert "1. make one.txt" in done.stdout
    assert "plan_mode" not in done.stdout and "Plan mode is on" not in done.stdout
    assert [text for text in sent(work) if "Goal: make one.txt\nPlan:" in text]

"""/undo, /redo, /rewind and /diff in the session, line by line."""

from __future__ import annotations

from pathlib import Path

from tests.support.file_trees import tree_of
from tests.support.program import agent
from tests.support.scripts import bash, call, script

REPLIES = [
    {"calls": [call("Write", file_path="one.txt", content="1\n")]},
    {"text": "Done."},
    {"calls": [call("Bash", command="rm a.txt && echo 2 > two.txt")]},
    {"text": "Done."},
]
FLAGS = ["--plain", "--trust", "--permission-mode", "acceptEdits", "--allowedTools", "Bash(rm a.txt)"]


def talk(work: Path, *lines: str, path: str = "", more: tuple[str, ...] = ()) -> str:
    model = script(work.parent / "s.toml", REPLIES * 2)
    env = {"PATH": path} if path else {}
    done = agent([*more, *FLAGS, "--model", model], work, env, stdin="".join(f"{line}\n" for line in lines))
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    return done.stderr + done.stdout


def test_the_last_turn_is_undone_and_made_again(work: Path) -> None:
    before = tree_of(work)
    found = talk(
        work, "first", "second", "/diff last", "/undo", "1", "/redo", "1", "/undo", "yes", "/undo", "1", "/undo"
    )
    assert "two.txt (new file, +1 -0)" in found
    assert "create again: a.txt" in found and "delete: two.txt" in found
    assert found.count("Reverted ") == 3 and "Re-applied 2 files." in found
    assert found.rstrip().count("There is nothing to undo.") == 1
    assert tree_of(work) == before


def test_what_a_redo_could_not_bring_back_is_asked_about(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"calls": [call("Bash", command="truncate -s 210M z")]}, {"text": "A."}])
    agent(["-p", "--model", model, "--trust", "--permission-mode", "bypassPermissions", "go"], work)
    left = agent(["undo", "--yes"], work)
    assert left.returncode == 1 and "delete: z (too large for redo to restore)" in left.stdout, left.stdout
    assert (work / "z").exists()
    assert agent(["undo", "--yes", "--force"], work).returncode == 0
    assert not (work / "z").exists()


def test_undo_lists_what_it_keeps(work: Path) -> None:
    (work / ".gitignore").write_text(".env\n")
    (work / ".env").write_text("KEY=1\n")
    before = tree_of(work)
    model = script(work.parent / "s.toml", [bash("rm .gitignore"), {"text": "Done."}])
    done = agent(["--plain", "--trust", "--permission-mode", "bypassPermissions", "--model", model], work,
                 stdin="go\n/undo\n1\n")  # fmt: skip
    assert "  keep: .env (ignored by git before the turn)" in done.stdout, done.stderr
    assert "Reverted 1 file." in done.stdout and tree_of(work) == before


def test_a_refusal_changes_nothing(work: Path) -> None:
    found = talk(work, "first", "/undo", "3", "/undo", "2", "n", "/undo", "3")
    assert (work / "one.txt").read_text() == "1\n"
    assert found.count("The turn: first") == 3 and "Reverted " not in found


def test_going_back_to_a_message_takes_conversation_and_files_along(work: Path) -> None:
    before = tree_of(work)
    found = talk(work, "first", "second", "/rewind", "2", "1", "1", "/rewind")
    assert "since then: 2 files created, 1 deleted" in found
    assert (
        "The conversation continues from before: first" in found and "There is no message to go back to yet." in found
    )
    assert tree_of(work) == before
    again = agent(["-p", "--continue", "--model", script(work.parent / "n.toml", [{"text": "new"}]), "anew"], work)
    assert again.stdout == "new\n", again.stderr


def test_the_conversation_goes_back_where_files_cannot(work: Path) -> None:
    found = talk(work, "first", "/rewind", "1", "/rewind", path="/nonexistent")
    assert "Only the conversation can go back. There are no snapshots for undo: git is not installed." in found
    assert (
        "The conversation continues from before: first" in found and "There is no message to go back to yet." in found
    )
    assert (work / "one.txt").exists()


def test_what_was_taken_back_is_reported_so_and_not_shown_as_the_end(work: Path) -> None:
    talk(work, "first", "second", "/rewind", "1", "2")
    found, exported = agent(["show"], work).stdout, agent(["sessions", "export"], work).stdout
    note = "undone: the user continued from before this"
    assert found.count(note) == 1 and found.index("> second") < found.index(note)
    assert "the user went back to before: second" in exported
    shown = talk(work, more=("-c",))
    assert "> first" in shown and "> second" not in shown


def test_the_plan_goes_back_with_the_conversation(work: Path) -> None:
    def plan(*steps: str) -> dict[str, object]:
        return {"calls": [call("TodoWrite", todos=[{"content": s, "status": "completed"} for s in steps])]}

    replies = [plan("sow"), {"text": "Sown."}, plan("reap"), {"text": "Reaped."}]
    model = script(work.parent / "s.toml", replies)
    flags = ["--plain", "--model", model]
    found = agent(flags, work, stdin="first\nsecond\n/rewind\n1\n2\n/todos\n").stdout
    assert found.rindex("sow") > found.index("The conversation continues from before: second")
    again = agent([*flags, "-c"], work, stdin="/todos\nsecond\n/rewind\n1\n2\n/todos\n").stdout
    assert again.index("sow") < again.index("reap"), "and in a session that is gone on with"
    assert again.rindex("sow") > again.index("The conversation continues from before: second") > again.index("reap")
    forked = agent([*flags, "-c", "--fork-session"], work, stdin="second\n/rewind\n1\n2\n/todos\n").stdout
    assert forked.rindex("sow") > forked.index("The conversation continues from before: second")


def test_only_the_conversation_goes_back(work: Path) -> None:
    found = talk(work, "first", "<b>second</b>", "/rewind", "1", "2")
    assert "1. <b>second</b>" in found and "The conversation continues from before: <b>second</b>" in found
    assert (work / "two.txt").exists() and not (work / "a.txt").exists()

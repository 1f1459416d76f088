"""`agent undo` and `agent why`, after runs of the real program."""

from __future__ import annotations

from pathlib import Path

from tests.support.file_trees import tree_of
from tests.support.program import agent
from tests.support.scripts import bash, call, script


def test_agent_undo_takes_back_what_a_run_did(repository: Path) -> None:
    before = tree_of(repository)
    replies = [
        {"calls": [call("Bash", command="rm b.txt; echo x > new.txt")]},
        {"calls": [call("Write", file_path="w.txt", content="w\n")]},
        {"text": "Done."},
    ]
    model = script(repository.parent / "s.toml", replies)
    rules = ["--allowedTools", "Bash(*)", "Write"]
    done = agent(
        ["-p", "--model", model, "--trust", *rules, "--permission-mode", "acceptEdits", "--", "go"], repository
    )
    assert (repository / "new.txt").exists() and (repository / "w.txt").exists(), done.stderr
    listed = agent(["undo", "--list"], repository)
    assert "2 files created, 1 deleted: go" in listed.stdout
    refused = agent(["undo"], repository)
    assert refused.returncode == 2 and "--yes" in refused.stderr
    one = agent(["undo", "--yes", "--file", "new.txt"], repository)
    assert one.returncode == 0 and not (repository / "new.txt").exists(), one.stderr
    assert "1 file created, 1 deleted: go" in agent(["undo", "--list"], repository).stdout, "the rest still stands"
    assert agent(["undo", "--redo", "--yes"], repository).returncode == 0
    assert (repository / "new.txt").exists()
    assert "2 files created, 1 deleted: go" in agent(["undo", "--list"], repository).stdout
    assert agent(["undo", "--yes", "--file", "w.txt"], repository).returncode == 0
    assert not (repository / "w.txt").exists() and (repository / "new.txt").exists()
    assert agent(["undo", "--yes"], repository).returncode == 0
    assert tree_of(repository) == before
    nothing = agent(["undo", "--yes"], repository)
    assert (nothing.returncode, nothing.stderr) == (2, "agent: There is nothing to undo in this session.\n")


def test_agent_undo_lists_what_it_keeps(repository: Path) -> None:
    (repository / ".gitignore").write_text(".env\ndata/\n")
    (repository / ".env").write_text("KEY=1\n")
    (repository / "data").mkdir()
    (repository / "data/r.csv").write_text("1\n")
    before = tree_of(repository)
    model = script(repository.parent / "s.toml", [bash("rm .gitignore; echo x > new.txt"), {"text": "Done."}])
    agent(["-p", "--model", model, "--trust", "--permission-mode", "bypassPermissions", "go"], repository)
    done = agent(["undo", "--yes"], repository)
    assert done.returncode == 0 and "Restored 2 files." in done.stdout, done.stderr
    assert "  keep: .env (ignored by git before the turn)\n  keep: data/ (ignored" in done.stdout
    assert tree_of(repository) == before


def test_agent_why_says_which_turn_wrote_a_line(repository: Path) -> None:
    replies = [
        {"calls": [call("Write", file_path="w.py", content="first = 1\nsecond = 2\n")]},
        {"text": "Done."},
        {"calls": [call("Edit", file_path="w.py", old_string="second = 2", new_string="new = 0\nsecond = 3")]},
        {"text": "Done."},
    ]
    model = script(repository.parent / "s.toml", replies)
    for prompt, more in (("write it", ()), ("now three", ("--continue",))):
        agent(["-p", "--model", model, *more, "--permission-mode", "acceptEdits", "--", prompt], repository)
    (repository / "w.py").write_text("# mine\n" + (repository / "w.py").read_text())
    asked = {n: agent(["why", f"w.py:{n}"], repository) for n in (1, 2, 3, 4)}
    assert asked[1].returncode == 1 and "No stored session wrote this line" in asked[1].stdout
    assert "asked: write it" in asked[2].stdout and f"written by {model} in turn 1" in asked[2].stdout
    assert all("asked: now three" in asked[n].stdout and "in turn 2" in asked[n].stdout for n in (3, 4))
    (repository / "one.py").write_text("x = 1\n")
    assert "one.py has 1 line." in agent(["why", "one.py:9"], repository).stderr
    wrong = agent(["why", "w.py"], repository)
    assert (wrong.returncode, wrong.stderr) == (2, "agent: Name a line, as in: agent why src/app.py:42\n")

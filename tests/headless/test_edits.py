"""Edits in one-shot runs: several files at once, and the formatter of the user's own settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.program import agent
from tests.support.scripts import call, script


def both(old: str, new: str) -> dict[str, Any]:
    edits = [{"file_path": name, "old_string": old, "new_string": new} for name in ("a.txt", "b.txt")]
    return call("MultiEdit", edits=edits)


def read() -> dict[str, Any]:
    return {"calls": [call("Read", file_path="a.txt"), call("Read", file_path="b.txt")]}


def test_edits_of_several_files_wait_with_all_their_changes(work: Path) -> None:
    (work / "b.txt").write_text("hello b\n")
    model = script(
        work / "s.toml", [read(), {"calls": [both("hello", "bye")]}, {"text": "Done.", "expect": "in 2 files"}]
    )
    done = agent(["-p", "--model", model, "--on-ask", "suspend", "do it"], work)
    assert done.returncode == 3, done.stderr
    waiting = agent(["pending"], work).stdout
    for line in ("a.txt", "-hello world", "+bye world", "b.txt", "-hello b", "+bye b"):
        assert f"      {line}\n" in waiting
    approved = agent(["approve"], work)
    assert (approved.returncode, approved.stdout) == (0, "Done.\n"), approved.stderr
    assert "Edit a.txt, b.txt (2 edits) (2 files)" in approved.stderr
    assert (work / "a.txt").read_text() == "bye world\n" and (work / "b.txt").read_text() == "bye b\n"


def test_the_users_formatter_runs_and_a_projects_does_not(work: Path) -> None:
    (work / ".agentrc").write_text('after_edit = {"*" = "touch evil"}\n')
    own = work.parent / "own.toml"
    own.write_text('[after_edit]\n"*.txt" = "echo formatted >> {file}"\n')
    edit = call("Edit", file_path="a.txt", old_string="hello", new_string="bye")
    replies = [
        {"calls": [call("Read", file_path="a.txt")]},
        {"calls": [edit]},
        {"text": "Done.", "expect": "+formatted"},
    ]
    flags = ["--permission-mode", "acceptEdits"]
    done = agent(["-p", "--model", script(work / "s.toml", replies), "--settings", str(own), *flags, "do it"], work)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert (work / "a.txt").read_text() == "bye world\nformatted\n"
    assert "after_edit can only be set in your own settings" in done.stderr
    done = agent(["tools", "run", "Write", '{"file_path": "c.txt", "content": "x"}', *flags], work)
    assert done.returncode == 0 and not (work / "evil").exists(), done.stderr

"""An undo that is killed leaves nothing behind that the next start does not remove."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.undo.store import remove_leftovers
from tests.support.program import agent, clean_env
from tests.support.scripts import call, script

# The program as it is, but for a kill -9 at the n-th rename of a temporary file into its place.
KILLED = """
import os, signal, sys
rename, left = os.rename, [int(sys.argv.pop(1))]
def killed(old, new, **how):
    if str(old).startswith(".agent-"):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
    return rename(old, new, **how)
os.rename = killed
from agent_cli.__main__ import main
sys.exit(main())
"""
NAMES = ("a.txt", "sub/b.txt", "sub/deep/c.txt")


def leftovers(work: Path) -> list[Path]:
    return list(work.rglob(".agent-*.tmp"))


@pytest.fixture
def changed(work: Path) -> Path:
    """A session whose turn changed files in three folders."""
    for name in NAMES:
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("before\n")
    command = " && ".join(f"echo after > {name}" for name in NAMES)
    model = script(work.parent / "s", [{"calls": [call("Bash", command=command)]}, {"text": "Done."}])
    done = agent(["-p", "--model", model, "--trust", "--allowedTools", "Bash", "go"], work)
    assert done.returncode == 0 and (work / "sub/b.txt").read_text() == "after\n", done.stderr
    return work


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_the_next_start_removes_the_temporary_files_of_a_killed_undo(changed: Path, nth: int) -> None:
    env = clean_env(changed.parent / "home")
    done = subprocess.run([sys.executable, "-c", KILLED, str(nth), "undo", "--yes"], cwd=changed, env=env, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(leftovers(changed)) == 1
    model = script(changed.parent / "t", [{"text": "Hi."}])
    mine = changed / ".agent-0123456789abcdef.tmp"
    mine.write_text("of somebody else")
    assert agent(["-p", "--continue", "--model", model, "hi"], changed).returncode == 0
    assert leftovers(changed) == [mine]
    assert agent(["undo", "--yes", "--force"], changed).returncode == 0
    assert [(changed / name).read_text() for name in NAMES] == ["before\n"] * 3
    assert leftovers(changed) == [mine]


def test_an_undo_that_ends_leaves_no_note(changed: Path) -> None:
    assert agent(["undo", "--yes"], changed).returncode == 0
    assert not list((changed.parent / "home/state/snapshots").rglob("restoring"))


@pytest.mark.parametrize(
    "note",
    ["", "[]", '{"name": "a.txt", "folders": ["WORK"]}', '{"name": "../work/a.txt", "folders": ["WORK/sub"]}',
     '{"name": ".agent-0123456789abcdef.tmp", "folders": ["LINK", "\\u0000", 3]}'],
)  # fmt: skip
def test_a_damaged_note_removes_nothing_else(work: Path, tmp_path: Path, note: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".agent-0123456789abcdef.tmp").write_text("x")
    (work / "link").symlink_to(outside)
    (tmp_path / "restoring").write_text(note.replace("WORK", str(work)).replace("LINK", str(work / "link")))
    remove_leftovers(tmp_path)
    assert (work / "a.txt").exists() and (outside / ".agent-0123456789abcdef.tmp").exists()
    assert not (tmp_path / "restoring").exists()

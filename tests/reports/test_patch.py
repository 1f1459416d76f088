"""`--patch FILE`: the change as a patch, the tree as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.program import agent
from tests.support.repositories import git
from tests.support.scripts import bash, call, script


@pytest.fixture
def repository(root: Path) -> Path:
    git(root, "init", "-q", ".")
    (root / "gone.txt").write_text("x")
    (root / ".gitignore").write_text("*.log\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    (root / "a.txt").write_text("hello world\nnot committed\n")
    (root / "new.sh").write_text("echo new\n")
    (root / "x.log").write_text("ignored\n")
    return root


def state(root: Path) -> dict[str, object]:
    files = {p.name: (p.read_bytes(), p.stat().st_mode) for p in root.iterdir() if p.is_file()}
    return {**files, "status": git(root, "status", "--porcelain"), "branches": git(root, "branch", "-a"),
            "worktrees": git(root, "worktree", "list")}  # fmt: skip


CHANGE = (
    "printf '\\0\\1\\377' > bin; rm gone.txt; chmod +x new.sh; echo more >> a.txt; echo y > y.log; git commit -qam c"
)


def run(root: Path, *more: str, replies: list[dict[str, object]] | None = None) -> tuple[int, str]:
    edit = call("Write", file_path="sub/n.txt", content="n\n")
    usual = [{"calls": [edit]}, bash(f"{CHANGE}; git commit -qam c || true"), {"text": "Done."}]
    model = script(root.parent / "s.toml", replies or usual)
    patch = str(root.parent / "p.patch")
    done = agent(["-p", "--model", model, "--permission-mode", "acceptEdits", "--allowedTools", "Bash",
                  "--patch", patch, *more, "go"], root)  # fmt: skip
    return done.returncode, done.stderr


def test_the_tree_stays_and_the_patch_applies(repository: Path) -> None:
    before = state(repository)
    code, err = run(repository)
    assert code == 0, err
    assert state(repository) == before
    assert "Not in the copy, as git ignores it: x.log" in err and "Not in the patch, as git ignores it: y.log" in err
    git(repository, "apply", str(repository.parent / "p.patch"))
    assert (repository / "bin").read_bytes() == b"\0\1\xff"
    assert (repository / "a.txt").read_text() == "hello world\nnot committed\nmore\n"
    assert not (repository / "gone.txt").exists() and os.access(repository / "new.sh", os.X_OK)
    assert (repository / "sub/n.txt").read_text() == "n\n"


def test_a_run_that_fails_writes_its_patch_and_leaves_nothing(repository: Path) -> None:
    before = state(repository)
    code, err = run(repository, "--max-turns", "1", replies=[bash("echo z > z.txt"), {"text": "Never."}])
    assert code == 4, err
    assert "Stopped by a limit (max_turns)" in err or "Stopped by a limit (max_rounds)" in err
    assert "agent -c" not in err, "the copy is gone"
    assert state(repository) == before
    assert "z.txt" in (repository.parent / "p.patch").read_text()


def test_no_change_is_an_empty_patch(repository: Path) -> None:
    code, err = run(repository, replies=[{"text": "Nothing to do."}])
    assert code == 0 and "Nothing was changed" in err
    assert (repository.parent / "p.patch").read_bytes() == b""


@pytest.mark.parametrize("flag", [("--worktree",), ("-c",), ("--on-ask", "suspend")])
def test_what_does_not_go_with_a_copy_is_refused(repository: Path, flag: tuple[str, ...]) -> None:
    code, err = run(repository, *flag)
    assert code == 2 and "leave out" in err


def test_a_folder_without_git_is_refused(root: Path) -> None:
    code, err = run(root)
    assert code == 2 and "is not a git repository" in err

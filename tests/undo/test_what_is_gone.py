"""Undo where the repository, or what is kept beside it, has gone or was damaged meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agent_cli.undo.recorder import Recorder
from tests.support.file_trees import tree_of
from tests.support.repositories import git
from tests.support.undo_sessions import Session, make


@pytest.fixture
def repository(root: Path) -> Path:
    return make(root, "plain")


@pytest.mark.parametrize("kind", ["amended", "chmod", "gone", "gone_itself", "another"])
def test_work_is_undone_whatever_became_of_the_repository(repository: Path, kind: str) -> None:
    (repository / "d").mkdir()
    (repository / "d/f").write_text("deep\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "second")
    before, session = tree_of(repository), Session(repository)
    if kind == "amended":
        session.run("rm a.txt; echo x > d/g")
        git(repository, "add", "-A")
        git(repository, "commit", "-q", "--amend", "-m", "other")
        git(repository, "reflog", "expire", "--expire=now", "--all")
        git(repository, "gc", "-q", "--prune=now")
    elif kind == "chmod":
        session.run("chmod 600 d/f")
        shutil.rmtree(repository / ".git")
    elif kind == "gone":
        session.run("rm -rf .git a.txt d")
    else:
        session.run("echo 1 > new.txt; rm new.txt")
        shutil.rmtree(repository / ".git")
        if kind == "another":
            git(repository, "init", "-q")
        session.run("rm -r a.txt d")
    assert session.notes == []
    assert session.undo()[0] == []
    assert tree_of(repository) == before


def test_named_files_survive_the_repository_where_the_folder_is_not_looked_at(repository: Path) -> None:
    session = Session(repository)
    session.where = session.where.replace(home=str(repository))
    session.recorder = Recorder(session.where, str, lambda: "m")
    session.run("rm -rf .git a.txt b.txt")
    assert session.notes == [] and session.undo()[0] == []
    assert (repository / "a.txt").read_text() == "one\n" and (repository / "b.txt").exists()


@pytest.mark.parametrize("kind", ["repository", "none"])
@pytest.mark.parametrize("left", [b"", b"garbage", None])
def test_an_index_that_was_damaged_is_made_anew(root: Path, kind: str, left: bytes | None) -> None:
    if kind == "repository":
        make(root, "staged")
    before = tree_of(root)
    session = Session(root)
    session.run("echo 1 > c.txt; rm c.txt")
    [index] = (p for p in session.where.folder.glob("index-*") if p.name != "index-named" and not p.suffix)
    index.write_bytes(index.read_bytes()[:-40] if left is None else left)
    again = Session(root)
    again.count = session.count
    again.run("rm a.txt b.txt")
    assert again.notes == []
    assert again.undo()[0] == []
    assert tree_of(root) == before

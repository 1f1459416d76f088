"""Much to record: the first snapshot of many files, and sessions of many turns."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent_cli.undo.git_store import Git, find_snapshot_git
from agent_cli.undo.manifest import After, Before, Manifest, RecordedTurn
from agent_cli.undo.scanner import FileModes, Scanner, SizeLimits
from tests.support.file_trees import tree_of
from tests.support.undo_sessions import Session, make

COUNT = 600


@pytest.mark.parametrize("kind", ["none", "plain"])
def test_many_new_files_are_stored_in_a_pack_and_restored(root: Path, kind: str) -> None:
    make(root, kind)
    for number in range(COUNT):
        folder = root / f"d{number % 7}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{number}").write_bytes(b"\0\n" * number + b"data 3\n")
    (root / "big").write_bytes(b"0" * 2000)
    (root / "link").symlink_to("d1/f1")
    (root / "dangling").symlink_to("nowhere")
    (root / "d0/f0").chmod(0o750)
    before = tree_of(root)
    session = Session(root, SizeLimits(file=1500))
    session.run("rm -r d*; rm link; echo x > new")
    assert [note for note in session.notes if "big (too large)" not in note] == []
    objects = session.where.folder / "git/objects"
    assert list(objects.glob("pack/*.pack")) and len(list(objects.glob("??/*"))) < 50
    assert session.undo()[0] == []
    assert tree_of(root) == before


class ChangingGit(Git):
    """A git before whose comparison of the files something changes in the folder."""

    change: Any = None

    def run(self, *words: str, **options: Any) -> bytes:
        if words[0] == "diff-files" and self.change is not None:
            change, self.change = self.change, None
            change()
        return super().run(*words, **options)


def test_what_changes_after_a_file_was_looked_at_is_seen(root: Path, tmp_path: Path) -> None:
    make(root, "plain")
    program = find_snapshot_git(os.environ["PATH"], str(root))
    git = ChangingGit(tmp_path / "git", program, [str(root / ".git/objects")], "")
    scanner = Scanner(git, root, tmp_path / "index", SizeLimits())
    git.change = lambda: ((root / "a.txt").chmod(0o640), (root / "b.txt").unlink())
    shot = scanner.scan()
    assert "a.txt" in git.run("ls-tree", shot.tree).decode() and "b.txt" not in git.run("ls-tree", shot.tree).decode()
    last = scanner.scan()
    assert modes(git, last.perms).of("a.txt", runs=False) == 0o640


def modes(git: Git, perms: str) -> FileModes:
    return FileModes.from_json(json.loads(git.blob(perms)))


def test_turns_are_read_from_the_end(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path / "s.records")
    for number in (1, 2, 3):
        manifest.add(RecordedTurn(number, "text", number, "m", "", agent=number == 3))
        manifest.add(Before(number, f"c{number}", "Turn", "", ()))
        manifest.add(After(f"c{number}", ()))
    assert [turn.turn for turn in manifest.latest_turns()] == [3, 2, 1]
    assert [turn.agent for turn in manifest.latest_turns()] == [True, False, False]
    assert list(Manifest(tmp_path / "none.records").latest_turns()) == []

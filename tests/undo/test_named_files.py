"""Named files are stored as git would store them, without starting it."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_cli.kernel.messages import UserMessage
from agent_cli.undo.git_store import Git
from agent_cli.undo.recorder import Recorder
from agent_cli.undo.scanner import SizeLimits
from agent_cli.undo.store import StoreConfig, capture
from agent_cli.undo.undo import UndoManager
from agent_tools.base import Effect
from agent_tools.fs.files import replace_file
from tests.support.repositories import git

_GIT = shutil.which("git") or ""
# In git's order a file `a.txt` is before the folder `a`, and `a0` after it.
_NAMES = ("a/b/c.txt", "a.txt", "a0", "a/b0", "a-b/x", "wörter/ß", "odd\nname", "z/" + "y/" * 120 + "deep")


@pytest.fixture
def full(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    for name in (*_NAMES, os.fsdecode(b"latin-\xe4")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name!a}\n")
    (folder / "a0").chmod(0o755)
    (folder / "link").symlink_to("a.txt")
    return folder


def test_the_tree_is_the_one_that_git_makes(full: Path, tmp_path: Path) -> None:
    store = Git(tmp_path / "store", _GIT)
    paths = sorted(str(p) for p in full.rglob("*") if p.is_symlink() or p.is_file())
    shot = capture(store, [*paths, str(full / "missing")], SizeLimits())
    git(full, "init", "-q")
    git(full, "add", "-A")
    here = str(full).strip("/")
    assert git(full, "write-tree").strip() == store.run("rev-parse", f"{shot.tree}:{here}").decode().strip()
    assert store.is_complete(shot.tree)
    assert capture(store, [], SizeLimits()).tree == git(full, "hash-object", "-t", "tree", os.devnull).strip()


def test_writes_are_recorded_and_undone_with_no_more_than_reading_by_git(full: Path, tmp_path: Path) -> None:
    where = StoreConfig(
        tmp_path / "state/snapshots/p", (full,), f"{_logged_git(tmp_path)}:{os.environ['PATH']}", "", "s", SizeLimits()
    )
    recorder = Recorder(where, str, lambda: "m")
    recorder.turn([UserMessage("go")], new=True)
    for number, text in enumerate(("one", "two")):
        file = full / "a/b/c.txt"
        assert not recorder.before(f"c{number}", "Write", "c.txt", [Effect("write", str(file))], str(full))
        file.write_text(text)
        assert not recorder.after(f"c{number}")
    log = tmp_path / "started"
    assert not log.exists()
    manager = UndoManager(recorder.store)
    assert not manager.undo([1], manager.plan([1]).of("ready"))
    assert (full / "a/b/c.txt").read_text() == "'a/b/c.txt'\n"
    assert set(log.read_text().split()) <= {"cat-file", "diff-tree", "ls-tree"}


def _logged_git(folder: Path) -> Path:
    """A git that notes the commands it is started for."""
    made = folder / "bin/git"
    made.parent.mkdir()
    text = "import os, sys\n"
    text += f"with open({str(folder / 'started')!r}, 'a') as file:\n    file.write(sys.argv[1] + '\\n')\n"
    text += f"os.execv({_GIT!r}, sys.argv)\n"
    made.write_text(f"#!{sys.executable}\n{text}")
    made.chmod(0o755)
    return made.parent


def test_ignored_files_that_an_archive_replaces_come_back(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    (folder / "build").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text("build/\n")
    (folder / "build/a.txt").write_text("mine")
    with tarfile.open(folder / "x.tar", "w") as packed:
        packed.addfile(tarfile.TarInfo("build/a.txt"))
    shutil.copy(folder / "x.tar", folder / "build/z.7z")
    (folder / "build/z.7z").write_bytes(b"7z\xbc\xaf")
    where = StoreConfig(tmp_path / "state/snapshots/p", (folder,), os.environ["PATH"], "", "s", SizeLimits())
    recorder = Recorder(where, str, lambda: "m")
    for turn, command in enumerate(("tar xf x.tar", "7z x -aoa build/z.7z"), 1):
        recorder.turn([UserMessage("go")], new=True)
        assert recorder.facts([Effect("run", command)], str(folder)) == (
            "undo: a copy is saved first, and /undo restores it",
        )
        assert not recorder.before(f"c{turn}", "Bash", "x", [Effect("run", command)], str(folder))
        (folder / "build/a.txt").write_text("theirs")
        assert not recorder.after(f"c{turn}")
        manager = UndoManager(recorder.store)
        assert not manager.undo([turn], manager.plan([turn]).of("ready"))
        assert (folder / "build/a.txt").read_text() == "mine", command


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    (tmp_path / "work").mkdir()
    where = StoreConfig(tmp_path / "state/snapshots/p", (tmp_path / "work",), os.environ["PATH"], "", "s", SizeLimits())
    return Recorder(where, str, lambda: "m")


def _done(recorder: Recorder, turn: int, effect: Effect, folder: Path, act: Callable[[], object]) -> None:
    recorder.turn([UserMessage("go")], new=True)
    assert not recorder.before(f"c{turn}", "Tool", "x", [effect], str(folder))
    act()
    assert not recorder.after(f"c{turn}")


def test_all_names_of_an_edited_file_get_its_old_text(tmp_path: Path, recorder: Recorder) -> None:
    one, two = tmp_path / "work/one", tmp_path / "elsewhere"
    one.write_text("old")
    os.link(one, two)
    _done(recorder, 1, Effect("write", str(one)), one.parent, lambda: replace_file(one, b"changed", b"old"))
    assert two.read_text() == "changed"
    manager = UndoManager(recorder.store)
    assert not manager.undo([1], manager.plan([1]).of("ready"))
    assert two.read_text() == one.read_text() == "old" and one.stat().st_nlink == 2


def test_a_file_that_a_command_made_a_link_is_separated_again(tmp_path: Path, recorder: Recorder) -> None:
    one, two = tmp_path / "work/one", tmp_path / "work/two"
    one.write_text("1")
    two.write_text("2")
    _done(recorder, 1, Effect("run", "ln -f one two"), one.parent, lambda: (two.unlink(), os.link(one, two)))
    manager = UndoManager(recorder.store)
    assert not manager.undo([1], manager.plan([1]).of("ready"))
    assert (one.read_text(), two.read_text()) == ("1", "2")

"""A copy whose turn, or whose end, would cost the user files: links out of it, special files, kills, a full disk."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from agent_cli.kernel.run_environment import RunEnvironment
from agent_cli.kernel.runtime import staged_project
from agent_cli.kernel.session.stages import remove_old
from agent_cli.stage import changes as stage_changes
from agent_cli.stage import tree as stage_tree
from agent_cli.stage.changes import apply_changes, signature, staged_changes
from agent_cli.stage.copy import StageCopy, read_copy
from agent_cli.stage.supervisor import visible
from tests.support.hypothesis_examples import cases
from tests.support.staged_projects import LINES, staged, staged_repository, take_all, tree

CALLS = ("open", "write", "rename", "unlink", "mkdir", "rmdir", "symlink", "chmod", "fchmod", "utime")


def discard(copy: StageCopy) -> None:
    copy.take(change.path for change in staged_changes(copy))


def test_nothing_is_removed_through_a_link_out_of_the_copy(tmp_path: Path) -> None:
    root = staged_repository(tmp_path)
    (root / "other" / "deep").mkdir(parents=True)
    (root / "other" / "c.py").write_text("mine\n")
    (root / "src" / "deep").mkdir()
    before = tree(root)
    for finish in (discard, take_all):
        copy = staged(root)
        shutil.rmtree(copy.tree / "src")
        (copy.tree / "src").symlink_to(root / "other")
        finish(copy)
        assert {k: v for k, v in tree(root).items() if k.startswith("other")} == {
            k: v for k, v in before.items() if k.startswith("other")
        }
        copy.delete()
    assert (root / "src").is_symlink()


def test_what_is_no_file_can_be_discarded(tmp_path: Path) -> None:
    root = staged_repository(tmp_path)
    copy = staged(root)
    (copy.tree / "a.py").unlink()
    os.mkfifo(copy.tree / "a.py")
    os.mkfifo(copy.tree / "pipe")
    assert [c.path for c in staged_changes(copy)] == ["a.py"]
    discard(copy)
    assert (copy.tree / "a.py").read_text() == LINES
    assert not staged_changes(copy)


def test_a_large_file_comes_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_changes, "MAX_KEPT_BYTES", 1_000)
    root = staged_repository(tmp_path)
    copy = staged(root)
    for name in ("a.py", "made.bin"):
        (copy.tree / name).write_text("x" * 2_000)
    assert [c.diff.patch for c in staged_changes(copy)] == ["(large: 2,000 bytes)"] * 2
    take_all(copy)
    assert tree(root) == tree(copy.tree) and (root / "a.py").stat().st_size == 2_000
    (copy.tree / "a.py").write_text("y" * 2_000)
    (root / "a.py").write_text("mine\n")
    assert apply_changes(copy, staged_changes(copy), {}).kept == ("a.py",)
    assert (root / "a.py").read_text() == "mine\n"


def test_changes_of_the_same_size_have_another_signature(tmp_path: Path) -> None:
    copy = staged(staged_repository(tmp_path))
    (copy.tree / "b.bin").write_bytes(b"\0one")
    first = signature(staged_changes(copy))
    assert signature(staged_changes(read_copy(copy.folder))) == first
    (copy.tree / "b.bin").write_bytes(b"\0two")
    changes = staged_changes(copy)
    assert signature(changes) != first
    (copy.tree / "b.bin").write_bytes(b"\0six")
    assert "moment ago" in apply_changes(copy, changes, {}).failed["b.bin"]


def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    root = staged_repository(tmp_path)
    copy = staged(root)
    listed = os.scandir

    def scandir(path: Path) -> object:
        if Path(path).name == "src":
            raise PermissionError(errno.EACCES, "Permission denied")
        return listed(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", scandir)
        assert staged_changes(copy) == [] == copy.follow()
    root.rename(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="cannot be read"):
        copy.follow()
    assert (copy.tree / "a.py").exists()


def test_repositories_without_content_are_copied_as_they_are(tmp_path: Path) -> None:
    root = staged_repository(tmp_path)
    (root / "empty" / ".git").mkdir(parents=True)
    (root / "lost").mkdir()
    (root / "lost" / ".git").write_text("gitdir: ../nowhere\n")
    copy = staged(root)
    assert [at for _, at in copy.facts.shared] == [".git/shared/0"]
    assert (copy.tree / "lost" / ".git").read_text() == "gitdir: ../nowhere\n"


def test_many_folders_take_no_quadratic_time(tmp_path: Path) -> None:
    copy = staged(staged_repository(tmp_path))
    for number in range(2_000):
        (copy.tree / "many" / f"{number}").mkdir(parents=True)
    (copy.tree / "many" / "0" / "f").write_text("f\n")
    changes = staged_changes(copy)
    compared = []

    class Counted(str):
        def startswith(self, *words: object) -> bool:
            compared.append(words)
            return super().startswith(*words)  # type: ignore[arg-type]

    found = visible([change._replace(path=Counted(change.path)) for change in changes])
    assert len(found) == 2_000 and len(compared) < 10_000


def test_a_full_disk_leaves_no_half_files(tmp_path: Path) -> None:
    root = staged_repository(tmp_path)
    copy = staged(root)
    (root / "a.py").write_text(LINES * 2)

    def full(source: int, target: int) -> None:
        os.write(target, b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage_tree, "_copy_content", full)
        with pytest.raises(OSError, match="No space"):
            copy.follow()
    again = read_copy(copy.folder)
    assert staged_changes(again) == []
    assert (again.tree / "a.py").read_text() == LINES * 2
    (again.tree / "made.bin").write_bytes(b"\0" * 100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage_tree, "_copy_content", full)
        patch.setattr(stage_changes, "MAX_KEPT_BYTES", 10)
        assert "No space" in apply_changes(again, staged_changes(again), {}).failed["made.bin"]
    assert not (root / "made.bin").exists()
    take_all(again)
    assert (root / "made.bin").exists()


def change(copy: StageCopy) -> None:
    (copy.tree / "a.py").write_text("short\n")
    (copy.tree / "made.bin").write_bytes(b"\0" * 100)
    shutil.rmtree(copy.tree / "src")
    (copy.tree / "src").write_text("a file\n")
    (copy.tree / "link").unlink()
    (copy.tree / "link").symlink_to("b.py")
    (copy.tree / "deep" / "er").mkdir(parents=True)
    (copy.tree / "deep" / "er" / "f").write_text("f\n")


def killed_at(number: int, run: Callable[[], object]) -> bool:
    """Run in a process that is killed before a call that writes; False if it got to its end."""
    child = os.fork()
    if child == 0:
        left = [number]
        for name in CALLS:
            real = getattr(os, name)

            def call(*args: object, _real: Callable[..., object] = real, **more: object) -> object:
                left[0] -= 1
                if left[0] < 0:
                    os._exit(9)
                return _real(*args, **more)

            setattr(os, name, call)
        try:
            run()
        except BaseException:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9


@pytest.mark.parametrize("ending", ["apply", "discard", "follow"])
def test_a_kill_at_any_write_loses_nothing(tmp_path: Path, ending: str) -> None:
    """The next process goes on where it was."""
    number = 0
    while True:
        base = tmp_path / f"{number}"
        base.mkdir()
        root = staged_repository(base)
        copy = staged(root)
        before = tree(root)
        if ending == "follow":
            (root / "a.py").write_text("mine\n")
            shutil.rmtree(root / "src")
            (root / "more").mkdir()
            (root / "more" / "f").write_text("more\n")
            before = tree(root)
            killed = killed_at(number, copy.follow)
        else:
            change(copy)
            killed = killed_at(number, partial(take_all if ending == "apply" else discard, copy))
        again = read_copy(copy.folder)
        if ending == "apply":
            wanted = tree(copy.tree)
            for _ in range(2):  # what was half done may count as the user's, and needs a second decision
                apply_changes(again, staged_changes(again), {})
            assert {k: v for k, v in tree(root).items() if not k.endswith(".tmp")} == wanted, number
        else:
            again.follow()
            if ending == "discard" and staged_changes(again):  # it had not begun
                assert number < 200
                discard(again)
            assert staged_changes(again) == [] and tree(again.tree) == tree(root) == before, number
        shutil.rmtree(base)
        if not killed:
            break
        # With EXAMPLES=all, at each.
        number += cases((1,), (5,))[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: needs root to become another user")
def test_a_user_who_is_not_root_keeps_what_they_may_not_read_or_write() -> None:
    # Other users may not look into the folders of tests.
    base = Path(tempfile.mkdtemp())
    os.chown(base, 65534, 65534)
    child = os.fork()
    if child == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            os.environ["HOME"] = str(base)
            _not_root(base)
        except BaseException:
            import traceback

            (base / "error").write_text(traceback.format_exc())
            os._exit(1)
        os._exit(0)
    os.waitpid(child, 0)
    error = (base / "error").read_text() if (base / "error").exists() else ""
    shutil.rmtree(base)
    assert not error


def _not_root(base: Path) -> None:
    root = staged_repository(base)
    (root / "read only").mkdir()
    (root / "read only" / "f").write_text("f\n")
    (root / "read only").chmod(0o555)
    (root / "secret").write_text("secret\n")
    (root / "secret").chmod(0)
    (root / "hidden").mkdir()
    (root / "hidden" / "f").write_text("f\n")
    (root / "hidden").chmod(0)
    copy = staged(root)
    assert copy.follow() == [] == staged_changes(copy)
    assert (copy.tree / "read only" / "f").read_text() == "f\n"
    assert stat.S_IMODE((copy.tree / "read only").stat().st_mode) == 0o555
    # The user changes files in a folder that is read-only again afterwards; the turn hides one.
    (root / "read only").chmod(0o755)
    (root / "read only" / "g").write_text("g\n")
    (root / "read only").chmod(0o555)
    assert copy.follow() == ["read only/g"]
    (copy.tree / "src").chmod(0)
    assert [c.path for c in staged_changes(copy)] == ["src"]
    discard(copy)
    (copy.tree / "made").mkdir()
    (copy.tree / "made" / "f").write_text("f\n")
    (copy.tree / "made" / "g").write_bytes(b"\0")
    (copy.tree / "made").chmod(0o555)
    take_all(copy)
    assert (root / "made" / "f").exists() and (root / "made" / "g").exists()
    assert stat.S_IMODE((root / "made").stat().st_mode) == 0o555
    assert staged_changes(copy) == []
    assert (root / "secret").lstat().st_size == 7
    copy.delete()
    assert not copy.folder.exists()


def test_copies_that_were_never_used_are_removed(tmp_path: Path) -> None:
    copy = staged(staged_repository(tmp_path))
    (copy.folder.parent / "unfinished").mkdir()
    for entry in copy.folder.parent.iterdir():
        os.utime(entry, (0, 0))
    used = copy.folder.parent / "used"
    shutil.copytree(copy.folder, used, symlinks=True)
    read_copy(used).save(read_copy(used).facts.replace(session="one"))
    os.utime(used, (0, 0))
    remove_old(copy.folder.parent)
    assert [entry.name for entry in tmp_path.joinpath("stages").iterdir()] == ["used"]


def test_a_state_folder_behind_a_link_and_one_in_the_project(tmp_path: Path) -> None:
    root = staged_repository(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "stages").symlink_to("real")
    copy = staged(root)
    (copy.tree / "a.py").write_text("short\n")
    take_all(read_copy(copy.folder))
    assert (root / "a.py").read_text() == "short\n"
    env = {"PATH": os.environ["PATH"], "AGENT_STATE_DIR": str(root / ".state")}
    why = staged_project.StagedProject.why_not(RunEnvironment(root, root, None, env))
    assert "inside the project" in why or "bubblewrap" in why

"""A copy of a project: it keeps the project as it was, and brings its changes there, whole or in parts."""

from __future__ import annotations

import shutil
import stat
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.stage import copy as stage_copy
from agent_cli.stage.changes import apply_changes, staged_changes
from agent_cli.stage.copy import StageCopy, StageError, make_copy, read_copy
from agent_cli.stage.supervisor import visible
from tests.support.hypothesis_examples import examples
from tests.support.repositories import GIT, git
from tests.support.staged_projects import ENV, LINES, staged, staged_repository, take_all, tree


def test_a_copy_has_the_files_of_the_project_and_a_git_folder_of_its_own(tmp_path: Path) -> None:
    root = staged_repository(tmp_path)
    copy = staged(root)
    assert tree(copy.tree) == tree(root)
    assert staged_changes(copy) == []
    kept = (copy.tree / ".git" / "shared" / "0", copy.tree / ".git" / "objects" / "info" / "alternates")
    assert kept[0].is_dir() and kept[1].read_text() == "../shared/0\n"
    kept[0].rmdir()
    kept[0].symlink_to(root / ".git" / "objects")  # what the stage mounts there
    assert git(copy.tree, "status", "--short") == git(root, "status", "--short")
    assert git(copy.tree, "stash", "list") == git(root, "stash", "list") != ""
    before = tree(root / ".git", skip="")
    git(copy.tree, "add", "-A")
    git(copy.tree, "commit", "-qm", "in the copy")
    git(copy.tree, "stash", "drop", "-q")
    git(copy.tree, "config", "user.name", "somebody else")
    git(copy.tree, "branch", "other")
    assert tree(root / ".git", skip="") == before
    assert git(root, "fsck", "--connectivity-only") == ""


def test_changes_come_as_they_are_in_the_copy(tmp_path: Path) -> None:
    root = staged_repository(tmp_path)
    copy = staged(root)
    (copy.tree / "a.py").write_text("short\n")
    (copy.tree / "src" / "c.py").unlink()
    (copy.tree / "src" / "run.sh").chmod(0o644)
    (copy.tree / "deep" / "er").mkdir(parents=True)
    (copy.tree / "deep" / "er" / "f.bin").write_bytes(b"\0\1")
    (copy.tree / "link").unlink()
    (copy.tree / "link").symlink_to("a.py")
    (copy.tree / "notes.log").write_text("ignored, and changed\n")
    assert [c.path for c in visible(staged_changes(copy))] == [
        "a.py", "deep/er/f.bin", "link", "notes.log", "src/c.py", "src/run.sh",
    ]  # fmt: skip
    take_all(copy)
    assert tree(root) == tree(copy.tree)
    assert staged_changes(copy) == []
    assert staged_changes(read_copy(copy.folder)) == []


def test_what_the_user_changed_meanwhile_is_merged_or_kept(tmp_path: Path) -> None:
    root = staged_repository(tmp_path)
    copy = staged(root)
    for name in ("a.py", "b.py"):
        (copy.tree / name).write_text((copy.tree / name).read_text().replace("line 3\n", "line three\n"))
    (root / "a.py").write_text(LINES.replace("line 25\n", "line 25, mine\n"))
    (root / "b.py").write_text((root / "b.py").read_text().replace("line 3\n", "line 3, mine\n"))
    (copy.tree / "new.txt").unlink()
    (root / "new.txt").write_text("untracked, and mine\n")
    (root / "mine.txt").write_text("only mine\n")
    assert {c.path: c.other for c in staged_changes(copy)} == {
        "a.py": "merged", "b.py": "conflict", "new.txt": "conflict",
    }  # fmt: skip
    done = apply_changes(copy, staged_changes(copy), {})
    assert (done.merged, done.kept) == (("a.py",), ("new.txt", "b.py"))
    assert (root / "a.py").read_text() == LINES.replace("line 3\n", "line three\n").replace("25\n", "25, mine\n")
    assert "line 3, mine\n" in (root / "b.py").read_text()
    assert (root / "new.txt").read_text() == "untracked, and mine\n"
    # Now the user sees what taking the version of the copy would do to theirs, and may want that.
    again = {c.path: c for c in staged_changes(copy)}
    assert again.keys() == {"b.py", "new.txt"}
    assert "-line 3, mine\n+line three" in again["b.py"].diff.patch
    assert copy.follow() == ["mine.txt"]
    take_all(copy)
    assert "line three\n" in (root / "b.py").read_text() and not (root / "new.txt").exists()
    assert tree(root) == tree(copy.tree)


def test_parts_of_a_change_can_be_left_out(tmp_path: Path) -> None:
    root = staged_repository(tmp_path)
    copy = staged(root)
    (copy.tree / "a.py").write_text(LINES.replace("line 2\n", "two\n").replace("line 20\n", "twenty\n"))
    (copy.tree / "made").mkdir()
    (copy.tree / "made" / "f.txt").write_text("made\n")
    changes = staged_changes(copy)
    assert {c.path: c.parts for c in changes} == {"a.py": 2, "made": 1, "made/f.txt": 1}
    done = apply_changes(copy, changes, {"a.py": (1,), "made/f.txt": (0,), "made": (0,)})
    assert (root / "a.py").read_text() == LINES.replace("line 2\n", "two\n")
    assert not (root / "made").exists()
    assert tree(root) == tree(copy.tree)
    assert done.left_out == ("a.py", "made", "made/f.txt")


def test_a_link_that_the_user_put_in_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    root = staged_repository(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    copy = staged(root)
    (copy.tree / "src" / "made.txt").write_text("made\n")
    shutil.rmtree(root / "src")
    (root / "src").symlink_to(elsewhere)
    done = apply_changes(copy, staged_changes(copy), {})
    assert "src/made.txt" in done.failed
    assert list(elsewhere.iterdir()) == []


def test_ignored_files_beyond_the_limit_are_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = staged_repository(tmp_path)
    (root / "build").mkdir()
    (root / "build" / "large.bin").write_bytes(b"x" * 5_000)
    monkeypatch.setattr(stage_copy, "_MAX_IGNORED_BYTES", 1_000)
    monkeypatch.setattr(stage_copy, "shares_blocks", lambda folder: False)
    copy, notes = make_copy(tmp_path / "stages" / "one", root, ENV, "trusted", "now")
    assert copy.facts.linked == ("build",)
    assert "Read-only in the copy, as git ignores it and it is large: build" in notes
    assert (copy.tree / "notes.log").exists() and list((copy.tree / "build").iterdir()) == []
    assert copy.mounts()[-3:] == ["--ro-bind-try", str(root / "build"), str(root / "build")]
    assert staged_changes(copy) == []


def test_a_linked_worktree_and_a_submodule_get_git_folders_of_their_own(tmp_path: Path) -> None:
    root = staged_repository(tmp_path)
    git(root, "submodule", "add", "-q", str(root), "sub")
    git(root, "commit", "-qm", "submodule")
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "wt")
    for place in (root, tmp_path / "tree"):
        copy = make_copy(tmp_path / "stages" / place.name, place, ENV, "trusted", "now")[0]
        for source, at in copy.facts.shared:
            (copy.tree / at).rmdir()
            (copy.tree / at).symlink_to(source)
        assert (copy.tree / ".git").is_dir()
        assert git(copy.tree, "log", "--oneline", "-1") == git(place, "log", "--oneline", "-1")
        assert git(copy.tree, "status", "--short") == git(place, "status", "--short")
        heads = git(root, "show-ref")
        git(copy.tree, "commit", "-qm", "x", "--allow-empty")
        if place == root:
            git(copy.tree / "sub", "commit", "-qm", "x", "--allow-empty")
            assert git(copy.tree / "sub", "log", "--oneline", "-1") != git(root / "sub", "log", "--oneline", "-1")
        assert git(root, "show-ref") == heads


def test_a_folder_without_git_can_be_staged(tmp_path: Path) -> None:
    root = tmp_path / "plain"
    root.mkdir()
    (root / "a.txt").write_text("a\n")
    copy = staged(root)
    (copy.tree / "a.txt").write_text("b\n")
    take_all(copy)
    assert (root / "a.txt").read_text() == "b\n"


def test_one_process_at_a_time_works_in_a_copy(tmp_path: Path) -> None:
    copy = staged(staged_repository(tmp_path))
    with copy.locked(), pytest.raises(StageError, match="another process"), read_copy(copy.folder).locked():
        pass


def test_a_damaged_copy_is_said_to_be_one(tmp_path: Path) -> None:
    copy = staged(staged_repository(tmp_path))
    (copy.folder / "base.json").write_text("{")
    with pytest.raises(StageError, match="cannot be read"):
        staged_changes(read_copy(copy.folder))
    (copy.folder / "stage.json").write_text("[]")
    with pytest.raises(StageError, match="is no copy"):
        read_copy(copy.folder)


NAMES = st.sampled_from(["a.py", "b.py", "src/c.py", "src/run.sh", "link", "new.txt", "notes.log", "x", "y/z", "src"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, st.text("ab\n", max_size=8)),
        st.tuples(st.just("line"), NAMES, st.integers(0, 29)),
        st.tuples(st.just("rm -rf"), NAMES, st.just("")),
        st.tuples(st.just("mv"), NAMES, NAMES),
        st.tuples(st.just("ln -s"), NAMES, NAMES),
        st.tuples(st.just("chmod"), NAMES, st.sampled_from(["755", "600"])),
        st.tuples(st.just("mkdir"), NAMES, st.just("")),
    ),
    max_size=8,
)


def carry_out(root: Path, steps: list[tuple[str, str, object]]) -> None:
    """Commands as a turn would run them; some fail, in the copy as in the project."""
    for what, name, more in steps:
        if what == "line":
            line = f"sed -i 's/^line {more}$/changed {more}/' {name}"
        elif what == "write":
            line = f"mkdir -p $(dirname {name}); printf '%s' '{more}' > {name}"
        elif what in ("mv", "ln -s"):
            line = f"{what} {name if what == 'mv' else str(more)} {more if what == 'mv' else name}"
        else:
            line = f"{what} {more} {name}"
        subprocess.run(["bash", "-c", line], cwd=root, env=GIT, capture_output=True, check=False)


@settings(max_examples=examples(45))
@given(STEPS)
def test_after_discarding_nothing_has_changed(tmp_path_factory: pytest.TempPathFactory, steps: list) -> None:  # type: ignore[type-arg]
    root = staged_repository(tmp_path_factory.mktemp("p"))
    before, own = tree(root), tree(root / ".git", skip="")
    copy = staged(root)
    carry_out(copy.tree, steps)
    copy.take(change.path for change in staged_changes(copy))
    assert tree(copy.tree) == tree(root) == before
    assert tree(root / ".git", skip="") == own
    assert staged_changes(copy) == []


@settings(max_examples=examples(45))
@given(STEPS)
def test_after_applying_the_project_is_as_without_a_stage(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list,  # type: ignore[type-arg]
) -> None:
    base = tmp_path_factory.mktemp("p")
    root = staged_repository(base)
    other = base / "other"
    shutil.copytree(root, other, symlinks=True)
    own = tree(root / ".git", skip="")
    copy = staged(root)
    carry_out(copy.tree, steps)
    carry_out(other, steps)
    take_all(copy)
    assert tree(root) == tree(other)
    assert tree(root / ".git", skip="") == own
    assert staged_changes(copy) == []


@settings(max_examples=examples(45))
@given(STEPS, STEPS)
def test_what_the_user_does_meanwhile_survives(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list,  # type: ignore[type-arg]
    theirs: list,  # type: ignore[type-arg]
) -> None:
    base = tmp_path_factory.mktemp("p")
    root = staged_repository(base)
    copy = staged(root)
    first = tree(root)
    carry_out(copy.tree, steps)
    ours = tree(copy.tree)
    carry_out(root, theirs)
    mine = tree(root)
    done = apply_changes(copy, staged_changes(copy), {})
    now = tree(root)
    for path in mine.keys() | first.keys():
        touched = mine.get(path) != first.get(path)
        if touched and path not in done.merged:
            # A folder may be gone with what was in it, or there again for what is.
            same = now.get(path) == mine.get(path) or (mine.get(path, (0,))[0] in (0, stat.S_IFDIR))  # type: ignore[index]
            assert same or now.get(path) == ours.get(path) == mine.get(path), path


def share_objects(copy: StageCopy, root: Path) -> None:
    """Have the objects where the stage mounts them."""
    place = copy.tree / ".git" / "shared" / "0"
    place.rmdir()
    place.symlink_to(root / ".git" / "objects")


def test_commits_and_branches_of_the_user_come_into_the_copy(tmp_path: Path) -> None:
    root = staged_repository(tmp_path)
    copy = staged(root)
    share_objects(copy, root)
    (copy.tree / "a.py").write_text(LINES + "of the turn\n")
    assert git(copy.tree, "status", "--short") != ""  # renews the index
    git(root, "checkout", "-qb", "feature/x")
    git(root, "commit", "-qam", "mine")
    git(root, "add", "new.txt")
    git(root, "branch", "-D", "main")
    copy = read_copy(copy.folder)
    copy.follow()
    assert copy.follow_git() == []
    for words in (("log", "--oneline", "-1"), ("branch", "--all"), ("stash", "list"), ("diff", "--cached", "--stat")):
        assert git(copy.tree, *words) == git(root, *words)
    assert git(copy.tree, "status", "--short") == " M a.py\nA  new.txt\n"
    assert git(copy.tree, "fsck", "--connectivity-only") == ""
    git(root, "commit", "-qm", "again")
    assert read_copy(copy.folder).follow_git() == []
    assert git(copy.tree, "log", "--oneline", "-1") == git(root, "log", "--oneline", "-1")


@pytest.mark.parametrize("own", [("commit", "-qam", "own"), ("add", "a.py"), ("stash",), ("branch", "x")])
def test_a_git_folder_in_which_the_turns_have_committed_or_staged_stays(tmp_path: Path, own: tuple[str, ...]) -> None:
    root = staged_repository(tmp_path)
    copy = staged(root)
    share_objects(copy, root)
    (copy.tree / "a.py").write_text(LINES + "of the turn\n")
    git(copy.tree, *own)
    before = tree(copy.tree / ".git", skip="shared")
    assert copy.follow_git() == []
    git(root, "commit", "-qam", "mine")
    [note] = copy.follow_git()
    assert "The copy does not follow" in note and copy.follow_git() == []
    assert tree(copy.tree / ".git", skip="shared") == before


def test_the_git_folder_of_a_copy_that_a_turn_replaced_by_a_link_is_not_written_to(tmp_path: Path) -> None:
    root = staged_repository(tmp_path)
    copy = staged(root)
    other = tmp_path / "other"
    (copy.tree / ".git").rename(other)
    (copy.tree / ".git").symlink_to(other)
    before = tree(other, skip="")
    git(root, "commit", "-qam", "mine")
    with suppress(OSError):
        copy.follow_git()
    assert tree(other, skip="") == before

"""What happens to a file, or to the way there, between reading, asking and writing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.racing_workspace import racing
from tests.support.tool_bench import TOOLS, Bench

CHANGE = {"file_path": "d/f", "old_string": "mine", "new_string": "changed"}


@pytest.fixture
def path(bench: Bench) -> Path:
    file = bench.file("d/f", "mine\n")
    bench("Read", file_path="d/f")
    return file


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder outside the workspace with a file of the same name and content."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "f").write_text("mine\n")
    return folder


def test_a_change_between_preview_and_run_is_kept_and_told(bench: Bench, path: Path) -> None:
    args = bench.args("Edit", CHANGE)
    assert TOOLS["Edit"].preview(args, bench.ctx) is not None
    path.write_text("mine, and theirs\n")
    assert "+mine, and theirs" in bench("Edit", **CHANGE).text
    assert path.read_text() == "changed, and theirs\n"


def test_a_file_removed_or_replaced_by_something_else_is_refused(bench: Bench, path: Path) -> None:
    path.unlink()
    assert "does not exist" in bench.fails("Edit", **CHANGE)
    path.mkdir()
    assert "is a directory" in bench.fails("Edit", **CHANGE)


def test_a_change_in_the_middle_of_the_edit_is_left_alone(bench: Bench, path: Path) -> None:
    racing(bench, 1, lambda: path.write_text("theirs\n"))
    assert "changed a moment ago and was left alone" in bench.fails("Edit", **CHANGE)
    assert path.read_text() == "theirs\n"


def test_a_link_swapped_in_for_the_file_is_not_followed(bench: Bench, path: Path, elsewhere: Path) -> None:
    def swap() -> None:
        path.unlink()
        path.symlink_to(elsewhere / "f")

    racing(bench, 1, swap)
    assert "symbolic link" in bench.fails("Edit", **CHANGE)
    assert (elsewhere / "f").read_text() == "mine\n" and path.is_symlink()


def test_a_link_swapped_in_for_the_directory_is_not_followed(bench: Bench, path: Path, elsewhere: Path) -> None:
    def swap() -> None:
        shutil.rmtree(path.parent)
        path.parent.symlink_to(elsewhere)

    racing(bench, 1, swap)
    bench.fails("Edit", **CHANGE)
    assert [(p.name, p.read_text()) for p in elsewhere.iterdir()] == [("f", "mine\n")]


def test_a_directory_replaced_by_another_is_noticed(bench: Bench, path: Path) -> None:
    def swap() -> None:
        path.parent.rename(bench.root / "moved")
        bench.file("d/f", "another\n")

    racing(bench, 1, swap)
    assert "changed a moment ago" in bench.fails("Edit", **CHANGE)
    assert path.read_text() == "another\n" and (bench.root / "moved/f").read_text() == "mine\n"


def test_a_directory_that_vanishes_is_reported(bench: Bench, path: Path) -> None:
    racing(bench, 1, lambda: shutil.rmtree(path.parent))
    assert "does not exist" in bench.fails("Edit", **CHANGE)
    assert not path.parent.exists()


def test_putting_back_does_not_follow_a_link_either(bench: Bench, path: Path, elsewhere: Path) -> None:
    bench.file("g", "mine\n")
    bench("Read", file_path="g")

    def swap() -> None:
        # The first file is written by now.
        (elsewhere / "f").write_text("changed\n")
        shutil.rmtree(path.parent)
        path.parent.symlink_to(elsewhere)
        (bench.root / "g").write_text("theirs\n")

    racing(bench, 2, swap)
    edits = [CHANGE, {**CHANGE, "file_path": "g"}]
    assert "These files were changed and could not be restored: d/f (" in bench.fails("MultiEdit", edits=edits)
    assert (elsewhere / "f").read_text() == "changed\n"

"""Which files of a large temporary folder commands see, although few are looked at for each command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_tools.sandbox import public_files
from agent_tools.sandbox.public_files import PublicFiles


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files count as old, and so are remembered, as soon as they are there."""
    monkeypatch.setattr(public_files, "_SETTLED_NS", 0)
    for number in range(20):
        (tmp_path / f"file-{number}").touch(0o644)
        (tmp_path / f"private-{number}").touch(0o600)
    return tmp_path


def names(files: PublicFiles) -> set[str]:
    return set(files.of_others(()))


def test_changes_of_what_is_shown_count_for_the_next_command(folder: Path) -> None:
    files, public = PublicFiles(folder), {f"file-{number}" for number in range(20)}
    assert names(files) == public
    (folder / "file-1").chmod(0o600)
    (folder / "file-2").unlink()
    (folder / "new").touch(0o644)
    (folder / "private-3").rename(folder / "file-3")
    (folder / "file-4").rename(folder / "renamed")
    left = public - {f"file-{number}" for number in (1, 2, 3, 4)}
    assert names(files) == {*left, "new", "renamed"}


def test_a_folder_in_which_a_socket_appears_is_hidden_at_once(folder: Path) -> None:
    (folder / "place").mkdir(0o755)
    files = PublicFiles(folder)
    assert "place" in names(files)
    os.mkfifo(folder / "place/pipe")
    assert "place" not in names(files)


def test_what_becomes_readable_later_is_seen_after_a_while(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, now = PublicFiles(folder), [0.0]
    monkeypatch.setattr(public_files, "monotonic", lambda: now[0])
    names(files)
    (folder / "private-1").chmod(0o644)
    assert "private-1" not in names(files)
    now[0] = public_files._KNOWN_SECONDS
    assert "private-1" in names(files)


def test_a_new_file_that_is_made_readable_is_seen_at_once(tmp_path: Path) -> None:
    files = PublicFiles(tmp_path)
    (tmp_path / "made").touch(0o600)
    assert not names(files)
    (tmp_path / "made").chmod(0o644)
    assert names(files) == {"made"}

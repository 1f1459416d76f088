"""Files that are written whole: the old one or the new one, with the permissions that were asked for."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from agent_tools.fs.safe_files import private_folder, write_atomic
from tests.support.file_faults import fill, mount_small, own_mounts


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("keep", "there", "becomes"), [(False, None, 0o600), (False, 0o644, 0o600),
                                                        (True, None, 0o600), (True, 0o640, 0o640)])  # fmt: skip
def test_whose_permissions_it_has(tmp_path: Path, keep: bool, there: int | None, becomes: int) -> None:
    path = tmp_path / "new" / "file"
    if there is not None:
        path.parent.mkdir()
        path.write_text("old")
        path.chmod(there)
    write_atomic(path, b"new", keep=keep)
    assert (path.read_bytes(), mode(path)) == (b"new", becomes)
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_without_room_the_old_one_stays_and_nothing_else(tmp_path: Path) -> None:
    with own_mounts():
        mount_small(tmp_path / "disk", "64k")
        path = tmp_path / "disk" / "file"
        write_atomic(path, b"old")
        rest = fill(tmp_path / "disk")
        with pytest.raises(OSError, match="No space left"):
            write_atomic(path, b"new" * 20_000)
        rest.unlink()
        assert path.read_bytes() == b"old" and [p.name for p in path.parent.iterdir()] == ["file"]


def test_folders_are_for_the_owner_alone(tmp_path: Path) -> None:
    private_folder(tmp_path / "a" / "b")
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700
    private_folder(tmp_path / "a" / "b")

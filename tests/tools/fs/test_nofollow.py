"""Opening by descriptors without following links, in one step and step by step."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from agent_tools.fs import files
from agent_tools.fs.files import is_at, lstat_resolved, open_below, open_directory, stat_below


@pytest.fixture(params=["openat2", "step by step"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "openat2":
        monkeypatch.setattr(files, "_load_openat2", lambda: None)
    return str(request.param)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path))
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/f").write_text("x")
    (root / "link").symlink_to("a")
    (root / "a/inner").symlink_to("b")
    (root / "a/up").symlink_to("..")
    return root


def error_of(call: Callable[[], object]) -> int | None:
    with pytest.raises(OSError) as caught:
        call()
    return caught.value.errno


def test_one_step_is_taken_where_the_kernel_has_it(tree: Path, way: str) -> None:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = files._openat2(files._AT_FDCWD, str(tree), flags, files._NO_SYMLINKS)
    if way != "openat2":
        assert descriptor == -1
        return
    if descriptor == -1:
        pytest.skip("there is no openat2")
    assert os.path.samestat(os.fstat(descriptor), tree.stat())
    os.close(descriptor)
    assert files._openat2(files._AT_FDCWD, str(tree / "link"), flags, files._NO_SYMLINKS) == -1


def test_a_directory_is_opened(tree: Path) -> None:
    for path in (tree, tree / "a/b", Path("/")):
        descriptor = open_directory(path)
        assert os.path.samestat(os.fstat(descriptor), path.stat())
        assert not os.get_inheritable(descriptor)
        os.close(descriptor)
    listed = open_directory(tree / "a", readable=True)
    assert sorted(os.listdir(listed)) == ["b", "inner", "up"]  # noqa: PTH208 - of a descriptor
    os.close(listed)


@pytest.mark.parametrize("name", ["link", "link/b", "a/inner", "a/up/a", "link/none"])
def test_links_are_refused_wherever_they_stand(tree: Path, name: str) -> None:
    top = open_directory(tree)
    assert error_of(lambda: open_directory(tree / name)) == errno.ELOOP
    assert error_of(lambda: open_directory(tree / name, create=True)) == errno.ELOOP
    assert error_of(lambda: open_below(top, name)) == errno.ELOOP
    assert error_of(lambda: lstat_resolved(tree / name / "f")) == errno.ELOOP
    assert error_of(lambda: stat_below(top, f"{name}/f")) == errno.ELOOP
    assert not (tree / "a/none").exists()
    os.close(top)


def test_what_is_no_directory_or_not_there(tree: Path) -> None:
    top = open_directory(tree)
    assert error_of(lambda: open_directory(tree / "a/b/f")) == errno.ENOTDIR
    assert error_of(lambda: open_below(top, "a/none")) == errno.ENOENT
    assert error_of(lambda: lstat_resolved(tree / "none")) == errno.ENOENT
    assert error_of(lambda: open_directory(f"{tree}/" + "n/" * 3_000)) == errno.ENAMETOOLONG
    os.close(top)


def test_nothing_below_leads_above(tree: Path) -> None:
    top = open_directory(tree / "a")
    for name in ("..", "../a", "b/../..", "../link"):
        with pytest.raises(OSError):
            os.close(open_below(top, name))
    os.close(top)


def test_states_are_those_of_the_names_themselves(tree: Path) -> None:
    top = open_directory(tree)
    for name in ("a/b/f", "a/b", "a/inner", "link"):
        state = (tree / name).lstat()
        assert os.path.samestat(lstat_resolved(tree / name), state)
        assert os.path.samestat(stat_below(top, name), state)
    assert os.path.samestat(lstat_resolved("/"), Path("/").stat())
    os.close(top)


def test_directories_are_made(tree: Path) -> None:
    descriptor = open_directory(tree / "x/y/z", create=True)
    assert is_at(descriptor, tree / "x/y/z")
    (tree / "x/y").rename(tree / "x/other")
    assert not is_at(descriptor, tree / "x/y/z")
    (tree / "x/y/z").mkdir(parents=True)
    assert not is_at(descriptor, tree / "x/y/z")
    os.close(descriptor)


def test_no_descriptor_is_left_open(tree: Path) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    for name in ("a/b", "link/b", "none", "a/b/f"):
        with suppress(OSError):
            os.close(open_directory(tree / name))
        is_at(0, tree / name)
    assert len(list(Path("/dev/fd").iterdir())) == before

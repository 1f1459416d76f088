"""Reading what strangers put there: regular files only, bounded, and no link followed out of a folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_tools.fs.safe_files import (
    NotRegularFileError,
    open_regular,
    open_stream,
    read_regular,
    read_start,
    resolve_inside,
)
from tests.support.hypothesis_examples import examples


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/a.txt").write_text("hello")
    (tmp_path / "out.txt").write_text("secret")
    return folder


@pytest.mark.parametrize("target", ["sub/a.txt", "./sub/../sub/a.txt", "sub/here/a.txt", "{root}/sub/a.txt"])
def test_links_inside_are_followed(root: Path, target: str) -> None:
    (root / "sub/here").symlink_to(".")
    (root / "link").symlink_to(target.format(root=root))
    assert read_regular(root / "link", 99, root) == b"hello"


@pytest.mark.parametrize(
    "target", ["../out.txt", "sub/../../out.txt", "{root}/../out.txt", "/etc/passwd", "/net/host/x", "{root}x/y"]
)
def test_links_that_lead_out_are_not(root: Path, target: str) -> None:
    (root / "link").symlink_to(target.format(root=root))
    (root / "indirect").symlink_to("sub/../link")
    for name in ("link", "indirect"):
        with pytest.raises(NotRegularFileError, match="leads out of"):
            read_regular(root / name, 99, root)


def test_a_path_that_leads_out_by_itself(root: Path) -> None:
    for path in (root / "../out.txt", Path("/etc/passwd")):
        with pytest.raises(NotRegularFileError, match="leads out of"):
            resolve_inside(path, root)


def test_a_circle_ends(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(NotRegularFileError, match="in a circle"):
        read_regular(root / "a", 99, root)


def test_what_is_no_regular_file(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero", "sub"):
        with pytest.raises(NotRegularFileError, match="is not a regular file"):
            read_regular(root / name, 99)
    with pytest.raises(FileNotFoundError):
        read_regular(root / "nothing", 99, root)


def test_the_bound(root: Path) -> None:
    path = root / "sub/a.txt"
    assert read_regular(path, 5) == b"hello"
    assert read_start(path, 3) == b"hel"
    with pytest.raises(NotRegularFileError, match="more than 4 bytes"):
        read_regular(path, 4)
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(NotRegularFileError, match="more than 4 bytes"):
        read_regular(root / "huge", 4)


@pytest.mark.parametrize("flags", [os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_TRUNC, os.O_RDWR, os.O_RDONLY])
@pytest.mark.parametrize("create", [0, os.O_CREAT])
def test_a_pipe_or_a_device_is_opened_for_nothing(root: Path, flags: int, create: int) -> None:
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to("pipe")
    (root / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "link", "zero", "sub"):
        with pytest.raises(NotRegularFileError, match="is not a regular file"):
            open_regular(root / name, flags | create)


def test_files_are_made_and_links_followed_as_the_flags_say(root: Path) -> None:
    os.close(open_regular(root / "new", os.O_WRONLY | os.O_CREAT, 0o600))
    assert (root / "new").stat().st_mode & 0o777 == 0o600
    (root / "link").symlink_to("new")
    os.close(open_regular(root / "link", os.O_RDWR))
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT):
        with pytest.raises(OSError):
            open_regular(root / "link", flags | os.O_NOFOLLOW)
    with pytest.raises(FileNotFoundError):
        open_regular(root / "nothing")
    directory = os.open(root, os.O_RDONLY)
    os.close(open_regular("new", dir_fd=directory))
    with pytest.raises(OSError):
        open_regular("link", dir_fd=directory)
    os.close(directory)


def test_a_stream_has_a_bound(root: Path) -> None:
    with open_stream(root / "sub/a.txt", 5) as file:
        assert file.read() == b"hello"
    with pytest.raises(NotRegularFileError, match="more than 4 bytes"):
        open_stream(root / "sub/a.txt", 4)


def test_a_file_that_drips_is_given_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that gives a byte now and then."""
    monkeypatch.setattr(os, "read", lambda descriptor, count: b"x")
    monkeypatch.setattr("agent_tools.fs.safe_files._READ_SECONDS", 0.05)
    monkeypatch.setattr("agent_tools.fs.safe_files._BYTES_PER_SECOND", 1 << 40)
    with pytest.raises(NotRegularFileError, match="takes too long to read"):
        read_start(root / "sub/a.txt", 1 << 20)


NAMES = ("a", "b", "c/a", "c/b")


@settings(max_examples=examples(60), deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(["a", "b", "c", "..", "."]), max_size=4)))
def test_it_agrees_with_the_system_wherever_it_answers(links: dict[str, list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(os.path.realpath(folder)) / "root"
        (root / "c").mkdir(parents=True)
        for name, target in links.items():
            (root / name).symlink_to("/".join(target) or ".")
        for name in NAMES:
            try:
                found = resolve_inside(root / name, root)
            except OSError:
                continue
            assert str(found) == os.path.realpath(root / name)

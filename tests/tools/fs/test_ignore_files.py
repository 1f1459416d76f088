"""What git and ripgrep would wait for, or take all memory for, is found and named; what is usual is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_tools.fs.safe_files import MAX_IGNORE_FILE_BYTES, find_obstacle, known_obstacle


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    (folder / ".config/git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "above" / "work"
    (folder / "a/b/c").mkdir(parents=True)
    (folder / ".git/info").mkdir(parents=True)
    return folder


@pytest.mark.parametrize("name", [".gitignore", "a/b/c/.ignore", "a/.rgignore", "a/b/.gitattributes",
                                  ".git/info/exclude", ".git/index", "../.gitignore"])  # fmt: skip
def test_a_pipe_is_found_wherever_it_is_read(root: Path, name: str) -> None:
    assert find_obstacle(str(root)) == ""
    path = Path(os.path.normpath(root / name))
    os.mkfifo(path)
    assert find_obstacle(str(root)).startswith(f"{path} is a named pipe")
    assert known_obstacle(str(root)).startswith(f"{path} is a named pipe")
    path.unlink()
    assert known_obstacle(str(root)) == find_obstacle(str(root)) == ""


@pytest.mark.parametrize("name", [".gitconfig", ".config/git/ignore", ".config/git/attributes", ".config/git/config"])
def test_a_pipe_of_the_user(root: Path, home: Path, name: str) -> None:
    os.mkfifo(home / name)
    assert find_obstacle(str(root)).startswith(f"{home / name} is a named pipe")


def test_devices_and_sizes(root: Path) -> None:
    ignore = root / "a/.gitignore"
    for harmless in ("/dev/null", "/nowhere", "."):
        ignore.symlink_to(harmless)
        assert find_obstacle(str(root)) == ""
        ignore.unlink()
    ignore.symlink_to("/dev/zero")
    assert "is a device" in find_obstacle(str(root))
    ignore.unlink()
    with ignore.open("wb") as file:
        file.truncate(MAX_IGNORE_FILE_BYTES)
    # An index may be large.
    with (root / ".git/index").open("wb") as file:
        file.truncate(MAX_IGNORE_FILE_BYTES + 1)
    assert find_obstacle(str(root)) == ""
    with ignore.open("wb") as file:
        file.truncate(MAX_IGNORE_FILE_BYTES + 1)
    assert "has 67,108,865 bytes" in find_obstacle(str(root))

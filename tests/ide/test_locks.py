"""Which lock files are believed, and which editor is that of a folder."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.ide.locks import (
    LockRefusedError,
    RunningEditor,
    connects_by_itself,
    editor_of,
    find_editors,
    read_lock,
)
from tests.support.ide_editor import TOKEN, write_lock


@pytest.fixture
def port() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_the_lock_of_an_own_editor_is_believed(tmp_path: Path, port: int) -> None:
    lock = write_lock(tmp_path, port, tmp_path / "work", name="Neovim")
    assert read_lock(lock) == RunningEditor("Neovim", port, os.getpid(), ((tmp_path / "work").resolve(),), TOKEN)
    assert TOKEN not in repr(read_lock(lock))


def _ended() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
        return child.pid


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"authToken": ""}, "has no token"),
        ({"authToken": None}, "has no token"),
        ({"authToken": "short"}, "has no token"),
        ({"authToken": "a token\r\nX-More: 1"}, "has no token"),
        ({"pid": 1}, "gone, or not yours"),
        ({"pid": True}, "gone, or not yours"),
        ({"pid": "x"}, "gone, or not yours"),
        ({"transport": "sse"}, "WebSocket"),
        ({"runningInWindows": True}, "WebSocket"),
    ],
)
def test_a_lock_that_says_something_else_is_not_believed(
    tmp_path: Path, port: int, fields: dict[str, Any], why: str
) -> None:
    with pytest.raises(LockRefusedError, match=why):
        read_lock(write_lock(tmp_path, port, tmp_path, **fields))


def test_a_lock_of_an_ended_process_is_not_believed(tmp_path: Path, port: int) -> None:
    with pytest.raises(LockRefusedError, match="gone, or not yours"):
        read_lock(write_lock(tmp_path, port, tmp_path, pid=_ended()))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells who listens")
def test_a_lock_whose_port_nobody_serves_is_not_believed(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        lock = write_lock(tmp_path, free.getsockname()[1], tmp_path)
        with pytest.raises(LockRefusedError, match="none of your programs has opened"):
            read_lock(lock)


def test_a_lock_that_others_can_write_is_not_believed(tmp_path: Path, port: int) -> None:
    lock = write_lock(tmp_path, port, tmp_path)
    lock.chmod(0o666)
    with pytest.raises(LockRefusedError, match="another user"):
        read_lock(lock)
    lock.chmod(0o600)
    lock.parent.chmod(0o777)
    with pytest.raises(LockRefusedError, match="another user"):
        read_lock(lock)


def test_a_lock_is_no_link(tmp_path: Path, port: int) -> None:
    lock = write_lock(tmp_path, port, tmp_path)
    lock.rename(tmp_path / "elsewhere")
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LockRefusedError, match="is a link"):
        read_lock(lock)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "null"])
def test_a_damaged_lock_is_named_and_left_out(tmp_path: Path, port: int, text: str) -> None:
    write_lock(tmp_path, port, tmp_path).write_text(text)
    (tmp_path / ".claude/ide/99999.lock").write_text("{}")
    (tmp_path / ".claude/ide/x.lock").write_text("{}")
    found, problems = find_editors({}, tmp_path)
    assert found == []
    assert len(problems) == 3


def test_locks_are_where_claude_keeps_its_settings(tmp_path: Path, port: int) -> None:
    write_lock(tmp_path, port, tmp_path)
    assert find_editors({"CLAUDE_CONFIG_DIR": str(tmp_path / ".claude")}, None)[0]
    assert find_editors({}, None) == ([], [])
    assert find_editors({}, tmp_path / "other") == ([], [])


def test_the_editor_of_a_folder_is_that_of_the_terminal_or_the_closest(tmp_path: Path) -> None:
    def editor(port: int, *folders: Path) -> RunningEditor:
        return RunningEditor("E", port, 2, folders, TOKEN)

    here = tmp_path / "a/b"
    wide, close, other, twin = (
        editor(1, tmp_path),
        editor(2, tmp_path / "a"),
        editor(3, here / "c"),
        editor(4, tmp_path),
    )
    assert editor_of([wide, close, other], here, {}) == close
    assert editor_of([wide, close, other], here, {"CLAUDE_CODE_SSE_PORT": "1"}) == wide
    assert editor_of([wide, close, other], here, {"CLAUDE_CODE_SSE_PORT": "3"}) == close, "it has other folders open"
    assert editor_of([wide, twin], here, {}) is None
    assert editor_of([wide, twin], here, {"CLAUDE_CODE_SSE_PORT": "4"}) == twin
    assert editor_of([other], here, {}) is None


def test_the_environment_switches_it_off() -> None:
    assert connects_by_itself({})
    assert connects_by_itself({"ENABLE_IDE_INTEGRATION": "true"})
    assert not connects_by_itself({"ENABLE_IDE_INTEGRATION": "false"})
    assert not connects_by_itself({"CLAUDE_CODE_AUTO_CONNECT_IDE": "0"})

"""The folder of a task: several threads of the server read its inbox."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from agent_cli.extras.server import tasks
from agent_cli.extras.server.tasks import ServerTask, new_entry


def test_a_slower_reader_does_not_hide_the_decision_that_came_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second decision would otherwise be accepted, too."""
    task = ServerTask(tmp_path)
    task.add(new_entry("message", "owner"))
    has_read, finish, read, look = threading.Event(), threading.Event(), tasks.read_regular, task._read
    slow = threading.Thread(target=task.entries)

    def read_slowly(path: Path, limit: int) -> bytes:
        data = read(path, limit)
        if threading.current_thread() is slow:
            has_read.set()
            finish.wait()
        return data

    def look_after_the_slow_one(name: str, known: int) -> tuple[int, bytes | None]:
        if threading.current_thread() is not slow:
            finish.set()
            slow.join()
        return look(name, known)

    monkeypatch.setattr(tasks, "read_regular", read_slowly)
    slow.start()
    has_read.wait()
    task.add(new_entry("decision", "anna"))
    assert [entry.kind for entry in task.entries()] == ["message", "decision"]
    monkeypatch.setattr(task, "_read", look_after_the_slow_one)
    assert [entry.kind for entry in task.entries()] == ["message", "decision"]

"""The thread that starts sandboxes: there is one, as a sandbox is killed when the thread that started it ends."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from agent_tools.shell.process import LastingThread


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads that take turns as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_commands_that_begin_at_the_same_time_are_started_by_one_thread(eager_threads: None) -> None:
    for _ in range(50):
        starter, together, starters = LastingThread(), threading.Barrier(4), list[int]()

        def begin() -> None:
            together.wait()  # noqa: B023
            starters.append(starter.run(threading.get_ident))  # noqa: B023

        threads = [threading.Thread(target=begin) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(starters) == 4 and len(set(starters)) == 1

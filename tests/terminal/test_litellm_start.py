"""LiteLLM's process starts while the user types the first message, and answers it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.model_server import ModelServer, Reply
from tests.support.pty_session import Terminal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: there is no /proc here"),
]


def workers_of(parent: int) -> Iterator[int]:
    """Yield the processes of LiteLLM that this process has started."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            stat = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes()
            if int(stat[1]) == parent and b"litellm_worker" in command:
                yield int(folder.name)


def test_the_process_of_litellm_starts_before_the_first_message(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with ModelServer([Reply(text="By LiteLLM.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_TRANSPORT": "litellm"}
        terminal = Terminal(["--model", "openai/gpt-4.1"], work, **env)
        try:
            terminal.ready()
            until = time.monotonic() + 60
            while not (started := list(workers_of(terminal.pid))) and time.monotonic() < until:
                time.sleep(0.05)
            assert len(started) == 1
            terminal.type("hello")
            terminal.expect("By LiteLLM.")
            assert list(workers_of(terminal.pid)) == started
        finally:
            terminal.kill()

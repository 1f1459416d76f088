"""The environment that providers are reached from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from subprocess import Popen
from types import SimpleNamespace
from typing import Any

import pytest

from agent_cli.models.litellm import close_workers
from tests.support.fork_server import start_worker
from tests.support.stalled_ports import VARIABLES


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class Forks:
    """Starts LiteLLM as forks of a process that has imported it."""

    def __init__(self) -> None:
        self.started: list[Popen[bytes]] = []

    def popen(self, argv: Sequence[str], *, env: Mapping[str, str], **how: Any) -> Popen[bytes]:
        self.started.append(start_worker(list(argv), dict(env), **how))
        return self.started[-1]


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    """Processes of LiteLLM are forks: what is cancelled is killed, and a start is dear."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agent_cli.models.litellm.reaper", SimpleNamespace(REAPER=Forks()))
        yield
        close_workers()


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Popen[bytes]]]:
    """The processes that a test starts, as forks where the others of its file are not."""
    close_workers()
    made = Forks()
    monkeypatch.setattr("agent_cli.models.litellm.reaper", SimpleNamespace(REAPER=made))
    yield made.started
    close_workers()

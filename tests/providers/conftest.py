"""The environment that providers are reached from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from subprocess import Popen
from types import SimpleNamespace
from typing import Any

import pytest

from agent_cli.providers.litellm import close_workers
from tests.support.fork_server import start_worker
from tests.support.stalled_ports import VARIABLES


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    """Processes of LiteLLM are forks of one that has imported it: what is cancelled is killed, and a start is dear."""

    class Forks:
        def popen(self, argv: Sequence[str], *, env: Mapping[str, str], **how: Any) -> Popen[bytes]:
            return start_worker(list(argv), dict(env), **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agent_cli.providers.litellm.reaper", SimpleNamespace(REAPER=Forks()))
        yield
        close_workers()

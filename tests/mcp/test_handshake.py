"""Servers from before the protocol of July 2026 and since: each comes up, and at once the next time."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from agent_cli.config.schema import McpServer
from agent_cli.mcp import client
from tests.support.mcp.running import HERE, alive, company, eventually

SECONDS = 0.1


@pytest.fixture(autouse=True)
def _second_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SECOND_START_SECONDS", SECONDS)


def server(mode: str, folder: Path, *, legacy: bool = False) -> McpServer:
    return McpServer(command=sys.executable, args=(str(HERE / "era_server.py"), mode, str(folder)), legacy=legacy)


def heard(folder: Path) -> list[tuple[int, str]]:
    """The requests to begin, each with the process that received it."""
    lines = [line.split() for line in (folder / "heard").read_text().splitlines()]
    return [(int(pid), method) for pid, method in lines if method in ("initialize", "server/discover")]


@pytest.mark.parametrize("mode", ["old-exit", "old-silent", "old", "new", "new-exit"])
def test_a_server_of_either_protocol_comes_up_and_the_next_start_is_direct(tmp_path: Path, mode: str) -> None:
    with company(tmp_path, s=server(mode, tmp_path)) as servers:
        assert servers.all["s"].status == "ready", servers.all["s"].reason
        assert list(servers.tools()) == ["mcp__s__x"]
        assert servers.take_notifications() == []
        era = servers.all["s"].era
        assert era == ("discover" if mode.startswith("new") else "initialize")
    (tmp_path / "heard").unlink()
    with company(tmp_path, s=server(mode, tmp_path)) as servers:
        assert servers.all["s"].status == "ready"
    assert [method for _, method in heard(tmp_path)] == ["server/discover" if era == "discover" else "initialize"]


def test_only_the_process_that_answered_is_left(tmp_path: Path) -> None:
    with company(tmp_path, s=server("old-silent", tmp_path)) as servers:
        (first, _), (second, method) = heard(tmp_path)
        assert method == "initialize"
        eventually(lambda: not alive(first))
        assert alive(second)
        assert servers.all["s"]._supervisor.process.pid == second  # type: ignore[union-attr]
    assert not alive(second)


@pytest.mark.parametrize("alone", [True, False])
def test_a_slow_start_survives_the_second_process(tmp_path: Path, alone: bool) -> None:
    if alone:
        # As where a lock or a port is held by the first.
        (tmp_path / "alone").touch()

    def go() -> None:
        eventually(lambda: (tmp_path / "heard").exists())
        if not alone:
            eventually(lambda: len(heard(tmp_path)) >= 2)
        (tmp_path / "go").touch()

    thread = threading.Thread(target=go)
    thread.start()
    with company(tmp_path, s=server("slow", tmp_path)) as servers:
        thread.join()
        assert (servers.all["s"].status, servers.all["s"].protocol) == ("ready", "2026-07-28")


@pytest.mark.parametrize("newer", ["new-exit", "new"])
def test_a_server_that_was_replaced_by_a_newer_or_an_older_one_comes_up(tmp_path: Path, newer: str) -> None:
    for mode, protocol in (("old-exit", "2025-06-18"), (newer, "2026-07-28"), ("old-exit", "2025-06-18")):
        (tmp_path / "mode").write_text(mode)
        with company(tmp_path, s=server("x", tmp_path)) as servers:
            assert servers.all["s"].protocol == protocol, servers.all["s"].reason


def test_a_server_that_is_declared_as_legacy_is_never_asked_for_more(tmp_path: Path) -> None:
    with company(tmp_path, s=server("old-silent", tmp_path, legacy=True)) as servers:
        assert servers.all["s"].status == "ready"
    assert [method for _, method in heard(tmp_path)] == ["initialize"]


def test_one_that_never_answers_is_given_up_with_all_its_processes(tmp_path: Path) -> None:
    with company(tmp_path, start_timeout=2.0, s=server("mute", tmp_path)) as servers:
        assert (servers.all["s"].status, servers.all["s"].reason) == ("failed", "it did not answer in time")
        pids = {pid for pid, _ in heard(tmp_path)}
        assert pids
        assert not any(alive(pid) for pid in pids)


def test_how_a_process_ended_that_never_came_up_is_said(tmp_path: Path) -> None:
    exits = McpServer(command=sys.executable, args=("-c", "import sys; print('no key', file=sys.stderr); sys.exit(4)"))
    with company(tmp_path, s=exits) as servers:
        assert servers.all["s"].reason == "it ended with code 4 (no key)"

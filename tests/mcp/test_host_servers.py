"""Servers in the host process: their messages pass through the host's own functions, and no process is started."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from agent_cli.config.schema import McpServer
from agent_cli.kernel.host_servers import HostServers
from agent_cli.kernel.run_environment import UsageError
from agent_cli.mcp.approvals import Approvals
from agent_cli.mcp.catalog import McpRequestError
from agent_cli.mcp.config import DeclaredServer, servers_of_host
from agent_cli.mcp.manager import Servers
from agent_cli.mcp.server_state import ServerSettings
from tests.support.mcp.running import PATIENCE, ask, eventually, text_of

ADD = {"name": "add", "description": "Add.", "inputSchema": {"type": "object", "properties": {}}}


class FakeHost:
    """A host that answers on a thread of its own, as a program behind a pipe does."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.tools: list[dict[str, Any]] = [ADD]
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {}
        self.servers = HostServers(self._send)
        self._work: SimpleQueue[tuple[str, dict[str, Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _send(self, name: str, message: dict[str, Any]) -> None:
        self.heard.append((name, message))
        self._work.put((name, message))

    def _serve(self) -> None:
        while (given := self._work.get()) is not None:
            name, message = given
            if "id" not in message:
                continue
            answer = self._answer(message)
            if answer is not None:
                self.servers.receive(name, {"jsonrpc": "2.0", "id": message["id"], **answer})

    def _answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        method = message["method"]
        if method in self.answers:
            return self.answers[method](message)
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "host", "version": "7"}
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
        if method == "tools/list":
            return {"result": {"tools": self.tools}}
        if method == "tools/call":
            given = message["params"]["arguments"]
            return {"result": {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}}
        return {"error": {"code": -32601, "message": f"no method {method}"}}

    def close(self) -> None:
        self._work.put(None)
        self._thread.join(PATIENCE)


def settings(folder: Path, host: HostServers | None) -> ServerSettings:
    return ServerSettings(
        env={}, server_env=dict, cwd=folder, roots=(folder,), logs=folder / "logs",
        approvals=lambda: Approvals(folder / "state", folder), trusted_for_run=False,
        start_timeout=PATIENCE, call_timeout=PATIENCE, host=host,
    )  # fmt: skip


@contextmanager
def hosted(folder: Path, host: FakeHost, *names: str) -> Iterator[Servers]:
    servers = Servers(servers_of_host(names), settings(folder, host.servers))
    try:
        servers.wait(PATIENCE)
        yield servers
    finally:
        servers.close()
        host.close()


def test_a_server_of_the_host_is_used_like_any_other(tmp_path: Path) -> None:
    host = FakeHost()
    with hosted(tmp_path, host, "calc") as servers:
        calc = servers.all["calc"]
        assert (calc.status, calc.about, list(servers.tools())) == ("ready", "host 7", ["mcp__calc__add"])
        assert text_of(ask(calc, "add", {"a": 2, "b": 3})) == "5"
        assert servers.take_notifications() == []
    methods = [message["method"] for _, message in host.heard]
    # The handshake comes first: hosts of today know no other beginning.
    assert methods[:3] == ["initialize", "notifications/initialized", "tools/list"]
    assert {name for name, _ in host.heard} == {"calc"}
    assert not list((tmp_path / "mcp-tools").glob("*")), "what a host offers is asked each time"


def test_two_servers_of_one_host_are_reported_apart(tmp_path: Path) -> None:
    host = FakeHost()
    with hosted(tmp_path, host, "one", "two") as servers:
        assert list(servers.tools()) == ["mcp__one__add", "mcp__two__add"]
        assert text_of(ask(servers.all["two"], "add", {"a": 1, "b": 1})) == "2"
    assert [n for n, m in host.heard if m["method"] == "tools/call"] == ["two"]


def test_an_interrupted_call_is_cancelled_at_the_host(tmp_path: Path) -> None:
    host = FakeHost()
    host.answers["tools/call"] = lambda message: None
    with hosted(tmp_path, host, "calc") as servers:
        call = servers.all["calc"].call("add", {}, lambda kind, what: None)
        eventually(lambda: any(m["method"] == "tools/call" for _, m in host.heard))
        call.cancel()
        eventually(lambda: any(m["method"] == "notifications/cancelled" for _, m in host.heard))
        number = next(m["id"] for _, m in host.heard if m["method"] == "tools/call")
        cancelled = next(m for _, m in host.heard if m["method"] == "notifications/cancelled")
        assert cancelled["params"]["requestId"] == number


def test_an_error_fails_that_call_only_and_a_result_of_any_form_is_an_answer(tmp_path: Path) -> None:
    host = FakeHost()
    with hosted(tmp_path, host, "calc") as servers:
        calc = servers.all["calc"]
        host.answers["tools/call"] = lambda message: {"error": {"code": -32603, "message": "it broke"}}
        with pytest.raises(McpRequestError, match="it broke"):
            ask(calc, "add")
        host.answers["tools/call"] = lambda message: {"result": 5}
        assert ask(calc, "add") == 5
        host.servers.receive("calc", {"jsonrpc": "2.0", "result": {}})
        host.servers.receive("nobody", {"jsonrpc": "2.0", "id": 1, "result": {}})
        del host.answers["tools/call"]
        assert text_of(ask(calc, "add", {"a": 1, "b": 2})) == "3"


def test_a_changed_list_of_the_host_is_read_again(tmp_path: Path) -> None:
    host = FakeHost()
    with hosted(tmp_path, host, "calc") as servers:
        host.tools = [ADD, {**ADD, "name": "subtract"}]
        host.servers.receive("calc", {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        eventually(lambda: list(servers.tools()) == ["mcp__calc__add", "mcp__calc__subtract"])
        assert servers.take_notifications() == []


def test_a_host_that_is_gone_ends_its_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_cli.mcp.supervisor.MAX_RESTARTS", 0)
    host = FakeHost()
    host.answers["tools/call"] = lambda message: host.servers.end()
    with hosted(tmp_path, host, "calc") as servers:
        with pytest.raises(McpRequestError):
            ask(servers.all["calc"], "add")
        eventually(lambda: servers.all["calc"].status == "failed")


def test_without_a_host_such_a_server_fails_in_words(tmp_path: Path) -> None:
    servers = Servers([DeclaredServer("calc", McpServer(type="sdk"), "the test", "given")], settings(tmp_path, None))
    try:
        servers.wait(PATIENCE)
        assert servers.all["calc"].status == "failed"
        assert servers.take_notifications() == [
            "the MCP server calc did not start: it is a server of a host process, and there is none"
        ]
    finally:
        servers.close()


def test_servers_are_added_and_removed_during_the_session(tmp_path: Path) -> None:
    host = FakeHost()
    with hosted(tmp_path, host, "first") as servers:
        assert servers.replace_added(servers_of_host(["a", "b"])) == (["a", "b"], [])
        servers.wait(PATIENCE)
        assert list(servers.tools()) == ["mcp__first__add", "mcp__a__add", "mcp__b__add"]
        before = servers.all["b"]
        assert servers.replace_added(servers_of_host(["b", "c", "first"])) == (["c"], ["a"])
        servers.wait(PATIENCE)
        assert servers.all["b"] is before
        assert list(servers.all) == ["first", "b", "c"]
        assert text_of(ask(servers.all["c"], "add", {"a": 1, "b": 2})) == "3"
        assert servers.replace_added([]) == ([], ["b", "c"])
        assert list(servers.tools()) == ["mcp__first__add"]


def test_only_the_host_and_the_command_line_declare_one() -> None:
    sdk = McpServer(type="sdk")
    assert DeclaredServer("a", sdk, "", "given").problem == ""
    assert "only a host process" in DeclaredServer("a", sdk, "", "project").problem
    assert "neither a command" in DeclaredServer("a", sdk.replace(command="x"), "", "given").problem
    with pytest.raises(UsageError, match="needs a name"):
        servers_of_host(["a b"])

"""A server over streamable HTTP on this machine, with headers; and one that is not there."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
import time
import zlib
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import pytest

from agent_cli.config.schema import McpServer
from agent_cli.mcp.catalog import McpRequestError, UnknownOutcomeError
from agent_cli.mcp.http_transport import make_client
from tests.support.mcp.running import GOOD, ask, company, eventually, text_of


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_http_and_sse_from_start_to_end(tmp_path: Path, kind: Literal["http", "sse"]) -> None:
    port = tmp_path / "port"
    process = subprocess.Popen(
        [sys.executable, *GOOD.args, "--http", str(port), kind],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: port.exists() and port.read_text())
        url = f"http://127.0.0.1:{port.read_text()}/{'mcp' if kind == 'http' else 'sse'}"
        eventually(lambda: _answers(url))
        with company(tmp_path, web=McpServer(url=url, type=kind)) as servers:
            web = servers.all["web"]
            assert web.status == "ready", web.reason
            assert text_of(ask(web, "add", {"a": 1, "b": 2})) == "3"
            if kind == "http":
                assert len(text_of(ask(web, "large", {"size": 3_000_000}))) == 3_000_000
            heard: list[str] = []
            ask(web, "slow", {"seconds": 0.1}, lambda kind, what: heard.append(what))
            assert heard[0].startswith("working")
            mark = tmp_path / "mark"
            call = web.call("slow", {"mark": str(mark)}, lambda kind, what: heard.append("more"))
            eventually(lambda: "more" in heard)
            call.cancel()
            eventually(mark.exists)
            # Again and again, since nothing tells when the stream of changes is open.
            eventually(lambda: ask(web, "grow") and web.withheld)
            assert web.withheld == {"mcp__web__grown": "new"}
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    import urllib.error
    import urllib.request

    try:
        urllib.request.urlopen(url, timeout=5)
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def test_headers_are_sent_and_a_refusal_is_a_sentence(tmp_path: Path) -> None:
    seen: list[str | None] = []

    class Locked(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.headers.get("X-Key"))
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(401)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Locked) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{http.server_port}/mcp"
        declared = McpServer(url=url, headers={"X-Key": "for ${WHO}"})
        with company(tmp_path, web=declared, dead=McpServer(url="http://127.0.0.1:9/mcp")) as servers:
            assert {n: s.status for n, s in servers.all.items()} == {"web": "login", "dead": "failed"}
            assert all("\n" not in s.reason and s.reason for s in servers.all.values())
        with company(tmp_path, web=declared.replace(headers={"Authorization": "mine"})) as servers:
            assert "rejects the declared Authorization header" in servers.all["web"].reason
        http.shutdown()
    assert seen[0] == "for me"


@pytest.mark.parametrize("status", [404, 500])
def test_a_server_that_refuses_to_start_is_named_with_its_status(tmp_path: Path, status: int) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *words: object) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with company(tmp_path, web=McpServer(url=f"http://127.0.0.1:{server.server_port}/")) as servers:
            web = servers.all["web"]
            assert web.status == "failed" and f"HTTP {status}" in web.reason, web.reason
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_without_end_is_dropped(tmp_path: Path, packed: bool) -> None:
    sent = 0

    class Endless(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            nonlocal sent
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            if packed:
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            zeros = zlib.compressobj(wbits=31)
            with suppress(OSError):
                while True:
                    # Packed, a megabyte is a kilobyte, and so 10 GB would be read before that are 10 MB.
                    piece = zeros.compress(bytes(1 << 20)) + zeros.flush(zlib.Z_SYNC_FLUSH) if packed else b" " * 65_536
                    self.wfile.write(piece)
                    sent += len(piece)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as http:
        http.daemon_threads = True
        threading.Thread(target=http.serve_forever, daemon=True).start()
        with company(tmp_path, web=McpServer(url=f"http://127.0.0.1:{http.server_port}/mcp")) as servers:
            web = servers.all["web"]
            assert (web.status, "more than 16 MB" in web.reason) == ("failed", True), web.reason
        http.shutdown()
    assert sent < (4 << 20 if packed else 200 << 20)


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_an_answer_that_is_packed_twice_is_not_unpacked(tmp_path: Path, kind: str) -> None:
    """Twice packed, a third of a gigabyte is less than a kilobyte."""
    once, twice = zlib.compressobj(1, wbits=31), zlib.compressobj(wbits=31)
    bomb = b"".join(twice.compress(once.compress(b" " * (1 << 20))) for _ in range(350))
    bomb += twice.compress(once.flush()) + twice.flush()

    class Packed(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Encoding", "gzip, gzip")
            self.send_header("Content-Length", str(len(bomb)))
            self.end_headers()
            self.wfile.write(bomb)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Packed) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with company(tmp_path, web=McpServer(url=f"http://127.0.0.1:{http.server_port}/mcp")) as servers:
            assert servers.all["web"].status == "failed"
        http.shutdown()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


def test_a_silent_answer_is_not_given_up_by_the_client_itself() -> None:
    # The limit of a call is ours; the client would end a long one after five minutes.
    assert make_client().timeout.read is None


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_a_server_that_sends_only_keep_alives_is_given_up(tmp_path: Path, kind: Literal["http", "sse"]) -> None:
    class Silent(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            with suppress(OSError):
                while True:
                    self.wfile.write(b": keep-alive\n\n")

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *args: object) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    listener.daemon_threads = True
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{listener.server_port}/mcp"
        with company(tmp_path, start_timeout=1.0, silent=McpServer(url=url, type=kind)) as servers:
            silent = servers.all["silent"]
            eventually(lambda: silent.status not in ("", "starting"))
            assert silent.status != "ready"
            assert "did not answer" in silent.reason or "time" in silent.reason
    finally:
        listener.shutdown()
        listener.server_close()


def test_answers_over_http_are_read_as_leniently_and_none_hangs(tmp_path: Path) -> None:
    unusual = {"content": [{"type": "chart"}, {"type": "text", "text": None}], "structuredContent": {"priority": 5}}

    class Odd(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            method = message["method"]
            if "id" not in message:
                return self._send(202, "")
            if method == "initialize":
                return self._answer(message, {"capabilities": {"tools": 1}})
            if method == "tools/list":
                return self._answer(message, {"tools": [None, {"name": "x", "inputSchema": {"type": "string"}}]})
            if method != "tools/call":
                error = {"code": -32601, "message": "Method not found"}
                return self._send(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}))
            start = f'{{"jsonrpc":"2.0","id":{message["id"]},"result":'
            kind = message["params"]["arguments"]["kind"]
            bodies = {"deep": start + "[" * 200_000, "long": start + "x" * 40_000_000, "broken": start + "{"}
            if kind == "cut":
                self.close_connection = True
                return None
            return self._answer(message, unusual) if kind == "odd" else self._send(200, bodies[kind])

        def _answer(self, message: dict[str, Any], result: Any) -> None:
            self._send(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}))

        def _send(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(text.encode())

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Odd) as http:
        http.daemon_threads = True
        threading.Thread(target=http.serve_forever, daemon=True).start()
        with company(tmp_path, web=McpServer(url=f"http://127.0.0.1:{http.server_port}/mcp")) as servers:
            web = servers.all["web"]
            assert (web.status, list(web.tools)) == ("ready", ["mcp__web__x"]), web.reason
            assert ask(web, "x", {"kind": "odd"}) == unusual
            for kind, why in (("deep", "cannot be read"), ("long", "more than 16 MB"), ("broken", "cannot be read")):
                started = time.monotonic()
                with pytest.raises(UnknownOutcomeError, match=why):
                    ask(web, "x", {"kind": kind})
                assert time.monotonic() - started < 10
            with pytest.raises(McpRequestError):
                ask(web, "x", {"kind": "cut"})
            eventually(lambda: web.restarts == 1 and web.status == "ready")
            assert ask(web, "x", {"kind": "odd"}) == unusual
        http.shutdown()

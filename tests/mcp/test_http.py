"""A server over streamable HTTP on this machine, with headers; and one that is not there."""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from agent_cli.config.schema import McpServer
from tests.mcp.company import HERE, ask, company, eventually, text_of


def test_streamable_http_from_start_to_end(tmp_path: Path) -> None:
    port = tmp_path / "port"
    process = subprocess.Popen(
        [sys.executable, str(HERE / "good.py"), "--http", str(port)],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: port.exists() and port.read_text())
        url = f"http://127.0.0.1:{port.read_text()}/mcp"
        eventually(lambda: _answers(url))
        with company(tmp_path, web=McpServer(url=url)) as servers:
            web = servers.all["web"]
            assert web.status == "ready", web.reason
            assert text_of(ask(web, "add", {"a": 1, "b": 2})) == "3"
            heard: list[str] = []
            ask(web, "slow", {"seconds": 0.1}, lambda kind, what: heard.append(what))
            assert heard[0].startswith("working")
            mark = tmp_path / "mark"
            call = web.call("slow", {"mark": str(mark)}, lambda kind, what: heard.append("more"))
            eventually(lambda: "more" in heard)
            call.cancel()
            eventually(mark.exists)
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
        with company(tmp_path, web=declared.but(headers={"Authorization": "mine"})) as servers:
            assert "does not accept the Authorization header" in servers.all["web"].reason
        http.shutdown()
    assert seen[0] == "for me"

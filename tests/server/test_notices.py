"""Notices of what waits and ends; TLS; one server for a state folder."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest

from agent_cli.extras.server.notify import sign_notice
from tests.support.fork_server import start
from tests.support.program import agent, clean_env
from tests.support.scripts import call
from tests.support.served import served, write_script

SECONDS = 40


def test_a_web_hook_is_signed_and_asked_again(work: Path) -> None:
    came: Queue[tuple[dict[str, str], bytes]] = Queue()
    refusals = [503]

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = refusals.pop() if refusals else 204
            if status == 204:
                came.put(({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    hook = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    Thread(target=hook.serve_forever, daemon=True).start()
    (work.parent / "home").mkdir()
    settings = f'[serve]\nnotify = "http://127.0.0.1:{hook.server_port}/x"\n'
    (work.parent / "home/.agentrc").write_text(settings, "utf-8")
    try:
        with served(work, AGENT_NOTIFY_SECRET="s3") as server:
            replies = [{"calls": [call("Write", file_path="n.txt", content="x")]}, {"text": "Ok."}]
            session = server.begin("Write it", write_script(work, *replies))
            headers, body = came.get(timeout=SECONDS)
            assert headers["x-agent-signature"] == sign_notice("s3", headers["x-agent-timestamp"], body)
            found = json.loads(body)
            assert (found["event"], found["session"]["title"]) == ("session.waiting", "Write it")
            assert found["pending"][0]["summary"] == "Write n.txt (1 line)"
            assert found["link"] == f"http://127.0.0.1:{server.port}/#/s/{session}"
            server.decide(session, "approve")
            assert json.loads(came.get(timeout=SECONDS)[1])["answer"] == "Ok."
    finally:
        hook.shutdown()
        hook.server_close()


def test_a_command_gets_the_notice(work: Path) -> None:
    (work.parent / "home").mkdir()
    text = work.parent / "told"
    command = f"env > '{text}.env'; cat > '{text}.new'; mv '{text}.new' '{text}'"
    (work.parent / "home/.agentrc").write_text(f'[serve]\nnotify = "{command}"\n')
    with served(work, ANTHROPIC_API_KEY="sk-ant-sekret") as server:
        session = server.begin("Say", write_script(work, {"text": "Hi."}))
        server.until(session, lambda found: text.exists())
        assert json.loads(text.read_bytes())["event"] == "session.done"
    assert "PATH=" in (shown := (work.parent / "told.env").read_text()) and "sekret" not in shown


def test_one_server_for_a_state_folder(work: Path) -> None:
    with served(work) as server:
        refused = agent(["serve", "--port", "0"], work)
        assert refused.returncode == 2
        assert f"is running: http://127.0.0.1:{server.port}/" in refused.stderr
        same = agent(["serve", "--port", str(server.port)], work)
        assert same.returncode == 2
        assert f"is running: http://127.0.0.1:{server.port}/" in same.stderr


@pytest.mark.skipif(
    shutil.which("openssl") is None, reason="NOT TESTED: there is no openssl, so TLS of agent serve was not tried"
)
def test_tls(work: Path) -> None:
    key, cert = work.parent / "key.pem", work.parent / "cert.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, *subject],
        check=True, capture_output=True,
    )  # fmt: skip
    words = ["serve", "--port", "0", "--certfile", str(cert), "--keyfile", str(key)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    with start(words, work, clean_env(work.parent / "home"), **pipes) as process:
        try:
            assert process.stdout is not None
            link = process.stdout.readline().decode().removeprefix("agent serve: ").strip()
            assert link.startswith("https://127.0.0.1:")
            context = ssl.create_default_context(cafile=str(cert))
            document = urllib.request.urlopen(f"{link}v1/openapi.json", context=context, timeout=SECONDS).read()
            assert json.loads(document)["openapi"] == "3.1.0"
        finally:
            process.terminate()
            process.wait(SECONDS)
    broken = work.parent / "broken.pem"
    broken.write_text("no certificate", "utf-8")
    refused = agent(["serve", "--port", "0", "--certfile", str(broken)], work)
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False), refused.stderr

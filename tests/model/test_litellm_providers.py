"""LiteLLM against servers that speak like the providers it is for: every answer arrives whole, and only a whole one.

The worker is the real one and so is LiteLLM. Starting it takes seconds of CPU, so that all tests share one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent_cli.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agent_cli.core.usage import Usage
from agent_cli.model.http import Timeouts
from agent_cli.model.litellm_wire import close_workers
from agent_cli.model.transport import ModelError, Request
from agent_tools.cancel import CancelToken
from tests.model.dialects import DIALECTS, OVERLOADED, Dialect
from tests.model.replies import Call, Reply
from tests.model.wires import TOOLS, Answer, gathered

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("litellm")]

BY_NAME = {d.name: d for d in DIALECTS}
TWO = (Call("Read", {"path": "ä/☃"}), Call("Write", {"path": "b"}))
streamed_or_whole = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
every_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)


@pytest.fixture(scope="module", autouse=True)
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One worker with credentials of the clouds in its environment, all of them made up."""
    close_workers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_BEARER_TOKEN_BEDROCK", "key-123")
        patch.setenv("AWS_REGION_NAME", "us-east-1")
        with google_credentials(tmp_path_factory.mktemp("google")) as file:
            patch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
            patch.setenv("VERTEXAI_PROJECT", "our-project")
            patch.setenv("VERTEXAI_LOCATION", "us-central1")
            yield
    close_workers()


@contextmanager
def google_credentials(directory: Path) -> Iterator[Path]:
    """The key file of a service account, whose tokens come from a server of ours."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), _Tokens) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        account = {
            "type": "service_account",
            "project_id": "our-project",
            "private_key": key.decode(),
            "client_email": "us@our-project.example",
            "token_uri": f"http://127.0.0.1:{server.server_address[1]}/token",
        }
        file = directory / "key.json"
        file.write_text(json.dumps(account))
        yield file
        server.shutdown()


class _Tokens(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"access_token": "token-1", "expires_in": 3600, "token_type": "Bearer"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def ask(dialect: Dialect, reply: Reply, *history: Message, stream: bool = True, **options: Any) -> Answer:
    with dialect.server([reply]) as server:
        messages = history or (UserMessage("hi"),)
        asked = Request(dialect.bare, "Be brief.", messages, TOOLS, stream=stream, **options)
        return gathered(dialect.wire(server, Timeouts(idle=20)).stream(asked, CancelToken()))


@streamed_or_whole
@every_dialect
def test_a_text_arrives_whole_and_ends(dialect: Dialect, stream: bool) -> None:
    answer = ask(dialect, Reply(text="Hello, wörld ☃.", split=3), stream=stream)
    assert (answer.text, answer.reason) == ("Hello, wörld ☃.", "end_turn")
    assert (answer.usage.input, answer.usage.output) == (12, 7)


@streamed_or_whole
@every_dialect
def test_calls_arrive_with_their_arguments(dialect: Dialect, stream: bool) -> None:
    for calls in (TWO[:1], TWO, (Call("Read", {}), *TWO)):
        answer = ask(dialect, Reply(text="I look.", calls=calls, split=5), stream=stream)
        assert [(c.name, c.arguments) for c in answer.calls] == [(c.name, json.loads(c.json)) for c in calls]
        assert len({c.id for c in answer.calls}) == len(calls)
        assert (answer.text, answer.reason) == ("I look.", "tool_use")

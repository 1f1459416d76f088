"""A provider on loopback that looks at keys: lists models, answers chats, and signs users in as OpenRouter does.

    with KeyProvider("sk-good") as provider:
        env = {"OPENAI_BASE_URL": provider.openai_url}

`seen` has method, path and key of each request.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.model_replies import Reply, events

MODELS = ["text-embedding-1", "m-1", "m-2"]


class KeyProvider:
    """Runs while its `with` block does.

    keys: those that are valid. public: models are listed without a key, too. lists: False: there is no list of models.
    replies: what the model answers, in this order; then its name.
    """

    def __init__(
        self, *keys: str, public: bool = False, lists: bool = True, status: int = 401, replies: Iterable[Reply] = ()
    ) -> None:
        self.keys = set(keys)
        self.replies = deque(replies)
        self.public, self.lists, self.status = public, lists, status
        self.seen: list[tuple[str, str, str]] = []
        self.challenges: dict[str, str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.port = self._server.server_port

    def __enter__(self) -> KeyProvider:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def openai_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def openrouter_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/v1"

    def sign_in(self, address: str) -> str:
        """Sign in on the page at an address, as a user does; return where the browser is sent."""
        query = parse_qs(urlsplit(address).query)
        assert query["code_challenge_method"] == ["S256"]
        code = f"auth_code_{secrets.token_hex(8)}"
        self.challenges[code] = query["code_challenge"][0]
        (callback,) = query["callback_url"]
        assert callback.startswith("http://localhost:")
        return f"{callback}?code={code}"


def browse(address: str) -> int:
    """Open an address; return the status."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=30) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def _handler(provider: KeyProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            key = self._key()
            provider.seen.append(("GET", self.path, key))
            if self.path.endswith("/key"):
                self._require(key, {"data": {"label": "sk-or-..."}})
            elif not self.path.endswith("/models") or not provider.lists:
                self._send(404, {"error": {"message": "Not found"}})
            elif provider.public or self.path == "/api/v1/models":
                self._send(200, _listed())
            else:
                self._require(key, _listed())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            key = self._key()
            provider.seen.append(("POST", self.path, key))
            if self.path == "/api/v1/auth/keys":
                self._exchange(body)
            elif key not in provider.keys:
                self._refuse(key)
            else:
                reply = provider.replies.popleft() if provider.replies else Reply(text=f"Answer of {body['model']}.")
                self._write(200, b"".join(events(reply, "openai", body["model"])), "text/event-stream")

        def _key(self) -> str:
            found = self.headers.get("x-api-key") or self.headers.get("x-goog-api-key")
            return found or str(self.headers.get("Authorization", "")).removeprefix("Bearer ")

        def _require(self, key: str, data: Any) -> None:
            if key in provider.keys:
                self._send(200, data)
            else:
                self._refuse(key)

        def _refuse(self, key: str) -> None:
            self._send(provider.status, {"error": {"message": f"Incorrect API key provided: {key}"}})

        def _exchange(self, body: dict[str, str]) -> None:
            digest = hashlib.sha256(body["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if provider.challenges.pop(body["code"], None) != challenge or body["code_challenge_method"] != "S256":
                self._send(403, {"error": {"code": 403, "message": "Invalid code or code_verifier"}})
                return
            key = f"sk-or-v1-{secrets.token_hex(16)}"
            provider.keys.add(key)
            self._send(200, {"key": key, "user_id": "user_1"})

        def _send(self, status: int, data: Any) -> None:
            self._write(status, json.dumps(data).encode(), "application/json")

        def _write(self, status: int, data: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    return Handler


def _listed() -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, "object": "model"} for name in MODELS]}

"""A model server on loopback, for tests: real HTTP, five protocols, answers from a list.

    with ModelServer([Reply(text="hello"), Reply(calls=(Call("Read", {"path": "x"}),))]) as server:
        wire = OpenAIChat(server.openai_url, "key")          # or Anthropic(server.anthropic_url, "key")
        ...
        server.requests[0].body["messages"]

Every request is recorded and checked: each tool call has exactly one output, no output is without its call, nothing
is asked beyond the script. Leaving the `with` block raises AssertionError with what was found, unless the block itself
failed. A reply may be a function from the request to the reply.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from agent_tools.record import Value
from tests.support.gemini_events import gemini_violations
from tests.support.loopback import end_listening
from tests.support.model_replies import Call, Protocol, Reply, events, refusal_body, whole
from tests.support.ollama_lines import ollama_violations

__all__ = ["Call", "ModelServer", "Received", "Reply", "violations"]


class Received(Value):
    """A request as it arrived. `raw` are the bytes of its body; `connection` numbers the connections from 0."""

    path: str
    headers: dict[str, str]
    raw: bytes
    body: dict[str, Any]
    connection: int

    @property
    def protocol(self) -> Protocol:
        if self.path.endswith("/responses"):
            return "responses"
        if "enerateContent" in self.path:
            return "gemini"
        if self.path.endswith("/api/chat"):
            return "ollama"
        return "anthropic" if self.path.partition("?")[0].endswith("/messages") else "openai"

    @property
    def streamed(self) -> bool:
        """Whether a stream is asked for."""
        return ":stream" in self.path if self.protocol == "gemini" else bool(self.body.get("stream"))

    @property
    def model(self) -> str:
        """The model that is asked."""
        if self.protocol == "gemini":
            return self.path.rpartition("/")[2].partition(":")[0]
        return str(self.body.get("model", ""))


ScriptedClient = Reply | Callable[[Received], Reply]


def violations(received: Received) -> list[str]:
    """What is wrong with the messages of a request: calls without exactly one output, outputs without a call."""
    if received.protocol == "anthropic":
        return _anthropic_violations(received.body)
    if received.protocol == "responses":
        return _response_violations(received.body)
    if received.protocol == "gemini":
        return gemini_violations(received.body, received.model)
    if received.protocol == "ollama":
        # LiteLLM sends it calls without ids.
        return ollama_violations(received.body) if "truncate" in received.body else []
    found: list[str] = []
    waiting: list[str] = []
    for message in received.body.get("messages", []):
        if message["role"] == "tool":
            if message["tool_call_id"] in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                found.append(f"output without a call, or a second one: {message['tool_call_id']}")
            continue
        found += [f"call without an output: {c}" for c in waiting]
        waiting = [c["id"] for c in message.get("tool_calls") or ()]
        if len(set(waiting)) < len(waiting):
            found.append(f"one id for several calls: {waiting}")
    return found + [f"call without an output: {c}" for c in waiting]


def _response_violations(body: dict[str, Any]) -> list[str]:
    found: list[str] = []
    waiting: list[str] = []
    outputs = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
    items = body.get("input", [])
    for place, item in enumerate(items):
        if item["type"] in outputs:
            if item["call_id"] in waiting:
                found.append(f"one id for several calls: {item['call_id']}")
            waiting.append(item["call_id"])
        elif item["type"] in outputs.values():
            if item["call_id"] in waiting:
                waiting.remove(item["call_id"])
            else:
                found.append(f"output without a call, or a second one: {item['call_id']}")
        elif item["type"] == "reasoning":
            after = items[place + 1] if place + 1 < len(items) else {"type": "nothing"}
            if after["type"] not in (*outputs, "reasoning") and after.get("role") != "assistant":
                found.append("reasoning without the item that must follow it")
        elif waiting and item.get("role") == "user":
            found += [f"call without an output: {c}" for c in waiting]
            waiting = []
    return found + [f"call without an output: {c}" for c in waiting]


def _anthropic_violations(body: dict[str, Any]) -> list[str]:
    found: list[str] = []
    waiting: list[str] = []
    role = ""
    for message in body.get("messages", []):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        outputs = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if sorted(outputs) != sorted(waiting):
            found.append(f"calls {waiting} have the outputs {outputs}")
        waiting = [b["id"] for b in blocks if b["type"] == "tool_use"]
        if len(set(waiting)) < len(waiting):
            found.append(f"one id for several calls: {waiting}")
        if message["role"] == role:
            found.append(f"two messages of the {role} in a row")
        if not blocks or any(b["type"] == "text" and not b["text"].strip() for b in blocks):
            found.append("an empty message or text block")
        role = message["role"]
    if json.dumps(body).count('"cache_control"') > 4:
        found.append("more than four cache breakpoints")
    return found + [f"call without an output: {c}" for c in waiting]


_TRIAL = b'{"choices": [{"message": {"content": "{\\"word\\": \\"vermilion-37\\"}"}}]}'


class ModelServer:
    """The server, listening while the `with` block runs.

    replies: consumed in order, one for each request. repeat: the last one stays for good. tls: serve https with this
    context. `stalled` is set whenever a reply has fallen silent; `gone` when a client left one. A question about the
    server (GET, or Ollama's about a model) is answered with `about`, or 404, and counts for nothing; `asked` has such
    questions.
    """

    # Seconds after which a client that a reply has fallen silent to is given up.
    forget = 10.0
    # What is answered to the question whether it builds answers by a schema.
    keeps_to_schemas = False

    def __init__(
        self,
        replies: Iterable[ScriptedClient] = (),
        *,
        repeat: bool = False,
        tls: ssl.SSLContext | None = None,
        about: bytes = b"",
    ) -> None:
        self.replies = list(replies)
        self.requests: list[Received] = []
        self.asked: list[Received] = []
        self._about = about
        self.violations: list[str] = []
        self.connections = 0
        self.stalled = threading.Event()
        self.gone = threading.Event()
        self._repeat = repeat
        self._tls = tls
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._accepting: threading.Thread | None = None
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        """Base URL for Chat Completions and Responses."""
        return self.url + "/v1"

    @property
    def anthropic_url(self) -> str:
        """Base URL for the Messages API."""
        return self.url

    @property
    def gemini_url(self) -> str:
        """Base URL for the Gemini API."""
        return self.url + "/v1beta"

    @property
    def ollama_url(self) -> str:
        """Base URL for Ollama's own API, as its OpenAI endpoint's."""
        return self.url + "/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The decoded request bodies."""
        return [r.body for r in self.requests]

    def __enter__(self) -> ModelServer:
        self._accepting = threading.Thread(target=self._accept, name="model-server", daemon=True)
        self._accepting.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close()
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raise AssertionError if a request broke the rules."""
        assert not self.violations, "\n".join(self.violations)

    def close(self) -> None:
        """Stop listening and drop every connection."""
        end_listening(self._listener)
        if self._accepting is not None:
            self._accepting.join(5)
        with self._lock:
            for sock in self._open:
                _drop(sock)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                number, self.connections = self.connections, self.connections + 1
                self._open.add(sock)
            threading.Thread(target=self._serve, args=(sock, number), daemon=True).start()

    def _report(self, sock: socket.socket, question: Received, about: bytes) -> None:
        with self._lock:
            self.connections -= 1
        self.asked.append(question)
        head = f"HTTP/1.1 {'200 OK' if about else '404 Not Found'}\r\nContent-Type: application/json\r\n"
        sock.sendall(f"{head}Content-Length: {len(about)}\r\nConnection: close\r\n\r\n".encode() + about)

    def _serve(self, sock: socket.socket, number: int) -> None:
        plain = sock
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
                with self._lock:
                    self._open.add(sock)
            stream = sock.makefile("rb")
            while (received := _receive(stream, number)) is not None:
                trial = b'"name":"trial"' in received.raw
                if not received.raw or received.path.endswith("/api/show") or trial:
                    self._report(sock, received, _TRIAL if trial and self.keeps_to_schemas else self._about)
                    break
                if not self._answer(sock, received):
                    break
        except OSError:
            self.gone.set()
        finally:
            with self._lock:
                self._open -= {plain, sock}
            _drop(sock)
            sock.close()

    def _next(self, received: Received) -> Reply:
        with self._lock:
            self.requests.append(received)
            self.violations += [f"request {len(self.requests)}: {v}" for v in violations(received)]
            if not self.replies:
                self.violations.append(f"request {len(self.requests)} is beyond the script")
                return Reply(status=400, error="the script has no further reply")
            scripted = self.replies[0]
            if len(self.replies) > 1 or not self._repeat:
                self.replies.pop(0)
        return scripted(received) if callable(scripted) else scripted

    def _answer(self, sock: socket.socket, received: Received) -> bool:
        """Answer one request; whether the connection may serve another."""
        reply = self._next(received)
        if reply.hang_up == "headers":
            return False
        if reply.stall == "headers":
            return self._fall_silent(sock)
        model = received.model
        if reply.raw is not None:
            parts, form = [reply.raw], reply.content_type or "application/json"
        elif reply.status != 200:
            parts, form = [refusal_body(reply, received.protocol)], "application/json"
        elif received.streamed:
            form = "application/x-ndjson" if received.protocol == "ollama" else "text/event-stream"
            parts = list(events(reply, received.protocol, model))
        else:
            parts, form = [whole(reply, received.protocol, model)], "application/json"
        head = f"HTTP/1.1 {reply.status} Scripted\r\nContent-Type: {reply.content_type or form}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in reply.headers)
        sock.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        return self._send_body(sock, reply, parts)

    def _send_body(self, sock: socket.socket, reply: Reply, parts: list[bytes]) -> bool:
        if reply.cut:
            body = b"".join(parts)
            parts = [body[i : i + reply.cut] for i in range(0, len(body), reply.cut)]
        for place, part in enumerate(parts):
            where = "body" if place == 0 else "middle" if place == len(parts) // 2 else "-"
            if reply.hang_up == where:
                return False
            if reply.stall == where:
                return self._fall_silent(sock)
            for piece in _dripping(part, reply.drip):
                sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            if reply.sent is not None:
                reply.sent(part)
        sock.sendall(b"0\r\n\r\n")
        return True

    def _fall_silent(self, sock: socket.socket) -> bool:
        self.stalled.set()
        sock.settimeout(self.forget)
        try:
            left = not sock.recv(1)
        except OSError:
            left = True
        if left:
            self.gone.set()
        return False


def _dripping(part: bytes, seconds: float) -> Iterator[bytes]:
    if not seconds:
        yield part
        return
    for i in range(len(part)):
        time.sleep(seconds)
        yield part[i : i + 1]


def _receive(stream: Any, number: int) -> Received | None:
    """The next request of a connection; None when the client has left."""
    line = stream.readline().decode()
    if not line.strip():
        return None
    headers: dict[str, str] = {}
    while (header := stream.readline().decode("latin-1").strip()) != "":
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()
    raw = stream.read(int(headers.get("content-length", "0")))
    return Received(line.split()[1], headers, raw, json.loads(raw or b"{}"), number)


def _drop(sock: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def openai(server: ModelServer, **more: str) -> dict[str, str]:
    return {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_RETRIES": "0", **more}

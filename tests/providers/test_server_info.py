"""How many tokens a model takes, in the words of the servers that say it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agent_cli.config.schema import Settings
from agent_cli.providers.catalog import lookup
from agent_cli.providers.resolve import resolve
from agent_cli.providers.server_info import ask_window
from agent_cli.runtime.models import ASSUMED, ASSUMED_LOCAL, ModelWindow, find_window


@contextmanager
def serving(answers: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """A server with these answers by path; yields its base URL and the paths that it was asked for."""
    asked: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = json.dumps(answers.get(self.path, {})).encode()
            self.send_response(200 if self.path in answers else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        server.server_close()


LLAMA = {"id": "q.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 32768}}


@pytest.mark.parametrize(
    ("answers", "window"),
    [
        ({"/v1/models": {"data": [{"id": "m", "max_model_len": 65536}]}}, 65536),
        ({"/v1/models": {"data": [{"id": "m", "owned_by": "x", "max_context_length": 40960}]}}, 40960),
        (
            {"/v1/models": {"data": [LLAMA]}, "/props": {"default_generation_settings": {"n_ctx": 8192}}},
            8192,
        ),
        ({"/v1/models": {"data": [LLAMA]}}, 32768),
        (
            {
                "/v1/models": {"data": [{"id": "m", "owned_by": "organization_owner"}, {"id": "n"}]},
                "/api/v0/models": {
                    "data": [{"id": "m", "max_context_length": 131072, "loaded_context_length": 4096}, {"id": "n"}]
                },
            },
            4096,
        ),
        (
            {
                "/v1/models": {"data": [{"id": "m", "owned_by": "library"}]},
                "/api/show": {"model_info": {"qwen3.context_length": 40960}, "parameters": "stop x"},
            },
            4096,
        ),
        (
            {
                "/v1/models": {"data": [{"id": "m", "owned_by": "library"}, {"id": "n"}]},
                "/api/ps": {"models": [{"name": "n", "context_length": 1}, {"name": "m", "context_length": 16384}]},
            },
            16384,
        ),
        ({"/v1/models": {"data": [{"id": "m", "owned_by": "library"}]}}, None),
        (
            {
                "/v1/models": {"data": [{"id": "m", "owned_by": "library"}]},
                "/api/show": {"model_info": {"qwen3.context_length": 40960}, "parameters": "num_ctx     8192\nstop x"},
            },
            8192,
        ),
        ({"/v1/models": {"data": [{"id": "one"}, {"id": "two"}]}}, None),
        ({"/v1/models": {"data": None}}, None),
        ({"/v1/models": [1]}, None),
        ({"/v1/models": {"data": [{"id": "m", "max_model_len": "many"}]}}, None),
        ({}, None),
    ],
)
def test_the_window_as_servers_report_it(answers: dict[str, Any], window: int | None) -> None:
    with serving(answers) as (url, _):
        assert ask_window(url, "m") == window


def found(name: str, url: str | None = None, **settings: Any) -> ModelWindow:
    model = resolve(name, base_url=url, env={"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"})
    return find_window(model, lookup(model.provider, model.model), Settings(**settings))


def test_who_says_how_large_the_window_is() -> None:
    with serving({"/v1/models": {"data": [{"id": "m", "max_model_len": 5000}]}}) as (url, asked):
        assert found("vllm/m", url) == ModelWindow(5000, "server")
        assert found("openai/m", url) == ModelWindow(5000, "server")
        asked.clear()
        assert found("vllm/m", url, context_window=2000) == ModelWindow(2000, "settings")
        assert found("anthropic/claude-sonnet-4-5", url) == ModelWindow(200_000, "catalog")
        assert found("anthropic/claude-sonnet-4-5", context_window=50_000) == ModelWindow(50_000, "settings")
        assert found("scripted:x") == ModelWindow(None, "none")
        assert asked == []
    assert found("vllm/m", "http://127.0.0.1:9/v1") == ModelWindow(ASSUMED_LOCAL, "assumed")
    # A server that speaks for Claude passes on what it is sent.
    assert found("anthropic/claude-next-1", "http://127.0.0.1:9") == ModelWindow(ASSUMED, "assumed")
    assert found("anthropic/claude-next-1") == ModelWindow(ASSUMED, "assumed")


def test_a_local_server_is_asked_although_the_catalog_knows_the_model() -> None:
    with serving({"/v1/models": {"data": [{"id": "llama3", "max_model_len": 4096}]}}) as (url, _):
        assert found("ollama/llama3", url) == ModelWindow(4096, "server")
    assert found("ollama/llama3", "http://127.0.0.1:9/v1") == ModelWindow(8192, "catalog")

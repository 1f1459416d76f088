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
from agent_cli.kernel.runtime.models import (
    ASSUMED_LOCAL_WINDOW_TOKENS,
    ASSUMED_WINDOW_TOKENS,
    ModelWindow,
    find_window,
    input_modalities,
    wants_small_profile,
)
from agent_cli.models.catalog import lookup
from agent_cli.models.resolve import resolve
from agent_cli.models.server_info import ServedModel, ask_server, constrains_answers


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
        assert ask_server(url, "m").window == window


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
    assert found("vllm/m", "http://127.0.0.1:9/v1") == ModelWindow(ASSUMED_LOCAL_WINDOW_TOKENS, "assumed")
    # A server that speaks for Claude passes on what it is sent.
    assert found("anthropic/claude-next-1", "http://127.0.0.1:9") == ModelWindow(ASSUMED_WINDOW_TOKENS, "assumed")
    assert found("anthropic/claude-next-1") == ModelWindow(ASSUMED_WINDOW_TOKENS, "assumed")


def test_a_local_server_is_asked_although_the_catalog_knows_the_model() -> None:
    with serving({"/v1/models": {"data": [{"id": "llama3", "max_model_len": 4096}]}}) as (url, _):
        assert found("lm_studio/llama3", url) == ModelWindow(4096, "server")


def shown(longest: int = 40_960, **more: Any) -> dict[str, Any]:
    return {"model_info": {"general.architecture": "qwen3", "qwen3.context_length": longest}, **more}


@pytest.mark.parametrize(
    ("answers", "settings", "window"),
    [
        ({"/api/show": shown()}, {}, ModelWindow(32_768, "server")),
        ({"/api/show": shown(8192)}, {}, ModelWindow(8192, "server")),
        ({"/api/show": shown(parameters="stop x\nnum_ctx     16384")}, {}, ModelWindow(16_384, "server")),
        ({"/api/show": shown(262_144, remote_host="https://ollama.com")}, {}, ModelWindow(262_144, "server")),
        # What another program has loaded it with counts only where it is more.
        (
            {"/api/show": shown(), "/api/ps": {"models": [{"name": "m:latest", "context_length": 4096}]}},
            {},
            ModelWindow(32_768, "server"),
        ),
        (
            {"/api/show": shown(131_072), "/api/ps": {"models": [{"name": "m:latest", "context_length": 65_536}]}},
            {},
            ModelWindow(65_536, "server"),
        ),
        ({"/api/show": shown()}, {"context_window": 12_000}, ModelWindow(12_000, "settings")),
        ({"/api/show": shown()}, {"context_window": 99_000}, ModelWindow(40_960, "settings")),
        ({"/api/show": shown(capabilities=["tools", "vision"])}, {}, ModelWindow(32_768, "server", True)),
        ({"/api/show": shown(capabilities=["completion"])}, {}, ModelWindow(32_768, "server", False)),
        ({"/api/show": [1]}, {}, ModelWindow(32_768, "assumed")),
        ({"/api/show": {"model_info": 7}}, {}, ModelWindow(32_768, "assumed")),
        ({}, {}, ModelWindow(32_768, "assumed")),
        ({}, {"context_window": 9000}, ModelWindow(9000, "settings")),
    ],
)
def test_the_window_that_ollama_is_asked_for(
    answers: dict[str, Any], settings: dict[str, Any], window: ModelWindow
) -> None:
    with serving(answers) as (url, _):
        assert found("ollama/m", url, **settings) == window


def test_images_are_shown_to_a_model_of_ollama_that_takes_them() -> None:
    for able, takes in ((True, {"image"}), (False, set()), (None, {"pdf"})):
        window = ModelWindow(1, "server", able)
        assert input_modalities(None, Settings(model_takes=("pdf",)), window) == takes


@pytest.mark.parametrize(
    ("name", "window", "parameters", "small"),
    [
        ("m", 200_000, None, False),
        ("m", 16_384, None, True),
        ("m", 32_768, 1_777_088_000, True),
        ("m-7b", 32_768, 30_000_000_000, False),
        ("qwen2.5-coder:7b", 32_768, None, True),
        ("meta-llama/Llama-3.1-8B-Instruct", 131_072, None, False),
        ("qwen3-coder:30b-a3b", 32_768, None, False),
        ("gemma3n:e4b", 32_768, None, True),
        ("mixtral-8x7b", 32_768, None, False),
        ("gpt-oss-20b", 131_072, None, False),
        ("gpt-4.1-mini", 1_000_000, None, False),
    ],
)
def test_small_models_are_known_by_window_size_and_name(
    name: str, window: int, parameters: int | None, small: bool
) -> None:
    found = ModelWindow(window, "server", parameters=parameters)
    assert wants_small_profile(Settings(), name, found) is small
    assert not wants_small_profile(Settings(profile="default"), name, found)


def test_servers_say_how_many_parameters_a_model_has() -> None:
    meta = {"n_ctx_train": 32768, "n_params": 1_777_088_000}
    with serving({"/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp", "meta": meta}]}}) as (url, _):
        assert ask_server(url, "m") == ServedModel(32768, 1_777_088_000, llama_cpp=True)
        window = found("openai/m", url)
        assert (window.parameters, window.llama_cpp) == (1_777_088_000, True)
    shown = {"model_info": {"general.parameter_count": 7_615_616_512, "qwen2.context_length": 32768}}
    with serving({"/api/show": shown}) as (url, _):
        assert found("ollama/m", url).parameters == 7_615_616_512


def described(*fields: str) -> dict[str, Any]:
    return {"components": {"schemas": {"ChatCompletionRequest": {"properties": {name: {} for name in fields}}}}}


TRIAL = "/v1/chat/completions"
KEPT = {"choices": [{"message": {"content": '{"word": "vermilion-37"}'}}]}


@pytest.mark.parametrize(
    ("answers", "able", "tried"),
    [
        ({"/props": {"default_generation_settings": {"n_ctx": 8192}}}, True, False),  # llama.cpp
        ({"/get_server_info": {"grammar_backend": "xgrammar", "version": "0.5"}}, True, False),  # SGLang
        ({"/server_info": {"grammar_backend": "llguidance"}}, True, False),
        ({"/get_server_info": {"grammar_backend": "none"}, TRIAL: KEPT}, False, False),
        ({"/openapi.json": described("messages", "structured_outputs")}, True, False),  # vLLM
        ({"/openapi.json": described("messages", "guided_json")}, True, False),
        # A server that says nothing about it, such as LM Studio, and one that answers every path with an error.
        ({"/openapi.json": described("messages"), TRIAL: KEPT}, True, True),
        ({"/props": {"error": "Unexpected endpoint"}, "/get_server_info": [1], TRIAL: KEPT}, True, True),
        ({TRIAL: {"choices": [{"message": {"content": "Hello!"}}]}}, False, True),
        ({TRIAL: {"choices": [{"message": {"content": None, "reasoning_content": "Hm"}}]}}, False, True),
        ({}, False, True),
    ],
)
def test_a_server_is_asked_whether_it_builds_answers_by_a_schema(
    answers: dict[str, Any], able: bool, tried: bool
) -> None:
    with serving(answers) as (url, asked):
        assert constrains_answers(url, "m", "k") is able
    assert (TRIAL in asked) == tried

"""Names of models, credentials, and what is used when nothing is configured."""

from __future__ import annotations

import json
import sys
import threading
import time
import types
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agent_cli.models import credentials
from agent_cli.models.catalog import newest_claude
from agent_cli.models.registry import PROVIDERS, base_url_of, find_provider
from agent_cli.models.resolve import (
    MissingKeyError,
    ModelSetupError,
    NoModelError,
    ResolvedModel,
    Secret,
    create_client,
    resolve,
)
from agent_cli.models.server_info import default_model, discover, offered_models

KEYS = {variable: f"key-of-{p.name}" for p in PROVIDERS for variable in p.keys if variable != "ANTHROPIC_AUTH_TOKEN"}


def nothing(url: str) -> list[str]:
    return []


@pytest.mark.parametrize(
    ("name", "provider", "model", "wire"),
    [
        ("openai/gpt-5", "openai", "gpt-5", "responses"),
        ("gpt-5", "openai", "gpt-5", "responses"),
        ("o3", "openai", "o3", "responses"),
        ("gpt-4.1", "openai", "gpt-4.1", "responses"),
        ("gpt-99-unheard-of", "openai", "gpt-99-unheard-of", "responses"),
        ("claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5", "anthropic"),
        ("anthropic/claude-opus-5", "anthropic", "claude-opus-5", "anthropic"),
        ("openrouter/anthropic/claude-x", "openrouter", "anthropic/claude-x", "openai"),
        ("groq/openai/gpt-oss-120b", "groq", "openai/gpt-oss-120b", "openai"),
        ("mistral-large-latest", "mistral", "mistral-large-latest", "openai"),
        ("deepseek-chat", "deepseek", "deepseek-chat", "openai"),
        ("grok-4.6", "xai", "grok-4.6", "openai"),
        ("xai/grok-4.20-multi-agent", "xai", "grok-4.20-multi-agent", "responses"),
        ("gemini-2.5-pro", "gemini", "gemini-2.5-pro", "gemini"),
        ("vertex_ai/claude-opus-5", "vertex_ai", "claude-opus-5", "litellm"),
        ("bedrock/anthropic.claude-v2", "bedrock", "anthropic.claude-v2", "litellm"),
        ("anthropic.claude-3-haiku-20240307-v1:0", "bedrock", "anthropic.claude-3-haiku-20240307-v1:0", "litellm"),
        ("watsonx/ibm/granite", "watsonx", "ibm/granite", "litellm"),
        ("qwen3:8b", "ollama", "qwen3:8b", "ollama"),
        ("ollama/hf.co/some/model:Q4", "ollama", "hf.co/some/model:Q4", "ollama"),
        ("fireworks_ai/glm-5p2", "fireworks_ai", "accounts/fireworks/models/glm-5p2", "openai"),
        ("gpt-5-codex", "openai", "gpt-5-codex", "responses"),
    ],
)
def test_a_name_means_a_provider_its_own_name_and_a_wire(name: str, provider: str, model: str, wire: str) -> None:
    found = resolve(name, env=KEYS)
    assert (found.provider, found.model, found.wire) == (provider, model, wire)


def test_short_names_mean_the_newest_claude() -> None:
    for short in ("sonnet", "opus", "haiku"):
        assert resolve(short, env=KEYS).model == newest_claude(short)


def test_a_script_needs_no_key() -> None:
    found = resolve("scripted:some/file.toml", env={})
    assert (found.wire, found.model, found.name) == ("scripted", "some/file.toml", "scripted:some/file.toml")


def test_a_name_that_means_nothing_is_refused_in_one_sentence() -> None:
    for name in ("flurb", "nobody/flurb", ""):
        with pytest.raises(NoModelError) as caught:
            resolve(name, env=KEYS)
        assert "\n" not in str(caught.value) and "provider/model" in str(caught.value)


def test_with_a_base_url_any_name_goes_to_that_server_without_a_key() -> None:
    for name in ("flurb", "Qwen/Qwen3-8B"):
        found = resolve(name, base_url="http://10.0.0.5:9000/v1/", env={})
        assert (found.provider, found.model, found.wire) == ("openai", name, "openai")
        assert (found.base_url, found.api_key) == ("http://10.0.0.5:9000/v1", None)


@pytest.mark.parametrize(
    ("model", "wire"),
    [
        ("gpt-5.6", "responses"),
        ("gpt-5-codex", "responses"),
        ("o3", "responses"),
        ("o1-pro", "responses"),
        ("codex-mini-latest", "responses"),
        ("gpt-4.1", "openai"),
        ("gpt-oss-20b", "openai"),
        ("our-model", "openai"),
    ],
)
def test_elsewhere_only_models_that_need_it_go_to_the_responses_api(model: str, wire: str) -> None:
    found = resolve(f"openai/{model}", env={"OPENAI_BASE_URL": "http://box/v1"})
    assert (found.wire, found.either, found.base_url) == (wire, True, "http://box/v1")


def test_the_protocol_of_a_provider_is_a_setting() -> None:
    def set_to(api: Any, name: str, env: dict[str, str]) -> ResolvedModel:
        return resolve(name, wire_api=lambda provider: api if name.startswith(provider) else "auto", env=env)

    assert set_to("chat", "openai/gpt-5", KEYS).wire == "openai"
    assert set_to("responses", "lm_studio/m", {}).wire == "responses"
    azure = {"AZURE_API_BASE": "https://us.openai.azure.com/"}
    assert set_to("auto", "azure/d", azure).wire == "litellm"
    for api, wire in (("responses", "responses"), ("chat", "openai")):
        found = set_to(api, "azure/d", azure)
        assert (found.wire, found.base_url) == (wire, "https://us.openai.azure.com/openai/v1")
        assert not found.either
    with pytest.raises(ModelSetupError, match="needs its address"):
        set_to("responses", "azure/d", {})
    for name in ("anthropic/claude-x", "gemini/gemini-2.5-pro"):
        with pytest.raises(ModelSetupError, match="own protocol"):
            set_to("chat", name, KEYS)
    assert set_to("chat", "gemini/x", {"GEMINI_API_BASE": "http://box/v1"}).wire == "openai"


def test_base_urls_come_from_the_environment() -> None:
    assert resolve("gpt-5", env={"OPENAI_BASE_URL": "http://box/v1"}).base_url == "http://box/v1"
    assert resolve("gpt-5", env={"OPENAI_API_BASE": "http://box/v1"}).base_url == "http://box/v1"
    assert resolve("sonnet", env={"ANTHROPIC_BASE_URL": "http://box"}).base_url == "http://box"
    assert resolve("claude-x", env=KEYS).base_url == "https://api.anthropic.com"
    assert (
        resolve("gemini-x", env={"GOOGLE_API_KEY": "k"}).base_url == "https://generativelanguage.googleapis.com/v1beta"
    )
    assert resolve("gemini-x", env={"GEMINI_API_BASE": "http://box/"}).base_url == "http://box/v1beta"
    assert resolve("gemini-x", env={"GOOGLE_GEMINI_BASE_URL": "http://box/v1"}).base_url == "http://box/v1"


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("", "http://localhost:11434/v1"),
        ("0.0.0.0", "http://localhost:11434/v1"),
        ("127.0.0.1:5000", "http://127.0.0.1:5000/v1"),
        (":5000", "http://localhost:5000/v1"),
        ("http://box:5000/", "http://box:5000/v1"),
        ("https://box.example", "https://box.example/v1"),
        ("http://[::1]:5000", "http://[::1]:5000/v1"),
        ("http://box/ollama/v1", "http://box:11434/ollama/v1"),
    ],
)
def test_an_ollama_host_is_read_as_ollama_reads_it(value: str, url: str) -> None:
    provider = find_provider("ollama")
    assert provider is not None
    assert base_url_of(provider, {"OLLAMA_HOST": value}) == url


@pytest.mark.parametrize(
    "url", ["llm.example.org/v1", "127.0.0.1:80/v1", "ftp://x/v1", "http://h:99999/v1", "http://[::1/v1"]
)
def test_an_address_that_no_request_can_go_to_is_refused_by_the_name_of_its_setting(url: str) -> None:
    with pytest.raises(
        ModelSetupError, match=r"^the address in base_url, '.*: write it as https://HOST/v1, or"
    ) as caught:
        resolve("openai/m", base_url=url, env={})
    assert url in str(caught.value)
    with pytest.raises(ModelSetupError, match=r"^the address in OPENAI_BASE_URL, "):
        resolve("openai/m", env={"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k"})


def test_the_transport_can_be_forced() -> None:
    assert resolve("gpt-5", transport="litellm", env=KEYS).wire == "litellm"
    assert resolve("gpt-5-codex", transport="direct", env=KEYS).wire == "responses"
    assert resolve("sonnet", transport="litellm", env=KEYS).litellm == f"anthropic/{newest_claude('sonnet')}"
    assert resolve("ollama/x", transport="litellm", env={}).litellm == "openai/x"
    with pytest.raises(ModelSetupError, match="only through LiteLLM"):
        resolve("bedrock/anthropic.claude-v2", transport="direct", env=KEYS)
    with pytest.raises(ModelSetupError, match="only through LiteLLM"):
        resolve("vertex_ai/claude-opus-5", transport="direct", env=KEYS)
    through = resolve("gemini/gemini-2.5-pro", transport="litellm", env=KEYS)
    assert (through.wire, through.litellm, through.base_url) == ("litellm", "gemini/gemini-2.5-pro", "")


@pytest.mark.parametrize("name", ["cohere/command-a-03-2025", "cohere_chat/command-a-03-2025", "command-a-03-2025"])
def test_cohere_is_a_compatible_server_also_for_litellm(name: str) -> None:
    env = {**KEYS, "COHERE_API_BASE": "https://api.cohere.com/v2/chat"}
    direct, through = (resolve(name, transport=how, env=env) for how in ("auto", "litellm"))
    assert (direct.name, direct.wire) == ("cohere/command-a-03-2025", "openai")
    assert (through.litellm, through.wire) == ("openai/command-a-03-2025", "litellm")
    assert direct.base_url == through.base_url == "https://api.cohere.ai/compatibility/v1"


def test_a_missing_key_names_the_variable_to_set() -> None:
    for name, variable in (
        ("gpt-5", "OPENAI_API_KEY"),
        ("sonnet", "ANTHROPIC_API_KEY"),
        ("gemini/x", "GEMINI_API_KEY"),
    ):
        with pytest.raises(MissingKeyError, match=variable):
            resolve(name, env={variable: "  "})


def test_the_key_never_shows() -> None:
    found = resolve("gpt-5", env={"OPENAI_API_KEY": " sk-12345\n"})
    assert found.key_source == "environment OPENAI_API_KEY"
    assert found.api_key is not None and found.api_key.reveal() == "sk-12345"
    assert "12345" not in repr(found) and "12345" not in str(found.api_key)
    with pytest.raises(TypeError):
        json.dumps(found.api_key)


def test_an_anthropic_token_is_a_bearer_token() -> None:
    found = resolve("sonnet", env={"ANTHROPIC_AUTH_TOKEN": "t"})
    assert found.bearer and found.key_source == "environment ANTHROPIC_AUTH_TOKEN"
    assert not resolve("sonnet", env={"ANTHROPIC_API_KEY": "k", "ANTHROPIC_AUTH_TOKEN": "t"}).bearer


def test_the_environment_comes_before_the_key_command_and_that_before_the_keyring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ring = types.ModuleType("keyring")
    ring.get_password = lambda service, user: f"ring-{service}-{user}"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", ring)
    path = {"PATH": "/usr/bin:/bin"}

    def key(**options: Any) -> tuple[str, str]:
        found = resolve("gpt-5", **options)
        assert found.api_key is not None
        return found.api_key.reveal(), found.key_source

    assert key(env={"OPENAI_API_KEY": "e"}, key_command="echo c", keyring=True)[0] == "e"
    assert key(env=path, key_command="printf ' c '; exit 0", keyring=True) == ("c", "key_command")
    assert key(env={}, keyring=True) == ("ring-agent-openai", "system keyring (agent, openai)")


@pytest.mark.parametrize(
    ("command", "text"),
    [("echo no >&2; exit 3", "exit code 3: no"), ("true", "printed nothing"), ("sleep 9", "within")],
)
def test_a_key_command_that_fails_says_so(command: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "COMMAND_SECONDS", 0.2)
    with pytest.raises(ModelSetupError, match=text):
        resolve("gpt-5", env={"PATH": "/usr/bin:/bin"}, key_command=command)


def test_a_keyring_that_fails_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = types.ModuleType("keyring")

    def broken(service: str, user: str) -> str:
        raise RuntimeError("no backend")

    ring.get_password = broken  # type: ignore[attr-defined]
    for module in (ring, None):  # None: not installed
        monkeypatch.setitem(sys.modules, "keyring", module)
        with pytest.raises(MissingKeyError):
            resolve("gpt-5", env={}, keyring=True)


def test_a_key_in_the_environment_chooses_the_model() -> None:
    assert default_model({"OPENAI_API_KEY": "k"}, nothing).startswith("openai/")
    both = discover({"GROQ_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, nothing)
    assert [name.partition("/")[0] for name, _ in both] == ["anthropic", "groq"]
    assert both[0][1] == "ANTHROPIC_API_KEY is set"
    for variable in KEYS:
        for name, _ in discover({variable: "k"}, nothing):
            assert resolve(name, env={variable: "k"}).api_key


def test_a_local_server_comes_after_the_keys() -> None:
    found = discover({"GROQ_API_KEY": "k"}, lambda url: ["m"] if ":1234" in url else [])
    assert [name for name, _ in found] == ["groq/openai/gpt-oss-120b", "lm_studio/m"]


def test_a_key_for_a_server_of_ones_own_takes_the_model_that_it_has() -> None:
    env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    assert default_model(env, lambda url, key="": [f"m-{key}"] if ":9/" in url else []) == "openai/m-k"


def test_a_gateway_is_asked_where_its_api_has_the_models_and_with_its_key(local: str) -> None:
    for base in ("gateway", "gateway/v1"):
        env = {"ANTHROPIC_API_KEY": "key-of-the-gateway", "ANTHROPIC_BASE_URL": f"{local}/{base}"}
        assert default_model(env) == "anthropic/claude-here"


@pytest.mark.parametrize("path", ["missing", "empty", "html", "list"])
def test_a_gateway_that_lists_no_models_gets_the_default_of_the_provider(local: str, path: str) -> None:
    for key in ({"ANTHROPIC_API_KEY": "k"}, {"ANTHROPIC_AUTH_TOKEN": "k"}, {}):
        env = {"ANTHROPIC_BASE_URL": f"{local}/{path}", "OLLAMA_HOST": "127.0.0.1:9", **key}
        assert default_model(env) == default_model({"ANTHROPIC_API_KEY": "k"})


@pytest.mark.parametrize(
    ("variable", "offered", "chosen"),
    [
        ("ANTHROPIC_BASE_URL", ["gpt-3.5-turbo", "claude-haiku-4-5", "claude-sonnet-4-5"], "claude-sonnet-4-5"),
        ("ANTHROPIC_BASE_URL", ["gpt-4o", "anthropic/claude-haiku-4-5"], "anthropic/claude-haiku-4-5"),
        ("ANTHROPIC_BASE_URL", ["qwen3:8b", "llama3"], "qwen3:8b"),
        ("OPENAI_BASE_URL", ["claude-sonnet-4-5", "gpt-4o", "gpt-5.6"], "gpt-5.6"),
        ("OPENAI_BASE_URL", ["claude-sonnet-4-5", "o3", "gpt-4o"], "o3"),
    ],
)
def test_the_family_of_the_provider_comes_first_in_the_list_of_a_gateway(
    variable: str, offered: list[str], chosen: str
) -> None:
    found = default_model({variable: "http://127.0.0.1:9"}, lambda url: offered if ":9" in url else [])
    assert found.partition("/")[2] == chosen


def test_an_address_on_this_machine_needs_no_key_and_gets_the_default_of_the_provider() -> None:
    env = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    assert default_model(env, nothing) == default_model({"OPENAI_API_KEY": "k"}, nothing)
    assert resolve(default_model(env, nothing), env=env).base_url == env["OPENAI_BASE_URL"]
    with pytest.raises(NoModelError, match=r"OPENAI_BASE_URL is set, and its server asks for a key \(OPENAI_API_KEY\)"):
        default_model({"OPENAI_BASE_URL": "https://models.example/v1"}, nothing)


def test_with_nothing_there_it_says_what_was_looked_for() -> None:
    with pytest.raises(NoModelError) as caught:
        default_model({}, nothing)
    text = str(caught.value)
    assert "ANTHROPIC_API_KEY" in text and "Ollama" in text and "agent demo" in text and "\n" not in text


class Server(BaseHTTPRequestHandler):
    answers: ClassVar = {
        "/good/models": (200, b'{"data":[{"id":"nomic-embed-text"},{"id":"llama3"}]}'),
        "/gateway/v1/models": (200, b'{"data":[{"id":"claude-here","type":"model"}],"has_more":false}'),
        "/empty/models": (200, b'{"data":null}'),
        "/html/models": (200, b"<html>"),
        "/list/models": (200, b"[]"),
    }

    def do_GET(self) -> None:
        status, body = self.answers.get(self.path, (404, b""))
        if "gateway" in self.path and self.headers["x-api-key"] != "key-of-the-gateway":
            status, body = 401, b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def local() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_server_is_asked_for_its_first_chat_model(local: str) -> None:
    assert offered_models(f"{local}/good") == ["llama3"]
    for path in ("empty", "html", "list", "missing"):
        assert offered_models(f"{local}/{path}") == []
    assert offered_models("https://localhost/v1") == []


def test_where_no_server_is_the_probe_gives_up_at_once() -> None:
    begun = time.monotonic()
    assert offered_models("http://127.0.0.1:9/v1") == []
    assert offered_models("http://10.255.255.1:9/v1") == []
    assert time.monotonic() - begun < 20


def test_each_wire_opens_and_a_script_is_not_retried(tmp_path: Path) -> None:
    for name in ("gpt-5", "sonnet", "gemini/gemini-2.5-pro"):
        assert type(create_client(resolve(name, env=KEYS), attempts=2)).__name__ == "RetryingClient"
    script = tmp_path / "s.toml"
    script.write_text('[[reply]]\ntext = "hi"\n')
    assert type(create_client(resolve(f"scripted:{script}", env={}))).__name__ == "ScriptedClient"
    with pytest.raises(ModelSetupError, match="nowhere"):
        create_client(resolve("scripted:nowhere.toml", env={}))


def test_two_resolutions_of_one_name_are_equal() -> None:
    one, two = resolve("gpt-5", env=KEYS), resolve("gpt-5", env=KEYS)
    assert one == two and isinstance(one, ResolvedModel) and one.api_key == Secret("key-of-openai")


def test_an_address_without_a_key_is_asked_for_its_model() -> None:
    local = {"OPENAI_BASE_URL": "http://127.0.0.1:7777/v1"}
    assert discover(local, lambda url, **key: ["mine"] if ":7777" in url else []) == [
        ("openai/mine", "OPENAI_BASE_URL is set, for http://127.0.0.1:7777/v1")
    ]

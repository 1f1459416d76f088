"""Ask a model server what it offers, with short limits. Nothing here raises for a server that does not answer.

Also how many tokens a model takes. Servers report it in different places: vLLM and SGLang with the model in
`/v1/models`, llama.cpp in `/props`, LM Studio in `/api/v0/models`, Ollama in `/api/ps` and `/api/show`.

If no model is configured: what is available, by a key in the environment or a server on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from agent_cli.models.base import ModelError
from agent_cli.models.catalog import SHORT_NAMES, expand_short_name
from agent_cli.models.credentials import KeyStore, NoModelError, Secret, find_key, key_variable
from agent_cli.models.http_client import encode_json, endpoint_url
from agent_cli.models.registry import (
    LOCAL_SERVERS,
    PROVIDERS,
    Provider,
    base_url_of,
    find_provider,
    is_loopback_url,
    native_url,
)
from agent_tools.cancel import CancelToken
from agent_tools.net.http import HttpClient, Timeouts
from agent_tools.net.http_connection import HttpError
from agent_tools.record import Value

# Called with a base URL, and with the key if the server has one; returns the chat models that it offers.
Probe = Callable[..., list[str]]


def default_model(env: Mapping[str, str], probe: Probe | None = None, logins: KeyStore | None = None) -> str:
    """Return the model to use when none is configured: the best of `discover`.

    Raises NoModelError, which says what was looked for.
    """
    for name, _ in _found(_places(env, logins), probe or offered_models):
        return name
    for provider, variable in _with_addresses(env, logins):
        raise NoModelError(
            f"no model is configured; {variable} is set, and its server asks for a key ({provider.keys[0]})"
        )
    keys = ", ".join(p.keys[0] for p in PROVIDERS[:4])
    servers = ", ".join(LOCAL_SERVERS.values())
    raise NoModelError(
        f"no model is configured, and none was found: no key in the environment ({keys}, ...), no local server "
        f"({servers}). Set one up with agent login, or see it work: agent demo"
    )


def discover(
    env: Mapping[str, str], probe: Probe | None = None, logins: KeyStore | None = None
) -> list[tuple[str, str]]:
    """Return every model that could be the default, best first, each with the reason in a few words."""
    return list(_found(_places(env, logins), probe or offered_models))


def local_models(env: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the models of the servers on this machine, as `discover` does."""
    return list(_found(_local_places(env), offered_models))


def offered_models(base_url: str, key: str = "") -> list[str]:
    """Return the chat models that the server at `base_url` offers. Gives up within about a second."""
    if not base_url.startswith("http://"):
        return []
    return chat_models(ask_json(f"{base_url.rstrip('/')}/models", key))


def chat_models(listed: Any) -> list[str]:
    """Return the chat models in a provider's list of models; none if it is something else."""
    try:
        if "models" in listed:  # in Gemini's API
            names = [str(m["name"]).removeprefix("models/") for m in listed["models"]]
        else:
            names = [m["id"] for m in listed["data"] if isinstance(m["id"], str)]
    except (LookupError, TypeError):
        return []  # whatever listens there is not a model server
    return [name for name in names if "embed" not in name.lower()]


def served_models(env: Mapping[str, str], logins: KeyStore | None = None) -> dict[str, list[str]]:
    """Return the models that servers on this machine offer, by provider. Each is asked, which may take a second."""
    asked = ((place.provider.name, offered_models(place.url, place.key)) for place in _places(env, logins) if place.url)
    return {name: models for name, models in asked if models}


class _Place(Value):
    """Where a model could be.

    url: of the server to ask for its models; "" to take the provider's default model.
    key: for that server.
    gateway: it forwards to the provider, and may not list its models.
    """

    provider: Provider
    reason: str
    url: str = ""
    key: str = ""
    gateway: bool = False


def _found(places: Iterable[_Place], probe: Probe) -> Iterator[tuple[str, str]]:
    for place in places:
        offered = (probe(place.url, key=place.key) if place.key else probe(place.url)) if place.url else []
        model = _preferred(place.provider, offered)
        if not model and (place.gateway or not place.url) and (place.key or not place.url or not _wants_key(place.url)):
            model = usual_model(place.provider)
        if model:
            yield f"{place.provider.name}/{model}", place.reason


def _preferred(provider: Provider, offered: list[str]) -> str:
    """Return the model of a list to use: the provider's default or its family before the first; "" of none."""
    usual = usual_model(provider)
    own = [name for name in offered if name.rpartition("/")[2].startswith(provider.name_prefixes)]
    family = [name for name in own if provider.default in SHORT_NAMES and provider.default in name]
    return usual if usual in offered else next(iter((*family, *own, *offered)), "")


def _places(env: Mapping[str, str], logins: KeyStore | None) -> Iterator[_Place]:
    """Yield where a model could be, the preferred one first."""
    for provider, key, why in _with_keys(env, logins):
        yield _at_address(provider, why, base_url_of(provider, env), key.reveal())
    for provider, variable in _with_addresses(env, logins):
        if is_loopback_url(url := base_url_of(provider, env)):  # another server needs a key
            yield _at_address(provider, f"{variable} is set", url)
    yield from _local_places(env)


def _at_address(provider: Provider, why: str, url: str, key: str = "") -> _Place:
    if not is_loopback_url(url):
        return _Place(provider, why)
    # The user's own server may have other models than the provider.
    return _Place(provider, f"{why}, for {url}", models_url(provider, url), key, gateway=True)


def _local_places(env: Mapping[str, str]) -> Iterator[_Place]:
    for provider in [p for name in LOCAL_SERVERS if (p := find_provider(name))]:
        url = base_url_of(provider, env)
        yield _Place(provider, f"a server answers at {url}", url)


def _with_keys(env: Mapping[str, str], logins: KeyStore | None) -> Iterator[tuple[Provider, Secret, str]]:
    """Yield the providers that have a default model and a key, with the key and how it was found."""
    stored = logins.names() if logins is not None else ()
    for provider in PROVIDERS:
        variable = key_variable(provider, env)
        if not provider.default or provider.local or not (variable or provider.name in stored):
            continue
        key, source = find_key(provider, env, None, False, logins)
        if key is not None:
            yield provider, key, f"{variable} is set" if source.endswith(variable) and variable else "you logged in"


def _with_addresses(env: Mapping[str, str], logins: KeyStore | None) -> Iterator[tuple[Provider, str]]:
    """Yield the providers that have an address but no key, with the variable of the address."""
    keyed = [provider for provider, _, _ in _with_keys(env, logins)]
    for provider in PROVIDERS:
        variable = next((v for v in provider.base_url_vars if env.get(v, "").strip()), None)
        if variable is not None and provider.default and not provider.local and provider not in keyed:
            yield provider, variable


def models_url(provider: Provider, base_url: str) -> str:
    """Return the URL below which a provider's API at this address lists its models."""
    url = base_url.rstrip("/")
    version = {"anthropic": "/v1", "gemini": "/v1beta"}.get(provider.wire, "")
    return url.removesuffix(version) + version


def usual_model(provider: Provider) -> str:
    """Return the model of a provider to use when none is named; "" if there is no usual one."""
    if provider.default in SHORT_NAMES:
        return expand_short_name(provider.default)
    return provider.default


LOCAL = Timeouts(connect=0.2, idle=1.0, total=1.0)
REMOTE = Timeouts(connect=2.0, idle=2.0, total=2.0)
_MAX_BYTES = 4 << 20
# Ollama's context unless OLLAMA_CONTEXT_LENGTH or the model's own file sets a larger one.
_OLLAMA_DEFAULT_TOKENS = 4096
# Names of the number of tokens that a model takes; as loaded first.
_WINDOW_KEYS = (
    "loaded_context_length", "max_model_len", "context_window", "max_context_length", "context_length",
)  # fmt: skip


class OllamaModel(Value):
    """What Ollama reports about a model.

    max_context: the context that it was made for.
    configured: the context that its own file, or the cloud, sets.
    loaded: the context that it is loaded with, if none is configured.
    images: it accepts them; None: unknown.
    parameters: number of parameters.
    """

    max_context: int | None
    configured: int | None
    loaded: int | None
    images: bool | None
    parameters: int | None = None


def ask_json(url: str, key: str = "", *, body: dict[str, Any] | None = None, timeouts: Timeouts | None = None) -> Any:
    """Return the JSON that a server answers to a GET (with a body: a POST), or None."""
    local = is_loopback_url(url)
    own = {"Authorization": f"Bearer {key}", "x-api-key": key, "anthropic-version": "2023-06-01"} if key else {}
    if key and url.endswith("/v1beta/models"):
        own = {"x-goog-api-key": key}
    if body is not None:
        own["Content-Type"] = "application/json"
    # A server on this machine is called without a proxy.
    client = HttpClient(timeouts or LOCAL, {}, max_idle=0) if local else HttpClient(timeouts or REMOTE, max_idle=0)
    try:
        sent = None if body is None else encode_json(body)
        reply = client.send(endpoint_url(url), {"Accept": "application/json", **own}, sent, CancelToken())
        try:
            return json.loads(reply.read_all(_MAX_BYTES)) if reply.status == 200 else None
        finally:
            reply.close()
    except (HttpError, ModelError, ValueError, RecursionError):
        return None


def _wants_key(base_url: str) -> bool:
    """Return True if the server at `base_url` refuses a request without a key."""
    client = HttpClient(LOCAL, {}, max_idle=0)
    try:
        reply = client.send(endpoint_url(f"{base_url.rstrip('/')}/models"), {}, None, CancelToken())
        reply.close()
        return reply.status in (401, 403)
    except (HttpError, ModelError):
        return False


class ServedModel(Value):
    """What a server reports about a model that it runs; None: unknown.

    window: the tokens that it takes.
    parameters: number of parameters.
    llama_cpp: the server is llama.cpp.
    """

    window: int | None = None
    parameters: int | None = None
    llama_cpp: bool = False


def ask_server(base_url: str, model: str, key: str = "") -> ServedModel:
    """Return what the server at `base_url` (`.../v1`) reports about a model."""
    try:
        listed = ask_json(f"{base_url.rstrip('/')}/models", key)
        if listed is None:
            return ServedModel()
        entry = _entry(listed["data"], model)
        window = _window(base_url.rstrip("/"), entry, model, key)
        parameters = _size((entry.get("meta") or {}).get("n_params"))
        return ServedModel(window, parameters, entry.get("owned_by") == "llamacpp")
    except (AttributeError, LookupError, TypeError):
        return ServedModel()  # an answer of another form


_TRIAL = Timeouts(connect=0.5, idle=30.0, total=60.0)
_REQUEST_FIELDS = ("components", "schemas", "ChatCompletionRequest", "properties")
# Where servers say whether they can build answers by a schema: a path, and a value in its answer. Any value but "none"
# says so: llama.cpp always can, SGLang names what does it, and vLLM's description has a field for it.
_CONSTRAINS = (
    ("/props", ("default_generation_settings",)),
    ("/get_server_info", ("grammar_backend",)),
    ("/server_info", ("grammar_backend",)),
    ("/openapi.json", (*_REQUEST_FIELDS, "structured_outputs")),
    ("/openapi.json", (*_REQUEST_FIELDS, "guided_json")),  # vLLM before 0.12
)


def constrains_answers(base_url: str, model: str, key: str = "") -> bool:
    """Ask the server whether it builds answers by a JSON schema, or for such an answer if it does not say."""
    root, answers = base_url.rstrip("/").removesuffix("/v1"), dict[str, Any]()
    for path, names in _CONSTRAINS:
        if path not in answers:
            answers[path] = ask_json(root + path, key, timeouts=_TRIAL)
        told = answers[path]
        for name in names:
            told = told.get(name) if isinstance(told, dict) else None
        if told is not None:
            return bool(told != "none")
    return _keeps_to_schema(base_url, model, key)


def _keeps_to_schema(base_url: str, model: str, key: str) -> bool:
    """Ask for an answer that only a schema could bring about; return True if it came."""
    word = "vermilion-37"
    schema = {"type": "object", "properties": {"word": {"const": word}}, "required": ["word"]}
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Say hello."}],
        "max_tokens": 40,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "trial", "schema": schema, "strict": True}},
    }
    answer = ask_json(f"{base_url.rstrip('/')}/chat/completions", key, body=body, timeouts=_TRIAL)
    try:
        return bool(json.loads(answer["choices"][0]["message"]["content"])["word"] == word)
    except (LookupError, TypeError, ValueError):
        return False


def _window(base_url: str, entry: dict[str, Any], model: str, key: str) -> int | None:
    root = base_url.removesuffix("/v1")
    if "meta" in entry or entry.get("owned_by") == "llamacpp":
        served = ask_json(f"{root}/props", key) or {}
        meta = entry.get("meta") or {}
        sizes = (
            (served.get("default_generation_settings") or {}).get("n_ctx"),
            meta.get("n_ctx"),
            meta.get("n_ctx_train"),
        )
        return next(filter(None, map(_size, sizes)), None)
    if size := _first_size(entry):
        return size
    if not is_loopback_url(base_url):
        return None
    if entry.get("owned_by") == "library":
        return _ollama_window(root, model, key)
    return _first_size(_entry((ask_json(f"{root}/api/v0/models", key) or {"data": []})["data"], model))


def _ollama_window(root: str, model: str, key: str) -> int | None:
    """Return the context with which Ollama has loaded, or will load, a model: OpenAI's protocol cannot set it.

    Ollama silently truncates what does not fit.
    """
    if loaded := _loaded(root, model, key):
        return loaded
    shown = ask_json(f"{root}/api/show", key, body={"model": model})
    if shown is None:
        return None
    return _configured(shown) or min(_OLLAMA_DEFAULT_TOKENS, _max_context(shown) or _OLLAMA_DEFAULT_TOKENS)


def ask_ollama(base_url: str, model: str, key: str = "") -> OllamaModel | None:
    """Return what Ollama's own API reports about a model, or None."""
    root = native_url(base_url)
    try:
        shown = ask_json(f"{root}/api/show", key, body={"model": model})
        if shown is None:
            return None
        able, max_context = shown.get("capabilities"), _max_context(shown)
        # A model in Ollama's cloud takes no memory here.
        configured = max_context if shown.get("remote_host") else _configured(shown)
        loaded = None if configured else _loaded(root, model, key)
        images = "vision" in able if isinstance(able, list) else None
        parameters = _size((shown.get("model_info") or {}).get("general.parameter_count"))
        return OllamaModel(max_context, configured, loaded, images, parameters)
    except (AttributeError, LookupError, TypeError):
        return None  # an answer of another form


def _loaded(root: str, model: str, key: str) -> int | None:
    """Return the context that a model is loaded with, or None."""
    names = (model, f"{model}:latest")
    for entry in (ask_json(f"{root}/api/ps", key) or {}).get("models") or ():
        if (entry.get("name") in names or entry.get("model") in names) and (size := _size(entry.get("context_length"))):
            return size
    return None


def _configured(shown: Mapping[str, Any]) -> int | None:
    """Return the context that the model's own file sets, or None."""
    for line in str(shown.get("parameters") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == "num_ctx" and value.strip().isdigit():
            return int(value)
    return None


def _max_context(shown: Mapping[str, Any]) -> int | None:
    """Return the context that a model was made for."""
    about: Mapping[str, Any] = shown.get("model_info") or {}
    sizes = [size for name, value in about.items() if name.endswith(".context_length") and (size := _size(value))]
    return min(sizes, default=None)


def _entry(models: list[dict[str, Any]], model: str) -> dict[str, Any]:
    """Return the entry of a model in a list; a server with a single model runs it under any name."""
    named = [m for m in models if m.get("id") == model or model in (m.get("aliases") or ())]
    return (named or (models if len(models) == 1 else [{}]))[0]


def _first_size(entry: dict[str, Any]) -> int | None:
    return next(_sizes(entry), None)


def _sizes(entry: dict[str, Any]) -> Iterator[int]:
    for name in _WINDOW_KEYS:
        if size := _size(entry.get(name)):
            yield size


def _size(value: Any) -> int | None:
    return value if value.__class__ is int and value > 0 else None

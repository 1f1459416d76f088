"""From the name of a model to an open client: which provider, where, with which key, over which protocol.

Names follow LiteLLM's `provider/model`. A name without provider is resolved by its beginning (`claude-...`, `gpt-...`),
then by the catalog, then, if a base URL is configured, as whatever that server calls its model. Nothing is sent here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from agent_cli.kernel.results import Failure
from agent_cli.models.base import CacheTtl, ModelClient, ModelError
from agent_cli.models.catalog import SHORT_NAMES, expand_short_name, is_provider, lookup, owner_of
from agent_cli.models.credentials import (
    KeyStore,
    MissingKeyError,
    ModelSetupError,
    NoModelError,
    Secret,
    find_key,
    key_of_command,
    missing_key,
)
from agent_cli.models.registry import (
    Provider,
    Wire,
    WireApi,
    base_url_of,
    base_url_variable,
    find_provider,
    is_web_url,
    normalize_url,
    provider_by_prefix,
)
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value

if TYPE_CHECKING:
    from agent_tools.cancel import CancelToken
    from agent_tools.net.http import Timeouts

with lazy_imports():
    from agent_cli.models import (
        anthropic,
        gemini,
        google_auth,
        ollama,
        openai_chat,
        openai_responses,
        recording,
        retry,
        scripted,
    )
    from agent_cli.models import litellm as providers_litellm
    from agent_tools.net import http

__all__ = [
    "MissingKeyError", "ModelSetupError", "NoModelError", "ResolvedModel", "Secret", "create_client", "resolve",
]  # fmt: skip

TransportChoice = Literal["auto", "direct", "litellm"]
WireApiOf = Callable[[str], WireApi]

SCRIPTED = "scripted:"
REPLAY = "replay:"
# Suffix of a Claude's name that asks for a window of a million tokens.
LONG_SUFFIX = "[1m]"
OPUS_PLAN = "opusplan"
_VERTEX = "https://{host}/v1beta1/projects/{project}/locations/{location}/publishers/google"
_EXPRESS = "https://aiplatform.googleapis.com/v1beta1/publishers/google"  # with an API key and no project
# Models that OpenAI rejects on Chat Completions, by themselves or with tools.
_WITH_RESPONSES = r"gpt-([5-9]|\d\d)|o[1-9](-|$)|codex-"


class ResolvedModel(Value, tag="Resolved"):
    """A model that can be called.

    model: what the provider calls it; for a script its path.
    base_url: empty if the client knows it.
    key_source: origin of the key, in words.
    bearer: the key is an OAuth token, not an API key.
    renew: returns a new token when it has expired.
    litellm: how LiteLLM spells the model.
    either: the server may require OpenAI's other protocol.
    recording: path of the recording that is replayed.
    window: size of its window in the recording.
    long: a window of a million tokens was requested.
    """

    provider: str
    model: str
    wire: Wire
    base_url: str
    key_source: str
    api_key: Secret | None = None
    bearer: bool = False
    renew: Callable[[CancelToken], str] | None = None
    litellm: str = ""
    either: bool = False
    recording: str = ""
    window: int | None = None
    long: bool = False

    @property
    def name(self) -> str:
        return f"{SCRIPTED}{self.model}" if self.wire == "scripted" else f"{self.provider}/{self.model}"


def resolve(
    name: str,
    *,
    base_url: str | None = None,
    transport: TransportChoice = "auto",
    wire_api: WireApiOf = lambda provider: "auto",
    env: Mapping[str, str],
    key_command: str | None = None,
    keyring: bool = False,
    logins: KeyStore | None = None,
) -> ResolvedModel:
    """Return everything needed to call the model `name`.

    wire_api: returns which of OpenAI's protocols is configured for a provider.
    base_url, key_command, keyring: must come from the user's own settings, never from a project's.
    logins: the keys that the user stored with `agent login`.

    Raises NoModelError for an unknown name, MissingKeyError if no key was found, and ModelSetupError if the key command
    fails or the chosen transport cannot reach this provider.
    """
    name, long = (name[: -len(LONG_SUFFIX)], True) if name.endswith(LONG_SUFFIX) else (name, False)
    if name == OPUS_PLAN:
        name = "sonnet"  # plans are made by another model: see `runtime.models.make_planner`
    if name.startswith(SCRIPTED):
        return ResolvedModel("scripted", name[len(SCRIPTED) :], "scripted", "", "none needed")
    if name.startswith(REPLAY):
        return replayed(name[len(REPLAY) :])
    provider, model = _split(name.strip(), base_url)
    if provider.model_prefix and "/" not in model:
        model = provider.model_prefix + model
    url = normalize_url(base_url, provider) if base_url else base_url_of(provider, env)
    elsewhere = url != provider.base_url
    if elsewhere and url and not is_web_url(url):
        source = "base_url" if base_url else base_url_variable(provider, env)
        raise ModelSetupError(
            f"the address in {source}, {url!r}, is not one that a request can go to: write it as https://HOST/v1, or "
            "http://HOST:PORT/v1"
        )
    api = wire_api(provider.name)
    if provider.name == "azure" and api != "auto":
        url = _azure_url(url)
    wire = _wire(provider, model, elsewhere, transport, api, url)
    key, source = find_key(provider, env, key_command, keyring, logins)
    if key is None:
        # Another address may be any server, which will say whether it needs a key.
        if provider.needs_key and not elsewhere:
            raise missing_key(provider)
        source = "none needed" if provider.local else "none found"
    if provider.name == "vertex_ai" and wire == "gemini":
        found = _on_vertex(model, url, key, source, key_command, env)
        if found is not None:
            return found
        if transport == "direct":
            raise ModelSetupError(_NO_LOGIN)
        wire = "litellm"
    elif wire == "gemini" and not re.search(r"/v\d\w*$", url):
        url = f"{url}/v1beta"
    compatible = provider.litellm == "openai" and provider.name != "openai"
    via_openai = provider.wire in ("openai", "responses", "ollama") and (provider.local or elsewhere)
    return ResolvedModel(
        provider=provider.name,
        model=model,
        wire=wire,
        base_url=url if wire != "litellm" or provider.local or elsewhere or compatible else "",
        key_source=source,
        api_key=key,
        bearer=source.endswith("ANTHROPIC_AUTH_TOKEN"),
        litellm=f"{'openai' if via_openai else provider.litellm}/{model}",
        either=api == "auto" and provider.name == "openai" and elsewhere and wire in ("openai", "responses"),
        long=long,
    )


def replayed(path: str) -> ResolvedModel:
    """Return the model of a recording, which answers from the file. Raises ModelSetupError."""
    try:
        head, _, _ = recording.read_recording(Path(path))
        return model_of_recording(head["resolved"], path)
    except (ValueError, LookupError, TypeError) as error:
        raise ModelSetupError(str(error) if isinstance(error, ValueError) else f"{path} is no recording") from None


def model_of_recording(plain: Mapping[str, Any], path: str) -> ResolvedModel:
    """Return a model as a recording describes it. Raises LookupError or ValueError."""
    fields = {name: plain[name] for name in ("provider", "model", "litellm", "window") if name in plain}
    wire = plain["wire"]
    if wire not in get_args(Wire):
        raise ValueError(f"the recording {path} has an unknown wire: {wire}")
    return ResolvedModel(**fields, wire=wire, base_url="", key_source="none needed", recording=path)


def validate_name(name: str, base_url: str | None) -> str:
    """Return why a model's name is unknown, or "". Keys and addresses are not checked."""
    name = name.removesuffix(LONG_SUFFIX)
    if name in (*SHORT_NAMES, OPUS_PLAN, "default") or name.startswith((SCRIPTED, REPLAY)):
        return ""
    try:
        _split(name, base_url)
    except NoModelError as error:
        return str(error)
    return ""


def create_client(
    resolved: ResolvedModel,
    *,
    timeouts: Timeouts | None = None,
    attempts: int | None = None,
    headers: Mapping[str, str] | None = None,
    cache_ttl: CacheTtl = "5m",
    window: int | None = None,
    progress: bool = False,
) -> ModelClient:
    """Return a client for a resolved model, with retries (except for scripts).

    timeouts, attempts: None for the client's own.
    cache_ttl: lifetime of Claude's caches.
    window: tokens of the window with which Ollama loads the model.
    progress: see `OpenAIChatClient`.

    Raises ModelSetupError for a script that cannot be read.
    """
    # Only the client that is needed is imported: none is cheap.
    if resolved.wire == "scripted":
        try:
            return scripted.ScriptedClient.load(Path(resolved.model))
        except ModelError as error:
            raise ModelSetupError(str(error)) from None
    key = resolved.api_key.reveal() if resolved.api_key else ""
    limits = timeouts or http.Timeouts()
    wire: ModelClient
    if resolved.wire in ("openai", "responses"):
        wire = _openai_wire(resolved, resolved.wire == "responses", key, limits, headers, cache_ttl, progress)
        if resolved.either:
            first = resolved.wire == "responses"
            other = partial(_openai_wire, resolved, not first, key, limits, headers, cache_ttl, progress)
            wire = retry.ProtocolFallbackClient(wire, other, responses=first)
    elif resolved.wire == "gemini":
        wire = gemini.GeminiClient(
            resolved.base_url,
            key,
            provider=resolved.provider,
            headers=headers,
            timeouts=limits,
            bearer=resolved.bearer,
            renew=resolved.renew,
        )
    elif resolved.wire == "ollama":
        wire = ollama.OllamaClient(resolved.base_url, key, window=window, headers=headers, timeouts=limits)
    elif resolved.wire == "anthropic":
        wire = anthropic.AnthropicClient(
            resolved.base_url, key, headers=headers, timeouts=limits, bearer=resolved.bearer, cache_ttl=cache_ttl
        )
    else:
        wire = providers_litellm.LiteLLMClient(
            resolved.litellm,
            "" if resolved.bearer else key,
            resolved.base_url,
            headers=headers,
            timeouts=limits,
        )
    return retry.RetryingClient(wire) if attempts is None else retry.RetryingClient(wire, attempts=attempts)


def prepare_client(resolved: ResolvedModel, after: float) -> None:
    """Start, after so many seconds, what the first request would wait for: LiteLLM's process. Returns at once."""
    if resolved.wire == "litellm":
        providers_litellm.start_idle_worker(after)


def _openai_wire(
    resolved: ResolvedModel,
    responses: bool,
    key: str,
    limits: Timeouts,
    headers: Mapping[str, str] | None,
    cache_ttl: CacheTtl,
    progress: bool,
) -> ModelClient:
    url, provider = resolved.base_url, resolved.provider
    info = lookup(provider, resolved.model)
    reasons = info.reasoning if info is not None else None
    if not responses:
        return openai_chat.OpenAIChatClient(
            url, key, provider=provider, headers=headers, timeouts=limits, reasons=bool(reasons), cache_ttl=cache_ttl,
            progress=progress,
        )  # fmt: skip
    return openai_responses.OpenAIResponsesClient(
        url, key, provider=provider, headers=headers, timeouts=limits, reasons=reasons
    )


def _split(name: str, base_url: str | None) -> tuple[Provider, str]:
    """Return the provider and its own name for the model. Raises NoModelError."""
    if not name:
        raise NoModelError("the model's name is empty: write it as provider/model")
    head, slash, rest = name.partition("/")
    if slash and rest and (provider := find_provider(head)):
        return provider, rest
    if slash and rest and not base_url and is_provider(head):
        return Provider(name=head, wire="litellm", needs_key=False, litellm=head), rest
    if not slash and (provider := provider_by_prefix(name)):
        return provider, name
    if name in SHORT_NAMES:
        provider = find_provider("anthropic")
        assert provider is not None
        return provider, expand_short_name(name)
    if base_url:
        provider = find_provider("openai")
        assert provider is not None
        return provider, name
    if (owner := owner_of(name)) is not None:
        return find_provider(owner) or Provider(name=owner, wire="litellm", needs_key=False, litellm=owner), name
    # Only Ollama's names look like this: qwen3:8b.
    if not slash and ":" in name and (provider := find_provider("ollama")):
        return provider, name
    unknown = f"unknown provider {head!r}" if slash else f"no provider is known for the model {name!r}"
    raise NoModelError(f"{unknown}: write it as provider/model (see `agent models`), or set base_url")


def _wire(provider: Provider, model: str, elsewhere: bool, transport: TransportChoice, api: WireApi, url: str) -> Wire:
    if transport == "litellm":
        return "litellm"
    if api != "auto":
        if provider.wire == "anthropic" or (provider.wire == "gemini" and not elsewhere):
            name = provider.name
            raise ModelSetupError(f"{name} speaks its own protocol: remove wire_api from [providers.{name}]")
        if not url:
            raise ModelSetupError(f"wire_api for {provider.name} needs its address: set base_url")
        return "responses" if api == "responses" else "openai"
    foreign = provider.name == "vertex_ai" and "gemini" not in model
    if (provider.wire == "litellm" or foreign) and transport == "direct":
        raise ModelSetupError(f"{provider.name} is reached only through LiteLLM: set transport to auto")
    if provider.wire not in ("openai", "responses"):
        return "litellm" if foreign else provider.wire
    info = lookup(provider.name, model)
    needed = re.match(_WITH_RESPONSES, model) if provider.name == "openai" else None
    if needed or (info is not None and info.responses_only):
        return "responses"
    return "openai" if elsewhere else provider.wire


def _on_vertex(
    model: str, url: str, key: Secret | None, source: str, key_command: str | None, env: Mapping[str, str]
) -> ResolvedModel | None:
    """Resolve a Gemini model on Vertex AI; None without credentials that work without Google's libraries."""
    project = _first(env, "VERTEXAI_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
    location = _first(env, "VERTEXAI_LOCATION", "GOOGLE_CLOUD_LOCATION", "CLOUD_ML_REGION") or "global"
    renew: Callable[[CancelToken], str] | None = None
    plain = key is not None and key.reveal().startswith(("AIza", "AQ."))
    if key is None:
        path = google_auth.find_credentials(env)
        try:
            credentials = google_auth.GoogleCredentials(path) if path else None
        except ValueError:
            credentials = None
        if credentials is None:
            return None
        renew, source = credentials.token, f"application default credentials, {credentials.path}"
        project = project or credentials.project
    elif source == "key_command" and key_command and not plain:
        renew = partial(_new_token, key_command, env)
    if "/publishers/" not in url:
        if project:
            host = f"{location}-aiplatform.googleapis.com"
            if location == "global":
                host = "aiplatform.googleapis.com"
            elif location in ("us", "eu"):
                host = f"aiplatform.{location}.rep.googleapis.com"
            usual = _VERTEX.format(host=host, project=project, location=location)
        elif plain:
            usual = _EXPRESS
        else:
            raise ModelSetupError("no project for vertex_ai: set VERTEXAI_PROJECT")
        url = url + usual.partition(".googleapis.com")[2] if url else usual
    return ResolvedModel(
        provider="vertex_ai",
        model=model,
        wire="gemini",
        base_url=url,
        key_source=source,
        api_key=key,
        bearer=not plain,
        renew=renew,
        litellm=f"vertex_ai/{model}",
    )


_NO_LOGIN = (
    "no credentials for vertex_ai: run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS, "
    'or key_command = "gcloud auth print-access-token"'
)


def _first(env: Mapping[str, str], *names: str) -> str:
    return next((value for name in names if (value := env.get(name, "").strip())), "")


def _new_token(command: str, env: Mapping[str, str], cancel: CancelToken) -> str:
    try:
        return key_of_command(command, env)
    except ModelSetupError as error:
        raise ModelError(Failure("auth", f"{error}.")) from None


def _azure_url(url: str) -> str:
    """Complete the address of Azure's OpenAI API, given that of a resource."""
    return url if not url or "/openai" in url else f"{url.rstrip('/')}/openai/v1"

"""From the name of a model to an open wire: who provides it, where, with which key, over which protocol.

Names follow LiteLLM's `provider/model`. A bare name is read by its beginning (`claude-...`, `gpt-...`), then by
the catalog, then, if a base URL is configured, as whatever that server calls its model. Nothing is sent
anywhere here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from agent_cli.core.results import Failure
from agent_cli.providers.base import CacheTtl, ModelClient, ModelError
from agent_cli.providers.catalog import is_provider, lookup, newest_claude, owner_of
from agent_cli.providers.credentials import (
    MissingKeyError,
    ModelSetupError,
    NoModelError,
    Secret,
    find_key,
    key_of_command,
    missing_key,
)
from agent_cli.providers.registry import (
    Provider,
    Wire,
    WireApi,
    base_url_of,
    base_url_variable,
    find,
    is_web_url,
    normal_url,
    provider_of_bare,
)
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value

if TYPE_CHECKING:
    from agent_tools.cancel import CancelToken
    from agent_tools.net.http import Timeouts

with lazy_imports():
    from agent_cli.providers import (
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
    from agent_cli.providers import litellm as providers_litellm
    from agent_tools.net import http

__all__ = [
    "MissingKeyError",
    "ModelSetupError",
    "NoModelError",
    "ResolvedModel",
    "Secret",
    "open_transport",
    "resolve",
]

TransportChoice = Literal["auto", "direct", "litellm"]
WireApiOf = Callable[[str], WireApi]

SHORT_NAMES = {"sonnet": "claude-sonnet-5", "opus": "claude-opus-5", "haiku": "claude-haiku-4-5"}
SCRIPTED = "scripted:"
REPLAY = "replay:"
# Behind the name of a Claude: with a window of a million tokens.
LONG = "[1m]"
OPUS_PLAN = "opusplan"
_VERTEX = "https://{host}/v1beta1/projects/{project}/locations/{location}/publishers/google"
_EXPRESS = "https://aiplatform.googleapis.com/v1beta1/publishers/google"  # with an API key and no project
# Models that OpenAI refuses on Chat Completions, alone or with tools.
_WITH_RESPONSES = r"gpt-([5-9]|\d\d)|o[1-9](-|$)|codex-"


class ResolvedModel(Value, tag="Resolved"):
    """A model that can be called.

    model: what the provider calls it; for the scripted wire the path of the script. base_url: empty where the
    wire knows it. key_source: where the key came from, in words. bearer: the key is an OAuth token, not an
    API key; renew: makes another when it has expired. litellm: how LiteLLM spells the model. either: the server may ask
    for OpenAI's other protocol. long: a window of a million tokens was asked for. api_key never shows in a repr.
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
) -> ResolvedModel:
    """Everything needed to call the model `name`.

    wire_api: which of OpenAI's protocols is set for a provider. base_url, key_command and keyring must come from the
    user's own settings, never from a project's.
    Raises NoModelError for a name that is not a known key, MissingKeyError for a key that was found nowhere, and
    ModelSetupError for a key command that failed or a transport that cannot reach this provider.
    """
    name, long = (name[: -len(LONG)], True) if name.endswith(LONG) else (name, False)
    if name == OPUS_PLAN:
        name = "sonnet"  # what plans is another model: see `runtime.models.planner_of`
    if name.startswith(SCRIPTED):
        return ResolvedModel("scripted", name[len(SCRIPTED) :], "scripted", "", "none needed")
    if name.startswith(REPLAY):
        return replayed(name[len(REPLAY) :])
    provider, model = _split(name.strip(), base_url)
    if provider.model_prefix and "/" not in model:
        model = provider.model_prefix + model
    url = normal_url(base_url, provider) if base_url else base_url_of(provider, env)
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
    key, source = find_key(provider, env, key_command, keyring)
    if key is None:
        # Another address may be anyone's server; whether it wants a key is for it to say.
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
    """Return the model of a recording, whose answers are those in the file. Raises ModelSetupError."""
    try:
        head, _, _ = recording.read_recording(Path(path))
        return replayed_as(head["resolved"], path)
    except (ValueError, LookupError, TypeError) as error:
        raise ModelSetupError(str(error) if isinstance(error, ValueError) else f"{path} is no recording") from None


def replayed_as(plain: Mapping[str, Any], path: str) -> ResolvedModel:
    """Return a model as a recording describes it. Raises LookupError, ValueError."""
    fields = {name: plain[name] for name in ("provider", "model", "litellm", "window") if name in plain}
    wire = plain["wire"]
    if wire not in get_args(Wire):
        raise ValueError(f"the recording {path} has an unknown wire: {wire}")
    return ResolvedModel(**fields, wire=wire, base_url="", key_source="none needed", recording=path)


def validate_name(name: str, base_url: str | None) -> str:
    """Why a model's name is not a known key, or ""; keys and addresses are not looked at."""
    name = name.removesuffix(LONG)
    if name in (*SHORT_NAMES, OPUS_PLAN, "default") or name.startswith((SCRIPTED, REPLAY)):
        return ""
    try:
        _split(name, base_url)
    except NoModelError as error:
        return str(error)
    return ""


def open_transport(
    resolved: ResolvedModel,
    *,
    timeouts: Timeouts | None = None,
    attempts: int | None = None,
    headers: Mapping[str, str] | None = None,
    cache_ttl: CacheTtl = "5m",
    window: int | None = None,
    progress: bool = False,
) -> ModelClient:
    """The wire for a resolved model, with retries around it (a script is never retried).

    timeouts and attempts: the wire's own where None. cache_ttl: how long Claude's caches are kept. window: the tokens
    that Ollama is to load the model with. progress: see `OpenAIChat`. Raises ModelSetupError for a script that cannot
    be read.
    """
    # Each wire is imported only when it is the one: none of them is free.
    if resolved.wire == "scripted":
        try:
            return scripted.Scripted.load(Path(resolved.model))
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
            wire = retry.EitherWire(wire, other, responses=first)
    elif resolved.wire == "gemini":
        wire = gemini.Gemini(
            resolved.base_url,
            key,
            provider=resolved.provider,
            headers=headers,
            timeouts=limits,
            bearer=resolved.bearer,
            renew=resolved.renew,
        )
    elif resolved.wire == "ollama":
        wire = ollama.Ollama(resolved.base_url, key, window=window, headers=headers, timeouts=limits)
    elif resolved.wire == "anthropic":
        wire = anthropic.Anthropic(
            resolved.base_url, key, headers=headers, timeouts=limits, bearer=resolved.bearer, cache_ttl=cache_ttl
        )
    else:
        wire = providers_litellm.LiteLLM(
            resolved.litellm,
            "" if resolved.bearer else key,
            resolved.base_url,
            headers=headers,
            timeouts=limits,
        )
    return retry.Retrying(wire) if attempts is None else retry.Retrying(wire, attempts=attempts)


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
        return openai_chat.OpenAIChat(
            url, key, provider=provider, headers=headers, timeouts=limits, reasons=bool(reasons), cache_ttl=cache_ttl,
            progress=progress,
        )  # fmt: skip
    return openai_responses.OpenAIResponses(
        url, key, provider=provider, headers=headers, timeouts=limits, reasons=reasons
    )


def _split(name: str, base_url: str | None) -> tuple[Provider, str]:
    """The provider and its own name for the model. Raises NoModelError."""
    if not name:
        raise NoModelError("the model's name is empty: write it as provider/model")
    head, slash, rest = name.partition("/")
    if slash and rest and (provider := find(head)):
        return provider, rest
    if slash and rest and not base_url and is_provider(head):
        return Provider(name=head, wire="litellm", needs_key=False, litellm=head), rest
    if not slash and (provider := provider_of_bare(name)):
        return provider, name
    if name in SHORT_NAMES:
        provider = find("anthropic")
        assert provider is not None
        return provider, newest_claude(name) or SHORT_NAMES[name]
    if base_url:
        provider = find("openai")
        assert provider is not None
        return provider, name
    if (owner := owner_of(name)) is not None:
        return find(owner) or Provider(name=owner, wire="litellm", needs_key=False, litellm=owner), name
    # What Ollama's names look like and no one else's: qwen3:8b.
    if not slash and ":" in name and (provider := find("ollama")):
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
    """Resolve a Gemini model on Vertex AI; None without credentials that are usable without Google's libraries."""
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
    """The address of Azure's OpenAI API, of which a resource's is the beginning."""
    return url if not url or "/openai" in url else f"{url.rstrip('/')}/openai/v1"

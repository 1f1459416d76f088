"""With no model configured: what is there to use, a key in the environment or a server on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from agent_cli.providers.catalog import newest_claude
from agent_cli.providers.credentials import NoModelError
from agent_cli.providers.registry import LOCAL_SERVERS, PROVIDERS, Provider, base_url_of, find, is_loopback_url
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.providers import server_info  # HTTP; only needed where no model is configured

# Called with a base URL, and with the key of a server that has one.
Probe = Callable[..., str | None]


def default_model(env: Mapping[str, str], probe: Probe | None = None) -> str:
    """The name of the model to use when none is configured, the best of what `discover` finds.

    Raises NoModelError, which says what was looked for.
    """
    for name, _ in _found(env, probe or probe_server):
        return name
    for provider, variable in _with_keys(env):
        address = _models_url(provider, env)
        raise NoModelError(
            f"no model is configured; {variable} is set, but {address}/models lists none: name one with --model"
        )
    for provider, variable in _with_addresses(env):
        key = "" if is_loopback_url(base_url_of(provider, env)) else f", and its key in {provider.keys[0]}"
        raise NoModelError(
            f"no model is configured; {variable} is set: name one with --model {provider.name}/NAME{key}"
        )
    keys = ", ".join(p.keys[0] for p in PROVIDERS[:4])
    servers = ", ".join(p.name for p in _local_servers())
    raise NoModelError(
        f"no model is configured, and none was found: no key in the environment ({keys}, ...), no local server "
        f"({servers}). Set a key, start a server, or see it work: agent demo"
    )


def discover(env: Mapping[str, str], probe: Probe | None = None) -> list[tuple[str, str]]:
    """Every model that could be the default, best first, each with the reason in a few words."""
    return list(_found(env, probe or probe_server))


def probe_server(base_url: str, key: str = "") -> str | None:
    """The first chat model that the server at `base_url` offers, or None. Gives up within about a second."""
    return next(iter(offered_models(base_url, key)), None)


def offered_models(base_url: str, key: str = "") -> list[str]:
    """Return the chat models that the server at `base_url` offers. Gives up within about a second."""
    if not base_url.startswith("http://"):
        return []
    try:
        found = server_info.ask_json(f"{base_url.rstrip('/')}/models", key)
        if "models" in found:  # in Gemini's API
            names = [str(m["name"]).removeprefix("models/") for m in found["models"]]
        else:
            names = [m["id"] for m in found["data"] if isinstance(m["id"], str)]
    except (LookupError, TypeError):
        return []  # whatever listens there is not a model server
    return [name for name in names if "embed" not in name.lower()]


def _found(env: Mapping[str, str], probe: Probe) -> Iterator[tuple[str, str]]:
    for provider, variable in _with_keys(env):
        url = base_url_of(provider, env)
        if is_loopback_url(url):
            # The key belongs to a server of the user's own, which has other models.
            if model := probe(_models_url(provider, env), key=env[variable].strip()):
                yield f"{provider.name}/{model}", f"{variable} is set and {url} answers"
            continue
        yield f"{provider.name}/{_default_of(provider)}", f"{variable} is set"
    for provider, variable in _with_addresses(env):
        url = base_url_of(provider, env)
        if is_loopback_url(url) and (model := probe(_models_url(provider, env))):
            yield f"{provider.name}/{model}", f"{variable} is set and {url} answers"
    for provider in _local_servers():
        url = base_url_of(provider, env)
        if model := probe(url):
            yield f"{provider.name}/{model}", f"a server answers at {url}"


def _with_keys(env: Mapping[str, str]) -> Iterator[tuple[Provider, str]]:
    """The providers that have a default model and a key in the environment, with its variable."""
    for provider in PROVIDERS:
        variable = next((v for v in provider.keys if env.get(v, "").strip()), None)
        if variable is not None and provider.default and not provider.local:
            yield provider, variable


def _with_addresses(env: Mapping[str, str]) -> Iterator[tuple[Provider, str]]:
    """The providers that have an address and no key in the environment, with the variable of the address."""
    keyed = [provider for provider, _ in _with_keys(env)]
    for provider in PROVIDERS:
        variable = next((v for v in provider.bases if env.get(v, "").strip()), None)
        if variable is not None and provider.default and not provider.local and provider not in keyed:
            yield provider, variable


def _models_url(provider: Provider, env: Mapping[str, str]) -> str:
    """Where a provider's API lists its models, without the last word."""
    url = base_url_of(provider, env).rstrip("/")
    version = {"anthropic": "/v1", "gemini": "/v1beta"}.get(provider.wire, "")
    return url.removesuffix(version) + version


def _default_of(provider: Provider) -> str:
    if provider.name == "anthropic":
        return newest_claude("sonnet") or provider.default
    return provider.default


def _local_servers() -> list[Provider]:
    return [p for name in LOCAL_SERVERS if (p := find(name))]

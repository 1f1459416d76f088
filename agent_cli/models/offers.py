"""The models to offer to a user: of providers that can be used here, able to call tools, the newest first.

`agent models`, /model and the page of `agent serve` choose from the same list.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest

from agent_cli.models.catalog import ModelInfo, known_models, lookup
from agent_cli.models.registry import PROVIDERS, base_url_of, find_provider, is_loopback_url

# Models in a list that fits on a screen of 24 rows, with its header, its notes and the shell's prompt.
MAX_ON_SCREEN = 17
# A smaller window, in tokens, has no room for the system prompt and the tools.
_MIN_WINDOW_TOKENS = 16_000
_DATE = re.compile(r"[-@](\d{8}|\d{4}-\d\d-\d\d|[01]\d[0-3]\d)$")
# A version; not the size of a model (8b) nor a date.
_NUMBERS = re.compile(r"(?<!\d)\d{1,2}(?![\dbB])")
# Parts of names of models that are made for something else than a conversation about code.
_SPECIAL = re.compile(
    r"[/:]ft:|audio|realtime|[-_]live|robotics|computer-use|search-(preview|api)|deep-research|-image|[-_]tts|learnlm"
)


def providers_with_keys(env: Mapping[str, str], stored: Container[str] = ()) -> list[str]:
    """Return the providers with a key, in the order of preference. stored: those that the user logged in to."""
    keyed = (p for p in PROVIDERS if p.name in stored or any(env.get(key, "").strip() for key in p.keys))
    return [p.name for p in keyed if not p.local]


def usable_models(
    env: Mapping[str, str],
    current: str = "",
    served: Mapping[str, Sequence[str]] | None = None,
    stored: Container[str] = (),
) -> list[list[ModelInfo]]:
    """Return the models of each usable provider; first `current` and its provider.

    current: the model that would be used, "" for none.
    served: the models that servers on this machine have, by provider. stored: see `providers_with_keys`.
    """
    served = served or {}
    own = current.partition("/")[0]
    names = list(dict.fromkeys([*([own] if own else []), *providers_with_keys(env, stored), *served]))
    catalogued = [n for n in names if n not in served and not _is_on_this_machine(n, env)]
    known = known_models(providers=catalogued) if catalogued else []
    found = []
    for name in names:
        models = [_describe(name, each) for each in served.get(name, ())] or newest_models(known, name)
        if name == own:
            models = [_describe(name, current.partition("/")[2]), *(m for m in models if m.name != current)]
        found.append(models)
    return [models for models in found if models]


def newest_models(known: Iterable[ModelInfo], provider: str) -> list[ModelInfo]:
    """Return the models of a provider that can work here, the highest version first; dated copies are left out."""
    able = [m for m in known if m.provider == provider and can_work(m)]
    names = {m.name for m in able}
    whole = [m for m in able if _DATE.sub("", m.name) == m.name or _DATE.sub("", m.name) not in names]
    row = find_provider(provider)
    usual = row.name_prefixes if row is not None else ()
    return sorted(whole, key=lambda m: (not _is_usual(m, usual), *_version(m.name), m.name))


def can_work(model: ModelInfo) -> bool:
    """Return True for a model that calls tools, has room for them, and has not been withdrawn."""
    withdrawn = model.deprecated and model.deprecated <= datetime.now(UTC).date().isoformat()
    small = (model.context_window or _MIN_WINDOW_TOKENS) < _MIN_WINDOW_TOKENS
    return model.tools and not small and not withdrawn and _SPECIAL.search(model.name) is None


def in_shares(by_provider: Sequence[Sequence[ModelInfo]], limit: int) -> list[ModelInfo]:
    """Return at most `limit` models, by provider, of which each has an equal share."""
    taken = [m for row in zip_longest(*by_provider) for m in row if m is not None][:limit]
    kept = {m.name for m in taken}
    return [m for models in by_provider for m in models if m.name in kept]


def _describe(provider: str, model: str) -> ModelInfo:
    return lookup(provider, model) or ModelInfo(name=f"{provider}/{model}", provider=provider)


def _is_on_this_machine(name: str, env: Mapping[str, str]) -> bool:
    """Return True for a provider whose address is on this machine: it has other models than the catalog."""
    provider = find_provider(name)
    return provider is not None and is_loopback_url(base_url_of(provider, env))


def _is_usual(model: ModelInfo, prefixes: Sequence[str]) -> bool:
    """Return True for a model of the provider's main families, whose versions can be compared."""
    return not prefixes or model.name.partition("/")[2].startswith(tuple(prefixes))


def _version(name: str) -> tuple[int, int]:
    """Return the version in a name for sorting, the highest first."""
    major, minor, *_ = [*map(int, _NUMBERS.findall(name.rpartition("/")[2])), 0, 0]
    return -major, -minor

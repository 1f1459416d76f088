"""The models to offer to a user: of providers that can be used here, able to call tools, the newest first.

`agent models`, /model and the page of `agent serve` choose from the same list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest

from agent_cli.models import server_info
from agent_cli.models.catalog import ModelInfo, known_models
from agent_cli.models.credentials import KeyStore
from agent_cli.models.registry import PROVIDERS, base_url_of, find_provider, is_loopback_url
from agent_cli.models.resolve import ResolvedModel

# Models in a list that fits on a screen of 24 rows, with its header, its notes and the shell's prompt.
MAX_ON_SCREEN = 17
# A smaller window, in tokens, has no room for the system prompt and the tools.
_MIN_WINDOW_TOKENS = 16_000
# Providers whose models are shown if none can be used.
_MAX_SAMPLE_PROVIDERS = 4
_DATE = re.compile(r"[-@](\d{8}|\d{4}-\d\d-\d\d|[01]\d[0-3]\d)$")
# A version; not the size of a model (8b) nor a date.
_NUMBERS = re.compile(r"(?<!\d)\d{1,2}(?![\dbB])")
# Parts of names of models that are made for something else than a conversation about code.
_SPECIAL = re.compile(
    r"[/:]ft:|audio|realtime|[-_]live|robotics|computer-use|search-(preview|api)|deep-research|-image|[-_]tts|learnlm"
)


class ModelOffers:
    """The models to offer to one user.

    keys: those that the user stored. current: the model that would be used, "" for none.
    """

    def __init__(self, env: Mapping[str, str], keys: KeyStore, current: str) -> None:
        self._env, self._keys, self._current = env, keys, current

    def discovered(self) -> list[tuple[str, str]]:
        """Return every model that could be the default, best first, each with the reason in a few words."""
        return server_info.discover(self._env, logins=self._keys)

    def providers(self) -> list[str]:
        """Return the providers with a key, in the order of preference."""
        stored = self._keys.names()
        keyed = (p for p in PROVIDERS if p.name in stored or any(self._env.get(key, "").strip() for key in p.keys))
        return [p.name for p in keyed if not p.local]

    def usable(self) -> list[list[ModelInfo]]:
        """Return the models of each usable provider; first the current one and its provider.

        Servers on this machine are asked, which may take a second.
        """
        served = server_info.served_models(self._env, self._keys)
        own = self._current.partition("/")[0]
        names = list(dict.fromkeys([*([own] if own else []), *self.providers(), *served]))
        catalogued = [n for n in names if n not in served and not _is_on_this_machine(n, self._env)]
        known = known_models(providers=catalogued) if catalogued else []
        found = []
        for name in names:
            models = [_describe(f"{name}/{each}") for each in served.get(name, ())] or newest_models(known, name)
            if name == own:
                models = [_describe(self._current), *(m for m in models if m.name != self._current)]
            found.append(models)
        return [models for models in found if models]

    def search(self, words: str, *, everything: bool) -> list[list[ModelInfo]]:
        """Return the models whose name contains each word, by provider: those that can be used, then all others.

        everything: also those that cannot work here.
        """
        parts = words.lower().split()
        found = [[m for m in models if all(part in m.name.lower() for part in parts)] for models in self.usable()]
        listed = {m.name for models in found for m in models}
        others = [m for m in known_models(words) if m.name not in listed and (everything or can_work(m))]
        order = {provider.name: index for index, provider in enumerate(PROVIDERS)}
        others.sort(key=lambda m: order.get(m.provider, len(order)))
        return [*found, others]

    def newest(self, model: ResolvedModel, *, ask: bool) -> list[ModelInfo]:
        """Return the models to switch to from one: those of its provider, then of the others with a key.

        ask: ask a server on this machine what it has, which may take a second.
        """
        key = model.api_key.reveal() if model.api_key is not None else ""
        local = ask and is_loopback_url(model.base_url)
        served = server_info.offered_models(model.base_url, key) if local else []
        others = [name for name in self.providers() if name != model.provider]
        names = others if served else [model.provider, *others]
        known = known_models(providers=names)
        here = [_describe(f"{model.provider}/{each}") for each in served]
        return [*here, *(info for name in names for info in newest_models(known, name))]


def example_models() -> list[list[ModelInfo]]:
    """Return the models of some well-known providers, which may be unusable here."""
    names = [provider.name for provider in PROVIDERS[:_MAX_SAMPLE_PROVIDERS]]
    known = known_models(providers=names)
    return [newest_models(known, name) for name in names]


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


def in_shares(by_provider: Sequence[Sequence[ModelInfo]], limit: int = MAX_ON_SCREEN) -> list[ModelInfo]:
    """Return at most `limit` models, by provider, of which each has an equal share."""
    taken = [m for row in zip_longest(*by_provider) for m in row if m is not None][:limit]
    kept = {m.name for m in taken}
    return [m for models in by_provider for m in models if m.name in kept]


def _describe(name: str) -> ModelInfo:
    return ModelInfo.named(name) or ModelInfo(name, name)


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

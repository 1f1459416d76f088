"""What is known of a model: its window, its prices, what it can do.

The facts are those of models.json beside this file, a line for each model, written from LiteLLM's data by
`make catalog`. Where LiteLLM is installed its own file is asked for what ours lacks. Parsing the whole file would cost
a fifth of a one-shot run, so a look-up finds its one entry by the line it begins with and parses only that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent_cli.core.results import Usage
from agent_cli.providers.registry import find
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value

with lazy_imports():
    from agent_cli.providers import litellm_catalog

FILE = Path(__file__).with_name("models.json")
_DATE = re.compile(r"[-@](\d{8}|\d{4}-\d\d-\d\d)$")


class Prices(Value):
    """Dollars per token for requests whose input is larger than `above` tokens. None: no price known."""

    above: int = 0
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    reasoning: float | None = None


class ModelInfo(Value):
    """What the catalog says of one model.

    name: `provider/model`. context_window and max_output are in tokens, None where unknown. prices: from the
    cheapest tier up, empty where no price is known. responses_only: it answers on OpenAI's Responses API and
    nowhere else. vision and pdf: whether it takes images and PDF documents, None where the file does not say.
    adaptive_thinking: a Claude that takes no thinking budget. deprecated: the day it goes away, as the file has it.
    """

    name: str
    provider: str
    local: bool = False
    context_window: int | None = None
    max_output: int | None = None
    prices: tuple[Prices, ...] = ()
    web_search: float | None = None
    tools: bool = False
    reasoning: bool = False
    vision: bool | None = None
    pdf: bool | None = None
    caching: bool = False
    prefill: bool = False
    json_schema: bool = False
    adaptive_thinking: bool = False
    responses_only: bool = False
    deprecated: str = ""


@lru_cache(maxsize=64)
def lookup(provider: str, model: str) -> ModelInfo | None:
    """What is known of `model` as `provider` calls it, or None. A dated release falls back on its undated
    name.

    Models of a local provider are always known to be free.
    """
    known = find(provider)
    local = known is not None and known.local
    # LiteLLM's name for a provider, where ours is another.
    names = list(dict.fromkeys([provider, known.litellm if known else provider]))
    spelled = list(dict.fromkeys([model, _DATE.sub("", model)]))
    data = _bytes()  # once: reading it is most of a look-up
    entry = _first_entry(lambda key: _own_entry(key, data), names, spelled)
    if entry is None and not local:
        theirs = litellm_catalog.file_bytes(litellm_catalog.FILE)
        entry = _first_entry(lambda key: litellm_catalog.litellm_entry(key, theirs), names, spelled)
    if entry is not None:
        return _info(provider, model, entry, local)
    if local:
        return ModelInfo(name=f"{provider}/{model}", provider=provider, local=True, prices=(FREE,), tools=True)
    return None


def price(info: ModelInfo | None, usage: Usage, *, hour: bool = False) -> Usage:
    """`usage` with its cost filled in. A cost that the provider reported stands. hour: caches are kept for one.

    Where a used part has no known price, `reliable` is False; cached input without a price of its own is then
    counted as plain input. Without any price the cost is 0.
    """
    if info is not None and info.local:
        return usage.replace(cost=0.0)
    if usage.cost:
        return usage
    if info is None or not info.prices:
        return usage.replace(reliable=False)
    at = next((p for p in reversed(info.prices) if usage.input > p.above), info.prices[0])
    plain = max(0, usage.input - usage.cache_read - usage.cache_write)
    parts = (
        (plain, at.input, 0.0),
        (usage.cache_read, at.cache_read, at.input or 0.0),
        (usage.cache_write, at.cache_write_1h if hour and at.cache_write_1h else at.cache_write, at.input or 0.0),
        (usage.output - usage.reasoning, at.output, 0.0),
        (usage.reasoning, at.output if at.reasoning is None else at.reasoning, 0.0),
        (usage.web_searches, info.web_search, 0.0),
    )
    cost = sum(count * (fallback if each is None else each) for count, each, fallback in parts)
    known = all(each is not None for count, each, _ in parts if count)
    return usage.replace(cost=cost, reliable=usage.reliable and known)


def known_models(search: str = "", providers: Collection[str] = ()) -> list[ModelInfo]:
    """Every model that can hold a conversation and whose name contains each word of `search`, by name.

    providers: only theirs.
    """
    words = search.lower().split()
    models = {}
    for key, entry in {**litellm_catalog.litellm_entries(), **json.loads(_bytes())["models"]}.items():
        if "mode" in entry:
            continue
        provider = _owner(key, entry)
        if providers and provider not in providers:
            continue
        name = key if key.startswith(f"{provider}/") else f"{provider}/{key}"
        if all(w in name.lower() for w in words):
            known = find(provider)
            models[name] = _info(provider, name[len(provider) + 1 :], entry, known is not None and known.local)
    return [models[name] for name in sorted(models)]


def newest_claude(family: str) -> str | None:
    """The highest undated Claude of a family ("sonnet", "opus", "haiku") that the catalog has, or None."""
    name = rb'\n *"(claude-%s-(\d{1,2})(?:-(\d{1,2}))?)": ?\{' % family.encode()
    found = [m for data in (_bytes(), litellm_catalog.file_bytes(litellm_catalog.FILE)) for m in re.findall(name, data)]
    newest = max(found, key=lambda m: (int(m[1]), int(m[2] or 0)), default=None)
    return newest[0].decode() if newest else None


def is_provider(name: str) -> bool:
    """Whether LiteLLM knows a provider of this name."""
    data = _bytes()
    listed: list[str] = json.loads(data[data.index(b"[") : data.index(b"]") + 1])
    return name in listed or name in litellm_catalog.litellm_providers()


def owner_of(name: str) -> str | None:
    """Return the provider of a model whose name in the catalog is exactly `name`, or None."""
    entry = _own_entry(name, _bytes()) or litellm_catalog.litellm_entry(name)
    return _owner(name, entry) if entry is not None else None


def _first_entry(
    entry_named: Callable[[str], dict[str, Any] | None], providers: Sequence[str], models: Sequence[str]
) -> dict[str, Any] | None:
    for model in models:
        for provider in providers:
            if (entry := entry_named(f"{provider}/{model}")) is not None:
                return entry
        if (entry := entry_named(model)) is not None and _owner(model, entry) in providers:
            return entry
    return None


def _own_entry(key: str, data: bytes) -> dict[str, Any] | None:
    line = b"\n" + json.dumps(key).encode() + b":{"
    start = data.find(line)
    if start < 0:
        return None
    start += len(line) - 1
    entry: dict[str, Any] = json.loads(data[start : data.index(b"\n", start)].rstrip(b","))
    return entry


def _bytes() -> bytes:
    return FILE.read_bytes()


def _owner(key: str, entry: dict[str, Any]) -> str:
    return str(entry.get("provider") or key.partition("/")[0])


def _info(provider: str, model: str, entry: dict[str, Any], local: bool) -> ModelInfo:
    facts = {name: value for name, value in entry.items() if name not in ("provider", "mode", "prices")}
    prices = (FREE,) if local else tuple(Prices(*tier) for tier in entry.get("prices", ()))
    return ModelInfo(name=f"{provider}/{model}", provider=provider, local=local, prices=prices, **facts)


FREE = Prices(input=0.0, output=0.0, cache_read=0.0, cache_write=0.0, reasoning=0.0)

"""What is known of a model: its window, its prices, what it can do.

The facts are those of the JSON file that LiteLLM ships, read as data; LiteLLM is never imported. Parsing the
whole file costs as much as a whole one-shot run, so a look-up finds its one entry in the bytes of the file by
the line it begins with and parses only that. Where LiteLLM is not installed nothing is known, and nothing
else breaks.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent_cli.core.results import Usage
from agent_cli.providers.registry import find, provider_of_catalog
from agent_tools.fs.safe_files import read_regular
from agent_tools.record import Value

FILE = "model_prices_and_context_window_backup.json"
ENDPOINTS = "provider_endpoints_support_backup.json"
_LARGEST = 64 << 20
_INDENT = b"\n    "
_END = b"\n    }"
_DATE = re.compile(r"[-@](\d{8}|\d{4}-\d\d-\d\d)$")
_TIER = re.compile(r"^(input|output)_cost_per_token_above_(\d+)k_tokens$")


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
    names = dict.fromkeys([provider, known.litellm if known else provider])
    file = _bytes(FILE)  # once: reading it is most of a look-up
    for spelled in dict.fromkeys([model, _DATE.sub("", model)]):
        for name in names:
            if (data := catalog_entry(f"{name}/{spelled}", file)) is not None:
                return _info(provider, model, data, local)
        if (data := catalog_entry(spelled, file)) is not None and provider_of_catalog(data) in names:
            return _info(provider, model, data, local)
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
    for key, data in _everything().items():
        if data.get("mode") not in ("chat", "responses"):
            continue
        provider = provider_of_catalog(data)
        if providers and provider not in providers:
            continue
        name = key if key.startswith(f"{provider}/") else f"{provider}/{key}"
        if all(w in name.lower() for w in words):
            known = find(provider)
            models[name] = _info(provider, name[len(provider) + 1 :], data, known is not None and known.local)
    return [models[name] for name in sorted(models)]


def newest_claude(family: str) -> str | None:
    """The highest undated Claude of a family ("sonnet", "opus", "haiku") that the catalog has, or None."""
    found = re.findall(rb'\n    "(claude-%s-(\d{1,2})(?:-(\d{1,2}))?)": ' % family.encode(), _bytes(FILE))
    newest = max(found, key=lambda m: (int(m[1]), int(m[2] or 0)), default=None)
    return newest[0].decode() if newest else None


def is_provider(name: str) -> bool:
    """Whether LiteLLM knows a provider of this name."""
    quoted = json.dumps(name).encode()
    listed = b"\n        " + quoted + b": {" in _bytes(ENDPOINTS)
    return listed or b'"litellm_provider": ' + quoted in _bytes(FILE)


def catalog_entry(key: str, data: bytes | None = None) -> dict[str, Any] | None:
    """The entry of exactly this key as the file has it, or None. data: the file, where it was read already."""
    data = _bytes(FILE) if data is None else data
    if data and not data.startswith(b"{" + _INDENT + b'"'):
        return _everything().get(key)  # written some other way than it has been so far
    found = slice_of(data, key)
    return found if isinstance(found, dict) else None


def slice_of(data: bytes, key: str) -> Any:
    """The value of a key of the outermost object in `data`, found without reading the rest; None if absent."""
    line = _INDENT + json.dumps(key).encode() + b": "
    start = data.find(line)
    if start < 0:
        return None
    start += len(line)
    return json.loads(data[start : data.index(_END, start) + len(_END)])


def _everything() -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(_bytes(FILE) or b"{}")
    return {key: data for key, data in whole.items() if key != "sample_spec" and "litellm_provider" in data}


def _bytes(name: str) -> bytes:
    folder = _folder()
    try:
        return read_regular(folder / name, _LARGEST) if folder else b""
    except OSError:
        return b""


@lru_cache(maxsize=1)
def _folder() -> Path | None:
    # importlib.util.find_spec would do, and costs ten times the look-up.
    candidates = (Path(p, "litellm") for p in sys.path if Path(p).is_absolute())
    return next((folder for folder in candidates if (folder / FILE).is_file()), None)


def _info(provider: str, model: str, data: dict[str, Any], local: bool) -> ModelInfo:
    mode = data.get("mode")
    endpoints = data.get("supported_endpoints") or ()
    searches = data.get("search_context_cost_per_query") or {}
    return ModelInfo(
        name=f"{provider}/{model}",
        provider=provider,
        local=local,
        context_window=_count(data.get("max_input_tokens") or data.get("max_tokens")),
        max_output=_count(data.get("max_output_tokens")),
        prices=(FREE,) if local else _prices(data),
        web_search=searches.get("search_context_size_medium"),
        tools=bool(data.get("supports_function_calling")),
        reasoning=bool(data.get("supports_reasoning")),
        vision=_said(data, "supports_vision"),
        pdf=_said(data, "supports_pdf_input"),
        caching=bool(data.get("supports_prompt_caching")),
        prefill=bool(data.get("supports_assistant_prefill")),
        json_schema=bool(data.get("supports_response_schema")),
        adaptive_thinking=bool(data.get("supports_adaptive_thinking")),
        responses_only=mode == "responses" and "/v1/chat/completions" not in endpoints,
        deprecated=str(data.get("deprecation_date") or ""),
    )


def _said(data: dict[str, Any], key: str) -> bool | None:
    return None if data.get(key) is None else bool(data[key])


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) else None


def _prices(data: dict[str, Any]) -> tuple[Prices, ...]:
    if isinstance(ranges := data.get("tiered_pricing"), list):
        return tuple(_tier(r, "", int(r["range"][0])) for r in ranges if "range" in r)
    if "input_cost_per_token" not in data and "output_cost_per_token" not in data:
        return ()
    base = _tier(data, "", 0)
    sizes = sorted({int(m[2]) for key in data if (m := _TIER.match(key))})
    tiers = [base]
    for size in sizes:
        tier = _tier(data, f"_above_{size}k_tokens", size * 1000)
        filled = {n: v for n in Prices._fields if (v := getattr(tier, n)) is not None}
        tiers.append(tiers[-1].replace(**filled))
    return tuple(tiers)


def _tier(data: dict[str, Any], suffix: str, above: int) -> Prices:
    return Prices(
        above=above,
        input=data.get("input_cost_per_token" + suffix),
        output=data.get("output_cost_per_token" + suffix),
        cache_read=data.get("cache_read_input_token_cost" + suffix),
        cache_write=data.get("cache_creation_input_token_cost" + suffix),
        cache_write_1h=data.get("cache_creation_input_token_cost_above_1hr" + suffix),
        reasoning=data.get("output_cost_per_reasoning_token" + suffix),
    )


FREE = Prices(input=0.0, output=0.0, cache_read=0.0, cache_write=0.0, reasoning=0.0)

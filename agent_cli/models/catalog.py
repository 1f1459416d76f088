"""What is known of a model: its window, its prices, its abilities.

The facts are in models.json beside this file, one line per model, generated from LiteLLM's data by `make catalog`.
Models that are missing there are looked up in an installed LiteLLM's own file. Parsing a whole file would cost a fifth
of a one-shot run, so a lookup finds the one entry by how its line begins, and parses only that.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent_cli.kernel.results import Usage
from agent_cli.models.registry import find_provider
from agent_tools.fs.safe_files import read_regular
from agent_tools.record import Value

LITELLM_FILE = "model_prices_and_context_window_backup.json"
ENDPOINTS = "provider_endpoints_support_backup.json"
_MAX_FILE_BYTES = 64 << 20
_INDENT = b"\n    "
_END = b"\n    }"
_TIER = r"^(?:input|output)_cost_per_token_above_(\d+)k_tokens$"
# The prices of a tier in its entry, in order; before them it has the input size from which on they apply.
_PRICES = (
    "input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost",
    "cache_creation_input_token_cost_above_1hr", "output_cost_per_reasoning_token",
)  # fmt: skip
_ABILITIES = {
    "tools": "supports_function_calling", "reasoning": "supports_reasoning",
    "json_schema": "supports_response_schema",
}  # fmt: skip


def litellm_entry(key: str, data: bytes | None = None) -> dict[str, Any] | None:
    """Return the entry with exactly this key in the form of our catalog, or None.

    data: the file, if it was already read.
    """
    data = litellm_file_bytes(LITELLM_FILE) if data is None else data
    if data and not data.startswith(b"{" + _INDENT + b'"'):
        return litellm_entries().get(key)  # the file has another layout than so far
    found = find_entry(data, key)
    return to_catalog_entry(key, found) if isinstance(found, dict) and "litellm_provider" in found else None


def litellm_entries(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Return all entries by key; `folder` replaces the installed LiteLLM's."""
    whole: dict[str, Any] = json.loads(litellm_file_bytes(LITELLM_FILE, folder) or b"{}")
    return {
        key: to_catalog_entry(key, data)
        for key, data in whole.items()
        if key != "sample_spec" and "litellm_provider" in data
    }


def litellm_providers(folder: Path | None = None) -> list[str]:
    """Return the sorted names of the providers that LiteLLM supports."""
    endpoints = json.loads(litellm_file_bytes(ENDPOINTS, folder) or b"{}").get("providers", {})
    models = litellm_file_bytes(LITELLM_FILE, folder)
    named = {name.decode() for name in re.findall(rb'"litellm_provider": "([^"\\]+)"', models)}
    return sorted({*endpoints, *named})


def find_entry(data: bytes, key: str) -> Any:
    """Return the value of a key of the outermost object in `data` without parsing the rest; None if absent."""
    line = _INDENT + json.dumps(key).encode() + b": "
    start = data.find(line)
    if start < 0:
        return None
    start += len(line)
    return json.loads(data[start : data.index(_END, start) + len(_END)])


def litellm_file_bytes(name: str, folder: Path | None = None) -> bytes:
    """Return the bytes of one of LiteLLM's files; none if it is not installed."""
    folder = folder or litellm_folder()
    try:
        return read_regular(folder / name, _MAX_FILE_BYTES) if folder else b""
    except OSError:
        return b""


@lru_cache(maxsize=1)
def litellm_folder() -> Path | None:
    """Return the folder of the installed LiteLLM, or None."""
    # importlib.util.find_spec takes ten times as long.
    candidates = (Path(p, "litellm") for p in sys.path if Path(p).is_absolute())
    return next((folder for folder in candidates if (folder / LITELLM_FILE).is_file()), None)


def to_catalog_entry(key: str, data: dict[str, Any]) -> dict[str, Any]:
    """Convert an entry to the form of our catalog: the fields of `ModelInfo` that are neither false nor unknown."""
    mode = data.get("mode")
    provider = _provider(data)
    searches = data.get("search_context_cost_per_query") or {}
    entry: dict[str, Any] = {
        "provider": "" if key.startswith(f"{provider}/") else provider,
        "mode": "" if mode in ("chat", "responses") else str(mode or "other"),
        "context_window": _count(data.get("max_input_tokens") or data.get("max_tokens")),
        "max_output": _count(data.get("max_output_tokens")),
        "prices": [_short(tier) for tier in _prices(data)],
        "web_search": searches.get("search_context_size_medium"),
        **{name: bool(data.get(theirs)) for name, theirs in _ABILITIES.items()},
        "responses_only": mode == "responses" and "/v1/chat/completions" not in (data.get("supported_endpoints") or ()),
        "deprecated": str(data.get("deprecation_date") or ""),
    }
    entry = {name: value for name, value in entry.items() if value or (value == 0 and value is not False)}
    for name in ("vision", "pdf"):  # False differs from unknown here
        support = data.get("supports_vision" if name == "vision" else "supports_pdf_input")
        if support is not None:
            entry[name] = bool(support)
    return entry


def _provider(data: dict[str, Any]) -> str:
    """Return the name under which calls reach the provider of an entry; the file subdivides some."""
    name = str(data["litellm_provider"])
    if name.startswith("vertex_ai"):
        return "vertex_ai"
    return {"bedrock_converse": "bedrock", "cohere_chat": "cohere"}.get(name, name)


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) else None


def _prices(data: dict[str, Any]) -> list[list[float | None]]:
    if isinstance(ranges := data.get("tiered_pricing"), list):
        return [_tier(r, "", int(r["range"][0])) for r in ranges if "range" in r]
    if "input_cost_per_token" not in data and "output_cost_per_token" not in data:
        return []
    tiers = [_tier(data, "", 0)]
    for size in sorted({int(m[1]) for key in data if "_above_" in key and (m := re.match(_TIER, key))}):
        more = _tier(data, f"_above_{size}k_tokens", size * 1000)
        tiers.append([last if new is None else new for last, new in zip(tiers[-1], more, strict=True)])
    return tiers


def _tier(data: dict[str, Any], suffix: str, above: int) -> list[float | None]:
    return [above, *(data.get(name + suffix) for name in _PRICES)]


def _short(tier: list[float | None]) -> list[float | None]:
    while len(tier) > 1 and tier[-1] is None:
        tier.pop()
    return tier


FILE = Path(__file__).with_name("models.json")
_DATE = r"[-@](\d{8}|\d{4}-\d\d-\d\d)$"


class Prices(Value):
    """Dollars per token for requests with an input of more than `above` tokens; None: no price known."""

    above: int = 0
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    reasoning: float | None = None


class ModelInfo(Value):
    """What the catalog knows of one model.

    name: `provider/model`.
    context_window, max_output: in tokens; None: unknown.
    prices: by tier, cheapest first; empty if no price is known.
    responses_only: it is available only on OpenAI's Responses API.
    vision, pdf: it accepts images, PDF documents; None: unknown.
    deprecated: the day it is removed, as the file has it.
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
    json_schema: bool = False
    responses_only: bool = False
    deprecated: str = ""

    @property
    def price_per_million(self) -> tuple[float | None, float | None]:
        """The price of input and output in dollars per million tokens, for the smallest requests."""
        first = self.prices[0] if self.prices else Prices()
        dollars = [None if price is None else round(price * 1e6, 6) for price in (first.input, first.output)]
        return dollars[0], dollars[1]

    @classmethod
    def named(cls, name: str) -> ModelInfo | None:
        """Return what is known of a `provider/model`, with its name alone if it is not in the catalog; else None."""
        provider, _, model = name.partition("/")
        return (lookup(provider, model) or cls(name, provider)) if model else None


@lru_cache(maxsize=64)
def lookup(provider: str, model: str) -> ModelInfo | None:
    """Return what is known of `model` as `provider` calls it, or None. A dated release falls back on its undated name.

    Models of a local provider are always found, and free; a script is no model, and the files are not read for it.
    """
    if provider == "scripted":
        return None
    known = find_provider(provider)
    local = known is not None and known.local
    # LiteLLM's name for a provider, if ours differs.
    names = list(dict.fromkeys([provider, known.litellm if known else provider]))
    spelled = list(dict.fromkeys([model, re.sub(_DATE, "", model)] if model[-2:].isdigit() else [model]))
    data = _bytes()  # once: most of a lookup is reading it
    entry = _first_entry(lambda key: _catalog_entry(key, data), names, spelled)
    if entry is None and not local:
        theirs = litellm_file_bytes(LITELLM_FILE)
        entry = _first_entry(lambda key: litellm_entry(key, theirs), names, spelled)
    if entry is not None:
        return _info(provider, model, entry, local)
    if local:
        return ModelInfo(name=f"{provider}/{model}", provider=provider, local=True, prices=(FREE,), tools=True)
    return None


def price(info: ModelInfo | None, usage: Usage, *, hour: bool = False) -> Usage:
    """Return the usage with its cost. A cost that the provider reported is left alone.

    hour: caches live for an hour.

    If a used part has no known price, `reliable` is False; cached input without its own price counts as plain input.
    Without any price the cost is 0.
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
    """Return all chat models whose name contains each word of `search`, sorted by name.

    providers: only theirs.
    """
    words = search.lower().split()
    models = {}
    for key, entry in {**litellm_entries(), **json.loads(_bytes())["models"]}.items():
        if "mode" in entry:
            continue
        provider = _owner(key, entry)
        if providers and provider not in providers:
            continue
        name = key if key.startswith(f"{provider}/") else f"{provider}/{key}"
        if all(w in name.lower() for w in words):
            known = find_provider(provider)
            models[name] = _info(provider, name[len(provider) + 1 :], entry, known is not None and known.local)
    return [models[name] for name in sorted(models)]


# Names that mean the newest Claude of a family, and what they mean if the catalog has none.
SHORT_NAMES = {
    "sonnet": "claude-sonnet-5", "opus": "claude-opus-5", "haiku": "claude-haiku-4-5", "fable": "claude-fable-5",
}  # fmt: skip


def expand_short_name(name: str) -> str:
    """Return the newest Claude of the family that a short name means."""
    return newest_claude(name) or SHORT_NAMES[name]


def newest_claude(family: str) -> str | None:
    """Return the highest undated Claude of a family ("sonnet", "opus", "haiku") in the catalog, or None."""
    name = rb'\n *"(claude-%s-(\d{1,2})(?:-(\d{1,2}))?)": ?\{' % family.encode()
    found = [m for data in (_bytes(), litellm_file_bytes(LITELLM_FILE)) for m in re.findall(name, data)]
    newest = max(found, key=lambda m: (int(m[1]), int(m[2] or 0)), default=None)
    return newest[0].decode() if newest else None


def is_provider(name: str) -> bool:
    """Return True if LiteLLM has a provider of this name."""
    data = _bytes()
    listed: list[str] = json.loads(data[data.index(b"[") : data.index(b"]") + 1])
    return name in listed or name in litellm_providers()


def owner_of(name: str) -> str | None:
    """Return the provider of the model with exactly this name in the catalog, or None."""
    entry = _catalog_entry(name, _bytes()) or litellm_entry(name)
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


def _catalog_entry(key: str, data: bytes) -> dict[str, Any] | None:
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

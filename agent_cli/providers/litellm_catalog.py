"""LiteLLM's file of models, read as data, in the form of our catalog; LiteLLM is never imported.

`tools/refresh_models.py` writes models.json from it. When the program runs it is asked for what models.json lacks,
where LiteLLM is installed: a newer LiteLLM knows newer models. Parsing the whole file costs as much as a whole one-shot
run, so a look-up finds its one entry in the bytes of the file by the line it begins with and parses only that.
"""

from __future__ import annotations

import json
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent_tools.fs.safe_files import read_regular

FILE = "model_prices_and_context_window_backup.json"
ENDPOINTS = "provider_endpoints_support_backup.json"
_LARGEST = 64 << 20
_INDENT = b"\n    "
_END = b"\n    }"
_TIER = re.compile(r"^(?:input|output)_cost_per_token_above_(\d+)k_tokens$")
# The numbers of a tier in its entry, after the size of the input from which on it counts.
_PRICES = (
    "input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost",
    "cache_creation_input_token_cost_above_1hr", "output_cost_per_reasoning_token",
)  # fmt: skip
_ABILITIES = {
    "tools": "supports_function_calling", "reasoning": "supports_reasoning", "caching": "supports_prompt_caching",
    "prefill": "supports_assistant_prefill", "json_schema": "supports_response_schema",
    "adaptive_thinking": "supports_adaptive_thinking",
}  # fmt: skip


def litellm_entry(key: str, data: bytes | None = None) -> dict[str, Any] | None:
    """Return the entry of exactly this key in the form of our catalog, or None. data: the file, if it was read."""
    data = file_bytes(FILE) if data is None else data
    if data and not data.startswith(b"{" + _INDENT + b'"'):
        return litellm_entries().get(key)  # written some other way than it has been so far
    found = slice_of(data, key)
    return entry_of(key, found) if isinstance(found, dict) and "litellm_provider" in found else None


def litellm_entries(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Return all entries by key; those of `folder` in place of the installed LiteLLM's."""
    whole: dict[str, Any] = json.loads(file_bytes(FILE, folder) or b"{}")
    return {
        key: entry_of(key, data) for key, data in whole.items() if key != "sample_spec" and "litellm_provider" in data
    }


def litellm_providers(folder: Path | None = None) -> list[str]:
    """Return the names of the providers that LiteLLM reaches, by name."""
    endpoints = json.loads(file_bytes(ENDPOINTS, folder) or b"{}").get("providers", {})
    models = file_bytes(FILE, folder)
    named = {name.decode() for name in re.findall(rb'"litellm_provider": "([^"\\]+)"', models)}
    return sorted({*endpoints, *named})


def slice_of(data: bytes, key: str) -> Any:
    """Return the value of a key of the outermost object in `data`, found without parsing the rest; None if absent."""
    line = _INDENT + json.dumps(key).encode() + b": "
    start = data.find(line)
    if start < 0:
        return None
    start += len(line)
    return json.loads(data[start : data.index(_END, start) + len(_END)])


def file_bytes(name: str, folder: Path | None = None) -> bytes:
    """Return the bytes of one of LiteLLM's files, of none where it is not installed."""
    folder = folder or litellm_folder()
    try:
        return read_regular(folder / name, _LARGEST) if folder else b""
    except OSError:
        return b""


@lru_cache(maxsize=1)
def litellm_folder() -> Path | None:
    """Return where the installed LiteLLM is, or None."""
    # importlib.util.find_spec would do, and costs ten times the look-up.
    candidates = (Path(p, "litellm") for p in sys.path if Path(p).is_absolute())
    return next((folder for folder in candidates if (folder / FILE).is_file()), None)


def entry_of(key: str, data: dict[str, Any]) -> dict[str, Any]:
    """Convert an entry to the form of our catalog: what `ModelInfo` has, without what is false or unknown."""
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
    for name in ("vision", "pdf"):  # whether it says so counts here
        said = data.get("supports_vision" if name == "vision" else "supports_pdf_input")
        if said is not None:
            entry[name] = bool(said)
    return entry


def _provider(data: dict[str, Any]) -> str:
    """The name by which calls reach the provider of an entry; the file subdivides some."""
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
    for size in sorted({int(m[1]) for key in data if (m := _TIER.match(key))}):
        more = _tier(data, f"_above_{size}k_tokens", size * 1000)
        tiers.append([last if new is None else new for last, new in zip(tiers[-1], more, strict=True)])
    return tiers


def _tier(data: dict[str, Any], suffix: str, above: int) -> list[float | None]:
    return [above, *(data.get(name + suffix) for name in _PRICES)]


def _short(tier: list[float | None]) -> list[float | None]:
    while len(tier) > 1 and tier[-1] is None:
        tier.pop()
    return tier

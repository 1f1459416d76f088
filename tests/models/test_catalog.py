"""What is known of models: our file, and that of LiteLLM, which is asked for what ours lacks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_cli.kernel.results import Usage
from agent_cli.models import catalog
from agent_cli.models.catalog import (
    SHORT_NAMES,
    ModelInfo,
    Prices,
    expand_short_name,
    is_provider,
    known_models,
    lookup,
    newest_claude,
    price,
)
from agent_cli.models.registry import PROVIDERS
from agent_cli.models.server_info import default_model
from tests.support.fork_server import ROOT


@pytest.fixture(autouse=True)
def _no_answer_of_another_test() -> None:
    lookup.cache_clear()


@pytest.fixture(scope="module")
def theirs() -> dict[str, dict[str, Any]]:
    whole: dict[str, dict[str, Any]] = json.loads(catalog.litellm_file_bytes(catalog.LITELLM_FILE))
    return whole


def test_the_quick_look_up_of_every_key_of_ours_equals_the_full_parse() -> None:
    models = json.loads(catalog.FILE.read_bytes())["models"]
    data = catalog.FILE.read_bytes()
    assert len(models) > 3000
    for key, value in models.items():
        assert catalog._catalog_entry(key, data) == value, key


def test_the_quick_look_up_of_every_key_of_litellms_equals_the_full_parse(theirs: dict[str, object]) -> None:
    data = catalog.litellm_file_bytes(catalog.LITELLM_FILE)
    assert len(theirs) > 1000
    for key, value in theirs.items():
        assert catalog.find_entry(data, key) == value, key


def test_our_file_is_small_and_has_a_line_for_each_model() -> None:
    """A line for each, so that a refresh shows in a diff; small, as every run with a known model reads it."""
    data = catalog.FILE.read_bytes()
    assert len(data) < 900_000
    assert data.count(b"\n") == len(json.loads(data)["models"]) + 3


def test_a_refresh_from_litellms_data_gives_a_file_that_answers_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script runs in a copy of the program that has no file yet."""
    made = tmp_path / "models.json"
    code = (
        "import pathlib, runpy, sys; from agent_cli.models import catalog;"
        f"catalog.FILE = pathlib.Path({str(made)!r}); sys.argv[1:] = [{str(catalog.litellm_folder())!r}];"
        f"runpy.run_path({str(ROOT / 'tools/refresh_models.py')!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and " 0 removed, 0 changed" in done.stdout, done.stdout + done.stderr
    by_litellm = {name: lookup(*name.split("/", 1)) for name in ("anthropic/claude-sonnet-4-5", "openai/gpt-5")}
    monkeypatch.setattr(catalog, "FILE", made)
    monkeypatch.setattr(catalog, "litellm_folder", lambda: None)
    lookup.cache_clear()
    for name in by_litellm:
        found = lookup(*name.split("/", 1))
        assert found is not None and found.context_window and found.prices and found.tools, name


def test_a_model_that_only_a_newer_litellm_knows_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 7, "input_cost_per_token": 1e-06}
    mine = {**entry, "max_input_tokens": 8}
    whole = {"gpt-99": entry, "gpt-5": mine, "brand-new": {**entry, "litellm_provider": "brandnew"}}
    (tmp_path / catalog.LITELLM_FILE).write_text(json.dumps(whole, indent=4))
    monkeypatch.setattr(catalog, "litellm_folder", lambda: tmp_path)
    new, known = lookup("openai", "gpt-99"), lookup("openai", "gpt-5")
    assert new is not None and new.context_window == 7 and new.prices == (Prices(0, 1e-06),)
    assert known is not None and known.context_window != 8
    assert "openai/gpt-99" in {m.name for m in known_models()}
    assert catalog.owner_of("brand-new") == "brandnew" and is_provider("brandnew")


def test_a_look_up_parses_next_to_nothing_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    parse = json.loads

    def loads(data: str | bytes) -> Any:
        parsed.append(len(data))
        return parse(data)

    monkeypatch.setattr(json, "loads", loads)
    assert lookup("openai", "gpt-5")
    assert 0 < sum(parsed) < 1000


def test_a_look_up_reads_our_file_once_and_litellms_for_an_unknown_model_only(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    ours, theirs = catalog._bytes(), catalog.litellm_file_bytes(catalog.LITELLM_FILE)
    monkeypatch.setattr(catalog, "_bytes", lambda: read.append("ours") or ours)
    monkeypatch.setattr(catalog, "litellm_file_bytes", lambda name: read.append("theirs") or theirs)
    assert lookup("openai", "gpt-5-2025-08-07") and lookup("openai", "gpt-5-2025-08-07")
    assert read == ["ours"]
    assert lookup("openai", "nothing-2025-08-07") is None and lookup("ollama", "nothing") is not None
    assert read == ["ours", "ours", "theirs", "ours"]


def test_a_file_of_litellm_written_in_another_way_is_parsed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    compact = b'{"m":{"litellm_provider":"openai","mode":"chat","max_input_tokens":7}}'
    monkeypatch.setattr(catalog, "litellm_file_bytes", lambda name, folder=None: compact)
    info = lookup("openai", "m")
    assert info is not None and info.context_window == 7


def test_without_litellm_models_are_known(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    code = (
        "from agent_cli.models import catalog as c; from agent_cli.kernel.results import Usage;"
        "assert c.lookup('openai', 'gpt-5').prices; assert len(c.known_models()) > 1000;"
        "assert c.newest_claude('sonnet'); assert c.is_provider('bedrock'); assert not c.is_provider('nobody');"
        "assert c.lookup('openai', 'nothing') is None; assert c.owner_of('nothing') is None;"
        "assert not c.price(None, Usage(input=5)).reliable; assert c.lookup('ollama', 'x').local"
    )
    path = (
        f"import sys; sys.path[:] = [p for p in sys.path if 'packages' not in p] + {[str(root), str(root / 'tools')]};"
    )
    done = subprocess.run([sys.executable, "-S", "-P", "-c", path + code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_importing_the_catalog_or_the_selection_imports_nothing_heavy() -> None:
    heavy = ["litellm", "pydantic", "dataclasses", "urllib.request", "subprocess", "http.client", "keyring", "asyncio"]
    code = f"import sys, agent_cli.models.resolve; print([m for m in {heavy} if m in sys.modules])"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_bare_entry_belongs_to_its_provider_only() -> None:
    info = lookup("anthropic", "claude-sonnet-4-5")
    assert info is not None
    assert info.name == "anthropic/claude-sonnet-4-5"
    assert info.context_window and info.max_output and info.tools and info.reasoning and info.vision
    assert lookup("groq", "claude-sonnet-4-5") is None


def test_names_with_several_slashes_and_other_names_of_a_provider_are_found() -> None:
    assert lookup("openrouter", "anthropic/claude-sonnet-4.5") is not None
    assert lookup("groq", "openai/gpt-oss-120b") is not None
    assert lookup("bedrock", "anthropic.claude-sonnet-4-20250514-v1:0") is not None


def test_a_dated_release_that_is_not_listed_is_known_by_its_undated_name() -> None:
    info = lookup("anthropic", "claude-sonnet-4-5-20991231")
    assert info is not None and info.name == "anthropic/claude-sonnet-4-5-20991231"
    assert lookup("anthropic", "claude-nothing-1") is None


def test_models_that_answer_only_on_the_responses_api_are_reported_apart() -> None:
    codex, chat = lookup("openai", "gpt-5-codex"), lookup("openai", "gpt-5")
    assert codex is not None and codex.responses_only
    assert chat is not None and not chat.responses_only


def test_every_default_model_is_in_the_catalog_and_calls_tools() -> None:
    for provider in PROVIDERS:
        if provider.default:
            name = expand_short_name(provider.default) if provider.default in SHORT_NAMES else provider.default
            info = lookup(provider.name, name) or lookup(provider.name, provider.model_prefix + name)
            assert info is not None and info.tools, provider.name
    assert default_model({"ANTHROPIC_API_KEY": "x"}) == f"anthropic/{newest_claude('sonnet')}"


def test_the_newest_claude_of_a_family_is_the_one_with_the_highest_version() -> None:
    for family in ("sonnet", "opus", "haiku"):
        name = newest_claude(family)
        assert name is not None and lookup("anthropic", name) is not None
    assert newest_claude("tanka") is None


def test_known_models_hold_conversations_and_match_every_word() -> None:
    found = known_models("Claude bedrock")
    assert found and all("claude" in m.name.lower() and "bedrock" in m.name for m in found)
    names = [m.name for m in known_models()]
    assert len(names) > 1000 and names == sorted(names)
    assert "openai/gpt-5" in names and not any("embedding-3" in n for n in names)


def test_providers_are_known_by_name() -> None:
    assert is_provider("bedrock") and is_provider("vercel_ai_gateway")
    assert not is_provider("nobody") and not is_provider('a"b') and not is_provider("chat_completions")


PLAIN = ModelInfo(name="p/m", provider="p", prices=(Prices(input=1.0, output=10.0, cache_read=0.1, cache_write=2.0),))


def test_cached_input_is_priced_apart_from_plain_input() -> None:
    cost = price(PLAIN, Usage(input=100, cache_read=60, cache_write=30, output=5))
    assert cost.cost == pytest.approx(10 * 1.0 + 60 * 0.1 + 30 * 2.0 + 5 * 10.0)
    assert cost.reliable


def test_a_part_without_a_price_makes_the_cost_unreliable() -> None:
    info = PLAIN.replace(prices=(Prices(input=1.0, output=10.0),))
    assert price(info, Usage(input=100)).reliable
    cached = price(info, Usage(input=100, cache_read=60))
    assert not cached.reliable and cached.cost == pytest.approx(100.0)


def test_unknown_models_cost_nothing_unreliably() -> None:
    assert price(None, Usage(input=5)) == Usage(input=5, reliable=False)
    assert price(PLAIN.replace(prices=()), Usage(input=5)) == Usage(input=5, reliable=False)


def test_a_long_request_is_priced_as_a_whole_at_the_upper_tier() -> None:
    info = lookup("gemini", "gemini-2.5-pro")
    assert info is not None and [p.above for p in info.prices] == [0, 200_000]
    low, high = info.prices
    assert low.input and high.input and high.input > low.input
    assert price(info, Usage(input=200_000)).cost == pytest.approx(200_000 * low.input)
    assert price(info, Usage(input=200_001)).cost == pytest.approx(200_001 * high.input)
    ranges = lookup("dashscope", "qwen-flash")
    assert ranges is not None and len(ranges.prices) > 1


def test_local_models_are_free_and_a_reported_cost_stands() -> None:
    assert price(lookup("ollama", "anything:7b"), Usage(input=5, output=5)) == Usage(input=5, output=5)
    assert price(PLAIN, Usage(input=5, cost=0.25)).cost == 0.25


def test_reasoning_is_priced_as_output_unless_it_has_its_own_price() -> None:
    assert price(PLAIN, Usage(output=10, reasoning=4)).cost == pytest.approx(100.0)
    own = PLAIN.replace(prices=(PLAIN.prices[0].replace(reasoning=1.0),))
    assert price(own, Usage(output=10, reasoning=4)).cost == pytest.approx(64.0)

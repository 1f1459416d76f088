"""What models take, by the catalog or else by the settings; and how long a silent one is waited for."""

from __future__ import annotations

from typing import Any

import pytest

from agent_cli.config.schema import Settings
from agent_cli.kernel.runtime import models
from agent_cli.kernel.runtime.models import LOCAL_IDLE_SECONDS, LOCAL_IDLE_SECONDS_PER_KB, input_modalities, open_client
from agent_cli.models import resolve
from agent_cli.models.base import Request
from agent_cli.models.catalog import ModelInfo, lookup
from agent_cli.models.registry import is_loopback_url
from agent_tools.cancel import CancelToken


@pytest.mark.parametrize(
    ("vision", "pdf", "settings", "takes"),
    [
        (True, True, (), {"image", "pdf"}),
        (True, None, (), {"image"}),
        (True, None, ("pdf",), {"image", "pdf"}),
        (False, None, ("image",), set()),
        (None, None, (), set()),
        (None, None, ("image",), {"image"}),
    ],
)
def test_the_catalog_comes_before_the_settings(
    vision: bool | None, pdf: bool | None, settings: tuple[str, ...], takes: set[str]
) -> None:
    info = ModelInfo(name="x/y", provider="x", vision=vision, pdf=pdf)
    assert input_modalities(info, Settings(model_takes=settings)) == takes


def test_a_model_that_is_not_listed_takes_text_unless_the_settings_say_more() -> None:
    assert input_modalities(None, Settings()) == set()
    assert input_modalities(None, Settings(model_takes=("image",))) == {"image"}
    assert input_modalities(lookup("ollama", "not-in-the-list"), Settings(model_takes=("image",))) == {"image"}


def test_known_models() -> None:
    assert input_modalities(lookup("anthropic", "claude-sonnet-4-5"), Settings()) == {"image", "pdf"}
    assert input_modalities(lookup("openrouter", "anthropic/claude-sonnet-4.6"), Settings()) == {"image"}


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:8089/v1", True),
        ("http://localhost/v1", True),
        ("http://[::1]:11434", True),
        ("https://api.example.org/v1", False),
        ("https://localhost.example.org:443/v1", False),
    ],
)
@pytest.mark.parametrize("asked", [None, 30.0])
def test_a_model_on_this_machine_may_read_for_long(
    url: str, local: bool, asked: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def opened(model: resolve.ResolvedModel, *, timeouts: Any, **more: Any) -> Any:
        seen.append((timeouts.idle, timeouts.idle_per_kb))
        raise LookupError

    monkeypatch.setattr(models, "create_client", opened)
    settings = Settings() if asked is None else Settings(idle_timeout=asked)
    wire = open_client(resolve.ResolvedModel("openai", "m", "openai", url, ""), settings)
    with pytest.raises(LookupError):
        list(wire.stream(Request("m", "s", (), max_tokens=1), CancelToken()))
    assert is_loopback_url(url) is local
    assert seen == [(LOCAL_IDLE_SECONDS, LOCAL_IDLE_SECONDS_PER_KB) if local and not asked else (asked or 120.0, 0.0)]

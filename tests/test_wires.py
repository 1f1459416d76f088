"""What models are ready for: images and PDFs as the catalog says, else as the settings do."""

from __future__ import annotations

import pytest

from agent_cli.config.schema import Settings
from agent_cli.providers.catalog import ModelInfo, lookup
from agent_cli.runtime.models import taken_by


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
    assert taken_by(info, Settings(model_takes=settings)) == takes


def test_a_model_that_is_not_listed_takes_text_unless_the_settings_say_more() -> None:
    assert taken_by(None, Settings()) == set()
    assert taken_by(None, Settings(model_takes=("image",))) == {"image"}
    assert taken_by(lookup("ollama", "not-in-the-list"), Settings(model_takes=("image",))) == {"image"}


def test_known_models() -> None:
    assert taken_by(lookup("anthropic", "claude-sonnet-4-5"), Settings()) == {"image", "pdf"}
    assert taken_by(lookup("openrouter", "anthropic/claude-sonnet-4.6"), Settings()) == {"image"}

"""The models that the page of `agent serve` offers."""

from __future__ import annotations

from pathlib import Path

from agent_cli.models.catalog import newest_claude
from tests.support.served import served


def test_the_newest_models_that_can_be_used_are_offered(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with served(tmp_path / "work", ANTHROPIC_API_KEY="sk-x", OPENAI_API_KEY="sk-y") as server:
        few = server.get("/v1/models")
        every = server.get("/v1/models?all=true")
    assert few["default"] == few["models"][0]["name"] == f"anthropic/{newest_claude('sonnet')}"
    assert len(few["models"]) < 24
    assert len(every["models"]) == len(few["models"]) + few["more"]
    assert every["more"] == 0
    assert not [m["name"] for m in every["models"] if "audio" in m["name"] or "/ft:" in m["name"]]

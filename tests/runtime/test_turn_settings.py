"""A setting that a turn reads is written once: its definition in `TurnSettings` is all it takes to reach a turn."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from agent_cli.config.schema import Settings, TurnSettings
from agent_cli.kernel.engine.types import TurnOptions
from agent_cli.kernel.runtime.builder import turn_options
from agent_cli.kernel.session.records import Header
from agent_cli.models.resolve import resolve
from agent_tools.record import hints_of


def other_value(name: str) -> Any:
    """Return a valid value that is not the default."""
    default, kinds = getattr(TurnSettings, name), get_args(hints_of(TurnSettings)[name].__origin__)
    if kinds and all(isinstance(kind, str) for kind in kinds):
        return next(kind for kind in kinds if kind != default)
    if isinstance(default, bool):
        return not default
    if isinstance(default, (int, float)):
        return default / 2 if isinstance(default, float) and default <= 1 else default + 1
    return "high" if name == "effort" else 7 if default is None else "x"


@pytest.mark.parametrize("name", TurnSettings._fields)
def test_it_reaches_the_turn(name: str) -> None:
    value = other_value(name)
    model = resolve("openai/x", env={"OPENAI_API_KEY": "k"})
    header = Header("s", "/w", "/w", "openai/x", "You are a test.", (), "1")
    options = turn_options(Settings(**{name: value}), model, header, ())
    assert getattr(options, name) == value != getattr(Settings, name)
    assert isinstance(options, TurnOptions) and isinstance(Settings(), TurnSettings)

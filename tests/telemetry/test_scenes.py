"""Sessions with everything that can happen in one, as telemetry: no event is a mistake, and all spans nest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_cli.config.telemetry import read_telemetry
from agent_cli.kernel.events import Event
from agent_cli.telemetry.facts import SessionFacts
from agent_cli.telemetry.listener import SessionTelemetry
from tests.support.collector import Collector
from tests.support.live_events import SCENES, events_of


def exported(events: list[Event], tmp_path: Path, **more: str) -> Collector:
    with Collector() as collector:
        env = collector.env(**more)
        options = read_telemetry(env)
        assert options is not None
        facts = SessionFacts("s", attended=True, start_type="fresh", env=env, state=tmp_path)
        telemetry = SessionTelemetry(options, facts, str, lambda: "p", lambda name: name == "explore")
        for event in events:
            telemetry(event)
        assert telemetry.close() == ""
    return collector


OPTED = dict.fromkeys(("OTEL_LOG_USER_PROMPTS", "OTEL_LOG_TOOL_DETAILS", "OTEL_LOG_TOOL_CONTENT"), "1")


@pytest.mark.parametrize("opted", [{}, OPTED], ids=["texts withheld", "texts exported"])
@pytest.mark.parametrize("name", [*SCENES, "session"])
def test_every_scene_is_exported_and_its_spans_nest(name: str, opted: dict[str, Any], tmp_path: Path) -> None:
    collector = exported(events_of(name), tmp_path, **opted)
    known = {span.id for span in collector.spans} | {""}
    assert {span.parent for span in collector.spans} <= known
    turns = collector.spans_of("interaction")
    assert {span.trace for span in collector.spans} == {turn.trace for turn in turns}
    assert [turn.attributes["interaction.sequence"] for turn in turns] == [*range(1, len(turns) + 1)]
    assert all(span.nanoseconds >= 0 for span in collector.spans)
    assert collector.total("token.usage") > 0


def test_a_mistake_ends_the_export_and_nothing_else(tmp_path: Path) -> None:
    with Collector() as collector:
        options = read_telemetry(collector.env())
        assert options is not None
        facts = SessionFacts("s", attended=True, start_type="fresh", env={}, state=tmp_path)

        def clock() -> int:
            raise OverflowError("too late")

        telemetry = SessionTelemetry(options, facts, str, lambda: "", lambda name: False, clock)
        for event in events_of("session"):
            telemetry(event)
        assert telemetry.close() == "no more is exported after an internal error (OverflowError: too late)"
    assert collector.total("session.count") == 1

"""A session of a thousand rounds in a window of 32,000 tokens runs to its end, with its plan and pins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_cli.config.prompts import prompt
from agent_cli.kernel.events import Compacted
from agent_cli.kernel.messages import AssistantMessage, Text, UserMessage
from agent_cli.kernel.results import Complete, Limits
from agent_cli.kernel.runtime.tools import tool_specs
from agent_cli.models.base import Request
from agent_tools.plan import TodoWrite
from agent_tools.read import Read
from agent_tools.registry import BUILTIN
from agent_tools.write import Write
from tests.support.narrow_model import NarrowModel, whole
from tests.support.turns import World

ROUNDS, SIZE, STEPS = 1_000, 32_000, 10
GOAL = "Go through all the parts, in order, and never touch config/secret.toml."
RULE = "House rule: names of parts are written in small letters."


def plan(done: int) -> dict[str, Any]:
    status = ["completed"] * done + ["in_progress"] + ["pending"] * STEPS
    return {"todos": [{"content": f"part {n}", "status": status[n]} for n in range(STEPS)]}


def answer(number: int, request: Request) -> dict[str, Any]:
    """The plan first, then reading and writing, ten parts in a row."""
    step, inside = divmod(number, ROUNDS // STEPS)
    if number == ROUNDS - 1:
        return {"text": "All parts are done."}
    if inside == 0 or number == ROUNDS - 2:
        return {"calls": [{"name": "TodoWrite", "arguments": plan(STEPS if number == ROUNDS - 2 else step)}]}
    if inside % 7 == 3:
        text = f"part {step} at {number}\n" * 60
        return {
            "text": "Writing.",
            "calls": [{"name": "Write", "arguments": {"file_path": f"out{step}.txt", "content": text}}],
        }
    name = f"part{(number * 7) % 40}.txt"
    return {
        "text": f"Reading {name}.",
        "calls": [{"name": "Read", "arguments": {"file_path": name, "offset": 1 + number % 5}}],
    }


@pytest.mark.slow
def test_a_thousand_rounds_in_a_narrow_window(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"part{number}.txt").write_text(f"line of part {number}, with words\n" * (20 + 12 * (number % 13)))
    world = World(tmp_path, [], mode="acceptEdits", tools=(Read(), Write(), TodoWrite()))
    model = NarrowModel(answer, SIZE)
    world.deps = world.deps.replace(client=model)
    world.deps.state.window.pins = [RULE]
    world.history = [UserMessage(RULE), AssistantMessage((Text("I will."),), model="narrow")]
    result = world.turn(
        GOAL,
        limits=Limits(rounds=0, tool_calls=0),
        context_window=SIZE,
        system=prompt("system"),
        tools=tuple(s for s in tool_specs(list(BUILTIN)) if s.name in world.deps.tools),
    )

    assert isinstance(result, Complete)
    assert result.text == "All parts are done."
    assert [t.status for t in world.deps.context.plan] == ["completed"] * STEPS
    # Every request fit: none was refused, though the model counts in another way than we do.
    assert model.refused == 0
    assert model.largest <= SIZE
    made = world.of(Compacted)
    assert 20 < len(made) < 200
    # What may not be forgotten is in every request, and the plan as it stood then.
    for request in model.requests[1:]:
        text = whole(request)
        assert GOAL in text
        assert RULE in text
    for request in model.requests:
        if request.head:
            assert "part 9" in request.messages[0].text  # type: ignore[union-attr]
    # At most one break of the prefix for each compaction.
    breaks = sum(
        after.messages[: len(before.messages)] != before.messages
        for before, after in zip(model.requests, model.requests[1:], strict=False)
    )
    assert breaks == len(made)
    # The history keeps everything.
    assert sum(len(m.calls) for m in world.history if hasattr(m, "calls")) >= ROUNDS - 2

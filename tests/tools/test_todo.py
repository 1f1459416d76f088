"""The plan: what is accepted, what is refused, what is kept."""

from __future__ import annotations

from agent_tools.results import TodoItem, TodoView
from tests.support.tool_bench import TOOLS, Bench


def test_a_plan_is_kept_shown_and_read_back(bench: Bench) -> None:
    todos = [
        {"content": "Look", "status": "completed", "activeForm": "Looking"},
        {"content": "Repair", "status": "in_progress", "activeForm": "Repairing", "priority": "high"},
        {"content": "Test", "status": "pending", "id": "3"},
    ]
    result = bench("TodoWrite", todos=todos)
    assert result.text == "Plan noted: 3 steps, 2 open. In progress: Repair."
    assert result.display == TodoView(bench.ctx.plan)
    assert bench.ctx.plan[1] == TodoItem("Repair", "in_progress", activeForm="Repairing", priority="high")
    assert bench("TodoRead").text == "[x] Look\n[>] Repair (high priority)\n[ ] Test (id 3)"
    args = bench.args("TodoWrite", {"todos": todos})
    assert TOOLS["TodoWrite"].summary(args, bench.ctx) == "Plan: 1 of 3 done"
    assert bench("TodoWrite", todos=[]).text == "The plan is empty now."
    assert bench("TodoRead").text == "There is no plan yet."


def test_a_plan_that_makes_no_sense_changes_nothing(bench: Bench) -> None:
    bench("TodoWrite", todos=[{"content": "Keep", "status": "pending"}])
    one = {"content": "a", "status": "in_progress"}
    assert "Only one step" in bench.fails("TodoWrite", todos=[one, {**one, "content": "b"}])
    assert "needs content" in bench.fails("TodoWrite", todos=[{"content": " ", "status": "pending"}])
    assert "same content" in bench.fails("TodoWrite", todos=[{"content": "a", "status": "pending"}] * 2)
    twice = [{"content": c, "status": "pending", "id": "1"} for c in "ab"]
    assert "same id" in bench.fails("TodoWrite", todos=twice)
    assert "status" in bench.fails("TodoWrite", todos=[{"content": "a", "status": "done"}])
    assert [item.content for item in bench.ctx.plan] == ["Keep"]

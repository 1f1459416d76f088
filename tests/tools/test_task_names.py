"""The names that models of today use for our tools: Agent and its types, and the tools of a task list."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_cli.kernel.rules import read_rule
from agent_tools.base import ToolError
from agent_tools.foreign_calls import resolve_call
from agent_tools.plan import PlanProgress, TodoRead
from agent_tools.registry import BUILTIN
from agent_tools.task import Task, common_type
from tests.support.tool_bench import Bench

TOOLS = {tool.name: tool for tool in BUILTIN}


@pytest.mark.parametrize(
    ("name", "arguments", "tool", "meant"),
    [
        ("Agent", {"prompt": "x"}, "Task", {"prompt": "x"}),
        ("TaskCreate", {"subject": "Test it", "description": "all"}, "PlanProgress", {"new_step": "Test it"}),
        ("TaskUpdate", {"taskId": "2", "status": "completed"}, "PlanProgress", {"step_id": "2"}),
        ("TaskUpdate", {"taskId": 2, "status": "in_progress"}, "PlanProgress", {"next_step": "2"}),
        ("TaskList", {}, "TodoRead", {}),
        ("TaskGet", {"taskId": "1"}, "TodoRead", {}),
        ("TaskOutput", {"task_id": "b1"}, "BashOutput", {"task_id": "b1"}),
        ("TaskStop", {"task_id": "b1"}, "KillShell", {"task_id": "b1"}),
        ("UseSkill", {"name": "a"}, "Skill", {"name": "a"}),
    ],
)
def test_a_call_means_one_of_our_tools(name: str, arguments: dict, tool: str, meant: dict) -> None:  # type: ignore[type-arg]
    found = resolve_call(name, arguments, TOOLS)
    assert found is not None
    assert (found.tool, found.arguments) == (tool, meant)


def test_types_of_sub_agents_in_any_spelling() -> None:
    names = ("general-purpose", "Explore", "Plan", "explore", "general", "mine")
    assert [common_type(n) for n in names] == ["general", "explore", "plan", "explore", "general", "mine"]


def test_rules_speak_of_a_type_under_either_name(tmp_path: Path) -> None:
    args = Task().read({"subagent_type": "Explore", "description": "a", "prompt": "b"})
    (effect,) = Task().effects(args, Bench(tmp_path).ctx)
    for text in ("Agent(Explore)", "Task(explore)"):
        rule = read_rule("deny", text, "", tmp_path)
        assert (rule.tool, rule.spec) == ("Task", effect.target)


def test_steps_are_added_with_numbers_that_stay(tmp_path: Path) -> None:
    bench, progress = Bench(tmp_path), PlanProgress()

    def answer_to(**arguments: str) -> str:
        return str(progress.run(progress.read(dict(arguments)), bench.ctx).text)

    with pytest.raises(ToolError, match="no plan yet"):
        answer_to(step_id="1")
    assert answer_to(new_step="Read").startswith("Step 1 was added.")
    assert answer_to(new_step="Write").startswith("Step 2 was added.")
    answer_to(next_step="1")
    answer_to(step_id="1")
    assert answer_to(new_step="Test").startswith("Step 3 was added.")
    answer_to(next_step="3")
    listed = TodoRead().run(TodoRead().read({}), bench.ctx).text
    assert listed == "[x] Read (id 1)\n[ ] Write (id 2)\n[>] Test (id 3)"
    with pytest.raises(ToolError, match="same content"):
        answer_to(new_step="Read")

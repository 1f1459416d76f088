"""The slots of a tool context: made on first use, shared with sub-agents or not, closed at the end in order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent_tools.base import ToolContext, ToolState
from agent_tools.fs.workspace import Workspace
from agent_tools.shell.jobs import Jobs
from agent_tools.shell.state import ShellState

closed: list[ToolState] = []


class Shared(ToolState):
    def notices(self, ctx: ToolContext, *, root: bool) -> list[str]:
        return ["of the conversation" if root else "of a sub-agent"]

    def close(self) -> None:
        closed.append(self)


class Own(Shared):
    def nested(self) -> Own:
        return Own()


class Supplied(Shared):
    pass


class Failing(Shared):
    def close(self) -> None:
        super().close()
        raise OSError("a disk is gone")


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    closed.clear()
    return ToolContext(Workspace(tmp_path))


def test_a_state_is_made_on_first_use_and_is_the_same_from_then_on(ctx: ToolContext) -> None:
    assert ctx.supplied(Shared) is None and ctx.notices() == []
    assert ctx.state(Shared) is ctx.state(Shared) is ctx.supplied(Shared)
    assert ctx.notices() == ["of the conversation"]


def test_a_sub_agent_shares_a_state_whoever_used_it_first(ctx: ToolContext) -> None:
    before = ctx.state(Shared)
    child = ctx.nested()
    assert child.state(Shared) is before
    assert child.notices() == ["of a sub-agent"]
    assert child.state(Jobs) is ctx.state(Jobs), "made by the sub-agent, and the conversation's all the same"


def test_a_sub_agent_has_its_own_where_the_state_says_so(ctx: ToolContext) -> None:
    early = ctx.nested()
    ctx.state(ShellState).variables["A"] = "1"
    late = ctx.nested()
    late.state(ShellState).variables["A"] = "2"
    assert ctx.state(ShellState).variables == {"A": "1"} and early.state(ShellState) is not ctx.state(ShellState)
    assert late.state(Own) is not ctx.state(Own)


def test_states_are_closed_once_each_the_latest_first(ctx: ToolContext) -> None:
    supplied = Supplied()
    ctx.supply(supplied)
    first, child = ctx.state(Shared), ctx.nested()
    own = child.state(Own)
    ctx.close()
    assert closed == [own, ctx.state(Own), first, supplied]


def test_whatever_one_raises_the_others_are_closed(tmp_path: Path) -> None:
    closed.clear()
    ctx = ToolContext(Workspace(tmp_path), supplied=[Shared()])
    ctx.state(Failing)
    kept = ctx.state(Own)
    folder = ctx.workspace.scratch.folder
    with pytest.raises(OSError, match="a disk is gone"):
        ctx.close()
    assert closed == [kept, ctx.state(Failing), ctx.supplied(Shared)]
    assert folder is None or not folder.exists()


def test_the_context_loads_no_tool() -> None:
    code = "import sys, agent_tools.base; print(*sorted(m for m in sys.modules if m.startswith('agent_tools.')))"
    path = str(Path(__file__).parents[2] / "tools")
    ran = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    loaded = set(ran.stdout.split())
    assert "agent_tools.base" in loaded
    tools = ("registry", "shell.jobs", "shell.state", "shell.bash", "sandbox.runner", "web", "search", "edit")
    assert not loaded & {f"agent_tools.{name}" for name in tools}

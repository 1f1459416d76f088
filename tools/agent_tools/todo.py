"""TodoWrite and TodoRead: the plan of the conversation."""

from __future__ import annotations

from typing import Annotated, ClassVar

from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.clipping import one_line
from agent_tools.display import TodoItem, TodoView
from agent_tools.values import Value

_SIGNS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}


class TodoWriteArgs(Value):
    """The arguments of TodoWrite."""

    ALIASES: ClassVar = {"todos": ("items", "plan", "tasks")}

    todos: Annotated[tuple[TodoItem, ...], "The whole plan, in order; it replaces the old one"]


class TodoReadArgs(Value):
    """TodoRead takes none."""


class TodoWrite(Tool[TodoWriteArgs]):
    """Replaces the plan."""

    name = "TodoWrite"
    Args = TodoWriteArgs
    of_conversation = True
    changes_plan = True
    plan_argument = "todos"
    composed = True

    def effects(self, args: TodoWriteArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: TodoWriteArgs, ctx: ToolContext) -> str:
        done = sum(item.status == "completed" for item in args.todos)
        return f"Plan: {done} of {len(args.todos)} done"

    def run(self, args: TodoWriteArgs, ctx: ToolContext) -> ToolResult:
        _check(args.todos)
        ctx.plan = args.todos
        if not ctx.plan:
            return ToolResult("The plan is empty now.", TodoView(()))
        now = next((item.content for item in ctx.plan if item.status == "in_progress"), None)
        left = sum(item.status in ("pending", "in_progress") for item in ctx.plan)
        said = f"Plan noted: {len(ctx.plan)} steps, {left} open."
        return ToolResult(f"{said} In progress: {one_line(now)}." if now else said, TodoView(ctx.plan))


class TodoRead(Tool[TodoReadArgs]):
    """Says the plan as it stands."""

    name = "TodoRead"
    Args = TodoReadArgs
    of_conversation = True
    composed = True

    def effects(self, args: TodoReadArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: TodoReadArgs, ctx: ToolContext) -> str:
        return "Look at the plan"

    def run(self, args: TodoReadArgs, ctx: ToolContext) -> ToolResult:
        lines = [f"{_SIGNS[item.status]} {one_line(item.label)}" for item in ctx.plan]
        return ToolResult("\n".join(lines) or "There is no plan yet.", TodoView(ctx.plan))


def _check(items: tuple[TodoItem, ...]) -> None:
    """Raises ToolError for a plan that cannot be shown or followed."""
    running = [item.content for item in items if item.status == "in_progress"]
    if len(running) > 1:
        raise ToolError(f"Only one step can be in_progress at a time, not {len(running)}: {'; '.join(running)}.")
    if any(not item.content.strip() for item in items):
        raise ToolError("Every step needs a content that says what is to be done.")
    for what, names in (("content", [i.content.strip() for i in items]), ("id", [i.id for i in items if i.id])):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ToolError(f"Two steps have the same {what}: {twice!r}. Each must be told apart.")

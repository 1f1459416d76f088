"""ExitPlanMode and PlanProgress: a plan is put to the person, and its steps are marked with few tokens."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from agent_tools.base import Effect, Suspend, Tool, ToolContext, ToolError, ToolResult
from agent_tools.clipping import number_in
from agent_tools.display import TodoItem, TodoView
from agent_tools.values import Value


class ExitPlanModeArgs(Value):
    """A plan in prose, and what it comes down to."""

    plan: Annotated[str, "The plan in markdown: what changes, in which order, how it is verified"]
    steps: Annotated[tuple[str, ...], "The steps in order; they become the todo list"] = ()
    files_to_create: tuple[str, ...] = ()
    files_to_modify: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


class ExitPlanMode(Tool[ExitPlanModeArgs]):
    """Puts the plan to the person, who approves it, sends it back with words, or ends the work."""

    name = "ExitPlanMode"
    Args = ExitPlanModeArgs
    asks_person = True

    def effects(self, args: ExitPlanModeArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: ExitPlanModeArgs, ctx: ToolContext) -> str:
        return "Propose a plan"

    def run(self, args: ExitPlanModeArgs, ctx: ToolContext) -> ToolResult:
        steps = args.steps or tuple(listed(args.plan))
        data = {
            "plan": args.plan,
            "steps": list(steps),
            "files_to_create": list(args.files_to_create),
            "files_to_modify": list(args.files_to_modify),
            "commands": list(args.commands),
            "dependencies": list(args.dependencies),
            "tests": list(args.tests),
        }
        return ToolResult("", suspend=Suspend("plan", data))


def plan_text(data: dict[str, Any]) -> str:
    """A proposed plan (the data of its `Suspend`) as text: its prose, or its numbered steps."""
    steps = [s["content"] if isinstance(s, dict) else s for s in data.get("steps", ())]
    return str(data.get("plan") or "\n".join(f"{n}. {s}" for n, s in enumerate(steps, 1))).rstrip("\n")


def listed(plan: str) -> list[str]:
    """The numbered items of a plan that names no steps, else its bullets."""
    numbered = re.findall(r"^\d+[.)]\s+(.+)$", plan, re.MULTILINE)
    return numbered or re.findall(r"^[-*]\s+(.+)$", plan, re.MULTILINE)


class PlanProgressArgs(Value):
    """Where the plan stands."""

    step_id: Annotated[str, "Id of the finished step, or its number from 1"] = ""
    step_summary: Annotated[str, "What was done, in a few words"] = ""
    next_step: Annotated[str, "Id or number of the step that begins now"] = ""
    plan_status: Annotated[Literal["in_progress", "completed"], "completed: the whole plan; call it alone"] = (
        "in_progress"
    )


class PlanProgress(Tool[PlanProgressArgs]):
    """Marks a step without sending the whole list again."""

    name = "PlanProgress"
    Args = PlanProgressArgs

    def read(self, arguments: dict[str, object]) -> PlanProgressArgs:
        args = super().read(arguments)
        if not (args.step_id or args.next_step or args.plan_status == "completed"):
            raise ToolError(
                "Invalid arguments. Name the step that is done (step_id), the one that begins (next_step), or say that "
                'the whole plan is completed (plan_status "completed").'
            )
        return args

    def effects(self, args: PlanProgressArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: PlanProgressArgs, ctx: ToolContext) -> str:
        if args.plan_status == "completed":
            return "Plan: completed"
        return f"Plan: step {args.step_id} done" if args.step_id else f"Plan: step {args.next_step} begins"

    def alone(self, args: PlanProgressArgs) -> bool:
        return args.plan_status == "completed"

    def run(self, args: PlanProgressArgs, ctx: ToolContext) -> ToolResult:
        if not ctx.plan:
            raise ToolError("There is no plan yet. Make one with TodoWrite first.")
        plan = list(ctx.plan)
        if args.plan_status == "completed":
            plan = [t if t.status == "cancelled" else t.but(status="completed") for t in plan]
        if args.step_id:
            done = _find(plan, args.step_id)
            plan[done] = plan[done].but(status="completed")
        if args.next_step:
            now = _find(plan, args.next_step)
            plan = [t.but(status="pending") if t.status == "in_progress" else t for t in plan]
            plan[now] = plan[now].but(status="in_progress")
        ctx.plan = tuple(plan)
        left = sum(t.status in ("pending", "in_progress") for t in plan)
        return ToolResult(f"Noted. {left} of {len(plan)} steps are open.", TodoView(ctx.plan))


def _find(plan: list[TodoItem], name: str) -> int:
    """The place of a step by its id, its number, or its text. Raises ToolError."""
    for index, item in enumerate(plan):
        if name in (item.id, item.content):
            return index
    if 1 <= number_in(name) <= len(plan):
        return number_in(name) - 1
    steps = ", ".join(f"{t.id or n}: {t.content}" for n, t in enumerate(plan, 1))
    raise ToolError(f"The plan has no step {name!r}. Its steps are: {steps}.")

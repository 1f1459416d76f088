"""A turn does not end while its plan has open steps, and does not report "done" over a failing check.

Only a plan that was made, approved or changed in this turn is guarded: one of an earlier request is paused. Each guard
is asked when the model answers with text only; what it returns goes to the model as a message.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from agent_cli.core.events import Event, PlanContinued
from agent_cli.core.messages import AssistantMessage, is_user_message, user_text
from agent_tools.display import TodoItem

if TYPE_CHECKING:
    from agent_cli.engine.turn import Turn

_MARKS = {"pending": " ", "in_progress": ">", "completed": "x", "cancelled": "-"}


def open_steps(plan: Sequence[TodoItem]) -> list[TodoItem]:
    return [t for t in plan if t.status in ("pending", "in_progress")]


def unfinished(plan: Sequence[TodoItem]) -> bool:
    """A plan of two or more steps with open ones."""
    return len(plan) >= 2 and bool(open_steps(plan))


def left_open(turn: Turn) -> bool:
    """Whether the turn's own plan has open steps."""
    return turn.plan_touched and unfinished(turn.kit.context.plan)


def format_plan(plan: Sequence[TodoItem]) -> str:
    return "\n".join(f"[{_MARKS[t.status]}] {t.label}" for t in plan)


def goal_of(turn: Turn) -> str:
    """What the user asked for last, in their words."""
    said = [m.text for m in turn.history if is_user_message(m)]
    return user_text(said[-1])[:500] if said else ""


def asks_back(text: str) -> bool:
    """Whether the answer's last sentence is a question."""
    return text.rstrip().rstrip("*_)\"'`").endswith("?")


def continuation(turn: Turn, answer: AssistantMessage, template: str) -> Generator[Event, None, str | None]:
    """The message that sends the model on with an unfinished plan; None where its text stands."""
    plan = turn.kit.context.plan
    if not left_open(turn):
        return None
    if asks_back(answer.text):
        if turn.kit.attended or turn.nudges.get("asked"):
            return None
        turn.nudges["asked"] = 1
    attempt = turn.nudges.get("plan", 0) + 1
    if attempt > turn.options.plan_nudges:
        return None
    turn.nudges["plan"] = attempt
    yield PlanContinued(turn.budget.rounds, attempt, len(answer.text))
    step = next((t for t in plan if t.status == "in_progress"), open_steps(plan)[0])
    return template.format(goal=goal_of(turn), plan=format_plan(plan), step=step.content)


def failing_check(turn: Turn) -> str | None:
    """Told once: the last test or build command of this turn failed."""
    check = turn.checks.last
    if check is None or check.passed or turn.nudges.get("verify"):
        return None
    turn.nudges["verify"] = 1
    return (
        f"<reminder>\nThe last check you ran, {check}. If the work is not done, go on. If this is expected or cannot "
        "be mended here, say so plainly in your answer.\n</reminder>"
    )


def verified(turn: Turn) -> str:
    """The line that says which command verified what."""
    check = turn.checks.last
    if check is None:
        return ""
    return f"{check}{', but files were changed after it' if turn.checks.changed_since else ''}"


def reminder(turn: Turn, template: str) -> str:
    """A note for the last result of a round, every few rounds after the plan was made; else nothing."""
    every = turn.options.plan_reminder
    plan = turn.kit.context.plan
    goal = goal_of(turn)
    since = turn.budget.rounds - turn.plan_round
    if not every or not left_open(turn) or not goal or since <= 0 or since % every:
        return ""
    return "\n\n" + template.format(goal=goal, plan=format_plan(plan))

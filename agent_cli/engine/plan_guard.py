"""A turn does not end while its plan has open steps, and does not report "done" over a failing check.

Only a plan that was made, approved or changed in this turn is guarded: one of an earlier request is paused.
Each guard runs when the model answers with text only; what it returns goes to the model as a message.
"""

from __future__ import annotations

from collections.abc import Generator

from agent_cli.core.events import Event, PlanContinued
from agent_cli.core.messages import AssistantMessage
from agent_cli.engine.plan import format_plan, goal_of, is_question, open_steps
from agent_cli.engine.turn import Turn


def plan_nudge(turn: Turn, answer: AssistantMessage, template: str) -> Generator[Event, None, str | None]:
    """Return a message that continues an unfinished plan; None to accept the answer."""
    plan = turn.deps.context.plan
    if not turn.left_open:
        return None
    if is_question(answer.text):
        if turn.deps.attended or turn.nudges.get("asked"):
            return None
        turn.nudges["asked"] = 1
    attempt = turn.nudges.get("plan", 0) + 1
    if attempt > turn.options.plan_nudges:
        return None
    turn.nudges["plan"] = attempt
    yield PlanContinued(turn.budget.rounds, attempt, len(answer.text))
    step = next((t for t in plan if t.status == "in_progress"), open_steps(plan)[0])
    return template.format(goal=goal_of(turn.history), plan=format_plan(plan), step=step.content)


def failing_check(turn: Turn) -> str | None:
    """Tell the model, once, that the last test or build command of this turn failed."""
    check = turn.checks.last
    if check is None or check.passed or turn.nudges.get("verify"):
        return None
    turn.nudges["verify"] = 1
    return (
        f"<reminder>\nThe last check you ran, {check}. If the work is not done, continue. If this is expected or "
        "cannot be fixed here, say so plainly in your answer.\n</reminder>"
    )


def verified(turn: Turn) -> str:
    """Describe which command verified the work, and how it ended; "" for none."""
    check = turn.checks.last
    if check is None:
        return ""
    return f"{check}{', but files were changed after it' if turn.checks.changed_since else ''}"

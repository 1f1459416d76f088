"""The plan: its open steps, its text form, and the reminder of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_cli.core.messages import Message, is_user_message, user_text
from agent_tools.display import TodoItem

_MARKS = {"pending": " ", "in_progress": ">", "completed": "x", "cancelled": "-"}


def open_steps(plan: Sequence[TodoItem]) -> list[TodoItem]:
    return [t for t in plan if t.status in ("pending", "in_progress")]


def unfinished(plan: Sequence[TodoItem]) -> bool:
    """Return True for a plan of two or more steps with open ones."""
    return len(plan) >= 2 and bool(open_steps(plan))


def format_plan(plan: Sequence[TodoItem]) -> str:
    return "\n".join(f"[{_MARKS[t.status]}] {t.label}" for t in plan)


def goal_of(history: Iterable[Message]) -> str:
    """Return the start of the user's latest request."""
    said = [m.text for m in history if is_user_message(m)]
    return user_text(said[-1])[:500] if said else ""


def is_question(text: str) -> bool:
    """Return True if the answer ends with a question."""
    return text.rstrip().rstrip("*_)\"'`").endswith("?")


def reminder(plan: Sequence[TodoItem], goal: str, template: str) -> str:
    """Return the reminder to append to the last result of a round; "" without a request."""
    return "\n\n" + template.format(goal=goal, plan=format_plan(plan)) if goal else ""

"""/todos and /plan: show and change the plan."""

from __future__ import annotations

import re
from typing import Literal

from agent_cli.terminal.slash import SlashContext, slash
from agent_tools.display import TodoItem
from agent_tools.text import number_in

Status = Literal["pending", "in_progress", "completed", "cancelled"]


CHANGES = ("add ", "drop ", "done ", "first ", "edit")
_MARKS: dict[str, Status] = {" ": "pending", ">": "in_progress", "x": "completed", "-": "cancelled"}


@slash("todos", "the plan; change it: add TEXT, drop N, done N, first N, edit", "[CHANGE]", aside=True,
       values=lambda ctx: CHANGES)  # fmt: skip
def _todos(ctx: SlashContext, words: str) -> None:
    conversation = ctx.agent.conversation
    if words == "edit":
        shown = conversation.deps.context.plan
        text = ctx.edit(as_text(shown))
        # Steps that the model completed meanwhile stay completed: only the user's edits count.
        if text is not None and (items := plan_from_text(text, shown)) != shown:
            if conversation.deps.context.plan == shown:
                conversation.change_plan(items)
            else:
                ctx.say("The plan has changed meanwhile; look at it and edit it again.")
    elif words:
        try:
            conversation.change_plan(changed_plan(conversation.deps.context.plan, words))
        except ValueError as error:
            ctx.say(str(error))
    ctx.show_plan()


@slash("plan", "the plan and plan mode, in which nothing may be changed; enter or leave it", "[on | off]",
       values=lambda ctx: ("on", "off"))  # fmt: skip
def _plan(ctx: SlashContext, words: str) -> None:
    conversation = ctx.agent.conversation
    is_on = conversation.deps.policy.mode == "plan"
    if words not in ("", "on", "off"):
        ctx.say("Say /plan on, /plan off, or /plan.")
        return
    if words == "on" and not is_on:
        ctx.switch_mode("plan")
    elif words == "off" and is_on:
        mode = ctx.agent.settings.permissions.mode
        ctx.switch_mode(mode if mode != "plan" else "default")
        if conversation.history:
            conversation.inbox.append("<plan_mode>\nThe user ended plan mode: changes may be made.\n</plan_mode>")
    mode = conversation.deps.policy.mode
    ctx.say("plan mode is on: nothing may be changed" if mode == "plan" else f"plan mode is off; mode: {mode}")
    ctx.show_plan()


def as_text(plan: tuple[TodoItem, ...]) -> str:
    """Return the plan as editable lines: `[ ] step`, with > in progress, x completed, - cancelled."""
    marks = {status: mark for mark, status in _MARKS.items()}
    return "".join(f"[{marks[item.status]}] {item.content}\n" for item in plan)


def plan_from_text(text: str, plan: tuple[TodoItem, ...]) -> tuple[TodoItem, ...]:
    """Parse edited plan lines; a line without a mark is a pending step. plan: the steps known so far."""
    known = {item.content: item for item in plan}
    items = []
    for line in text.splitlines():
        found = re.fullmatch(r"\s*(?:[-*]\s+)?(?:\[([ >x-])\])?\s*(\S.*?)\s*", line)
        if found is not None:
            items.append(known.get(found[2], TodoItem(found[2])).replace(status=_MARKS[found[1] or " "]))
    return tuple(items)


def changed_plan(plan: tuple[TodoItem, ...], words: str) -> tuple[TodoItem, ...]:
    """Apply `add TEXT`, `drop N`, `done N` or `first N` (N from 1) to the plan. Raises ValueError with a message."""
    verb, _, rest = words.partition(" ")
    rest = rest.strip()
    if verb == "add" and rest:
        return (*plan, TodoItem(rest))
    if verb not in ("drop", "done", "first"):
        raise ValueError("Say: add TEXT, drop N, done N, or first N.")
    if not 1 <= number_in(rest) <= len(plan):
        raise ValueError(f"There is no step {rest or '(none named)'}; the plan has {len(plan)}.")
    index = number_in(rest) - 1
    others = plan[:index] + plan[index + 1 :]
    if verb == "drop":
        return others
    if verb == "first":
        return (plan[index], *others)
    return (*plan[:index], plan[index].replace(status="completed"), *plan[index + 1 :])

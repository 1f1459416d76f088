"""The plan, seen and changed by the person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_cli.terminal.slash import slash
from agent_tools.display import TodoItem

if TYPE_CHECKING:
    from agent_cli.terminal.repl import Repl


@slash("todos", "the plan; change it: add TEXT, drop N, done N, first N", "[CHANGE]", aside=True)
def _todos(repl: Repl, words: str) -> None:
    conversation = repl.agent.conversation
    if words:
        try:
            conversation.change_plan(changed_plan(conversation.kit.context.plan, words))
        except ValueError as error:
            repl.say(str(error))
    repl.show_plan()


def changed_plan(plan: tuple[TodoItem, ...], words: str) -> tuple[TodoItem, ...]:
    """The plan after `add TEXT`, `drop N`, `done N` or `first N` (N from 1). Raises ValueError with a sentence."""
    verb, _, rest = words.partition(" ")
    rest = rest.strip()
    if verb == "add" and rest:
        return (*plan, TodoItem(rest))
    if verb not in ("drop", "done", "first"):
        raise ValueError("Say: add TEXT, drop N, done N, or first N.")
    if not rest.isdigit() or not 1 <= int(rest) <= len(plan):
        raise ValueError(f"There is no step {rest or '(none named)'}; the plan has {len(plan)}.")
    index = int(rest) - 1
    others = plan[:index] + plan[index + 1 :]
    if verb == "drop":
        return others
    if verb == "first":
        return (plan[index], *others)
    return (*plan[:index], plan[index].but(status="completed"), *plan[index + 1 :])

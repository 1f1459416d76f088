"""The Task tool: delegate work to a sub-agent. The tool declares the arguments; the engine runs the nested turn."""

from __future__ import annotations

from typing import Annotated, ClassVar

from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.record import Value
from agent_tools.text import one_line, shorten

# The built-in types, with the names that models, rules and hooks of other programs use.
COMMON_NAMES = {"general": "general-purpose", "explore": "Explore", "plan": "Plan"}
_TYPE_BY_NAME = {alias.casefold(): name for name, alias in COMMON_NAMES.items()} | {name: name for name in COMMON_NAMES}
TYPE_LIST_BYTES = 4_000
_LINE_WIDTH = 400


def common_type(name: str) -> str:
    """Map the name of a built-in type in other programs to ours; return any other name unchanged."""
    return _TYPE_BY_NAME.get(name.casefold(), name)


class TaskArgs(Value):
    """A task for a sub-agent."""

    ALIASES: ClassVar = {"subagent_type": ("agent", "agent_type"), "background": ("run_in_background",)}

    subagent_type: Annotated[str, "explore (read-only search), plan, general, review"]
    description: Annotated[str, "In a few words"]
    prompt: Annotated[str, "All it needs to know, and what to report"]
    background: Annotated[bool, "Do not wait"] = False


class Task(Tool[TaskArgs]):
    """Runs a sub-agent. Each of its calls is checked by itself, so the Task call itself has no effect."""

    name = "Task"
    result_size = "page"
    Args = TaskArgs
    nested = True
    other_names = ("Agent",)
    of_conversation = True
    composed = True
    rule_names = "target"

    def dynamic_description(self, ctx: ToolContext) -> str:
        """Return the user's own types of sub-agents, as many as fit."""
        lines: list[str] = []
        remaining = TYPE_LIST_BYTES
        for name, kind in ctx.extensions.agents.items():
            line = shorten(one_line(f"{name} - {kind.description}"), _LINE_WIDTH)
            remaining -= len(line.encode("utf-8", "replace")) + 1
            lines.append(line if remaining > 0 else one_line(name))
        return "Further types, for subagent_type:\n" + "\n".join(lines) if lines else ""

    def effects(self, args: TaskArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state", common_type(args.subagent_type)),)

    def summary(self, args: TaskArgs, ctx: ToolContext) -> str:
        where = " in the background" if args.background else ""
        return f"Sub-agent {args.subagent_type}{where}: {' '.join(args.description.split())}"

    def run(self, args: TaskArgs, ctx: ToolContext) -> ToolResult:
        raise ToolError("Sub-agents run only inside a turn.")


# Tools by the names that hooks of other programs know today; matchers know both.
COMMON_TOOL_NAMES = {Task.name: Task.other_names[0]}

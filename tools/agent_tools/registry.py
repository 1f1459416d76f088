"""The built-in tools, in the order in which they are sent to the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_tools.ask_user import AskUserQuestion
from agent_tools.base import Tool
from agent_tools.documents.notebook import NotebookRead
from agent_tools.documents.notebook_edit import NotebookEdit
from agent_tools.edit.apply_patch import ApplyPatch
from agent_tools.edit.edit import Edit
from agent_tools.edit.multi_edit import MultiEdit
from agent_tools.plan import ExitPlanMode, PlanProgress, TodoRead, TodoWrite
from agent_tools.read import Read
from agent_tools.saved_prompts import SlashCommand, UseSkill
from agent_tools.search.glob import Glob
from agent_tools.search.grep import Grep
from agent_tools.search.ls import LS
from agent_tools.shell.bash import Bash
from agent_tools.shell.job_tools import BashInput, BashOutput, KillShell
from agent_tools.task import Task
from agent_tools.web.fetch import WebFetch
from agent_tools.web.search import WebSearch
from agent_tools.write import Write

BUILTIN: tuple[Tool[Any], ...] = (
    Read(),
    Write(),
    Edit(),
    MultiEdit(),
    Glob(),
    Grep(),
    LS(),
    Bash(),
    BashOutput(),
    KillShell(),
    NotebookRead(),
    NotebookEdit(),
    WebFetch(),
    WebSearch(),
    TodoWrite(),
    TodoRead(),
    PlanProgress(),
    AskUserQuestion(),
    Task(),
    ExitPlanMode(),
    SlashCommand(),
    UseSkill(),
    ApplyPatch(),
    BashInput(),
)

# Looks up the traits of a tool by name, for readers of recorded calls; see `tool_class`.
ClassOf = Callable[[str], type[Tool[Any]]]
_BY_NAME: dict[str, Tool[Any]] = {name: tool for tool in BUILTIN for name in (tool.name, *tool.other_names)}
# Commands that the program runs for the user or a saved prompt are shown and checked as calls of this tool.
SHELL: Tool[Any] = next(tool for tool in BUILTIN if tool.command_argument)


def find_tool(name: str) -> Tool[Any] | None:
    """Return the built-in tool with this name or alias, or None."""
    return _BY_NAME.get(name)


def tool_name(name: str) -> str:
    """Return the canonical name of a built-in tool; any other name is returned unchanged."""
    tool = _BY_NAME.get(name)
    return tool.name if tool is not None else name


def tool_class(name: str) -> type[Tool[Any]]:
    """Return the class of a built-in tool, for its traits; `Tool`, which has the defaults, for any other name."""
    tool = _BY_NAME.get(name)
    return type(tool) if tool is not None else Tool

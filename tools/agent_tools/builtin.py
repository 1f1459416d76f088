"""The built-in tools, in the order in which the model is told about them."""

from __future__ import annotations

from typing import Any

from agent_tools.ask_user import AskUserQuestion
from agent_tools.base import Tool
from agent_tools.edit import Edit
from agent_tools.glob import Glob
from agent_tools.grep import Grep
from agent_tools.job_tools import BashOutput, KillShell
from agent_tools.list import LS
from agent_tools.multi_edit import MultiEdit
from agent_tools.notebook_edit import NotebookEdit
from agent_tools.notebook_read import NotebookRead
from agent_tools.plan import ExitPlanMode, PlanProgress
from agent_tools.read import Read
from agent_tools.shell import Bash
from agent_tools.skill import UseSkill
from agent_tools.slash_command import SlashCommand
from agent_tools.task import Task
from agent_tools.todo import TodoRead, TodoWrite
from agent_tools.web_fetch import WebFetch
from agent_tools.web_search import WebSearch
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
)

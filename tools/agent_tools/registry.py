"""The built-in tools, in the order in which they are sent to the model.

A row names the module and the class of a tool. What the program asks of a tool before a call, its name, traits and
schema, is generated into tools.json (`make schemas`), so that a module is imported when a call needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from agent_tools.base import Tool, ToolContext
from agent_tools.lazy import lazy_imports
from agent_tools.schema import Freeform, generated_tools

with lazy_imports():
    from agent_tools.diagnostics import programs  # few machines have a language server

ROWS = (
    "read:Read",
    "write:Write",
    "edit.edit:Edit",
    "edit.edit:MultiEdit",
    "search.glob:Glob",
    "search.grep:Grep",
    "search.ls:LS",
    "shell.bash:Bash",
    "shell.job_tools:BashOutput",
    "shell.job_tools:KillShell",
    "documents.notebook:NotebookRead",
    "documents.notebook_edit:NotebookEdit",
    "web.fetch:WebFetch",
    "web.search:WebSearch",
    "plan:TodoWrite",
    "plan:TodoRead",
    "plan:PlanProgress",
    "ask_user:AskUserQuestion",
    "task:Task",
    "plan:ExitPlanMode",
    "saved_prompts:SlashCommand",
    "saved_prompts:UseSkill",
    "edit.apply_patch:ApplyPatch",
    "shell.job_tools:BashInput",
    "symbols.tools:Symbols",
    "symbols.tools:Definition",
    "symbols.tools:References",
    "symbols.rename:RenameSymbol",
    "apply_changes:ApplyChanges",
)
TRAITS = frozenset(Tool.__annotations__) - {"Args"}
# Methods that need no class where it does not override them.
ASKED_BEFORE_CALLS = ("available", "dynamic_description")


class _UnloadedTool(Tool[Any]):
    """A built-in tool whose module is not imported yet.

    It becomes the tool itself, for everyone who holds it, when more than its traits is asked for.
    """

    # Abstract in Tool, and never used: the class is loaded for them.
    effects = run = summary = None  # type: ignore[assignment]

    def __init__(self, row: str, generated: Mapping[str, Any]) -> None:
        traits: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in generated.get("traits", {}).items()
        }
        if "freeform" in traits:
            # Not by `from_json`, which would resolve the annotations of the class at every start.
            traits["freeform"] = Freeform(**{k: v for k, v in traits["freeform"].items() if k != "type"})
        vars(self).update(traits, _row=row, _generated=generated)

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = self._generated["schema"]
        return schema

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        _load(self)
        return getattr(self, name)


class _Loading:
    """A name of `Tool` that an unloaded tool takes from its class, which this loads."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, tool: _UnloadedTool, owner: type[Tool[Any]]) -> Any:
        if self._name in ASKED_BEFORE_CALLS and self._name not in tool._generated["overrides"]:
            return getattr(super(_UnloadedTool, tool), self._name)
        _load(tool)
        return getattr(tool, self._name)


for _name in {*vars(Tool)} - TRAITS - {"schema"}:
    if not _name.startswith("_"):
        setattr(_UnloadedTool, _name, _Loading(_name))


def load_class(row: str) -> type[Tool[Any]]:
    """Import the class that a row names, as "edit.edit:Edit"."""
    module, _, name = row.partition(":")
    found: type[Tool[Any]] = getattr(import_module(f"agent_tools.{module}"), name)
    return found


def _load(tool: _UnloadedTool) -> None:
    # Only the class changes: another thread may be reading a trait.
    tool.__class__ = load_class(tool._row)  # type: ignore[assignment]


def _builtin_tools() -> tuple[Tool[Any], ...]:
    generated = {entry["class"]: entry for entry in generated_tools().values()}
    # A row that is not generated yet costs its import.
    return tuple(_UnloadedTool(row, generated[row]) if row in generated else load_class(row)() for row in ROWS)


BUILTIN: tuple[Tool[Any], ...] = _builtin_tools()

# Looks up the traits of a tool by name, for readers of recorded calls; see `tool_traits`.
TraitsOf = Callable[[str], Tool[Any]]
_BY_NAME: dict[str, Tool[Any]] = {name: tool for tool in BUILTIN for name in (tool.name, *tool.other_names)}
_DEFAULTS: Tool[Any] = _UnloadedTool("", {"traits": {"name": ""}})
# Commands that the program runs for the user or a saved prompt are shown and checked as calls of this tool.
SHELL: Tool[Any] = next(tool for tool in BUILTIN if tool.command_argument)


def is_available(tool: Tool[Any], ctx: ToolContext) -> bool:
    """Return True if a tool can work here, and a program that it needs may run without a question."""
    return tool.available(ctx) and (not tool.servers or programs.has_server(tool.servers, ctx))


def find_tool(name: str) -> Tool[Any] | None:
    """Return the built-in tool with this name or alias, or None."""
    return _BY_NAME.get(name)


def tool_name(name: str) -> str:
    """Return the canonical name of a built-in tool; any other name is returned unchanged."""
    tool = _BY_NAME.get(name)
    return tool.name if tool is not None else name


def tool_traits(name: str) -> Tool[Any]:
    """Return the built-in tool with this name or alias, to read its traits; one with the defaults for any other."""
    return _BY_NAME.get(name, _DEFAULTS)

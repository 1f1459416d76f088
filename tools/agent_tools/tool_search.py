"""ToolSearch and UseTool: find and call tools that are not in the requests.

The tools in the requests stay the same, so that provider caches stay valid. Permissions are decided for the tool that
UseTool names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

from agent_tools.base import Effect, Outcome, Tool, ToolContext, ToolError, ToolResult
from agent_tools.record import Protocol, Value
from agent_tools.results import Note
from agent_tools.text import one_line, shorten

_DEFAULT_RESULTS = 5
_MAX_NAMES_CHARS = 6_000
_MAX_LINE_CHARS = 1_500
_MAX_SKILL_CHARS = 400
_MAX_REASON_CHARS = 200


class FoundTool(Value):
    """A tool that can be found. name: its own, without that of its server."""

    tool: Tool[Any]
    name: str
    description: str


class ToolSource(Protocol):
    """Where tools are found: among our own, or those of servers."""

    def found(self) -> Mapping[str, FoundTool]:
        """Return the tools by the name with which they are called."""

    def listed(self) -> Iterable[str]:
        """Return a line for each group of tools: its name, and theirs."""

    def missing(self) -> Mapping[str, str]:
        """Return the groups whose tools cannot be called: the name, and why; "" for one that is still starting."""


class OwnTools(Value):
    """Tools of the program that models rarely need. describe: returns the description of one."""

    tools: tuple[Tool[Any], ...]
    describe: Callable[[Tool[Any]], str]

    def found(self) -> dict[str, FoundTool]:
        return {tool.name: FoundTool(tool, tool.name, self.describe(tool)) for tool in self.tools}

    def listed(self) -> list[str]:
        return [f"agent: {', '.join(tool.name for tool in self.tools)}"] if self.tools else []

    def missing(self) -> dict[str, str]:
        return {}


class ToolSearchArgs(Value):
    """The arguments of ToolSearch."""

    query: Annotated[str, "Words of the task, or select: and names of tools with commas between"]
    max_results: Annotated[int, "How many tools to show"] = _DEFAULT_RESULTS


class ToolSearch(Tool[ToolSearchArgs]):
    """Finds tools by words and shows how to call them."""

    name = "ToolSearch"
    reaches_servers = True
    Args = ToolSearchArgs

    def __init__(self, *sources: ToolSource) -> None:
        self._sources = sources

    def schema(self) -> dict[str, Any]:
        return SEARCH_SCHEMA

    def dynamic_description(self, ctx: ToolContext) -> str:
        """Return the names of the tools that can be found, up to a limit."""
        lines = []
        room = _MAX_NAMES_CHARS
        for line in (line for source in self._sources for line in source.listed()):
            lines.append(shorten(line, max(80, min(room, _MAX_LINE_CHARS))))
            room -= len(lines[-1])
        return "\n".join(lines)

    def effects(self, args: ToolSearchArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("state"),)

    def summary(self, args: ToolSearchArgs, ctx: ToolContext) -> str:
        return f"Find tools: {shorten(args.query, 80)}"

    def run(self, args: ToolSearchArgs, ctx: ToolContext) -> Outcome:
        found = _matching(find_all(self._sources), args.query, max(1, min(args.max_results, 20)))
        late = f"\n{late}" if (late := _about_missing(_missing(self._sources))) else ""
        skills = {name: FoundTool(self, name, skill.description) for name, skill in ctx.extensions.skills.items()}
        if skills := _matching(skills, args.query, _DEFAULT_RESULTS):
            lines = "\n".join(
                shorten(one_line(f"{n}: {each.description}"), _MAX_SKILL_CHARS) for n, each in skills.items()
            )
            late = f"\n\nSkills with these names:\n{lines}{late}"
        if not found and skills:
            return ToolResult(late.strip(), Note(", ".join(skills)))
        if not found:
            known = "; ".join(line for source in self._sources for line in source.listed())
            return ToolResult(f"No tool matches. There are: {shorten(known, 600)}{late}", Note("nothing found"))
        blocks = [
            f"{name}\n{each.description}\narguments: {json.dumps(each.tool.schema(), ensure_ascii=False)}"
            for name, each in found.items()
        ]
        return ToolResult("\n\n".join(blocks) + f"\n\nCall one with UseTool.{late}", Note(", ".join(found)))


def find_all(sources: Iterable[ToolSource]) -> dict[str, FoundTool]:
    """Return all tools by name."""
    return {name: each for source in sources for name, each in source.found().items()}


def _missing(sources: Iterable[ToolSource]) -> dict[str, str]:
    return {name: why for source in sources for name, why in source.missing().items()}


def _about_missing(groups: Mapping[str, str], later: str = "") -> str:
    """Return sentences about servers whose tools cannot be called, and why; "" for none.

    later: what to do about those that are still starting.
    """
    starting = ", ".join(name for name, why in groups.items() if not why)
    failed = ", ".join(f"{name} ({shorten(one_line(why), _MAX_REASON_CHARS)})" for name, why in groups.items() if why)
    late = f"Still starting: {starting}.{later}" if starting else ""
    return " ".join(filter(None, (late, f"Not available: {failed}." if failed else "")))


def _matching(tools: Mapping[str, FoundTool], query: str, limit: int) -> dict[str, FoundTool]:
    if query.startswith("select:"):
        wanted = [name.strip() for name in query.removeprefix("select:").split(",")]
        names = [name for name, each in tools.items() if name in wanted or each.name in wanted]
    else:
        words = set(_words(query))

        def score(name: str) -> int:
            parts, described = set(_words(name)), set(_words(tools[name].description))
            near = sum(any(w in n or n in w for n in parts) for w in words if len(w) > 2)
            return 6 * len(words & parts) + 2 * near + len(words & described)

        ranked = sorted(((score(name), name) for name in tools), key=lambda pair: (-pair[0], pair[1]))
        names = [name for points, name in ranked if points]
    return {name: tools[name] for name in names[:limit]}


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower())


class UseToolArgs(Value):
    """The arguments of UseTool."""

    tool: Annotated[str, "The name of the tool, as ToolSearch shows it"]
    arguments: Annotated[dict[str, Any], "Its arguments"] = {}  # noqa: RUF012 - never changed


class UseTool(Tool[UseToolArgs]):
    """Calls a tool by name."""

    name = "UseTool"
    reaches_servers = True
    Args = UseToolArgs

    def __init__(self, *sources: ToolSource) -> None:
        self._sources = sources

    def schema(self) -> dict[str, Any]:
        return USE_SCHEMA

    def resolve_target(self, args: UseToolArgs, ctx: ToolContext) -> tuple[Tool[Any], Any]:
        tools = find_all(self._sources)
        if args.tool not in tools:
            import difflib

            near = difflib.get_close_matches(args.tool, tools, 3, 0.5)
            groups = _missing(self._sources)
            ended = any(why and f"__{name}__" in args.tool for name, why in groups.items())
            hint = f" Did you mean {', '.join(near)}?" if near else "" if ended else " Find it with ToolSearch."
            late = f" {late}" if (late := _about_missing(groups, " Call it again later.")) else ""
            raise ToolError(f"Unknown tool {args.tool!r}.{hint}{late}")
        tool = tools[args.tool].tool
        return tool.resolve_target(tool.read(args.arguments), ctx)

    def wrap_call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        # An unknown name gets an error that says how to find tools.
        known = name.startswith("mcp__") or name in find_all(self._sources)
        return {"tool": name, "arguments": arguments} if known else None

    def effects(self, args: UseToolArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("call", args.tool),)

    def summary(self, args: UseToolArgs, ctx: ToolContext) -> str:
        return f"Use {shorten(args.tool, 80)}"

    def run(self, args: UseToolArgs, ctx: ToolContext) -> Outcome:
        tool, inner = self.resolve_target(args, ctx)
        return tool.run(inner, ctx)


# As pydantic would generate them; written by hand, since these tools are not part of the generated schemas.
SEARCH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Words of the task, or select: and names with commas between"},
    },
    "required": ["query"],
}
USE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tool": {"type": "string", "description": "The name of the tool, as ToolSearch shows it"},
        "arguments": {"type": "object", "description": "Its arguments", "additionalProperties": True},
    },
    "required": ["tool"],
}

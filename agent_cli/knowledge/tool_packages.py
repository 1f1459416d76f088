"""Load tools of installed packages by entry points: only those that a setting names.

This is a separate module because it reads the metadata of all installed packages, which takes time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from agent_cli.kernel.run_environment import UsageError
from agent_tools.base import Tool
from agent_tools.registry import BUILTIN

GROUP = "agent_cli.tools"


def installed_tools() -> dict[str, list[EntryPoint]]:
    """Return the available entry points by name, without loading them."""
    found: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda p: (p.name, p.value)):
        if all(point.value != other.value for other in found.get(point.name, [])):
            found.setdefault(point.name, []).append(point)
    return found


def load_tools(names: Iterable[str]) -> list[Tool[Any]]:
    """Load the tools of these entry points, in order. Raises UsageError for a missing, broken or conflicting one."""
    available = installed_tools()
    tools: list[Tool[Any]] = []
    taken = {tool.name: "a built-in tool" for tool in BUILTIN}
    for name in dict.fromkeys(names):
        points = available.get(name, [])
        if not points:
            raise UsageError(
                f"tool_packages: no installed package offers {name!r}. Available: {', '.join(available) or 'none'}."
            )
        if len(points) > 1:
            packages = " and ".join(point.dist.name if point.dist else point.value for point in points)
            raise UsageError(f"tool_packages: {name!r} is offered by {packages}; uninstall one.")
        for tool in _tools_of(points[0]):
            if tool.name in taken:
                raise UsageError(f"tool_packages: the tool {tool.name} of {name!r} has the name of {taken[tool.name]}.")
            taken[tool.name] = f"a tool of {name!r}"
            tools.append(tool)
    return tools


def _tools_of(point: EntryPoint) -> list[Tool[Any]]:
    """Return the tools of an entry point, which is a tool class, a tool, or several of these. Raises UsageError."""
    try:
        found = point.load()
        listed = list(found) if isinstance(found, (list, tuple)) else [found]
        tools = [item() if isinstance(item, type) else item for item in listed]
    except Exception as error:  # noqa: BLE001 - third-party code may raise anything; the user reads one sentence
        raise UsageError(f"tool_packages: {point.name!r} cannot be loaded: {type(error).__name__}: {error}") from None
    for tool in tools:
        if problem := tool_problem(tool):
            raise UsageError(f"tool_packages: {point.name!r} leads to {problem}.")
    return tools


def tool_problem(tool: object) -> str:
    """Describe why an object cannot be offered as a tool; "" if it can."""
    if not isinstance(tool, Tool):
        return f"{type(tool).__name__}, which is not an agent_tools.base.Tool"
    name = getattr(tool, "name", None)
    if not isinstance(name, str) or re.fullmatch(r"[A-Za-z][\w-]{0,63}", name) is None or name.startswith("mcp__"):
        return f"a tool whose name cannot be one: {name!r}"
    return "" if hasattr(tool, "Args") else f"the tool {name} without Args, the class of its arguments"

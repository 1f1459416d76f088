"""What the machine, the workspace or the session must have for a tool to be offered: one check for each need."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Literal

from agent_tools.context import ToolContext
from agent_tools.lazy import lazy_imports
from agent_tools.results import ToolError

with lazy_imports():
    from agent_tools.web import providers

Need = Literal["bash", "commands", "notebooks", "search engine", "skills"]
# Folders of generated files.
_SKIPPED = frozenset(("node_modules", "__pycache__", "site-packages", "venv", "target", "dist", "build"))
# How many names are checked for a notebook at every start, which must take a millisecond at most.
_MAX_ENTRIES = 500
_MAX_DEPTH = 2


def is_met(need: Need, ctx: ToolContext) -> bool:
    """Return True if the need of a tool is met in this session."""
    match need:
        case "bash":
            return find_bash(ctx) is not None
        case "commands":
            return bool(ctx.extensions.commands)
        case "notebooks":
            return has_notebooks(ctx)
        case "search engine":
            return _has_search_engine(ctx)
        case "skills":
            return bool(ctx.extensions.skills)


def find_bash(ctx: ToolContext) -> str | None:
    """Return the first bash on the initial PATH of commands, else the system's, else None."""
    return _bash_on(ctx.env.get("PATH", ""))


@lru_cache(maxsize=8)
def _bash_on(path: str) -> str | None:
    folders = [p for p in path.split(os.pathsep) if p.startswith("/")]
    return next((b for p in [*folders, "/bin", "/usr/bin"] if os.access(b := f"{p}/bash", os.X_OK)), None)


def has_notebooks(ctx: ToolContext) -> bool:
    """Return True if there is a notebook in the root or two levels below, among the first names found there."""
    level, left = [str(ctx.workspace.root)], _MAX_ENTRIES
    for depth in range(_MAX_DEPTH + 1):
        below: list[str] = []
        for directory in level:
            try:
                with os.scandir(directory) as entries:
                    for entry in entries:
                        name = entry.name
                        if name.endswith(".ipynb"):
                            return True
                        left -= 1
                        if left <= 0:
                            return False
                        if (
                            depth < _MAX_DEPTH
                            and name[0] != "."
                            and name not in _SKIPPED
                            and entry.is_dir(follow_symlinks=False)
                        ):
                            below.append(entry.path)
            except OSError:
                continue
        level = sorted(below)
    return False


def _has_search_engine(ctx: ToolContext) -> bool:
    """Return True unless the settings name a provider without its key or address; DuckDuckGo needs neither."""
    web = ctx.settings.get("web") or {}
    if not web.get("search") and not web.get("search_url"):
        return True
    try:
        providers.search_provider(ctx)
    except ToolError:
        return False
    return True

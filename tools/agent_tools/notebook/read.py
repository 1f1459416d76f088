"""The NotebookRead tool: show the cells of a notebook, or one of them."""

from __future__ import annotations

import os
from typing import Annotated, ClassVar

from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.fs.encoding import decode_text, fingerprint
from agent_tools.fs.paths import display_path, not_found_error
from agent_tools.notebook.notebook import parse_notebook, show_notebook
from agent_tools.record import Value
from agent_tools.schema import FILE_NAMES
from agent_tools.text import shorten

# Directories of generated files.
_PASSED = frozenset(("node_modules", "__pycache__", "site-packages", "venv", "target", "dist", "build"))
# How many names are checked for a notebook at every start, which must take a millisecond at most.
_LOOKED_AT = 500
_DEEP = 2
_LINES = 10_000


class NotebookReadArgs(Value):
    """The arguments of NotebookRead."""

    ALIASES: ClassVar = {"notebook_path": ("file_path", *FILE_NAMES)}

    notebook_path: Annotated[str, "Absolute path, or relative to the working directory"]
    cell_id: Annotated[str | None, "Only this cell"] = None


class NotebookRead(Tool[NotebookReadArgs]):
    """Reads a Jupyter notebook as cells."""

    name = "NotebookRead"
    Args = NotebookReadArgs
    paths = ("notebook_path",)
    file_argument = "notebook_path"
    shows_file = True
    rule_names = "path"
    parallel_safe = True

    def available(self, ctx: ToolContext) -> bool:
        return has_notebooks(ctx)

    def effects(self, args: NotebookReadArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("read", str(ctx.workspace.resolve(args.notebook_path))),)

    def summary(self, args: NotebookReadArgs, ctx: ToolContext) -> str:
        return f"Read {display_path(args.notebook_path, ctx)}{cell_words(args.cell_id)}"

    def run(self, args: NotebookReadArgs, ctx: ToolContext) -> ToolResult:
        path = ctx.workspace.resolve(args.notebook_path)
        data = ctx.workspace.read_if_there(path)
        if data is None:
            raise not_found_error(path, ctx)
        name = ctx.workspace.spell(path)
        text = decode_text(data)
        if text is None:
            raise ToolError(f"{name} is not a notebook but a binary file. Use Read.")
        notebook = parse_notebook(text.content, name)
        only = None if args.cell_id is None else notebook.find(args.cell_id)
        result = show_notebook(notebook, name, ctx.workspace.show(path), ctx, 1, _LINES, only)
        ctx.seen[str(path)] = fingerprint(data)
        return result


def cell_words(cell_id: str | None) -> str:
    """Format the cell of a call for its summary."""
    return f", cell {shorten(cell_id, 40)}" if cell_id else ""


def has_notebooks(ctx: ToolContext) -> bool:
    """Return True if there is a notebook in the root or two levels below, among the first names found there."""
    level, left = [str(ctx.workspace.root)], _LOOKED_AT
    for depth in range(_DEEP + 1):
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
                            depth < _DEEP
                            and name[0] != "."
                            and name not in _PASSED
                            and entry.is_dir(follow_symlinks=False)
                        ):
                            below.append(entry.path)
            except OSError:
                continue
        level = sorted(below)
    return False

"""Glob: files by name pattern, newest first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.clipping import shorten
from agent_tools.display import Listing
from agent_tools.globs import asks_for_hidden, compile_glob, split_base
from agent_tools.ripgrep import WITHOUT, find_rg, run_rg, walk
from agent_tools.values import Value

MOST = 100


class GlobArgs(Value):
    """The arguments of Glob."""

    pattern: Annotated[str, "E.g. **/*.py or src/**/*.{ts,tsx}"]
    path: Annotated[str | None, "Directory to search (default: working directory)"] = None


class Glob(Tool[GlobArgs]):
    """Finds files by name; ignored files are left out, and hidden ones unless the pattern names them."""

    name = "Glob"
    Args = GlobArgs

    def effects(self, args: GlobArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("read", str(_start(args, ctx)[0])),)

    def summary(self, args: GlobArgs, ctx: ToolContext) -> str:
        where = f" in {shorten(args.path, 60)}" if args.path else ""
        return f"Find {shorten(args.pattern, 60)}{where}"

    def run(self, args: GlobArgs, ctx: ToolContext) -> ToolResult:
        top, pattern, anywhere = _start(args, ctx)
        if not top.is_dir():
            raise ToolError(f"{ctx.workspace.spell(top)} is not a directory. Use LS or Glob to find the right one.")
        fits = compile_glob(pattern, anywhere).match
        names, note = list_files(top, asks_for_hidden(pattern), ctx)
        found = sorted((_age(top, name), name) for name in names if fits(name))
        paths = [ctx.workspace.spell(top / name) for _, name in found[:MOST]]
        view = Listing(
            args.pattern, tuple(ctx.workspace.show(top / n) for _, n in found[:MOST]), len(found) - len(paths)
        )
        if not found:
            hint = (
                "Ignored and hidden files are left out; ** means any depth."
                if "**" in pattern
                else "** means any depth."
            )
            text = f"No file fits {args.pattern!r} in {ctx.workspace.spell(top)}. {hint}"
        else:
            text = "\n".join(paths)
            if view.more:
                text += f"\n[{view.more:,} more, older; narrow the pattern or the path to see them]"
        return ToolResult(f"{text}\n{note}" if note else text, view)


def list_files(top: Path, hidden: bool, ctx: ToolContext) -> tuple[list[str], str]:
    """Relative paths of the files below `top` that are not ignored, in no order; a note if ripgrep is missing."""
    rg = find_rg(ctx)
    if rg is None:
        return list(walk(top, hidden, ctx)), WITHOUT
    options = ["--hidden", "--glob=!.git"] if hidden else []
    ran = run_rg(rg, ["--files", "--null", "--no-require-git", *options], top, ctx)
    if ran.code > 1 and not ran.out:
        raise ToolError(f"The search failed: {ran.errors.strip()[:500]}")
    names = os.fsdecode(ran.out).split("\0")
    return names[:-1], "[too many files to look at all of them; give a path]" if ran.cut else ""


def _start(args: GlobArgs, ctx: ToolContext) -> tuple[Path, str, bool]:
    """Where the search begins, links followed; the pattern that is left; whether it fits at any depth."""
    if not args.pattern.strip():
        raise ToolError("The pattern is empty.")
    base, pattern = split_base(args.pattern)
    if ".." in pattern.split("/"):
        raise ToolError("'..' may only stand at the beginning of a pattern. Give the directory as path.")
    # An absolute base in the pattern wins over path, as it does when joining paths.
    start = "/".join(filter(None, (args.path, base))) if base[:1] not in ("/", "~") else base
    return ctx.workspace.resolve(start or "."), pattern, not base


def _age(top: Path, name: str) -> int:
    try:
        return -os.lstat(f"{top}/{name}").st_mtime_ns
    except OSError:
        return 0

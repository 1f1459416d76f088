"""The Glob tool: find files by name pattern, newest first."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Annotated, ClassVar

from agent_tools.base import Effect, Tool, ToolContext, ToolError, ToolResult
from agent_tools.fs.files import stat_below
from agent_tools.fs.paths import (
    as_names,
    as_text,
    compile_glob,
    matches_hidden,
    matching_names,
    require_directory,
    split_base,
)
from agent_tools.fs.workspace import ResolvedPath
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import Listing
from agent_tools.schema import DIRECTORY_NAMES
from agent_tools.text import shorten

with lazy_imports():
    from agent_tools.search import ripgrep

MAX_FILES = 100


class GlobArgs(Value):
    """The arguments of Glob."""

    ALIASES: ClassVar = {"pattern": ("glob_pattern", "query"), "path": DIRECTORY_NAMES}

    pattern: Annotated[str, "E.g. **/*.py or src/**/*.{ts,tsx}"]
    path: Annotated[str | None, "Directory to search (default: working directory)"] = None


class Glob(Tool[GlobArgs]):
    """Finds files by name; skips ignored files, and hidden ones unless the pattern names them."""

    name = "Glob"
    Args = GlobArgs
    repeatable = True
    rule_names = "path"
    explores = "search"
    parallel_safe = True

    def resolve_paths(self, args: GlobArgs, ctx: ToolContext) -> GlobArgs:
        return args.replace(path=ResolvedPath(args.path or "", _start(args, ctx)[0]))

    def effects(self, args: GlobArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("read", str(_start(args, ctx)[0])),)

    def summary(self, args: GlobArgs, ctx: ToolContext) -> str:
        where = f" in {shorten(args.path, 60)}" if args.path else ""
        return f"Find {shorten(args.pattern, 60)}{where}"

    def run(self, args: GlobArgs, ctx: ToolContext) -> ToolResult:
        top, pattern, anywhere = _start(args, ctx)
        require_directory(top, ctx)
        compile_glob(pattern, anywhere)  # raises before the search
        everything = pattern in ("**", "**/*") or (pattern == "*" and anywhere)
        with ripgrep.search_root(top) as directory:
            names, note = _list_candidates(top, directory, pattern, ctx)
            found = names if everything else matching_names(pattern, names, anywhere)
            newest = _newest(directory, found)
        paths = [ctx.workspace.spell(top / name) for name in newest]
        view = Listing(args.pattern, tuple(ctx.workspace.show(top / n) for n in newest), len(found) - len(paths))
        if not found:
            hint = "It skips ignored and hidden files; " if "**" in pattern else ""
            hint += "brackets and braces were also read as names; " if as_names(pattern) else ""
            hint = f"{hint}** means any depth."
            hint = hint[0].upper() + hint[1:]
            text = f"No file matches '{args.pattern}' in '{ctx.workspace.spell(top)}'. {hint}"
        else:
            text = "\n".join(paths)
            if view.more:
                text += f"\n[{view.more:,} older files not shown; narrow the pattern or the path to see them]"
        return ToolResult(f"{text}\n{note}" if note else text, view)


def _list_candidates(top: Path, directory: int, pattern: str, ctx: ToolContext) -> tuple[list[str], str]:
    """List relative paths of files below `top` that may match, newest first; also return a note, or ""."""
    hidden = matches_hidden(pattern)
    rg = ripgrep.find_rg(ctx)
    if rg is None:
        names = sorted(ripgrep.walk_files(top, hidden, ctx), key=lambda name: _age(directory, name) or 0)
        return names, ctx.once(ripgrep.RG_MISSING)
    options = ["--hidden", "--glob=!.git"] if hidden else []
    options += ["--null", "--no-require-git", "--sortr=modified", *last_name_options(pattern)]
    ran = ripgrep.run_rg(rg, ["--files", *options], directory, ctx)
    names = os.fsdecode(ran.out).split("\0")[:-1]
    if not hidden and (ran.out.startswith(b".") or b"\0." in ran.out or b"/." in ran.out):
        names = [name for name in names if "/." not in f"/{name}"]
    if ran.cut:
        return names, "[too many files to check all of them; give a path]"
    return (
        names,
        f"[some files could not be read: {ripgrep.clean_errors(ran.errors, directory)}]" if ran.code > 1 else "",
    )


def last_name_options(pattern: str) -> list[str]:
    """Return options that make ripgrep list only files whose own name matches the last part of a pattern.

    They define a file type: unlike --glob, that does not include files that .gitignore excludes. It does include
    hidden files. Returns [] for a last part that ripgrep might read differently from `compile_glob`.
    """
    folders, _, last = pattern.rpartition("/")
    plain = r"[\w.*+@=-]+"
    simple = re.fullmatch(rf"(?:{plain}|\{{{plain}(?:,{plain})+\}})+", last, re.ASCII)
    if simple is None or "**" in last or last == "*" or "{" in folders:
        return []
    forms = dict.fromkeys((last, as_text(last)))
    return [*(f"--type-add=wanted:{form}" for form in forms), "--type=wanted"]


def _newest(directory: int, names: list[str]) -> list[str]:
    """Return the first names, ordered by age and then by name, that still exist and have no link on their path.

    ripgrep may have followed a link that was put there while it ran.
    """
    aged: list[tuple[int, str]] = []
    for name in names:
        age = _age(directory, name)
        if age is None:
            continue
        if len(aged) >= MAX_FILES and age > aged[-1][0]:
            break
        aged.append((age, name))
    return [name for _, name in sorted(aged)[:MAX_FILES]]


def _start(args: GlobArgs, ctx: ToolContext) -> tuple[Path, str, bool]:
    """Return the resolved start directory, the remaining pattern, and whether it matches at any depth."""
    if not args.pattern.strip():
        raise ToolError("The pattern is empty.")
    base, pattern = split_base(args.pattern)
    if ".." in pattern.split("/"):
        raise ToolError("'..' is only allowed at the start of a pattern. Give the directory as path.")
    if isinstance(args.path, ResolvedPath):
        return args.path.path, pattern, not base
    # An absolute base in the pattern overrides path, as when joining paths.
    start = "/".join(filter(None, (args.path, base))) if base[:1] not in ("/", "~", "$", "%") else base
    return ctx.workspace.resolve(start or "."), pattern, not base


def _age(directory: int, name: str) -> int | None:
    """Return a sort key, smaller for newer files; None if it is no file."""
    try:
        state = stat_below(directory, name)
    except OSError:
        return None
    return -state.st_mtime_ns if stat.S_ISREG(state.st_mode) else None

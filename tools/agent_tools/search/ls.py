"""The LS tool: a directory as a tree, up to a readable size."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, ClassVar

from agent_tools.base import Effect, Tool, ToolContext, ToolResult
from agent_tools.fs.files import open_directory, resolved_path_error
from agent_tools.fs.paths import compile_glob, display_path, require_directory
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import Listing
from agent_tools.schema import DIRECTORY_NAMES
from agent_tools.text import one_line

with lazy_imports():
    from agent_tools.search import ripgrep

MAX_ENTRIES = 250
MAX_PER_DIRECTORY = 60
# Of a tree with more entries, each directory below the top shows only so many.
MAX_SMALL_TREE, MAX_PER_NESTED = 100, 10
MAX_DEPTH = 4


class LSArgs(Value):
    """The arguments of LS."""

    ALIASES: ClassVar = {"path": DIRECTORY_NAMES}

    path: Annotated[str, "The directory"]
    ignore: Annotated[tuple[str, ...], "Patterns to leave out, e.g. *.pyc"] = ()


class LS(Tool[LSArgs]):
    """Lists a directory recursively, hidden files included."""

    name = "LS"
    Args = LSArgs
    paths = ("path",)
    explores = "list"
    repeatable = True
    rule_names = "path"
    parallel_safe = True

    def effects(self, args: LSArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("read", str(ctx.workspace.resolve(args.path))),)

    def summary(self, args: LSArgs, ctx: ToolContext) -> str:
        return f"List {display_path(args.path, ctx)}"

    def run(self, args: LSArgs, ctx: ToolContext) -> ToolResult:
        top = ctx.workspace.resolve(args.path)
        require_directory(top, ctx)
        ignored = [compile_glob(pattern) for pattern in args.ignore]
        leaves_out = lambda path: any(i.match(path) for i in ignored)  # noqa: E731
        tree = _Tree(top, leaves_out, ctx, MAX_PER_DIRECTORY)
        if tree.count > MAX_SMALL_TREE:
            tree = _Tree(top, leaves_out, ctx, MAX_PER_NESTED)
        lines = tree.lines()
        text = "\n".join([f"{ctx.workspace.spell(top).rstrip('/')}/", *lines])
        if not lines:
            text += "\n(empty)"
        if tree.unopened:
            search = ctx.workspace.advice("Glob", "or {},")
            how = f"LS one of them,{search}" if search else "LS one of them"
            text += f"\n[{tree.unopened} directories not opened; {how} to see more]"
        return ToolResult(text, Listing(ctx.workspace.show(top), tuple(lines), tree.unopened))


class _Tree:
    """A tree built by opening the nearest directories first, so that the top is always complete."""

    def __init__(self, top: Path, ignored: Callable[[str], bool], ctx: ToolContext, nested: int) -> None:
        """nested: the entries that a directory below the top shows at most."""
        self._top = top
        self._ignored = ignored
        self._nested = nested
        self._opened: dict[str, tuple[list[tuple[str, str]], int]] = {}
        self.unopened = self.count = 0
        waiting = deque([("", 0)])
        while waiting:
            ctx.cancel.check()
            folder, depth = waiting.popleft()
            if folder and (
                self.count >= MAX_ENTRIES
                or depth > MAX_DEPTH
                or Path(folder).name in ripgrep.GENERATED_FOLDERS | {".git"}
            ):
                self.unopened += 1
                continue
            try:
                entries, more = self._scan(folder)
            except OSError as error:
                if not folder:
                    raise resolved_path_error(top, error) from None
                entries, more = [("(cannot be opened)", "")], 0
            self._opened[folder] = entries, more
            self.count += len(entries)
            waiting += [(f"{folder}/{name}".lstrip("/"), depth + 1) for name, sign in entries if sign == "/"]

    def _scan(self, folder: str) -> tuple[list[tuple[str, str]], int]:
        directory = open_directory(f"{self._top}/{folder}", readable=True)
        try:
            found = list(self._entries(directory, folder))
        finally:
            os.close(directory)
        found.sort(key=lambda f: (f[1] == "/", f[0]))
        most = self._nested if folder else MAX_PER_DIRECTORY
        return found[:most], max(0, len(found) - most)

    def _entries(self, directory: int, folder: str) -> Iterator[tuple[str, str]]:
        """Yield the entries of an open directory: name and suffix ("/", a link's target or "")."""
        with os.scandir(directory) as entries:
            for entry in entries:
                if self._ignored(f"{folder}/{entry.name}".lstrip("/")):
                    continue
                try:
                    if entry.is_symlink():
                        sign = f" -> {one_line(os.readlink(entry.name, dir_fd=directory))}"
                    else:
                        sign = "/" if entry.is_dir(follow_symlinks=False) else ""
                except OSError:  # removed since it was listed
                    continue
                yield entry.name, sign

    def lines(self, folder: str = "", indent: str = "  ") -> list[str]:
        """Format the tree below `place`: files first, then each directory with its entries."""
        entries, more = self._opened[folder]
        out = []
        for name, sign in entries:
            inner = f"{folder}/{name}".lstrip("/")
            closed = sign == "/" and inner not in self._opened
            out.append(f"{indent}{one_line(name)}{sign}{' ...' if closed else ''}")
            if sign == "/" and not closed:
                out += self.lines(inner, indent + "  ")
        return [*out, f"{indent}[{more:,} more entries]"] if more else out

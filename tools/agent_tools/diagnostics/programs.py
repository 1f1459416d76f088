"""Programs that check files: where they are, and whether they may run without a question.

Asked at every start, so it imports little.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from agent_tools.context import ToolContext
from agent_tools.record import Value
from agent_tools.sandbox.runner import SandboxRunner

# Where a project installs programs.
LOCAL_BIN_FOLDERS = (".venv/bin", "venv/bin", "node_modules/.bin")
# Names and levels of folders that are looked through for a file with a server.
_MAX_NAMES, _MAX_DEPTH = 1_000, 3
_SKIPPED_FOLDERS = frozenset(("node_modules", "__pycache__", "site-packages", "venv", "target", "dist", "build"))


class FoundProgram(Value):
    """A program that was found. local: it belongs to the project. names: the names that rules may use for it."""

    path: str
    names: tuple[str, ...]
    local: bool = False


def find_programs(name: str, ctx: ToolContext) -> tuple[FoundProgram, ...]:
    """Return the programs with this name: those of the project, then the first on PATH outside of it."""
    found = []
    workspace = ctx.workspace
    folders = [p for p in ctx.env.get("PATH", "").split(os.pathsep) if p.startswith("/")]
    first = next((p for folder in folders if _is_executable(p := f"{folder}/{name}")), None)
    for local in LOCAL_BIN_FOLDERS:
        path = f"{workspace.root}/{local}/{name}"
        if _is_executable(path):
            names = [f"{local}/{name}", f"./{local}/{name}", path]
            names += [name] if path == first else []
            names += [f"npx {name}"] if local.startswith("node") else []
            found.append(FoundProgram(path, tuple(names), local=True))
    for folder in folders:
        path = f"{folder}/{name}"
        if path in [program.path for program in found] or not _is_executable(path):
            continue
        if not any(workspace.inside(Path(p)) for p in (path, os.path.realpath(path))):
            found.append(FoundProgram(path, (name, path)))
            break
        found.append(FoundProgram(path, (path, *([name] if path == first else [])), local=True))
    return tuple(found)


def _is_executable(path: str) -> bool:
    return os.access(path, os.X_OK) and os.path.isfile(path)  # noqa: PTH113 - text, for speed


def allowed_by_rule(program: FoundProgram, args: Sequence[str], ctx: ToolContext) -> bool | None:
    """Return True if a rule allows the command, False if one refuses it or asks, None if there is none."""
    if ctx.command_rule is None:
        return False
    import shlex  # few starts ask

    answers = [ctx.command_rule(f"{name} {shlex.join(args)}") for name in program.names]
    return False if False in answers else True if True in answers else None


def in_sandbox(ctx: ToolContext) -> bool:
    """Return True if this session's sandbox is strong enough to run commands that nobody approved."""
    sandbox = ctx.supplied(SandboxRunner)
    return sandbox is not None and sandbox.is_boundary


def first_permitted(
    programs: Sequence[FoundProgram], args: Sequence[str], ctx: ToolContext, *, trusted: bool
) -> FoundProgram | None:
    """Return the first program that may run without asking; None if there is none.

    trusted: it runs none of the project's code; then it needs no rule if it is not the project's own program and runs
    in the sandbox.
    """
    for program in programs:
        allowed = allowed_by_rule(program, args, ctx)
        if allowed or (allowed is None and trusted and not program.local and in_sandbox(ctx)):
            return program
    return None


def has_server(servers: Sequence[Sequence[object]], ctx: ToolContext) -> bool:
    """Return True if a language server for a file of the workspace is installed and may run without a question.

    servers: name, suffixes, arguments of each, and whether it runs code of the project.
    """
    settings = ctx.settings.get("diagnostics") or {}
    if ctx.command_rule is None:
        return False
    if settings.get("servers"):
        return True
    there = _names_there(tuple(str(row[0]) for row in servers), ctx.env.get("PATH", ""), str(ctx.workspace.root))
    suffixes: set[str] | None = None
    for name, handled, args, runs_code in servers if there else ():
        if name not in there or name in settings.get("skip", ()) or not (found := find_programs(str(name), ctx)):
            continue
        suffixes = set(_suffixes(ctx.workspace.root)) if suffixes is None else suffixes
        if suffixes.isdisjoint(handled):  # type: ignore[arg-type]
            continue
        if first_permitted(found, args, ctx, trusted=not runs_code) is not None:  # type: ignore[arg-type]
            return True
    return False


@lru_cache(maxsize=4)
def _names_there(names: tuple[str, ...], path: str, root: str) -> frozenset[str]:
    """Return those of the names that are in a folder of PATH, or among the programs of the project."""
    folders = [*(f"{root}/{local}" for local in LOCAL_BIN_FOLDERS), *path.split(os.pathsep)]
    there = set()
    for folder in folders:
        for name in names:
            if os.access(f"{folder}/{name}", os.X_OK):
                there.add(name)
    return frozenset(there)


def _suffixes(root: Path) -> Iterator[str]:
    """Yield the suffixes of the first files in a folder and below."""
    level, left = [os.fspath(root)], _MAX_NAMES
    for _ in range(_MAX_DEPTH + 1):
        below: list[str] = []
        for folder in level:
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        left -= 1
                        if left <= 0:
                            return
                        if entry.name[0] == ".":
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            below += [entry.path] * (entry.name not in _SKIPPED_FOLDERS)
                        else:
                            yield os.path.splitext(entry.name)[1]  # noqa: PTH122 - text, for speed
            except OSError:
                continue
        level = sorted(below)

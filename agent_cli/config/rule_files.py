"""Rules in files of their own: markdown below `.agent/rules` or `.claude/rules`, each with or without `paths`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent_cli.config.front_matter import FrontMatterError, read_front_matter, split_front_matter
from agent_tools.base import ToolError
from agent_tools.globs import compile_glob
from agent_tools.regular import read_start, resolve_inside

MOST = 100
DEEPEST = 4
_HEAD = 4_096


def find_rules(folder: Path, within: Path | None) -> list[tuple[Path, tuple[str, ...]]]:
    """The rule files below a folder, in order, each with the globs of files that it is for; none: for all."""
    try:
        real = folder if within is None else resolve_inside(folder, within)
    except OSError:
        return []
    found = zip(_files(real, links=within is None), range(MOST), strict=False)
    return [(folder / path.relative_to(real), _patterns(path, within)) for path, _ in found]


def fits(patterns: tuple[str, ...], name: str) -> bool:
    """Whether a path from the workspace root is one that a rule is for."""
    return any(_compiled(pattern, name) for pattern in patterns)


def _compiled(pattern: str, name: str) -> bool:
    try:
        return compile_glob(pattern).match(name) is not None
    except ToolError:
        return False


def _files(folder: Path, depth: int = 0, *, links: bool) -> Iterator[Path]:
    """links: folders behind a link count; of a project they do not, as even a look may lead out of it."""
    try:
        with os.scandir(folder) as entries:
            listed = sorted(
                (e.name, e.is_dir(follow_symlinks=links)) for e, _ in zip(entries, range(MOST), strict=False)
            )
    except OSError:
        return
    for name, is_folder in listed:
        if is_folder and depth < DEEPEST:
            yield from _files(folder / name, depth + 1, links=links)
        elif name.endswith(".md") and not is_folder and name.isprintable():
            yield folder / name


def _patterns(path: Path, within: Path | None) -> tuple[str, ...]:
    """The `paths` of a rule's head; a head that cannot be read has none, and the rule holds always."""
    try:
        real = path if within is None else resolve_inside(path, within)
        start = read_start(real, _HEAD).decode("utf-8", "replace")
        value: Any = read_front_matter(split_front_matter(start)[0]).get("paths")
    except (OSError, FrontMatterError):
        return ()
    listed = value if isinstance(value, list) else str(value).split(",") if isinstance(value, str) else []
    return tuple(text for item in listed if (text := str(item).strip().strip("\"'")))

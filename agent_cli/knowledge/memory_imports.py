"""`@path` imports in memory files: find them in the text, and resolve their paths.

Only ordinary markdown text counts, no code spans, code blocks or comments. Anything else after an @, such as a name or
a package, is recognized by the missing file.

Also finds rule files: markdown below `.agent/rules` or `.claude/rules`, each with or without `paths`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent_cli.config.prompts import FrontMatterError, read_front_matter, split_front_matter
from agent_tools.base import ToolError
from agent_tools.fs.safe_files import read_start, resolve_inside
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_tools.fs import paths  # only for rule files with `paths`

MAX_IMPORTS = 100
# Compiled on first use: a text without an @ never needs it.
_IMPORT = r"(?:(?<=[\s(])|\A)@((?:\\ |[^\s\\`<>|*\"])+)"
_FENCE = r" {0,3}(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)"
_PUNCTUATION = ".,;:!?)]}'"
# Outside the project only notes can be imported: `@/components/x` is an alias, `@~/.netrc` a mistake.
_NOTES = (".md", ".markdown", ".mdx", ".mdc", ".txt", ".rst")


def find_imports(text: str) -> list[str]:
    """Return the paths that a text imports, in order, without duplicates, at most `MAX_IMPORTS`."""
    if "@" not in text:
        return []
    found: dict[str, None] = {}
    for match in re.finditer(_IMPORT, _without_spans(_without_comments(_without_blocks(text)))):
        name = match[1].replace("\\ ", " ").rstrip(_PUNCTUATION)
        if name and (name[0].isalnum() or name[0] in "._~/") and "@" not in name and name.isprintable():
            found.setdefault(name)
        if len(found) == MAX_IMPORTS:
            break
    return list(found)


def is_path(name: str) -> bool:
    """Return True if a missing import was certainly meant as a path: not `@ada`, not `@types/node`."""
    return name.startswith(("./", "../", "~/")) or name.endswith(_NOTES)


def resolve_anchor(name: str, folder: Path) -> str:
    """Return the path of an import in a file of `folder` as text, starting with `/`, or `~/` if written that way."""
    if name.startswith("~/"):
        return os.path.normpath(name)
    return os.path.normpath(folder / name)


def leads_outside(path: str, root: Path) -> bool:
    """Return True if a path is outside of `root` and of a kind that may be imported with the user's consent."""
    return not Path(path).is_relative_to(root) and path.endswith(_NOTES)


def _without_blocks(text: str) -> str:
    """Replace fenced code blocks by empty lines."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        found = re.match(_FENCE, line) if "```" in line or "~~~" in line else None
        if fence:
            closes = found and found["mark"].startswith(fence) and not found["info"].strip()
            fence = "" if closes else fence
            lines.append("")
        elif found and not (found["mark"][0] == "`" and "`" in found["info"]):
            fence = found["mark"]
            lines.append("")
        else:
            lines.append(line)
    return "\n".join(lines)


def _without_comments(text: str) -> str:
    """Remove HTML comments; an unclosed one extends to the end."""
    kept: list[str] = []
    at = 0
    while (begin := text.find("<!--", at)) >= 0:
        kept.append(text[at:begin])
        end = text.find("-->", begin + 4)
        if end < 0:
            return " ".join(kept)
        at = end + 3
    return " ".join([*kept, text[at:]])


def _without_spans(text: str) -> str:
    """Remove code spans. A run of backticks is closed by the next one of its length in the same paragraph."""
    kept: list[str] = []
    for paragraph in re.split(r"\n[ \t]*\n", text):
        runs = [(m.start(), m.end()) for m in re.finditer("`+", paragraph)]
        later: dict[int, list[int]] = {}
        for number, (begin, end) in reversed(list(enumerate(runs))):
            later.setdefault(end - begin, []).append(number)
        at = number = 0
        while number < len(runs):
            begin, end = runs[number]
            same = later[end - begin]
            while same and same[-1] <= number:
                same.pop()
            if same:
                # Leave a letter in its place, so that `code`@x is no import.
                kept.append(f"{paragraph[at:begin]}x")
                number = same[-1]
                at = runs[number][1]
            number += 1
        kept.append(f"{paragraph[at:]}\n\n")
    return "".join(kept)


MAX_DEPTH = 4
_HEAD_BYTES = 4_096


def find_rules(folder: Path, within: Path | None) -> list[tuple[Path, tuple[str, ...]]]:
    """Return the rule files below a folder, in order, each with the globs it applies to; no globs: all files."""
    try:
        real = folder if within is None else resolve_inside(folder, within)
    except OSError:
        return []
    found = zip(_files(real, links=within is None), range(MAX_IMPORTS), strict=False)
    return [(folder / path.relative_to(real), _patterns(path, within)) for path, _ in found]


def matches_rule(patterns: tuple[str, ...], name: str) -> bool:
    """Return True if a rule with these patterns applies to a path relative to the workspace root."""
    return any(_compiled(pattern, name) for pattern in patterns)


def _compiled(pattern: str, name: str) -> bool:
    try:
        return paths.compile_glob(pattern).match(name) is not None
    except ToolError:
        return False


def _files(folder: Path, depth: int = 0, *, links: bool) -> Iterator[Path]:
    """Yield the files below a folder.

    links: follow links; not in a project, where even a stat may lead out of it.
    """
    try:
        with os.scandir(folder) as entries:
            listed = sorted(
                (e.name, e.is_dir(follow_symlinks=links)) for e, _ in zip(entries, range(MAX_IMPORTS), strict=False)
            )
    except OSError:
        return
    for name, is_folder in listed:
        if is_folder and depth < MAX_DEPTH:
            yield from _files(folder / name, depth + 1, links=links)
        elif name.endswith(".md") and not is_folder and name.isprintable():
            yield folder / name


def _patterns(path: Path, within: Path | None) -> tuple[str, ...]:
    """Return the `paths` of a rule's front matter; none if it cannot be read, so that the rule always applies."""
    try:
        real = path if within is None else resolve_inside(path, within)
        start = read_start(real, _HEAD_BYTES).decode("utf-8", "replace")
        value: Any = read_front_matter(split_front_matter(start)[0]).get("paths")
    except (OSError, FrontMatterError):
        return ()
    listed = value if isinstance(value, list) else str(value).split(",") if isinstance(value, str) else []
    return tuple(text for item in listed if (text := str(item).strip().strip("\"'")))

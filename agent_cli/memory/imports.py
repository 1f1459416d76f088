"""`@path` in a memory file, which stands for another file: found in the text, and what kind of place it names.

Only markdown that is meant counts: nothing in code spans, code blocks and comments. Whatever else stands behind an @,
such as a name or a package, is told from a path when no such file is there.

Rules in files of their own: markdown below `.agent/rules` or `.claude/rules`, each with or without `paths`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent_cli.config.front_matter import FrontMatterError, read_front_matter, split_front_matter
from agent_tools.base import ToolError
from agent_tools.fs.glob_patterns import compile_glob
from agent_tools.fs.safe_read import read_start, resolve_inside

MOST = 100
# Compiled on first use, which a text without an @ never comes to.
_IMPORT = r"(?:(?<=[\s(])|\A)@((?:\\ |[^\s\\`<>|*\"])+)"
_FENCE = r" {0,3}(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)"
_PUNCTUATION = ".,;:!?)]}'"
# Of files outside the project only what is kept to be read: `@/components/x` is an alias, `@~/.netrc` a mishap.
_NOTES = (".md", ".markdown", ".mdx", ".mdc", ".txt", ".rst")


def find_imports(text: str) -> list[str]:
    """The paths that a text imports, in order, each once, at most `MOST`."""
    if "@" not in text:
        return []
    found: dict[str, None] = {}
    for match in re.finditer(_IMPORT, _without_spans(_without_comments(_without_blocks(text)))):
        name = match[1].replace("\\ ", " ").rstrip(_PUNCTUATION)
        if name and (name[0].isalnum() or name[0] in "._~/") and "@" not in name and name.isprintable():
            found.setdefault(name)
        if len(found) == MOST:
            break
    return list(found)


def is_path(name: str) -> bool:
    """Whether an import that is not there was surely meant as one: not `@ada`, not `@types/node`."""
    return name.startswith(("./", "../", "~/")) or name.endswith(_NOTES)


def resolve_anchor(name: str, folder: Path) -> str:
    """Where an import of a file in `folder` leads, as text: from `/`, or from `~/` as it is written."""
    if name.startswith("~/"):
        return os.path.normpath(name)
    return os.path.normpath(folder / name)


def leads_outside(place: str, root: Path) -> bool:
    """Whether a place is outside of `root` and a file that may be imported from there, if the user agrees."""
    return not Path(place).is_relative_to(root) and place.endswith(_NOTES)


def _without_blocks(text: str) -> str:
    """The text with its fenced code blocks as empty lines."""
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
    """The text without HTML comments; one that is not closed goes on to the end."""
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
    """The text without code spans. A run of backticks is closed by the next of its length in the same paragraph."""
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
                # A letter in its place: `code`@x is no import, as it does not stand by itself.
                kept.append(f"{paragraph[at:begin]}x")
                number = same[-1]
                at = runs[number][1]
            number += 1
        kept.append(f"{paragraph[at:]}\n\n")
    return "".join(kept)


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

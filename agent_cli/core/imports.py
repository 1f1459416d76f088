"""`@path` in a memory file, which stands for another file: found in the text, and what kind of place it names.

Only markdown that is meant counts: nothing in code spans, code blocks and comments. Whatever else stands behind an @,
such as a name or a package, is told from a path when no such file is there.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

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


def names_path(name: str) -> bool:
    """Whether an import that is not there was surely meant as one: not `@ada`, not `@types/node`."""
    return name.startswith(("./", "../", "~/")) or name.endswith(_NOTES)


def place_of(name: str, folder: Path) -> str:
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

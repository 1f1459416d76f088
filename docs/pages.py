"""What these pages take from the program: `make pages` writes it, and tests hold that it is up to date.

The file names in the tree of architecture.md, the table of hook events, and the words that are commands. What a folder
is about is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

from agent_cli.cli import command_names
from agent_cli.core.hooks import events_table
from agent_cli.runtime.user_decision import decisions_table

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 120
_BASES = {"agent_cli/": ROOT / "agent_cli", "agent_tools/": ROOT / "tools/agent_tools"}
# Files of a folder that are named: modules, and data that belongs to one.
_NAMED = (".py", ".bash", ".json")


def files_in(folder: Path) -> list[str]:
    """Return the names of a folder's files as the tree has them: modules without `.py`."""
    found = (p for p in folder.iterdir() if p.suffix in _NAMED and p.name != "__init__.py")
    return sorted(p.stem if p.suffix == ".py" else p.name for p in found)


def tree(block: str) -> str:
    """Return the tree with the names of the files that are there; the lines of folders stay as they are."""
    lines: list[str] = []
    folders: list[tuple[int, Path]] = []
    for line in block.splitlines():
        depth = len(line) - len(line.lstrip())
        first = line.split()[0]
        while folders and folders[-1][0] >= depth:
            folders.pop()
        if first in _BASES or (first.endswith("/") and folders):
            path = _BASES[first] if first in _BASES else folders[-1][1] / first
            folders.append((depth, path))
            indent = " " * (depth + 2)
            names = wrap(" ".join(files_in(path)), WIDTH, initial_indent=indent, subsequent_indent=indent)
            lines += [line, *names]
        elif not folders:
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def between(text: str, start: str, end: str, made: str) -> str:
    """Return a page with the part between two marks replaced."""
    before, mark, rest = text.partition(start)
    assert mark, start
    assert end in rest, end
    return f"{before}{start}{made}{end}{rest.partition(end)[2]}"


def wrapped(paragraph: str) -> str:
    """Return a paragraph in lines of the pages' width, none of which ends within code."""
    joined = re.sub(r"`[^`]*`", lambda code: code[0].replace("\n", " ").replace(" ", "\0"), paragraph)
    return "\n".join(wrap(joined, WIDTH, break_long_words=False, break_on_hyphens=False)).replace("\0", " ")


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each page with the text that it should have."""
    page = ROOT / "docs/architecture.md"
    text = page.read_text("utf-8")
    block = text.partition("\n## Tree\n")[2].partition("```text\n")[2].partition("```")[0]
    yield page, text.replace(block, tree(block))
    page = ROOT / "docs/hooks.md"
    yield page, between(page.read_text("utf-8"), "\n## Events\n\n", "\nAll get ", events_table())
    page = ROOT / "docs/web.md"
    start, end = "\nor that the question does not offer, is refused by name (422):\n\n", "\n`rule` and `scope` "
    yield page, between(page.read_text("utf-8"), start, end, decisions_table())
    page = ROOT / "docs/guide.md"
    words = ", ".join(f"`{name}`" for name in command_names())
    text = between(page.read_text("utf-8"), "A first word that is a command (", ")", words)
    paragraph = next(part for part in text.split("\n\n") if words in part)
    yield page, text.replace(paragraph, wrapped(paragraph))


if __name__ == "__main__":
    for path, made in pages():
        path.write_text(made, "utf-8")

"""What these pages take from the program: `make pages` writes it, and tests hold that it is up to date.

The file names in the tree of architecture.md, the table of hook events, and the words that are commands. What a folder
is about is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import wrap

from agent_cli.cli import command_names
from agent_cli.core.hooks import events_table
from agent_cli.permissions.programs.row import Row
from agent_cli.permissions.programs.table import ROWS
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


def programs_page() -> str:
    """Return the tables of docs/programs.md."""
    rows: dict[int, tuple[Row, list[str]]] = {}
    for name, row in ROWS.items():
        rows.setdefault(id(row), (row, []))[1].append(name)
    titles: dict[str, Callable[[Row], bool]] = {
        "Programs that only read": lambda row: row.reads_only and row.shows == row.operands,
        "Programs that only read if told to": lambda row: row.reads_only,
        "Programs whose files are known": lambda row: not row.reads_only and not row.partly and row.wraps is None,
        "Programs whose options are known": lambda row: row.partly and not row.hides and bool(row.roles or row.effects),
        "Programs that run other commands": lambda row: row.hides or row.wraps is not None,
        "Programs that need something": lambda row: True,
    }
    found = dict.fromkeys(titles, "")
    for row, names in rows.values():
        title = next(title for title, holds in titles.items() if holds(row))
        words = " ".join(f"`{name}`" for name in sorted(names)).replace("|", "\\|")
        found[title] += f"| {words} | {_notes(row)} |\n"
    head = "| programs | options that lead elsewhere, and other needs |\n|---|---|\n"
    return "\n".join(f"## {title}\n\n{head}{lines}" for title, lines in found.items())


def _notes(row: Row) -> str:
    """Describe what a row knows beyond operands."""
    of_roles: dict[str, list[str]] = {}
    for option, role in row.roles.items():
        if role not in ("flag", "value"):
            of_roles.setdefault("run" if role in ("run", "act") else role, []).append(option)
    words = {
        "run": "run or steer", "write": "write", "into": "write into", "read": "read",
        "steer": "read instructions from", "chdir": "change the folder", "other": "change what is done",
    }  # fmt: skip
    notes = [f"{words[role]}: {' '.join(f'`{name}`' for name in names)}" for role, names in of_roles.items()]
    if row.network:
        notes.append("network" if "*" in row.network else f"network: {' '.join(f'`{verb}`' for verb in row.network)}")
    if row.verbs:
        notes.append(f"only ask: {', '.join(f'`{verb}`' for verb in row.verbs)}")
    if row.outside:
        notes.append(row.outside)
    return "; ".join(notes)


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
    page = ROOT / "docs/programs.md"
    intro = page.read_text("utf-8").partition("\n## ")[0].rstrip()
    yield page, f"{intro}\n\n{programs_page()}"
    page = ROOT / "docs/guide.md"
    words = ", ".join(f"`{name}`" for name in command_names())
    text = between(page.read_text("utf-8"), "A first word that is a command (", ")", words)
    paragraph = next(part for part in text.split("\n\n") if words in part)
    yield page, text.replace(paragraph, wrapped(paragraph))


if __name__ == "__main__":
    for path, made in pages():
        path.write_text(made, "utf-8")

"""Notes that a user adds to the project's memory file with `#`: choose the file and append the text.

The file is replaced atomically and keeps its encoding and line ends.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from agent_tools.base import ToolError
from agent_tools.fs.encoding import TextFile, decode_text, line_end
from agent_tools.fs.files import read_file, replace_file
from agent_tools.fs.safe_files import resolve_inside

HEADING = "## Notes"
LIMIT = 1 << 20
LONGEST = 4_000


def parse_note(message: str) -> str:
    """Return the note in a message, "" for other messages: one line after one `#`; no heading, no `#123`, no `#!`."""
    if not message.startswith("#") or "\n" in message:
        return ""
    note = message[1:].strip()
    return "" if not note or message[1] in "#!" or message[1].isdigit() else note


def note_file(root: Path, names: Sequence[str]) -> Path:
    """Return the file for notes of a project: the first existing memory file, else the first name."""
    for name in names:
        for path in (root / name, root / ".agent" / name, root / ".claude" / name):
            if os.path.lexists(path):
                return path
    return root / (names[0] if names else "AGENTS.md")


def add_note(root: Path, names: Sequence[str], note: str) -> Path:
    """Add a note to the project's memory; return the file. Raises ToolError if it cannot be written."""
    words = " ".join("".join(c if c.isprintable() else " " for c in note).split())
    if not words or len(words) > LONGEST:
        raise ToolError(f"A note has 1 to {LONGEST:,} characters; this one has {len(words):,}.")
    path = note_file(root, names)
    try:
        real = resolve_inside(path, root) if os.path.lexists(path) else path
    except OSError as error:
        raise ToolError(f"{path} is not written: it {error.strerror or error}.") from None
    before = read_file(real, LIMIT) if os.path.lexists(real) else None
    old = decode_text(before or b"")
    if old is None:
        raise ToolError(f"{path} is not a text file, so no note can be added to it.")
    replace_file(real, old.encode(with_note(old.content, words)), before)
    return path


def change_file(real: Path, before: bytes | None, text: str) -> None:
    """Write the user's edit of the memory file at a resolved path. Raises ToolError if the file changed meanwhile."""
    old = decode_text(before or b"") or TextFile("")
    replace_file(real, old.encode(text), before)


def with_note(text: str, note: str) -> str:
    """Return the text with a note as the last item below the heading for notes, which is added if missing."""
    end = line_end(text)
    lines = text.split(end)
    item = f"- {note}"
    at = next((n for n, line in enumerate(lines) if line.strip() == HEADING), None)
    if at is None:
        kept = text.rstrip()
        return f"{kept}{end * 2 if kept else ''}{HEADING}{end * 2}{item}{end}"
    last = next((n for n in range(at + 1, len(lines)) if lines[n].startswith(("# ", "## "))), len(lines))
    while last > at + 1 and not lines[last - 1].strip():
        last -= 1
    new = ["", item] if last == at + 1 else [item]
    rest = lines[last:] if any(line.strip() for line in lines[last:]) else [""]
    return end.join([*lines[:last], *new, *rest])

"""Displays as lines: diffs, plans, command output. Pure functions from plain data to Rich text."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from agent_cli.terminal.console import styled
from agent_tools.display import CommandOutput, Diff, Diffs, Display, FileView, Listing, Note, TodoView

DIFF_LINES = 60
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}


def lines_of(display: Display | None, *, whole: bool = False) -> Iterator[Text]:
    """What a person sees of a result. `whole`: nothing is shortened, as an approval needs it."""
    match display:
        case Diff():
            yield from _diff(display, whole)
        case Diffs(files=files):
            for diff in files:
                yield from _diff(diff, whole)
        case TodoView(items=items):
            for item in items:
                style = "dim" if item.status in ("completed", "cancelled") else ""
                now = item.activeForm if item.status == "in_progress" and item.activeForm else item.content
                yield styled(f"  {_MARKS[item.status]} {now}", style)
        case CommandOutput(exit_code=code, seconds=seconds, note=note):
            yield styled(f"  {note or f'exit code {code}, {seconds:.1f} s'}", "good" if code == 0 else "bad")
        case Listing(lines=lines, more=more):
            yield styled(f"  {len(lines) + more} found", "dim")
        case FileView(lines=lines, total=total):
            yield styled(f"  {lines} of {total} lines", "dim")
        case Note(text=text):
            for line in text.splitlines():
                yield styled(f"  {line}", "dim")


def _diff(diff: Diff, whole: bool) -> Iterator[Text]:
    verb = "new file" if diff.created else "change"
    yield styled(f"  {diff.path} ({verb}, +{diff.added} -{diff.removed})", "dim")
    lines = diff.patch.splitlines()
    shown = lines if whole or len(lines) <= DIFF_LINES else lines[:DIFF_LINES]
    for line in shown:
        style = {"+": "add", "-": "del", "@": "dim"}.get(line[:1], "")
        yield styled(f"  {line}", style)
    if len(shown) < len(lines):
        yield styled(f"  ... {len(lines) - len(shown)} more lines", "dim")

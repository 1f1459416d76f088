"""Displays as lines: diffs, plans, command output. Pure functions from plain data to Rich text."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from agent_cli.terminal.console import styled
from agent_tools.clipping import counted, shorten
from agent_tools.display import CommandOutput, Diff, Diffs, Display, FileView, Listing, Note, TodoView

_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}
_WORDS = {"pending": "to do:", "in_progress": "now:", "completed": "done:", "cancelled": "dropped:"}
_STATES = {"in_progress": "bold", "completed": "dim", "cancelled": "dim"}


def display_lines(display: Display | None, *, whole: bool = False, words: bool = False) -> Iterator[Text]:
    """What a user sees of a result. `whole`: nothing is shortened, as an approval needs it; `words`: no symbols."""
    match display:
        case Diff() | Diffs():
            # The lexers and difflib: only where a change is shown.
            from agent_cli.terminal.diffs import diff_lines

            for diff in display.files if isinstance(display, Diffs) else (display,):
                yield from diff_lines(diff, whole=whole)
        case TodoView(items=items):
            for item in items:
                now = item.activeForm if item.status == "in_progress" and item.activeForm else item.content
                mark = (_WORDS if words else _MARKS)[item.status]
                yield styled(f"  {mark} {now}", _STATES.get(item.status, ""))
        case CommandOutput(exit_code=code):
            yield styled(f"  {short_result(display)}", "good" if code == 0 else "bad")
        case Listing() | FileView():
            yield styled(f"  {short_result(display)}", "dim")
        case Note(text=text):
            for line in text.splitlines():
                yield styled(f"  {line}", "dim")


def short_result(display: Display | None) -> str:
    """A result in a few words, where it has no more to show than that; else nothing."""
    match display:
        case CommandOutput(exit_code=code, seconds=seconds, note=note):
            return note or f"exit code {code}, {seconds:.1f} s"
        case Listing(lines=lines, more=more):
            return f"{len(lines) + more:,} found"
        case FileView(lines=lines, total=total):
            return f"{lines:,} of {counted(total, 'line')}"
        case Note(text=text) if len(text) <= 100 and "\n" not in text.strip():
            return shorten(text)
    return ""

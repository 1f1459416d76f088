"""Render a dialog as rows of text, the same for both front ends."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from agent_cli.terminal.dialogs.model import (
    Block,
    Dialog,
    DiffBlock,
    Fact,
    PlanBody,
    Prose,
    ShellCommand,
    Verbatim,
)
from agent_cli.terminal.render.console import hanging, prose, styled
from agent_cli.terminal.render.diff import display_lines
from agent_tools.lookalikes import visible

# Rows below the question: its keys, the input line, the toolbar.
_BELOW = 6
# Rows of a long command shown at its repetition: first and last ones.
_FIRST, _LAST = 4, 2


def dialog_lines(dialog: Dialog, console: Console) -> Iterator[Text]:
    """Yield title, body and details of a dialog.

    If they exceed the screen, the subject is repeated at the end, shortened in the middle.
    """
    title = dialog.title.replace(text=f"? {dialog.title.text}")
    lines = [row for block in (title, *dialog.body, *dialog.details) for row in _block_lines(block, console)]
    yield from lines
    if not dialog.repeated:
        return
    rows = sum(max(1, -(-line.cell_len // max(console.width, 1))) for line in lines)
    if rows > shutil.get_terminal_size().lines - _BELOW:
        yield from _folded(dialog.repeated, console)


def _block_lines(block: Block, console: Console) -> Iterator[Text]:
    match block:
        case Prose(text=text, style=style, more=more):
            yield from prose(text, console, style, more)
        case Verbatim(text=text, style=style):
            yield styled(text, style)
        case ShellCommand(text=text):
            for line in text.splitlines() or [""]:
                yield styled(f"  $ {visible(line)}")
        case DiffBlock(display=display):
            yield from display_lines(display, whole=True)
        case Fact(text=text):
            yield from fact_lines(visible(text), console)
        case PlanBody(text=text):
            for line in text.splitlines():
                yield from prose(f"  {line}".rstrip(), console)


def fact_lines(text: str, console: Console) -> Iterator[Text]:
    """Wrap a fact with an indent, so that its continuation cannot pass for a line of the program."""
    return hanging(styled(text, "dim"), console, "  ", "    ")


def _folded(text: str, console: Console) -> Iterator[Text]:
    """Yield the subject of the question in a few rows."""
    rows = [
        row for line in f"? {text}".splitlines() for row in hanging(styled(visible(line), "ask"), console, "", "  ")
    ]
    left = len(rows) - _FIRST - _LAST
    if left > 1:
        rows[_FIRST:-_LAST] = [styled(f"  [{left} more rows, which stand above]", "dim")]
    yield from rows

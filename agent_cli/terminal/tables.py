"""Tables in columns of text: two blanks between them, a line below the header, cells wrapped where it gets narrow."""

from __future__ import annotations

from itertools import zip_longest
from typing import Literal

from rich.text import Text

from agent_cli.terminal.wrapping import wrap

Align = Literal["left", "center", "right"]
Row = list[Text]
_GAP = 2
# Where columns would get narrower, each row is shown as lines of its own.
_NARROWEST = 6


class Table:
    """The columns of one table. Their widths are settled by the rows that it is made with, and stay."""

    def __init__(self, header: Row, aligns: list[Align], rows: list[Row], width: int, rule: str) -> None:
        self._header = [cell.copy() for cell in header]
        for cell in self._header:
            cell.stylize("bold")
        self._aligns = aligns
        self._width = width
        self._rule = rule
        natural = [max(row[n].cell_len if n < len(row) else 0 for row in (header, *rows)) for n in range(len(header))]
        self._widths = _fitted(natural, width - _GAP * (len(natural) - 1))

    def head(self) -> list[Text]:
        """The header and the line below it."""
        if not self._widths:
            return []
        below = Text((" " * _GAP).join(self._rule * w for w in self._widths), "dim")
        return [*self._row(self._header), below]

    def body(self, rows: list[Row]) -> list[Text]:
        """Rows, below each other."""
        draw = self._row if self._widths else self._record
        return [line for row in rows for line in draw(self._within(row))]

    def _within(self, row: Row) -> Row:
        """The row with as many cells as there are columns: the last one takes what a later row has beyond them."""
        last = len(self._header) - 1
        return row if len(row) <= last + 1 else [*row[:last], Text(" ").join(cell for cell in row[last:] if cell)]

    def _row(self, row: Row) -> list[Text]:
        widths = [max(width, cell.cell_len) for cell, width in zip(row, self._widths, strict=False)]
        if sum(widths) + _GAP * (len(widths) - 1) > self._width:
            widths = self._widths
        columns = [
            [_aligned(line, width, align) for line in wrap(cell, width)]
            for cell, width, align in zip(row, widths, self._aligns, strict=False)
        ]
        lines = []
        for parts in zip_longest(*columns):
            line = Text()
            for n, (part, width) in enumerate(zip(parts, widths, strict=False)):
                line.append(" " * _GAP if n else "").append_text(part if part is not None else Text(" " * width))
            line.rstrip()
            lines.append(line)
        return lines

    def _record(self, row: Row) -> list[Text]:
        """A row as lines: each cell behind the name of its column."""
        lines = []
        for n, (name, cell) in enumerate(zip(self._header, row, strict=False)):
            pair = Text("- " if n == 0 else "  ").append_text(name).append(": ").append_text(cell)
            lines += wrap(pair, self._width)
        return lines


def _fitted(natural: list[int], room: int) -> list[int]:
    """Widths that fit: columns that need less than their share keep what they need. Empty where none would do."""
    if sum(natural) <= room:
        return [max(w, 1) for w in natural]
    widths = list(natural)
    left, open_ = room, sorted(range(len(natural)), key=lambda n: natural[n])
    while open_:
        share = left // len(open_)
        column = open_.pop(0)
        widths[column] = min(natural[column], share)
        left -= widths[column]
    return (
        [] if any(w < min(_NARROWEST, n) for w, n in zip(widths, natural, strict=True)) else [max(w, 1) for w in widths]
    )


def _aligned(line: Text, width: int, align: Align) -> Text:
    """The line with blanks around it up to `width`."""
    missing = max(0, width - line.cell_len)
    before = {"left": 0, "center": missing // 2, "right": missing}[align]
    return Text(" " * before).append_text(line).append(" " * (missing - before))

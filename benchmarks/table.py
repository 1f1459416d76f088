"""Rows of the result: a figure, the floor beside it, the goal and whether it is met, as a table or as JSON."""

from __future__ import annotations

import platform
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent_tools.record import Value


class Row(Value):
    """One figure. `ours` and `floor` in `unit`; `goal` in words; `met` is None where no goal was set.

    peers: what others cost, as measured elsewhere on another day; not part of this run.
    """

    name: str
    what: str
    ours: float
    unit: str
    goal: str
    met: bool | None
    floor: float | None = None
    peers: str = ""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.floor if self.floor else None

    def plain(self) -> dict[str, Any]:
        """The row as JSON data."""
        return {**{n: getattr(self, n) for n in self._fields}, "ratio": self.ratio}


# The marks of a page around the table.
_BEGIN, _END = "<!-- generated: by make bench -->", "<!-- end -->"
HEAD = ("", "ours", "floor", "ratio", "goal", "")


def number(value: float | None, unit: str = "") -> str:
    """A figure with three digits that mean something, and its unit."""
    if value is None:
        return ""
    text = f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}" if value >= 10 else f"{value:.3g}"
    return f"{text} {unit}".strip()


def cells(row: Row) -> tuple[str, ...]:
    ratio = f"{row.ratio:.2f}x" if row.ratio is not None else ""
    verdict = {True: "met", False: "MISSED", None: ""}[row.met]
    return (row.what, number(row.ours, row.unit), number(row.floor, row.unit), ratio, row.goal, verdict)


def as_text(rows: Iterable[Row]) -> str:
    """The table for a terminal, with a line below each row for the peers and what is to be noted."""
    rows = list(rows)
    table = [HEAD, *(cells(r) for r in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEAD))]
    lines = [_line(HEAD, widths), "-" * (sum(widths) + 2 * len(widths))]
    for row, line in zip(rows, table[1:], strict=True):
        lines.append(_line(line, widths))
        for text in filter(None, (row.note, row.peers and f"as measured elsewhere: {row.peers}")):
            lines += textwrap.wrap(text, 110, initial_indent="    ", subsequent_indent="    ")
    missed = sum(r.met is False for r in rows)
    lines.append(f"{sum(r.met is True for r in rows)} goals met, {missed} missed. {machine()}")
    return "\n".join(lines)


def write_page(rows: Iterable[Row], page: Path) -> None:
    """Put the table between the marks of a page of the documentation."""
    table = [HEAD, ("---", "--:", "--:", "--:", "---", "---"), *map(cells, rows)]
    lines = [f"| {' | '.join(line)} |" for line in table]
    for text, shown in (("|   ", "| … "), ("<=", "≤"), ("MISSED", "missed")):
        lines = [line.replace(text, shown) for line in lines]
    before, mark, rest = page.read_text("utf-8").partition(_BEGIN)
    after = rest[rest.index(_END) :]
    page.write_text("\n".join([f"{before}{mark}", "", *lines, "", after]), "utf-8")


def _line(texts: Iterable[str], widths: list[int]) -> str:
    padded = [t.ljust(w) if i in (0, 4, 5) else t.rjust(w) for i, (t, w) in enumerate(zip(texts, widths, strict=True))]
    return "  ".join(padded).rstrip()


def machine() -> str:
    """What was measured on, in words."""
    import os

    return f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores."

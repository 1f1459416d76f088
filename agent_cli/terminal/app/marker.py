"""The moving marker of the live region, and the seconds of the work beside it.

A frame is drawn each second, as before it moved; between frames only the cells of the marker are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_cli.terminal.app.layout import Line
from agent_cli.terminal.app.protocol import LiveScreen

# How often the marker moves in a second.
MOVES = 4


class Marker:
    """Moves while there is work and no question is open. A single timer, however many messages follow."""

    def __init__(self, live: LiveScreen, signs: str) -> None:
        self._live, self._signs = live, signs
        self._moves = self._beats = 0
        self._rows: list[int] = []
        self._timer: Any = None
        self._began = self._beat_at = self._waited = 0.0

    def __str__(self) -> str:
        return self._signs[self._moves % len(self._signs)]

    @property
    def seconds(self) -> float:
        """Seconds since `start`, without those of the user at questions."""
        return self._live.clock() - self._began - self._waited

    def start(self) -> None:
        """Begin with new work."""
        self._began = self._beat_at = self._live.clock()
        self._waited = 0.0
        self.beat()

    def found(self, rows: Sequence[Line]) -> None:
        """Note which rows begin with the marker."""
        sign = str(self)
        self._rows = [number for number, row in enumerate(rows) if row and row[0][1] == sign]

    def beat(self) -> None:
        """Move, and plan the next move."""
        live, loop = self._live, self._live.app.loop
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if not live.busy or loop is None:
            return
        now, before = live.clock(), self._beat_at
        self._beat_at = now
        self._beats += 1
        asked = live.questions.ask is not None
        if asked:
            self._waited += now - before
        if self._beats % MOVES == 0:
            self._moves += not asked
            live.draw_soon()
        elif not asked:
            self._moves += 1
            sign = f"{live.palette.sgr('accent')}{self}"
            live.app.patch(dict.fromkeys(self._rows, sign))
        self._timer = loop.call_later(1.0 / MOVES, self.beat)

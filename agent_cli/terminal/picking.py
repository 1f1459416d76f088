"""Choosing one of many sessions: the rows, what is typed to narrow them, and the choice by number, line by line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agent_cli.session.ages import age, size
from agent_cli.terminal.input import read_line
from agent_cli.terminal.panels import fitted
from agent_tools.clipping import number_in, one_line

if TYPE_CHECKING:
    from agent_cli.session.glance import Glance

IN_LINES = 20
# From so many letters on, what titles do not have is looked for in all that was said.
_SEARCHED = 3
_ENDS = {"failed": "failed", "interrupted": "interrupted", "waiting": "waits for you", "open": "broke off"}


class Narrowing:
    """The sessions that fit what is typed; searches in texts are made once for each word."""

    def __init__(self, found: Sequence[Glance]) -> None:
        self._all = list(found)
        self._said: dict[str, list[Glance]] = {}

    def fits(self, text: str) -> list[Glance]:
        """Those whose title, branch or ID have all the words; where there is none, those in which they were said."""
        words = text.lower().split()
        titled = [g for g in self._all if all(w in f"{g.title} {g.branch} {g.session_id}".lower() for w in words)]
        if titled or not words or max(map(len, words)) < _SEARCHED:
            return titled
        key = " ".join(words)
        if key not in self._said:
            from agent_cli.session.finding import says  # reads logs, which most choices do without

            self._said[key] = [g for g in self._all if says(g.path, words)]
        return self._said[key]


def row(g: Glance, width: int, now: datetime) -> str:
    """A session on one line: what it is about, how long ago, where, how large, what it cost."""
    cost = f"${g.cost:.2f}" if g.cost else ""
    facts = f"{age(g.updated, now):>4}  {fitted(one_line(g.branch), 16).ljust(16)}  {size(g.size):>5}  {cost:>7}"
    end = f" ({_ENDS[g.ended]})" if g.ended in _ENDS else ""
    room = max(10, width - len(facts) - 2)
    return fitted(f"{fitted(one_line(g.title), room - len(end))}{end}".ljust(room) + f"  {facts}", width)


def pick_in_lines(found: Sequence[Glance]) -> Glance | None:
    """Numbered lines; a number chooses, words narrow, nothing chooses none."""
    narrowing, shown = Narrowing(found), list(found)
    while True:
        now = datetime.now(UTC)
        for number, g in enumerate(shown[:IN_LINES], 1):
            sys.stdout.write(f"{number:>3}. {row(g, 90, now).rstrip()}\n")
        if len(shown) > IN_LINES:
            sys.stdout.write(f"     and {len(shown) - IN_LINES} more: say words of the one you mean\n")
        try:
            words = read_line("Which session? (number, words, or nothing) ").strip()
        except (EOFError, KeyboardInterrupt):
            return None
        if not words:
            return None
        if 1 <= number_in(words) <= min(len(shown), IN_LINES):
            return shown[number_in(words) - 1]
        fitting = narrowing.fits(words)
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            shown = fitting
        else:
            sys.stdout.write(f"No session fits {one_line(words)}.\n")

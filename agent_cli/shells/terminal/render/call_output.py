"""The output of a call in a few rows: its first and last lines, fitted to the window."""

from __future__ import annotations

import re
from collections import deque

from agent_cli.shells.terminal.render.ansi import cells
from agent_tools.text import counted

# In the application: rows of a result in the scrollback, of one that failed, of a `!` command's result, and of running
# output in the live region.
RESULT_ROWS, FAILED_ROWS, BANG_ROWS, TAIL_ROWS = 3, 7, 12, 5
_KEPT_ROWS = BANG_ROWS + 1
# The key that shows all of a result.
MORE_KEY, RECORD_KEY = "Ctrl-O", "Ctrl-X Ctrl-R"
# A rule, or the space before what is aligned to the right, such as the "[ 50%]" of pytest.
_RULE = re.compile(r"([-=_*~#!\u2500\u2501\u2550])\1{7,}|(?<=\S) {8,}")
_MIN_RULE_CELLS = 3


class RunningOutput:
    """Output of a running command: its first and last lines and their number, without blank ones."""

    def __init__(self) -> None:
        self.head: list[str] = []
        self.end: deque[str] = deque(maxlen=_KEPT_ROWS)
        self.count = 0
        self.partial = ""
        # If output is flooding, only the latest arrives, with a note of how much was dropped.
        self.flood = False

    def add(self, text: str) -> None:
        *lines, self.partial = (self.partial + text).split("\n")
        self.partial = self.partial[-4096:]
        self.flood = self.flood or " bytes not shown …]" in text
        for line in lines:
            self._line(line)

    def _line(self, line: str) -> None:
        if not line.strip():
            return
        self.count += 1
        if len(self.head) < _KEPT_ROWS:
            self.head.append(line)
        self.end.append(line)

    def close(self, most: int) -> list[str]:
        """Return `most` lines to show, one of which says what is left out; all if it is only one more."""
        if self.partial:
            self._line(self.partial)
        if self.count <= most + 1:
            return self.head
        # Errors are in the first lines of some programs (node), in the last of most (Python).
        first = (most - 1) // 3
        head, last = self.head[:first], list(self.end)[first + 1 - most :]
        left = self.count - len(head) - len(last)
        more = f"… {'over ' * self.flood}{counted(left, 'more line')} ({MORE_KEY})"
        return [*head, more, *last]

    def tail(self) -> list[str]:
        lines = [*self.end, *([self.partial] if self.partial else [])]
        return lines[-TAIL_ROWS:]


def fit_rules(line: str, width: int) -> str:
    """Shorten the rules and wide spaces of a line that is wider than the width, as pytest writes for 80 columns."""
    over = cells(line) - width
    rules = sum(len(found[0]) for found in _RULE.finditer(line)) if over > 0 else 0
    if not rules:
        return line
    left = max(rules - over, 0)
    return _RULE.sub(lambda found: found[0][0] * max(len(found[0]) * left // rules, _MIN_RULE_CELLS), line)

"""How much of a tool's result the model is shown: never more than a share of its window.

A short result is shown whole. Of a longer one the model is shown the beginning and the end, and is told which file has
all of it. Tools that show their results page by page stop at the end of a page, and name the offset to continue with.
"""

from __future__ import annotations

from typing import Literal

from agent_tools.record import Value
from agent_tools.shell.output_file import Scratch
from agent_tools.text import HeadTail

# "short", "page": the limit of that name. "whole": never shortened, such as instructions of the user.
ResultSize = Literal["short", "page", "whole"]
# Assumed size of an unknown window, in tokens.
ASSUMED_WINDOW = 128_000
_BYTES_PER_TOKEN = 3.5
_SHARE = 8
_LEAST = 1_000


class ResultLimits(Value):
    """Limits of results. short, page: bytes. window: the tokens that the model takes."""

    short: int = 10_000
    page: int = 25_000
    window: int = ASSUMED_WINDOW

    def most(self, size: ResultSize) -> int:
        """Return the limit in bytes. What is never shortened has pages too, if it is read in parts."""
        most = self.short if size == "short" else max(self.short, self.page)
        return max(min(most, int(self.window * _BYTES_PER_TOKEN / _SHARE)), _LEAST)

    def buffer(self, size: ResultSize, scratch: Scratch, search: str) -> HeadTail:
        """Return a buffer for a result that arrives in pieces; all of a long one is saved in a file.

        Of a failure a third is the beginning and two thirds are the end; of other results less is shown, in equal
        parts. search: how the model can look into the file; "" if it cannot.
        """
        most = self.most(size)
        head = most * 7 // 20
        return HeadTail(head, most - head, scratch, search=search, brief=most * 2 // 5)

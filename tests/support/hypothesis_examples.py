"""How many examples Hypothesis tries, how many cases of a large table, and how many of what is to be very many."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
_ALL = os.environ.get("EXAMPLES") == "all"


def examples(count: int) -> int:
    """How many examples of many Hypothesis tries: a third, and all with EXAMPLES=all, as `make fuzz` does."""
    return count if _ALL else count // 3


def cases(every: Sequence[T], some: Sequence[T]) -> Sequence[T]:
    """Which cases of a table are tried: some, and every one with EXAMPLES=all."""
    return every if _ALL else some

"""The number of calls that a piece of work makes: a measure that is the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(run: Callable[[], object]) -> int:
    """Count the calls that `run` makes, of Python's functions and of built-in ones."""
    count = 0

    def on_event(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count

"""The lines that searches and commands showed: a place among them can be edited without a Read of its file.

What `grep -n`, `git diff` or a traceback shows of a file is enough for an edit that finds exactly these lines, once, in
a file that has not changed since.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

from agent_tools.base import ToolContext, ToolState
from agent_tools.record import Value

_MAX_RESULTS = 30
# Seconds by which the clock of a file system may lag.
_CLOCK_TOLERANCE_SECONDS = 0.02


class ShownResult(Value):
    """A result as the model read it. about: the command or path that it is of; began: when the files were as shown."""

    text: str
    about: str
    began: float


class ShownTexts(ToolState):
    """The latest results of searches and commands."""

    def __init__(self) -> None:
        self.results: deque[ShownResult] = deque(maxlen=_MAX_RESULTS)

    def nested(self) -> ShownTexts:
        return ShownTexts()


def note_shown(text: str, about: str, began: float, ctx: ToolContext) -> None:
    """Note what a result showed. began: seconds since the epoch at which the call began."""
    if text:
        ctx.owner.state(ShownTexts).results.append(ShownResult(text, about, began))


def was_shown(path: Path, old: str, ctx: ToolContext) -> bool:
    """Return True if a result about the file showed every line of `old`, and the file has not changed since."""
    shown = ctx.owner.supplied(ShownTexts)
    lines = [line for line in map(str.strip, old.splitlines()) if line]
    if shown is None or not lines:
        return False
    try:
        changed = path.stat().st_mtime
    except OSError:
        return False
    return any(
        changed <= result.began - _CLOCK_TOLERANCE_SECONDS
        and (path.name in result.text or path.name in result.about)
        and all(line in result.text for line in lines)
        for result in shown.results
    )

"""Ask the terminal for its background (OSC 11), so that the colours fit it.

Nothing waits for the answer but the first lines, a moment; keys never do. It counts for a short time, and is never
taken for keys, however late it comes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from agent_cli.terminal.render.theme import ASK_BACKGROUND, Colors, answered_background

# Seconds in which an answer counts, and that the first lines wait for it.
COUNTS, PATIENCE = 2.0, 0.12
# The answer to OSC 11; its beginning may have been read, and taken for a key, before the rest came.
_ANSWER = re.compile(r"(?:\x1b?\])?11;(rgba?:[0-9a-fA-F/]+)(?:\x07|\x1b\\)")
_BEGUN = re.compile(r"\x1b\]1(?:1(?:;(?:r[gba:0-9a-fA-F/]*\x1b?)?)?)?$")


class AnswerFilter:
    """Takes one answer to OSC 11 out of what the terminal sends, whenever it comes; all else are keys.

    found: called with the answer.
    """

    def __init__(self, found: Callable[[str], None]) -> None:
        self._found = found
        self._held = ""
        self._waiting = True

    def keys(self, data: str) -> str:
        """Return the data without the answer. Its beginning is held until the rest comes."""
        if not self._waiting:
            return data
        data, self._held = self._held + data, ""
        if match := _ANSWER.search(data):
            self._waiting = False
            self._found(match[1])
            return data[: match.start()] + data[match.end() :]
        if begun := _BEGUN.search(data):
            self._held = begun[0]
            return data[: begun.start()]
        return data


class BackgroundQuestion:
    """The question for the background of one session.

    changed: called when the first lines need not wait any more.
    """

    def __init__(self, colors: Colors, clock: Callable[[], float], changed: Callable[[], None]) -> None:
        self._colors, self._clock, self._changed = colors, clock, changed
        self._asked_at = self._until = 0.0

    def ask(self, source: object) -> str:
        """Take the answer out of what the terminal sends; return the sequence that asks."""
        parser = getattr(source, "vt100_parser", None)
        if parser is None:
            return ""
        keys, feed = AnswerFilter(self._found).keys, parser.feed
        parser.feed = lambda data: feed(keys(data))
        self._asked_at = self._clock()
        self._until = self._asked_at + PATIENCE if self._colors.by_background else 0.0
        return ASK_BACKGROUND

    @property
    def wait(self) -> float:
        """Seconds that lines have to wait, as their colours depend on the answer."""
        return max(0.0, self._until - self._clock())

    def _found(self, answer: str) -> None:
        background = answered_background(answer)
        if background is not None and self._clock() - self._asked_at < COUNTS:
            self._colors.on(background)
        self._until = 0.0
        self._changed()

"""Notice an answer that has become the same text over and over, as small models write until their window is full."""

from __future__ import annotations

# Characters after which the end of the text is examined again, and which of it are looked for before.
_STEP, _PROBE = 128, 48
# The longest text whose repetition is noticed; how often it is repeated at least, and in how many characters.
_LONGEST, _TIMES, _LEAST = 1_000, 6, 2_000
# White space that no text has; a server that waits for a call lets a model write nothing else.
_BLANK = 200


class RepeatedText:
    """Receives the pieces of a text as they arrive."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._new = 0
        self._end = ""

    def feed(self, text: str) -> bool:
        """Add a piece; return True if the text ends in six repetitions (2,000 characters) or blank lines."""
        self._pieces.append(text)
        self._new += len(text)
        if self._new < _STEP:
            return False
        self._end = (self._end + "".join(self._pieces))[-_LONGEST * _TIMES :]
        self._pieces, self._new = [], 0
        return bool(repetition(self._end))


def repetition(text: str) -> int:
    """Return how many characters at the end of a text are repetitions of what is before them; 0 if too few."""
    probe = text[-_PROBE:]
    before = text.rfind(probe, max(0, len(text) - _PROBE - _LONGEST), len(text) - 1)
    unit = len(text) - _PROBE - before
    if not probe.strip():
        blank = len(text) - len(text.rstrip())
        return blank if blank >= _BLANK else 0
    if before < 0:
        return 0
    place = len(text) - 1
    while place >= unit and text[place] == text[place - unit]:
        place -= 1
    same = len(text) - 1 - place
    return same if same + unit >= max(_LEAST, unit * _TIMES) else 0

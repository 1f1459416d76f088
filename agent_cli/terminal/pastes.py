"""Long pastes, folded to a word in the input line and unfolded when it is sent."""

from __future__ import annotations

import re

LINES, CHARS = 4, 800
_FOLD = re.compile(r"\[Pasted #(\d{1,9}) (?:\d+ lines?|\d+ characters)\]")


class Pastes:
    """What was pasted in this session, by number."""

    def __init__(self) -> None:
        self._kept: dict[int, str] = {}

    def fold(self, text: str) -> str:
        """What stands for a pasted text in the input: itself, where it is short."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines <= LINES and len(text) <= CHARS:
            return text
        number = len(self._kept) + 1
        self._kept[number] = text
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        return f"[Pasted #{number} {size}]"

    def unfold(self, text: str) -> str:
        """The text with every paste that is still in it."""
        return _FOLD.sub(lambda match: self._kept.get(int(match[1]), match[0]), text)

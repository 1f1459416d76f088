"""Decide when a key answers an open question: never within a sentence, nor as a part of what was pasted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from agent_cli.shells.terminal.app.input_line import InputLine
from agent_cli.shells.terminal.app.output import InlineApp
from agent_cli.shells.terminal.app.question_view import QuestionView

# Seconds without a key before a key answers, and for which a question of consequence is open before a letter does.
QUIET_SECONDS, GRAVE_SECONDS = 0.3, 1.0


class KeyHost(Protocol):
    """What the guard needs from the screen."""

    app: InlineApp
    line: InputLine


class KeyGuard:
    """Distinguishes keys that answer from keys that type.

    A key answers if it came alone, nothing is in the line, and no key came shortly before it. One that came too soon is
    typed, as it may begin a word: it stays if the next key follows at once, and goes if none does. A command that is
    typed behind it replaces it. Pressed again in time, it answers.
    """

    def __init__(self, screen: KeyHost, clock: Callable[[], float]) -> None:
        self._screen, self._clock = screen, clock
        self._view: QuestionView | None = None
        self._opened_at = self._key_at = -QUIET_SECONDS
        self._used = self._answers = False
        # The last key, if it has answered.
        self._answered_with = ""
        # Keys in the line that came too soon to answer.
        self.early = ""
        # Keys that came too soon and have gone since: Enter then says so, and answers only when pressed once more.
        self.gone = ""

    def open(self, view: QuestionView) -> None:
        """Start guarding a question that has appeared."""
        self._view, self._opened_at, self.early, self.gone = view, self._clock(), "", ""

    def close(self, key: str = "") -> None:
        """End guarding. key: the one that has answered."""
        self.forget_early()
        self._view, self._answered_with, self._answers, self._used = None, key, bool(key), False

    def mark_used(self) -> None:
        """Mark the current key as moving in the question, which does not count as typing."""
        self._used = True

    def drop_early(self) -> bool:
        """Remove keys that came too soon from the line, if no other followed them at once; return True if so."""
        if not self.early or not self.is_quiet:
            return False
        gone = self.early
        self.forget_early()
        self.gone = gone
        return True

    def key_pressed(self) -> None:
        """Note a key that was handled."""
        if not self._used:
            self._key_at = self._clock()
        self._answered_with = self._answered_with if self._answers else ""
        self._used = self._answers = False
        self.gone = ""
        text = self._screen.line.buffer.text
        if self.early and text != self.early:
            if text.startswith(f"{self.early}/"):
                self._screen.line.set_text(text.removeprefix(self.early))
            self.early = ""

    def forget_early(self) -> None:
        """Remove keys that came too soon from the line."""
        if self.early and self._screen.line.buffer.text == self.early:
            self._screen.line.clear()
        self.early = ""

    @property
    def is_alone(self) -> bool:
        """True if the current key came alone; several at once are a paste."""
        return self._screen.app.reader.alone

    @property
    def is_quiet(self) -> bool:
        """True if no key came shortly before."""
        return self._clock() - self._key_at >= QUIET_SECONDS

    def is_due(self, key: str) -> bool:
        """Return True if a key answers now."""
        if self._view is None or not self.is_alone or not self.is_quiet:
            return False
        return not self._view.is_grave(key) or self._clock() - self._opened_at >= GRAVE_SECONDS

    @property
    def is_typing(self) -> bool:
        """True if a key came shortly before that was no answer."""
        return not self.is_quiet and not self._answered_with

    def repeats_answer(self, key: str) -> bool:
        """Return True for the key that has just answered the question before, pressed once more."""
        self._answers = key == self._answered_with and not self.is_quiet
        return self._answers

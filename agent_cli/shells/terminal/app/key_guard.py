"""Decide when a key answers an open question: never within a sentence, nor at the start of one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from agent_cli.shells.terminal.app.input_line import InputLine
from agent_cli.shells.terminal.app.output import InlineApp
from agent_cli.shells.terminal.app.question_view import QuestionView
from agent_tools.record import Value

# A letter or digit answers if nothing follows it for this long: the minimum, the maximum for a slow typist, and the
# time for an answer that counts for later calls too.
HOLD_SECONDS, MAX_HOLD_SECONDS, LASTING_HOLD_SECONDS = 0.35, 1.0, 1.0
# Keys with a shorter gap came at once; a longer pause is not part of the typing rhythm.
MIN_PAUSE, THINKING_PAUSE = 0.02, 1.5
# An answer letter typed within this time after a question, before the next, is no message.
STRAY_SECONDS = 2.0
# Number of pauses stored, and needed to determine the user's typing rhythm.
_MAX_PAUSES, _MIN_PAUSES = 40, 8
# Seconds between checks if a held key is due.
_CHECK_SECONDS = 0.05


class HeldKey(Value):
    """A key that waits to answer.

    due: time at which it answers.
    text: its text in the line, before the cursor.
    chosen: the choice that was highlighted before it.
    stray: it was pressed between two questions, and is only removed from the line; pressed again, it answers.
    """

    key: str
    due: float
    text: str
    chosen: int
    stray: bool = False


class KeyHost(Protocol):
    """What the guard needs from the screen."""

    app: InlineApp
    line: InputLine

    def draw_soon(self) -> None:
        """Draw with the next frame."""


class KeyGuard:
    """Distinguishes keys that answer from keys that type. act: applies a key to the open question.

    A letter or digit answers after a moment, unless more is typed: then it is part of a sentence.
    A key pressed before the guard time of the question is over is held until then.
    A held key that is pressed again, in impatience, still answers once: it is not meant for a question not seen yet.
    """

    def __init__(self, screen: KeyHost, clock: Callable[[], float], act: Callable[[str], None]) -> None:
        self._screen, self._clock, self._act = screen, clock, act
        self._view: QuestionView | None = None
        self._asked_at = self._key_at = self._typed_at = 0.0
        self._pauses: deque[float] = deque(maxlen=_MAX_PAUSES)
        self._length = 0
        # The line when the question appeared.
        self._before = ""
        # When the previous question was closed, and whether the line was empty then.
        self._closed_at, self._closed_empty = 0.0, False
        self._used = self._looking = False
        self.held: HeldKey | None = None
        # The text of a key that was held at the start of the line until more was typed.
        self.released = ""

    def open(self, view: QuestionView) -> None:
        """Start guarding a question that has appeared."""
        now, text = self._clock(), self._screen.line.buffer.text
        self._view, self._asked_at = view, now
        self._before, self.held, self.released = text, None, ""
        between = self._closed_empty and now - self._closed_at < STRAY_SECONDS
        if between and text and not text.strip(text[0]) and view.dialog.by_key(text[0]) is not None:
            self._before = ""
            self.held = HeldKey(text[0], now + view.dialog.guard, text, view.chosen, stray=True)
            self._schedule_check()

    def close(self) -> None:
        """End guarding. A held key is dropped: it neither answers the next question nor stays in the line."""
        self._erase()
        self._view = self.held = None
        self._closed_at, self._closed_empty = self._clock(), not self._screen.line.buffer.text

    def mark_used(self) -> None:
        """Mark the current key as acting on the question, not typing."""
        self._used = True

    def key_pressed(self) -> None:
        """Note a key press. One that acts on the question does not count as typing; any other ends a wait."""
        length = len(self._screen.line.buffer.text)
        typed, self._length = length > self._length, length
        if typed:
            now = self._clock()
            if MIN_PAUSE < now - self._typed_at < THINKING_PAUSE and not self._used:
                self._pauses.append(now - self._typed_at)
            self._typed_at = now
        if self._used:
            self._used = False
        elif not self._pending:
            self._key_at = self._clock()
            self._release_held()

    def _hold_time(self, key: str) -> float:
        """Return how long a key is held: longer than the user's usual pause between two keys."""
        assert self._view is not None
        choice = self._view.dialog.by_key(key)
        if choice is not None and choice.lasting and key.isalpha():
            return LASTING_HOLD_SECONDS
        if len(self._pauses) < _MIN_PAUSES:
            return HOLD_SECONDS
        usual = sorted(self._pauses)[len(self._pauses) * 4 // 5]
        return min(max(HOLD_SECONDS, usual * 1.3), MAX_HOLD_SECONDS)

    def typed_within(self, seconds: float) -> bool:
        """Return True if a key was typed within the last seconds."""
        return self._clock() - self._key_at <= seconds

    @property
    def is_over(self) -> bool:
        """True if the question has been open, and nothing was typed, for its guard time."""
        if self._view is None:
            return False
        return self.is_seen and self._clock() - self._key_at >= self._view.dialog.guard

    @property
    def is_seen(self) -> bool:
        """True if the question has been open for its guard time."""
        return self._view is not None and self._clock() - self._asked_at >= self._view.dialog.guard

    @property
    def is_at_start(self) -> bool:
        """True if nothing was typed since the question appeared. After the guard time, an earlier draft is allowed."""
        return not self._screen.line.buffer.text.strip() or (self._is_unchanged and self.is_over)

    @property
    def is_typing_message(self) -> bool:
        """True while the line has text typed since the question appeared."""
        return bool(self._screen.line.buffer.text.strip()) and self.held is None and not self._is_unchanged

    @property
    def _is_unchanged(self) -> bool:
        return self._screen.line.buffer.text == self._before

    def repeats_held(self, key: str) -> bool:
        """Return True if the key is the one that is held and shown in the line."""
        return self.held is not None and self.held.key == key and bool(self.held.text)

    def hold(self, key: str, *, types: bool) -> None:
        """Act on a key if nothing follows it. types: it is shown in the line meanwhile."""
        assert self._view is not None
        buffer, view = self._screen.line.buffer, self._view
        waiting, guard = self.held, view.dialog.guard
        if waiting is not None and self.repeats_held(key):
            buffer.insert_text(key)
            due = max(waiting.due, self._clock() + self._hold_time(key))
            self.held = waiting.replace(due=due, text=waiting.text + key, stray=False)
            self.mark_used()
            view.highlight(key)
            return
        self._release_held()
        self.mark_used()
        if waiting is not None and not types:
            return
        harmless = view.dialog.from_command and key == view.dialog.escape and self.is_over
        if not guard or harmless:
            self._act(key)
            return
        delay = self._hold_time(key)
        if not self.is_over or buffer.text:
            delay = max(delay, guard)
        if types:
            buffer.insert_text(key)
        self.held = HeldKey(key, self._clock() + delay, key if types else "", view.chosen)
        view.highlight(key)
        self._schedule_check()
        self._screen.draw_soon()

    def hold_line(self, key: str) -> None:
        """Act on a line that is the answer of a key and came at once with its Enter, if nothing follows it."""
        assert self._view is not None
        chosen = self._view.chosen if self.held is None else self.held.chosen
        self._screen.line.buffer.insert_text("\n")
        due = self._clock() + max(self._hold_time(key), 0 if self.is_seen else self._view.dialog.guard)
        if self.held is not None:
            due = max(due, self.held.due)
        self.held = HeldKey(key, due, self._screen.line.buffer.document.text_before_cursor, chosen)
        self._view.highlight(key)
        self.mark_used()
        self._schedule_check()
        self._screen.draw_soon()

    def press(self, key: str) -> None:
        """Handle a key that types nothing: at once, or after the guard time if the user was not typing before it."""
        assert self._view is not None
        self.mark_used()
        guard = self._view.dialog.guard
        if self.is_over:
            self._act(key)
        elif not self.typed_within(guard):
            self.held = HeldKey(key, self._asked_at + guard, "", self._view.chosen)
            self._schedule_check()

    def confirm(self) -> bool:
        """Act on the held key now, on Enter; return False if there is none, or the guard time is not over."""
        if self.held is None or self.held.stray or not self.is_over:
            return False
        self._act_on_held()
        self.mark_used()
        return True

    @property
    def _pending(self) -> bool:
        """True while a key, such as Escape, may begin a sequence, so that its meaning is not known yet."""
        return bool(self._screen.app.key_processor.key_buffer)

    def _release_held(self) -> None:
        """Treat the held key as typed text."""
        if self.held is not None and self._view is not None:
            self._view.chosen = self.held.chosen
            self.released = "" if self._before.strip() else self.held.text
            self._screen.draw_soon()
        self.held = None

    def without_held(self, text: str) -> str:
        """Return the text of the line without a held key."""
        return self._before if self.held is not None and self.held.text else text

    def _erase(self) -> None:
        """Remove the held key from the line."""
        if self.held is not None and self.held.text:
            self._screen.line.buffer.delete_before_cursor(len(self.held.text))

    def _act_on_held(self) -> None:
        self._erase()
        held, self.held = self.held, None
        assert held is not None
        if held.stray:
            self._screen.draw_soon()
        else:
            self._act(held.key)
        self._used = False

    def _schedule_check(self) -> None:
        """Act on the held key once it is due."""
        loop = self._screen.app.loop
        if self.held is None or self._looking or loop is None:
            return
        self._looking = True

        def look() -> None:
            self._looking = False
            if self.held is None:
                return
            if self._clock() >= self.held.due and not self._screen.app.away and not self._pending:
                self._act_on_held()
            else:
                self._schedule_check()

        loop.call_later(_CHECK_SECONDS, look)

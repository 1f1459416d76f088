"""When a key answers an open question: never while a sentence is being typed, nor if it begins one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from agent_cli.terminal.app.input_line import InputLine
from agent_cli.terminal.app.output import InlineApp
from agent_cli.terminal.app.question_view import QuestionView
from agent_tools.record import Value

# Seconds in which nothing may follow a letter or digit that answers: at least, and for a slow typist; and where the
# answer counts for later calls too.
HOLD, LONGEST_HOLD, LASTING_HOLD = 0.35, 1.0, 1.0
# Keys that follow each other faster were not pressed one by one; after a longer pause another thought begins.
TOGETHER, PAUSE = 0.02, 1.5
# Pauses between keys that are remembered, and how many are needed to know the rhythm of the user.
_REMEMBERED, _NEEDED = 40, 8
# Seconds between two looks at whether a held key is due.
_LOOK = 0.05


class HeldKey(Value):
    """A key that waits to answer.

    due: when it answers.
    text: what stands for it in the line, before the cursor.
    chosen: what was highlighted before it.
    """

    key: str
    due: float
    text: str
    chosen: int


class KeyHost(Protocol):
    """What the guard needs from the screen."""

    app: InlineApp
    line: InputLine

    def draw_soon(self) -> None:
        """Draw with the next frame."""


class KeyGuard:
    """Tells keys that answer from keys that type. act: applies a key to the open question.

    A letter or digit answers a moment later, unless more is typed: what comes fast, or at once, is a sentence.
    A key pressed before the guard of the question is over is held until then.
    """

    def __init__(self, screen: KeyHost, clock: Callable[[], float], act: Callable[[str], None]) -> None:
        self._screen, self._clock, self._act = screen, clock, act
        self._view: QuestionView | None = None
        self._asked_at = self._key_at = self._typed_at = 0.0
        self._pauses: deque[float] = deque(maxlen=_REMEMBERED)
        # The key before was text, and read together with the next one.
        self._joined = False
        self._length, self._dropped = 0, False
        # The line when the question appeared.
        self._before = ""
        self._used = self._looking = False
        self.held: HeldKey | None = None

    def open(self, view: QuestionView) -> None:
        """A question has appeared."""
        self._view, self._asked_at = view, self._clock()
        self._before, self.held = self._screen.line.buffer.text, None

    def close(self) -> None:
        """The question is over: a key that is still held neither answers the next one nor stays in the line."""
        self._erase()
        self._view = self.held = None

    def used(self) -> None:
        """The key being handled acts on the question and types nothing."""
        self._used = True

    def key_pressed(self) -> None:
        """Note a key press. One that acts on the question does not count as typing; any other ends a wait."""
        length = len(self._screen.line.buffer.text)
        typed, self._length, self._dropped = self._dropped or length > self._length, length, False
        self._joined = typed and self.more
        if typed:
            now = self._clock()
            if TOGETHER < now - self._typed_at < PAUSE:
                self._pauses.append(now - self._typed_at)
            self._typed_at = now
        if self._used:
            self._used = False
        elif not self._pending:
            self._key_at = self._clock()
            self._release()

    @property
    def more(self) -> bool:
        """True if text was read together with the key being handled, and comes after it: both are part of a paste."""
        waiting = self._screen.app.key_processor.input_queue
        return any(press.data.isprintable() or press.key in ("c-m", "c-j") for press in waiting)

    def drop(self) -> None:
        """The key being handled is part of a paste, and not put into the line."""
        self._dropped = True

    @property
    def joined(self) -> bool:
        """True if the key being handled came at once with text before it, as no user presses them."""
        return self._joined or self._clock() - self._typed_at < TOGETHER

    def _hold_time(self, key: str) -> float:
        """Return the seconds for which a key is held: longer than the usual pause between two keys of the user."""
        assert self._view is not None
        choice = self._view.dialog.by_key(key)
        if choice is not None and choice.lasting and key.isalpha():
            return LASTING_HOLD
        if len(self._pauses) < _NEEDED:
            return HOLD
        usual = sorted(self._pauses)[len(self._pauses) * 4 // 5]
        return min(max(HOLD, usual * 1.3), LONGEST_HOLD)

    def typing(self, seconds: float) -> bool:
        """Return True if a key was typed within the last seconds."""
        return self._clock() - self._key_at <= seconds

    @property
    def over(self) -> bool:
        """True if the question has been there, and nothing was typed, for the time of its guard."""
        if self._view is None:
            return False
        return self.seen and self._clock() - self._key_at >= self._view.dialog.guard

    @property
    def seen(self) -> bool:
        """True if the question has been there for the time of its guard."""
        return self._view is not None and self._clock() - self._asked_at >= self._view.dialog.guard

    @property
    def at_start(self) -> bool:
        """True where nothing was typed since the question appeared. After the guard a draft from before may stand."""
        return not self._screen.line.buffer.text.strip() or (self._stands and self.over)

    @property
    def typing_message(self) -> bool:
        """True while the line holds what was begun since the question appeared."""
        return bool(self._screen.line.buffer.text.strip()) and self.held is None and not self._stands

    @property
    def _stands(self) -> bool:
        return self._screen.line.buffer.text == self._before

    def hold(self, key: str, *, types: bool) -> None:
        """Act on a key if nothing follows it. types: it stands in the line meanwhile."""
        assert self._view is not None
        buffer, view = self._screen.line.buffer, self._view
        if self._joined:
            # The end of a paste.
            buffer.insert_text(key if types else "")
            return
        waiting, guard = self.held is not None, view.dialog.guard
        self._release()
        self.used()
        if waiting and not types:
            return
        harmless = view.dialog.own and key == view.dialog.escape and self.over
        if not guard or harmless:
            self._act(key)
            return
        delay = self._hold_time(key)
        if not self.over or buffer.text:
            delay = max(delay, guard)
        if types:
            buffer.insert_text(key)
        self.held = HeldKey(key, self._clock() + delay, key if types else "", view.chosen)
        view.highlight(key)
        self._look()
        self._screen.draw_soon()

    def hold_line(self, key: str) -> None:
        """Act on the line, which gives the answer of a key and came at once with its Enter, if nothing follows it."""
        assert self._view is not None
        chosen = self._view.chosen if self.held is None else self.held.chosen
        self._screen.line.buffer.insert_text("\n")
        due = self._clock() + max(self._hold_time(key), 0 if self.seen else self._view.dialog.guard)
        if self.held is not None:
            due = max(due, self.held.due)
        self.held = HeldKey(key, due, self._screen.line.buffer.document.text_before_cursor, chosen)
        self._view.highlight(key)
        self.used()
        self._look()
        self._screen.draw_soon()

    def press(self, key: str) -> None:
        """Take a key that types nothing: at once, or when the guard is over if nobody was typing before it."""
        assert self._view is not None
        self.used()
        guard = self._view.dialog.guard
        if self.over:
            self._act(key)
        elif not self.typing(guard):
            self.held = HeldKey(key, self._asked_at + guard, "", self._view.chosen)
            self._look()

    def confirm(self) -> bool:
        """Act on the held key now, for Enter after it; False if there is none, or the guard is not over."""
        if self.held is None or not self.over:
            return False
        self._take()
        self.used()
        return True

    @property
    def _pending(self) -> bool:
        """True while a key may begin a sequence, as Escape does: what it means is not known yet."""
        return bool(self._screen.app.key_processor.key_buffer)

    def _release(self) -> None:
        """Let the held key be what it typed."""
        if self.held is not None and self._view is not None:
            self._view.chosen = self.held.chosen
            self._screen.draw_soon()
        self.held = None

    def draft_of(self, text: str) -> str:
        """Return the text of the line without a key in it that is about to answer."""
        return self._before if self.held is not None and self.held.text else text

    def _erase(self) -> None:
        """Take the held key out of the line."""
        if self.held is not None and self.held.text:
            self._screen.line.buffer.delete_before_cursor(len(self.held.text))

    def _take(self) -> None:
        self._erase()
        held, self.held = self.held, None
        assert held is not None
        self._act(held.key)
        self._used = False

    def _look(self) -> None:
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
                self._take()
            else:
                self._look()

        loop.call_later(_LOOK, look)

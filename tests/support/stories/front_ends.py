"""The front ends behind one set of words: here the application and the line front end, in `headless` the third.

Nothing waits for a time: it waits for words on the screen, or the end of a process.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from tests.support.pty_screen import GRAVE_REST, Drawn
from tests.support.pty_session import plain
from tests.support.slow_line import Speed

PATIENCE = 60.0
# So long the program may wait for the user before it is clear that something else is waited for in vain.
STARES = 20.0
COLUMNS = 80


class Front(ABC):
    """One front end in a folder. flags: of every process that is started. stop: what has gone wrong elsewhere, if any.

    Words are looked for in `text`, without blanks and line ends, since a screen wraps where it likes.
    """

    def __init__(self, work: Path, env: dict[str, str], flags: list[str], stop: Callable[[], list[str]]) -> None:
        self.work = work
        self.env = env
        self.flags = flags
        self._stop = stop
        self._before = ""
        # Of the line to the terminal, if it is not a local one.
        self.speed: Speed | None = None

    @property
    def text(self) -> str:
        """All that was shown, in this process and those before it."""
        return self._before + self.shown()

    @abstractmethod
    def shown(self) -> str:
        """What the process that runs has shown."""

    @abstractmethod
    def open(self, *flags: str) -> None:
        """Start the program."""

    @abstractmethod
    def say(self, text: str) -> None:
        """Send a message or a slash command."""

    @abstractmethod
    def shows(self, *words: str) -> str:
        """Wait until these words have been shown, and return all that was."""

    @abstractmethod
    def asked(self, *words: str) -> str:
        """Wait until a question is open and shows these words; what was shown since it was started or last asked."""

    @abstractmethod
    def answer(self, verdict: str) -> None:
        """Answer the question that is open: y, n, a key, or words that say what to do instead."""

    @abstractmethod
    def accept(self, mode: str) -> None:
        """Approve the plan that is open, and go on in this mode."""

    @abstractmethod
    def undo(self, files: int) -> None:
        """Take back the last turn, which changed so many files."""

    @abstractmethod
    def settled(self) -> None:
        """Wait until the turn is over."""

    @abstractmethod
    def leave(self) -> str:
        """End it as a user would; all that was shown."""

    @abstractmethod
    def kill(self) -> None:
        """kill -9, whatever it is doing."""

    @abstractmethod
    def hang_up(self) -> None:
        """The terminal goes away."""

    def resume(self) -> None:
        """Go on with the latest session in another process."""
        self.open("-c")

    def key(self, key: str) -> None:
        """Press a key, as it is."""
        raise AssertionError(f"{type(self).__name__} has no keys: press them in the application")

    def has(self, words: str) -> bool:
        """Whether these words have been shown."""
        return flat(words) in flat(self.text)

    def check(self) -> None:
        """Raise AssertionError where something has gone wrong elsewhere."""
        assert not self._stop(), "\n".join([*self._stop(), self.text])


class Terminal(Front):
    """What the two front ends in a terminal share: the program in a pty."""

    screen: Drawn | None = None

    def shown(self) -> str:
        return self.screen.text() if self.screen else ""

    def open(self, *flags: str) -> None:
        assert self.screen is None, "it is open already"
        self.screen = Drawn([*self.flags, *flags], self.work, COLUMNS, 40, speed=self.speed, **self.env)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Read the screen until this holds; fail early where the program has ended or waits for the user."""
        if holds():
            return
        assert self.screen, f"the program has ended before {what}:\n{self.text}"
        end = time.monotonic() + PATIENCE
        waits = 0.0
        while not holds():
            self.check()
            while not self.screen.read(0.3):
                assert self.screen.child.poll() is None, f"the program ended before {what}:\n{self.text}"
                now = time.monotonic()
                waits = waits or now if self.question() or self.idle() else 0.0
                assert not waits or now < waits + STARES, f"it waits for the user before {what}:\n{self.text}"
                assert now < end, f"{what} did not come:\n{self.text}"
                self.check()

    @abstractmethod
    def question(self) -> str:
        """What asks for an answer now; empty where nothing does."""

    @abstractmethod
    def idle(self) -> bool:
        """Whether no turn runs and nothing is asked."""

    def settled(self) -> None:
        self.until(self.idle, "the end of the turn")

    def shows(self, *words: str) -> str:
        for each in words:
            self.until(lambda each=each: self.has(each), repr(each))  # type: ignore[misc]
        return self.text

    def kill(self) -> None:
        assert self.screen
        self.screen.child.kill()
        self._gone()

    def hang_up(self) -> None:
        assert self.screen
        self.screen.hang_up()
        self._gone()

    def leave(self) -> str:
        assert self.screen
        self.settled()
        self.screen.type("\x04")
        self._drain()
        assert self.screen.child.returncode == 0, self.text
        self._gone()
        return self.text

    def _drain(self) -> None:
        """Read the screen until the program has ended."""
        assert self.screen
        end = time.monotonic() + PATIENCE
        while self.screen.read(0.05) or self.screen.child.poll() is None:
            assert time.monotonic() < end, f"the program did not end:\n{self.text}"

    def close(self) -> None:
        """End what still runs, after a story that failed."""
        if self.screen:
            self.screen.__exit__()
            self.screen = None

    def key(self, key: str) -> None:
        assert self.screen
        self.screen.type(key)
        self.screen.rest(GRAVE_REST)

    def undo(self, files: int) -> None:
        self.settled()
        before = flat(self.text).count("Reverted")
        self.say("/undo")
        self.pick("Undo?", "yes")
        self.until(lambda: flat(self.text).count("Reverted") > before, "the account of the undo")
        self.shows(f"Reverted {files_put_back(files)}.")

    @abstractmethod
    def pick(self, question: str, option: str) -> None:
        """Wait for a menu, and take the option with these words."""

    def _gone(self) -> None:
        assert self.screen
        self._before = self.text + "\n"
        self.screen.child.wait(PATIENCE)
        self.screen.__exit__()
        self.screen = None


class Application(Terminal):
    """The application on a screen of 80 columns."""

    name = "application"

    def open(self, *flags: str) -> None:
        super().open(*flags)
        self.until(lambda: self.screen is not None and b"\x1b[?2004h" in self.screen.raw, "the prompt")

    def say(self, text: str) -> None:
        screen = self.screen
        assert screen
        # A line in the same read as the Enter of another would be a paste.
        end = text[-12:]
        screen.type(text)
        self.until(lambda: screen.input_line().endswith(end), f"{text!r} in the line")
        screen.type("\r")
        self.until(lambda: not end or not screen.input_line().endswith(end), f"{text!r} to be sent")

    def asked(self, *words: str) -> str:
        assert self.screen
        self.until(lambda: bool(self.question()), f"a question with {words}")
        return self.shows(*words)

    def answer(self, verdict: str) -> None:
        assert self.screen
        self.screen.rest(GRAVE_REST)
        # Only now: the question that was there before may have been one that was just answered.
        bar, before = self.question(), self.above()
        if len(verdict) == 1:
            self._press(verdict, bar, before)
        else:
            key, _, words = verdict.partition(" ")
            key, words = (key, words) if len(key) == 1 else ("r", verdict)
            self._press(key, bar, before)
            self.until(lambda: self.question() != bar, "the line for words")
            self.screen.line(words)
        # The next question may have the same keys, and come before the screen is read without one.
        self.until(lambda: self.question() != bar or self.above() != before, f"the end of the question {bar!r}")

    def _press(self, key: str, bar: str, before: str) -> None:
        """Press a key of the question; once more where the program, slow under load, still took it for typing."""
        assert self.screen
        for _ in range(3):
            self.screen.type(key)

            def done(bar: str = bar, before: str = before) -> bool:
                return self._too_quick() or self.question() != bar or self.above() != before

            self.until(done, f"what became of {key!r}")
            if not self._too_quick():
                return
            # The key goes out of the line by itself.
            self.screen.rest(GRAVE_REST)
            bar, before = self.question(), self.above()

    def _too_quick(self) -> bool:
        """Whether a key came too soon to be an answer."""
        return "too quick to be an answer" in self.visible()

    def accept(self, mode: str) -> None:
        assert mode == "acceptEdits", "no other mode has a key"
        self.answer("a")

    def clear(self) -> None:
        """Empty the line."""
        self.settled()
        self.key("\x03")

    def pick(self, question: str, option: str) -> None:
        assert self.screen
        ends = ("Esc cancel", "Esc no", "q close")
        self.until(lambda: flat(question) in flat(self.visible()) and any(e in self.visible() for e in ends), question)
        self.screen.rest(GRAVE_REST)
        listed = re.search(rf"(?im)^[❯ ] (\w)  {re.escape(option)}\b", self.visible())
        if self.visible().endswith("q close"):
            for keys in (f"/{option}", "\r", "\r"):
                self.screen.type(keys)
                self.screen.rest(GRAVE_REST)
        elif listed:
            self._press(listed[1], self.question(), self.above())
        else:
            self.screen.line(option)

    def idle(self) -> bool:
        return "to interrupt" not in self.visible() and not self.question()

    def visible(self) -> str:
        return self.screen.visible() if self.screen else ""

    def above(self) -> str:
        """What was said before the question that is open, and its own text."""
        return flat(self.shown()[: -len(block)]) if (block := self._block()) else flat(self.shown())

    def question(self) -> str:
        """The open question with its choices and keys, if any."""
        return flat(self._block().rpartition("Esc ")[0])

    def _block(self) -> str:
        """The screen from the beginning of the open question on."""
        text = self.visible()
        keys = [match.start() for match in re.finditer(r"^  .*\bEsc (?!to )", text, re.MULTILINE)]
        return text[text.rfind("\n───", 0, keys[-1]) + 1 :] if keys else ""


class Lines(Terminal):
    """The line front end."""

    name = "lines"
    _mark = 0

    def open(self, *flags: str) -> None:
        self._mark = 0
        super().open("--plain", *flags)
        self.until(lambda: self.rest.endswith(("> ", "? ")), "the prompt or a question")

    def shown(self) -> str:
        return plain(self.screen.raw.decode("utf-8", "replace")) if self.screen else ""

    @property
    def rest(self) -> str:
        """What came since something was last typed."""
        return self.shown()[self._mark :]

    def say(self, text: str) -> None:
        self.settled()
        self._type(text)

    def asked(self, *words: str) -> str:
        self.until(lambda: bool(self.question()), f"a question with {words}")
        for each in words:
            assert flat(each) in flat(self.rest), f"{each!r} is not in the question:\n{self.rest}"
        return self.rest

    def answer(self, verdict: str) -> None:
        self._type(verdict)

    def accept(self, mode: str) -> None:
        self._type(f"y {mode}")

    def clear(self) -> None:
        """Empty the line, which is empty here."""

    def pick(self, question: str, option: str) -> None:
        self.asked(question)
        assert self.screen
        self.screen.rest(GRAVE_REST)  # what is typed as the question comes is no answer to it
        self._type(option)

    def idle(self) -> bool:
        return self.rest.endswith("> ")

    def question(self) -> str:
        found = re.search(r"[^\n]*(\?|\]) $", self.rest)
        return found[0] if found else ""

    def _type(self, text: str) -> None:
        assert self.screen
        self._mark = len(self.shown())
        self.screen.line(text)


def files_put_back(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def flat(text: str) -> str:
    """Without blanks, and without the bars and indents that wrapping puts between words."""
    return re.sub(r"\s+", "", text)

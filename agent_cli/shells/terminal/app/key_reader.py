"""Read the terminal: keys, its answers to questions, and what was pasted.

Only here it is known what came together, so only here it is decided whether an Enter was pressed or pasted. All other
code gets keys, and a paste as one key.
"""

from __future__ import annotations

import os
import re
import select
from collections.abc import Callable
from itertools import groupby
from typing import TextIO

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from agent_cli.shells.terminal.app.key_codes import translate_keys

# Alt-Enter and Shift-Enter.
NEWLINE = Keys.F23
ANSI_SEQUENCES.update({"\x1b\r": NEWLINE, "\x1b\n": NEWLINE})

# Where the terminal does not mark a paste (some multiplexers, terminals in a browser, consoles of Windows), it is told
# from keys by its pace. A burst ends when nothing has come for `QUIET_SECONDS`. The characters of a paste are at most 8
# to 15 ms apart (openai/codex#2544 and #9348, google-gemini/gemini-cli#16440), two keys of the fastest typists 60 ms
# (Dhakal et al., Observations on Typing from 136 Million Keystrokes, CHI 2018). A long paste comes in several reads,
# which may be farther apart.
QUIET_SECONDS, LONG_QUIET_SECONDS, _LONG_KEYS = 0.03, 0.12, 64
# The Enter at the end of a burst of one line was pressed: programs type so. One with more behind it was pasted, as to
# send a paste line by line costs more than to press Enter again. It was pressed, and the rest typed ahead on a slow
# connection, only if there is no other, it ends a line that was begun by hand, and
# - it is the first key of its burst, or
# - the burst is as short as what a slow connection usually delivers at once, or
# - the terminal marks what it pastes, and the burst can have been typed since the last key: at 15 keys a second (180
#   words a minute), on a connection that stood still for 5 s at most.
_FEW_KEYS, _KEYS_PER_SECOND, _LONGEST_STALL_SECONDS = 10, 15, 5.0
_LINE_ENDS = (Keys.ControlM, Keys.ControlJ)

# The answers to the questions for the background (OSC 11), and whether pastes are marked (DECRQM). Their beginning may
# have been read separately, and taken for a key.
BACKGROUND_ANSWER = re.compile(r"(?:\x1b?\])?11;(rgba?:[0-9a-fA-F/]+)(?:\x07|\x1b\\)")
_PASTE_ANSWER = re.compile(r"(?:\x1b?\[)?\?2004;(\d)\$y")
# The answer to the question for the cursor, with its row (CPR).
CURSOR_ANSWER = re.compile(r"\x1b\[(\d+);\d+R")
_PARTIAL_ANSWER = re.compile(r"\x1b(?:\]1(?:1(?:;(?:r[gba:0-9a-fA-F/]*\x1b?)?)?)?|\[(?:\?[\d;$]*|\d[\d;]*))$")
_ASK_PASTE = "\x1b[?2004$p"
_PASTE_BEGINS, _PASTE_ENDS = "\x1b[200~", "\x1b[201~"
# How tmux 3.5 passes on the line ends and tabs of a paste, where it uses CSI u.
_PASTED_KEY = re.compile(r"\x1b\[(9|10|13)(?:;1)?u")
_PARTIAL_KEY = re.compile(r"\x1b(?:\[[\d;:]*)?$")
_READ_BYTES = 4096


class AnswerFilter:
    """Removes the terminal's answers from its input, whenever they come; everything else is keys."""

    def __init__(self) -> None:
        self._expected: dict[re.Pattern[str], Callable[[str], None]] = {}
        self._buffer = ""

    def expect(self, answer: re.Pattern[str], found: Callable[[str], None]) -> None:
        """Remove an answer, once, and call `found` with its first group."""
        self._expected[answer] = found

    def keys(self, data: str) -> str:
        """Return the data without answers. A partial answer is buffered until the rest comes."""
        data, self._buffer = self._buffer + data, ""
        for answer in list(self._expected):
            if match := answer.search(data):
                self._expected.pop(answer)(match[1])
                data = data[: match.start()] + data[match.end() :]
        if self._expected and (partial := _PARTIAL_ANSWER.search(data)):
            self._buffer = partial[0]
            return data[: partial.start()]
        return data


class KeyReader(Vt100Input):
    """The keys of a terminal.

    marks_pastes: it is known that the terminal marks what it pastes.
    at_once: the Enter that is handled now came in one burst with text before it, as programs type a line.
    alone: the key that is handled now came in a burst of its own.
    """

    def __init__(self, terminal: TextIO, clock: Callable[[], float]) -> None:
        super().__init__(terminal)
        self._terminal, self._clock = terminal, clock
        self.answers = AnswerFilter()
        self.marks_pastes = self.at_once = False
        self.alone = True
        self._burst = 0
        # The beginning of a sequence; the text of a marked paste that has not ended.
        self._partial = ""
        self._paste: str | None = None
        # Keys of the burst from the first line with an Enter on, and how many keys of text it has.
        self._held: list[KeyPress] = []
        self._count = 0
        self._read_at = self._silence = 0.0
        # The line was begun by hand: few keys came at once, and no Enter or paste since.
        self._by_hand = False

    def for_view(self) -> KeyReader:
        """Return a reader of the same terminal for a view, so that no key of it ends a burst of this one.

        The application of this reader may still have a timer for its last burst, which would take an Esc from the view.
        """
        view = KeyReader(self._terminal, self._clock)
        view.answers, view.marks_pastes = self.answers, self.marks_pastes
        return view

    def ask_paste(self) -> str:
        """Return what asks the terminal whether it marks pastes, at the start of an empty row.

        A terminal that does not know the question may show its last letter, which is erased.
        """

        def found(state: str) -> None:
            self.marks_pastes = self.marks_pastes or state in ("1", "2", "3")

        self.answers.expect(_PASTE_ANSWER, found)
        return f"{_ASK_PASTE}\r\x1b[K"

    @property
    def quiet_seconds(self) -> float:
        """Seconds without a key that end the burst."""
        return LONG_QUIET_SECONDS if self._count >= _LONG_KEYS else QUIET_SECONDS

    @property
    def between_bursts(self) -> bool:
        """True if the next key begins a burst."""
        return not self._count and not self._held

    def read_keys(self) -> list[KeyPress]:
        """Return the keys that can be read, except those whose meaning depends on what follows."""
        keys = self._sort(self._parse(self.stdin_reader.read(_READ_BYTES)))
        return [*keys, *self._end_burst()] if self.closed else keys

    def flush_keys(self) -> list[KeyPress]:
        """End the burst, as nothing has come for `quiet_seconds`, and return the keys that were held."""
        self.vt100_parser.feed(self._partial)
        self._partial = ""
        self.vt100_parser.flush()
        return [*self._sort(self._take()), *self._end_burst()]

    def read_typed_ahead(self) -> list[KeyPress]:
        """Return what was typed before the terminal was in raw mode, in which Enters arrived as line feeds.

        Call before the application reads.
        """
        number, keys = self.fileno(), list[KeyPress]()
        while os.isatty(number) and select.select([number], [], [], 0)[0]:
            data = self.stdin_reader.read(_READ_BYTES)
            if not data:
                break
            keys += self._sort(self._parse(data.replace("\n", "\r")))
        return [*keys, *self._end_burst()]

    def _parse(self, data: str) -> list[KeyPress]:
        """Return the keys in data from the terminal; the beginning of a sequence at its end waits for the rest."""
        data, self._partial = self.answers.keys(self._partial + data), ""
        keys: list[KeyPress] = []
        while data:
            if self._paste is None:
                text, begins, data = data.partition(_PASTE_BEGINS)
                if not begins and (partial := _PARTIAL_KEY.search(text)):
                    text, self._partial = text[: partial.start()], partial[0]
                for piece in translate_keys(text):
                    self.vt100_parser.feed(piece)
                    if piece == "\x1b":
                        # The Escape key, which the next key does not make an Alt.
                        self.vt100_parser.flush()
                        self.vt100_parser.feed_key_callback(KeyPress(Keys.Ignore, ""))
                keys += self._take()
                self._paste = "" if begins else None
            else:
                self._paste, ends, data = (self._paste + data).partition(_PASTE_ENDS)
                if ends:
                    keys.append(KeyPress(Keys.BracketedPaste, _PASTED_KEY.sub(lambda m: chr(int(m[1])), self._paste)))
                    self._paste = None
        return keys

    def _take(self) -> list[KeyPress]:
        """Return what the parser has found."""
        keys, self._buffer = self._buffer, []
        return keys

    def _sort(self, keys: list[KeyPress]) -> list[KeyPress]:
        """Return the keys that act now; hold text from a line with an Enter on until its burst ends."""
        now = self._clock()
        if self.between_bursts:
            self._silence, self._burst = now - self._read_at, 0
        self._burst += sum(key.key != Keys.Ignore for key in keys)
        self.alone = self._burst == 1
        self._read_at, self.at_once = now, False
        sorted_keys: list[KeyPress] = []
        for is_text, group in groupby(keys, _is_text):
            run = list(group)
            if not is_text:
                sorted_keys += [*self._end_burst(), *run]
                if any(key.key == Keys.BracketedPaste for key in run):
                    self.marks_pastes, self._by_hand = True, False
                continue
            self._count += len(run)
            if self._held or any(key.key in _LINE_ENDS for key in run):
                self._held += run
            elif len(run) >= _FEW_KEYS and any(key.key == Keys.ControlI for key in run[:-1]):
                # The indentation of a pasted line.
                sorted_keys.append(_as_paste(run))
                self._by_hand = False
            else:
                sorted_keys += run
        return sorted_keys

    def _end_burst(self) -> list[KeyPress]:
        """End the burst; return the keys that were held, or the paste that they are."""
        held, count, self._held, self._count = self._held, self._count, [], 0
        if not held:
            self._by_hand = 0 < count < _FEW_KEYS or (self._by_hand and not count)
            return []
        end = next(n for n, key in enumerate(held) if key.key in _LINE_ENDS)
        before, behind = count - len(held) + end, held[end + 1 :]
        pressed = not behind or self._was_pressed(before, behind)
        self.at_once, self._by_hand = pressed and before > 0, pressed and bool(behind)
        return held if pressed else [_as_paste(held)]

    def _was_pressed(self, before: int, behind: list[KeyPress]) -> bool:
        """Return True if an Enter with more behind it was pressed. before: keys of text before it in its burst."""
        while behind and behind[-1].key in _LINE_ENDS:
            behind = behind[:-1]  # pressed twice
        if not self._by_hand or any(key.key in _LINE_ENDS for key in behind):
            return False
        count = before + 1 + len(behind)
        typed = _KEYS_PER_SECOND * min(self._silence, _LONGEST_STALL_SECONDS)
        return not before or count < _FEW_KEYS or (self.marks_pastes and count <= typed)


def _is_text(key: KeyPress) -> bool:
    """Return True for a key that a paste may have typed."""
    return len(key.key) == 1 or key.key in (*_LINE_ENDS, Keys.ControlI)


def _as_paste(keys: list[KeyPress]) -> KeyPress:
    return KeyPress(Keys.BracketedPaste, "".join(key.data for key in keys))

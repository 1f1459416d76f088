"""The screen of a program in a terminal: what it has drawn, from the bytes that it wrote.

A model that reads the bytes of an editor or a menu without their positions understands nothing. Only what moves and
erases text is interpreted, not colors. pyte does the same, is under the LGPL, and is compared with this in the tests.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Callable

# A program that sends one of these draws: it uses the other screen, or places the cursor.
_DRAWS = rb"\x1b\[(?:\?(?:1049|1047|47)h|\d*(?:;\d*)?[HfAd]|[0-3]?J)|\x1bM"
_TOKEN = (
    r"\x1b\[([<-?]*)([\d;:]*)([ -/]*)([@-~])"  # CSI
    r"|\x1b([\]PX^_])[^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC and other strings
    r"|\x1b([()*+])(.)|\x1b([ -/]*[0-~])"  # character sets, two characters
    r"|([\x00-\x1a\x1c-\x1f\x7f])|([^\x00-\x1f\x7f]+)"
)
# The beginning of a sequence whose rest has not arrived.
_UNFINISHED = r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[()*+]?|[ -/]*)\Z"
_LINES = str.maketrans("`afgijklmnopqrstuvwxyz{|}~", "◆▒°±␤┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")
_MAX_COUNT = 10_000


def draws(data: bytes) -> bool:
    """Return True if a program draws on the screen instead of writing lines."""
    return b"\x1b" in data and re.search(_DRAWS, data) is not None


class Screen:
    """The characters of a terminal and its cursor."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        # Arrow keys are to be sent as of a keypad (DECCKM).
        self.keypad = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._other: list[list[str]] | None = None
        self._reset()

    def _reset(self) -> None:
        self._cells = [self._blank() for _ in range(self.rows)]
        self._row = self._column = 0
        self._top, self._bottom = 0, self.rows - 1
        self._saved = (0, 0)
        self._wraps, self._inserts = True, False
        self._charsets, self._charset = [False, False], 0
        self._last = " "

    def _blank(self) -> list[str]:
        return [" "] * self.columns

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self._cells]

    @property
    def is_other(self) -> bool:
        """True if the program uses the other screen, as editors and menus do."""
        return self._other is not None

    @property
    def cursor(self) -> tuple[int, int]:
        """Row and column, from 1."""
        return self._row + 1, min(self._column, self.columns - 1) + 1

    def text(self) -> str:
        """Return what is on the screen, without empty lines at its end, and where the cursor is."""
        row, column = self.cursor
        shown = "\n".join(self.lines).rstrip("\n")
        return f"{shown}\n[the screen of the program; the cursor is in row {row}, column {column}]".lstrip("\n")

    def feed(self, data: bytes) -> None:
        """Interpret the next bytes."""
        text = self._rest + self._decoder.decode(data)
        cut = re.search(_UNFINISHED, text)
        self._rest = text[cut.start() :] if cut else ""
        for found in re.finditer(_TOKEN, text[: cut.start()] if cut else text, re.DOTALL):
            private, numbers, between, final, _, slot, charset, escape, control, plain = found.groups()
            if plain:
                self._write(plain)
            elif control:
                self._control(control)
            elif final and not between:
                self._sequence(private, [int(n) if n.isdigit() else 0 for n in re.split("[;:]", numbers)], final)
            elif slot in ("(", ")"):
                self._charsets[slot == ")"] = charset == "0"
            elif escape:
                self._escape(escape)

    def _write(self, text: str) -> None:
        for character in text.translate(_LINES) if self._charsets[self._charset] else text:
            if unicodedata.combining(character):
                continue
            width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
            if self._column + width > self.columns:
                if self._wraps:
                    self._column = 0
                    self._feed_line()
                else:
                    self._column = self.columns - width
            row = self._cells[self._row]
            cells = [character, ""][:width]
            if self._inserts:
                row[self._column : self._column] = cells
                del row[self.columns :]
            else:
                row[self._column : self._column + width] = cells
            self._column += width
            self._last = character

    def _control(self, control: str) -> None:
        if control == "\r":
            self._column = 0
        elif control in "\n\x0b\x0c":
            self._feed_line()
        elif control == "\b":
            self._column = max(min(self._column, self.columns - 1) - 1, 0)
        elif control == "\t":
            self._column = min((self._column // 8 + 1) * 8, self.columns - 1)
        elif control in "\x0e\x0f":
            self._charset = int(control == "\x0e")

    def _escape(self, escape: str) -> None:
        if escape == "7":
            self._saved = self._row, self._column
        elif escape == "8":
            self._row, self._column = self._saved
        elif escape in "DE":
            self._column = 0 if escape == "E" else self._column
            self._feed_line()
        elif escape == "M":
            if self._row == self._top:
                self._scroll(-1)
            else:
                self._row = max(self._row - 1, 0)
        elif escape == "c":
            self._reset()

    def _feed_line(self) -> None:
        if self._row == self._bottom:
            self._scroll(1)
        else:
            self._row = min(self._row + 1, self.rows - 1)

    def _scroll(self, count: int, top: int | None = None) -> None:
        """Move the lines of the scrolling region, or those below `top` in it, up; down for a negative count."""
        top = self._top if top is None else top
        for _ in range(min(abs(count), self.rows)):
            del self._cells[top if count > 0 else self._bottom]
            self._cells.insert(self._bottom if count > 0 else top, self._blank())

    def _sequence(self, private: str, numbers: list[int], final: str) -> None:
        if private == "?" and final in "hl":
            for number in numbers:
                self._set_mode(number, final == "h")
        elif final in "hl" and not private:
            self._inserts = final == "h" if 4 in numbers else self._inserts
        elif not private and final in _MOVES:
            _MOVES[final](self, numbers)

    def _set_mode(self, number: int, on: bool) -> None:
        if number == 1:
            self.keypad = on
        elif number == 7:
            self._wraps = on
        elif number in (47, 1047, 1049) and on == (self._other is None):
            if on:
                self._saved = self._row, self._column
                self._other, self._cells = self._cells, [self._blank() for _ in range(self.rows)]
            elif self._other is not None:
                self._cells, self._other = self._other, None
                self._row, self._column = self._saved

    def _place(self, row: int, column: int) -> None:
        self._row, self._column = min(max(row, 0), self.rows - 1), min(max(column, 0), self.columns - 1)

    def _move_rows(self, count: int, column: int | None = None) -> None:
        """Move the cursor down, or up for a negative count, but not out of the scrolling region that it is in.

        column: where it is placed; by default it stays in its column.
        """
        top = self._top if self._row >= self._top else 0
        bottom = self._bottom if self._row <= self._bottom else self.rows - 1
        self._row = min(max(self._row + count, top), bottom)
        self._column = min(self._column if column is None else column, self.columns - 1)

    def _erase_lines(self, how: int) -> None:
        self._erase(how)
        rows = {0: range(self._row + 1, self.rows), 1: range(self._row), 2: range(self.rows), 3: range(self.rows)}
        for row in rows.get(how, ()):
            self._cells[row] = self._blank()

    def _erase(self, how: int) -> None:
        # At the right edge, before the next character goes to a new line, nothing is to the right of the cursor.
        at = self._column
        start, end = {0: (at, self.columns), 1: (0, min(at + 1, self.columns)), 2: (0, self.columns)}.get(how, (0, 0))
        self._cells[self._row][start:end] = [" "] * (end - start)

    def _shift(self, count: int) -> None:
        """Insert blanks at the cursor; delete characters there for a negative count."""
        row, at, count = self._cells[self._row], self._column, max(count, -self.columns)
        if count > 0:
            row[at:at] = [" "] * min(count, self.columns)
            del row[self.columns :]
        else:
            del row[at : at - count]
            row += [" "] * (self.columns - len(row))

    def _blank_out(self, count: int) -> None:
        end = min(self._column + count, self.columns)
        self._cells[self._row][self._column : end] = [" "] * (end - self._column)

    def _shift_lines(self, count: int) -> None:
        if self._top <= self._row <= self._bottom:
            self._scroll(count, self._row)
            self._column = 0

    def _set_region(self, numbers: list[int]) -> None:
        top, bottom = max(numbers[0], 1) - 1, (numbers[1] if numbers[1:] and numbers[1] else self.rows) - 1
        if top < bottom < self.rows:
            self._top, self._bottom = top, bottom
            self._place(0, 0)

    def _restore(self, numbers: list[int]) -> None:
        self._row, self._column = self._saved

    def _save(self, numbers: list[int]) -> None:
        self._saved = self._row, self._column


def _first(numbers: list[int]) -> int:
    """Return a count, which is at least 1."""
    return min(max(numbers[0], 1), _MAX_COUNT)


def _second(numbers: list[int]) -> int:
    return max(numbers[1], 1) if numbers[1:] else 1


_MOVES: dict[str, Callable[[Screen, list[int]], None]] = {
    "A": lambda s, n: s._move_rows(-_first(n)),
    "B": lambda s, n: s._move_rows(_first(n)),
    "e": lambda s, n: s._move_rows(_first(n)),
    "C": lambda s, n: s._place(s._row, s._column + _first(n)),
    "a": lambda s, n: s._place(s._row, s._column + _first(n)),
    "D": lambda s, n: s._place(s._row, min(s._column, s.columns - 1) - _first(n)),
    "E": lambda s, n: s._move_rows(_first(n), column=0),
    "F": lambda s, n: s._move_rows(-_first(n), column=0),
    "G": lambda s, n: s._place(s._row, _first(n) - 1),
    "`": lambda s, n: s._place(s._row, _first(n) - 1),
    "H": lambda s, n: s._place(_first(n) - 1, _second(n) - 1),
    "f": lambda s, n: s._place(_first(n) - 1, _second(n) - 1),
    "d": lambda s, n: s._place(_first(n) - 1, s._column),
    "J": lambda s, n: s._erase_lines(n[0]),
    "K": lambda s, n: s._erase(n[0]),
    "L": lambda s, n: s._shift_lines(-_first(n)),
    "M": lambda s, n: s._shift_lines(_first(n)),
    "P": lambda s, n: s._shift(-_first(n)),
    "@": lambda s, n: s._shift(_first(n)),
    "X": lambda s, n: s._blank_out(_first(n)),
    "S": lambda s, n: s._scroll(_first(n)),
    "T": lambda s, n: s._scroll(-_first(n)),
    "b": lambda s, n: s._write(s._last * min(_first(n), s.columns * s.rows)),
    "r": lambda s, n: s._set_region(n),
    "s": lambda s, n: s._save(n),
    "u": lambda s, n: s._restore(n),
}

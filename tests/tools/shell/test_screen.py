"""The screen of a program that draws, compared with pyte."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_tools.shell.screen import Screen, draws
from tests.support.hypothesis_examples import examples

ROWS, COLUMNS = 6, 12
counts = st.integers(0, 14).map(lambda n: str(n) if n else "")
words = st.text(alphabet="abc xyz", max_size=15)
# In pyte, a cursor that moves up from the right edge still goes to a new line with the next character.
moves = st.builds(
    lambda n, f: f"{chr(27)}[C{chr(27)}[{n}{f}" if f in "ABd" else f"{chr(27)}[{n}{f}",
    counts,
    st.sampled_from("ABCDEFGdP@X"),
)
places = st.builds(lambda r, c, f: f"\x1b[{r};{c}{f}", counts, counts, st.sampled_from("Hf"))
erasures = st.builds(lambda n, f: f"\x1b[{n}{f}", st.sampled_from(["", "0", "1", "2"]), st.sampled_from("JK"))
# pyte forgets a saved cursor that it has gone back to.
others = st.sampled_from(["\r", "\n", "\r\n", "\b", "\t", "\x1b7", "\x1b8\x1b7", "\x1bD", "\x1bM",
                          "\x1b[1;31m", "\x1b]0;title\x07", "\x1b[?25l"])  # fmt: skip
whole = st.lists(st.one_of(words, words, moves, places, erasures, others), max_size=25).map("".join)
# pyte moves a cursor that is outside of the scrolling region into it.
inside = st.builds(lambda r, c: f"\x1b[{r};{c}H", st.integers(2, 4), st.integers(1, 12))
in_region = st.lists(st.one_of(words, words, moves.filter(lambda m: m[-1] != "d"), inside, others), max_size=25)
streams = whole | in_region.map(lambda parts: "".join(["\x1b[2;4r\x1b[2;1H\x1b7", *parts]))


def peer(data: str) -> list[str]:
    screen = pyte.Screen(COLUMNS, ROWS)
    pyte.Stream(screen).feed(data)
    return [line.rstrip() for line in screen.display]


@settings(max_examples=examples(300), deadline=None)
@given(streams, st.integers(1, 9))
def test_it_shows_what_pyte_shows_however_the_bytes_arrive(data: str, size: int) -> None:
    screen, raw = Screen(ROWS, COLUMNS), data.encode()
    for at in range(0, len(raw), size):
        screen.feed(raw[at : at + size])
    assert screen.lines == peer(data)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.text(
        alphabet=st.sampled_from("\x1b[?;]()0123456789hlHJKmrABCDLMPX@ab\x0e\x0f\u4e2d\u0301 \n\r\t\x07\\"), max_size=80
    )
)
def test_no_bytes_break_it(data: str) -> None:
    screen = Screen(ROWS, COLUMNS)
    screen.feed(data.encode())
    assert len(screen.lines) == ROWS and all(len(row) == COLUMNS for row in screen._cells)
    row, column = screen.cursor
    assert 1 <= row <= ROWS and 1 <= column <= COLUMNS


def test_the_other_screen_is_left_as_it_was_entered() -> None:
    screen = Screen(ROWS, COLUMNS)
    screen.feed(b"$ vi\r\n\x1b[?1049h\x1b[2J\x1b[1;1Htext\x1b[?1h")
    assert screen.lines[0] == "text" and screen.keypad
    screen.feed(b"\x1b[?1049l$ ")
    assert screen.lines[:2] == ["$ vi", "$"]


def test_lines_are_inserted_and_deleted_within_the_region() -> None:
    screen = Screen(ROWS, COLUMNS)
    screen.feed(b"a\r\nb\r\nc\r\nd\r\ne\r\nf\x1b[2;5r\x1b[3;4H\x1b[L")
    assert screen.lines == ["a", "b", "", "c", "d", "f"] and screen.cursor == (3, 1)
    screen.feed(b"\x1b[2M")
    assert screen.lines == ["a", "b", "d", "", "", "f"]


def test_lines_of_boxes_are_drawn() -> None:
    screen = Screen(ROWS, COLUMNS)
    screen.feed(b"\x1b(0lqk\x1b(B x")
    assert screen.lines[0] == "┌─┐ x"
    assert screen.text() == "┌─┐ x\n[the screen of the program; the cursor is in row 1, column 6]"


@pytest.mark.parametrize(
    ("data", "drawn"),
    [
        (b"plain\r\n", False),
        (b"\x1b[1mbold\x1b[0m \x1b[K", False),
        (b">>> 12\b\x1b[1C\x1b[D", False),
        (b"\x1b[?1049h", True),
        (b"\x1b[2J\x1b[H", True),
        (b"\x1b[3;4Hx", True),
        (b"\x1b[2Aup", True),
    ],
)
def test_a_program_draws_if_it_places_the_cursor(data: bytes, drawn: bool) -> None:
    assert draws(data) == drawn

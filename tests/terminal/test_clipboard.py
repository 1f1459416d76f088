"""The clipboard of the terminal: a text as OSC 52."""

from __future__ import annotations

from base64 import b64decode

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.shells.terminal.render.ansi import MAX_CLIPBOARD_CHARS, clipboard_sequence


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_text_comes_back_and_nothing_in_it_ends_the_sequence(text: str) -> None:
    sequence = clipboard_sequence(text)
    assert sequence is not None
    assert sequence.startswith("\x1b]52;c;")
    assert sequence.endswith("\x07")
    inside = sequence[7:-1]
    assert inside.isascii()
    assert not set(inside) & {"\x07", "\x1b", ";"}
    assert b64decode(inside).decode() == text


def test_no_more_than_terminals_take_and_halves_of_pairs_do_not_hurt() -> None:
    assert clipboard_sequence("x" * (MAX_CLIPBOARD_CHARS * 3 // 4 - 3)) is not None
    assert clipboard_sequence("x" * MAX_CLIPBOARD_CHARS) is None
    assert clipboard_sequence("a\ud800b") == "\x1b]52;c;YT9i\x07"

"""What is written out in a question because it looks like something else, and what is left alone."""

from __future__ import annotations

import pytest

from agent_tools.lookalikes import describe_lookalikes, escape_lookalikes
from tests.support.lookalike_texts import DECEIVING, HONEST


@pytest.mark.parametrize("text", DECEIVING)
def test_what_looks_like_something_else_is_written_out(text: str) -> None:
    assert escape_lookalikes(text) == DECEIVING[text]
    assert "look like others or are invisible" in describe_lookalikes(text) or text.isascii()


@pytest.mark.parametrize("text", HONEST)
def test_honest_text_is_left_alone(text: str) -> None:
    assert escape_lookalikes(text) == text
    assert describe_lookalikes(text) == ""


def test_what_was_written_out_is_named() -> None:
    assert describe_lookalikes("ls", "pаypal") == (
        r"contains characters that look like others or are invisible: \u0430 is CYRILLIC SMALL LETTER A"
    )
    assert describe_lookalikes("".join(chr(0x1D400 + n) for n in range(9))).endswith(" and 5 more")


@pytest.mark.parametrize("letter", "аеорсухіјѕԁӏ")
@pytest.mark.parametrize("word", ["{}bc", "a{}c", "ab{}", "x{}", "{}1", "a{}.com", "a/{}b", "--f{}o", "{}_b{}b"])
def test_no_place_in_a_latin_word_hides_a_letter(letter: str, word: str) -> None:
    text = word.format(letter, letter)
    assert letter not in escape_lookalikes(text), escape_lookalikes(text)


def test_long_text_costs_little() -> None:
    text = "ошибка а " * 20_000 + "a\u0301" * 20_000 + "👨‍👩‍👧" * 5_000
    assert escape_lookalikes(text) == text

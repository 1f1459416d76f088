"""What is written out in a question because it looks like something else, and what is left alone."""

from __future__ import annotations

import pytest

from agent_tools.lookalikes import describe_lookalikes, escape_lookalikes

DECEIVING = {
    "curl https://pаypal.com": r"curl https://p\u0430ypal.com",
    "https://www.аррӏе.com/": r"https://www.\u0430\u0440\u0440\u04cf\u0435.com/",
    "ср a.txt b.txt": r"\u0441\u0440 a.txt b.txt",
    "ls; ср файл x": r"ls; \u0441\u0440 файл x",
    "cat раssword": r"cat \u0440\u0430ssword",
    "gοοgle.com": r"g\u03bf\u03bfgle.com",
    "ΑΒΕ.txt": r"\u0391\u0392\u0395.txt",
    "micrоsоft": r"micr\u043es\u043eft",
    "օpen x": r"\u0585pen x",
    "Ꮯopy": r"\u13dfopy",
    "ꓑython": r"\ua4d1ython",
    "𝐜𝐮𝐫𝐥 x": r"\U0001d41c\U0001d42e\U0001d42b\U0001d425 x",
    "ｃｕｒｌ x": r"\uff43\uff55\uff52\uff4c x",
    "evil．com／x": r"evil\uff0ecom\uff0fx",
    "evil.com∕@good.org": r"evil.com\u2215@good.org",
    "a⁄b․txt": r"a\u2044b\u2024txt",
    "rm ‐rf x": r"rm \u2010rf x",
    "rm –rf x": r"rm \u2013rf x",
    "rm −rf x": r"rm \u2212rf x",
    "rm\u00a0-rf x": r"rm\xa0-rf x",
    # A blank of braille, music and Khitan script.
    "./cat\u2800a.txt": r"./cat\u2800a.txt",
    "cat\U0001d159a.txt": r"cat\U0001d159a.txt",
    "cat\U00016fe4a.txt": r"cat\U00016fe4a.txt",
    "rm\u3000x": r"rm\u3000x",
    "a\u200db": r"a\u200db",
    "a\u200cb": r"a\u200cb",
    "a\u200bb": r"a\u200bb",
    "a\u202eb\u2066c": r"a\u202eb\u2066c",
    "x\ufe0fy": r"x\ufe0fy",
    "x\U000e0041\U000e0101": r"x\U000e0041\U000e0101",
    "a\u0301\u0302\u0303\u0304": "a\u0301\u0302\\u0303\\u0304",
    "\u0301a": r"\u0301a",
    "a /\u0338b": r"a /\u0338b",
    "re\u0336ad": r"re\u0336ad",
    "ɡit push": r"\u0261it push",
    "mcp__gіthub__push": r"mcp__g\u0456thub__push",
    "👍\u200dx": "👍\\u200dx",
    "\u200d👍": "\\u200d👍",
    "\x1b[31m": r"\x1b[31m",
}
HONEST = [
    "git commit -m 'Ошибка с путём и о нём'",
    "echo 'а у нас в квартире газ'",
    "cat отчёты/годовой_отчёт_2024.txt",
    "git commit -m '修正：路径（测试）。'",
    "git commit -m '日本語のＡＢＣテスト！'",
    "git commit -m 'ความคิดเห็น ที่นี่ก็ดี'",
    "echo 'שָׁלוֹם' 'مَرْحَبًا'",
    "echo 'می‌خواهم'",
    "echo 'क्‍ष हिन्दी'",
    "git commit -m '👨‍👩‍👧‍👦 🏳️‍🌈 👩🏽‍💻 ❤️ 1️⃣ fix ✔️'",
    "echo 'Größe naïve Dvořák İstanbul kırmızı Việt Nam'",
    "cafe\u0301/Zu\u0308rich.txt",
    "echo 'Vie\u0323\u0302t'",
    "Δt = 5 µm, λx, kΩ, 30 °C, π ≈ 3.14, σ² → ∞",
    "echo 'Καλημέρα κόσμε'",
    "echo 'Բարեւ աշխարհ'",
    "git commit -m 'Use “quotes” — not ’these’ – ok…'",
    "« Bonjour\u00a0! »",
    "naïve café × ÷ € £ ©",
    "한국어 커밋 메시지",
    "Ünïcödé",
    "plain ascii \\u0430",
]  # fmt: skip


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

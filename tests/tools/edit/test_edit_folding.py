"""Edit of a part of a line whose odd characters the model does not see, or writes in their plain form."""

from __future__ import annotations

import re
from unicodedata import normalize

import pytest

from agent_tools.edit.folding import FoldedText, blend, fold
from agent_tools.lookalikes import latin_form
from tests.support.tool_bench import Bench


def edited(bench: Bench, content: str, old: str, new: str, **more: bool) -> tuple[str, str]:
    """The new content of a file, and what the result says before its excerpt."""
    path = bench.file("a.txt", content)
    bench("Read", file_path="a.txt")
    said = bench("Edit", file_path="a.txt", old_string=old, new_string=new, **more).text
    return path.read_bytes().decode(), said.partition(" It now")[0]


@pytest.mark.parametrize(
    ("content", "old", "new", "after"),
    [
        ("see the task\u00a0list in use\n", "task list in", "job list in", "see the job\u00a0list in use\n"),
        ("a\u3000b\u2009c d", "b c", "b c x", "a\u3000b\u2009c x d"),
        ("total: 12\u202f000 kg", "12 000", "13 000", "total: 13\u202f000 kg"),
        ("the cafe\u0301 is open", "caf\u00e9 is", "caf\u00e9 was", "the cafe\u0301 was open"),
        ("the caf\u00e9 is open", "cafe\u0301 is", "cafe\u0301 was", "the caf\u00e9 was open"),
        (normalize("NFD", "x 한국어 문서 y"), "한국어 문서", "한국어 파일", normalize("NFD", "x 한국어 ") + "파일 y"),
        ("pay\u00adload and zero\u200bwidth here", "payload and zerowidth", "payload or zerowidth",
         "pay\u00adload or zero\u200bwidth here"),
        ("say(“yes”) # it’s", 'say("yes")', 'say("no")', "say(“no”) # it’s"),
        ("it’s – he said – over", "it's - he", "it's - she", "it’s – she said – over"),
        ("say('yes') # it's", "say(‘yes’)", "say(‘no’)", "say('no') # it's"),
        ("plain text here", "plain\u00a0text", "other\u00a0text", "other text here"),
        ("plain text here", "pl\u200bain", "simple", "simple text here"),
        ("ok ✔\ufe0f done", "ok ✔ done", "ok ✔ now", "ok ✔\ufe0f now"),
        ("one: a\u00a0b\r\ntwo: c\r\n", "a b\ntwo: c", "a b\nnew\ntwo: d", "one: a\u00a0b\r\nnew\r\ntwo: d\r\n"),
        ("\ufefffirst line\nx", "first line\u200b", "other line", "\ufeffother line\nx"),
        ("a\u00a0b c", "a b", "a\u2009b", "a\u2009b c"),
        ("x\u200b\u200b = 1; y = 2", "x = 1;", "x = 3;", "x\u200b\u200b = 3; y = 2"),
        ("\u200bvalue\u200b, rest\u00a0x", "value,", "other,", "\u200bother, rest\u00a0x"),
    ],
)  # fmt: skip
def test_a_part_of_a_line_is_found_without_what_cannot_be_seen(
    bench: Bench, content: str, old: str, new: str, after: str
) -> None:
    found, said = edited(bench, content, old, new)
    assert found == after
    assert said.startswith("Edited a.txt (+") and "typographic" in said


def test_the_bytes_outside_the_place_stay(bench: Bench) -> None:
    content = "\u00a0\u200b“a”\u00ad x\u00a0y \u200bz e\u0301\r\nnext\u3000line"
    assert edited(bench, content, "x y", "w")[0] == content.replace("x\u00a0y", "w")


def test_two_places_are_ambiguous_unless_all_are_meant(bench: Bench) -> None:
    bench.file("a.txt", "1: a\u00a0b\n2: a\u2009b\n")
    bench("Read", file_path="a.txt")
    said = bench.fails("Edit", file_path="a.txt", old_string="a b", new_string="c")
    assert "matches 2 places (lines 1, 2)" in said and "typographic and invisible" in said
    bench("Edit", file_path="a.txt", old_string="a b", new_string="c", replace_all=True)
    assert (bench.root / "a.txt").read_text() == "1: c\n2: c\n"


def test_an_exact_place_goes_first(bench: Bench) -> None:
    assert edited(bench, "1: a b\n2: a\u00a0b\n", "a b", "c")[0] == "1: c\n2: a\u00a0b\n"


def test_multi_edit_and_patches_match_the_same_way(bench: Bench) -> None:
    path = bench.file("a.txt", "the task\u00a0list\n")
    bench("Read", file_path="a.txt")
    bench("MultiEdit", file_path="a.txt", edits=[{"old_string": "task list", "new_string": "job list"}])
    assert path.read_text() == "the job\u00a0list\n"


@pytest.mark.parametrize(
    ("content", "old", "spelled"),
    [
        ("x = \u0441ount + 1\n", "count +", "\\u0441 (CYRILLIC SMALL LETTER ES) where old_string has 'c'"),
        ("x = count + 1\n", "\u0441ount +", "'c' where old_string has \\u0441 (CYRILLIC SMALL LETTER ES)"),
        (
            "one\ntwo \u0391lpha\n",
            "Alpha",
            "Line 2 only looks like it: the file has \\u0391 (GREEK",
        ),
        ("of\ufb01ce\n", "office", "\\ufb01 (LATIN SMALL LIGATURE FI) where old_string has 'fi'"),
        ("f\uff08x\uff09\n", "f(x)", "\\uff08 (FULLWIDTH LEFT PARENTHESIS) where old_string has '('"),
        ("wait\u2026 now\n", "wait... now", "\\u2026 (HORIZONTAL ELLIPSIS) where old_string has '...'"),
    ],
)
def test_letters_that_only_look_alike_are_spelled_out(bench: Bench, content: str, old: str, spelled: str) -> None:
    path = bench.file("a.txt", content)
    bench("Read", file_path="a.txt")
    said = bench.fails("Edit", file_path="a.txt", old_string=old, new_string="other")
    assert spelled in said and said.count("where old_string") <= 2
    assert path.read_text() == content


def test_odd_characters_beside_other_differences_are_spelled_out(bench: Bench) -> None:
    bench.file("a.txt", "the task\u00a0list in current use\n")
    bench("Read", file_path="a.txt")
    said = bench.fails("Edit", file_path="a.txt", old_string="the task list in recent use", new_string="x")
    assert "the task\\u00a0list in current use" in said and "the task list in recent use" in said


def test_folded_positions_lead_back_to_the_original() -> None:
    raw = "a\u200b\u00a0e\u0301\r\n“b”"
    text = FoldedText(raw)
    assert text.text == 'a \u00e9\n"b"' == fold(raw).replace("\r\n", "\n")
    assert [raw[text.start(n) : text.end(n + 1)] for n in range(len(text.text))] == [
        "a", "\u00a0", "e\u0301", "\r\n", "“", "b", "”",
    ]  # fmt: skip
    assert FoldedText("\ufb01", lookalikes=True).start(1) is None


def test_repeated_text_keeps_the_characters_of_the_file() -> None:
    assert blend("a\u00a0b\u00a0c", "a b c", "a b x c") == "a\u00a0b\u00a0x c"
    assert blend("“x”", '"x"', "(x)") == "(x)"


def test_every_letter_that_looks_latin_has_its_latin_form() -> None:
    assert latin_form("\u0441\u0430\u0440\u0435") == "cape" and latin_form("\u03bf\u0391") == "oA"
    assert re.fullmatch(r"[\x00-\x7f]+", latin_form("аеорсухіјѕһԁӏѵԛԝүкАВЕКМНОРСТХУІЈЅҮԚԜӀҺԌѴ"))

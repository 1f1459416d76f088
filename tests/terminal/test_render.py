"""Answers as lines: nothing lost, nothing twice, readable without colours; and code that can be copied."""

from __future__ import annotations

import io
import re
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from agent_cli.shells.terminal.render import markdown
from agent_cli.shells.terminal.render.live_writer import LiveWriter
from agent_cli.shells.terminal.render.markdown import PLAIN_SIGNS, TAIL_ROWS, Layout, MarkdownStream
from tests.support.fork_server import ROOT
from tests.support.hypothesis_examples import examples

SGR = re.compile(r"\x1b\[[0-9;]*m")


def plain(lines: list[str]) -> list[str]:
    return [SGR.sub("", line) for line in lines]


def rendered(text: str, columns: int = 81, *, color: bool = True) -> list[str]:
    stream = MarkdownStream(columns, color=color)
    return [*stream.feed(text), *stream.finish()]


def test_one_blank_line_between_blocks_and_none_inside_a_list() -> None:
    text = "# Title\nWords\nand more.\n\n\n- one\n\n- two\n  - deep\n- three\n\n1. a\n2. b\n\n"
    text += "```\ncode\n```\n\n> said\n\n***\nend"
    assert plain(rendered(text)) == [
        "Title", "", "Words and more.", "", "• one", "• two", "  • deep", "• three", "", "1. a", "2. b", "",
        "  code", "", "│ said", "", "─" * 20, "", "end",
    ]  # fmt: skip


def test_code_is_indented_by_two_blanks_and_wrapped_at_spaces() -> None:
    long = "x = " + "1 + " * 12 + "1"
    assert plain(rendered(f"```python\n{long}\n\n\tif a:\n```", 40)) == [
        "  x = 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + ", "    1 + 1 + 1 + 1 + 1", "", "  \tif a:",
    ]  # fmt: skip


def test_code_in_a_list_stands_below_its_item() -> None:
    text = "1. Run:\n   ```sh\n   ls\n   ```\n   and look.\n2. Done"
    assert plain(rendered(text)) == ["1. Run:", "     ls", "", "   and look.", "2. Done"]


def test_nothing_that_looks_like_markup_is_lost() -> None:
    text = (
        "A List<String> and </kbd> and <b>bold</b>.\n\n<div>\nhtml\n</div>\n\n![alt](pic.png) [t][r]\n\n[r]: http://r/"
    )
    assert "\n".join(plain(rendered(text))) == (
        "A List<String> and </kbd> and <b>bold</b>.\n\n<div> html </div>\n\n!alt (pic.png) [t][r]\n\n[r]: http://r/"
    )


def test_links_show_where_they_lead() -> None:
    assert plain(rendered("[here](https://a.example/x), <https://b.example>, <me@c.example>")) == [
        "here (https://a.example/x), https://b.example, me@c.example"
    ]
    address = "https://example.org/" + "long/" * 30
    assert address in "\n".join(plain(rendered(f"See {address} for more.", 40)))


def test_tables_are_columns_and_records_where_it_is_narrow() -> None:
    text = "| name | count |\n|:--|--:|\n| a | 1 |\n| longer name | 22 |"
    assert plain(rendered(text)) == [
        "name         count",
        "───────────  ─────",
        "a                1",
        "longer name     22",
    ]
    wide = "| first column | second column | third |\n|---|---|---|\n| some words here | others there | x |"
    narrow = plain(rendered(wide, 20))
    assert all(len(line) <= 19 for line in narrow)
    assert "first column: some" in " ".join(narrow)


def test_cells_that_have_no_column_are_shown_all_the_same() -> None:
    assert plain(rendered("| a | b |\n|---|---|\n| 1 |\n| 1 | 2 | 3 | 4 |\n\nend"))[2:4] == ["1", "1  2  3  4"]
    late = "a | b\n--|--\n" + "1 | 2\n" * 50 + "1 | 2 | `3` | \\| 4"
    assert plain(rendered(late))[-1] == "1  2 3 | 4"
    assert plain(rendered("| a |\n|---|"))[0] == "a"


def test_bars_in_code_stay_in_their_cell_where_the_row_has_too_many_cells_with_them() -> None:
    head = "| op | means |\n|---|---|\n"
    for row, shown in (
        ("| `a | b` | or |", "a | b  or"),
        ("| `a || b`, `c | d` | or |", "a || b, c | d  or"),
        ("| ``x ` | y`` | or |", "x ` | y  or"),
        ("| `a \\| b` | or |", "a | b  or"),
        ("`a | b` | or", "a | b  or"),
        # As many cells as columns: GitHub's rules.
        ("| `a | b` |", "`a  b`"),
        # It is too many, or too few, with and without.
        ("| `a | b` | c | d |", "`a  b`     c  d"),
        ("| `a | b | c` |", "`a  b      c`"),
    ):
        assert plain(rendered(head + row))[-1] == shown, row
    late = head + "| 1 | 2 |\n" * 50 + "| `a | b` | or |"
    assert plain(rendered(late))[-1].split("  ") == ["a | b", "or"]
    stream = MarkdownStream(80)
    stream.feed(f"{head}| `a | b` | or |\n")
    assert any("a | b  or" in line for line in plain(stream.tail()))


def test_a_long_table_keeps_the_columns_of_its_first_rows() -> None:
    rows = "".join(f"| {n} | {'x' * (n % 7)} |\n" for n in range(200))
    lines = plain(rendered(f"| n | x |\n|---|---|\n{rows}"))
    assert len(lines) == 202
    # A cell that does not fit pushes the rest of its row aside rather than to be cut.
    assert {line.find("x") for line in lines[:102] if "x" in line} == {lines[0].find("x")}


@pytest.mark.parametrize("columns", [2, 20, 40, 81, 300])
def test_prose_fits_every_width(columns: int) -> None:
    text = (ROOT / "docs" / "terminal.md").read_text("utf-8").replace("](", "] (")
    prose = re.sub(r"^ *\|.*$|https?://\S*", "", re.sub(r"(?ms)^```.*?^```$", "", text), flags=re.MULTILINE)
    assert max(map(len, plain(rendered(prose, columns)))) <= max(min(columns - 1, 120), 14)


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda p: p.stem)
def test_every_word_of_our_own_pages_is_shown(path) -> None:  # type: ignore[no-untyped-def]
    text = path.read_text("utf-8")
    shown = re.sub(r"\W", "", "".join(plain(rendered(text, 121))))
    marks = re.sub(r"(?m)^ *(```|~~~).*$", "", text)
    missing = [word for word in re.findall(r"\w{3,}", marks) if word not in shown]
    assert missing == []


WORDS = st.sampled_from(
    [
        "word",
        "**b**",
        "`c`",
        "日本語",
        "👩‍🚀",
        "- x",
        "\n",
        "\n\n",
        "# h\n",
        "```py\n",
        "```\n",
        "| a |\n",
        "|---|\n",
        " ",
    ]
)


@given(st.lists(WORDS, max_size=40), st.integers(1, 5))
def test_the_tail_is_short_fits_and_changes_nothing(words: list[str], size: int) -> None:
    text = "".join(words)
    stream = MarkdownStream(30)
    lines = []
    for start in range(0, len(text), size):
        lines += stream.feed(text[start : start + size])
        tail = stream.tail()
        assert tail is stream.tail()
        assert len(tail) <= TAIL_ROWS
    assert [*lines, *stream.finish()] == rendered(text, 30)
    assert stream.tail() == []


def test_what_is_being_written_stands_apart_from_the_block_above_as_it_will_later() -> None:
    text = "## Title\n\nOne.\n\nTwo.\n\n- an item\n- another\n\n```\ncode\n```\n\n| a |\n|---|\n| b |\n\nEnd."
    later = plain(rendered(text, 40))
    stream, done = MarkdownStream(40), list[str]()
    for char in text:
        done += plain(stream.feed(char))
        rows = [*done, *plain(stream.tail())]
        blanks = [n for n, row in enumerate(rows[:-1]) if not row]
        assert blanks == [n for n, row in enumerate(later[: max(len(rows) - 1, 0)]) if not row], "\n".join(rows)


def test_a_note_between_two_paragraphs_has_one_blank_row_above_and_below() -> None:
    sink = io.StringIO()
    writer = LiveWriter(Console(file=sink, width=60, force_terminal=True), sink, whole_thoughts=False)
    writer.answer("First.\n\nSecond para")
    writer.begin_printed()
    sink.write("a note\n")
    assert plain([*writer.take(), *writer.tail()]) == ["  First.", "", "a note", "", "  Second para"]
    writer.answer("graph.\n\nThird.")
    writer.settle()
    assert plain(writer.take()) == ["", "  Second paragraph.", "", "  Third."]


@pytest.mark.parametrize("more", ["", " words of the item\n- and another\n", "\n\nA paragraph"])
def test_rows_below_those_of_the_shell_stand_apart(more: str) -> None:
    sink = io.StringIO()
    writer = LiveWriter(Console(file=sink, width=60, force_terminal=True), sink, whole_thoughts=False)
    writer.answer("A paragraph.\n\n- an item\n- its end")
    assert plain(writer.take()) == ["  A paragraph."]
    writer.mark_foreign()
    assert plain(writer.tail()) == ["", "  • an item", "  • its end"]
    writer.answer(more)
    writer.settle()
    rows = plain(writer.take())
    assert rows[0] == "" and rows[1].startswith("  • an item")
    writer.mark_foreign()
    assert writer.needs_gap("rows") and writer.needs_gap("call")


def test_without_colours_signs_show_what_colours_would() -> None:
    lines = rendered("# H\n\n- use `x`\n\n> q\n\n```py\nx = 1\n```\n\n---", color=False)
    assert plain(lines) == ["H", "", "- use `x`", "", "> q", "", "  x = 1", "", "-" * 20]
    assert set(SGR.findall("".join(lines))) <= {"\x1b[0m", "\x1b[1;4m", "\x1b[2m"}


def test_a_long_word_in_a_later_row_of_a_table_is_not_broken() -> None:
    first = "| Key | What |\n|---|---|\n| mode | " + "how much may run " * 5 + "|\n"
    shown = plain(
        rendered(first + "| max_parallel_subagents_of_a_turn | a number of them, " + "or none " * 9 + "|\n", 60)
    )
    assert any(line.startswith("max_parallel_subagents_of_a_turn  a number") for line in shown)
    assert max(map(len, shown)) < 60


def test_no_row_of_an_answer_vanishes_while_it_is_written() -> None:
    """What stands on the screen, but for its last row, stays or is laid out again; it never goes and comes back."""
    numbers = iter(range(1_000))

    def words(count: int) -> str:
        each = (f"of {n} words that go on, with `code {n}` and **bold {n}** in it, " for n in islice(numbers, count))
        return "".join(each)

    text = f"## Title\n\nA paragraph {words(16)}and ends.\n\n- an item {words(6)}\n- another {words(1)}\n\n"
    text += f"1. first {words(5)}\n2. second\n\nOne line\nand another {words(7)}\nand more.\n"
    for columns, size in ((41, 3), (80, 5), (120, 11)):
        stream = MarkdownStream(columns)
        done: list[str] = []
        gone: dict[str, int] = {}
        before: list[str] = []
        for frame, at in enumerate(range(0, len(text), size)):
            done += plain(stream.feed(text[at : at + size]))
            rows = [*done, *plain(stream.tail())]
            now = {row.strip() for row in rows}
            assert not (back := now & gone.keys()), (columns, frame, back)
            gone |= dict.fromkeys((row.strip() for row in before[-12:-1] if row.strip() not in now), frame)
            before = rows
        done += plain(stream.finish())
        assert " ".join(" ".join(done).split()) == " ".join(" ".join(plain(rendered(text, columns))).split())


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_a_long_paragraph_is_the_same_however_it_comes(sizes: list[int]) -> None:
    text = (
        "Words `of code` and (brackets), " * 20 + "\n- item " + "with more words, and 3. numbers - dashes " * 12 + "\n"
    )
    stream, at, lines = MarkdownStream(50), 0, list[str]()
    while at < len(text):
        size = sizes[at % len(sizes)]
        lines += stream.feed(text[at : at + size])
        at += size
    assert plain([*lines, *stream.finish()]) == plain(rendered(text, 50))


_WORDS = st.sampled_from(
    ["a", "Bc", "words", "1", "1.", "2)", "-", "+", "=", "---", "===", "#", "x" * 9, "it's", '"q"', "a:b", "b:/c", "!",
     "$5", "@me", "{x}", "50%", "a/b", "www.x.org", "me@x.org", "http://x", "&amp;", "_a_", "`c`", "|", "\\*", "[l](x)"]
)  # fmt: skip
_SPACES = st.sampled_from([" ", " ", " ", "\n", "  ", " \n", "  \n", "\n\n"])


@given(parts=st.lists(st.tuples(_WORDS, _SPACES), min_size=1, max_size=9), width=st.integers(8, 20), item=st.booleans())
@settings(max_examples=examples(300), deadline=None)
def test_prose_without_markup_has_the_rows_that_the_parser_gives_it(
    parts: list[tuple[str, str]], width: int, item: bool
) -> None:
    text = "".join(word + space for word, space in parts)
    rows = Layout(PLAIN_SIGNS).lines(text, width, item=item)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(markdown, "_PLAIN_PROSE", re.compile("(?!)"))
        assert rows == Layout(PLAIN_SIGNS).lines(text, width, item=item)

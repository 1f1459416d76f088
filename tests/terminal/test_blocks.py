"""The splitter: the same blocks whatever the chunks, no line lost, each block as early as it can be."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.shells.terminal.render.blocks import PORTION_LINES, TAIL_CHARS, Block, BlockSplitter

STARTS = (
    "", "", "", "# ", "## ", "- ", "* ", "1. ", "2. ", "12) ", "> ", "    ", "  ", "   - ", "\t", "- [ ] ", "| ",
    "  > ",
)  # fmt: skip
WHOLE = (
    "", "", "", "```", "````", "~~~", "  ```", "   ```js", "- ```", "---", "***", "===", "|---|---|", "- ", "-", "1.",
)  # fmt: skip
LINES = st.lists(
    st.one_of(
        st.sampled_from(WHOLE),
        st.builds(lambda start, n: f"{start}w{n}x | v{n}x", st.sampled_from(STARTS), st.integers(0, 99)),
        st.builds(lambda start, n: f"{start}w{n}x", st.sampled_from(STARTS), st.integers(0, 99)),
    ),
    max_size=30,
)


def split(text: str) -> list[Block]:
    splitter = BlockSplitter()
    return [*splitter.feed(text), *splitter.finish()]


@given(LINES, st.data())
def test_chunks_and_looking_at_the_tail_change_nothing(lines: list[str], data: st.DataObject) -> None:
    ends = data.draw(st.sampled_from(["\n", "\r\n"]))
    text = ends.join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    splitter = BlockSplitter()
    found = []
    for start, end in pairwise([0, *cuts, len(text)]):
        found += splitter.feed(text[start:end])
        assert sum(len(block.text) for block in splitter.tail()) <= 2 * TAIL_CHARS + 200
    assert found + splitter.finish() == split(text) == split("\n".join(lines))
    assert splitter.tail() == []


@given(LINES)
def test_every_word_is_in_a_block_once_and_in_order(lines: list[str]) -> None:
    def words(text: str) -> list[str]:
        return [word for word in text.replace("|", " ").replace("`", " ").replace(">", " ").split() if word[-1] == "x"]

    text = "\n".join(lines)
    assert words("\n".join(block.text for block in split(text))) == words(text)


def kinds(text: str) -> list[str]:
    return [block.kind for block in split(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb\n\nc", ["para", "para"]),
        ("a\n# h\nb", ["para", "heading", "para"]),
        ("a\n---\nb\n\n---", ["heading", "para", "hr"]),
        ("a\n- b\n- c\nlazy\n\n  same item\n\nd", ["para", "item", "item", "para"]),
        ("- a\n  - b\n  - c\n- d", ["item", "item"]),
        ("1. a\n  - two columns are enough\n2. b", ["item", "item"]),
        ("a\n2. no list", ["para"]),
        ("> a\nlazy\n> b\n\nc", ["quote", "para"]),
        ("| a | b |\n|---|---|\n| 1 | 2 |\nx", ["table"]),
        ("before\n| a |\n|---|\n| 1 |", ["para", "table"]),
        ("| a | b |\n|---|", ["para"]),
        ("```py\nx\n\n```\na", ["fence_open", "fence_line", "fence_line", "fence_close", "para"]),
        ("````\n```\n````", ["fence_open", "fence_line", "fence_close"]),
        ("```not `a` fence", ["para"]),
        ("~~~\nx", ["fence_open", "fence_line", "fence_close"]),
        ("- a\n  ```\nleft\n  ```\n  b\n- c", ["item", "fence_open", "fence_line", "fence_close", "more", "item"]),
        ("- ```\n  x\n  ```", ["item", "fence_open", "fence_line", "fence_close"]),
        ("* * *\n- - -", ["hr", "hr"]),
        ("    code\n\n    more", ["para", "para"]),
    ],
)
def test_what_is_what(text: str, expected: list[str]) -> None:
    assert kinds(text) == expected


def test_items_of_one_list_are_counted_and_joined() -> None:
    blocks = split("3. a\n3. b\n\n1. c\n\n- d\n1. e")
    assert [(b.number, b.joined, b.text) for b in blocks] == [
        (3, False, "a"), (4, True, "b"), (5, True, "c"), (None, False, "d"), (1, False, "e"),
    ]  # fmt: skip


def test_code_goes_out_line_by_line_without_the_indentation_of_its_fence() -> None:
    splitter = BlockSplitter()
    splitter.feed("1. a\n   ```py\n")
    assert splitter.feed("     x = 1\n") == [Block("fence_line", "  x = 1", 3, joined=True)]
    assert splitter.feed("   y") == []
    assert splitter.tail() == [Block("fence_line", "y", 3, joined=True)]


def test_a_paragraph_or_table_without_end_goes_out_in_portions() -> None:
    splitter = BlockSplitter()
    found = splitter.feed("words\n" * (3 * PORTION_LINES))
    assert len(found) >= 2 and not found[0].joined and found[1].joined
    rows = BlockSplitter().feed("| a |\n|---|\n" + "| 1 |\n" * (3 * PORTION_LINES))
    assert [block.kind for block in rows] == ["table", "rows", "rows"]


def test_the_tail_is_what_is_open_and_bounded() -> None:
    splitter = BlockSplitter()
    splitter.feed("- one\n- tw")
    assert [(b.kind, b.text) for b in splitter.tail()] == [("item", "one"), ("item", "tw")]
    splitter.feed("o\n\n  more")
    assert [(b.kind, b.text) for b in splitter.tail()] == [("item", "two\n\nmore")]
    splitter.finish()
    for _ in range(1000):
        splitter.feed("long " * 100)
    assert [len(b.text) <= TAIL_CHARS for b in splitter.tail()] == [True]

"""How typed text is wrapped, and where its characters end."""

from __future__ import annotations

from typing import Any

import pytest
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import DummyInput
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import TransformationInput
from prompt_toolkit.output import DummyOutput

from agent_cli.shells.terminal.app.typed_text import (
    TypedBuffer,
    WrapAtSpaces,
    count_typed_rows,
    length_after,
    length_before,
    wrap_typed,
)
from agent_cli.shells.terminal.render.ansi import cells
from tests.support.call_counts import steps


def rows(text: str, width: int) -> list[str]:
    """The rows that a window of this width makes of a wrapped text."""
    shown = "".join(" " * pad + char for pad, char in zip(wrap_typed(text, width), text, strict=True) if pad >= 0)
    found = [""]
    for char in shown:
        if cells(found[-1] + char) > width:
            found.append("")
        found[-1] += char
    return [row.rstrip() for row in found]


def test_typed_text_is_wrapped_at_spaces() -> None:
    assert rows("the quick brown fox jumps over it", 10) == ["the quick", "brown fox", "jumps over", "it"]
    assert rows("a " + "x" * 25, 10) == ["a xxxxxxxx", "x" * 10, "x" * 7]
    assert rows("see 変更は小さい now", 10) == ["see 変更は", "小さい now"]


@pytest.mark.parametrize("width", [5, 11, 40])
def test_the_rows_are_counted_as_they_are_drawn(width: int) -> None:
    text = "words of many lengths, some of themratherlong and 変更は小さい too"
    assert count_typed_rows(f"{text}\n\n{text}", width) == 2 * len(rows(text, width)) + 1


@pytest.mark.parametrize("char", ["a", "👍🏽", "👨‍👩‍👧", "🇩🇪", "e\u0301", "✌️", "か"])
def test_a_character_is_moved_over_as_a_whole(char: str) -> None:
    assert length_before(f"x{char}") == length_after(f"{char}x") == len(char)
    assert length_before(f"🇫🇷{char}") == len(char)


def test_a_long_line_is_wrapped_once_however_often_it_is_drawn() -> None:
    wraps = WrapAtSpaces(lambda: 2)

    def draw(text: str) -> int:
        fragments: list[Any] = [("", text)]
        given = TransformationInput(BufferControl(), Document(text), 0, lambda at: at, fragments, 80, 24)
        return steps(lambda: wraps.apply_transformation(given))

    long = "word " * 2_000
    assert draw(long) > 2_000
    assert draw(long) < 50


def type_keys(buffer: TypedBuffer, keys: str) -> None:
    """Type keys as prompt-toolkit does, which saves the text before each; < deletes."""
    for key in keys:
        buffer.save_to_undo_stack()
        if key == "<":
            buffer.delete_before_cursor()
        else:
            buffer.insert_text(key)


def undone(buffer: TypedBuffer) -> list[str]:
    """The texts that undo comes to."""
    found = []
    while True:
        buffer.save_to_undo_stack()
        before = buffer.text
        buffer.undo()
        if buffer.text == before:
            return found
        found.append(buffer.text)


def test_undo_takes_back_a_word() -> None:
    buffer = TypedBuffer()
    type_keys(buffer, "fix the  bug")
    assert undone(buffer) == ["fix the  ", "fix ", ""]
    type_keys(buffer, "abc def<<<x")
    assert undone(buffer) == ["abc ", "abc def", "abc ", ""]
    buffer.reset()
    buffer.save_to_undo_stack()
    buffer.insert_text("[Pasted #1 9 lines]")
    type_keys(buffer, " ok")
    buffer.save_to_undo_stack()
    buffer.cursor_position = 0
    type_keys(buffer, "so")
    assert undone(buffer) == ["[Pasted #1 9 lines] ok", "[Pasted #1 9 lines] ", "[Pasted #1 9 lines]", ""]


def test_undo_in_vi_takes_back_all_that_was_typed() -> None:
    app: Application[None] = Application(editing_mode=EditingMode.VI, output=DummyOutput(), input=DummyInput())
    with set_app(app):
        buffer = TypedBuffer()
        type_keys(buffer, "fix the bug")
        assert undone(buffer) == [""]

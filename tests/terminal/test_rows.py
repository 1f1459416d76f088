"""Rows on the screen look and are as wide as prompt-toolkit's own windows show them, whatever is in them."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit import renderer
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.layout import Dimension, FormattedTextControl, HSplit, Window
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Screen, WritePosition
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import DummyStyleTransformation, default_ui_style

from agent_cli.shells.terminal.app.rows import Line, Rows, draw_screen
from tests.support.hypothesis_examples import examples

COLUMNS, ROWS = 20, 6
SIZE = Size(rows=ROWS, columns=COLUMNS)
_CHARS = st.sampled_from(["a", "B", " ", "-", "ä", "漢", "🙂", "│"])
_STYLES = st.sampled_from(["", "bold", "fg:ansired", "reverse", "bg:#005f87", "underline"])
_PARTS = st.lists(st.tuples(_STYLES, st.text(_CHARS, min_size=1, max_size=5)), max_size=3)
_ROWS = st.lists(_PARTS.map(tuple), max_size=ROWS)


@given(rows=_ROWS, start=st.integers(0, 3))
@settings(max_examples=examples(200), deadline=None)
def test_a_screen_looks_as_prompt_toolkit_draws_it(rows: list[Line], start: int) -> None:
    control = FormattedTextControl([part for row in rows for part in [*row, ("", "\n")]][:-1])
    window = Window(control, height=Dimension.exact(len(rows)), dont_extend_height=True)
    theirs = _drawn(_written(window), renderer._output_screen_diff, start)
    ours = _drawn(_written(Rows(lambda: rows)), draw_screen, start)
    assert ours == theirs


def test_a_combining_character_joins_the_one_before_it() -> None:
    rows: list[Line] = [(("", "ne\u0301"), ("bold", "\u0301漢x"))]
    cells = _drawn(_written(Rows(lambda: rows)), draw_screen, 0)[0][1]
    assert [cell.data for cell in cells[:5]] == ["n", "é\u0301", "漢", " ", "x"]


def _written(container: Any) -> Screen:
    screen = Screen()
    split = HSplit([container])
    height = min(ROWS, split.preferred_height(COLUMNS, ROWS).preferred)
    split.write_to_screen(screen, MouseHandlers(), WritePosition(0, 0, COLUMNS, height), "", False, None)
    return screen


def _drawn(screen: Screen, draw: Any, start: int) -> tuple[Any, ...]:
    """What a terminal shows after the screen is drawn with the cursor `start` rows below its first row."""
    out = io.StringIO()
    output = Vt100_Output(out, lambda: SIZE, term="xterm-256color", enable_cpr=False)
    cursor = Point(2, max(screen.height - 1, 0))
    app = SimpleNamespace(layout=SimpleNamespace(current_window=None))
    screen.get_cursor_position = lambda window: cursor  # type: ignore[method-assign]
    attrs = renderer._StyleStringToAttrsCache(default_ui_style().get_attrs_for_style_str, DummyStyleTransformation())
    place, _ = draw(
        app, output, screen, Point(3, start), ColorDepth.TRUE_COLOR, None, None, False, False, attrs,
        renderer._StyleStringHasStyleCache(attrs), SIZE, COLUMNS,
    )  # fmt: skip
    output.flush()
    terminal = pyte.Screen(COLUMNS, ROWS + 4)
    feed = pyte.Stream(terminal)
    feed.feed("above\r\n" + "old text\r\n" * start + "   ")
    feed.feed(out.getvalue())
    cells = [
        [terminal.buffer[y][x]._replace(data=terminal.buffer[y][x].data or " ") for x in range(COLUMNS)]
        for y in range(ROWS + 4)
    ]
    return cells, (terminal.cursor.x, terminal.cursor.y), place, pyte.modes.DECAWM in terminal.mode

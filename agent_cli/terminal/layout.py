"""Where the parts of the live region stand: what goes on above the input line, the menu and the toolbar below it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from prompt_toolkit.filters import vi_navigation_mode
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import BufferControl, Dimension, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from agent_cli.terminal.ansi import cells
from agent_cli.terminal.line import InputLine
from agent_cli.terminal.panels import INPUT, Line
from agent_cli.terminal.themes import drawn
from agent_tools.clipping import UNSAFE

_MARK = "\N{REPLACEMENT CHARACTER}"
# The renderer spells the controls out itself.
_HIDDEN = re.compile(rf"(?![\x00-\x1f\x7f-\x9f])(?:{UNSAFE})")
Lines = Callable[[], Sequence[Line]]


@cache
def style_of(theme: str) -> Style:
    """The styles of the live part; the same object each time, which spares a redraw."""
    return Style.from_dict(drawn(theme))


def make_layout(
    line: InputLine, above: Lines, below: Lines, rows: Callable[[], int], frame: Callable[[], int]
) -> Layout:
    """Three windows, none taller than what it shows. rows: the height of the terminal. frame: a number that changes
    with each frame; what stands above and below is asked for once in each."""
    search = SearchToolbar(forward_search_prompt="search: ", backward_search_prompt="search back: ")

    def prefix(number: int, wrap_count: int) -> StyleAndTextTuples:
        label = f"[vi] {line.label}" if vi_navigation_mode() else line.label
        if number == 0 and wrap_count == 0:
            return [("class:ask" if line.replying else "class:prompt", label)]
        return [("", " " * cells(label) if wrap_count or number else "")]

    typing = Window(
        BufferControl(
            line.buffer, search_buffer_control=search.control, preview_search=True, input_processors=[_Visible()]
        ),
        height=lambda: Dimension(min=1, max=max(1, min(INPUT, rows() // 3))),
        wrap_lines=True,
        dont_extend_height=True,
        get_line_prefix=prefix,
    )
    return Layout(HSplit([_text(above, frame), typing, search, _text(below, frame)]), focused_element=typing)


class _Visible(Processor):
    """Shows a mark for each character that would not be seen or turns the text around; there are as many as before."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        shown: StyleAndTextTuples = [
            (style, _HIDDEN.sub(_MARK, text)) for style, text, *_ in transformation_input.fragments
        ]
        return Transformation(shown)


def _text(lines: Lines, frame: Callable[[], int]) -> Window:
    """Rows that are clipped already. Without any, the window has no height."""
    kept: tuple[int, StyleAndTextTuples, Dimension] = (-1, [], Dimension.exact(0))

    def looked() -> tuple[int, StyleAndTextTuples, Dimension]:
        nonlocal kept
        if kept[0] != frame():
            rows = lines()
            found: StyleAndTextTuples = []
            for number, row in enumerate(rows):
                found += [("", "\n")] * bool(number) + list(row)
            kept = (frame(), found, Dimension.exact(len(rows)))
        return kept

    def height() -> Dimension:
        return looked()[2]

    return Window(FormattedTextControl(lambda: looked()[1]), height=height, wrap_lines=False, dont_extend_height=True)

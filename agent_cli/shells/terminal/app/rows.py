"""Rows of styled text on prompt-toolkit's screen, and a screen drawn from nothing by rows, not by characters.

A window copies each character to the screen and the renderer writes each one by itself, for every frame of an answer
that streams in; a row that has not changed since the last frame costs nothing here.

One private part of prompt-toolkit is used: the function `_output_screen_diff` of its renderer, which draws all other
screens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from prompt_toolkit import renderer
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.layout import Container, Dimension
from prompt_toolkit.layout.screen import Char, Screen
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Attrs

from agent_cli.shells.terminal.render.ansi import Fragment

Line = tuple[Fragment, ...]


class Rows(Container):
    """Rows that are already clipped to the width; without rows it has no height.

    rows: called several times for each frame.
    """

    def __init__(self, rows: Callable[[], Sequence[Line]]) -> None:
        self._rows = rows

    def reset(self) -> None:
        """Do nothing: there is no state."""

    def preferred_width(self, max_available_width: int) -> Dimension:
        return Dimension()

    def preferred_height(self, width: int, max_available_height: int) -> Dimension:
        return Dimension.exact(len(self._rows()))

    def write_to_screen(self, screen: Screen, mouse_handlers: Any, write_position: Any, *more: Any) -> None:
        first = write_position.ypos
        for number, row in enumerate(self._rows()[: write_position.height]):
            screen.data_buffer[first + number].update(_cells(row))
        screen.height = max(screen.height, first + write_position.height)

    def get_children(self) -> list[Container]:
        return []


_cell = lru_cache(8192)(Char)
_EMPTY = Char("", "")


@lru_cache(256)
def _cells(row: Line) -> Mapping[int, Char]:
    """Return the cells of a row by column; a combining character joins the one before it."""
    found: dict[int, Char] = {}
    column = before = 0
    for style, text in row:
        for char in text:
            cell = _cell(char, style)
            if cell.width:
                found[column] = cell
                found.update((column + n, _EMPTY) for n in range(1, cell.width))
                before, column = column, column + cell.width
            elif column:
                found[before] = _cell(found[before].char + char, found[before].style)
    return found


_draw_difference = renderer._output_screen_diff


def draw_screen(
    app: Any, output: Output, screen: Screen, current_pos: Point, color_depth: Any, previous_screen: Screen | None,
    last_style: str | None, is_done: bool, full_screen: bool, attrs_for_style_string: Any,
    style_string_has_style: Any, size: Size, previous_width: int,
) -> tuple[Point, str | None]:  # fmt: skip
    """Write a screen, in place of the renderer's own function, whose parameters and result these are."""
    if previous_screen is not None or is_done or full_screen or any(screen.zero_width_escapes.values()):
        return _draw_difference(
            app, output, screen, current_pos, color_depth, previous_screen, last_style, is_done, full_screen,
            attrs_for_style_string, style_string_has_style, size, previous_width,
        )  # fmt: skip
    output.hide_cursor()
    output.reset_attributes()
    output.disable_autowrap()
    output.cursor_up(current_pos.y)
    output.write_raw("\r")
    output.erase_down()
    height = min(screen.height, size.rows)
    for y in range(height):
        if y:
            output.reset_attributes()
            output.write_raw("\r\n")
        row = screen.data_buffer[y]
        used = (x for x, cell in row.items() if cell.char != " " or style_string_has_style[cell.style])
        _write_row(output, row, min(size.columns - 1, max(used, default=-1)), attrs_for_style_string, color_depth)
    cursor = screen.get_cursor_position(app.layout.current_window)
    output.write_raw("\r")
    output.cursor_up(max(height - 1, 0) - cursor.y)
    output.cursor_forward(cursor.x)
    output.enable_autowrap()
    output.reset_attributes()
    if screen.show_cursor:
        output.show_cursor()
    return cursor, None


def _write_row(output: Output, row: Mapping[int, Char], last: int, attrs: Any, depth: Any) -> None:
    """Write the cells of a row up to the column `last`, those of one style together."""
    shown: Attrs | None = None
    style, text, x = "", "", 0
    while x <= last:
        cell = row[x]
        if cell.style != style or not x:
            output.write(text)
            style, text = cell.style, ""
            if attrs[style] != shown:
                shown = attrs[style]
                output.set_attributes(shown, depth)
        text += cell.char
        x += cell.width or 1
    output.write(text)

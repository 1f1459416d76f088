"""The screen below prompt-toolkit: an inline application whose every frame is one write.

Private parts of prompt-toolkit are used, and the renderer's `erase` is replaced, only in this file and in `rows.py`:
`_redraw`, `_on_resize`, `_handle_exception`, `_is_running`, `_running_in_terminal`, the output's `_cursor_visible`,
the renderer's `_last_screen`, `_cursor_pos`, `_style_string_has_style` and `_bracketed_paste_enabled`, its function
`_output_screen_diff`, and the copy of its state with which a frame that was not written is forgotten.

The terminal is asked for its background (OSC 11), to choose the colours. Only the first lines wait a moment for the
answer; keys never wait. After a resize, a terminal that rewraps rows is asked for the row of the cursor (CPR), and
drawing waits a moment for it. A late answer is ignored, but never mistaken for keys.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import prompt_toolkit.renderer
from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.utils import get_cwidth

from agent_cli.shells.terminal.app.key_reader import BACKGROUND_ANSWER, CURSOR_ANSWER, AnswerFilter, KeyReader
from agent_cli.shells.terminal.app.rows import draw_screen
from agent_cli.shells.terminal.render.theme import ASK_BACKGROUND, Colors, parse_background

# Seconds in which an answer counts, and for which the first lines wait.
ANSWER_SECONDS, WAIT_SECONDS = 2.0, 0.12


class BackgroundQuestion:
    """Asks the terminal for its background.

    changed: called when the first lines need not wait any more.
    """

    def __init__(self, colors: Colors, clock: Callable[[], float], changed: Callable[[], None]) -> None:
        self._colors, self._clock, self._changed = colors, clock, changed
        self._asked_at = self._until = 0.0

    def ask(self, answers: AnswerFilter) -> str:
        """Filter the answer out of the terminal's input; return the sequence that asks."""
        answers.expect(BACKGROUND_ANSWER, self._found)
        self._asked_at = self._clock()
        self._until = self._asked_at + WAIT_SECONDS if self._colors.depends_on_background else 0.0
        return ASK_BACKGROUND

    @property
    def wait(self) -> float:
        """Seconds that lines still have to wait, as their colours depend on the answer."""
        return max(0.0, self._until - self._clock())

    def _found(self, answer: str) -> None:
        background = parse_background(answer)
        if background is not None and self._clock() - self._asked_at < ANSWER_SECONDS:
            self._colors.set_background(background)
        self._until = 0.0
        self._changed()


_REFLOW_VARIABLES = ("TMUX", "KITTY_WINDOW_ID", "VTE_VERSION", "WT_SESSION", "ALACRITTY_WINDOW_ID", "WEZTERM_PANE")
_REFLOW_PROGRAMS = ("iTerm.app", "WezTerm", "vscode", "ghostty")
_ESCAPE_TIMEOUT, _SEQUENCE_TIMEOUT = 0.02, 1.0


def reflows(env: Mapping[str, str]) -> bool:
    """Return True if the terminal rewraps old lines when it gets narrower.

    If in doubt False: a stale row is better than a lost one.
    """
    if env.get("XTERM_VERSION") or env.get("TERM", "").split("-")[0] == "linux":
        return False
    return any(env.get(name) for name in _REFLOW_VARIABLES) or env.get("TERM_PROGRAM") in _REFLOW_PROGRAMS


class AtomicOutput(Vt100_Output):
    """Write escape sequences to a file descriptor, one write per frame, as a synchronized update (DEC 2026)."""

    def __init__(self, stdout: Any, get_size: Callable[[], Size], *, synchronized: bool = True) -> None:
        # Never query the cursor position: some terminals do not answer, and the answer mixes with the keys.
        super().__init__(stdout, get_size, term=os.environ.get("TERM"), enable_cpr=False)
        self._synchronized = synchronized
        self._depth = 0
        self._keep_paste = False
        self.writes = 0

    @contextmanager
    def frame(self, *, keep_paste: bool = False) -> Iterator[None]:
        """Collect output and write it at once at the end of the outermost frame.

        keep_paste: leave bracketed paste on, although the renderer is reset inside.
        """
        self._depth += 1
        before, self._keep_paste = self._keep_paste, self._keep_paste or keep_paste
        try:
            yield
        finally:
            self._depth -= 1
            self._keep_paste = before
            self.flush()

    def forget(self) -> None:
        """Drop what the frame has collected."""
        self._buffer = []
        self._cursor_visible = None

    def flush(self) -> None:
        if self._depth or not self._buffer:
            return
        text = "".join(self._buffer)
        self._buffer = []
        if self._synchronized:
            text = f"\x1b[?2026h{text}\x1b[?2026l"
        self.writes += 1
        self.put(text.encode("utf-8", "replace"))

    def put(self, data: bytes) -> None:
        """Write all data; the terminal may be slow, or made non-blocking by a program that shares it."""
        number = self.fileno()
        while data:
            try:
                data = data[os.write(number, data) :]
            except BlockingIOError:
                select.select([], [number], [], 1.0)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return  # the terminal is gone; SIGHUP follows

    def erase_down(self) -> None:
        # In column 0 of the first row, tmux treats `CSI J` as a cleared screen and scrolls it into its history.
        self.write_raw("\x1b[K\x1b[C\x1b[J\r")

    def enable_bracketed_paste(self) -> None:
        if not self._keep_paste:
            super().enable_bracketed_paste()

    def disable_bracketed_paste(self) -> None:
        if not self._keep_paste:
            super().disable_bracketed_paste()


def terminal_size(number: int = 1) -> Size:
    """Return the terminal size; 24 x 80 if it is unknown."""
    try:
        columns, rows = os.get_terminal_size(number)
    except OSError:
        columns, rows = 0, 0
    return Size(rows=rows or 24, columns=columns or 80)


# While a window is dragged, tmux tells of its first size at once and of the next ones up to 250 ms later. A frame for
# another width than the window has would tear or lose what stands above it.
SETTLE_SECONDS = 0.3
# After a change, a terminal that rewraps rows is asked for the row of the cursor; seconds to wait for the answer.
_ASK_CURSOR, CURSOR_SECONDS = "\x1b[6n", 0.1


def rows_of(widths: Sequence[int], columns: int) -> list[int]:
    """Return how many rows each line takes, rewrapped to a number of columns."""
    return [max(1, -(-width // columns)) for width in widths]


class Leftovers:
    """The lines of earlier drawings that a narrower window has moved above the screen, where nothing erases them.

    They stand directly above the live region, and come back to the screen in a wider window.
    """

    def __init__(self) -> None:
        self._widths: list[int] = []
        # The last one was cut: the terminal takes what stands below for the rest of its line.
        self._goes_on = False

    def above(self, region: Sequence[int]) -> list[int]:
        """Return the widths of the lines with those of the live region below them."""
        if not self._goes_on or not region:
            return [*self._widths, *region]
        return [*self._widths[:-1], self._widths[-1] + region[0], *region[1:]]

    def keep(self, lines: Sequence[int], count: int, columns: int) -> None:
        """Keep the first rows of lines, rewrapped to a number of columns."""
        self.forget()
        for width, rows in zip(lines, rows_of(lines, columns), strict=True):
            if count <= 0:
                return
            self._goes_on = rows > count
            self._widths.append(count * columns if self._goes_on else width)
            count -= rows

    def forget(self) -> None:
        """Forget them, as something else was written below."""
        self._widths, self._goes_on = [], False


class InlineApp(Application[None]):
    """A prompt-toolkit application below the scrollback that can write lines above itself.

    After the window has changed, nothing is drawn for SETTLE_SECONDS, nor before the row of the cursor is known.
    """

    def __init__(self, output: AtomicOutput, reader: KeyReader, *, reflow: bool, **more: Any) -> None:
        self.reader = reader
        self._timeout = _SEQUENCE_TIMEOUT
        self._reflow = reflow
        # The size of the last frame, the last one that was seen, and when that one counts as final.
        self._drawn: Size | None = None
        self._seen: Size | None = None
        self._settled_at = 0.0
        self._settle_planned = False
        # The size for which the cursor's row is asked for.
        self._asked_for: Size | None = None
        self._left = Leftovers()
        self.frame_number = 0
        self.screen = output
        # Who holds the keys back, what reads them again, and those that were read and not handled.
        self._holders, self._holding = 0, ExitStack()
        self._held: list[KeyPress] = []
        prompt_toolkit.renderer._output_screen_diff = draw_screen
        super().__init__(full_screen=False, erase_when_done=True, output=output, input=reader, **more)
        self._erase_drawn = self.renderer.erase
        self.renderer.erase = self._erase  # type: ignore[method-assign]

    @property
    def ttimeoutlen(self) -> float:
        """Seconds without input after which what the reader holds is a key."""
        return self.reader.quiet_seconds

    @ttimeoutlen.setter
    def ttimeoutlen(self, seconds: float) -> None:
        """Do nothing: prompt-toolkit sets its own default."""

    @property
    def timeoutlen(self) -> float:
        """Short after Escape, so that it interrupts at once; longer otherwise, so that Ctrl-X Ctrl-E can be typed."""
        pending = self.key_processor.key_buffer
        return _ESCAPE_TIMEOUT if pending and pending[-1].key == Keys.Escape else self._timeout

    @timeoutlen.setter
    def timeoutlen(self, seconds: float) -> None:
        self._timeout = seconds

    def hold_keys(self) -> None:
        """Handle no keys from now on, as they are for a view that opens. Each call needs one of `release_keys`."""
        if not self._holders:
            self._holding.enter_context(self.reader.detach())
        self._holders += 1
        self._held += [*self.key_processor.empty_queue(), *self.reader.flush_keys()]

    def take_held(self) -> list[KeyPress]:
        """Return the keys that were read before the view opened."""
        held, self._held = self._held, []
        return held

    def leave_keys(self) -> None:
        """Leave the keys that are held, to the next application on this terminal."""
        store_typeahead(self.reader, self.take_held())

    def release_keys(self, typed: Sequence[KeyPress] = ()) -> None:
        """Handle keys again, and those that no view has taken. typed: what came behind the key that closed a view."""
        self._held += typed
        self._holders -= 1
        if self._holders:
            return
        self._holding.close()
        if keys := self.take_held():
            # They did not come alone, so none of them answers a question.
            self.reader.alone = False
            self.key_processor.feed_multiple(keys)
            self.key_processor.process_keys()

    @property
    def away(self) -> bool:
        """True while another program, such as an editor, has the terminal, or after the application has ended."""
        return self._running_in_terminal or not self._is_running

    @property
    def settling(self) -> bool:
        """True while the window changes: nothing may be drawn then."""
        size, now = self.screen.get_size(), time.monotonic()
        if size != self._seen:
            self._settled_at = now + SETTLE_SECONDS if self._seen is not None else 0.0
            self._seen = size
        waits = now < self._settled_at or self._asked_for is not None
        if now < self._settled_at and not self._settle_planned and self.loop is not None:
            self._settle_planned = True
            self.loop.call_later(self._settled_at - now, self._after_change)
        return waits

    def _after_change(self) -> None:
        self._settle_planned = False
        self._on_resize()

    def commit(self, lines: Iterable[str], extra: str = "") -> bool:
        """Write finished lines above the live region and redraw it below them; return False if that has to wait.

        extra: sequences without width, such as the bell.
        """
        if self.away or self.settling:
            return False

        def paint() -> None:
            self.renderer.erase()
            rows = [f"{line}\x1b[0m\r\n" for line in lines]
            self.screen.write_raw("".join(rows) + extra)
            if rows:
                self._left.forget()
            super(InlineApp, self)._redraw()

        return self._write_frame(paint)

    def patch(self, rows: Mapping[int, str]) -> None:
        """Write over the beginning of rows of the live region, without drawing it: {row: text with SGR sequences}.

        Much cheaper than a frame, for a moving marker.
        """
        cursor, size = self.renderer._cursor_pos, self.screen.get_size()
        if self.away or self.settling or self.renderer._last_screen is None or not rows:
            return
        with self.screen.frame():
            for row, text in rows.items():
                if 0 <= row < cursor.y < size.rows:
                    self.screen.write_raw(f"\x1b7\x1b[{cursor.y - row}A\r{text}\x1b[0m\x1b8")

    def redraw(self) -> None:
        """Redraw the live region where it changed."""
        if not self.away:
            self._redraw()

    def _redraw(self, render_as_done: bool = False) -> None:
        size = self.screen.get_size()
        if render_as_done:
            with self.screen.frame():
                super()._redraw(render_as_done)
            return

        def paint() -> None:
            if self._is_too_tall(size):
                self.renderer.erase()
            super(InlineApp, self)._redraw()

        if not self.settling:
            self._write_frame(paint)

    def _write_frame(self, paint: Callable[[], None]) -> bool:
        """Write what paint draws as one frame, in which a reset of the renderer does not toggle bracketed paste.

        Return False, with nothing written, if the window changed meanwhile.
        """
        self.frame_number += 1
        size, shown = self.screen.get_size(), vars(self.renderer).copy()
        with self.screen.frame(keep_paste=self.renderer._bracketed_paste_enabled):
            paint()
            if not self.away and self.settling:
                self.screen.forget()
                vars(self.renderer).update(shown)
                return False
        self._drawn = size
        return True

    def _is_too_tall(self, size: Size) -> bool:
        """Return True if the live region has to shrink; the renderer never does that itself."""
        last = self.renderer.last_rendered_screen
        if last is None or self.away or self.context is None:
            return False
        wanted = self.context.copy().run(self.layout.container.preferred_height, size.columns, size.rows)
        return last.height > wanted.preferred

    def _on_resize(self) -> None:
        """Erase the live region as the terminal shows it after a resize, and draw it for the new size."""
        if self.away or self.settling:
            return
        size = self.screen.get_size()
        if not self._reflow or self.loop is None:
            self._draw_resized(size, None)
            return
        self._asked_for = size

        def found(row: str) -> None:
            if self._asked_for is size:
                self._draw_resized(size, int(row))

        def missed() -> None:
            if self._asked_for is size:
                self._draw_resized(size, None)

        self.reader.answers.expect(CURSOR_ANSWER, found)
        with self.screen.frame():
            self.screen.write_raw(_ASK_CURSOR)
        self.loop.call_later(CURSOR_SECONDS, missed)

    def _draw_resized(self, size: Size, row: int | None) -> None:
        """Erase and draw. row: the one of the cursor, from 1; None if it is not known."""
        self._asked_for = None
        if self.away or self.settling:
            return
        lines, up = self._rows_above(size.columns)

        def paint() -> None:
            self._go_to_first_row()
            self.screen.erase_down()
            self.screen.reset_attributes()
            self.screen.enable_autowrap()
            self.renderer.reset()
            super(InlineApp, self)._redraw()

        if self._write_frame(paint):
            self._left.keep(lines, up - (row - 1) if row is not None else 0, size.columns)

    def _erase(self, leave_alternate_screen: bool = True) -> None:
        """Erase the live region, also before it is drawn for a new size: at the end, before an editor, or in a stop."""
        if self.screen.get_size() != self._drawn:
            self._go_to_first_row()
            self.renderer._cursor_pos = Point(x=0, y=0)
        self._erase_drawn(leave_alternate_screen)

    def _go_to_first_row(self) -> None:
        """Move the cursor to the beginning of the live region, as the terminal shows it now."""
        size = self.screen.get_size()
        _, up = self._rows_above(size.columns)
        self.screen.write_raw("\r")
        self.screen.cursor_up(min(up, size.rows - 1))

    def _handle_exception(self, loop: Any, context: dict[str, Any]) -> None:
        """End the application on an error in a callback; the caller of `run` reports it."""
        error = context.get("exception") or RuntimeError(context.get("message"))
        if self.is_running and not self.is_done:
            self.exit(exception=error)

    def _rows_above(self, columns: int) -> tuple[list[int], int]:
        """Return the widths of the lines above the cursor's, and how many rows it is below the first one.

        Both are as the terminal shows them: rewrapped to its columns if it does that.
        """
        cursor, screen = self.renderer._cursor_pos, self.renderer._last_screen
        if not self._reflow or screen is None:
            return [], cursor.y
        has_style = self.renderer._style_string_has_style
        region = [
            max(
                (
                    x + max(get_cwidth(cell.char), 1)
                    for x, cell in screen.data_buffer[y].items()
                    if cell.char.strip() or (has_style is not None and has_style[cell.style])
                ),
                default=0,
            )
            for y in range(cursor.y)
        ]
        lines = self._left.above(region)
        return lines, sum(rows_of(lines, columns)) + cursor.x // columns

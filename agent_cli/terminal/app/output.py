"""The screen below prompt-toolkit: an inline application whose every frame is one write.

What is private to prompt-toolkit is used here and nowhere else: `_redraw`, `_on_resize`, `_handle_exception`,
`_is_running`, `_running_in_terminal`, the renderer's `_last_screen`, `_cursor_pos` and `_bracketed_paste_enabled`.
"""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.utils import get_cwidth

NEWLINE = Keys.F23
# Alt-Enter, and Shift-Enter as the two protocols that tell it from Enter spell it.
for _sequence in ("\x1b\r", "\x1b\n", "\x1b[13;2u", "\x1b[27;2;13~"):
    ANSI_SEQUENCES[_sequence] = NEWLINE

_REFLOWING = ("TMUX", "KITTY_WINDOW_ID", "VTE_VERSION", "WT_SESSION", "ALACRITTY_WINDOW_ID", "WEZTERM_PANE")
_PROGRAMS = ("iTerm.app", "WezTerm", "vscode", "ghostty")
_FAST, _SLOW = 0.02, 1.0


def reflows(env: Mapping[str, str]) -> bool:
    """Whether the terminal wraps old lines anew when it gets narrower. In doubt not: a stale row is better than a lost
    one."""
    if env.get("XTERM_VERSION") or env.get("TERM", "").split("-")[0] == "linux":
        return False
    return any(env.get(name) for name in _REFLOWING) or env.get("TERM_PROGRAM") in _PROGRAMS


class AtomicOutput(Vt100_Output):
    """Escape sequences to a file descriptor, one write per frame, marked as one update (DEC 2026)."""

    def __init__(self, stdout: Any, get_size: Callable[[], Size], *, synchronized: bool = True) -> None:
        # The cursor's place is never asked for: some terminals do not answer, and the answer mixes with the keys.
        super().__init__(stdout, get_size, term=os.environ.get("TERM"), enable_cpr=False)
        self._synchronized = synchronized
        self._depth = 0
        self._keep_paste = False
        self.writes = 0

    @contextmanager
    def frame(self, *, keep_paste: bool = False) -> Iterator[None]:
        """What is written inside goes out as one write at the end of the outermost frame.

        keep_paste: bracketed paste stays on, though the renderer is reset inside.
        """
        self._depth += 1
        before, self._keep_paste = self._keep_paste, self._keep_paste or keep_paste
        try:
            yield
        finally:
            self._depth -= 1
            self._keep_paste = before
            self.flush()

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
        """Write all of it; the terminal may be slow, or set to not block by a program that shares it."""
        number = self.fileno()
        while data:
            try:
                data = data[os.write(number, data) :]
            except BlockingIOError:
                select.select([], [number], [], 1.0)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return  # the terminal is gone; a hang-up follows

    def erase_down(self) -> None:
        # In column 0 of the first row tmux takes `CSI J` for a cleared screen and scrolls it into its history.
        self.write_raw("\x1b[K\x1b[C\x1b[J\r")

    def enable_bracketed_paste(self) -> None:
        if not self._keep_paste:
            super().enable_bracketed_paste()

    def disable_bracketed_paste(self) -> None:
        if not self._keep_paste:
            super().disable_bracketed_paste()


def terminal_size(number: int = 1) -> Size:
    """The size of the terminal, or 24 x 80 where it does not say."""
    try:
        columns, rows = os.get_terminal_size(number)
    except OSError:
        columns, rows = 0, 0
    return Size(rows=rows or 24, columns=columns or 80)


class InlineApp(Application[None]):
    """A prompt-toolkit application that lives below the scrollback and can write lines above itself."""

    def __init__(self, output: AtomicOutput, *, reflow: bool, **more: Any) -> None:
        self._timeout = _SLOW
        self._reflow = reflow
        self._drawn: Size | None = None
        self.frame_number = 0
        self.screen = output
        super().__init__(full_screen=False, erase_when_done=True, output=output, **more)
        self.ttimeoutlen = 0.03

    @property
    def timeoutlen(self) -> float:
        """Short after Escape, so that it interrupts at once; long for others, so that Ctrl-X Ctrl-E can be typed."""
        pending = self.key_processor.key_buffer
        return _FAST if pending and pending[-1].key == Keys.Escape else self._timeout

    @timeoutlen.setter
    def timeoutlen(self, seconds: float) -> None:
        self._timeout = seconds

    @property
    def away(self) -> bool:
        """Another program has the terminal (an editor), or nothing is drawn any more."""
        return self._running_in_terminal or not self._is_running

    def take_typed_ahead(self) -> None:
        """Lines that were typed before the terminal was ours: it has made line feeds of their Enters, which are keys of
        another meaning here. To be called before the application reads."""
        number = self.input.fileno()
        keys: list[KeyPress] = []
        parser = Vt100Parser(keys.append)
        while os.isatty(number) and select.select([number], [], [], 0)[0] and (data := os.read(number, 4096)):
            parser.feed(data.decode("utf-8", "replace").replace("\n", "\r"))
        self.key_processor.feed_multiple(keys)

    def commit(self, lines: Sequence[str], extra: str = "") -> None:
        """Write finished lines above what is live, and draw that again below them.

        extra: sequences without width, such as the bell.
        """
        if self.away:
            return
        if self._drawn is not None and self.screen.get_size() != self._drawn:
            self._on_resize()
        with self._kept():
            self.renderer.erase()
            self.screen.write_raw("".join(f"{line}\x1b[0m\r\n" for line in lines) + extra)
            super()._redraw()

    def redraw(self) -> None:
        """Draw what is live, where it changed."""
        if not self.away:
            self._redraw()

    def _redraw(self, render_as_done: bool = False) -> None:
        size = self.screen.get_size()
        if render_as_done:
            with self.screen.frame():
                super()._redraw(render_as_done)
            return
        if self._drawn is not None and size != self._drawn and not self.away:
            self._on_resize()
            return
        with self._kept():
            if self._is_too_tall(size):
                self.renderer.erase()
            super()._redraw()
        self._drawn = size

    def _kept(self) -> AbstractContextManager[None]:
        """A frame in which the renderer may be reset without bracketed paste being switched off and on."""
        self.frame_number += 1
        return self.screen.frame(keep_paste=self.renderer._bracketed_paste_enabled)

    def _is_too_tall(self, size: Size) -> bool:
        """The renderer itself never lets the height shrink."""
        last = self.renderer.last_rendered_screen
        if last is None or self.away or self.context is None:
            return False
        wanted = self.context.copy().run(self.layout.container.preferred_height, size.columns, size.rows)
        return last.height > wanted.preferred

    def _on_resize(self) -> None:
        """Erase what was drawn for the old size, as the terminal shows it now, and draw it for the new one."""
        if self.away:
            return
        size, before = self.screen.get_size(), self._drawn
        self._drawn = size
        with self._kept():
            up = self._rows_above(size.columns if self._reflow and before and size.columns < before.columns else None)
            self.screen.write_raw("\r")
            self.screen.cursor_up(min(up, size.rows - 1))
            self.screen.erase_down()
            self.screen.reset_attributes()
            self.screen.enable_autowrap()
            self.renderer.reset()
            super()._redraw()

    def _handle_exception(self, loop: Any, context: dict[str, Any]) -> None:
        """A mistake in a callback ends the application; whoever runs it words it."""
        error = context.get("exception") or RuntimeError(context.get("message"))
        if self.is_running and not self.is_done:
            self.exit(exception=error)

    def _rows_above(self, columns: int | None) -> int:
        """How many rows the cursor is below the first of ours; counted at a new width where the terminal reflows."""
        cursor, screen = self.renderer._cursor_pos, self.renderer._last_screen
        if columns is None or screen is None:
            return cursor.y
        rows = cursor.x // columns
        for y in range(cursor.y):
            row = screen.data_buffer[y]
            width = max((x + get_cwidth(cell.char) for x, cell in row.items() if cell.char.strip()), default=0)
            rows += max(1, -(-width // columns))
        return rows

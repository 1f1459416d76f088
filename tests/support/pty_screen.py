"""The real program in a pty whose screen is drawn by pyte, as a user would see it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyte
from pyte.screens import Char
from wcwidth import wcswidth

from agent_cli.shells.terminal.app.key_guard import GRAVE_SECONDS, QUIET_SECONDS
from tests.support.fork_server import start
from tests.support.program import clean_env
from tests.support.slow_line import SlowLine, Speed

PATIENCE = 60.0
# Seconds without a key after which one answers a question; and one of consequence, or whose answer is.
REST, GRAVE_REST = QUIET_SECONDS + 0.1, GRAVE_SECONDS + 0.05
# The marks of an update that belongs together (DEC 2026); the program may be killed between them.
_FRAME_BEGINS, _FRAME_ENDS = b"\x1b[?2026h", b"\x1b[?2026l"
_REST_OF_A_FRAME = 1.0
# What a program sends to ask for the colour of the background.
_ASKS_BACKGROUND = b"\x1b]11;?"
DIM = "dim "
# The mode of the alternate screen.
_ALTERNATE = 1049


class StyledScreen(pyte.Screen):
    """A screen that keeps what pyte drops: dim text (DIM before its colour), and what ran over the right edge.

    It has an alternate screen, too.
    above: what has been scrolled away. `pyte.HistoryScreen` has pages to turn besides, and takes twice as long.
    """

    def __init__(self, columns: int, rows: int, history: int) -> None:
        self.above: deque[Mapping[int, Char]] = deque(maxlen=history)
        self._main: tuple[dict[int, dict[int, Char]], tuple[int, int], tuple[int, int]] | None = None
        super().__init__(columns, rows)
        self.overrun: list[str] = []

    @property
    def display(self) -> list[str]:
        return [_text(self.buffer[y], self.columns) for y in range(self.lines)]

    def reset(self) -> None:
        super().reset()
        self.above.clear()

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        if kwargs.get("private") and _ALTERNATE in modes:
            self._main = {y: dict(row) for y, row in self.buffer.items()}, (self.cursor.x, self.cursor.y), self.size
            super().erase_in_display(2)
        super().set_mode(*modes, **kwargs)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        super().reset_mode(*modes, **kwargs)
        if kwargs.get("private") and _ALTERNATE in modes and self._main is not None:
            rows, (self.cursor.x, self.cursor.y), size = self._main
            super().erase_in_display(2)
            for y, row in rows.items() if size == self.size else ():
                self.buffer[y].update(row)
            self.dirty.update(range(self.lines))
            self._main = None

    @property
    def size(self) -> tuple[int, int]:
        return self.columns, self.lines

    def index(self) -> None:
        top, bottom = self.margins or (0, self.lines - 1)
        if self.cursor.y == bottom and self._main is None:
            self.above.append(self.buffer[top])
        super().index()

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        super().erase_in_display(how, *args, **kwargs)
        if how == 3:
            self.above.clear()

    def select_graphic_rendition(self, *attrs: int, **kwargs: Any) -> None:
        before = self.cursor.attrs.fg
        self.cursor.attrs = self.cursor.attrs._replace(fg=before.removeprefix(DIM))
        super().select_graphic_rendition(*attrs, **kwargs)
        if _dims(attrs, before.startswith(DIM)):
            self.cursor.attrs = self.cursor.attrs._replace(fg=DIM + self.cursor.attrs.fg)

    def draw(self, data: str) -> None:
        if self.cursor.x + max(wcswidth(data), 0) > self.columns:
            self.overrun.append(data)
        super().draw(data)


def _text(row: Mapping[int, Char], columns: int) -> str:
    """The text of a row; the second half of a wide character has none."""
    return "".join([row[x].data for x in range(columns)])


def _dims(attrs: tuple[int, ...], dim: bool) -> bool:
    """Return whether text is dim after a sequence; a 2 in a colour of 24 bits means something else."""
    left = list(attrs or (0,))
    while left:
        match left.pop(0):
            case 38 | 48 if left:
                del left[: 4 if left[0] == 2 else 2]
            case 0 | 22:
                dim = False
            case 2:
                dim = True
    return dim


class Drawn:
    """`agent` in the application. `wait` waits for text; nothing sleeps for a fixed time, but `rest`."""

    # What the terminal answers when it is asked for the colour of its background: nothing, or rgb:RRRR/GGGG/BBBB.
    background = ""

    def __init__(
        self,
        args: list[str],
        cwd: Path,
        columns: int = 100,
        rows: int = 30,
        *,
        speed: Speed | None = None,
        **env: str,
    ) -> None:
        """speed: of the line to the terminal, if it is not a local one."""
        self._ear, mouth = pty.openpty()
        fcntl.ioctl(mouth, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        # How the terminal treats keys before the program starts.
        self.modes_before = termios.tcgetattr(mouth)
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), mouth)
        self.child = start(args, cwd, clean_env(cwd.parent / "home", LANG="C.UTF-8", **env), terminal=True, **streams)
        self._mouth = mouth
        self._line = SlowLine(self._ear, speed) if speed is not None else None
        self._ear = self._line.user if self._line is not None else self._ear
        self.screen = StyledScreen(columns, rows, history=20_000)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self._in_frame = False

    def __enter__(self) -> Drawn:
        return self

    def __exit__(self, *error: object) -> None:
        self.child.kill()
        self.child.wait()
        self._close()
        os.close(self._mouth)

    def _close(self) -> None:
        if self._ear >= 0:
            os.close(self._ear)
            self._ear = -1
            if self._line is not None:
                self._line.close()

    def read(self, seconds: float) -> bool:
        """Draw what comes within the time, a frame whole or not at all; False where nothing came."""
        if not self._feed(seconds):
            return False
        while self._in_frame and self._feed(_REST_OF_A_FRAME):
            pass
        return True

    def _feed(self, seconds: float) -> bool:
        if not select.select([self._ear], [], [], seconds)[0]:
            return False
        data = os.read(self._ear, 65_536)
        self.raw += data
        # pyte takes the sequences that ask for the cursor's shape for others.
        self._stream.feed(data)
        if self.background and _ASKS_BACKGROUND in data:
            self.type(f"\x1b]11;{self.background}\x1b\\")
        # A terminal passes on a long frame in pieces, and a mark may be in two.
        recent = self.raw[-len(data) - len(_FRAME_ENDS) :]
        begins, ends = recent.rfind(_FRAME_BEGINS), recent.rfind(_FRAME_ENDS)
        if begins != ends:
            self._in_frame = begins > ends
        return True

    def type(self, text: str) -> None:
        """Keys, exactly these."""
        os.write(self._ear, text.encode())

    def line(self, text: str) -> None:
        """A line and Enter."""
        self.type(text + "\r")

    def rest(self, seconds: float = REST) -> None:
        """Let the time pass in which no key answers a question."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.read(left)

    def until(self, holds: Callable[[], bool], what: str = "it") -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, f"{what} did not come:\n{self.text()}"
            self.read(0.05)

    def ready(self) -> None:
        """Until keys go to the application."""
        self.until(lambda: b"\x1b[?2004h" in self.raw, "the prompt")

    def wait(self, text: str) -> None:
        """Until the text is on the screen or above it."""
        self.until(lambda: text in self.text(), repr(text))

    def gone(self, text: str) -> None:
        """Until the text is not on the screen any more."""
        self.until(lambda: text not in self.visible(), f"the end of {text!r}")

    def visible(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def text(self) -> str:
        """All that was drawn and still stands, from the first line on."""
        above = [_text(row, self.screen.columns).rstrip() for row in self.screen.above]
        return "\n".join([*above, self.visible()])

    def input_line(self) -> str:
        """The line with the cursor."""
        return str(self.screen.display[self.screen.cursor.y]).rstrip()

    def clear(self) -> None:
        """Ctrl-C, once there is no work that it would interrupt, until the input line is empty."""
        self.gone("to interrupt")
        self.type("\x03")
        self.until(lambda: self.input_line() == ">", "the empty line")

    def leave(self) -> str:
        """Ctrl-D, in an empty line; what is on the screen at the end."""
        self.type("\x04")
        return self.end()

    def end(self) -> str:
        self.child.wait(PATIENCE)
        while self.read(0.1):
            pass
        return self.text()

    def kill(self) -> None:
        """SIGKILL, and the end of the process."""
        self.child.kill()
        self.child.wait(PATIENCE)

    def hang_up(self) -> None:
        """Close the terminal, as a lost connection does, and wait for the end of the process."""
        self._close()
        self.child.wait(PATIENCE)

    def modes(self) -> list[int | list[bytes | int]]:
        """How the terminal treats keys."""
        return termios.tcgetattr(self._mouth)

"""Read lines without an editor, and what comes ahead of a question, or with a line, as in a paste."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

from agent_cli.kernel.run_environment import is_dumb
from agent_cli.shells.terminal.dialogs.model import GUARD_SECONDS
from agent_tools.text import escape_controls

# Lines of a paste come without a pause; see `app/key_reader`.
_PASTE_SECONDS = 0.03
T = TypeVar("T")
_ERASED = re.compile(r"[^\n\x7f\b]?[\x7f\b]")


def read_line(prompt: str) -> str:
    """Read a line, without NUL characters. Raises EOFError at the end of input, KeyboardInterrupt on Ctrl-C."""
    sys.stdout.write(prompt)
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line:
        if prompt:
            sys.stdout.write("\n")
        raise EOFError
    return line.rstrip("\n").replace("\0", "")


def read_hidden(prompt: str) -> str:
    """Read a line that is not shown, such as a key, from the terminal; "" at the end of input.

    Whatever came with it, as in a paste, is dropped. Raises KeyboardInterrupt on Ctrl-C.
    """
    before = termios.tcgetattr(0)
    hidden = termios.tcgetattr(0)
    hidden[3] &= ~termios.ECHO
    termios.tcsetattr(0, termios.TCSADRAIN, hidden)
    try:
        write_terminal(prompt)
        line = sys.stdin.readline()
        read_rest_of_paste()
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        write_terminal("\n")
    return re.sub(r"\x1b\[20[01]~", "", line).replace("\0", "").strip()


@contextmanager
def terminal_echo(*, on: bool) -> Iterator[None]:
    """Let the terminal show what is typed, or not, while no application reads it; nothing of it is lost."""
    try:
        before = termios.tcgetattr(0)
        changed = termios.tcgetattr(0)
        changed[3] = changed[3] | termios.ECHO if on else changed[3] & ~termios.ECHO
        termios.tcsetattr(0, termios.TCSANOW, changed)
    except (OSError, termios.error):
        yield  # no terminal
        return
    try:
        yield
    finally:
        with suppress(OSError, termios.error):
            termios.tcsetattr(0, termios.TCSANOW, before)


def write_terminal(text: str) -> None:
    """Write to the terminal itself, also while the output of the program goes elsewhere."""
    if sys.__stdout__ is not None:
        sys.__stdout__.flush()
    os.write(1, text.encode("utf-8", "replace"))


def run_interruptible(run: Callable[[], T]) -> T | None:
    """Run something on the main thread that Ctrl-C ends; return its result, None after Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run()
    except KeyboardInterrupt:
        return None
    finally:
        signal.signal(signal.SIGINT, before)


def is_line_waiting() -> bool:
    """Return True if a line was typed before it is asked for."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def read_typed_ahead(guard: float = GUARD_SECONDS) -> str:
    """Return what was typed before a question was visible, and while it appears: it is not an answer.

    Returns `guard` seconds after the question or the last key, so that a line being typed cannot answer; "" at once if
    the input is not a terminal. Raises KeyboardInterrupt on Ctrl-C.
    """
    return _read_keys(guard)


def read_rest_of_paste(seconds: float = _PASTE_SECONDS) -> str:
    """Return what came with the last line, or within so many seconds of it or of the last key.

    "" if the input is not a terminal. Raises KeyboardInterrupt on Ctrl-C.
    """
    return _read_keys(seconds)


def _read_keys(pause: float) -> str:
    """Read keys until none comes for so many seconds; return the text that they type."""
    found = b""
    try:
        before = termios.tcgetattr(0)
        quiet = termios.tcgetattr(0)
        # Read each key at once and without echo: otherwise an unsent line would go unnoticed.
        quiet[3] &= ~(termios.ICANON | termios.ECHO)
        data = b"\n"
        while data:
            termios.tcsetattr(0, termios.TCSANOW, quiet)
            try:
                while data and select.select([0], [], [], pause)[0]:
                    data = os.read(0, 4096)
                    found += data
            finally:
                termios.tcsetattr(0, termios.TCSANOW, before)
            if not select.select([0], [], [], 0)[0]:
                break
            # A key of the last moment would be read as a line without an end.
    except (OSError, termios.error):
        pass  # no terminal, or it is gone: the next read reports that
    text = found.decode(errors="replace")
    while (shorter := _ERASED.sub("", text)) != text:
        text = shorter
    return escape_controls(text)


def is_drawable(env: Mapping[str, str], *, plain: bool) -> bool:
    """Return True if a user is at a terminal that can draw the application, and wants it. plain: they do not."""
    able = not is_dumb(env) and not env.get("CI") and sys.platform != "win32" and os.isatty(0) and os.isatty(1)
    return able and not plain

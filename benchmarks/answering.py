"""How soon an answer to a question has its effect, and whether a row of an answer that streams in ever flickers."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import pyte

from benchmarks.keys import read_terminal, swallow
from benchmarks.measure import BenchmarkError
from benchmarks.stage import Stage, call_bash, say, words
from benchmarks.table import Row
from benchmarks.terminal import DONE, READY, until

QUESTIONS, FRAMES, PER_SECOND = 40, 1_000, 500
COLUMNS, ROWS = 120, 40
QUESTION = "Run this command?"
# No key for longer than this, so that the next one answers.
PAUSE = 0.4
PATIENCE = 20.0
# Frames in which a row that has gone may come back, and the cells of a row that is looked for.
_LATER, _LEAST_CELLS = 5, 8
_FRAME_ENDS = b"\x1b[?2026l"


def answers(stage: Stage, runs: int) -> Iterator[Row]:
    """A session that asks before each of many commands; the key for yes is pressed at each."""
    stage.answer = call_bash(QUESTIONS, "touch made-{n}")
    with _terminal(stage) as ear:
        until(ear, READY)
        os.write(ear, b"go\r")
        screen = pyte.Screen(COLUMNS, ROWS)
        stream = pyte.ByteStream(screen)
        effects = []
        for _ in range(QUESTIONS):
            _shown(ear, screen, stream, asked=True)
            stream.feed(swallow(ear, PAUSE))
            pressed = time.monotonic()
            os.write(ear, b"y")
            effects.append(_shown(ear, screen, stream, asked=False) - pressed)
    effects.sort()
    half, most = (effects[int(len(effects) * part)] * 1000 for part in (0.5, 0.95))
    note = f"{QUESTIONS} commands, from the key to the frame in which the question is gone and the command runs."
    yield Row("answers", "answer to a question, p50", half, "ms", "", None, None, "", note)
    yield Row("answers", "  p95", most, "ms", "< 60 ms", most < 60)


def frames(stage: Stage, runs: int) -> Iterator[Row]:
    """A long answer: of each row it is looked at whether it goes and comes back."""
    lines = words(60 * PER_SECOND, 9).splitlines()
    marks = ("- ", "", "1. ", "> ", "")
    text = "\n\n".join(f"{marks[n % len(marks)]}{line}" for n, line in enumerate(lines))
    stage.answer = say(text, 5)
    stage.server.per_second = PER_SECOND
    drawn, count = b"", 0
    try:
        with _terminal(stage) as ear:
            until(ear, READY)
            os.write(ear, b"go\r")
            while count < FRAMES and not DONE.search(drawn, max(0, len(drawn) - 70_000)):
                drawn += read_terminal(ear)
                count = drawn.count(_FRAME_ENDS)
    finally:
        stage.server.per_second = 0
    note = f"{count} frames: a row that is gone in one of them and there again within {_LATER}."
    flickers = _flickers(drawn)
    yield Row("frames", "rows that vanish and come back", flickers, "", "0", flickers == 0, None, "", note)


def _flickers(drawn: bytes) -> int:
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    before: set[str] = set()
    gone: deque[set[str]] = deque(maxlen=_LATER)
    found = 0
    for frame in re.split(rb"(?<=\x1b\[\?2026l)", drawn):
        stream.feed(frame)
        rows = {row.strip() for row in screen.display}
        rows = {row for row in rows if len(row) >= _LEAST_CELLS and "esc to interrupt" not in row}
        found += len(rows & set().union(*gone))
        for earlier in gone:
            earlier -= rows
        gone.append(before - rows)
        before = rows
    return found


@contextmanager
def _terminal(stage: Stage) -> Iterator[int]:
    """A session on a terminal; the end of it that a user has."""
    ear, mouth = pty.openpty()
    fcntl.ioctl(mouth, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    child = subprocess.Popen(stage.command(), cwd=stage.project, env=stage.env, stdin=mouth, stdout=mouth, stderr=mouth)
    os.close(mouth)
    try:
        yield ear
    finally:
        child.kill()
        child.wait()
        os.close(ear)


def _shown(ear: int, screen: pyte.Screen, stream: pyte.ByteStream, *, asked: bool) -> float:
    """Draw until the question is there, or gone; the time at which that was read. Raises BenchmarkError."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        data = read_terminal(ear)
        at = time.monotonic()
        stream.feed(data)
        if any(QUESTION in row for row in screen.display) == asked:
            return at
    raise BenchmarkError(f"the question did not {'come' if asked else 'go'}: {screen.display}")

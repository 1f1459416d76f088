"""How soon a key shows while an answer streams in, and how soon an interrupt is acknowledged and over."""

from __future__ import annotations

import fcntl
import os
import pty
import random
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator

from benchmarks.measure import BenchmarkError
from benchmarks.stage import Stage, say, words
from benchmarks.table import Row
from benchmarks.terminal import READY, until

KEYS, PER_SECOND = 1_000, 500
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WRITING = re.compile(rb"writing")
STOPPING = re.compile(rb"stopping|interrupted")
STOPPED = re.compile(rb"interrupted")
WAIT = 2.0


def keys(stage: Stage, runs: int) -> Iterator[Row]:
    """Letters typed one by one into a session that shows 500 chunks a second; then Ctrl-C."""
    stage.answer = say(words(60 * PER_SECOND, 12), 5)
    stage.server.per_second = PER_SECOND
    try:
        echoes, shares, acknowledged, over = _typed(stage, KEYS)
    finally:
        stage.server.per_second = 0
    echoes.sort()
    lost = sum(e >= WAIT for e in echoes)
    half, most = (echoes[int(len(echoes) * part)] * 1000 for part in (0.5, 0.95))
    note = f"{len(echoes)} keys while 500 chunks a second stream in, from the key to the first write that shows it."
    yield Row("keys", "key echo while streaming, p50", half, "ms", "< 20 ms", half < 20, None, "", note)
    yield Row("keys", "  p95", most, "ms", "< 60 ms", most < 60)
    yield Row("keys", "  keys that never showed", lost, "", "0", lost == 0)
    yield Row("keys", "  CPU of the session meanwhile", shares * 100, "%", "< 25 % of a core", shares < 0.25)
    met = acknowledged < 0.05
    yield Row("keys", "Ctrl-C acknowledged", acknowledged * 1000, "ms", "< 50 ms", met)
    yield Row("keys", "  everything stopped", over * 1000, "ms", "< 300 ms", over < 0.3)


def _typed(stage: Stage, count: int) -> tuple[list[float], float, float, float]:
    """Seconds per key, the share of a core, seconds until the interrupt is acknowledged and over.

    Raises BenchmarkError.
    """
    ear, mouth = pty.openpty()
    fcntl.ioctl(mouth, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    child = subprocess.Popen(stage.command(), cwd=stage.project, env=stage.env, stdin=mouth, stdout=mouth, stderr=mouth)
    os.close(mouth)
    chance = random.Random(1)
    try:
        until(ear, READY)
        os.write(ear, b"go\r")
        until(ear, WRITING)
        began, used = time.monotonic(), _cpu(child.pid)
        echoes = []
        for number in range(count):
            # A capital letter is in no word of the answer, and not the letter before.
            key = LETTERS[(number * 7) % 26].upper().encode()
            echoes.append(_shown(ear, key))
            if number % 50 == 49:
                os.write(ear, b"\x15")
            swallow(ear, chance.uniform(0.005, 0.03))
        share = (_cpu(child.pid) - used) / (time.monotonic() - began)
        pressed = time.monotonic()
        os.write(ear, b"\x03")
        seen = until(ear, STOPPING)
        acknowledged = time.monotonic() - pressed
        if not STOPPED.search(seen):
            until(ear, STOPPED)
        return echoes, share, acknowledged, time.monotonic() - pressed
    finally:
        child.kill()
        child.wait()
        os.close(ear)


def _shown(ear: int, key: bytes) -> float:
    """Press a key; the seconds until something is written that has it, outside of sequences."""
    pressed = time.monotonic()
    os.write(ear, key)
    seen = b""
    while (left := pressed + WAIT - time.monotonic()) > 0:
        if select.select([ear], [], [], left)[0]:
            seen += read_terminal(ear)
            if key in re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", seen):
                return time.monotonic() - pressed
    return WAIT


def swallow(ear: int, seconds: float) -> bytes:
    """Return what is drawn within the time. Raises BenchmarkError."""
    end, seen = time.monotonic() + seconds, b""
    while (left := end - time.monotonic()) > 0:
        if select.select([ear], [], [], left)[0]:
            seen += read_terminal(ear)
    return seen


def read_terminal(ear: int) -> bytes:
    """Return what is drawn next. Raises BenchmarkError."""
    try:
        return os.read(ear, 65_536)
    except OSError:
        raise BenchmarkError("the session ended while keys were typed") from None


def _cpu(pid: int) -> float:
    """The seconds of CPU that a process has used."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

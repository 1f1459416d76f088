"""A line between a program's terminal and its user: so many bytes a second, and seconds on the way."""

from __future__ import annotations

import os
import queue
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple


class Speed(NamedTuple):
    """bytes_per_second: to the user; 0: as fast as they come. seconds: on the way, in both directions."""

    bytes_per_second: float = 0.0
    seconds: float = 0.0


SLOW, FAR = Speed(bytes_per_second=4_000), Speed(seconds=0.1)
# Bytes that are sent at once, as a modem does.
_PIECE_BYTES = 128


class SlowLine:
    """Passes everything on, late and in order. `user` is the descriptor at the user's end.

    A program that writes faster than the line waits, as its terminal is full.
    """

    def __init__(self, terminal: int, speed: Speed) -> None:
        self._terminal, self._speed = terminal, speed
        near, self._far = socket.socketpair()
        self.user = near.detach()
        self._over = threading.Event()
        os.set_blocking(terminal, False)
        reader, _ = self._pass_on(self._read_program, lambda data: self._far.sendall(data), speed.bytes_per_second)
        _, writer = self._pass_on(lambda: self._far.recv(4096), self._write_program, 0.0)
        self._users_of_the_terminal = (reader, writer)

    def close(self) -> None:
        """Hang up: the program's terminal is gone."""
        self._over.set()
        self._far.shutdown(socket.SHUT_RDWR)
        # Else one of them could use the number of the terminal for the next file that gets it.
        for thread in self._users_of_the_terminal:
            thread.join()
        os.close(self._terminal)

    def _read_program(self) -> bytes:
        size = _PIECE_BYTES if self._speed.bytes_per_second else 65_536
        while not self._over.is_set():
            if select.select([self._terminal], [], [], 0.1)[0]:
                return os.read(self._terminal, size)
        return b""

    def _write_program(self, data: bytes) -> None:
        while data and not self._over.is_set():
            if select.select([], [self._terminal], [], 0.1)[1]:
                with suppress(BlockingIOError):
                    data = data[os.write(self._terminal, data) :]

    def _pass_on(
        self, read: Callable[[], bytes], write: Callable[[bytes], object], rate: float
    ) -> tuple[threading.Thread, threading.Thread]:
        """Return the threads that read and write."""
        way: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

        def take() -> None:
            data = b" "
            while data:
                try:
                    data = read()
                except OSError:
                    data = b""
                if rate:
                    time.sleep(len(data) / rate)
                way.put((time.monotonic() + self._speed.seconds, data))

        def give() -> None:
            while True:
                due, data = way.get()
                time.sleep(max(0.0, due - time.monotonic()))
                try:
                    if not data:
                        break
                    write(data)
                except OSError:
                    break

        reader, writer = (threading.Thread(target=work, daemon=True) for work in (take, give))
        reader.start()
        writer.start()
        return reader, writer

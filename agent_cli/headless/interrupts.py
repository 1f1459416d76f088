"""Signals of a run without a terminal: the first interrupts it, the second ends the process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any


class Signals:
    """INT, TERM and HUP interrupt the run, so that its result is still printed; a second one ends the process."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._before: dict[int, Any] = {}
        self.caught = 0

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._on_signal)

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: object) -> None:
        if self.caught:
            os._exit(128 + number)
        self.caught = number
        self._interrupt()

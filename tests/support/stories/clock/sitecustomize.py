"""Shifts the wall clock of a Python process by the seconds in the file that STORY_CLOCK names."""

import os
import time

_file = os.environ.get("STORY_CLOCK", "")

if _file:
    _time = time.time

    def _shifted() -> float:
        with open(_file, encoding="utf-8") as file:
            return _time() + float(file.read() or 0)

    time.time = _shifted
    time.time_ns = lambda: int(_shifted() * 1_000_000_000)

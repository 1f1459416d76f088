"""How a command ended, and how long it took, in words."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_tools.shell.process import ExitInfo

_SIGNALS = {s.value: s.name for s in signal.Signals}


LEFT = "something it started still runs in the background"


def exit_of(ending: ExitInfo) -> str:
    """The exit code, or the signal, of a command that was not ended by us."""
    if ending.code < 0:
        return f"ended by {_SIGNALS.get(-ending.code, 'a signal')} (signal {-ending.code})"
    # A shell spells the signal that ended its last program so.
    name = _SIGNALS.get(ending.code - 128)
    return f"exit code {ending.code}{f' (128 + {ending.code - 128}: {name})' if name else ''}"


def took(seconds: float) -> str:
    """A duration, for what has ended: "12 ms", "3.4 s"."""
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"


def clock_duration(seconds: float) -> str:
    """A duration, for what may go on for long: "0:07", "1:02:03"."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

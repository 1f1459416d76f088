"""The time limit of a turn, held against a running call and a silent model: when it passes, the turn is cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agent_cli.engine.turn import OUT_OF_TIME

if TYPE_CHECKING:
    from agent_cli.engine.turn import Turn

# How often the clock is looked at while the user is asked, which stops it.
_RECHECK_SECONDS = 1.0


@contextmanager
def deadline(turn: Turn, seconds: float) -> Iterator[None]:
    """Cancel the turn once its working time reaches `seconds`; 0: never. Time at a question does not count."""
    if not seconds:
        yield
        return
    import threading  # costs a one-shot run a millisecond, and few turns have a limit

    ended = threading.Event()

    def watch() -> None:
        while (left := seconds - turn.budget.seconds) > 0:
            if ended.wait(min(left, _RECHECK_SECONDS)):
                return
        if not ended.is_set():
            turn.kit.context.cancel.cancel(OUT_OF_TIME)

    threading.Thread(target=watch, name="deadline", daemon=True).start()
    try:
        yield
    finally:
        ended.set()

"""Calls that repeat: what needs no second run, and what goes round in circles.

A call whose effects are all Read or State is not run again while what it reads is unchanged; it is answered with where
the result stands. Everything runs as often as it is asked for, but the same call with the same result again and again
is named: to the model at the third time, to the person at the fourth, and where nobody watches the turn ends.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_cli.core.events import Event, Warned
from agent_tools.base import ToolResult
from agent_tools.display import CommandOutput

if TYPE_CHECKING:
    from agent_cli.engine.checking import Prepared
    from agent_cli.engine.turn import Turn

TELL_MODEL, TELL_PERSON, STOP = 3, 4, 5


class Repeats:
    """What one turn has called."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._read: dict[str, tuple[int, object]] = {}
        self._last: tuple[str, ToolResult] | None = None
        self._times = 0
        self._summary = ""

    def unchanged(self, item: Prepared) -> int | None:
        """The round in which this very call was made, where running it again could tell nothing new."""
        found = self._read.get(_key(item))
        if found is None:
            return None
        now = self.signature(item)
        return found[0] if now is not None and now == found[1] else None

    def forget(self) -> None:
        """Earlier results are not shown to the model any more."""
        self._read.clear()

    def signature(self, item: Prepared) -> object:
        """What the call's result depends on; None where that cannot be told (folders, commands, the network)."""
        if not item.harmless:
            return None
        parts: list[object] = []
        for effect in item.effects:
            if effect.kind == "state":
                parts.append(self._turn.kit.context.plan)
                continue
            try:
                found = Path(effect.target).stat()
            except OSError:
                return None
            if not stat.S_ISREG(found.st_mode):
                return None
            parts.append((found.st_mtime_ns, found.st_size, found.st_ino))
        return parts or None

    def note(self, item: Prepared, result: ToolResult, before: object) -> str:
        """Remember a call that ran. Returns what the model should be told of it, if anything."""
        after = self.signature(item)
        if before is not None and not result.is_error and after is not None and item.effects[0].kind == "read":
            self._read[_key(item)] = (self._turn.budget.rounds, after)
        key = _key(item)
        # Results are compared only where the call itself is the same: cleaning a long one costs milliseconds.
        same = self._last is not None and self._last[0] == key and _essence(self._last[1]) == _essence(result)
        self._times = self._times + 1 if same else 1
        self._last = (key, result)
        self._summary = item.summary
        if self._times < TELL_MODEL:
            return ""
        return (
            f"\n\n[This call gave this very result {self._times} times in a row. Repeating it will not help: "
            "change something, take another way, or say what blocks you.]"
        )

    def warnings(self, turn: Turn) -> Generator[Event, None, None]:
        """Tell the person of a circle, and end the turn where nobody watches."""
        if self._times >= STOP and not turn.kit.attended:
            turn.budget.stop("repetition")
        elif self._times == TELL_PERSON:
            yield Warned(
                f"The model repeats itself: {self._summary} gave the same result {self._times} times in a row."
            )


def _key(item: Prepared) -> str:
    return f"{item.tool.name} {json.dumps(item.call.arguments, sort_keys=True)}"


def _essence(result: ToolResult) -> Any:
    """The result without what differs from run to run: durations, addresses in memory."""
    if isinstance(result.display, CommandOutput):
        text = f"{result.display.exit_code} {result.display.output}"
    else:
        text = result.text
    return re.sub(r"0x[0-9a-f]{6,}|\d+(?:\.\d+)? ?m?s\b", "", text), result.media

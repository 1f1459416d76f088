"""The end of a conversation as it was: the events of its last turns, for a front end to show again.

Only the end of the file is read, so it costs the same for a session of any length.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from agent_cli.core.events import Event, MessageAdded, TextDelta, TurnStarted
from agent_cli.core.messages import AssistantMessage, Text, UserMessage
from agent_cli.session.history import CUT
from agent_cli.session.lines import Line, read_bytes
from agent_cli.session.records import Partial
from agent_tools.values import Mismatch, Value, from_plain

MOST = 2 << 20
_KINDS = {cls.__name__: cls for cls in get_args(Event)}


class Ending(Value):
    """The last turns of a session as events in their order; the words of an answer come as `TextDelta` before it.

    cut: there is more before it, of the same turn. unfinished: the last words are of an answer that never came to its
    end.
    """

    events: tuple[Event, ...]
    cut: bool = False
    unfinished: bool = False


def ending(log: Path, turns: int = 1, most: int = MOST) -> Ending:
    """The last turns of a log, as far as they are in its last `most` bytes; what is damaged is left out.

    A file that cannot be read has no end.
    """
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            data = file.read()
    except OSError:
        return Ending(())
    shown, unfinished = _shown(line for line in read_bytes(data) if line is not None)
    starts = [n for n, event in enumerate(shown) if isinstance(event, TurnStarted)]
    if len(starts) < turns:
        return Ending(tuple(shown), size > most, unfinished)
    start = starts[-turns]
    # What was asked stands before the turn.
    while start and _asked(shown[start - 1]):
        start -= 1
    return Ending(tuple(shown[start:]), cut=False, unfinished=unfinished)


def _asked(event: Event) -> bool:
    return isinstance(event, MessageAdded) and isinstance(event.message, UserMessage)


def _shown(lines: Iterable[Line]) -> tuple[list[Event], bool]:
    """The events, with the words of answers as text that came; and whether the last answer stops in the middle."""
    shown: list[Event] = []
    partial = ""
    for line in lines:
        try:
            if line.type == "Partial":
                piece = from_plain(Partial, line.data)
                partial = partial + piece.text if piece.start else piece.text
                continue
            cls = _KINDS.get(line.type)
            event = from_plain(cls, line.data) if cls is not None else None
        except Mismatch:
            continue
        if event is None:
            continue
        if isinstance(event, MessageAdded):
            answer = isinstance(event.message, AssistantMessage)
            if partial and not answer:
                shown += _cut_off(partial)
            if answer and event.message.text:
                shown.append(TextDelta(event.message.text))
            partial = ""
        shown.append(event)
    return ([*shown, *_cut_off(partial)], True) if partial else (shown, False)


def _cut_off(text: str) -> list[Event]:
    return [TextDelta(text), MessageAdded(AssistantMessage((Text(text),), CUT))]

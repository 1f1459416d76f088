"""The model's window on a history. The history only grows; what the model is still shown of it is told from here.

A compaction puts a few messages (its head) in the place of the older ones, or shortens old results. Its record in the
log counts from the end of the history, so that a record lost before it moves nothing.

What a compaction did, in a line for a user; every front end has the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_cli.core.events import Compacted, Compacting, Pinned, Uncompacted
from agent_cli.core.messages import AssistantMessage, Message, ToolMessage
from agent_cli.core.results import Usage
from agent_tools.record import Value
from agent_tools.text import counted, escape_controls


class Compaction(Value):
    """A compaction in its history. at: how many messages there were; upto: those before it are not shown any more."""

    at: int
    upto: int
    event: Compacted


class UsageReport(Value, tag="Report"):
    """What the provider counted last. filled: input and answer; messages: how many of the history that covers."""

    input: int
    filled: int
    messages: int


class Window:
    """What one history is seen through. `compactions` and `pins` are in the log too; the rest is measured anew.

    pins: texts of messages that survive compactions. report: None where nothing holds for the present view. factor: the
    provider's tokens for one of ours. learnt: a size that a refusal has shown to be too large.
    """

    def __init__(
        self,
        compactions: Iterable[Compaction] = (),
        pins: Iterable[str] = (),
        report: UsageReport | None = None,
    ) -> None:
        self.compactions = list(compactions)
        self.pins = list(pins)
        self.report = report
        self.factor = 1.0
        self.learnt: int | None = None

    def take(self, event: Compacted | Uncompacted | Pinned, length: int) -> None:
        """What happened to a history that has this many messages."""
        if isinstance(event, Pinned):
            self.pins = [p for p in self.pins if p != event.text] + ([event.text] if event.on else [])
            return
        if isinstance(event, Compacted):
            self.compactions.append(Compaction(length, max(0, length - event.kept), event))
        elif self.compactions:
            self.compactions.pop()
        self.report = None

    def rewind_to(self, length: int) -> None:
        """The history was taken back to this many messages: what was compacted later is so no more."""
        self.compactions = [c for c in self.compactions if c.at <= length]
        self.report = None

    def border(self, history: Sequence[Message]) -> int:
        """Where the messages begin that are shown as they are."""
        upto = min(next((c.upto for c in reversed(self.compactions) if c.event.head), 0), len(history))
        # A damaged log may have lost messages: a result is never shown without its call.
        while 0 < upto < len(history) and isinstance(history[upto], ToolMessage):
            upto -= 1
        return upto

    @property
    def head(self) -> tuple[Message, ...]:
        """What stands before them."""
        return next((c.event.head for c in reversed(self.compactions) if c.event.head), ())

    def view(self, history: Sequence[Message]) -> list[Message]:
        """The messages that the model is shown."""
        if not self.compactions:
            return list(history)
        cuts: dict[str, str] = {}
        for compaction in self.compactions:
            cuts |= compaction.event.cuts
        return [*self.head, *(_cut(message, cuts) for message in history[self.border(history) :])]

    def hidden_answers(self, history: Sequence[Message]) -> int:
        """How many answers of a model are not shown any more."""
        border = self.border(history) if self.compactions else 0
        return sum(isinstance(m, AssistantMessage) and bool(m.model) for m in history[:border])

    def reported(self, usage: Usage, messages: int) -> None:
        """A model call has ended, whose answer is the last of so many messages."""
        if usage.input:
            # Reasoning that is counted apart is not sent again.
            self.report = UsageReport(usage.input, usage.input + usage.output - usage.reasoning, messages)


def _cut(message: Message, cuts: dict[str, str]) -> Message:
    if isinstance(message, ToolMessage) and message.call_id in cuts:
        return message.but(text=cuts[message.call_id], media=())
    return message


_WHY = {"auto": "the window is nearly full", "manual": "you asked", "too_long": "the provider refused it as too long"}


def compacting_line(event: Compacting) -> str:
    return f"compacting the conversation ({event.tokens:,} tokens): {_WHY[event.trigger]}"


def compacted_line(event: Compacted) -> str:
    """How much smaller it is, what went, what stayed."""
    said = f"compacted: {event.tokens_before:,} tokens are now about {event.tokens_after:,}"
    if not event.head:
        return f"{said}; {counted(len(event.cuts), 'old result')} cut, all else stays"
    by = "" if event.by == "model" else " (made by the program, as no model could write it)"
    parts = [
        f"{counted(event.dropped, 'message')} became a summary{by}",
        f"the newest {event.kept} stay" if event.kept > 1 else "the newest stays",
    ]
    if event.cuts:
        parts.append(f"{counted(len(event.cuts), 'long result')} cut")
    if event.restated:
        parts.append(f"carried over: {escape_controls(', '.join(event.restated))}")
    return "; ".join([said, *parts])


def uncompacted_line(event: Uncompacted) -> str:
    return f"the last compaction is undone: about {event.tokens:,} tokens"

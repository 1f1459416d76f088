"""The model's window on a history. The history only grows; the window says what the model is still shown of it.

A compaction puts a few messages (its head) in the place of the older ones, or shortens old results. Its record in the
log counts from the end of the history, so that a record lost before it moves nothing.

Also describes compactions in one line, the same for every front end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_cli.core.events import Compacted, Compacting, Pinned, Uncompacted
from agent_cli.core.messages import AssistantMessage, Message, ToolMessage
from agent_cli.core.results import Usage
from agent_tools.record import Value
from agent_tools.text import counted, escape_controls


class Compaction(Value):
    """A compaction and its position.

    at: the number of messages at that time.
    upto: messages before this index are not shown any more.
    """

    at: int
    upto: int
    event: Compacted


class UsageReport(Value, tag="Report"):
    """The provider's last token count.

    input: of the request.
    filled: of request and answer.
    messages: how many messages of the history that covers.
    """

    input: int
    filled: int
    messages: int


class Window:
    """The view of one history. `compactions` and `pins` are in the log, too; the rest is measured again.

    pins: texts of messages that survive compactions.
    report: None if none applies to the present view.
    factor: the provider's tokens per token of our own count.
    learnt: a size that a refusal has shown to be too large.
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

    def apply(self, event: Compacted | Uncompacted | Pinned, length: int) -> None:
        """Apply an event to the window of a history with `length` messages."""
        if isinstance(event, Pinned):
            self.pins = [p for p in self.pins if p != event.text] + ([event.text] if event.on else [])
            return
        if isinstance(event, Compacted):
            self.compactions.append(Compaction(length, max(0, length - event.kept), event))
        elif self.compactions:
            self.compactions.pop()
        self.report = None

    def rewind_to(self, length: int) -> None:
        """Drop compactions made after the first `length` messages."""
        self.compactions = [c for c in self.compactions if c.at <= length]
        self.report = None

    def cutoff(self, history: Sequence[Message]) -> int:
        """Return the index of the first message that is shown unchanged."""
        upto = min(next((c.upto for c in reversed(self.compactions) if c.event.head), 0), len(history))
        # A damaged log may have lost messages: a result is never shown without its call.
        while 0 < upto < len(history) and isinstance(history[upto], ToolMessage):
            upto -= 1
        return upto

    @property
    def head(self) -> tuple[Message, ...]:
        """The messages that replace those before the border."""
        return next((c.event.head for c in reversed(self.compactions) if c.event.head), ())

    def view(self, history: Sequence[Message]) -> list[Message]:
        """Return the messages that the model is shown."""
        if not self.compactions:
            return list(history)
        cuts: dict[str, str] = {}
        for compaction in self.compactions:
            cuts |= compaction.event.cuts
        return [*self.head, *(_cut(message, cuts) for message in history[self.cutoff(history) :])]

    def hidden_answers(self, history: Sequence[Message]) -> int:
        """Return how many answers of a model are not shown any more."""
        border = self.cutoff(history) if self.compactions else 0
        return sum(isinstance(m, AssistantMessage) and bool(m.model) for m in history[:border])

    def reported(self, usage: Usage, messages: int) -> None:
        """Record the usage of a model call; its answer is number `messages` of the history."""
        if usage.input:
            # Reasoning that is counted separately is not sent again.
            self.report = UsageReport(usage.input, usage.input + usage.output - usage.reasoning, messages)


def _cut(message: Message, cuts: dict[str, str]) -> Message:
    if isinstance(message, ToolMessage) and message.call_id in cuts:
        return message.replace(text=cuts[message.call_id], media=())
    return message


_WHY = {"auto": "the window is nearly full", "manual": "you asked", "too_long": "the provider refused it as too long"}


def compacting_line(event: Compacting) -> str:
    return f"compacting the conversation ({event.tokens:,} tokens): {_WHY[event.trigger]}"


def compacted_line(event: Compacted) -> str:
    """Describe how much smaller the conversation is, what was removed, what stayed."""
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

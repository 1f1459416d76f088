"""The model's window on a history: which messages it is still shown, and how many tokens they take.

The history only grows. A compaction replaces the older messages by a few (its head), or shortens old results. Its
record in the log counts from the end of the history, so that a record lost before it shifts nothing. Also describes
compactions in one line, the same for every front end.

Tokens are estimated without a tokenizer: one counts as 3.5 bytes, which is on the safe side for prose and about right
for code; the estimate is scaled by what the provider last reported. Images are counted by their pixels, PDF documents
by their size.
"""

from __future__ import annotations

import json
from binascii import a2b_base64
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, TypeVar

from agent_cli.kernel.events import Compacted, Compacting, LeftOut, Pinned, Uncompacted
from agent_cli.kernel.messages import (
    AssistantMessage,
    Message,
    Text,
    Thinking,
    ToolMessage,
    replace_media,
    without_thinking,
)
from agent_cli.kernel.results import Usage
from agent_tools.lazy import lazy_imports
from agent_tools.record import Protocol, Value
from agent_tools.results import Media
from agent_tools.text import counted, escape_controls

with lazy_imports():
    from agent_tools.documents import images

BYTES_PER_TOKEN = 3.5
# Overhead of a message, a call or a tool in a request.
_OVERHEAD_TOKENS = 6
_MAX_IMAGE_TOKENS, _PIXELS_PER_TOKEN = 1_600, 750
_MIN_PDF_TOKENS, _PDF_BYTES_PER_TOKEN = 2_000, 20
# An image's size is in this part of its base64, in characters.
_HEADER_CHARS = 64 * 1024


class Spec(Protocol):
    """A tool as a request contains it."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def schema(self) -> dict[str, Any]: ...


# Not with the name in quotes, which Python would compile: that takes two milliseconds.
S = TypeVar("S", bound=Spec)


def count_text_tokens(text: str) -> int:
    return round((len(text) if text.isascii() else len(text.encode("utf-8", "replace"))) / BYTES_PER_TOKEN)


def count_message_tokens(message: Message) -> int:
    if not isinstance(message, AssistantMessage):
        return (
            _OVERHEAD_TOKENS + count_text_tokens(message.text) + sum(count_media_tokens(item) for item in message.media)
        )
    total = _OVERHEAD_TOKENS
    for part in message.parts:
        if isinstance(part, (Text, Thinking)):
            total += count_text_tokens(part.text)
        else:
            total += _OVERHEAD_TOKENS + count_text_tokens(part.name + part.broken) + _count_json_tokens(part.arguments)
    return total


def count_tokens(messages: Iterable[Message]) -> int:
    return sum(map(count_message_tokens, messages))


class MessageCounter:
    """Counts the tokens of a history as it grows: each message once. May be used by any thread."""

    def __init__(self) -> None:
        self._known: tuple[list[Message], list[int]] = [], [0]

    def count(self, messages: list[Message]) -> int:
        """Return the tokens of these messages, as `count_tokens` does."""
        known, sums = self._known
        if known[: len(messages)] != messages[: len(known)]:
            known, sums = [], [0]
        if new := messages[len(known) :]:
            sums = [*sums[:-1], *accumulate(map(count_message_tokens, new), initial=sums[-1])]
            self._known = [*known, *new], sums
        return sums[len(messages)]


def count_tool_tokens(tools: Iterable[Spec]) -> int:
    return sum(
        _OVERHEAD_TOKENS + count_text_tokens(t.name + t.description) + _count_json_tokens(t.schema) for t in tools
    )


def count_media_tokens(item: Media) -> int:
    """Count media as providers do: an image by its pixels up to a limit, a PDF by its pages, estimated by its size."""
    if item.kind == "pdf":
        return max(_MIN_PDF_TOKENS, len(item.data) * 3 // 4 // _PDF_BYTES_PER_TOKEN)
    try:
        image = images.sniff(a2b_base64(item.data[:_HEADER_CHARS]))
    except ValueError:
        image = None
    return min(_MAX_IMAGE_TOKENS, image.width * image.height // _PIXELS_PER_TOKEN) if image else _MAX_IMAGE_TOKENS


def truncate_to_tokens(text: str, tokens: int, note: str) -> str:
    """Return the text; if it has more tokens than that, cut its middle and insert the note."""
    if count_text_tokens(text) <= tokens:
        return text
    share = max(0.0, tokens / count_text_tokens(text))
    room = max(0, int(len(text) * share) - len(note))
    head = room * 2 // 3
    tail = text[len(text) - (room - head) :] if room > head else ""
    return f"{text[:head]}\n[{note}]\n{tail}"


def _count_json_tokens(value: Any) -> int:
    return count_text_tokens(json.dumps(value, ensure_ascii=False)) if value else 1


# Larger windows count as this size when old results are cleared: tokens cost time and money long before a large window
# is full.
CLEARED_WINDOW_TOKENS = 128_000


class Compaction(Value):
    """A compaction and its position in the history.

    at: number of messages at that time.
    upto: index of the first message that is still shown.
    """

    at: int
    upto: int
    event: Compacted


class UsageReport(Value, tag="Report"):
    """The provider's last token count.

    input: of the request.
    filled: of request and answer.
    messages: how many messages of the history that covers.
    cached: the provider has the request in its cache.
    """

    input: int
    filled: int
    messages: int
    cached: bool = False


class Window:
    """The view of one history. `compactions`, `pins` and `left_out` are in the log, too; the rest is measured again.

    pins: texts of messages that survive compactions.
    left_out: what a model's provider refused, by the model's label.
    model: label of the model that is shown the history; "" before the first turn.
    refusal: the complaint of the last request that was refused for good; "" if another was answered since.
    report: the provider's last token count; None if none applies to the current view.
    factor: the provider's tokens per token of our estimate.
    refused_tokens: a size that the provider has refused as too large, or named as its limit.
    uncleared: the user has undone the last clearing of old results.
    counter: counts the tokens of its messages.
    """

    def __init__(
        self,
        compactions: Iterable[Compaction] = (),
        pins: Iterable[str] = (),
        report: UsageReport | None = None,
        left_out: Iterable[LeftOut] = (),
        refusal: str = "",
    ) -> None:
        self.compactions = list(compactions)
        self.pins = list(pins)
        self.left_out = {event.model: event for event in left_out}
        self.model, self.refusal = "", refusal
        self._offered: tuple[tuple[Any, ...], tuple[str, ...], tuple[Any, ...]] = ((), (), ())
        self.report = report
        self.factor = 1.0
        self.refused_tokens: int | None = None
        self.uncleared = False
        self.counter = MessageCounter()

    def apply(self, event: Compacted | Uncompacted | Pinned | LeftOut, length: int) -> None:
        """Apply an event to the window of a history with `length` messages."""
        if isinstance(event, LeftOut):
            self.left_out[event.model] = event
            return
        if isinstance(event, Pinned):
            self.pins = [p for p in self.pins if p != event.text] + ([event.text] if event.on else [])
            return
        if isinstance(event, Compacted):
            self.compactions.append(Compaction(length, max(0, length - event.kept), event))
            self.uncleared = False
        elif self.compactions:
            self.uncleared = self.compactions.pop().event.trigger == "clear"
        self.report = None

    def rewind_to(self, length: int) -> None:
        """Drop compactions made after the first `length` messages."""
        self.compactions = [c for c in self.compactions if c.at <= length]
        # Later answers take the place of those whose reasoning was refused.
        self.left_out = {m: e.replace(reasoning=min(e.reasoning, length)) for m, e in self.left_out.items()}
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
        """The messages that replace those before the cutoff."""
        return next((c.event.head for c in reversed(self.compactions) if c.event.head), ())

    def view(self, history: Sequence[Message], model: str = "") -> list[Message]:
        """Return the messages that the model is shown. model: the label of another than `self.model`."""
        left = self.left_out.get(model or self.model)
        if not self.compactions and left is None:
            return list(history)
        cuts, cutoff = self.cuts, self.cutoff(history)
        shown = [*self.head, *(_cut(message, cuts) for message in history[cutoff:])]
        if left is None:
            return shown
        first = cutoff - len(self.head)
        return [_without(message, left, first + index) for index, message in enumerate(shown)]

    def view_of_added(self, message: Message, index: int) -> Message:
        """Return message number `index` of the history, which is about to be added, as the model is shown it."""
        left = self.left_out.get(self.model)
        return message if left is None else _without(message, left, index)

    def offered(self, tools: tuple[S, ...], model: str = "") -> tuple[S, ...]:
        """Return the tools without those that are left out; the same tuple for the same ones."""
        left = self.left_out.get(model or self.model)
        if left is None or not left.tools:
            return tools
        if self._offered[0] is not tools or self._offered[1] != left.tools:
            self._offered = (tools, left.tools, tuple(t for t in tools if t.name not in left.tools))
        return self._offered[2]

    @property
    def cuts(self) -> dict[str, str]:
        """The texts of shortened results, by call id."""
        found: dict[str, str] = {}
        for compaction in self.compactions:
            found |= compaction.event.cuts
        return found

    def hidden_answers(self, history: Sequence[Message]) -> int:
        """Return how many of the model's answers are no longer shown."""
        border = self.cutoff(history) if self.compactions else 0
        return sum(isinstance(m, AssistantMessage) and bool(m.model) for m in history[:border])

    def record_usage(self, usage: Usage, messages: int) -> None:
        """Record the usage of the model call whose answer is number `messages` of the history."""
        if usage.input:
            # Reasoning that is counted separately is not sent again.
            filled, cached = usage.input + usage.output - usage.reasoning, bool(usage.cache_read or usage.cache_write)
            self.report = UsageReport(usage.input, filled, messages, cached)


def _cut(message: Message, cuts: dict[str, str]) -> Message:
    if isinstance(message, ToolMessage) and message.call_id in cuts:
        return message.replace(text=cuts[message.call_id], media=())
    return message


def _without(message: Message, left: LeftOut, index: int) -> Message:
    """Return a message without what is left out. index: its number in the history, or that of one after it."""
    if isinstance(message, AssistantMessage):
        return without_thinking(message) if left.reasoning < 0 or index < left.reasoning else message
    if not left.media:
        return message
    return replace_media(message, lambda item: "the provider refused it" if item.digest in left.media else "")


_TRIGGER_REASONS = {
    "auto": "the window is nearly full",
    "manual": "you asked",
    "too_long": "the provider refused it as too long",
    "refused": "the provider refuses it",
    "clear": "old results fill the window",
}


def compacting_line(event: Compacting) -> str:
    return f"compacting the conversation ({event.tokens:,} tokens): {_TRIGGER_REASONS[event.trigger]}"


def compacted_line(event: Compacted) -> str:
    """Describe how much smaller the conversation is, what was removed, what stayed."""
    if event.trigger == "clear":
        return (
            f"{counted(len(event.cuts), 'old result')} cleared: {event.tokens_before:,} tokens are now about "
            f"{event.tokens_after:,}; all else stays"
        )
    text = f"compacted: {event.tokens_before:,} tokens are now about {event.tokens_after:,}"
    if not event.head:
        return f"{text}; {counted(len(event.cuts), 'old result')} cut, all else stays"
    why = "" if event.trigger == "refused" else ", as none could write it"
    by = "" if event.by == "model" else f" (made without a model{why})"
    parts = [
        f"{counted(event.dropped, 'message')} became a summary{by}",
        f"the newest {event.kept} stay" if event.kept > 1 else "the newest stays",
    ]
    if event.cuts:
        parts.append(f"{counted(len(event.cuts), 'long result')} cut")
    if event.restated:
        parts.append(f"carried over: {escape_controls(', '.join(event.restated))}")
    return "; ".join([text, *parts])


def uncompacted_line(event: Uncompacted) -> str:
    return f"the last compaction is undone: about {event.tokens:,} tokens"

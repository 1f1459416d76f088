"""One model call: build the request from the turn, turn chunks into events at once, return one message.

The model client retries an answer that breaks off: the part already shown is void, and is not sent to the model. If the
retries fail, or the user interrupts, the part shown last stays in the history as a message without calls, so that the
model knows what the user has read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from agent_cli.kernel.engine.held_text import HeldText, RepeatedText, repeated_length
from agent_cli.kernel.engine.turn import Turn, report_failure
from agent_cli.kernel.engine.types import ToolTable, TurnOptions
from agent_cli.kernel.events import (
    AnswerRestarted,
    Event,
    FirstChunk,
    ModelRetry,
    Noted,
    PromptRead,
    TextDelta,
    ThinkingDelta,
    UsageAdded,
    Warned,
)
from agent_cli.kernel.messages import (
    AssistantMessage,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    count_characters,
    drop_unsupported,
)
from agent_cli.kernel.modes import thinking_budget
from agent_cli.kernel.results import Failure, Usage
from agent_cli.kernel.window import Window, count_text_tokens
from agent_cli.models.base import (
    Chunk,
    MessageStop,
    ModelError,
    Notice,
    PromptProgress,
    Request,
    Restarted,
    Started,
    TextChunk,
    ThinkingChunk,
    ToolCallDelta,
    ToolCallStart,
    ToolChoice,
    UsageChunk,
)
from agent_tools.base import Tool
from agent_tools.cancel import CancelledError
from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_cli.kernel.engine import held_text, repairs, text_calls  # for few front ends; for calls with mistakes
    from agent_cli.kernel.engine.compaction import measure  # only for answers that break off
    from agent_cli.models import media_limits
    from agent_tools import foreign_calls

# Nesting limit for the arguments of a call; all later processing of them recurses.
MAX_NESTING = 100
# Seconds for which an overloaded provider is asked again while a user watches.
PATIENCE_SECONDS = 600.0


class _TextPieces(list[str]):
    """The pieces of a text part."""

    phase = ""


class AnswerDraft:
    """An assistant message assembled from chunks, in the order its parts began."""

    def __init__(self) -> None:
        self._parts: list[_TextPieces | Thinking | int] = []
        self._calls: dict[int, tuple[str, str, list[str]]] = {}
        self.started = Started("", "")
        self.stopped: MessageStop | None = None
        self.usage: Usage | None = None

    def add(self, chunk: Chunk) -> None:
        if isinstance(chunk, TextChunk):
            last = self._parts[-1] if self._parts else None
            if not isinstance(last, _TextPieces) or last.phase != chunk.phase:
                last = _TextPieces()
                last.phase = chunk.phase
                self._parts.append(last)
            last.append(chunk.text)
        elif isinstance(chunk, ToolCallDelta):
            if chunk.index not in self._calls:
                raise ModelError(Failure("malformed", "The provider sent arguments for a call it never began."))
            self._calls[chunk.index][2].append(chunk.json)
        elif isinstance(chunk, ThinkingChunk):
            self._think(chunk)
        elif isinstance(chunk, ToolCallStart):
            self._calls[chunk.index] = (chunk.id, chunk.name, [])
            self._parts.append(chunk.index)
        elif isinstance(chunk, UsageChunk):
            self.usage = chunk.usage
        elif isinstance(chunk, MessageStop):
            self.stopped = chunk
        elif isinstance(chunk, Started):
            self.started = chunk

    @property
    def tokens(self) -> int:
        """The approximate number of tokens received."""
        texts = (p.text if isinstance(p, Thinking) else "".join(p) for p in self._parts if not isinstance(p, int))
        return sum(map(count_text_tokens, (*texts, *("".join(fragments) for _, _, fragments in self._calls.values()))))

    def end_repetition(self) -> None:
        """End the message here, without the repetitions at the end of its text."""
        self.stopped = MessageStop("end_turn")
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _TextPieces):
            text = "".join(last)
            last[:] = [text[: len(text) - repeated_length(text)]]

    def _think(self, chunk: ThinkingChunk) -> None:
        last = self._parts[-1] if self._parts else None
        if chunk.continues(last):
            self._parts[-1] = chunk.block(last)
        else:
            self._parts.append(chunk.block())

    def message(self, stop_reason: str, *, with_calls: bool = True, cut: bool = False) -> AssistantMessage | None:
        """Return the message so far, or None if it is empty. cut: it ended at its token limit."""
        parts: list[Part] = []
        for part in self._parts:
            if isinstance(part, _TextPieces):
                if text := "".join(part):
                    parts.append(Text(text, part.phase) if part.phase else Text(text))
            elif isinstance(part, Thinking):
                parts.append(part)
            elif with_calls:
                parts += _calls(*self._calls[part], cut=cut)
        if not with_calls:
            parts = [p for p in parts if isinstance(p, Text)]
        if not parts:
            return None
        return AssistantMessage(tuple(parts), stop_reason, self.started.id, self.started.model)


def _calls(call_id: str, name: str, fragments: list[str], *, cut: bool) -> list[ToolCall]:
    """Return the call with these arguments, or one call per object if there are several."""
    raw = "".join(fragments)
    inner = raw
    try:
        arguments = json.loads(raw) if raw.strip() else {}
        if isinstance(arguments, str):
            inner = arguments
            arguments = json.loads(arguments)  # some servers encode them twice
    except (ValueError, RecursionError):
        arguments = None
    if isinstance(arguments, dict) and _depth_within(arguments, MAX_NESTING):
        return [ToolCall(call_id, name, arguments)]
    try:
        read = repairs.read_objects(inner)
    except repairs.LenientJsonError:
        return [ToolCall(call_id, name, {}, broken=raw)]
    # In a truncated answer, arguments that break off are incomplete.
    if cut and {"closers", repairs.UNCLOSED}.intersection(read.repairs):
        return [ToolCall(call_id, name, {}, broken=raw)]
    kinds = (*((repairs.SPLIT,) if len(read.objects) > 1 else ()), *read.repairs)
    return [ToolCall(call_id, name, each, repaired=kinds) for each in read.objects]


def _depth_within(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit + 1):
        inner = [v.values() if isinstance(v, dict) else v for v in level if isinstance(v, (dict, list))]
        if not inner:
            return True
        level = [v for values in inner for v in values]
    return False


def build_request(turn: Turn, *, tool_choice: ToolChoice = "auto") -> Request:
    """Return the request for the next round; always the previous one plus a suffix."""
    window = turn.deps.state.window
    request = _fit_to_window(turn, request_of(turn.options, window, turn.view, tool_choice, turn.has_media))
    if not window.compactions:
        return request
    return request.replace(head=len(window.head), earlier=turn.hidden)


# Allowance for the system prompt and the tools where the request is not measured; tokens that every answer may have.
_UNMEASURED_TOKENS, _MIN_ANSWER_TOKENS = 60_000, 1_000


def _fit_to_window(turn: Turn, request: Request) -> Request:
    """Return the request, its answer limited to what is left of the window."""
    size, window = turn.options.context_window, turn.deps.state.window
    if not size or not request.max_tokens:
        return request
    wanted = request.max_tokens + thinking_budget(request.effort, request.thinking_tokens)
    report = window.report
    since = turn.history[report.messages :] if report else turn.view
    # A character is hardly ever more than a token; only near the end of the window are tokens counted.
    if (report.filled if report else 0) + sum(map(count_characters, since)) + _UNMEASURED_TOKENS + wanted <= size:
        return request
    used = measure.used_tokens(window, turn.options, turn.history)
    left = max(_MIN_ANSWER_TOKENS, size - used - used // 16)
    return request.replace(total_tokens=min(left, request.total_tokens or left))


def request_of(
    options: TurnOptions, window: Window, shown: Sequence[Message], tool_choice: ToolChoice, has_media: bool
) -> Request:
    """Return a request with these messages, and the options of every request of the conversation.

    Media that the model or its provider does not accept are replaced by text, and tools that it refused left out.
    """
    if has_media:
        limits = media_limits.media_limits(options.provider, options.model)
        shown = media_limits.fit_media(drop_unsupported(shown, options.input_modalities), limits)
    return Request(
        model=options.model,
        system=options.system,
        messages=tuple(shown),
        tools=window.offered(options.tools, options.label) if window.left_out else options.tools,
        max_tokens=options.max_tokens or options.answer_tokens,
        total_tokens=options.total_tokens,
        temperature=options.temperature,
        effort=options.effort_in_use,
        thinking_tokens=options.thinking_tokens,
        reasoning_summary=options.reasoning_summary,
        task_budget=options.task_budget,
        cache_key=options.cache_key,
        stream=options.stream,
        tool_choice=tool_choice,
    )


def sample(turn: Turn, request: Request) -> Generator[Event, None, AssistantMessage]:
    """Call the model once and return its answer, which may have no parts.

    Raises ModelError or CancelledError, after adding the partial answer to the history.
    """
    sent = turn.deps.clock()
    draft, repeated = AnswerDraft(), RepeatedText()
    add = draft.add
    first, reached, turn.looped = True, True, False
    held = HeldText() if request.tools and request.tool_choice != "none" else None
    pieces = held_text.CallAnnouncer(turn) if turn.options.pieces else None
    failed: ModelError | CancelledError | None = None
    void: AssistantMessage | None = None
    turn.in_model_call = True
    if turn.deps.attended and not turn.deps.fallbacks:
        request = request.replace(patience=PATIENCE_SECONDS)
    stream = turn.client.stream(request, turn.deps.context.cancel)
    try:
        for chunk in stream:
            if isinstance(chunk, TextChunk):
                add(chunk)
                if first:
                    first = False
                    yield _first_chunk(turn, sent, draft)
                if held is None:
                    yield TextDelta(chunk.text)
                elif shown := held.feed(chunk.text):
                    yield TextDelta(shown)
                if repeated.feed(chunk.text):
                    turn.looped = True
                    break
                continue
            if isinstance(chunk, PromptProgress):
                yield PromptRead(chunk.read, chunk.total)
                continue
            reached = not isinstance(chunk, Notice)
            if isinstance(chunk, Notice):
                yield from _told(turn, chunk)
                continue
            if isinstance(chunk, Restarted):
                void = (yield from _given_up(turn, draft)) or void
                draft = AnswerDraft()
                add = draft.add
                held, repeated, first = held and HeldText(), RepeatedText(), True
                continue
            add(chunk)
            if held is not None and isinstance(chunk, ToolCallStart) and (shown := held.release()):
                yield TextDelta(shown)
            if first and not isinstance(chunk, (Started, UsageChunk)):
                first = False
                yield _first_chunk(turn, sent, draft)
            if isinstance(chunk, ThinkingChunk) and chunk.text:
                yield ThinkingDelta(chunk.text)
                if repeated.feed(chunk.text):
                    turn.looped = True
                    break
            if pieces is not None:
                yield from pieces.events(chunk)
        _end(turn, draft, stream)
    except (ModelError, CancelledError) as error:
        failed = error
        turn.in_model_call = isinstance(error, CancelledError)
    except Exception as error:  # noqa: BLE001 - an unforeseen answer must cost its round, not the session
        failure = yield from report_failure(turn.deps, "reading the model's answer", error)
        failed = ModelError(Failure("malformed", failure, retryable=True))
        turn.in_model_call = False
    finally:
        turn.model_ms += round((turn.deps.clock() - sent) * 1000)
        # Interrupted while the provider was working: it charges for the request all the same.
        unanswered = reached and isinstance(failed, CancelledError)
        paid = _pay(turn, draft, broken=turn.looped or failed is not None, unanswered=unanswered)
    if paid is not None:
        yield UsageAdded(turn.options.label, paid)
    if failed is not None:
        if held is not None and (shown := held.release()):
            yield TextDelta(shown)
        yield from _keep_partial(turn, draft, void, "interrupted" if isinstance(failed, CancelledError) else "error")
        raise failed
    turn.cut_at = (paid.output if paid else 0) or request.max_tokens or 0
    return (yield from _finished(turn, draft, held, paid))


def _told(turn: Turn, notice: Notice) -> Iterator[Event]:
    if notice.retry is not None:
        yield ModelRetry(*notice.retry, notice.wait)
        # The user, who watches, ends a pause that is too long for them.
        turn.budget.exclude(notice.wait if turn.deps.attended else 0.0)
    yield Warned(notice.text, notice.wait)


def _given_up(turn: Turn, draft: AnswerDraft) -> Generator[Event, None, AssistantMessage | None]:
    """Pay for an answer that the provider begins anew; return what there was of it."""
    if (paid := _pay(turn, draft, broken=True)) is not None:
        yield UsageAdded(turn.options.label, paid, aside=True)
    yield AnswerRestarted()
    return draft.message("error", with_calls=False)


def _end(turn: Turn, draft: AnswerDraft, stream: Iterator[Chunk]) -> None:
    """End the answer. Raises ModelError if it broke off or is a refusal, and CancelledError."""
    if turn.looped:
        if isinstance(stream, Generator):
            stream.close()
        draft.end_repetition()
    turn.deps.context.cancel.check()
    if draft.stopped is None:
        raise ModelError(Failure("network", "The provider's answer broke off before its end.", retryable=True))
    turn.stop_reason = draft.stopped.word
    if draft.stopped.reason == "refusal":
        word = f" ({draft.stopped.raw})" if draft.stopped.raw not in ("", "refusal") else ""
        raise ModelError(Failure("refused", f"{turn.options.label} refused to answer{word}."))


def _finished(
    turn: Turn, draft: AnswerDraft, held: HeldText | None, paid: Usage | None
) -> Generator[Event, None, AssistantMessage]:
    """Return the answer, with calls that it has only as text."""
    assert draft.stopped is not None
    turn.in_model_call = False
    turn.was_cut = draft.stopped.unfinished
    message = draft.message(turn.stop_reason, cut=turn.was_cut)
    if paid is not None:
        turn.deps.state.window.record_usage(paid, len(turn.history) + (message is not None))
    if message is None:
        return AssistantMessage((), turn.stop_reason)
    turn.cut_in_call = turn.was_cut and held is not None and _begins_call(turn, held.held)
    if held is not None and (held.held or turn.deps.context.small_model):
        message = yield from _with_written_calls(turn, message, held)
    return with_valid_calls(message, turn.deps.state.ids, turn.deps.tools)


def _keep_partial(
    turn: Turn, draft: AnswerDraft, void: AssistantMessage | None, stop_reason: str
) -> Generator[Event, None, None]:
    """Add the text of an answer that broke off. void: the text of an earlier attempt, for one that brought none."""
    partial = draft.message(stop_reason, with_calls=False)
    if partial is None and void is not None:
        partial = void.replace(stop_reason=stop_reason)
        yield TextDelta(partial.text)
    if partial is not None:
        yield from turn.add(partial)


def _begins_call(turn: Turn, text: str) -> bool:
    """Return True if a truncated text begins with a call of a known tool."""
    name = text_calls.first_name(text) if text else ""
    return bool(name) and foreign_calls.resolve_call(name, {}, turn.deps.tools) is not None


def _with_written_calls(
    turn: Turn, message: AssistantMessage, held: HeldText
) -> Generator[Event, None, AssistantMessage]:
    """Return the message with the calls written in its held text; show that text if it has none."""
    calls: list[ToolCall] = []
    before = held.passed
    small = turn.deps.context.small_model
    if not message.calls and not turn.was_cut and (small or not turn.looped):
        found = text_calls.read_written_calls(held.passed, held.held, rest=small)
        if small and not found:
            before, found = text_calls.read_last_call(message.text, turn.deps.tools)
        for written in () if text_calls.is_quoted(found, turn.history) else found:
            meant = foreign_calls.resolve_call(written.name, written.arguments, turn.deps.tools)
            if meant is None:
                calls = calls if small else []
                break
            schema = turn.deps.tools[meant.tool].schema() if written.untyped else {}
            arguments = text_calls.typed(meant.arguments, schema)
            if small and any((c.name, c.arguments) == (meant.tool, arguments) for c in calls):
                continue
            # Mistral requires nine letters and digits.
            call_id = f"call{len(turn.deps.state.ids) + len(calls):05d}"
            calls.append(ToolCall(call_id, meant.tool, arguments, repaired=(repairs.WRITTEN,)))
    if not calls:
        if shown := held.release():
            yield TextDelta(shown)
        return message
    turn.looped = False
    yield Noted("The model wrote its calls as text; they were read from it.")
    # Reasoning that a provider signed or encrypted belongs to the text after it, and would be invalid before a call.
    thoughts = [p for p in message.parts if isinstance(p, Thinking) and not (p.provider and p.data)]
    lead = [Text(before.rstrip())] if before.strip() else []
    return message.replace(parts=(*thoughts, *lead, *calls), stop_reason="tool_use")


def _pay(turn: Turn, draft: AnswerDraft, *, broken: bool, unanswered: bool = False) -> Usage | None:
    """Charge the turn for an answer. If it broke off before the provider reported its usage, estimate that.

    unanswered: estimate it even if nothing of the answer arrived.
    """
    used = draft.usage
    if used is None and broken and (draft.tokens or unanswered):
        used = _estimate_usage(turn, draft)
    if used is None:
        return None
    usage = turn.price(used)
    turn.usage += usage
    turn.budget.cost += usage.cost
    return usage


def _estimate_usage(turn: Turn, draft: AnswerDraft) -> Usage:
    """Estimate the usage of an answer that broke off before the provider reported it."""
    window = turn.deps.state.window
    sent, report = measure.used_tokens(window, turn.options, turn.history), window.report
    # The request begins as the last one did.
    read = min(sent, report.input) if report is not None and report.cached else 0
    return Usage(sent, measure.scaled(window, draft.tokens), cache_read=read, estimated=True)


def with_valid_calls(message: AssistantMessage, known: set[str], tools: ToolTable) -> AssistantMessage:
    """Return the message with unique call ids and names of known tools, or at least names that providers accept."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            call_id = part.id or "call"
            number = 1
            while call_id in known:
                number += 1
                call_id = f"{part.id or 'call'}-{number}"
            known.add(call_id)
            if (meant := tools.aliases.get(part.name, "")) in tools:
                part = part.replace(name=meant)
            elif part.name not in tools:
                part = _with_known_name(part, tools)
            part = repairs.with_plain_input(part, tools.get(part.name)) if part.broken else part
            part = part if call_id == part.id else part.replace(id=call_id)
        parts.append(part)
    return message.replace(parts=tuple(parts))


def _with_known_name(call: ToolCall, tools: Mapping[str, Tool[Any]]) -> ToolCall:
    """Return a call of an unknown tool as a call of the known tool that it means, if there is one."""
    meant = foreign_calls.resolve_call(call.name, call.arguments, tools)
    if meant is None:
        return call.replace(name=re.sub(r"[^A-Za-z0-9_-]", "_", call.name)[:64] or "unnamed")
    named = () if call.name in tools[meant.tool].other_names else (f"{repairs.RENAMED}{call.name[:60]}",)
    return call.replace(name=meant.tool, arguments=meant.arguments, repaired=(*named, *call.repaired))


def _first_chunk(turn: Turn, sent: float, draft: AnswerDraft) -> FirstChunk:
    ms = round((turn.deps.clock() - sent) * 1000)
    if turn.first_chunk_ms is None:
        turn.first_chunk_ms = ms
    return FirstChunk(ms, draft.started.id, draft.started.model, draft.usage or Usage())

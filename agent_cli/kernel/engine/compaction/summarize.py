"""The summary of a compaction: written by a model, or by the program itself if no model can."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from agent_cli.config.prompts import prompt
from agent_cli.kernel.engine.compaction.carry_over import file_argument_of
from agent_cli.kernel.engine.helper_model import complete_text
from agent_cli.kernel.engine.progress import format_plan
from agent_cli.kernel.engine.sampling import request_of
from agent_cli.kernel.engine.turn import Turn
from agent_cli.kernel.engine.types import ModelHandle
from agent_cli.kernel.events import Event, Warned
from agent_cli.kernel.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UserMessage,
    is_user_message,
    user_text,
)
from agent_cli.kernel.results import Failure
from agent_cli.kernel.window import count_text_tokens, count_tokens, truncate_to_tokens
from agent_cli.models.base import ModelError, Request
from agent_tools.registry import TraitsOf
from agent_tools.text import counted, shorten

SECTIONS = (
    "Goal", "Decisions", "Files and their state", "Commands and results", "Plan", "Next step", "Open questions",
)  # fmt: skip
# Assumed window of a small model of unknown size.
_SMALL_WINDOW_TOKENS = 32_000
_MIN_SUMMARY_CHARS = 20
# Limits for one message of the user, and for one call or result, in the text of the conversation.
_MESSAGE_TOKENS, _RESULT_TOKENS = 6_000, 375
_CUT_NOTE = "cut here"


def write_summary(
    turn: Turn, shown: Sequence[Message], max_tokens: int, focus: str, *, whole: bool
) -> Generator[Event, None, tuple[str, bool]]:
    """Summarize `shown` in at most `max_tokens` tokens; return the summary, and True if a model wrote it.

    The small model reads the conversation as text. Without one, the session's own model is asked at the end of the
    conversation, which its provider has cached. Raises CancelledError.

    whole: that request fits into the window, and may be tried.
    """
    ask = prompt("compact").format(words=max(100, max_tokens * 6 // 10), focus=focus)
    own = ModelHandle(
        turn.options.label, turn.options.model, turn.client, turn.price, turn.options.input_modalities,
        turn.options.context_window,
    )  # fmt: skip
    try:
        if turn.deps.small is None and whole:
            options, messages = turn.options, [*shown, UserMessage(ask)]
            request = request_of(options, turn.deps.state.window, messages, "none").replace(aside=True)
            try:
                return truncate_to_tokens((yield from _ask_model(turn, own, request)), max_tokens, _CUT_NOTE), True
            except ModelError as error:
                if error.failure.kind != "context_too_long":
                    raise
        handle = turn.deps.small() if turn.deps.small is not None else own
        room = (handle.window or _SMALL_WINDOW_TOKENS) * 7 // 10
        rendered = render_history(shown, room - count_text_tokens(ask))
        request = Request(handle.model, "", (UserMessage(f"{rendered}\n\n{ask}"),), aside=True)
        return truncate_to_tokens((yield from _ask_model(turn, handle, request)), max_tokens, _CUT_NOTE), True
    except ModelError as error:
        yield Warned(f"No model wrote the summary: {error.failure.message}")
    return summarize_plainly(turn, shown, max_tokens), False


def _ask_model(turn: Turn, handle: ModelHandle, request: Request) -> Generator[Event, None, str]:
    """Return the model's summary. Raises ModelError, also for an empty summary, and CancelledError."""
    text: str = yield from complete_text(turn, handle, request)
    if len(text) < _MIN_SUMMARY_CHARS:
        raise ModelError(Failure("malformed", f"{handle.label} returned an empty summary."))
    return text


def render_history(messages: Sequence[Message], room: int) -> str:
    """Render the conversation as text; omit older messages if it is too long."""
    lines = [_render_message(message) for message in messages]
    sizes = [count_text_tokens(line) for line in lines]
    # An earlier summary comes first, and is worth more than what follows it.
    first = 1 if messages and isinstance(messages[0], UserMessage) else 0
    left = room - sum(sizes[:first])
    start = len(lines)
    while start > first and left - sizes[start - 1] >= 0:
        start -= 1
        left -= sizes[start]
    gap = [f"[{counted(start - first, 'message')} left out here]"] if start > first else []
    head = [truncate_to_tokens(line, max(room // 2, 100), _CUT_NOTE) for line in lines[:first]]
    return "\n\n".join(["<conversation>", *head, *gap, *lines[start:], "</conversation>"])


def _render_message(message: Message) -> str:
    if isinstance(message, UserMessage):
        return f"User: {truncate_to_tokens(message.text, _MESSAGE_TOKENS, _CUT_NOTE)}"
    if isinstance(message, ToolMessage):
        return f"Result of {message.name}{' (failed)' if message.is_error else ''}: {_clip(message.text)}"
    calls = [f"calls {call.name} {_clip(str(call.arguments))}" for call in message.calls]
    return "\n".join([f"Assistant: {message.text}".rstrip(), *calls])


def _clip(text: str) -> str:
    return truncate_to_tokens(text, _RESULT_TOKENS, _CUT_NOTE)


def summarize_plainly(turn: Turn, shown: Sequence[Message], max_tokens: int) -> str:
    """Build a summary without a model from messages, calls and results, under the same headings."""
    share = max_tokens // len(SECTIONS)
    requests = [user_text(m.text) for m in shown if is_user_message(m)]
    answers = [m.text for m in shown if isinstance(m, AssistantMessage) and m.text.strip()]
    earlier = [m.text for m in shown[:1] if isinstance(m, UserMessage) and m.text.startswith("<compacted>")]
    files, commands = _calls(shown, turn.deps.traits_of)
    parts = {
        "Goal": "\n".join(truncate_to_tokens(text, share // 2, _CUT_NOTE) for text in requests[-2:]),
        "Decisions": truncate_to_tokens(earlier[0], 2 * share, _CUT_NOTE) if earlier else "",
        "Files and their state": _newest_lines(files, share),
        "Commands and results": _newest_lines(commands, share),
        "Plan": truncate_to_tokens(format_plan(turn.deps.context.plan), share, _CUT_NOTE),
        "Next step": truncate_to_tokens(f"The last words before this were: {answers[-1]}", share, _CUT_NOTE)
        if answers
        else "",
        "Open questions": "",
    }
    return "\n\n".join(f"## {name}\n{parts[name] or 'none'}" for name in SECTIONS)


def _calls(shown: Sequence[Message], traits_of: TraitsOf) -> tuple[list[str], list[str]]:
    """Return a line for each file and for each command that calls used, newest last."""
    results = {m.call_id: m for m in shown if isinstance(m, ToolMessage)}
    files: dict[str, str] = {}
    commands: dict[str, str] = {}
    for call in (c for m in shown if isinstance(m, AssistantMessage) for c in m.calls):
        result = results.get(call.id)
        how = "failed" if result is None or result.is_error else "done"
        if path := file_argument_of(call, traits_of):
            _put_last(files, path, f"- {call.name} {shorten(path)} ({how})")
        elif name := traits_of(call.name).command_argument:
            command = shorten(str(call.arguments.get(name, "")))
            _put_last(commands, command, f"- `{command}` ({how}): {_last_line(result)}")
    return list(files.values()), list(commands.values())


def _put_last(found: dict[str, str], key: str, line: str) -> None:
    found.pop(key, None)
    found[key] = line


def _last_line(result: ToolMessage | None) -> str:
    lines = result.text.strip().splitlines() if result is not None else []
    return shorten(lines[-1]) if lines else "no output"


def _newest_lines(lines: Sequence[str], room: int) -> str:
    """Return the newest lines that fit into `room` tokens."""
    kept: list[str] = []
    for line in reversed(lines):
        room -= count_text_tokens(line) + 1
        if room < 0:
            kept.insert(0, f"- {len(lines) - len(kept)} more before")
            break
        kept.insert(0, line)
    return "\n".join(kept)


def fits_whole(turn: Turn, shown: Sequence[Message], max_tokens: int, fixed: int, size: int) -> bool:
    """Return True if the model can be asked at the end of these messages."""
    return (fixed + count_tokens(shown) + 600) * turn.deps.state.window.factor + 2 * max_tokens < size

"""The summary of a compaction: written by a model, or by the program itself if no model can."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Sequence
from contextlib import suppress
from pathlib import Path

from agent_cli.config.prompts import prompt
from agent_cli.kernel.engine.compaction.carry_over import touched_files
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
    have_media,
    is_user_message,
    user_text,
)
from agent_cli.kernel.results import Failure
from agent_cli.kernel.window import count_text_tokens, count_tokens, truncate_to_tokens
from agent_cli.models.base import ModelError, Request
from agent_tools.fs import read_state
from agent_tools.fs.safe_files import read_regular
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
_MAX_ANSWERS, _SAID_CHARS = 5, 300
_MAX_FILE_BYTES = 10_000_000
_MAX_NAMED_STEPS = 5
# Not compiled before a summary is made.
_REMINDER = r"(?s)<reminder>.*?</reminder>"
_FAILED = r"(?m)^\[.*in the pipe: exit code [1-9]"


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
            request = request_of(options, turn.deps.state.window, messages, "none", have_media(messages))
            request = request.replace(aside=True)
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


def checked_summary(turn: Turn, gone: Sequence[Message], summary: str) -> str:
    """Return a model's summary with what it left out of the changed files, or has otherwise than the plan."""
    results = {m.call_id: m for m in gone if isinstance(m, ToolMessage) and not m.is_error}
    calls = (call for m in gone if isinstance(m, AssistantMessage) for call in m.calls if call.id in results)
    changed = (call for call in calls if turn.deps.traits_of(call.name).changes_files)
    paths = dict.fromkeys(path for call in changed for path in sorted(touched_files(turn, call)))
    spell = turn.deps.context.workspace.spell
    missing = [spell(Path(path)) for path in paths if os.path.basename(path) not in summary]
    lines = [f"Changed as well: {', '.join(missing)}."] if missing else []
    section = re.search(r"(?ms)^## Plan\n(.*?)(?=^## |\Z)", summary)
    told = section[1].casefold() if section else ""
    open_steps = [step.content for step in turn.deps.context.plan if step.status in ("pending", "in_progress")]
    wrong = [
        f'"{step}"'
        for step in open_steps
        if step.casefold() not in told or re.search(rf"(?im)^\W*\[x\]\W*{re.escape(step)}", summary)
    ]
    more = f" and {len(wrong) - _MAX_NAMED_STEPS} more" if len(wrong) > _MAX_NAMED_STEPS else ""
    lines += [f"Not done yet, as the plan has it: {', '.join(wrong[:_MAX_NAMED_STEPS])}{more}."] if wrong else []
    return "\n\n".join([summary, *lines])


def summarize_plainly(turn: Turn, shown: Sequence[Message], max_tokens: int) -> str:
    """Build a summary without a model from messages, calls and results, under the same headings."""
    share = max_tokens // len(SECTIONS)
    requests = [user_text(m.text) for m in shown if is_user_message(m)]
    answers = [m.text.strip() for m in shown if isinstance(m, AssistantMessage) and m.text.strip()]
    earlier = [m.text for m in shown[:1] if isinstance(m, UserMessage) and m.text.startswith("<compacted>")]
    files, commands = _calls(turn, shown)
    said = _newest_lines([f"- {shorten(text, _SAID_CHARS)}" for text in answers[-_MAX_ANSWERS - 1 : -1]], share)
    parts = {
        "Goal": "\n".join(truncate_to_tokens(text, share // 2, _CUT_NOTE) for text in requests[-2:]),
        "Decisions": "\n".join(
            filter(None, [truncate_to_tokens(earlier[0], 2 * share, _CUT_NOTE) if earlier else "", said])
        ),
        "Files and their state": _newest_lines(files, share),
        "Commands and results": _newest_lines(commands, share),
        "Plan": truncate_to_tokens(format_plan(turn.deps.context.plan), share, _CUT_NOTE),
        "Next step": truncate_to_tokens(f"The last words before this were: {answers[-1]}", share, _CUT_NOTE)
        if answers
        else "",
        "Open questions": "",
    }
    return "\n\n".join(f"## {name}\n{parts[name] or 'none'}" for name in SECTIONS)


def _calls(turn: Turn, shown: Sequence[Message]) -> tuple[list[str], list[str]]:
    """Return a line for each file and for each command that calls used, newest last."""
    results, traits_of = {m.call_id: m for m in turn.history if isinstance(m, ToolMessage)}, turn.deps.traits_of
    files: dict[str, list[str]] = {}
    commands: dict[str, str] = {}
    for call in (c for m in shown if isinstance(m, AssistantMessage) for c in m.calls):
        result, kind = results.get(call.id), traits_of(call.name)
        failed = result is None or result.is_error or re.search(_FAILED, result.text) is not None
        for path in () if kind.command_argument else sorted(touched_files(turn, call)):
            did = "changed" if kind.changes_files else "read"
            files[path] = [*files.pop(path, []), f"{did}{' (failed)' if failed else ''}"]
        if kind.command_argument:
            command = shorten(str(call.arguments.get(kind.command_argument, "")))
            _put_last(commands, command, f"- `{command}` ({'failed' if failed else 'done'}): {_last_line(result)}")
    return [_file_line(turn, path, did) for path, did in files.items()], list(commands.values())


def _file_line(turn: Turn, path: str, did: Sequence[str]) -> str:
    """Describe what was done with a file, and whether something else has changed it since."""
    context, what = turn.deps.context, ", ".join(dict.fromkeys(did))
    with suppress(OSError, ValueError):
        if (mark := context.seen.get(path)) is not None:
            data = read_regular(Path(path), _MAX_FILE_BYTES)
            what += ", changed since" if read_state.is_another_version(data, mark) else ""
    return f"- {shorten(context.workspace.spell(Path(path)))}: {what}"


def _put_last(found: dict[str, str], key: str, line: str) -> None:
    found.pop(key, None)
    found[key] = line


def _last_line(result: ToolMessage | None) -> str:
    """Return the last line that a command printed itself."""
    text = re.sub(_REMINDER, "", result.text) if result is not None else ""
    lines = [line for line in text.strip().splitlines() if line.strip() and not re.fullmatch(r"\[.*\]", line.strip())]
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

"""Compaction: show the model less of a long conversation, so that it can continue.

The cheap ways come first: old results are cleared in steps, and superseded results are cut to one line, if that frees
enough. Otherwise a summary replaces all but the newest rounds, together with what is carried over verbatim
(`carry_over`). The history itself is unchanged. Each compaction invalidates the provider's cached prefix once, so it
has to be worth it.

A cleared result is replaced by one line that says what it was and how to get it back: from a file of the session, by
reading the file again, or by the same call. The oldest are cleared first, and no more than makes room for a while:
results of commands, searches and pages; file contents, failures and reports of sub-agents only in the last step. The
newest rounds, the newest text of each file in work, plans, the user's answers and instructions stay.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Sequence
from pathlib import Path
from typing import Any

from agent_cli.config.prompts import prompt
from agent_cli.kernel.engine.compaction.carry_over import (
    CarryOver,
    build_carry_over,
    file_argument_of,
    forget_hidden_files,
    superseded,
    touched_files,
    visible_calls,
)
from agent_cli.kernel.engine.compaction.measure import (
    compaction_limit,
    overhead_tokens,
    scaled,
    used_tokens,
    window_tokens,
)
from agent_cli.kernel.engine.compaction.summarize import (
    checked_summary,
    fits_whole,
    summarize_plainly,
    write_summary,
)
from agent_cli.kernel.engine.turn import Turn
from agent_cli.kernel.events import Compacted, Compacting, Event, Trigger, Warned
from agent_cli.kernel.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage, is_user_message
from agent_cli.kernel.results import Failure
from agent_cli.kernel.window import (
    CLEARED_WINDOW_TOKENS,
    count_message_tokens,
    count_text_tokens,
    count_tokens,
    truncate_to_tokens,
)
from agent_cli.models.base import ModelError
from agent_cli.models.errors import window_in
from agent_tools.base import Tool
from agent_tools.fs import read_state
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.results import ASSUMED_WINDOW_TOKENS
from agent_tools.text import counted, shorten

with lazy_imports():
    from agent_cli.hooks import events as hook_events
    from agent_cli.kernel.engine import hook_points, session_hooks  # only with hooks

CLEARED = "[Cleared to make room: "
# The newest rounds stay if they fit into this share of the window; the very last always stays.
NEWEST_ROUNDS = 3
_NEWEST_SHARE = 1 / 8
# A shorter result is not worth replacing.
_MIN_CLEARED_TOKENS = 200
# Clearing has to free at least this share of the window.
_MIN_CLEARED_SHARE = 0.15
# It leaves this part of what is in use at its step: less in a large window, where that is still many rounds, as each
# clearing costs the provider's cache.
_KEPT_SHARE, _KEPT_SHARE_LARGE, _LARGE_WINDOW_TOKENS = 0.6, 0.35, 100_000
# Files are in work if these rounds read or changed them. Their newest texts stay if they fit into this share.
_MAX_ROUNDS_IN_WORK = 6
_IN_WORK_SHARE = 0.3
_SAVED_IN = re.compile(r" in (/[^\n]*?/output-\d+\.txt)[;: ]")


def results_to_clear(turn: Turn, used: int) -> tuple[dict[str, str], int]:
    """Return replacement lines for results, by call id, and the tokens they free; nothing if it is not worth it."""
    size = min(turn.window_size, CLEARED_WINDOW_TOKENS)
    shares = sorted(turn.options.clear_at)
    reached = sum(used >= share * size for share in shares)
    # The user has undone the first step, so it is not repeated.
    if not reached or (reached == 1 < len(shares) and turn.deps.state.window.uncleared):
        return {}, 0
    least = size * _MIN_CLEARED_SHARE
    found = _clearable(turn, newest=int(size * _NEWEST_SHARE))
    # In a long session of short results this is so at each model call; what follows looks at all of the calls.
    if _freed(turn, found) < least:
        return {}, 0
    again = superseded(turn.view, str(turn.deps.context.workspace.cwd), (), turn.deps.traits_of)
    if reached < len(shares):
        found = [
            m for m in found if m.call_id in again or not (m.is_error or _cleared_last(turn.deps.traits_of(m.name)))
        ]
    in_work = _views_in_work(turn, int(size * _IN_WORK_SHARE), again)
    calls = {call.id: call for m in turn.view if isinstance(m, AssistantMessage) for call in m.calls}
    kept_share = _KEPT_SHARE if size < _LARGE_WINDOW_TOKENS else _KEPT_SHARE_LARGE
    goal = used - shares[reached - 1] * size * kept_share
    chosen: list[ToolMessage] = []
    freed = 0
    for message in found:
        if freed >= goal:
            break
        if message.call_id not in in_work:
            chosen.append(message)
            freed = _freed(turn, chosen)
    if freed < least:
        return {}, 0
    cuts = {m.call_id: again.get(m.call_id) or _replacement_line(turn, m, calls.get(m.call_id)) for m in chosen}
    kept = sum(count_text_tokens(line) for line in cuts.values())
    return cuts, scaled(turn.deps.state.window, sum(map(count_message_tokens, chosen)) - kept)


def _freed(turn: Turn, results: Sequence[ToolMessage]) -> int:
    """Return about how many tokens are free once these results are lines."""
    return scaled(turn.deps.state.window, sum(map(count_message_tokens, results)) - 60 * len(results))


def _views_in_work(turn: Turn, room: int, again: Collection[str]) -> set[str]:
    """Return the calls whose results are the newest text of a file that the last rounds read or changed.

    again: the calls whose results a later one supersedes.
    """
    results = {m.call_id: m for m in turn.view if isinstance(m, ToolMessage) and not m.is_error}
    rounds = [m for m in reversed(turn.view) if isinstance(m, AssistantMessage) and m.calls]
    touched = {path for m in rounds[:_MAX_ROUNDS_IN_WORK] for call in m.calls for path in touched_files(turn, call)}
    found: set[str] = set()
    for call in (call for m in rounds for call in reversed(m.calls)):
        result, kind = results.get(call.id), turn.deps.traits_of(call.name)
        if result is None or call.id in again or not (kind.shows_file or kind.command_argument):
            continue
        if touched.intersection(touched_files(turn, call)) and (size := count_message_tokens(result)) <= room:
            found.add(call.id)
            room -= size
    return found


def _clearable(turn: Turn, *, newest: int) -> list[ToolMessage]:
    """Return the results that may be cleared, without those of the newest rounds."""
    window = turn.deps.state.window
    cuts, pins, traits_of = window.cuts, window.pins, turn.deps.traits_of
    return [
        message
        for message in turn.view[: _newest_rounds(turn.view, newest)]
        if isinstance(message, ToolMessage)
        and count_message_tokens(message) >= _MIN_CLEARED_TOKENS
        and not (message.call_id in cuts or message.text in pins or _is_never_cleared(traits_of(message.name)))
    ]


def _newest_rounds(view: Sequence[Message], room: int) -> int:
    """Return where the newest rounds begin."""
    border, total, rounds = len(view), 0, 0
    for index in range(len(view) - 1, -1, -1):
        message = view[index]
        total += count_message_tokens(message)
        if rounds and total > room:
            break
        if isinstance(message, AssistantMessage) and message.calls:
            border, rounds = index, rounds + 1
            if rounds == NEWEST_ROUNDS:
                break
    return border


def _is_never_cleared(kind: Tool[Any]) -> bool:
    """Return True if results of a tool are never cleared: plans, answers of the user, instructions."""
    about_plans = kind.changes_plan or kind.ends_plan_mode or kind.plan_argument
    return bool(about_plans or kind.asks_user or kind.result_size == "whole")


def _cleared_last(kind: Tool[Any]) -> bool:
    """Return True if results of a tool are only cleared in the last step."""
    return kind.shows_file or kind.changes_files or kind.nested


def _replacement_line(turn: Turn, message: ToolMessage, call: ToolCall | None) -> str:
    """Return the line that replaces a result; save the result in a file if there is no other way to get it back."""
    kind = turn.deps.traits_of(message.name)
    name = file_argument_of(call, turn.deps.traits_of) if call is not None else ""
    what = f"{counted(message.text.count(chr(10)) + 1, 'line')} of {message.name}{f' {shorten(name)}' if name else ''}"
    if kind.reopens:
        return f"{CLEARED}{what}. Read the file again if you need it.]"
    workspace = turn.deps.context.workspace
    search = workspace.advice("Grep Read", "{} shows any part of it")
    known = _SAVED_IN.search(message.text)
    path = Path(known[1]) if known and workspace.scratch.contains(Path(known[1])) else None
    if search and (path or not message.media):
        path = path or workspace.scratch.save(message.text)
        if path is not None:
            return f"{CLEARED}{what}. All of it is in {path};{search}.]"
    return f"{CLEARED}{what}. Make the call again if you need them.]"


# Cutting results is worth the lost cache if it frees this share of the limit, and brings the usage down to that share.
_MIN_SHARE_FREED, _MAX_SHARE_AFTER = 0.15, 0.8
# The newest rounds get the room divided by one of these; the first that fits is used.
_TAIL_DIVISORS = (4, 8, 20)
# A compaction should leave at most this share of the room in use.
_TARGET_SHARE = 0.7
_MIN_SUMMARY_TOKENS, _MAX_SUMMARY_TOKENS = 400, 6_000
_MAX_ATTEMPTS = 3

_CUT_NOTE = "cut here: the conversation was too long; call again for a part of it"


class _Layout(Value):
    """A planned compaction.

    border: index of the first message of the view that stays.
    cuts: shortened results by call id.
    kept: tokens of the messages that stay.
    carried: text to carry over verbatim.
    summary: token limit of the summary.
    """

    border: int
    cuts: dict[str, str]
    kept: int
    carried: CarryOver
    summary: int


def compact_if_full(turn: Turn) -> Generator[Event, None, None]:
    """Compact if the next request would reach the limit and there is something to remove.

    Raises CancelledError; ModelError if the request cannot be made to fit.
    """
    window, options = turn.deps.state.window, turn.options
    used = used_tokens(window, options, turn.history)
    if options.clear_at:
        cuts, freed = results_to_clear(turn, used)
        if cuts:
            yield from _apply(turn, _only_cuts(turn, "clear", cuts, used, freed))
            used -= freed
    size = window_tokens(window, options)
    if size is None or not options.compact_at:
        return
    limit = compaction_limit(size, options)
    if used < limit or _would_be_in_vain(turn, limit):
        return
    if not (yield from _cut_superseded(turn, used, limit)):
        yield from compact(turn, "auto", used)
    left = used_tokens(window, options, turn.history)
    if left > size * 1.15:
        raise ModelError(Failure("context_too_long", too_large(turn, size)))


def compact_refused(turn: Turn, failure: Failure) -> Generator[Event, None, bool]:
    """Implement `trigger.compact_after_overflow`.

    The window is the one that the refusal names. If it names none, it is smaller than the refused request.
    """
    window, options = turn.deps.state.window, turn.options
    used = used_tokens(window, options, turn.history)
    turn.refusals = turn.refusals + 1 if turn.refused_at == len(turn.history) else 1
    turn.refused_at = len(turn.history)
    named, sent = window_in(failure.message)
    if named:
        window.refused_tokens = named
    size = window_tokens(window, options)
    if named and size and used <= size:
        # The request had more tokens than we counted.
        window.factor *= max(sent, size) / max(used, 1)
    elif size is None or used <= size:
        window.refused_tokens = size = max(used * 9 // 10, 1)
    if turn.refusals < _MAX_ATTEMPTS and not (yield from compact(turn, "too_long", used, bare=turn.refusals > 1)):
        return True
    raise ModelError(failure.replace(message=f"{failure.message} {too_large(turn, size)}"))


def compact(
    turn: Turn, trigger: Trigger, used: int, focus: str = "", *, bare: bool = False
) -> Generator[Event, None, str]:
    """Compact now; return "", or why it was not done. Raises CancelledError.

    bare: carry over no contents of files.
    """
    window, options = turn.deps.state.window, turn.options
    wanted, why = yield from _allowed(turn, trigger, focus)
    if why:
        return why
    size = window_tokens(window, options) or ASSUMED_WINDOW_TOKENS
    # All shares below use our own token count.
    room = max(
        int((compaction_limit(size, options) - scaled(window, overhead_tokens(options))) / window.factor), size // 20
    )
    layout = _layout(turn, room, trigger, bare=bare)
    if layout is None:
        return "There is nothing to compact yet."
    head: tuple[Message, ...] = ()
    summary, by, usage = "", "", turn.usage
    if layout.border > 0:
        yield Compacting(trigger, used)
        gone = turn.view[: layout.border]
        if trigger == "refused":
            summary, modelled = summarize_plainly(turn, gone, layout.summary), False
        else:
            whole = trigger != "too_long" and fits_whole(turn, gone, layout.summary, overhead_tokens(options), size)
            summary, modelled = yield from write_summary(turn, gone, layout.summary, wanted, whole=whole)
            summary = checked_summary(turn, gone, summary) if modelled else summary
        by = "model" if modelled else "program"
        text = prompt("compacted").format(summary=summary.replace("</compacted>", ""))
        texts = [text, *_standing(turn, bare=bare), *layout.carried.texts]
        head = (UserMessage("\n\n".join(texts), layout.carried.media),)
    yield from _apply(
        turn,
        Compacted(
            trigger=trigger,
            kept=len(turn.view) - layout.border if head else len(turn.history),
            dropped=layout.border,
            summary=summary,
            head=head,
            cuts=layout.cuts,
            tokens_before=used,
            tokens_after=scaled(window, overhead_tokens(options) + count_tokens(head) + layout.kept),
            by=by,  # type: ignore[arg-type]
            restated=layout.carried.labels if head else (),
            seen=layout.carried.seen,
            usage=turn.usage.since(usage),
        ),
    )
    if head and not turn.deps.depth and turn.deps.hooks.wants("SessionStart", "compact"):
        step = hook_events.session_start("compact", options.label)
        for text in (yield from session_hooks.start_hooks(turn.deps, step)):
            yield from turn.add(UserMessage(text))
    kind = "manual" if trigger == "manual" else "auto"
    if head and turn.deps.hooks.wants("PostCompact", kind):
        yield from hook_points.after_compaction(turn, kind, summary)
    return ""


def _standing(turn: Turn, *, bare: bool) -> list[str]:
    """Return how things stand now, which the beginning of the conversation may have told otherwise."""
    environment = turn.deps.environment
    if environment is None or bare:
        return []
    now = environment.now(turn.deps.policy.mode, read_state.changed_files(turn.deps.context))
    return [f"<session_change>\n{now}\n</session_change>"]


def _allowed(turn: Turn, trigger: Trigger, focus: str) -> Generator[Event, None, tuple[str, str]]:
    """Run the PreCompact hooks; return additions to the summary's instructions, and why they forbid it ("" if not).

    Raises CancelledError.
    """
    additions = [f"The user asks to keep above all: {focus}"] if focus else []
    kind = "manual" if trigger == "manual" else "auto"
    if turn.deps.hooks.wants("PreCompact", kind):
        outcome = yield from hook_points.fire(turn, hook_events.pre_compact(kind, focus))
        if (reason := outcome.refusal) is not None:
            return "", f"A hook prevented the compaction{f': {reason}' if reason else '.'}"
        additions += outcome.context
    return "".join(f"\n\n{text}" for text in additions), ""


def _would_be_in_vain(turn: Turn, limit: int) -> bool:
    """Return True if the last compaction is so recent that another would free nothing more."""
    made = [c for c in turn.deps.state.window.compactions if c.event.trigger != "clear"][-1:]
    if not made:
        return False
    since = len(turn.history) - made[0].at
    return since == 0 or (made[0].event.tokens_after > limit * 0.9 and since < 8)


def _cut_superseded(turn: Turn, used: int, limit: int) -> Generator[Event, None, bool]:
    """Cut superseded results if that frees enough; return False otherwise."""
    window = turn.deps.state.window
    cuts = superseded(turn.view, str(turn.deps.context.workspace.cwd), window.pins, turn.deps.traits_of)
    texts = {m.call_id: m.text for m in turn.view if isinstance(m, ToolMessage)}
    cuts = {call: line for call, line in cuts.items() if texts[call] != line}
    freed = scaled(window, sum(count_text_tokens(texts[call]) - count_text_tokens(line) for call, line in cuts.items()))
    if freed < limit * _MIN_SHARE_FREED or used - freed > limit * _MAX_SHARE_AFTER:
        return False
    yield from _apply(turn, _only_cuts(turn, "auto", cuts, used, freed))
    return True


def _only_cuts(turn: Turn, trigger: Trigger, cuts: dict[str, str], used: int, freed: int) -> Compacted:
    return Compacted(trigger, len(turn.history), 0, cuts=cuts, tokens_before=used, tokens_after=used - freed)


def _apply(turn: Turn, event: Compacted) -> Generator[Event, None, None]:
    window, before = turn.deps.state.window, visible_calls(turn)
    window.apply(event, len(turn.history))
    turn.refresh_view()
    event = event.replace(seen={**forget_hidden_files(turn, before, event), **event.seen})
    # A result that is no longer shown is no reason to skip a call.
    turn.repeats.forget()
    yield event
    if window.compactions[-1:] and event.tokens_after > event.tokens_before * 0.9 and event.trigger == "auto":
        yield Warned("Compacting freed little: the conversation stays near the end of the model's window.")


def _layout(turn: Turn, room: int, trigger: Trigger, *, bare: bool) -> _Layout | None:
    """Choose what to keep of the view so that enough room is left; None if nothing can be removed."""
    window, view = turn.deps.state.window, turn.view
    head = len(window.head)
    summary = min(max(room // 10, _MIN_SUMMARY_TOKENS), _MAX_SUMMARY_TOKENS)
    tail = view[head:]
    # A manual compaction must shrink even a short conversation.
    most = room if trigger == "auto" else min(room, count_tokens(tail))
    layout: _Layout | None = None
    for part in _TAIL_DIVISORS:
        # Any of the newest messages may be what the provider refuses.
        keep = 0 if trigger == "refused" else most // part
        border = _tail_start(tail, keep)
        cuts = _shorten_results(tail[border:], keep, window.pins)
        kept = sum(
            count_text_tokens(cuts[m.call_id])
            if isinstance(m, ToolMessage) and m.call_id in cuts
            else count_message_tokens(m)
            for m in tail[border:]
        )
        gone = len(turn.history) - len(tail) + border
        files = 0 if bare or part != _TAIL_DIVISORS[0] else most // 6
        carried = build_carry_over(turn, gone, room, files) if border else CarryOver((), ())
        if border or cuts:
            layout = _Layout(head + border if border else 0, cuts, kept + (0 if border else count_tokens(view[:head])),
                             carried, summary)  # fmt: skip
        if summary + carried.tokens + kept <= room * _TARGET_SHARE:
            break
    return layout


def _tail_start(tail: Sequence[Message], keep: int) -> int:
    """Return the start of the newest rounds that fit into `keep` tokens; the very last always stays."""
    border, total = len(tail), 0
    for index in range(len(tail) - 1, -1, -1):
        total += count_message_tokens(tail[index])
        if total > keep and border < len(tail):
            break
        if not isinstance(tail[index], ToolMessage):
            border = index
    return border


def _shorten_results(kept: Sequence[Message], keep: int, pins: Sequence[str]) -> dict[str, str]:
    """Return shortened results, by call id, if the messages have more than `keep` tokens."""
    if count_tokens(kept) <= keep:
        return {}
    results = [m for m in kept if isinstance(m, ToolMessage) and m.text not in pins]
    each = max(keep // max(len(results), 1), 200)
    return {
        m.call_id: truncate_to_tokens(m.text, each, _CUT_NOTE)
        for m in results
        if count_text_tokens(m.text) > each or m.media
    }


def too_large(turn: Turn, size: int) -> str:
    """Return advice for the user if the conversation cannot be made to fit."""
    window, options = turn.deps.state.window, turn.options
    fixed = scaled(window, overhead_tokens(options))
    if fixed > size * 0.7:
        return (
            f"The system prompt and the tools alone fill about {fixed:,} of the {size:,} tokens that {options.label} "
            "takes. Offer fewer tools (setting tools), shorten the memory files, or use a model with a larger window."
        )
    largest = max(turn.view, key=count_message_tokens)
    count = scaled(window, count_message_tokens(largest))
    whose = "Your message" if is_user_message(largest) else "One message"
    if count > size * 0.5:
        return (
            f"{whose} alone has about {count:,} tokens, and {options.label} takes {size:,}. Send a part of it, put it "
            "into a file that can be read piece by piece, or choose a model with a larger window."
        )
    return f"{options.label} takes about {size:,} tokens. Choose a model with a larger window, or begin a new session."

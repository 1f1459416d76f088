"""The model's view of the conversation: show, compact, uncompact and pin.

Also usage and cost of the session: total, by model, by turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_cli.core.messages import user_text
from agent_cli.core.results import Usage
from agent_cli.engine.compaction.controls import (
    ContextUsage,
    compact_now,
    filling,
    pin,
    pinnable,
    role_label,
    uncompact,
)
from agent_cli.session.files import read_log
from agent_cli.session.store import SessionStore, state_folder
from agent_cli.terminal.slash import SlashContext, slash
from agent_tools.lazy import lazy_imports
from agent_tools.text import counted, shorten

if TYPE_CHECKING:
    from agent_cli.session.timeline import Spending

with lazy_imports():
    from agent_cli.session import timeline  # reads logs, which is not needed at the start

WIDTH = 50
_CHOICES = 12
# A letter for each part, so that the bar is readable without colours.
_MARKS = {"system prompt": "S", "tools": "T", "memory": "M", "summary": "Z", "files read": "F", "conversation": "C"}


@slash("context", "what fills the model's window; `/context summary` shows the last summary", "[summary]", aside=True)
def _context(ctx: SlashContext, words: str) -> None:
    conversation = ctx.agent.conversation
    made = [c.event for c in conversation.deps.state.window.compactions]
    if words == "summary":
        last = next((e.summary for e in reversed(made) if e.summary), "")
        ctx.page(last) if last else ctx.say("This conversation has no summary; it was not compacted.")
        return
    for line in context_lines(filling(conversation)):
        ctx.say(line)
    pins = conversation.deps.state.window.pins
    notes = [f"compacted {counted(len(made), 'time')}"] if made else []
    notes += [f"{counted(len(pins), 'pinned message')}"] if pins else []
    if notes:
        ctx.say(f"  {', '.join(notes)}")


def context_lines(found: ContextUsage) -> list[str]:
    """Return the bar and its parts, one line each."""
    measured = f"{found.reported:,} of them counted by the provider" if found.reported else "estimated"
    if not found.size:
        lines = [f"context: {found.used:,} tokens ({measured}); this model's window is not known (context_window)"]
        return lines + [f"  {name:<14}{count:>10,}" for name, count in found.parts]
    lines = [f"context: {found.used:,} of {found.size:,} tokens, {_percent(found.used, found.size)} ({measured})"]
    lines.append(f"  [{bar(found)}]")
    rows = [(f"{_MARKS[name]} {name}", count) for name, count in found.parts]
    rows.append((". free", found.free or 0))
    lines += [f"  {name:<16}{count:>10,}  {_percent(count, found.size):>6}" for name, count in rows]
    if found.limit:
        lines.append(f"  it is compacted at {found.limit:,} tokens ({_percent(found.limit, found.size)})")
    return lines


def bar(found: ContextUsage) -> str:
    """Draw the window in `WIDTH` letters: at least one per part, `|` at the compaction limit."""
    size = max(found.size or 1, found.used)
    cells = "".join(_MARKS[name] * max(1, round(WIDTH * count / size)) for name, count in found.parts)[:WIDTH]
    cells = cells.ljust(WIDTH, ".")
    at = min(WIDTH - 1, round(WIDTH * (found.limit or size) / size))
    return cells if not found.limit or cells[at] != "." else f"{cells[:at]}|{cells[at + 1 :]}"


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole
    return f"{share:.0f} %" if share >= 10 or not part else f"{share:.1f} %"


@slash("compact", "replace all but the newest messages by a summary now; FOCUS: what it should keep", "[FOCUS]")
def _compact(ctx: SlashContext, words: str) -> None:
    why: list[str] = []
    ctx.run_interruptible(lambda: why.append(compact_now(ctx.agent.conversation, ctx.show_event, words)))
    if why and why[0]:
        ctx.say(why[0])


@slash("uncompact", "take the last compaction back, where that fits")
def _uncompact(ctx: SlashContext, words: str) -> None:
    if why := uncompact(ctx.agent.conversation, ctx.show_event):
        ctx.say(why)


@slash("pin", "keep a message word for word through compactions, or no longer; WORDS: some of it", "[WORDS]")
def _pin(ctx: SlashContext, words: str) -> None:
    conversation = ctx.agent.conversation
    pins = conversation.deps.state.window.pins
    found = [m for m in pinnable(conversation.history) if words.lower() in m.text.lower()]
    if words:
        # What is named is meant as something said, where there is such a thing.
        found = [m for m in found if role_label(m) in ("you", "answer")] or found
    if not found:
        ctx.say("No message has these words." if words else "There is no message to pin yet.")
        return
    place: int | None = 0
    if not words:
        found = sorted(found, key=lambda m: m.text not in pins)[:_CHOICES]
        options = [
            (f"{'pinned, ' if m.text in pins else ''}{role_label(m)}", shorten(user_text(m.text), 80)) for m in found
        ]
        place = ctx.choose("Which message? One that is pinned is unpinned.", options)
    if place is None:
        return
    if why := pin(conversation, found[place], ctx.show_event):
        ctx.say(why)


TURNS = 10


@slash("cost", "tokens and dollars of this session, by model and by turn", "[all]", aside=True)
def _cost(ctx: SlashContext, words: str) -> None:
    told = _told(ctx)
    if told is None:
        kept = ctx.agent.settings.save_sessions
        ctx.say(used(ctx.usage) + ("" if kept else " (since the session was opened; it is not kept)"))
        return
    ctx.say(f"session: {used(told.total)}")
    if len(told.models) > 1:
        for model, usage in told.models.items():
            ctx.say(f"  {model}: {used(usage)}")
    if len(told.turns) < 2:
        return
    first = 0 if words == "all" else max(0, len(told.turns) - TURNS)
    if first:
        before = sum((t.usage for t in told.turns[:first]), Usage())
        ctx.say(f"  turns 1 to {first}: {used(before)} (/cost all shows each)")
    for number, turn in enumerate(told.turns[first:], first + 1):
        ctx.say(f"  turn {number}: {used(turn.usage)}  {shorten(turn.query, 50)}")


def _told(ctx: SlashContext) -> Spending | None:
    """Return the usage in the log; None if there is no log."""
    if not ctx.agent.settings.save_sessions:
        return None
    store = SessionStore(state_folder(ctx.place.env), ctx.place.root)
    try:
        return timeline.spending(read_log(store.path(ctx.agent.header.session_id)))
    except OSError:
        return None


def used(usage: Usage) -> str:
    """Format usage: tokens, the share of cached input, dollars."""
    cached = f" ({100 * usage.cache_read // usage.input}% from cache)" if usage.input and usage.cache_read else ""
    cost = f"${usage.cost:.4f}" if usage.reliable else "cost unknown (no price for this model)"
    if not usage.reliable and usage.cost:
        cost = f"more than ${usage.cost:.4f} (a model without a known price took part)"
    about = " (estimated in part: an answer was interrupted)" if usage.estimated else ""
    return f"{usage.input:,} tokens in{cached}, {usage.output:,} out; {cost}{about}"

"""The model's context: its view of the conversation (show, compact, uncompact and pin), and the plan.

Also: side questions, which do not become part of the conversation; usage and cost of the session: total, by model, by
turn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rich.text import Text

from agent_cli import Usage, UserMessage
from agent_cli.kernel.engine.compaction.controls import ContextUsage
from agent_cli.kernel.engine.helper_model import ask_side_question
from agent_cli.models.base import ModelError
from agent_cli.shells.terminal.dialogs.view import View, bar, is_printed, prose_lines
from agent_cli.shells.terminal.render.ansi import cells, truncate_cells
from agent_cli.shells.terminal.render.console import styled
from agent_cli.shells.terminal.slash import SlashContext, slash
from agent_tools.cancel import CancelledError
from agent_tools.results import TodoItem
from agent_tools.text import counted, dollars, one_line, parse_number, short_count, shorten

if TYPE_CHECKING:
    from agent_cli import SessionView

MAX_BAR_CELLS = 100
_MAX_CHOICES = 12
# Characters of a message shown in a menu.
_PREVIEW_CHARS = 400
# The colour of each part in the bar.
PART_STYLES = {
    "system prompt": "dim", "tools": "warn", "memory": "good", "summary": "bad", "files read": "accent",
    "conversation": "",
}  # fmt: skip


@slash("context", "show what fills the context window; summary: the last summary", "[summary]", aside=True,
       values=lambda ctx: ("summary",), strict=True)  # fmt: skip
def _context(ctx: SlashContext, words: str) -> None:
    conversation = ctx.agent
    made = [c.event for c in ctx.agent.window.compactions]
    if words == "summary":
        last = next((e.summary for e in reversed(made) if e.summary), "")
        ctx.page(last, "Summary") if last else ctx.say("This conversation has no summary; it was not compacted.")
        return
    found, pins = conversation.context.usage(), ctx.agent.window.pins
    cleared = sum(e.trigger == "clear" for e in made)
    notes = [f"compacted {counted(len(made) - cleared, 'time')}"] if len(made) > cleared else []
    notes += [f"old results cleared {counted(cleared, 'time')}"] if cleared else []
    notes += [f"{counted(len(pins), 'pinned message')}"] if pins else []
    ctx.show_view(
        View("Context", lambda width: [*context_lines(found, width), *([styled(", ".join(notes))] if notes else [])])
    )


def context_lines(found: ContextUsage, width: int) -> list[Text]:
    """Draw what fills the window: all of it as one bar, and each part with its name, number and own bar."""
    measured = f"{found.reported:,} of them counted by the provider" if found.reported else "estimated"
    whole = max(found.size or 0, found.used, 1)
    if found.size:
        head = f"{found.used:,} of {found.size:,} tokens, {_percent(found.used, found.size)} ({measured})"
    else:
        head = f"{found.used:,} tokens ({measured}); this model's window is not known (context_window)"
    if is_printed(width):
        head = f"context: {head}"
    room = min(width, MAX_BAR_CELLS)
    parts = [(name, count, PART_STYLES[name]) for name, count in found.parts]
    lines = prose_lines(head, width)
    if not is_printed(width):
        lines += [Text(), bar([(count, style) for _, count, style in parts], whole, room), Text()]
    rows = [*parts, *([("free", found.free or 0, "dim")] if found.size else [])]
    for name, count, style in rows:
        share = f"{_percent(count, found.size):>6}" if found.size else ""
        line = Text("  ") if is_printed(width) else styled("■ ", style)
        line = Text().append_text(line).append_text(styled(f"{name:<14}{count:>10,}  {share}"))
        size = 0 if is_printed(width) else room - line.cell_len - 2
        lines.append(line.append("  ").append_text(bar([(count, style)], whole, size)) if size >= 10 else line)
    if found.limit:
        at = _percent(found.limit, found.size or whole)
        lines += [*_gap(width), *prose_lines(f"it is compacted at {found.limit:,} tokens ({at})", width, "dim")]
    return lines


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole
    return f"{share:.0f} %" if share >= 10 or not part else f"{share:.1f} %"


@slash("compact", "compact the conversation; FOCUS: what to keep", "[FOCUS]", aliases=("compress", "summarize"))
def _compact(ctx: SlashContext, words: str) -> None:
    why: list[str] = []
    ctx.run_interruptible(lambda: why.append(ctx.agent.context.compact(ctx.show_event, words)))
    if why and why[0]:
        ctx.say(why[0])


@slash("uncompact", "undo the last compaction, if it fits")
def _uncompact(ctx: SlashContext, words: str) -> None:
    if why := ctx.agent.context.uncompact(ctx.show_event):
        ctx.say(why)


@slash("pin", "pin a message so that compaction keeps it; again to unpin", "[TEXT]")
def _pin(ctx: SlashContext, words: str) -> None:
    conversation = ctx.agent
    pins = ctx.agent.window.pins
    found = [m for m in conversation.context.pinnable() if words.lower() in m.text.lower()]
    if words:
        # Prefer messages to tool results.
        found = [m for m in found if conversation.context.label(m) in ("you", "answer")] or found
    if not found:
        ctx.say("No message has these words." if words else "There is no message to pin yet.")
        return
    picked: int | None = 0
    if not words:
        found = sorted(found, key=lambda m: m.text not in pins)[:_MAX_CHOICES]
        options = [
            (
                f"{'pinned, ' if m.text in pins else ''}{conversation.context.label(m)}",
                " ".join((m.words if isinstance(m, UserMessage) else m.text)[:_PREVIEW_CHARS].split()),
            )
            for m in found
        ]
        picked = ctx.choose("Pin or unpin which message?", options)
    if picked is None:
        return
    if why := conversation.context.pin(found[picked], ctx.show_event):
        ctx.say(why)


MAX_TURNS, MAX_COST_CELLS = 10, 20


@slash("cost", "show tokens and cost of this session", "[all]", aside=True, values=lambda ctx: ("all",), strict=True,
       aliases=("usage", "stats"))  # fmt: skip
def _cost(ctx: SlashContext, words: str) -> None:
    found = logged_view(ctx)
    if found is None:
        kept = ctx.agent.settings.save_sessions
        text = format_usage(ctx.usage) + ("" if kept else " (since the session was opened; it is not saved)")
        ctx.show_view(View("Cost", lambda width: prose_lines(text, width)))
        return
    every = words == "all" or ctx.has_menus
    ctx.show_view(View("Cost", lambda width: cost_lines(found, width, every=every)))


def cost_lines(found: SessionView, width: int, *, every: bool) -> list[Text]:
    """Draw the usage of a session: in all, by model and by turn, each with a bar. every: all turns, not the latest."""
    lines = prose_lines(f"session: {format_usage(found.usage)}", width)
    if len(found.models) > 1:
        lines += [*_gap(width), *_bars([(model, usage, "") for model, usage in found.models.items()], width)]
    turns = [turn for turn in found.turns if not turn.copied]
    if len(turns) < 2:
        return lines
    first = 0 if every else max(0, len(turns) - MAX_TURNS)
    rows = [(f"turn {n}", turn.usage, turn.words) for n, turn in enumerate(turns[first:], first + 1)]
    if first:
        before = sum((turn.usage for turn in turns[:first]), Usage())
        rows.insert(0, (f"turns 1 to {first}", before, "(/cost all shows each)"))
    return [*lines, *_gap(width), *_bars(rows, width)]


def _gap(width: int) -> list[Text]:
    return [] if is_printed(width) else [Text()]


def _bars(rows: Sequence[tuple[str, Usage, str]], width: int) -> list[Text]:
    """Draw usages as bars, by cost if all costs are known, else by tokens; each with its name, and what it was for."""
    if is_printed(width):
        return [styled(f"  {name}: {format_usage(usage)}  {shorten(what, 50)}".rstrip()) for name, usage, what in rows]
    priced = all(usage.reliable for _, usage, _ in rows) and any(usage.cost for _, usage, _ in rows)
    sizes = [usage.cost if priced else usage.input + usage.output for _, usage, _ in rows]
    column = min(max(len(name) for name, _, _ in rows), 30)
    size = min(MAX_COST_CELLS, width // 5)
    lines = []
    for (name, usage, what), share in zip(rows, sizes, strict=True):
        line = Text().append_text(styled(f"{shorten(name, column):<{column}}  "))
        line.append_text(bar([(share, "accent")], max(sizes), size)).append("  ")
        cached = f", {100 * usage.cache_read // usage.input}% cached" if usage.input and usage.cache_read else ""
        cost = f"{'~' if usage.estimated else ''}{dollars(usage.cost)}  " if usage.cost else ""
        sent, received = f"{short_count(usage.input)} in", f"{short_count(usage.output)} out"
        facts = (f"{cost}{sent}{cached}, {received}", f"{cost}{sent}, {received}", cost.strip() or sent)
        fact = next((fact for fact in facts if line.cell_len + cells(fact) <= width), facts[-1])
        line.append_text(styled(fact))
        room = width - line.cell_len - 2
        lines.append(line.append_text(styled(f"  {truncate_cells(one_line(what), room)}", "dim")) if what else line)
    return lines


def logged_view(ctx: SlashContext) -> SessionView | None:
    """Return the session as its log has it; None if there is no log."""
    if not ctx.agent.settings.save_sessions:
        return None
    try:
        return ctx.agent.stored.view()
    except OSError:
        return None


def format_usage(usage: Usage) -> str:
    """Format usage: tokens, the share of cached input, dollars."""
    cached = f" ({100 * usage.cache_read // usage.input}% from cache)" if usage.input and usage.cache_read else ""
    cost = f"${usage.cost:.4f}" if usage.reliable else "cost unknown (no price for this model)"
    if not usage.reliable and usage.cost:
        cost = f"more than ${usage.cost:.4f} (a model without a known price took part)"
    about = " (estimated in part: an answer was interrupted)" if usage.estimated else ""
    return f"{usage.input:,} tokens in{cached}, {usage.output:,} out; {cost}{about}"


@slash("record", "show the steps of the plan, each with what checked it", aside=True)
def _record(ctx: SlashContext, words: str) -> None:
    found = logged_view(ctx)
    if found is None:
        ctx.say("The session is not saved, so there is no record of it.")
        return
    lines = list(found.completion().lines())
    ctx.show_view(View("Record", lambda width: [row for line in lines for row in prose_lines(line[0], width, line[1])]))


@slash("btw", "ask a side question (not saved)", "QUESTION", aside=True)
def _btw(ctx: SlashContext, words: str) -> None:
    conversation = ctx.agent
    if not words:
        ctx.say("Say what you want to know: /btw QUESTION")
        return
    stop = conversation.side_cancel_token()
    opened = ctx.agent.open_model()  # a separate connection: a turn may be using the other

    def charge(usage: Usage) -> None:
        ctx.agent.charge(opened.label, usage)
        ctx.add_usage(usage)

    history = conversation.live_history
    try:
        steps = ask_side_question(opened, conversation.options, ctx.agent.window, history, words, stop, charge)
        answer = list(steps)
    except ModelError as error:
        ctx.say(error.failure.message)
        return
    except CancelledError:
        return
    ctx.show_markdown("".join(answer).strip() or "(no answer)")


Status = Literal["pending", "in_progress", "completed", "cancelled"]


PLAN_CHANGES = ("add ", "drop ", "done ", "first ", "edit")
_STEP_MARKS: dict[str, Status] = {" ": "pending", ">": "in_progress", "x": "completed", "-": "cancelled"}


@slash("todos", "show or change the plan: add TEXT, drop N, done N, first N, edit", "[CHANGE]", aside=True,
       values=lambda ctx: PLAN_CHANGES)  # fmt: skip
def _todos(ctx: SlashContext, words: str) -> None:
    conversation = ctx.agent
    if words == "edit":
        shown = ctx.agent.tool_context.plan
        text = ctx.edit(plan_as_text(shown))
        # Steps that the model completed meanwhile stay completed: only the user's edits count.
        if text is not None and (items := plan_from_text(text, shown)) != shown:
            if ctx.agent.tool_context.plan == shown:
                conversation.change_plan(items)
            else:
                ctx.say("The plan has changed in the meantime; review it and edit it again.")
    elif words:
        try:
            conversation.change_plan(changed_plan(ctx.agent.tool_context.plan, words))
        except ValueError as error:
            ctx.say(str(error))
            if not ctx.agent.tool_context.plan:
                return
    ctx.show_plan()


@slash("plan", "plan mode: nothing is changed until you approve a plan; with TEXT: send it", "[TEXT | off]",
       values=lambda ctx: (("off", "leave plan mode"),))  # fmt: skip
def _plan(ctx: SlashContext, words: str) -> None:
    is_on = ctx.agent.policy.mode == "plan"
    if words == "off":
        if is_on:
            mode = ctx.agent.settings.permissions.mode
            ctx.switch_mode(mode if mode != "plan" else "default")
        ctx.say(f"plan mode off; mode: {ctx.agent.policy.mode}")
        return
    if not is_on:
        ctx.switch_mode("plan")
    if words and words != "on":
        ctx.run_turn(words)
        return
    ctx.say("plan mode on: nothing is changed until you approve a plan (/plan off leaves, /todos shows the plan)")


def plan_as_text(plan: tuple[TodoItem, ...]) -> str:
    """Return the plan as editable lines: `[ ] step`, with > in progress, x completed, - cancelled."""
    marks = {status: mark for mark, status in _STEP_MARKS.items()}
    return "".join(f"[{marks[item.status]}] {item.content}\n" for item in plan)


def plan_from_text(text: str, plan: tuple[TodoItem, ...]) -> tuple[TodoItem, ...]:
    """Parse edited plan lines; a line without a mark is a pending step. plan: the steps known so far."""
    known = {item.content: item for item in plan}
    items = []
    for line in text.splitlines():
        found = re.fullmatch(r"\s*(?:[-*]\s+)?(?:\[([ >x-])\])?\s*(\S.*?)\s*", line)
        if found is not None:
            items.append(known.get(found[2], TodoItem(found[2])).replace(status=_STEP_MARKS[found[1] or " "]))
    return tuple(items)


def changed_plan(plan: tuple[TodoItem, ...], words: str) -> tuple[TodoItem, ...]:
    """Apply `add TEXT`, `drop N`, `done N` or `first N` (N from 1) to the plan. Raises ValueError with a message."""
    verb, _, rest = words.partition(" ")
    rest = rest.strip()
    if verb == "add" and rest:
        return (*plan, TodoItem(rest))
    if verb not in ("drop", "done", "first"):
        raise ValueError("Say: add TEXT, drop N, done N, or first N.")
    if not 1 <= parse_number(rest) <= len(plan):
        raise ValueError(f"There is no step {rest or '(none named)'}; the plan has {len(plan)}.")
    index = parse_number(rest) - 1
    others = plan[:index] + plan[index + 1 :]
    if verb == "drop":
        return others
    if verb == "first":
        return (plan[index], *others)
    return (*plan[:index], plan[index].replace(status="completed"), *plan[index + 1 :])

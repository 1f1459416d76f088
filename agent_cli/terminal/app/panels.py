"""Panels of the live region as styled text: status, plan, queue, toolbar. Pure functions of the current state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_cli.terminal.render.ansi import Fragment, cells, clip
from agent_tools.display import TodoItem
from agent_tools.text import escape_controls, one_line

STEPS, QUEUED, MENU, INPUT = 6, 4, 7, 8
# Cells reserved for the current activity before anything else.
WHAT = 24
_MARKS = {"pending": "☐", "in_progress": "▸", "completed": "☑", "cancelled": "☒"}
_STYLES = {"pending": "", "in_progress": "class:now", "completed": "class:dim", "cancelled": "class:dim"}

Line = tuple[Fragment, ...]


def short_count(number: int) -> str:
    """Format a count: 12, 1.2k, 34k, 1.2M."""
    if number < 1_000:
        return str(number)
    for unit, size in (("k", 1_000), ("M", 1_000_000)):
        if number < 999.5 * size:
            return f"{number / size:.1f}{unit}" if number < 10 * size else f"{number / size:.0f}{unit}"
    return f"{number / 1e9:.1f}G"


def short_duration(seconds: float) -> str:
    """Format a duration: 7s, 3m 07s, 1h 02m."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"


def status_line(doing: str, seconds: float, sent: int, received: int, width: int, *, stopping: bool = False) -> Line:
    """Return the status: the activity, its duration, tokens sent and received, and how to stop it."""
    what = one_line(doing or "working")
    end = "stopping" if stopping else "esc to interrupt"
    tokens = [f"↑ {short_count(sent)} ↓ {short_count(received)}"] if sent or received else []
    # In a narrow window the activity takes precedence.
    short = end.removesuffix(" to interrupt")
    for facts in (
        [short_duration(seconds), *tokens, end],
        [short_duration(seconds), end],
        [short_duration(seconds), short],
        [short],
    ):
        tail = f" ({' · '.join(facts)})"
        room = width - cells(tail) - 2
        if room >= min(cells(what), WHAT):
            break
    if room < 8:
        return (("class:status", clip(f"* {what}", width)),)
    return (("class:status", f"* {fitted(what, room)}"), ("class:dim", tail))


def todo_lines(items: Sequence[TodoItem], width: int, most: int = STEPS, *, paused: bool = False) -> list[Line]:
    """Return the plan as a checklist; for a long plan the part around the current step."""
    if not items or most < 1:
        return []
    done = sum(item.status in ("completed", "cancelled") for item in items)
    if paused:
        said = f"  earlier plan, paused: {done} of {len(items)} done (/todos shows it)"
        return [(("class:dim", fitted(said, width)),)]
    first = 0
    room = most
    if len(items) > most:
        room = most - 1
        now = next((i for i, t in enumerate(items) if t.status not in ("completed", "cancelled")), len(items) - 1)
        first = max(0, min(now - 1, len(items) - room))
    lines: list[Line] = []
    for item in items[first : first + room]:
        text = item.activeForm if item.status == "in_progress" and item.activeForm else item.content
        shown = fitted(one_line(text), width - 4)
        lines.append(((_STYLES[item.status], f"  {_MARKS[item.status]} {shown}"),))
    if room < len(items):
        lines.append((("class:dim", clip(f"    {done} of {len(items)} done", width)),))
    return lines


def queue_lines(queued: Sequence[str], width: int, most: int = QUEUED) -> list[Line]:
    """Return the queued messages, the latest last; Up takes that one back."""
    if not queued or most < 1:
        return []
    shown = queued[-most:]
    lines: list[Line] = [
        (("class:dim", clip(f"  queued: {fitted(one_line(text), width - 10)}", width)),) for text in shown
    ]
    if len(queued) > len(shown):
        lines[0] = (("class:dim", clip(f"  {len(queued) - most + 1} more are queued", width)),)
    return lines


def fitted(text: str, width: int) -> str:
    """Shorten a text to one row, with an ellipsis if it was cut."""
    if cells(text) <= width:
        return text
    return clip(text, max(width - 1, 0)) + "…" if width > 0 else ""


def folded(text: str, width: int) -> list[str]:
    """Split a text into rows at its middle dots if it is too long for one."""
    rows = [""]
    for part in one_line(text).split(" · "):
        longer = f"{rows[-1]} · {part}" if rows[-1] else part
        if rows[-1] and cells(longer) > width:
            rows.append(f"  {part}")
        else:
            rows[-1] = longer
    return [clip(row, width) for row in rows]


def toolbar(fields: Iterable[str], width: int) -> Line:
    """Return the fields in one row; rightmost fields are dropped first, and the last column stays free."""
    text = ""
    for field in fields:
        longer = f"{text} · {escape_controls(field)}" if text else fitted(escape_controls(field), width - 1)
        if cells(longer) > width - 1:
            break
        text = longer
    return (("class:dim", text),)

"""What the live region shows, from top to bottom, never taller than the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_cli.terminal.ansi import cells, clip, fragments
from agent_cli.terminal.panels import (
    INPUT,
    MENU,
    QUEUED,
    STEPS,
    Line,
    fitted,
    folded,
    queue_lines,
    status_line,
    todo_lines,
    toolbar,
)
from agent_cli.terminal.themes import recolored
from agent_cli.terminal.transcript import TAIL
from agent_tools.clipping import one_line

if TYPE_CHECKING:
    from agent_cli.terminal.live import Live

REPLYING = "? Enter sends · Esc goes back"


def above(live: Live) -> list[Line]:
    """Above the input line: what is unfinished, the plan, the queue, the status, a question's bar. Where there is no
    room for all, what comes first is left out."""
    size = live.app.screen.get_size()
    width, room = size.columns - 1, max(1, size.rows - 3 - min(INPUT, size.rows // 3))
    if size.columns != live.transcript.writer.console.width:
        live.transcript.writer.resize(size.columns)
    rows: list[Line] = []
    if live.hint:
        rows.append((("class:hint", clip(one_line(live.hint), width)),))
    if (ask := live.questions.ask) is not None:
        bar = folded(ask.bar if ask.own or not live.line.replying else REPLYING, width)
        # Where there is no room for the words, the keys alone: what cannot be seen cannot be answered.
        rows += [(("class:ask", row),) for row in (bar if len(bar) <= room else [ask.short[:width]])]
    if live.busy and len(rows) < room:
        rows.insert(0, _status(live, width))
    room -= len(rows)
    queue = queue_lines(live.queued, width, min(QUEUED, room))
    room -= len(queue)
    plan, paused = live.session.plan(), live.session.plan_paused()
    todos = todo_lines(plan, width, min(STEPS, room), paused=paused) if live.busy else []
    room -= len(todos)
    tail = _tail(live, min(room, max(2, size.rows // 3)))
    return [*(fragments(recolored(row, live.look.theme), width) for row in tail), *todos, *queue, *rows]


def _tail(live: Live, room: int) -> list[str]:
    """The end of the answer or the thought, then what runs; a blank row sets it off from the status."""
    answer = live.transcript.writer.tail()[-TAIL:]
    rows = [*answer, *live.transcript.running()]
    if not rows or room < 1:
        return []
    return rows[-room:] if len(rows) >= room else [*rows, ""]


def _status(live: Live, width: int) -> Line:
    transcript = live.transcript
    sent, received = transcript.turn.input, transcript.received
    doing = transcript.status() if live.questions.ask is None else "waiting for you"
    return status_line(doing, live.seconds, sent, received, width, stopping=live.stopping)


def below_input(live: Live) -> list[Line]:
    """Below the input line: the menu and the toolbar."""
    width = live.app.screen.get_size().columns - 1
    own = live.session.status_line()
    bar = fragments(recolored(own, live.look.theme), width) if own else toolbar(live.session.toolbar(), width)
    return [*_menu(live, width), bar]


def _menu(live: Live, width: int) -> list[Line]:
    menu, chosen = live.line.menu, live.line.chosen
    if live.line.picking and not menu:
        return [(("class:dim", clip("  nothing fits", width)),)]
    most = min(MENU, max(1, live.app.screen.get_size().rows // 3))
    first = max(0, min(chosen - most // 2, len(menu) - most))
    longest = max((len(c.text) for c in menu), default=0)
    if any(c.help for c in menu):
        longest = min(longest, width // 2)
    rows: list[Line] = []
    for number, choice in enumerate(menu[first : first + most], first):
        text = f"  {fitted(choice.text.strip(), longest)}".ljust(longest + 4) + choice.help
        rows.append((("class:chosen" if number == chosen else "class:dim", fitted(text, width)),))
    if len(menu) > most:
        rows[-1] = (*rows[-1], ("class:dim", clip(f"  ({len(menu)} in all)", max(width - cells(rows[-1][0][1]), 0))))
    return rows

"""Layout of the live region: the panels above the input line, and the menu and toolbar below it.

From top to bottom, and never taller than the screen. The panels (status, plan, queue, toolbar) are styled text, pure
functions of the current state.

The seconds of the work are next to the moving marker. A frame is drawn each second; between frames, only the cells of
the marker are written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from prompt_toolkit.data_structures import Point
from prompt_toolkit.filters import vi_navigation_mode
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import (
    BufferControl,
    Dimension,
    DynamicContainer,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from agent_cli.shells.terminal.app.input_line import PROMPT, InputLine
from agent_cli.shells.terminal.app.protocol import LiveScreen
from agent_cli.shells.terminal.app.question_panel import KEYS_ROWS, MAX_TYPED_PART
from agent_cli.shells.terminal.app.rows import Line, Rows
from agent_cli.shells.terminal.app.typed_text import WrapAtSpaces, count_typed_rows
from agent_cli.shells.terminal.render.ansi import Fragment, cells, clip, fragments, to_ansi, truncate_cells, wrap
from agent_cli.shells.terminal.render.code import PLAN_MARKS
from agent_cli.shells.terminal.render.console import styled
from agent_cli.shells.terminal.render.theme import Palette
from agent_tools.results import TodoItem
from agent_tools.text import UNSAFE, counted, escape_controls, one_line, short_count, short_duration

MOVES_PER_SECOND = 4


class Marker:
    """The moving marker. Moves while there is work and no question is open, by a single timer."""

    def __init__(self, live: LiveScreen, signs: str) -> None:
        self._live, self._signs = live, signs
        self._moves = self._ticks = 0
        self._rows: list[int] = []
        self._timer: Any = None
        self._began = self._tick_at = self._waited = 0.0

    def __str__(self) -> str:
        return self._signs[self._moves % len(self._signs)]

    @property
    def seconds(self) -> float:
        """Seconds since `start`, excluding the time of open questions."""
        return self._live.clock() - self._began - self._waited

    def start(self) -> None:
        """Begin with new work."""
        self._began = self._tick_at = self._live.clock()
        self._waited = 0.0
        self.tick()

    def found(self, rows: Sequence[Line]) -> None:
        """Note the rows that begin with the marker."""
        sign = str(self)
        self._rows = [number for number, row in enumerate(rows) if row and row[0][1] == sign]

    def tick(self) -> None:
        """Move, and schedule the next move."""
        live, loop = self._live, self._live.app.loop
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if not live.busy or loop is None:
            return
        now, before = live.clock(), self._tick_at
        self._tick_at = now
        self._ticks += 1
        asked = live.questions.ask is not None
        if asked:
            self._waited += now - before
        if self._ticks % MOVES_PER_SECOND == 0:
            self._moves += not asked
            live.draw_soon()
        elif not asked:
            self._moves += 1
            sign = f"{live.palette.sgr('accent')}{self}"
            live.app.patch(dict.fromkeys(self._rows, sign))
        self._timer = loop.call_later(1.0 / MOVES_PER_SECOND, self.tick)


MAX_STEPS, MAX_QUEUED, MAX_MENU, MAX_PICK_MENU = 6, 4, 8, 12
# The sign before the input line in the normal mode of vi.
VI_PROMPT = ": "
# Cells reserved for the current activity before anything else.
MIN_ACTIVITY_CELLS = 24
# Rows of a window that has rules around the input line.
MIN_RULED_ROWS = 18
_STYLES = {"pending": "", "in_progress": "class:now", "completed": "class:dim", "cancelled": "class:dim"}

_BLANK: Line = (("", ""),)


def status_line(
    doing: str,
    seconds: float,
    sent: int,
    received: int,
    width: int,
    *,
    stopping: bool = False,
    waits: bool = False,
    marker: str = "*",
) -> Line:
    """Return the status: the activity, its duration, tokens sent and received, and the keys.

    waits: it waits to call the model again, which Enter does at once.
    """
    what = one_line(doing or "working")
    end = "stopping" if stopping else "enter to try now, esc to interrupt" if waits else "esc to interrupt"
    tokens = [f"↑ {short_count(sent)} ↓ {short_count(received)}"] if sent or received else []
    clock = short_duration(int(seconds))
    short = "enter, esc" if waits and not stopping else end.removesuffix(" to interrupt")
    tails = [f" ({' · '.join(facts)})" for facts in ([clock, *tokens, end], [clock, end], [clock, short], [short])]
    # The activity takes precedence: the numbers go where it does not fit with them.
    wanted = cells(what) if cells(what) <= width - 2 - cells(tails[-1]) else MIN_ACTIVITY_CELLS
    tail = next((tail for tail in tails if width - cells(tail) - 2 >= min(cells(what), wanted)), tails[-1])
    room = width - cells(tail) - 2
    if room < 8:
        return (("class:marker", marker), ("class:status", clip(f" {what}", width - 1)))
    return (("class:marker", marker), ("class:status", f" {truncate_cells(what, room)}"), ("class:dim", tail))


def todo_lines(items: Sequence[TodoItem], width: int, most: int = MAX_STEPS) -> list[Line]:
    """Return the plan as a checklist; for a long plan the part around the current step."""
    if not items or most < 1:
        return []
    done = sum(item.status in ("completed", "cancelled") for item in items)
    first = 0
    room = most
    if len(items) > most:
        room = most - 1
        now = next((i for i, t in enumerate(items) if t.status not in ("completed", "cancelled")), len(items) - 1)
        first = max(0, min(now - 1, len(items) - room))
    lines: list[Line] = []
    for item in items[first : first + room]:
        text = item.activeForm if item.status == "in_progress" and item.activeForm else item.content
        shown = truncate_cells(one_line(text), width - 4)
        lines.append(((_STYLES[item.status], f"  {PLAN_MARKS[item.status]} {shown}"),))
    if room < len(items):
        lines.append((("class:dim", clip(f"    {done} of {len(items)} done", width)),))
    return lines


def agent_lines(lines: Sequence[str], width: int, most: int) -> list[Line]:
    """Return a row for each sub-agent in the background."""
    return [(("class:dim", truncate_cells(one_line(f"  ◦ {text}"), width)),) for text in lines[: max(most, 0)]]


def queue_lines(queued: Sequence[str], width: int, most: int = MAX_QUEUED) -> list[Line]:
    """Return the queued messages, the latest last."""
    if not queued or most < 1:
        return []
    shown = queued[-most:]
    lines: list[Line] = [
        (("class:dim", clip(f"  queued: {truncate_cells(one_line(text), width - 10)}", width)),) for text in shown
    ]
    if len(queued) > len(shown):
        more = f"{len(queued) - most + 1} more" if most > 1 else f"{len(queued)} messages"
        lines[0] = (("class:dim", clip(f"  {more} are queued", width)),)
    return lines


# Permission modes in words, and their styles, by danger.
MODE_WORDS: dict[str, tuple[str, str]] = {
    "default": ("asks before changes", "class:dim"),
    "acceptEdits": ("edits without asking", "class:edits"),
    "stage": ("works in a copy, asks at the end", "class:plan"),
    "plan": ("plans, changes nothing", "class:plan"),
    "dontAsk": ("refuses what is not allowed", "class:dim"),
    "bypassPermissions": ("never asks", "class:danger"),
}
_BAR_CELLS, _NEARLY_FULL = 8, 80


def mode_field(mode: str, key: str) -> Fragment:
    """Return a permission mode for the toolbar, with the key that changes it."""
    words, style = MODE_WORDS.get(mode, (mode, "class:dim"))
    return style, f"{words} ({key})" if key else words


def context_field(used: int, window: int | None) -> str | Fragment:
    """Return how full the model's window is: a bar and a number; without the size of the window only the tokens."""
    if not window:
        return f"context {short_count(used)}"
    percent = 100 * used // window
    full = min(-(-percent * _BAR_CELLS // 100), _BAR_CELLS)
    text = f"context {'━' * full}{'╌' * (_BAR_CELLS - full)} {percent}%"
    return ("class:edits", text) if percent >= _NEARLY_FULL else text


def toolbar(fields: Iterable[str | Fragment], width: int) -> Line:
    """Return the fields in one row; rightmost fields are dropped first, and the last column stays free.

    A field may have a style; the others are dim.
    """
    row: list[Fragment] = []
    left = width - 1
    for field in fields:
        style, text = ("class:dim", field) if isinstance(field, str) else field
        text = escape_controls(text)
        if not row:
            text = truncate_cells(text, left)
        elif cells(text) + 3 > left:
            break
        else:
            row.append(("class:dim", " · "))
            left -= 3
        row.append((style, text))
        left -= cells(text)
    return tuple(row)


_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Control characters are left to the renderer, which escapes them itself.
_INVISIBLE = re.compile(rf"(?![\x00-\x1f\x7f-\x9f])(?:{UNSAFE})")
Lines = Callable[[], Sequence[Line]]


@lru_cache(4)
def style_of(palette: Palette) -> Style:
    """Return the styles of the live region; cached, since the same object saves a redraw."""
    return Style.from_dict(palette.styles())


def max_input_rows(rows: int, *, open_question: bool) -> int:
    """Return the maximum rows of the input line; few while a question is open."""
    return max(1, rows // (MAX_TYPED_PART if open_question else 2))


def make_layout(
    line: InputLine,
    above: Lines,
    asked: Callable[[], bool],
    panel: Callable[[], tuple[Sequence[Line], int] | None],
    below: Lines,
    typed: Callable[[], int],
    frame: Callable[[], int],
    proposal: Callable[[], str],
) -> Layout:
    """Lay out the windows, none taller than its content.

    asked: returns True if a question is open.
    panel: returns the rows of the open question and the one with the cursor, if there is a question. It takes the place
        of the input line; a draft is above it, and a reply below.
    typed: returns how many rows the input line may take.
    frame: returns the frame number; the content above and below is computed once per frame.
    proposal: returns the message that is offered in the empty line.
    """
    search = SearchToolbar(forward_search_prompt="search: ", backward_search_prompt="search back: ")

    def prefix(number: int, wrap_count: int) -> StyleAndTextTuples:
        # Another sign, and not a word that would move the text.
        label = VI_PROMPT if vi_navigation_mode() and line.label == PROMPT else line.label
        if number == 0 and wrap_count == 0:
            return [("class:ask" if line.replying else "class:prompt", label)]
        return [("", " " * cells(label) if wrap_count or number else "")]

    typing = Window(
        BufferControl(
            line.buffer,
            search_buffer_control=search.control,
            preview_search=True,
            input_processors=[_ShowInvisible(), WrapAtSpaces(lambda: cells(line.label)), _ShowProposal(proposal)],
        ),
        height=lambda: Dimension(min=1, max=typed()),
        wrap_lines=True,
        dont_extend_height=True,
        get_line_prefix=prefix,
    )
    top, bottom = Rows(_once_per_frame(above, frame)), Rows(_once_per_frame(below, frame))
    shown = _once_per_frame(lambda: panel() or ((), 0), frame)
    question = _QuestionRows(lambda: shown()[0], typing, lambda: shown()[1])
    plain, draft = HSplit([top, typing, search, bottom]), HSplit([top, typing, search, question, bottom])
    reply, alone = HSplit([top, question, typing, search, bottom]), HSplit([top, question, bottom])

    def current() -> HSplit:
        # Called several times for each key.
        if not asked():
            return plain
        return reply if line.replying else draft if line.buffer.text else alone

    return Layout(DynamicContainer(current), focused_element=typing)


class _QuestionRows(Rows):
    """The rows of a question. While the input line is hidden, the cursor is at the highlighted choice."""

    def __init__(self, rows: Lines, line: Window, row: Callable[[], int]) -> None:
        super().__init__(rows)
        self._line, self._row = line, row

    def write_to_screen(self, screen: Any, mouse_handlers: Any, write_position: Any, *more: Any) -> None:
        super().write_to_screen(screen, mouse_handlers, write_position, *more)
        if self._line not in screen.cursor_positions:
            screen.set_cursor_position(self._line, Point(0, write_position.ypos + self._row()))


class _ShowProposal(Processor):
    """Show a message that is offered, behind the cursor of the empty line."""

    def __init__(self, proposal: Callable[[], str]) -> None:
        self._proposal = proposal

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        shown = list(transformation_input.fragments)
        if not transformation_input.document.text and (text := self._proposal()):
            shown.append(("class:dim", f"{text} (Tab)"))
        return Transformation(shown)


class _ShowInvisible(Processor):
    """Show a mark for each character that is invisible or changes the text direction; the length stays the same."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        shown: StyleAndTextTuples = [
            (style, _INVISIBLE.sub(_REPLACEMENT, text)) for style, text, *_ in transformation_input.fragments
        ]
        return Transformation(shown)


R = TypeVar("R")


def _once_per_frame(find: Callable[[], R], frame: Callable[[], int]) -> Callable[[], R]:
    """Return a function that calls `find` at most once in each frame."""
    kept: tuple[int, R] | None = None

    def current() -> R:
        nonlocal kept
        if kept is None or kept[0] != frame():
            kept = (frame(), find())
        return kept[1]

    return current


def above(live: LiveScreen) -> list[Line]:
    """Return the rows above the input line, or above a question: unfinished output, plan, queue, status.

    If they do not fit, the first ones are dropped.
    """
    size = live.app.screen.get_size()
    question, rule = live.questions.ask is not None, _rule(live)
    width = size.columns - 1
    if size.columns != live.transcript.writer.console.width:
        live.transcript.writer.resize(size.columns)
    typed = count_typed_rows(live.line.buffer.text, max(width - cells(live.line.label), 1))
    typed = min(typed, max_input_rows(size.rows, open_question=question))
    room = max(1, size.rows - 2 - 2 * len(rule) - typed)
    if (panel := panel_rows(live)) is not None:
        rule = []
        room = max(0, size.rows - len(panel[0]) - KEYS_ROWS - live.questions.typed_rows)
    rows: list[Line] = []
    if live.hint:
        rows.append((("class:hint", clip(one_line(live.hint), width)),))
    status = [_status(live, width)] if not question and live.busy and len(rows) < room else []
    room -= len(rows) + len(status)
    queue = queue_lines(live.queued, width, min(MAX_QUEUED, room))
    if (count := len(live.session.agreed)) and not question and len(queue) < room:
        text = f"  {counted(count, 'answered call')} to come (Backspace undoes the answer)"
        queue.append((("class:dim", truncate_cells(text, width)),))
    room -= len(queue)
    todos = [] if question else _plan(live, width, min(MAX_STEPS, room))
    agents = agent_lines(live.transcript.view.background_lines(), width, room - len(todos))
    room -= len(todos) + len(agents)
    # One blank row above the input line, and one above the status.
    gap = [_BLANK] if room > 1 and not question else []
    below = [*status, *todos, *agents, *queue, *rows]
    spaced = bool(below) and (bool(gap) or (question and room > 1))
    room -= len(gap) + spaced
    tail = [fragments(live.palette.apply(row), width) for row in _tail(live, min(room, max(2, size.rows // 3)))]
    if (spaced and (tail or not live.transcript.writer.blank)) or (panel is not None and tail and room > 0):
        tail = [*tail, _BLANK]
    rows = [*tail, *below, *gap, *rule]
    blank = panel is not None and not rows and not live.transcript.writer.blank and len(panel[0]) < size.rows - 3
    return [_BLANK] if blank else rows


def panel_rows(live: LiveScreen) -> tuple[list[Line], int] | None:
    """Return the rows of the open question, and the one with the cursor; None without a question."""
    if (ask := live.questions.ask) is None:
        return None
    writer, width = live.transcript.writer, live.app.screen.get_size().columns - 1
    replying, away = live.line.replying, live.questions.away
    rows, at = ask.view.rows(writer.console, width, live.questions.room, replying=replying, away=away)
    return [fragments(live.palette.apply(row), width) for row in rows], at


def _rule(live: LiveScreen) -> list[Line]:
    """Return the rule above and below the input line; a low window has none."""
    size = live.app.screen.get_size()
    return [(("class:rule", "─" * (size.columns - 1)),)] if size.rows >= MIN_RULED_ROWS else []


def _plan(live: LiveScreen, width: int, most: int) -> list[Line]:
    """Return the plan while there is work, unless an earlier turn has finished it."""
    items, paused = live.session.plan(), live.session.plan_paused()
    over = all(item.status in ("completed", "cancelled") for item in items) and not live.transcript.plan_touched
    return todo_lines(items, width, most) if _is_working(live) and not over and not paused else []


def _tail(live: LiveScreen, room: int) -> list[str]:
    """Return the end of the answer or thought, and the running calls."""
    writer = live.transcript.writer
    rows = [*writer.running(str(live.marker)), *writer.tail()]
    return rows[-room:] if room > 0 else []


def _is_working(live: LiveScreen) -> bool:
    """Return True while a turn runs, or a command with no open question."""
    ask = live.questions.ask
    return live.busy and not (ask is not None and ask.dialog.from_command)


def _status(live: LiveScreen, width: int) -> Line:
    transcript = live.transcript
    sent, received = transcript.view.turn_usage.input, transcript.received
    doing = transcript.status(live.seconds)
    waits, marker = transcript.waits_to_retry, str(live.marker)
    return status_line(doing, live.seconds, sent, received, width, stopping=live.stopping, waits=waits, marker=marker)


def below_input(live: LiveScreen) -> list[Line]:
    """Return the rows below the input line: the menu and the toolbar, or the keys of a question."""
    width = live.app.screen.get_size().columns - 1
    if (ask := live.questions.ask) is not None:
        keys = ask.view.keys(width, replying=live.line.replying, away=live.questions.away)
        row = to_ansi(keys, color=not live.transcript.writer.console.no_color)
        return [
            *(_menu(live, width) if live.line.menu or live.line.picking else ()),
            fragments(live.palette.apply(row), width),
        ]
    from_command = live.session.status_line()
    bar = (
        fragments(live.palette.apply_foreign(from_command), width)
        if from_command
        else toolbar(live.session.toolbar(), width)
    )
    picks = live.panel is None or live.line.menu or live.line.picking
    rows = _menu(live, width) if picks else _panel(live, width)
    return [*_rule(live), *rows, bar]


def _panel(live: LiveScreen, width: int) -> list[Line]:
    """Return the rows of the open panel; while a turn runs, it takes at most half of the window."""
    height = live.app.screen.get_size().rows
    room = max(2, height // 2 if live.busy else height - 5)
    assert live.panel is not None
    rows = live.panel(width, room)[:room]
    return [
        fragments(live.palette.apply(row), width) if "\x1b" in row else (("class:dim", clip(row, width)),)
        for row in rows
    ]


def key_rows(keys: Sequence[tuple[str, str]], width: int, room: int) -> list[str]:
    """Lay out keys and their descriptions in two columns if they fit, else in one; drop rows that do not fit.

    The rows have SGR sequences.
    """
    for columns in (2, 1):
        keys = keys if columns > 1 else keys[:room]
        count = -(-len(keys) // columns)
        cut = [keys[n * count : (n + 1) * count] for n in range(columns)]
        indents = [max((cells(key) for key, _ in part), default=0) + 4 for part in cut]
        widths = [
            indent + max((cells(text) for _, text in part), default=0)
            for indent, part in zip(indents, cut, strict=True)
        ]
        if sum(widths) <= width or columns == 1:
            break
    rows = []
    for number in range(count):
        row, end = styled(""), 0
        for part, indent, size in zip(cut, indents, widths, strict=True):
            key, text = part[number] if number < len(part) else ("", "")
            row = row.append(" " * (end - row.cell_len + 2)).append_text(styled(key, "accent"))
            row = row.append(" " * (end + indent - row.cell_len)).append_text(styled(text, "dim"))
            end += size
        row.truncate(width, overflow="ellipsis")
        row.rstrip()
        rows.append(to_ansi(row))
    return rows[:room]


def _menu(live: LiveScreen, width: int) -> list[Line]:
    menu, chosen = live.line.menu, live.line.chosen
    picking = live.line.picking
    if picking and not menu:
        return [(("class:dim", clip("  no match", width)),)]
    height = live.app.screen.get_size().rows
    most = max(1, min(MAX_PICK_MENU, height // 2) if picking and not _is_working(live) else min(MAX_MENU, height // 3))
    longest = max((cells(c.text) for c in menu), default=0)
    if any(c.help for c in menu):
        longest = min(longest, width // 2)

    def entry(number: int, *, whole: bool) -> list[Line]:
        style = "class:chosen" if number == chosen else "class:dim"
        choice = menu[number]
        rows = _entry(choice.text, choice.help, longest, width, whole=whole)
        # The ground of the chosen one fills its row.
        pad = width if number == chosen else 0
        return [((style, row + " " * (pad - cells(row))),) for row in rows]

    if picking and len(menu) <= most:
        # Explanations of a list to choose from are shown whole if they fit.
        rows = [row for number in range(len(menu)) for row in entry(number, whole=True)]
        if len(rows) <= most:
            return rows
    wrapped = entry(max(chosen, 0), whole=True) if picking else []
    most = max(1, most - len(wrapped[1:]))
    # The last row says which part of a long menu is shown.
    counts = len(menu) > most > 2
    most -= counts
    first = max(0, min(chosen - most // 2, len(menu) - most))
    numbers = range(first, min(first + most, len(menu)))
    rows = [row for n in numbers for row in (wrapped if picking and n == max(chosen, 0) else entry(n, whole=False))]
    if counts:
        rows.append((("class:dim", clip(f"  {first + 1}-{first + most} of {len(menu)} · ↑↓", width)),))
    return rows


def _entry(text: str, explanation: str, longest: int, width: int, *, whole: bool) -> list[str]:
    """Return an entry of a menu: its text, and the explanation beside it, which is wrapped by words if `whole`.

    The explanation is below a text that is too long for its column.
    """
    if whole and explanation and cells(text.strip()) > longest:
        rows = [("  ", text.strip()), ("    ", explanation)]
        return [f"{by}{row.plain}" for by, part in rows for row in wrap(styled(one_line(part)), width - len(by))]
    label = f"  {truncate_cells(text.strip(), longest)}"
    label += " " * (longest + 4 - cells(label))
    room = width - cells(label)
    if not whole or cells(explanation) <= room:
        return [truncate_cells(label + explanation, width).rstrip()]
    first, *more = [row.plain for row in wrap(styled(one_line(explanation)), max(room, 1))]
    return [label + first, *(" " * cells(label) + row for row in more)]

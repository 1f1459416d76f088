"""The session menu before a session begins: a small application that leaves nothing on the screen.

Also: the rows of the menu, filtering by typed words, and the choice by number in the plain front end.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, VSplit, Window
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output

from agent_cli import SessionSummary, StoredSession
from agent_cli.shells.terminal.app.key_reader import KeyReader
from agent_cli.shells.terminal.line_input import read_line
from agent_cli.shells.terminal.render.ansi import cells, truncate_cells
from agent_tools.text import one_line, parse_number, short_age, short_size

MAX_LINES = 20
# Words of at least this length are also searched in messages if no title has them.
_MIN_SEARCH_CHARS = 3
# Facts are dropped to leave this many columns for the title.
_MIN_TITLE_WIDTH = 24
_END_LABELS = {"failed": "failed", "interrupted": "interrupted", "waiting": "waits for you", "open": "broke off"}


class SessionFilter:
    """Filters sessions by typed words; message searches are cached by word."""

    def __init__(self, found: Sequence[SessionSummary]) -> None:
        self._all = list(found)
        self._by_words: dict[str, list[SessionSummary]] = {}

    def matching(self, text: str) -> list[SessionSummary]:
        """Return sessions with all words in title, branch or ID; if none, those with all words in their messages."""
        words = text.lower().split()
        titled = [g for g in self._all if all(w in f"{g.title} {g.branch} {g.session_id}".lower() for w in words)]
        if titled or not words or max(map(len, words)) < _MIN_SEARCH_CHARS:
            return titled
        key = " ".join(words)
        if key not in self._by_words:
            self._by_words[key] = [g for g in self._all if StoredSession(g.path).excerpt(words)]
        return self._by_words[key]


_MAX_BRANCH_CELLS = 16


def session_row(g: SessionSummary, width: int, now: datetime, of: Sequence[SessionSummary]) -> str:
    """Format a session on one line: title, age, branch, size, cost. In a narrow window the title comes first.

    of: the sessions of the list, whose facts are aligned and leave the rest of the row to the titles.
    """
    column = min(max(cells(one_line(each.branch)) for each in of), _MAX_BRANCH_CELLS)
    when, branch = f"{short_age(g.updated, now):>4}", truncate_cells(one_line(g.branch), column)
    branch += " " * (column - cells(branch))
    cost = f"  {f'${g.cost:.2f}' if g.cost else '':>7}" if any(each.cost for each in of) else ""
    more = f"{short_size(g.size):>5}{cost}"
    columns = (f"{when}  {branch}  {more}", f"{when}  {more}", when)
    facts = next((facts for facts in columns if width - len(facts) - 2 >= _MIN_TITLE_WIDTH), when)
    end = f" ({_END_LABELS[g.ended]})" if g.ended in _END_LABELS else ""
    room = max(10, width - len(facts) - 2)
    return truncate_cells(
        f"{truncate_cells(one_line(g.title), room - len(end))}{end}".ljust(room) + f"  {facts}", width
    )


def pick_from_lines(found: Sequence[SessionSummary]) -> SessionSummary | None:
    """Choose from numbered lines: a number chooses, words filter, an empty line chooses none."""
    narrowing, shown = SessionFilter(found), list(found)
    while True:
        now = datetime.now(UTC)
        for number, g in enumerate(shown[:MAX_LINES], 1):
            sys.stdout.write(f"{number:>3}. {session_row(g, 90, now, shown[:MAX_LINES]).rstrip()}\n")
        if len(shown) > MAX_LINES:
            sys.stdout.write(f"     and {len(shown) - MAX_LINES} more: type words to filter\n")
        try:
            words = read_line("Which session? (number, words, or nothing) ").strip()
        except (EOFError, KeyboardInterrupt):
            return None
        if not words:
            return None
        if 1 <= parse_number(words) <= min(len(shown), MAX_LINES):
            return shown[parse_number(words) - 1]
        fitting = narrowing.matching(words)
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            shown = fitting
        else:
            sys.stdout.write(f"No session fits {one_line(words)}.\n")


_MAX_ROWS = 12
_PROMPT = "Resume: "
_HELP = ("type to filter · ↑↓ · Enter resume · Esc cancel", "Enter resume · Esc cancel")


class SessionPicker:
    """The sessions that match the typed words, with one selected."""

    def __init__(self, found: Sequence[SessionSummary]) -> None:
        self._narrowing = SessionFilter(found)
        self._buffer = Buffer(multiline=False, on_text_changed=lambda _: self._apply_filter())
        self._shown = list(found)
        self._count = len(found)
        self._at = 0
        self._now = datetime.now(UTC)

    def run(self, terminal: TextIO | None = None, output: Output | None = None) -> SessionSummary | None:
        """Run the menu and return the user's choice; None for none."""
        app: Application[SessionSummary | None] = Application(
            layout=Layout(
                HSplit(
                    [
                        VSplit([Window(FormattedTextControl(_PROMPT), width=len(_PROMPT)),
                                Window(BufferControl(self._buffer), height=1)], height=1),
                        Window(FormattedTextControl(self._lines), height=self._height, wrap_lines=False),
                    ]
                )
            ),
            key_bindings=self._keys(),
            erase_when_done=True,
            input=KeyReader(terminal or sys.stdin, time.monotonic),
            output=output or make_output(),
        )  # fmt: skip
        app.ttimeoutlen = 0.05
        app.timeoutlen = 0.05
        return app.run()

    def _height(self) -> int:
        return min(len(self._shown), self._room()) + 1

    def _room(self) -> int:
        return max(1, min(_MAX_ROWS, shutil.get_terminal_size().lines - 4))

    def _apply_filter(self) -> None:
        self._shown = self._narrowing.matching(self._buffer.text)
        self._at = 0

    def _lines(self) -> StyleAndTextTuples:
        width = shutil.get_terminal_size().columns - 1
        room = self._room()
        first = max(0, min(self._at - room // 2, len(self._shown) - room))
        lines: StyleAndTextTuples = []
        for number, g in enumerate(self._shown[first : first + room], first):
            mark, style = ("> ", "reverse") if number == self._at else ("  ", "")
            lines.append(
                (style, truncate_cells(mark + session_row(g, width - 2, self._now, self._shown), width) + "\n")
            )
        helps = [f"{len(self._shown)} of {self._count} · {keys}" for keys in _HELP]
        lines.append(("", truncate_cells(next((keys for keys in helps if len(keys) <= width), helps[-1]), width)))
        return lines

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        def move(step: int) -> None:
            if self._shown:
                self._at = (self._at + step) % len(self._shown)

        @keys.add("up")
        @keys.add("c-p")
        def up(event: KeyPressEvent) -> None:
            move(-1)

        @keys.add("down")
        @keys.add("c-n")
        @keys.add("tab")
        def down(event: KeyPressEvent) -> None:
            move(1)

        @keys.add("enter")
        def take(event: KeyPressEvent) -> None:
            if self._shown:
                event.app.exit(result=self._shown[self._at])

        @keys.add("escape", eager=True)
        @keys.add("c-c")
        @keys.add("c-d")
        def leave(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        return keys


def make_output() -> Output:
    """Return the terminal, without cursor position requests, which some terminals do not answer."""
    output = create_output()
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return output


def pick_session(found: Sequence[SessionSummary]) -> SessionSummary | None:
    """Let the user choose a session at the terminal; None for none or at the end of input."""
    try:
        return SessionPicker(found).run()
    except EOFError:
        return None

"""The session menu before a session begins: a small application that leaves nothing on the screen.

Also the rows of the menu, narrowing by typed words, and the choice by number in the plain front end.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, VSplit, Window
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output

from agent_cli.session.summary import SessionSummary, age, size
from agent_cli.terminal.editor import read_line
from agent_cli.terminal.render.ansi import fitted
from agent_tools.lazy import lazy_imports
from agent_tools.text import number_in, one_line

with lazy_imports():
    from agent_cli.session import search  # reads logs, which most choices do not need

IN_LINES = 20
# Words of this length are also searched in messages if no title has them.
_SEARCHED = 3
# Columns that a title has at least, before facts are left out.
_TITLE = 24
_ENDS = {"failed": "failed", "interrupted": "interrupted", "waiting": "waits for you", "open": "broke off"}


class Narrowing:
    """Narrows sessions by typed words; message searches are cached by word."""

    def __init__(self, found: Sequence[SessionSummary]) -> None:
        self._all = list(found)
        self._by_words: dict[str, list[SessionSummary]] = {}

    def fits(self, text: str) -> list[SessionSummary]:
        """Return sessions with all words in title, branch or ID; if none, those with all words in their messages."""
        words = text.lower().split()
        titled = [g for g in self._all if all(w in f"{g.title} {g.branch} {g.session_id}".lower() for w in words)]
        if titled or not words or max(map(len, words)) < _SEARCHED:
            return titled
        key = " ".join(words)
        if key not in self._by_words:
            self._by_words[key] = [g for g in self._all if search.contains_text(g.path, words)]
        return self._by_words[key]


def row(g: SessionSummary, width: int, now: datetime) -> str:
    """Format a session on one line: title, age, branch, size, cost. In a narrow window the title comes first."""
    when, branch = f"{age(g.updated, now):>4}", fitted(one_line(g.branch), 16).ljust(16)
    more = f"{size(g.size):>5}  {f'${g.cost:.2f}' if g.cost else '':>7}"
    columns = (f"{when}  {branch}  {more}", f"{when}  {more}", when)
    facts = next((facts for facts in columns if width - len(facts) - 2 >= _TITLE), when)
    end = f" ({_ENDS[g.ended]})" if g.ended in _ENDS else ""
    room = max(10, width - len(facts) - 2)
    return fitted(f"{fitted(one_line(g.title), room - len(end))}{end}".ljust(room) + f"  {facts}", width)


def pick_in_lines(found: Sequence[SessionSummary]) -> SessionSummary | None:
    """Choose from numbered lines: a number chooses, words narrow, an empty line chooses none."""
    narrowing, shown = Narrowing(found), list(found)
    while True:
        now = datetime.now(UTC)
        for number, g in enumerate(shown[:IN_LINES], 1):
            sys.stdout.write(f"{number:>3}. {row(g, 90, now).rstrip()}\n")
        if len(shown) > IN_LINES:
            sys.stdout.write(f"     and {len(shown) - IN_LINES} more: say words of the one you mean\n")
        try:
            words = read_line("Which session? (number, words, or nothing) ").strip()
        except (EOFError, KeyboardInterrupt):
            return None
        if not words:
            return None
        if 1 <= number_in(words) <= min(len(shown), IN_LINES):
            return shown[number_in(words) - 1]
        fitting = narrowing.fits(words)
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            shown = fitting
        else:
            sys.stdout.write(f"No session fits {one_line(words)}.\n")


_MOST = 12
_LABEL = "Resume: "
_HELP = ("type to filter · ↑↓ · Enter resume · Esc cancel", "Enter resume · Esc cancel")


class Picker:
    """The sessions that match the typed words, with one selected."""

    def __init__(self, found: Sequence[SessionSummary]) -> None:
        self._narrowing = Narrowing(found)
        self._buffer = Buffer(multiline=False, on_text_changed=lambda _: self._narrow())
        self._shown = list(found)
        self._count = len(found)
        self._at = 0
        self._now = datetime.now(UTC)

    def run(self, source: Input | None = None, output: Output | None = None) -> SessionSummary | None:
        """Run the menu and return the user's choice; None for none."""
        app: Application[SessionSummary | None] = Application(
            layout=Layout(
                HSplit(
                    [
                        VSplit([Window(FormattedTextControl(_LABEL), width=len(_LABEL)),
                                Window(BufferControl(self._buffer), height=1)], height=1),
                        Window(FormattedTextControl(self._lines), height=self._height, wrap_lines=False),
                    ]
                )
            ),
            key_bindings=self._keys(),
            erase_when_done=True,
            input=source,
            output=output or _output(),
        )  # fmt: skip
        app.ttimeoutlen = 0.05
        app.timeoutlen = 0.05
        return app.run()

    def _height(self) -> int:
        return min(len(self._shown), self._room()) + 1

    def _room(self) -> int:
        return max(1, min(_MOST, shutil.get_terminal_size().lines - 4))

    def _narrow(self) -> None:
        self._shown = self._narrowing.fits(self._buffer.text)
        self._at = 0

    def _lines(self) -> StyleAndTextTuples:
        width = shutil.get_terminal_size().columns - 1
        room = self._room()
        first = max(0, min(self._at - room // 2, len(self._shown) - room))
        lines: StyleAndTextTuples = []
        for number, g in enumerate(self._shown[first : first + room], first):
            mark, style = ("> ", "reverse") if number == self._at else ("  ", "")
            lines.append((style, fitted(mark + row(g, width - 2, self._now), width) + "\n"))
        helps = [f"{len(self._shown)} of {self._count} · {keys}" for keys in _HELP]
        lines.append(("", fitted(next((keys for keys in helps if len(keys) <= width), helps[-1]), width)))
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


def _output() -> Output:
    """Return the terminal, which is not asked where its cursor is: some do not answer, and nothing depends on it."""
    output = create_output()
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return output


def pick_session(found: Sequence[SessionSummary]) -> SessionSummary | None:
    """Let the user choose a session at the terminal; None for none or at the end of input."""
    try:
        return Picker(found).run()
    except EOFError:
        return None

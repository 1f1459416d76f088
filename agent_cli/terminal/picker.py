"""The menu of sessions before one begins: an application of a few lines, which leaves nothing behind on the screen."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, VSplit, Window
from prompt_toolkit.output import Output

from agent_cli.session.glance import Glance
from agent_cli.terminal.panels import fitted
from agent_cli.terminal.picking import Narrowing, row

_MOST = 12
_LABEL = "Resume: "
_HELP = "type to narrow · up, down · Enter resumes it · Esc leaves"


class Picker:
    """The sessions that fit what was typed, one of them chosen."""

    def __init__(self, found: Sequence[Glance]) -> None:
        self._narrowing = Narrowing(found)
        self._buffer = Buffer(multiline=False, on_text_changed=lambda _: self._narrow())
        self._shown = list(found)
        self._count = len(found)
        self._at = 0
        self._now = datetime.now(UTC)

    def run(self, source: Input | None = None, output: Output | None = None) -> Glance | None:
        """The user's choice; None for none."""
        app: Application[Glance | None] = Application(
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
            output=output,
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
        lines.append(("", fitted(f"{len(self._shown)} of {self._count} · {_HELP}", width)))
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


def pick_session(found: Sequence[Glance]) -> Glance | None:
    """Let the user choose one at the terminal; None for none, or where no more keys come."""
    try:
        return Picker(found).run()
    except EOFError:
        return None

"""Show a view on the alternate screen, until a key closes it: within a session, or by itself."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import ColorDepth, Output

from agent_cli.shells.terminal.app.key_reader import QUIET_SECONDS, KeyReader
from agent_cli.shells.terminal.dialogs.session_picker import make_output
from agent_cli.shells.terminal.dialogs.view import KEYS, Chosen, ViewState
from agent_cli.shells.terminal.render.ansi import fragments
from agent_cli.shells.terminal.render.theme import TRUE_COLOR, Palette

DEPTHS = {
    0: ColorDepth.DEPTH_1_BIT,
    16: ColorDepth.DEPTH_4_BIT,
    256: ColorDepth.DEPTH_8_BIT,
    TRUE_COLOR: ColorDepth.DEPTH_24_BIT,
}
# Seconds between drawings of a view that changes.
_REFRESH_SECONDS = 0.5


def view_screen(
    state: ViewState, palette: Palette, source: Input, output: Output, act: Callable[[Chosen], bool] = lambda _: True
) -> Application[Chosen | None]:
    """Return the application that shows a view; it ends with how it was left.

    act: takes an action; returns False if the view stays.
    """

    def draw() -> StyleAndTextTuples:
        size = output.get_size()
        found: StyleAndTextTuples = []
        for number, row in enumerate(state.rows(size.columns - 1, size.rows)):
            found += [("", "\n")] * bool(number) + list(fragments(palette.apply(row), size.columns))
        return found

    keys = KeyBindings()

    def press(event: KeyPressEvent, key: str) -> None:
        left = state.press(key)
        if isinstance(left, Chosen) and not act(left):
            return
        if left and not event.app.is_done:
            event.app.exit(result=left if isinstance(left, Chosen) else None)

    for name in KEYS:
        keys.add(name, eager=True)(lambda event, name=name: press(event, name))

    @keys.add(Keys.Any)
    def _any(event: KeyPressEvent) -> None:
        press(event, event.data)

    @keys.add(Keys.BracketedPaste)
    def _paste(event: KeyPressEvent) -> None:
        for char in " ".join(event.data.split()) if state.typing else "":
            press(event, char)

    @keys.add("<sigint>")
    def _interrupt(event: KeyPressEvent) -> None:
        press(event, "c-c")

    window = Window(FormattedTextControl(draw, show_cursor=False), wrap_lines=False, always_hide_cursor=True)
    app: Application[Chosen | None] = Application(
        Layout(window), key_bindings=keys, full_screen=True, input=source, output=output,
        color_depth=DEPTHS[palette.depth],
        erase_when_done=True, refresh_interval=_REFRESH_SECONDS if state.live else None,
    )  # fmt: skip
    app.ttimeoutlen = app.timeoutlen = QUIET_SECONDS
    return app


def show_alone(state: ViewState, palette: Palette, act: Callable[[Chosen], bool]) -> Chosen | None:
    """Show a view on the terminal of a program that draws nothing else."""
    try:
        return view_screen(state, palette, KeyReader(sys.stdin, time.monotonic), make_output(), act).run()
    except EOFError:
        return None

"""What each key does. The meaning is in `Controls`; here it is only bound, and said when it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition, is_searching, vi_insert_mode, vi_navigation_mode, vi_replace_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from agent_cli.terminal.decisions import KEYS
from agent_cli.terminal.output import NEWLINE

if TYPE_CHECKING:
    from agent_cli.terminal.controls import Controls


def make_keys(controls: Controls) -> KeyBindings:
    """The bindings of the application, before those that every line of prompt-toolkit has."""
    keys = KeyBindings()
    line = controls.line
    writing = ~is_searching
    menu = Condition(lambda: bool(line.menu))
    empty = Condition(lambda: not line.buffer.text)

    for key in KEYS:
        may = Condition(lambda key=key: controls.live.questions.may_answer(key))  # type: ignore[misc]

        @keys.add(key, filter=may & writing, eager=True)
        def _answer(event: KeyPressEvent) -> None:
            controls.live.questions.answer(event.key_sequence[0].data)

    @keys.add("enter", filter=writing)
    def _enter(event: KeyPressEvent) -> None:
        if line.chosen >= 0 and not line.picking:
            line.accept()
        elif not line.newline_for_backslash():
            controls.enter()

    @keys.add(NEWLINE, filter=writing)
    @keys.add("c-j", filter=writing)
    def _newline(event: KeyPressEvent) -> None:
        line.buffer.newline(copy_margin=False)

    @keys.add("c-c", filter=writing)
    @keys.add("<sigint>")
    def _interrupt(event: KeyPressEvent) -> None:
        controls.ctrl_c()

    @keys.add("escape", filter=writing & ~vi_insert_mode & ~vi_replace_mode)
    def _escape(event: KeyPressEvent) -> None:
        controls.escape()

    @keys.add("c-d", filter=empty & writing)
    def _leave(event: KeyPressEvent) -> None:
        controls.leave()

    @keys.add("c-s", filter=writing)
    def _send_now(event: KeyPressEvent) -> None:
        controls.send_now()

    @keys.add("tab", filter=writing)
    def _tab(event: KeyPressEvent) -> None:
        if line.picking and line.menu:
            line.move(1)
        elif line.menu:
            line.accept()
        else:
            line.complete()

    @keys.add("s-tab", filter=writing)
    def _mode(event: KeyPressEvent) -> None:
        controls.next_mode()

    @keys.add("up", filter=menu & writing)
    @keys.add("c-p", filter=menu & writing)
    def _menu_up(event: KeyPressEvent) -> None:
        line.move(-1)

    @keys.add("down", filter=menu & writing)
    @keys.add("c-n", filter=menu & writing)
    def _menu_down(event: KeyPressEvent) -> None:
        line.move(1)

    @keys.add("up", filter=~menu & writing)
    def _up(event: KeyPressEvent) -> None:
        if line.buffer.text or not controls.take_back():
            line.buffer.auto_up(count=event.arg)
        line.close_menu()

    @keys.add("down", filter=~menu & writing)
    def _down(event: KeyPressEvent) -> None:
        line.buffer.auto_down(count=event.arg)
        line.close_menu()

    @keys.add(Keys.BracketedPaste, filter=writing)
    def _paste(event: KeyPressEvent) -> None:
        line.paste(event.data)

    @keys.add("c-v", filter=writing)
    def _paste_image(event: KeyPressEvent) -> None:
        controls.paste_image()

    @keys.add("c-o", filter=writing)
    def _more(event: KeyPressEvent) -> None:
        controls.show_more()

    @keys.add("c-x", "c-e", filter=writing)
    @keys.add("v", filter=vi_navigation_mode & writing)
    def _editor(event: KeyPressEvent) -> None:
        controls.edit_draft()

    @keys.add("c-z")
    def _suspend(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    @keys.add("c-l")
    def _clear_screen(event: KeyPressEvent) -> None:
        event.app.renderer.clear()

    return keys

"""Key bindings and what they do: sending, queueing, unqueueing, interrupting, leaving.

`make_keys` binds keys under conditions; `Controls` implements them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress

from prompt_toolkit.filters import (
    Always,
    Condition,
    Filter,
    is_searching,
    vi_insert_mode,
    vi_navigation_mode,
    vi_replace_mode,
    vi_waiting_for_text_object_mode,
)
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys

from agent_cli.shells.terminal.app.input_line import InputLine
from agent_cli.shells.terminal.app.layout import key_rows
from agent_cli.shells.terminal.app.protocol import LiveScreen
from agent_cli.shells.terminal.dialogs.model import EXPLAIN, KEYS, MARK, VIEW
from agent_cli.shells.terminal.editor import NO_EDITOR, edit_text
from agent_cli.shells.terminal.key_map import KeyMap
from agent_cli.shells.terminal.slash import as_command
from agent_tools.cancel import CancelledError
from agent_tools.text import counted

# A key that is not typed into a search.
_WRITING = ~is_searching


def make_keys(controls: Controls, key_map: KeyMap) -> KeyBindings:
    """Return the application's bindings, which precede those of prompt-toolkit."""
    keys = KeyBindings()
    line = controls.line
    empty = Condition(lambda: not line.buffer.text)
    busy = Condition(lambda: controls.live.questions.ask is not None or line.replying)

    def bind(action: str, run: Callable[[KeyPressEvent], None], when: Filter = _WRITING) -> None:
        for sequence in key_map.keys[action]:
            keys.add(*sequence, filter=when)(run)

    bind("newline", lambda event: line.buffer.newline(copy_margin=False))
    bind("mode", lambda event: None if controls.live.questions.mode_key() else controls.next_mode())
    bind("expand", lambda event: None if controls.live.questions.show_all() else controls.show_details())
    bind("search", lambda event: controls.search_history())
    bind("send_now", lambda event: controls.send_now())
    bind("editor", lambda event: controls.edit_draft())
    bind("record", lambda event: controls.live.aside("/record", opens_view=True))
    bind("paste_image", lambda event: controls.paste_image())
    bind("clear_screen", lambda event: event.app.renderer.clear(), Always())
    bind("suspend", lambda event: controls.live.suspend(), Always())
    bind("leave", lambda event: controls.leave(), empty & _WRITING)

    @keys.add("?", filter=empty & ~busy & _WRITING & ~vi_navigation_mode)
    def _list_keys(event: KeyPressEvent) -> None:
        if not controls.live.close_panel():
            controls.live.show_panel(lambda width, room: key_rows(key_map.rows(), width, room))

    _add_answers(keys, controls)
    _add_endings(keys, controls)
    _add_movements(keys, controls)
    _add_edits(keys, controls)
    return keys


def _add_answers(keys: KeyBindings, controls: Controls) -> None:
    """Bind the keys that answer an open question."""
    questions = controls.live.questions

    for key in (*KEYS, EXPLAIN, VIEW, MARK, ","):
        takes = Condition(lambda key=key: questions.takes(key))  # type: ignore[misc]

        @keys.add(key, filter=takes & _WRITING, eager=True)
        def _answer(event: KeyPressEvent) -> None:
            questions.press(event.key_sequence[0].data)


def _add_endings(keys: KeyBindings, controls: Controls) -> None:
    """Bind the keys that send a message, or end what is under way."""
    line = controls.line
    asked = Condition(lambda: controls.live.questions.listing)

    @keys.add("enter", filter=_WRITING)
    def _enter(event: KeyPressEvent) -> None:
        if line.chosen >= 0 and not line.picking:
            if line.accept():
                controls.enter()
        elif not line.newline_for_backslash():
            controls.enter()

    @keys.add("c-c", filter=_WRITING)
    @keys.add("<sigint>")
    def _interrupt(event: KeyPressEvent) -> None:
        controls.ctrl_c()

    @keys.add("escape", filter=_WRITING & (asked | (~vi_insert_mode & ~vi_replace_mode)))
    def _escape(event: KeyPressEvent) -> None:
        controls.escape()


def _add_movements(keys: KeyBindings, controls: Controls) -> None:
    """Bind the keys that move in menus, questions and the history."""
    line = controls.line
    menu = Condition(lambda: bool(line.menu))
    asked = Condition(lambda: controls.live.questions.listing)

    @keys.add("tab", filter=_WRITING)
    def _tab(event: KeyPressEvent) -> None:
        if controls.live.questions.comment():
            return
        if not line.buffer.text and controls.live.proposal:
            line.set_text(controls.live.proposal)
        elif line.picking and line.menu:
            line.move(1)
        elif line.menu:
            line.accept()
        else:
            line.complete()

    @keys.add("up", filter=menu & _WRITING)
    @keys.add("c-p", filter=menu & _WRITING)
    def _menu_up(event: KeyPressEvent) -> None:
        line.move(-1)

    @keys.add("down", filter=menu & _WRITING)
    @keys.add("c-n", filter=menu & _WRITING)
    def _menu_down(event: KeyPressEvent) -> None:
        line.move(1)

    @keys.add("up", filter=~menu & _WRITING)
    @keys.add("c-p", filter=asked & _WRITING)
    def _up(event: KeyPressEvent) -> None:
        if controls.live.questions.move(-1):
            return
        if line.buffer.text or not controls.unqueue():
            line.buffer.auto_up(count=event.arg)
        line.close_menu()

    @keys.add("down", filter=~menu & _WRITING)
    @keys.add("c-n", filter=asked & _WRITING)
    def _down(event: KeyPressEvent) -> None:
        if controls.live.questions.move(1):
            return
        line.buffer.auto_down(count=event.arg)
        line.close_menu()


def _add_edits(keys: KeyBindings, controls: Controls) -> None:
    """Bind the keys that change the draft."""
    line = controls.line
    empty = Condition(lambda: not line.buffer.text)

    @keys.add(Keys.BracketedPaste, filter=_WRITING)
    def _paste(event: KeyPressEvent) -> None:
        line.paste(event.data)

    _add_characters(keys, line)

    @keys.add("v", filter=vi_navigation_mode & _WRITING)
    def _editor(event: KeyPressEvent) -> None:
        controls.edit_draft()

    agreed = Condition(lambda: bool(controls.live.session.agreed))

    @keys.add("backspace", filter=empty & agreed & _WRITING)
    def _take_back(event: KeyPressEvent) -> None:
        count = controls.live.session.take_back()
        controls.live.hint_for(f"The answer to {counted(count, 'call')} is undone", 2.0)

    in_word = Condition(lambda: not line.buffer.document.current_char.isspace())

    @keys.add("c", "w", filter=vi_navigation_mode & ~vi_waiting_for_text_object_mode & in_word & ~empty & _WRITING)
    def _change_word(event: KeyPressEvent) -> None:
        # In vi `cw` on a word leaves the space behind it.
        words = re.match(_WORD_PATTERN % (event.arg - 1), line.buffer.document.text_after_cursor)
        event.app.clipboard.set_text(line.buffer.delete(len(words[0]) if words else 0))
        event.app.vi_state.input_mode = InputMode.INSERT


def _add_characters(keys: KeyBindings, line: InputLine) -> None:
    """Bind the keys that move over a character, or delete one: of several code points, or the sign of a paste."""
    inside = ~vi_navigation_mode & _WRITING
    before, after = Condition(lambda: line.before > 1), Condition(lambda: line.after > 1)

    @keys.add("left", filter=before & inside)
    @keys.add("c-b", filter=before & inside)
    def _left(event: KeyPressEvent) -> None:
        line.buffer.cursor_position -= line.before

    @keys.add("right", filter=after & inside)
    @keys.add("c-f", filter=after & inside)
    def _right(event: KeyPressEvent) -> None:
        line.buffer.cursor_position += line.after

    @keys.add("backspace", filter=before & inside)
    def _delete_before(event: KeyPressEvent) -> None:
        line.buffer.delete_before_cursor(line.before)

    @keys.add("delete", filter=after & inside)
    def _delete_after(event: KeyPressEvent) -> None:
        line.buffer.delete(line.after)


TWICE_SECONDS = 1.0
_WORD_PATTERN = r"(?:\w+|[^\w\s]+)(?:\s*(?:\w+|[^\w\s]+)){0,%d}"


class Controls:
    """The actions behind the keys. All run on the drawing thread."""

    def __init__(self, live: LiveScreen) -> None:
        self.live = live
        self.line = live.line
        self._ctrl_c_at = self._escape_at = -TWICE_SECONDS
        self._ctrl_c_interrupted = False

    def enter(self) -> None:
        """Send the line: as a reply, as a message, or into the queue.

        An empty line answers a question, or tries the model again that could not answer.
        """
        live = self.live
        live.clear_hint()
        if self.line.searching:
            self.line.accept_found()
            return
        if self.line.replying:
            live.questions.reply(self.line.text)
            return
        if live.questions.enter():
            return
        if not self.line.text.strip():
            if live.busy and live.transcript.waits_to_retry:
                live.transcript.retry_at = 0.0
                live.session.retry_now()
                live.draw_soon()
            return
        text = as_command(self.line.take_message().strip())
        if not live.busy:
            live.send(text)
        elif not live.run_aside(text):
            live.queue(text)
        live.draw_soon()

    def show_details(self) -> None:
        """Show the transcript with all that was left out of it, the latest entry chosen."""
        view = self.live.transcript.details.view()
        if view is None:
            self.live.hint_for("There is nothing more to show", 2.0)
        else:
            self.live.open_view(view)

    def paste_image(self) -> None:
        """Insert the clipboard image as a placeholder."""

        def look() -> None:
            word = self.line.pictures.from_clipboard()
            if word:
                self.live.soon(lambda: self.line.buffer.insert_text(word))
            else:
                self.live.soon(lambda: self.live.hint_for("There is no image in the clipboard", 2.0))

        threading.Thread(target=look, daemon=True).start()

    def edit_draft(self) -> None:
        """Edit the draft in the user's editor; only Enter sends it, and it stays unchanged if the editor fails."""
        live, line = self.live, self.line
        text = line.buffer.text

        def edit() -> None:
            with suppress(CancelledError):
                changed = live.outside(lambda: edit_text(text))
                # Text inserted meanwhile, such as a reply to a question, stays.
                if changed is None:
                    live.soon(lambda: live.hint_for(NO_EDITOR, 4.0))
                elif changed != text:
                    live.soon(lambda: line.set_text(changed) if line.buffer.text == text else None)

        if not line.picking:
            threading.Thread(target=edit, name="editor", daemon=True).start()

    def send_now(self) -> None:
        """Interrupt, then send the draft and the queued messages."""
        live = self.live
        if not live.busy:
            self.enter()
        elif not self.line.replying:
            self.enter()
            if live.queued:
                live.interrupt()

    def search_history(self) -> None:
        """Search the messages of this project; when pressed again, select the next older one."""
        if self.line.searching:
            self.line.move(1)
        elif self.line.replying or self.live.questions.ask is not None:
            return
        elif not self.line.search_history():
            self.live.hint_for("There are no earlier messages in this project", 2.0)

    def unqueue(self) -> bool:
        """Move the last queued message back into the line; return False if there is none or a reply is being typed."""
        queued = self.live.queued
        if self.line.replying or not queued or not self.live.session.unqueue(queued[-1]):
            return False
        self.line.set_text(queued.pop())
        return True

    def escape(self) -> None:
        """Close a panel or menu; else leave a reply; else refuse; else interrupt; twice in an empty line: rewind."""
        if self.live.close_panel():
            return
        if self.line.searching:
            self.line.end_reply()
        elif self.line.menu and not self.line.picking:
            self.line.close_menu()
        elif self.line.replying:
            self.live.questions.back()
        elif self.live.questions.escape():
            pass
        elif self.live.busy:
            self.live.interrupt()
        elif not self.line.buffer.text:
            now = self.live.clock()
            again, self._escape_at = now - self._escape_at <= TWICE_SECONDS, now
            if again and self.live.session.knows("/rewind"):
                self._escape_at = 0.0
                self.live.send("/rewind")

    def ctrl_c(self) -> None:
        """Interrupt; else leave a reply; else clear the draft; pressed twice: leave.

        A second press that comes after the work has stopped was meant for the work: it does not leave.
        """
        now, live = self.live.clock(), self.live
        again = now - self._ctrl_c_at <= TWICE_SECONDS and (live.stopping or not self._ctrl_c_interrupted)
        self._ctrl_c_at, self._ctrl_c_interrupted = -TWICE_SECONDS, False
        if again:
            live.leave()
        elif self.line.searching:
            self.line.end_reply()
        elif live.questions.from_command:
            live.questions.back()
        elif live.busy:
            self._ctrl_c_at, self._ctrl_c_interrupted = now, True
            live.interrupt()
        elif self.line.buffer.text:
            self.line.clear()
        else:
            self._ctrl_c_at = now
            live.hint_for("Press Ctrl-C again to exit", TWICE_SECONDS)

    def leave(self) -> None:
        self.live.leave()

    def next_mode(self) -> None:
        self.live.session.next_mode()

"""The inline application of a session: it draws on the main thread, the work runs on another.

Finished lines are written above and never touched again. The live region below shows what is unfinished: the end of an
answer, running calls, the plan, queued messages, the status, a question's bar, the input line, a menu, the toolbar.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, TextIO

from prompt_toolkit.application.run_in_terminal import in_terminal, run_in_terminal
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.styles import BaseStyle, DynamicStyle

from agent_cli import MessageAdded, UserMessage
from agent_cli.kernel.redact import Redactor
from agent_cli.knowledge.template import attached_files
from agent_cli.shells.terminal.app.input_line import InputLine
from agent_cli.shells.terminal.app.key_reader import NEWLINE, KeyReader
from agent_cli.shells.terminal.app.keys import Controls, make_keys
from agent_cli.shells.terminal.app.layout import (
    Marker,
    above,
    below_input,
    make_layout,
    max_input_rows,
    panel_rows,
    style_of,
)
from agent_cli.shells.terminal.app.output import SETTLE_SECONDS, AtomicOutput, BackgroundQuestion, InlineApp
from agent_cli.shells.terminal.app.protocol import DEFAULT_APPEARANCE, Appearance, Panel, ScreenSession
from agent_cli.shells.terminal.app.question_panel import OpenDialog, QuestionPanel
from agent_cli.shells.terminal.app.rows import Line
from agent_cli.shells.terminal.app.view_screen import DEPTHS, view_screen
from agent_cli.shells.terminal.app.worker import EventQueue, JobFinished, PendingReply, Printed, UserEcho, Worker
from agent_cli.shells.terminal.dialogs.view import Chosen, View, ViewState, prose_lines
from agent_cli.shells.terminal.key_map import KeyMap
from agent_cli.shells.terminal.render.ansi import (
    ATTENTION,
    ATTENTION_SECONDS,
    RESTORE_TITLE,
    SAVE_TITLE,
    title_sequence,
    with_links,
)
from agent_cli.shells.terminal.render.console import wrap_words
from agent_cli.shells.terminal.render.theme import Colors, Palette
from agent_cli.shells.terminal.render.transcript import Transcript, user_bar
from agent_cli.shells.terminal.slash import ExitRequestedError
from agent_tools.cancel import CancelledError
from agent_tools.text import counted, one_line

FRAME_SECONDS = 1 / 15
HANDLE_SECONDS = 0.008
PANEL_SECONDS = 0.5  # between redraws of an open panel that stays
WARM_UP_SECONDS = 0.4  # after the first prompt, until the answer renderer is imported


def _import_renderer() -> None:
    """Import the answer renderer in the background, so that no key waits for it."""
    threading.Thread(target=import_module, args=("agent_cli.shells.terminal.render.markdown",), daemon=True).start()


class TerminalApp:
    """The screen. `run` owns the terminal until the user leaves."""

    def __init__(
        self,
        session: ScreenSession,
        transcript: Transcript,
        line: InputLine,
        screen: AtomicOutput,
        colors: Colors,
        *,
        look: Appearance = DEFAULT_APPEARANCE,
        key_map: KeyMap | None = None,
        terminal: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.session, self.transcript, self.line = session, transcript, line
        self.look, self.clock, self.colors = look, clock, colors
        self.bridge = EventQueue(self._wake)
        self.worker = Worker(self.bridge)
        self.queued: list[str] = []
        # Messages that were queued when the application ended.
        self.unsent: tuple[str, ...] = ()
        self.questions = QuestionPanel(self, clock)
        self.busy = self.stopping = self.leaving = False
        # The only question of this application, until it is answered.
        self._only: OpenDialog | None = None
        self.marker = Marker(self, look.markers)
        self._background = BackgroundQuestion(colors, clock, self.draw_soon)
        self._frame_at = 0.0
        self._frame_planned = False
        self._lines: list[str] = []
        self._extra = self.hint = self._task = ""
        self.panel: Panel | None = None
        self._panel_keys = 0
        self.app: InlineApp = InlineApp(
            screen,
            KeyReader(terminal or sys.stdin, clock),
            reflow=look.reflow,
            layout=make_layout(
                line,
                self._above,
                lambda: self.questions.ask is not None,
                lambda: panel_rows(self),
                lambda: below_input(self),
                lambda: max_input_rows(screen.get_size().rows, open_question=self.questions.ask is not None),
                lambda: self.app.frame_number,
                lambda: self.proposal,
            ),
            style=DynamicStyle(self._style),
            key_bindings=make_keys(Controls(self), key_map or KeyMap({}, NEWLINE)),
            editing_mode=EditingMode.VI if look.vim else EditingMode.EMACS,
            color_depth=DEPTHS[colors.palette.depth],
        )
        self.app.key_processor.before_key_press += self._before_key
        self.app.key_processor.after_key_press += self._after_key

    def run(self, first: Callable[[], None] | None = None) -> None:
        """Own the terminal until the user leaves. first: job to start with."""
        self.worker.start()
        if first is not None:
            self._work(first)
        try:
            self.app.run(pre_run=self._start)
        except EOFError:
            pass  # end of input: the user has left
        finally:
            if self.look.title:
                self.app.screen.write_raw(RESTORE_TITLE)
                self.app.screen.flush()
            self.unsent = tuple(self.queued)
            self.queued.clear()
            self.leaving = True
            left_open = self.questions.defer()
            if self.busy and not left_open:
                self.interrupt()
            self.worker.stop(self._drain)
        if self.worker.failed is not None:
            raise self.worker.failed

    def take_rest(self) -> list[str]:
        """Return lines that were finished too late to be drawn."""
        lines, self._lines = [*self._lines, *self.transcript.writer.take()], []
        return lines

    def _start(self) -> None:
        assert self.app.loop is not None
        reader = self.app.reader
        self.app.key_processor.feed_multiple([*get_typeahead(reader), *reader.read_typed_ahead()])
        self.transcript.writer.mark_printed()
        self._extra = SAVE_TITLE + self._title() if self.look.title else ""
        if self.look.ask_background and self.palette.depth:
            self._extra += self._background.ask(self.app.reader.answers)
        if self.look.ask_paste:
            self._extra += self.app.reader.ask_paste()
        self.draw_soon()
        self.app.loop.call_later(WARM_UP_SECONDS, _import_renderer)
        # Starts the timer for work that began before the loop.
        self.marker.tick()

    def _style(self) -> BaseStyle:
        return style_of(self.palette)

    @property
    def palette(self) -> Palette:
        """The colours now."""
        return self.colors.palette

    def change_appearance(self, **changes: Any) -> None:
        """Change the appearance; from any thread."""
        self.look = self.look.replace(**changes)

        def change() -> None:
            self.app.editing_mode = EditingMode.VI if self.look.vim else EditingMode.EMACS
            # A search leaves vi in navigation mode.
            self.app.vi_state.reset()
            self.draw_soon()

        self.soon(change)

    def soon(self, run: Callable[[], object]) -> None:
        """Run on the drawing thread; from any thread. Dropped once the application is over."""
        loop = self.app.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(run)

    def _drain(self) -> None:
        while (item := self.bridge.take()) is not None:
            self._handle(item)

    def _wake(self) -> None:
        self.soon(self.draw_soon)

    def draw_soon(self) -> None:
        """Schedule a redraw: once per frame, immediately after a pause."""
        if not self._frame_planned and self.app.loop is not None:
            self._frame_planned = True
            self.app.loop.call_later(max(0.0, self._frame_at + FRAME_SECONDS - self.clock()), self._tick)

    def draw_now(self) -> None:
        """Draw once the key that is handled now has had its effect."""
        if self.app.loop is not None:
            self.app.loop.call_soon(self._frame)

    def _tick(self) -> None:
        """Handle pending items for at most a slice of time, so that keys never wait, and draw."""
        loop = self.app.loop
        if loop is None:
            return  # the application is over
        if self.app.away:
            loop.call_later(0.05, self._tick)
            return
        self._frame_planned = False
        until = time.monotonic() + HANDLE_SECONDS
        while time.monotonic() < until and (item := self.bridge.take()) is not None:
            self._handle(item)
        if self.bridge.empty or self.clock() >= self._frame_at + 2 * FRAME_SECONDS:
            self._frame()
            if not self.bridge.empty:
                self.draw_soon()
        else:
            self._frame_planned = True
            loop.call_soon(self._tick)

    def _frame(self) -> None:
        self._frame_at = self.clock()
        lines, self._lines = [*self._lines, *self.transcript.writer.take()], []
        if lines and (wait := self._background.wait) and self.app.loop is not None:
            lines, self._lines = [], lines
            self.app.loop.call_later(wait, self.draw_soon)
        if not lines and not self._extra:
            self.app.redraw()
        elif self.app.commit((self._finished_row(line) for line in lines), self._extra):
            self._extra = ""
        else:
            self._lines = [*lines, *self._lines]
            if self.app.loop is not None:
                self.app.loop.call_later(SETTLE_SECONDS, self.draw_soon)

    def _finished_row(self, line: str) -> str:
        """Return a finished row as the terminal gets it."""
        row = self.palette.apply(line)
        root = self.look.links
        return row if root is None else with_links(row, root, self.app.screen.get_size().columns)

    def _above(self) -> list[Line]:
        if self.questions.write_unseen():
            self.draw_soon()
        rows = above(self)
        self.marker.found(rows)
        return rows

    # Items from the worker.

    def _handle(self, item: Any) -> None:
        match item:
            case Printed(text=text):
                # Output of a command during the turn does not break the open paragraph.
                self.transcript.writer.begin_printed()
                self._write(text.removesuffix("\n").split("\n"), settle=False)
            case UserEcho(text=text):
                self.echo(text)
            case OpenDialog():
                self.questions.put(item)
            case JobFinished(leave=leave):
                self._job_done(leave)
            case MessageAdded(message=UserMessage(text=text)):
                self.transcript.view.apply(item)
                match = next((q for q in self.queued if text == q or text.startswith(f"{q}\n\n")), None)
                if match is not None:
                    self.queued.remove(match)
                    self._save_draft()
                    self.echo(match)
                for name, part, count in attached_files(text):
                    where = f"lines {part}" if part else counted(count, "line")
                    self.say(f"  attached {one_line(name)} · {where}")
            case _:
                self.transcript(item)

    def _write(self, lines: Sequence[str], *, settle: bool = True) -> None:
        if settle:
            self.transcript.writer.settle()
        self.transcript.writer.flush()
        self._lines += [*self.transcript.writer.take(), *lines]

    def echo(self, text: str, *, settle: bool = True) -> None:
        """Echo a user message, as the model sees it. settle: first end what is in progress."""
        writer = self.transcript.writer
        if settle:
            writer.settle()
        if text.startswith("/") and self.session.is_command(text):
            writer.command(text)
            self._write((), settle=False)
        else:
            self._write(user_bar(self.line.pastes.fold_known(text), writer), settle=False)

    @property
    def proposal(self) -> str:
        """The message that is offered in the empty line; "" for none."""
        return "" if self.busy or self.line.replying else self.session.proposal

    @property
    def seconds(self) -> float:
        """Seconds of the current work, excluding the time of open questions."""
        return self.marker.seconds

    def send_quietly(self, sequences: str) -> None:
        """Send sequences that draw nothing, with the next frame."""
        self._extra += sequences
        self.draw_soon()

    def ring(self) -> None:
        """Ring the bell, as the user may be looking elsewhere."""
        self.send_quietly((ATTENTION if self.look.notify else "") + self._title("? "))

    def answered(self) -> None:
        self.send_quietly(self._title("* " if self.busy else ""))

    def _title(self, state: str = "") -> str:
        return title_sequence(self._task, state) if self.look.title else ""

    def _work(self, job: Callable[[], None], task: str = "") -> None:
        self.busy, self.stopping = True, False
        self._task = task or self._task
        self._extra += self._title("* ")
        self.worker.do(job)
        self.marker.start()

    def send(self, text: str) -> None:
        """Start work with a message; the worker must be idle."""
        self.echo(text)
        self._work(lambda: self.session.send(text), "" if text.startswith("/") else text)

    def keep_unmatched(self, text: str) -> bool:
        """Keep a text that fits no option as a message, before a session; return False if that is not the case."""
        if not self.look.before_session:
            return False
        if text.strip():
            self.queue(text.strip())
        return True

    def queue(self, text: str) -> None:
        """Queue a message for the next step, or for the end of the work.

        Before a session, a key that was meant for a question is dropped.
        """
        if self.look.before_session and Redactor({})(text) != text:
            self.say("That looks like an API key, so it was dropped. First choose what to do with it.")
            return
        self.queued.append(text)
        self.session.queue(text)

    def _job_done(self, leave: bool) -> None:
        if self.seconds > ATTENTION_SECONDS and not self.queued:
            self.ring()
        self.busy = self.stopping = False
        self._extra += self._title()
        if leave or self.worker.failed:
            self.leave()
        elif self.queued:
            text = self.queued.pop(0)
            self._save_draft()
            self.session.unqueue(text)
            self.send(text)
        else:
            self.wake()

    def wake(self) -> None:
        """Start a turn with what ended in the background, if nothing else runs and the user allows that."""
        if not self.busy and not self.leaving and self.session.wakes():
            self._work(self.session.run_woken)

    def run_dialog(self, ask: OpenDialog, answer: Callable[[], None]) -> None:
        """Ask one question before a session, and leave what is typed after its answer to the next application.

        answer: job that shows the question and ends when it is answered.
        """
        self._only = ask
        try:
            self.run(answer)
        finally:
            self.app.leave_keys()

    def _before_key(self, sender: object) -> None:
        self.questions.guard.drop_early()

    def _after_key(self, sender: object) -> None:
        self.questions.key_pressed()
        # The key that opened a panel does not close it.
        if self._panel_keys == 1:
            self.close_panel()
        self._panel_keys = max(0, self._panel_keys - 1)
        self._save_draft()
        if self._only is not None and self._only.waiting.done:
            self._only = None
            self.app.hold_keys()

    def _save_draft(self) -> None:
        self.session.keep(self.line.draft, self.queued)

    def interrupt(self) -> None:
        """Stop the work; the conversation stays."""
        self.stopping = True
        self.session.interrupt()
        self.questions.cancel()
        self.app.redraw()

    def aside(self, text: str, *, opens_view: bool = False) -> None:
        """Run a command during the turn, on its own thread, as it may ask.

        opens_view: what is typed from now on is for its view. From the drawing thread.
        """
        if opens_view:
            self.app.hold_keys()

        def run() -> None:
            try:
                self.session.aside(text)
            except ExitRequestedError:
                self.leave_soon()
            except BaseException as error:  # noqa: BLE001 - raised again on the main thread, which reports it
                self.worker.fail(error)
                self.leave_soon()
            finally:
                if opens_view:
                    self.soon(self.app.release_keys)

        threading.Thread(target=run, name="aside", daemon=True).start()

    def is_command(self, text: str) -> bool:
        return self.session.is_command(text)

    def run_aside(self, text: str) -> bool:
        """Run a line as a command during the turn, or pass it to a sub-agent; return False if it is neither."""
        if self.session.message_agent(text):
            self.echo(text, settle=False)
            return True
        if not text.startswith("/") or not self.session.may_aside(text.strip()):
            return False
        self.echo(text, settle=False)
        self.aside(text.strip())
        return True

    def suspend(self) -> None:
        """Stop the program until the shell continues it. What follows stands apart from the shell's lines."""
        self.transcript.writer.mark_foreign()
        self.app.suspend_to_background()

    def outside(self, run: Callable[[], Any]) -> Any:
        """Run a program that needs the terminal (an editor, a pager) and return its result.

        Not from the drawing thread. Raises CancelledError if the application ends.
        """
        waiting = PendingReply()

        async def go() -> None:
            try:
                waiting.answer(await run_in_terminal(run))
            finally:
                waiting.cancel()

        loop = self.app.loop
        if loop is None or loop.is_closed():
            raise CancelledError
        loop.call_soon_threadsafe(lambda: self.app.create_background_task(go()))
        return waiting.wait()

    def show_view(self, state: ViewState) -> Chosen | None:
        """Show a view on the alternate screen until it is closed; return how it was left.

        Not from the drawing thread. Raises CancelledError if the application ends.
        """
        waiting = PendingReply()

        async def go() -> None:
            self.app.hold_keys()
            keys, typed = self.app.reader.for_view(), list[KeyPress]()
            try:
                async with in_terminal():
                    with keys.raw_mode():
                        screen = view_screen(state, self.palette, keys, self.app.screen)
                        held = self.app.take_held()
                        waiting.answer(await screen.run_async(lambda: screen.key_processor.feed_multiple(held)))
                    typed += [*get_typeahead(keys), *keys.flush_keys()]
            finally:
                waiting.cancel()
                self.app.release_keys(typed)

        loop = self.app.loop
        if loop is None or loop.is_closed():
            raise CancelledError
        loop.call_soon_threadsafe(lambda: self.app.create_background_task(go()))
        left: Chosen | None = waiting.wait()
        return left

    def open_view(self, view: View) -> None:
        """Show a view; from the drawing thread. What is typed from now on is for the view."""
        self.app.hold_keys()

        def show() -> None:
            with suppress(CancelledError):
                self.show_view(ViewState(view))
            self.soon(self.app.release_keys)

        threading.Thread(target=show, name="view", daemon=True).start()

    def page(self, text: str) -> None:
        """Show a long text in a view; from the drawing thread."""
        self.open_view(View("", lambda width: prose_lines(text, width)))

    def hint_for(self, text: str, seconds: float) -> None:
        """Show a hint above the input line for some seconds."""
        self.hint = text
        self.app.redraw()

        def forget() -> None:
            if self.hint == text:
                self.hint = ""
                self.app.redraw()

        self.later(seconds, forget)

    def later(self, seconds: float, run: Callable[[], None]) -> None:
        """Run on the drawing thread after some seconds."""
        if self.app.loop is not None:
            self.app.loop.call_later(seconds, run)

    def clear_hint(self) -> None:
        """Remove the hint with the next frame."""
        self.hint = ""

    def show_panel(self, panel: Panel, *, stays: bool = False) -> None:
        """Show rows below the input line until the next key; stays: until Esc."""
        self.panel, self._panel_keys = panel, 0 if stays else 2
        # Not immediately: within a key handler, the key itself would be drawn.
        self.draw_soon()
        if stays:
            self._watch(panel)

    def _watch(self, panel: Panel) -> None:
        """Redraw repeatedly while a panel is open, as its content changes."""
        if self.panel is panel and self.app.loop is not None:
            self.draw_soon()
            self.app.loop.call_later(PANEL_SECONDS, lambda: self._watch(panel))

    def close_panel(self) -> bool:
        """Close the panel; return False if there is none."""
        had, self.panel, self._panel_keys = self.panel is not None, None, 0
        if had:
            self.draw_soon()
        return had

    def leave(self) -> None:
        """End the session."""
        if self.app.is_running and not self.app.is_done:
            self.app.exit()

    def leave_soon(self) -> None:
        """Like `leave`, from a signal handler."""
        self.soon(self.leave)

    def refresh_menu(self) -> None:
        """Refresh the menu after new completions arrived; from any thread."""

        def refresh() -> None:
            if self.line.menu or not self.busy:
                self.line.complete()
            self.draw_soon()

        self.soon(refresh)

    def say(self, text: str) -> None:
        """Write lines, apart from what is above and below; from the drawing thread."""
        self.transcript.writer.settle()
        self.transcript.writer.begin_printed()
        self._write([row for line in text.split("\n") for row in self._wrap_words(line)])
        self.draw_soon()

    def _wrap_words(self, line: str) -> Iterator[str]:
        return (row.plain for row in wrap_words(line, self.transcript.writer.console))

"""The session's screen: one long-lived inline application on the main thread, the work on another.

What is finished is written above and never touched again. The live region below it holds what is not: the end of an
answer, running calls, the plan, queued messages, the status, a question's bar, the input line, a menu, the toolbar.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from prompt_toolkit.application.run_in_terminal import run_in_terminal
from prompt_toolkit.input import Input
from prompt_toolkit.output import ColorDepth

from agent_cli.core.events import MessageAdded
from agent_cli.core.messages import UserMessage
from agent_cli.terminal.ansi import fragments
from agent_cli.terminal.asking import edited_text
from agent_cli.terminal.bridge import Bridge
from agent_cli.terminal.decisions import Act, Ask, Give, InEditor, Words
from agent_cli.terminal.keys import make_keys
from agent_cli.terminal.layout import STYLE, make_layout
from agent_cli.terminal.line import InputLine
from agent_cli.terminal.output import AtomicOutput, InlineApp
from agent_cli.terminal.panels import MENU, Line, clip, fitted, queue_lines, status_line, todo_lines, toolbar
from agent_cli.terminal.transcript import TAIL, Transcript
from agent_cli.terminal.worker import Ended, Printed, Worker
from agent_tools.display import TodoItem
from agent_tools.inert import inert

FRAME = 1 / 15
SLICE = 0.008
# Keys are no answer while a sentence may be under way: so long after the question, and after the last key.
GUARD = 0.6
TWICE = 1.0
RING = "\a\x1b]9;agent waits for you\x1b\\"


class Session(Protocol):
    """What the screen needs of a session. `send` runs on the worker's thread, the rest on the screen's."""

    def send(self, text: str) -> None:
        """A message, or a slash command, to its end."""

    def aside(self, text: str) -> bool:
        """Run a slash command that may be given while a turn runs; False where it may not."""

    def interrupt(self) -> None: ...

    def queue(self, text: str) -> None:
        """Give a message to the running turn, for its next step."""

    def take_back(self, text: str) -> bool:
        """Take it out again; False where the turn has it."""

    def plan(self) -> Sequence[TodoItem]: ...

    def toolbar(self) -> Iterable[str]: ...

    def next_mode(self) -> None: ...


class Live:
    """The screen. `run` has the terminal until the person leaves."""

    def __init__(
        self,
        session: Session,
        transcript: Transcript,
        line: InputLine,
        screen: AtomicOutput,
        *,
        source: Input | None = None,
        reflow: bool = False,
        color: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.session, self.transcript, self.line = session, transcript, line
        self._clock = clock
        self.bridge = Bridge(self._wake)
        self.worker = Worker(self.bridge)
        self.queued: list[str] = []
        self.ask: Ask | None = None
        self.busy = self.stopping = False
        self._began = self._asked_at = self._key_at = self._ctrl_c_at = self._frame_at = 0.0
        self._frame_planned = False
        self._lines: list[str] = []
        self._extra = self._hint = ""
        self.app = InlineApp(
            screen,
            reflow=reflow,
            layout=make_layout(line, self._above, self._below, lambda: screen.get_size().rows),
            style=STYLE,
            key_bindings=make_keys(self),
            input=source,
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
        )
        self.app.key_processor.after_key_press += self._after_key

    # The thread that draws, from start to end.

    def run(self, first: Callable[[], None] | None = None) -> None:
        """Have the terminal until the person leaves. first: work to begin with."""
        self.worker.start()
        if first is not None:
            self._work(first)
        try:
            self.app.run(pre_run=self._tick)
        finally:
            if self.ask is not None:
                self.ask.waiting.cancel()
            if self.busy:
                self.session.interrupt()
            self.worker.stop()
        self.worker.check()

    def rest(self) -> list[str]:
        """What was finished too late to be drawn."""
        while (item := self.bridge.take()) is not None:
            self._handle(item)
        lines, self._lines = [*self._lines, *self.transcript.writer.take()], []
        return lines

    def _wake(self) -> None:
        loop = self.app.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._tick)

    def _tick(self) -> None:
        """Take what has come, for a moment, so that keys are never kept waiting; then draw, if it is time to."""
        assert self.app.loop is not None
        if self.app.away and self._frame_at:
            self.app.loop.call_later(0.05, self._tick)
            return
        until = time.monotonic() + SLICE
        while time.monotonic() < until and (item := self.bridge.take()) is not None:
            self._handle(item)
        if not self.bridge.empty:
            self.app.loop.call_soon(self._tick)
        self._draw_soon()

    def _draw_soon(self) -> None:
        if self._frame_planned or self.app.loop is None:
            return
        self._frame_planned = True
        self.app.loop.call_later(max(0.0, self._frame_at + FRAME - self._clock()), self._frame)

    def _frame(self) -> None:
        self._frame_planned = False
        self._frame_at = self._clock()
        lines, self._lines = [*self._lines, *self.transcript.writer.take()], []
        if self.app.away:
            self._lines = lines
            return
        if lines or self._extra:
            extra, self._extra = self._extra, ""
            self.app.commit(lines, extra)
        else:
            self.app.redraw()

    def _second(self) -> None:
        """The status counts while there is work."""
        if self.busy and self.app.loop is not None:
            self._draw_soon()
            self.app.loop.call_later(1.0, self._second)

    # What comes from the worker.

    def _handle(self, item: Any) -> None:
        match item:
            case Printed(text=text):
                self._write(text.removesuffix("\n").split("\n"))
            case Ask():
                self._put_question(item)
            case Ended(leave=leave):
                self._idle(leave)
            case MessageAdded(message=UserMessage(text=text)):
                if text in self.queued:
                    self.queued.remove(text)
                    self.echo(text)
            case _:
                self.transcript(item)

    def _write(self, lines: Sequence[str]) -> None:
        self.transcript.writer.settle()
        self._lines += [*self.transcript.writer.take(), *lines]

    def echo(self, text: str) -> None:
        """A message of the person's, as the model sees it from here on."""
        first, *more = inert(text).split("\n")
        self._write(["", f"\x1b[1m> {first}\x1b[0m", *(f"\x1b[1m  {line}\x1b[0m" for line in more)])

    def _work(self, job: Callable[[], None]) -> None:
        self.busy, self.stopping = True, False
        self._began = self._clock()
        self.worker.do(job)
        self._second()

    def send(self, text: str) -> None:
        """Begin with a message; the work is idle."""
        self.echo(text)
        self._work(lambda: self.session.send(text))

    def _idle(self, leave: bool) -> None:
        self.busy = self.stopping = False
        if leave or self.worker.failed:
            self._exit()
        elif self.queued:
            text = self.queued.pop(0)
            self.session.take_back(text)
            self.send(text)

    # Questions.

    def _put_question(self, ask: Ask) -> None:
        self.transcript.console.width = self.app.screen.get_size().columns
        self.transcript.writer.settle()
        for row in ask.body(self.transcript.console):
            self.transcript.writer.put(row)
        now = self._clock()
        free = ask.free is not None and not self.line.buffer.text and now - self._key_at > GUARD
        self.ask, self._asked_at, self._extra = ask, now, RING
        if self.stopping:
            ask.waiting.cancel()
            self.ask = None
        elif free and ask.free is not None:
            self.line.borrow(ask.free.label, ask.free.text)
            self._read = ask.free.read

    def may_answer(self, key: str) -> bool:
        """Whether a key is an answer: not while a sentence is under way."""
        if self.ask is None or self.line.replying or key not in self.ask.keys:
            return False
        now = self._clock()
        return now - self._asked_at >= GUARD and now - self._key_at >= GUARD

    def answer(self, key: str) -> None:
        assert self.ask is not None
        act: Act = self.ask.keys[key]
        match act:
            case Give(answer=answer):
                self._give(answer)
            case Words(label=label, text=text, read=read):
                self._read = read
                self.line.borrow(label, text)
            case InEditor(text=text, read=read):
                self._edit(self.ask, text, read)

    def _give(self, answer: Any) -> None:
        ask, self.ask = self.ask, None
        self.line.give_back()
        if ask is not None:
            ask.waiting.answer(answer)
        self._draw_soon()

    def _edit(self, ask: Ask, text: str, read: Callable[[str], Any]) -> None:
        async def edit() -> None:
            changed = await run_in_terminal(lambda: edited_text(text))
            if changed is None:
                self.say("The editor failed; set EDITOR to one that runs here.")
            elif self.ask is ask and (answer := read(changed)) is not None:
                self._give(answer)

        self.app.create_background_task(edit())

    # Keys.

    def _after_key(self, sender: object) -> None:
        self._key_at = self._clock()

    def enter(self) -> None:
        """Send the line: as a reply, as a message, or into the queue. An empty line says nothing."""
        self._hint = ""
        if self.line.replying:
            answer = self._read(self.line.text)
            if answer is not None:
                self._give(answer)
            return
        if not self.line.text.strip():
            return
        text = self.line.take().strip()
        if not self.busy:
            self.send(text)
        elif text.startswith("/") and not text.startswith("//"):
            if not self.session.aside(text):
                self.queued.append(text)
        else:
            self.queued.append(text)
            self.session.queue(text)
        self._draw_soon()

    def send_now(self) -> None:
        """Interrupt, and begin anew with the draft and what is queued."""
        if not self.busy:
            self.enter()
        elif not self.line.replying:
            self.enter()
            if self.queued:
                self.interrupt()

    def take_back(self) -> bool:
        """The last queued message, into the line again; False where there is none."""
        while self.queued:
            text = self.queued[-1]
            if self.session.take_back(text) or text.startswith("/"):
                self.queued.pop()
                self.line.put_back(text)
                return True
            return False
        return False

    def interrupt(self) -> None:
        self.stopping = True
        self.session.interrupt()
        if self.ask is not None:
            ask, self.ask = self.ask, None
            self.line.give_back()
            ask.waiting.cancel()
        self.app.redraw()

    def escape(self) -> None:
        if self.line.menu:
            self.line.close_menu()
        elif self.line.replying and not (self.ask and self.ask.free):
            self.line.give_back()
        elif self.busy:
            self.interrupt()

    def ctrl_c(self) -> None:
        """Back from a reply; interrupt; clear the draft; and pressed again at once: leave."""
        now = self._clock()
        again = now - self._ctrl_c_at <= TWICE
        self._ctrl_c_at = now
        self.line.close_menu()
        if self.line.replying and not again:
            self.line.give_back()
        elif again:
            self._exit()
        elif self.busy:
            self.interrupt()
        elif self.line.buffer.text:
            self.line.clear()
            self._ctrl_c_at = 0.0
        else:
            self._hint = "Ctrl-C again leaves, or Ctrl-D"
            self._forget_hint_later()

    def _forget_hint_later(self) -> None:
        def forget() -> None:
            self._hint = ""
            self.app.redraw()

        if self.app.loop is not None:
            self.app.loop.call_later(TWICE, forget)

    def leave(self) -> None:
        self._exit()

    def _exit(self) -> None:
        if self.app.is_running and not self.app.is_done:
            self.app.exit()

    def next_mode(self) -> None:
        self.session.next_mode()

    def say(self, text: str) -> None:
        """A line, from the thread that draws."""
        self._write(inert(text).split("\n"))
        self._draw_soon()

    # What is drawn.

    def _above(self) -> list[Line]:
        size = self.app.screen.get_size()
        width, room = size.columns - 1, max(1, size.rows - 4 - min(8, size.rows // 3))
        rows: list[Line] = []
        if self._hint:
            rows.append((("class:hint", clip(self._hint, width)),))
        if self.busy:
            rows.append(self._status(width))
        if self.ask is not None:
            rows += [(("class:ask", fitted(self.ask.bar, width)),)]
        room -= len(rows)
        queue = queue_lines(self.queued, width, min(4, room))
        todos = todo_lines(self.session.plan(), width, min(6, room - len(queue))) if self.busy else []
        room -= len(queue) + len(todos)
        tail = [*self.transcript.writer.tail(), *self.transcript.running()][-min(TAIL * 2, max(room, 0)) or 10**6 :]
        live = [fragments(row, width) for row in tail] if room > 0 else []
        gap: list[Line] = [()] if live and room > len(live) else []
        return [*live, *gap, *todos, *queue, *rows]

    def _status(self, width: int) -> Line:
        transcript = self.transcript
        seconds = self._clock() - self._began
        sent, received = transcript.turn.input, transcript.received
        return status_line(transcript.doing, seconds, sent, received, width, stopping=self.stopping)

    def _below(self) -> list[Line]:
        width = self.app.screen.get_size().columns - 1
        return [*self._menu(width), toolbar(self.session.toolbar(), width)]

    def _menu(self, width: int) -> list[Line]:
        menu, chosen = self.line.menu, self.line.chosen
        first = max(0, min(chosen - MENU // 2, len(menu) - MENU))
        longest = min(
            max((len(c.text) for c in menu), default=0) + 2, width // 2 if any(c.help for c in menu) else width
        )
        rows: list[Line] = []
        for number, choice in enumerate(menu[first : first + MENU], first):
            text = f"  {fitted(choice.text.strip(), longest)}".ljust(longest + 2) + choice.help
            rows.append((("class:chosen" if number == chosen else "class:dim", fitted(text, width)),))
        return rows

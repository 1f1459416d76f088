"""The application without a terminal: keys from a pipe, a screen in memory, a session without a model."""

from __future__ import annotations

import io
import select
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from prompt_toolkit.data_structures import Size
from prompt_toolkit.input.typeahead import clear_typeahead
from rich.console import Console

from agent_cli.kernel.events import ApprovalRequested, QuestionAsked
from agent_cli.kernel.runtime.completion import CommandEntry
from agent_cli.kernel.runtime.user_decision import UserDecision
from agent_cli.shells.terminal.app.app import TerminalApp
from agent_cli.shells.terminal.app.input_line import InputLine, ProjectHistory
from agent_cli.shells.terminal.app.output import AtomicOutput
from agent_cli.shells.terminal.app.question_panel import OpenDialog
from agent_cli.shells.terminal.dialogs.model import Dialog
from agent_cli.shells.terminal.render.theme import Colors
from agent_cli.shells.terminal.render.transcript import Transcript
from agent_cli.shells.terminal.slash import ExitRequestedError
from agent_tools.base import Effect
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.results import TodoItem
from tests.support.pipe_terminal import PipeTerminal

PATIENCE = 10.0


class Screen(AtomicOutput):
    """An output that keeps its writes."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.frames: list[str] = []
        self.size = Size(rows=rows, columns=columns)
        super().__init__(io.StringIO(), lambda: self.size)

    def put(self, data: bytes) -> None:
        self.frames.append(data.decode())

    def fileno(self) -> int:
        return 1

    @property
    def drawn(self) -> str:
        return "".join(self.frames)


class IdleSession:
    """A session: a message is work until it is interrupted or `finish` is called."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.inbox: list[str] = []
        self.asides: list[str] = []
        self.items: tuple[TodoItem, ...] = ()
        self.paused = False
        self.modes = 0
        self.proposal = ""
        self.agreed: dict[str, str] = {}
        self.token = CancelToken()
        self.job: Callable[[str], None] = lambda text: None
        self._done = threading.Event()
        self.at_work = False

    def send(self, text: str) -> None:
        if text == "/exit":
            raise ExitRequestedError
        self.token = CancelToken()
        self._done.clear()
        self.sent.append(text)
        self.at_work = True
        try:
            self.job(text)
            while not self._done.wait(0.005) and not self.token.cancelled:
                pass
        finally:
            self.at_work = False

    def finish(self) -> None:
        self._done.set()

    @property
    def finished(self) -> bool:
        return self._done.is_set()

    def knows(self, command: str) -> bool:
        return command == "/rewind"

    def is_command(self, text: str) -> bool:
        return self.may_aside(text) or (text[:1] in ("!", "#") and not text[1:2].isspace())

    def may_aside(self, text: str) -> bool:
        return text.startswith("/todos")

    def aside(self, text: str) -> None:
        self.asides.append(text)

    def interrupt(self) -> None:
        self.token.cancel()

    def retry_now(self) -> None:
        self.token.skip_pause()

    def queue(self, text: str) -> None:
        if not text.startswith("/") and not self.is_command(text):
            self.inbox.append(text)

    def unqueue(self, text: str) -> bool:
        if text not in self.inbox:
            return text.startswith("/") or self.is_command(text)
        self.inbox.remove(text)
        return True

    def keep(self, draft: str, queued: Sequence[str]) -> None:
        self.kept = draft, tuple(queued)

    def plan(self) -> Sequence[TodoItem]:
        return self.items

    def message_agent(self, text: str) -> bool:
        return False

    def plan_paused(self) -> bool:
        return self.paused

    def toolbar(self) -> Iterable[str]:
        return ["model", "default"]

    def status_line(self) -> str:
        return ""

    def next_mode(self) -> None:
        self.modes += 1

    def wakes(self) -> bool:
        return False

    def run_woken(self) -> None: ...

    def take_back(self) -> int:
        count, self.agreed = len(self.agreed), {}
        return count


class Stage:
    """The application while it runs on this thread; the story of a test runs on another."""

    def __init__(self, live: TerminalApp, session: IdleSession, screen: Screen, keys: PipeTerminal) -> None:
        self.live, self.session, self.screen, self._keys = live, session, screen, keys
        self.now = 1_000.0

    def press(self, text: str) -> None:
        """Keys in one burst of their own, as by hand or from a program."""
        self.until(self._is_quiet)
        self._keys.send_text(text)

    def rest(self) -> None:
        """Until all that was pressed has been read and handled, and what it sent has come to the session."""
        self.until(self._is_quiet)
        self._until_handled()
        self.until(lambda: self.session.at_work or not self.live.busy)

    def _is_quiet(self) -> bool:
        """Whether all that was pressed has been read, and the burst is over."""
        reader, quiet = self.live.app.reader, threading.Event()
        looked = threading.Event()

        def look() -> None:
            if not select.select([reader], [], [], 0)[0] and reader.between_bursts:
                quiet.set()
            looked.set()

        self.live.soon(look)
        looked.wait(0.1)
        return quiet.is_set()

    def answer(self, *keys: str) -> None:
        """Press keys, each in a read of its own and some time after the one before it."""
        for key in keys:
            self.now += 1.0
            self.press(key)
            self.rest()
        self.now += 1.0

    def until(self, holds: Callable[[], Any]) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, self.screen.drawn[-3000:]
            time.sleep(0.005)

    def settle(self) -> None:
        """Until all that was typed has been handled: a key that is only seen then."""
        mark = "\x1b[Z"
        modes = self.session.modes
        self.press(mark)
        self.until(lambda: self.session.modes > modes)
        self._until_handled()

    def _until_handled(self) -> None:
        """Until what follows a key whose handler has run has run, too: the loop is then at the next thing."""
        after = threading.Event()
        self.live.soon(after.set)
        self.until(after.is_set)

    def has(self, text: str) -> None:
        """The line, once it is this, and the time of its last key is noted: a story may change the time then."""
        self.until(lambda: self.live.line.buffer.text == text)
        self._until_handled()


def play(story: Callable[[Stage], None], **size: int) -> Stage:
    """Run a story against the application; the story ends it, or it is ended then."""
    session, screen = IdleSession(), Screen(**size)
    kept = io.StringIO()
    console = Console(file=kept, width=80, force_terminal=True, color_system="standard", soft_wrap=True)
    line = InputLine(
        ProjectHistory(None),
        lambda: [CommandEntry("help", "this list"), CommandEntry("mode", "the mode")],
        lambda: ("a.txt",),
    )
    errors: list[BaseException] = []
    with PipeTerminal() as keys:
        stages: list[Stage] = []
        transcript = Transcript(console, kept)
        live = TerminalApp(
            session,
            transcript,
            line,
            screen,
            Colors("dark", {}, color=True),
            terminal=keys.stdin,
            clock=lambda: stages[0].now if stages else 0.0,
        )
        stage = Stage(live, session, screen, keys)
        stages.append(stage)

        def tell() -> None:
            try:
                stage.until(lambda: screen.frames)
                story(stage)
            except BaseException as error:
                errors.append(error)
            finally:
                session.finish()
                live.leave_soon()

        thread = threading.Thread(target=tell, daemon=True)
        thread.start()
        live.run()
        thread.join(PATIENCE)
        clear_typeahead(live.app.reader)  # the descriptor of the pipe may be that of the next one
    if errors:
        raise errors[0]
    return stage


REQUEST = ApprovalRequested(
    "c1", "Bash", "Run: touch a", "runs a command", (Effect("run", "touch a"),), "/w", None, "Bash(touch a)", "h",
    grants="this command", keeps=True, trusts=True,
)  # fmt: skip


def decision(verdict: Any, text: str = "", **fields: Any) -> UserDecision:
    """A decision about `REQUEST`, or about a question made here."""
    return UserDecision("c1", "", verdict, text, **fields)


def asked_plan(data: dict[str, Any]) -> QuestionAsked:
    return QuestionAsked("c1", "plan", data)


def asked_review(data: dict[str, Any]) -> QuestionAsked:
    return QuestionAsked("c1", "review", data)


def asking(stage: Stage, dialog: Dialog, draft: str = "") -> list[Any]:
    """Begin with a message whose work asks; the list gets the answer. draft: what is in the line by then."""
    ask = OpenDialog(dialog)
    found: list[Any] = []

    def job(text: str) -> None:
        stage.live.soon(lambda: stage.live.line.set_text(draft))
        stage.live.bridge.emit(ask)
        try:
            found.append(ask.waiting.wait())
        except CancelledError:
            found.append("cancelled")

    stage.session.job = job
    stage.press("go\r")
    stage.until(lambda: stage.live.questions.ask is ask)
    return found


def later(stage: Stage, seconds: float = 1.0) -> None:
    stage.settle()
    stage.now += seconds

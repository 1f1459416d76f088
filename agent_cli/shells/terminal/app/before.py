"""The questions before a session, in the same panel as those of a session: each is an application of its own."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from agent_cli.kernel.redact import Redactor
from agent_cli.shells.terminal.app.app import TerminalApp
from agent_cli.shells.terminal.app.input_line import InputLine, ProjectHistory
from agent_cli.shells.terminal.app.output import AtomicOutput, terminal_size
from agent_cli.shells.terminal.app.protocol import appearance_for
from agent_cli.shells.terminal.app.question_panel import OpenDialog
from agent_cli.shells.terminal.dialogs.model import Dialog
from agent_cli.shells.terminal.dialogs.questions import Dialogs
from agent_cli.shells.terminal.render.console import make_console, print_prose
from agent_cli.shells.terminal.render.transcript import Transcript
from agent_cli.shells.terminal.repl import LineScreen
from agent_cli.shells.terminal.slash import ExitRequestedError
from agent_tools.cancel import CancelledError
from agent_tools.results import TodoItem


class NoSession:
    """What the screen sees of a session that has not begun: messages wait for it."""

    agreed: tuple[()] = ()
    proposal = ""

    def send(self, text: str) -> None: ...

    def knows(self, command: str) -> bool:
        return False

    is_command = may_aside = knows

    def aside(self, text: str) -> None: ...

    def interrupt(self) -> None: ...

    def retry_now(self) -> None: ...

    def queue(self, text: str) -> None: ...

    def unqueue(self, text: str) -> bool:
        return True

    def keep(self, draft: str, queued: Sequence[str]) -> None: ...

    def plan(self) -> Sequence[TodoItem]:
        return ()

    def message_agent(self, text: str) -> bool:
        return False

    def plan_paused(self) -> bool:
        return False

    def toolbar(self) -> Iterable[str]:
        return ()

    def status_line(self) -> str:
        return ""

    def next_mode(self) -> None: ...

    def wakes(self) -> bool:
        return False

    def run_woken(self) -> None: ...

    def take_back(self) -> int:
        return 0


class PanelDialogs(Dialogs):
    """Asks in the panel. What is typed and is no answer stays on the screen for the session: messages and a draft."""

    def __init__(self, screen: LineScreen, color: str) -> None:
        self._screen, self._console, self._color = screen, screen.console, color

    def say(self, text: str) -> None:
        print_prose(text, self._console)

    def put(self, dialog: Dialog) -> Any:
        kept = io.StringIO()
        console = make_console(self._color, os.environ, plain=False, file=kept)
        console.width = terminal_size().columns
        live = TerminalApp(
            NoSession(),
            Transcript(console, kept),
            InputLine(ProjectHistory(None), tuple, tuple),
            AtomicOutput(sys.stdout, terminal_size),
            self._screen.colors,
            look=appearance_for(os.environ).replace(before_session=True),
        )
        ask = OpenDialog(dialog)
        found: list[Any] = []

        def answer() -> None:
            live.bridge.emit(ask)
            try:
                found.append(ask.waiting.wait())
            except CancelledError:
                found.append(None)
            raise ExitRequestedError

        live.queued += self._screen.queued
        live.run_dialog(ask, answer)
        for line in live.take_rest():
            self._console.file.write(f"{line}\n")
        self._screen.queued = list(live.unsent)
        if (draft := live.line.draft) and Redactor({})(draft) == draft:
            self._screen.keep_draft(draft)
        return found[0] if found else None

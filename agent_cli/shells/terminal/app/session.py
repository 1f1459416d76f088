"""The session in the application: the same commands, questions and turns as the plain front end, on two threads."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from agent_cli import (
    ApprovalRequested,
    Config,
    Event,
    Layers,
    LiveSession,
    RunEnvironment,
    Session,
    ToolFinished,
    TurnStarted,
    UsageError,
    UserDecision,
)
from agent_cli.kernel.events import unwrap
from agent_cli.kernel.runtime.completion import ArgumentValue, CommandEntry, FileNames
from agent_cli.kernel.runtime.environment import has_changes
from agent_cli.kernel.runtime.session_commands import is_slash
from agent_cli.kernel.session.history import Exchange
from agent_cli.shells.terminal.app.app import TerminalApp
from agent_cli.shells.terminal.app.drafts import Drafts
from agent_cli.shells.terminal.app.input_line import InputLine, ProjectHistory
from agent_cli.shells.terminal.app.key_reader import NEWLINE
from agent_cli.shells.terminal.app.layout import context_field, mode_field
from agent_cli.shells.terminal.app.output import AtomicOutput, terminal_size
from agent_cli.shells.terminal.app.protocol import appearance_for
from agent_cli.shells.terminal.app.question_panel import OpenDialog
from agent_cli.shells.terminal.app.status_bar import Branch, StatusLine, session_facts
from agent_cli.shells.terminal.app.worker import Printed, Sink, UserEcho
from agent_cli.shells.terminal.dialogs.model import Dialog
from agent_cli.shells.terminal.dialogs.view import Chosen, View, ViewState
from agent_cli.shells.terminal.editor import NO_EDITOR, edit_text
from agent_cli.shells.terminal.key_map import KeyMap
from agent_cli.shells.terminal.line_input import run_interruptible
from agent_cli.shells.terminal.render.ansi import supports_links, truncate_cells
from agent_cli.shells.terminal.render.console import MARGIN, make_console
from agent_cli.shells.terminal.render.theme import is_multiplexer, may_ask_background
from agent_cli.shells.terminal.render.transcript import Transcript, folded_turn
from agent_cli.shells.terminal.repl import LineScreen, Repl
from agent_cli.shells.terminal.slash import (
    BuiltinCommand,
    builtin_commands,
    default_order,
    find_command,
    is_bang,
    may_run_during_turn,
    parse_note,
)
from agent_cli.shells.terminal.startup import greet_resumed
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.results import TodoItem
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.secret_patterns import without_secrets
from agent_tools.shell.jobs import Job, Jobs
from agent_tools.text import counted, dollars, one_line, short_duration, shorten

# Seconds for which the values of an argument are cached while it is typed.
_VALUES_SECONDS = 3.0

# Cells of the model's name in the toolbar.
_LABEL_CELLS = 28
# Those of the editor's name.
_EDITOR_CELLS = 20

# Modes that Shift-Tab cycles through.
CYCLED_MODES = ("default", "acceptEdits", "plan")


class AppRepl(Repl):
    """A session with the application as its screen."""

    show: Transcript
    _margin = MARGIN

    def __init__(
        self, config: Config, run_env: RunEnvironment, layers: Layers, screen: LineScreen, *, first: bool
    ) -> None:
        settings = layers.settings()
        self._key_map = KeyMap(settings.terminal.keys, NEWLINE)
        super().__init__(config, run_env, layers, screen, first=first)
        # True once the application has the terminal; until then output is printed.
        self._drawing = False
        # The session as the worker's thread knows it: the screen may be behind.
        self._asking = LiveSession()
        self._files: FileNames | None = None
        self._status: StatusLine | None = None
        self._drafts_by_session: dict[str, Drafts] = {}
        # Command, time and result of the latest listing of argument values.
        self._arguments: tuple[str, float, list[ArgumentValue]] = ("", 0.0, [])
        links = supports_links(os.environ)
        history = ProjectHistory(self.agent.store.folder / "input.history" if settings.save_sessions else None)
        self.live = TerminalApp(
            self,
            self.show,
            InputLine(history, self._commands, self._file_names, self.pictures),
            AtomicOutput(sys.stdout, terminal_size),
            screen.colors,
            look=appearance_for(os.environ).replace(
                title=True,
                vim=settings.terminal.vim,
                notify=settings.terminal.notify,
                # A multiplexer has a clipboard of its own, which it may paste without marks.
                ask_paste=may_ask_background(os.environ) and not is_multiplexer(os.environ),
                links=self.run_env.root if links else None,
            ),
            key_map=self._key_map,
        )
        self._branch = Branch(
            self.run_env.cwd,
            lambda: has_changes(self.run_env, self.layers),
            lambda: self.live.soon(self.live.draw_soon),
        )

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        return self._key_map.rows()

    @property
    def has_menus(self) -> bool:
        return True

    @property
    def mode_key(self) -> str:
        return self._key_map.format_keys("mode") or "/mode"

    def _build(self, config: Config) -> Session:
        agent = super()._build(config)
        agent.tool_context.supply(Jobs(self._job_ended))
        agent.when_reported(lambda: self.live.soon(self.live.wake))
        agent.outlive_turns(self.show_event, self._agent_ended)
        return agent

    def _open_screen(self) -> Transcript:
        kept = io.StringIO()
        console = make_console(self.layers.settings().color, os.environ, plain=False, file=kept)
        return Transcript(console, kept, self.plan, verbose=self._screen.verbose)

    def run(self, first: str) -> int:
        """Greet, run the application until the user leaves, and print how to resume."""
        self._drawing = True
        outside = self._console
        sink: Any = Sink(self.live.bridge)
        foreign: Any = Sink(self.live.bridge, foreign=True)
        self._console = make_console(self.layers.settings().color, os.environ, plain=False, file=sink)
        # Drawn by the application, which asks the terminal for its background first.
        self._greet()
        greet_resumed(self)
        self._look_for_editor()
        left = self._drafts().recovered(resumed=self.agent.restored is not None)
        messages = self._waiting_messages(first)
        first = messages.pop(0) if messages else ""
        for message in messages:
            self.live.queue(message)
        if draft := "\n".join(filter(None, (left, self._screen.draft))):
            self.live.line.set_text(draft)
        if draft or messages:
            self.keep(draft, messages)
        if left:
            self.say("  your unsent input is in the line again")
        waits = self.agent.restored is not None and self.agent.restored.waiting is not None
        ended: list[int] = []
        try:
            with redirect_stdout(foreign), redirect_stderr(foreign), self._handle_signals() as ended:
                self.live.run((lambda: self._begin(first)) if waits or first else None)
        finally:
            for drafts in self._drafts_by_session.values():
                drafts.close(left=not ended)
            self._console = outside
            for line in self.live.take_rest():
                outside.file.write(f"{line}\n")
        self._margin = ""
        self._farewell()
        return 128 + ended[0] if ended else 0

    def _waiting_messages(self, first: str) -> list[str]:
        """Return the prompt, and the messages that were sent before there was a session."""
        for message in self._screen.queued:
            self.live.line.history.add(message)
        return [*filter(str.strip, [first]), *self._screen.queued]

    def _drafts(self) -> Drafts:
        """Return the drafts of the current session, which /clear may have changed."""
        session_id = self.agent.session_id
        if session_id not in self._drafts_by_session:
            self._drafts_by_session[session_id] = Drafts(self.agent.store.folder, session_id)
        return self._drafts_by_session[session_id]

    @contextmanager
    def _handle_signals(self) -> Iterator[list[int]]:
        """Leave in order on SIGHUP or SIGTERM, so that the terminal is restored; yield the signals received."""
        ended: list[int] = []

        def on_signal(number: int, frame: object) -> None:
            ended.append(number)
            self.live.leave_soon()

        before = {number: signal.signal(number, on_signal) for number in (signal.SIGHUP, signal.SIGTERM)}
        try:
            yield ended
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _begin(self, first: str) -> None:
        self._resume_waiting()
        if first:
            self.live.bridge.emit(UserEcho(first))
            self.send(first)

    def run_interruptible(self, run: Callable[[], object]) -> None:
        run()

    def show_event(self, event: Event) -> None:
        """Send an event to the screen; on the worker's thread."""
        if not self._drawing:
            super().show_event(event)
            return
        if isinstance(event, TurnStarted) and self.live.stopping:
            self.interrupt()
        self._asking.apply(event)
        self.note_end(event)
        self.live.bridge.emit(event)
        if isinstance(unwrap(event), ToolFinished):
            self.live.soon(self._branch.check)

    @property
    def _asked_view(self) -> LiveSession:
        return self._asking if self._drawing else self.show.view

    def _job_ended(self, job: Job) -> None:
        """Report that a background job has ended by itself; on the thread that watched it."""
        if job.ending is not None and job.ending.cause in ("exit", "time-out"):
            self.say(f"  job {job.id} ended: {job.state}, {short_duration(job.elapsed)} ({shorten(job.command, 60)})")
        self.live.soon(self.live.draw_soon)
        self.live.soon(self.live.wake)

    def _agent_ended(self, agent: Any) -> None:
        """Report that a sub-agent in the background has ended by itself; on its thread."""
        self.say(f"  {agent.name} ended: {one_line(agent.task)}")

    def show_earlier(self, exchanges: Sequence[Exchange], earlier: int) -> None:
        """Show as many of the last turns as fit on two screens, at least one."""
        size = terminal_size()
        lines: list[str] = []
        for index in range(len(exchanges) - 1, -1, -1):
            turn = self._fold_turn(exchanges[index])
            if lines and len(lines) + len(turn) > 2 * size.rows:
                earlier += index + 1
                break
            lines = [*turn, *lines]
        above = [f"\x1b[2m  … {counted(earlier, 'earlier turn')}\x1b[0m"] if earlier else []
        self.live.bridge.emit(Printed("\n".join([*above, *lines, ""])))

        # At the start nothing is drawn yet, and this thread is the only one.
        later = self.live.soon if self.live.app.loop is not None else lambda run: run()
        later(lambda: self._keep_details(exchanges))

    def _keep_details(self, exchanges: Sequence[Exchange]) -> None:
        view = LiveSession()
        for event in (event for exchange in exchanges for event in exchange.events):
            self.live.transcript.details.show(view.follow(event))

    def _fold_turn(self, exchange: Exchange) -> list[str]:
        """Return the lines of a turn, without the output of its calls."""
        kept = io.StringIO()
        console = make_console(self.layers.settings().color, os.environ, plain=False, file=kept)
        console.width = terminal_size().columns
        return folded_turn(exchange.parts(), console, kept)

    def put(self, dialog: Dialog) -> Any:
        return self._put(OpenDialog(dialog, stays=self._asking_agent() is not None))

    def _asking_agent(self) -> CancelToken | None:
        """Return the token of the sub-agent in the background that asks, on its thread; None for the turn."""
        return self.agent.background.cancel_of_thread() if self.agent.background is not None else None

    def _put(self, ask: OpenDialog) -> Any:
        """Ask; a question of a sub-agent in the background is withdrawn if that is stopped."""
        cancel = self._asking_agent()
        forget = cancel.on_cancel(lambda: self.live.soon(lambda: self.live.questions.withdraw(ask))) if cancel else None
        self.live.bridge.emit(ask)
        try:
            return ask.waiting.wait()
        finally:
            if forget is not None:
                forget()

    def put_call(self, dialog: Dialog, request: ApprovalRequested) -> Any:
        """Ask about a call, in the editor as well if it can show the change: the first answer counts."""
        asks: list[OpenDialog] = []

        def decided_there(decision: UserDecision) -> None:
            self.live.soon(lambda: self.live.questions.answer_outside(asks[0], decision))

        shown = self.agent.ide.propose(request, decided_there)
        if shown is None:
            return self.put(dialog)
        about = " · ".join(filter(None, (dialog.about, f"also shown in {shown.editor}")))
        asks.append(OpenDialog(dialog.replace(about=about), stays=self._asking_agent() is not None))
        shown.begin()
        try:
            return self._put(asks[0])
        finally:
            shown.end()

    def show_editor(self) -> None:
        self.live.soon(self.live.draw_soon)

    def take_mention(self, text: str) -> None:
        line = self.live.line

        def put() -> None:
            if not line.replying:
                line.buffer.insert_text(f"{text} ")
                self.live.draw_soon()

        self.live.soon(put)

    def switch_theme(self, theme: str) -> None:
        super().switch_theme(theme)
        self.live.soon(self.live.draw_soon)

    def switch_vim(self) -> bool | None:
        on = not self.live.look.vim
        self.live.change_appearance(vim=on)
        return on

    def watch(self, rows: Callable[[int, int], Sequence[str]]) -> None:
        self.live.soon(lambda: self.live.show_panel(rows, stays=True))

    def send_sequence(self, sequence: str) -> bool:
        self.live.soon(lambda: self.live.send_quietly(sequence))
        return True

    def outside(self, run: Callable[[], Any]) -> Any:
        return self.live.outside(lambda: run_interruptible(run))

    def edit(self, text: str, suffix: str = ".md") -> str | None:
        changed: str | None = self.live.outside(lambda: edit_text(text, suffix))
        if changed is None:
            self.say(NO_EDITOR)
        return changed

    def propose_message(self, text: str) -> None:
        line = self.live.line

        def put() -> None:
            if not line.buffer.text and not line.replying:
                line.set_text(text)
                self.live.draw_soon()

        self.live.soon(put)

    def show_view(self, view: View) -> Chosen | None:
        return self.live.show_view(ViewState(view))

    def pick_from(self, view: View) -> Chosen | None:
        return self.show_view(view)

    # The `ScreenSession` interface.

    def send(self, text: str) -> None:
        try:
            self.handle_input(text)
        except UsageError as mistake:
            self.say(str(mistake))
        except CancelledError:
            pass  # a command's question was interrupted
        if self._files is not None:
            self._files.mark_stale()
        self.live.soon(self._branch.check)

    def run_woken(self) -> None:
        super().run_woken()
        self.live.soon(self._branch.check)

    def say(self, text: str) -> None:
        """Show lines in the margin of text."""
        margin = self._margin
        super().say("\n".join(line if line.startswith(margin) else f"{margin}{line}" for line in text.split("\n")))

    def knows(self, command: str) -> bool:
        return find_command(command.removeprefix("/")) is not None

    def is_command(self, text: str) -> bool:
        name = text[1:].partition(" ")[0]
        if text.startswith("/"):
            return self.knows(name) or name in self.agent.commands
        return not text[1:2].isspace() and (is_bang(text) or bool(parse_note(text)))

    def may_aside(self, text: str) -> bool:
        return may_run_during_turn(text)

    def aside(self, text: str) -> None:
        try:
            self.run_command(text)
        except UsageError as mistake:
            self.say(str(mistake))
        except CancelledError:
            pass

    def interrupt(self) -> None:
        self.agent.interrupt()

    def message_agent(self, text: str) -> bool:
        return self.agent.message_agent(text)

    def retry_now(self) -> None:
        self.agent.retry_now()

    def queue(self, text: str) -> None:
        if not self._waits_for_end(text):
            self.agent.inbox.append(text)

    def unqueue(self, text: str) -> bool:
        try:
            self.agent.inbox.remove(text)
        except ValueError:
            return self._waits_for_end(text)
        return True

    def _waits_for_end(self, text: str) -> bool:
        """Return True if a line waits for the end of the turn: a command, shell command, note, or one with images."""
        command = is_slash(text)
        workspace = self.agent.tool_context.workspace
        pictures = self.pictures.images_in(text, workspace.cwd, workspace.start)
        return command or is_bang(text) or bool(parse_note(text)) or bool(pictures)

    def keep(self, draft: str, queued: Sequence[str]) -> None:
        if self.agent.settings.save_sessions:
            self._drafts().keep(draft, queued)

    def plan(self) -> Sequence[TodoItem]:
        return self.agent.tool_context.plan

    def plan_paused(self) -> bool:
        return self.agent.plan_paused

    def next_mode(self) -> None:
        mode = self.agent.policy.mode
        self.switch_mode(
            CYCLED_MODES[(CYCLED_MODES.index(mode) + 1) % len(CYCLED_MODES)]
            if mode in CYCLED_MODES
            else CYCLED_MODES[0]
        )

    def toolbar(self) -> Iterable[str | tuple[str, str]]:
        agent, show = self.agent, self.show
        fields: list[str | tuple[str, str]] = [("class:danger", "NOT SAVED")] if agent.unsaved else []
        mode: str = agent.policy.mode
        if self.run_env.stage is not None:
            mode = "stage" if mode == "default" else mode
            fields += [("class:plan", "stage")] if mode != "stage" else []
        fields += [mode_field(mode, self.mode_key)]
        fields += [truncate_cells(agent.label, _LABEL_CELLS)]
        running = sum(job.running for job in agent.tool_context.state(Jobs).all())
        running += len(agent.background.open) if agent.background is not None else 0
        fields += [counted(running, "job")] if running else []
        window = agent.context.size
        fields += [context_field(show.view.context, window)] if window or show.view.context else []
        if show.view.spent.reliable and show.view.spent.cost:
            fields.append(f"{'~' if show.view.spent.estimated else ''}{dollars(show.view.spent.cost)}")
        branch, editor = str(self._branch), shorten(agent.ide.name, _EDITOR_CELLS)
        return [*fields, *([branch] if branch else []), *([editor] if editor else []), *self._sandbox_field()]

    def _sandbox_field(self) -> list[str | tuple[str, str]]:
        """Return the sandbox field of the toolbar, once a command has needed the sandbox."""
        runner = self.agent.tool_context.supplied(SandboxRunner)
        if runner is None or runner.chosen is None:
            return []
        return (
            ["sandbox"]
            if runner.is_active
            else [("class:danger", "NO SANDBOX")]
            if runner.chosen.mode == "require"
            else []
        )

    def status_line(self) -> str:
        settings = self.layers.settings()
        command = settings.terminal.status_line
        if not command:
            return ""
        if self._status is None:
            env = without_secrets(os.environ, settings.shell.env_pass)
            self._status = StatusLine(command, env, str(self.run_env.cwd), lambda: self.live.soon(self.live.draw_soon))
        self._status.refresh(session_facts(self.agent, self.show), terminal_size().columns)
        return self._status.text

    def _commands(self) -> Iterable[CommandEntry]:
        from_command = self.agent.commands
        for name in self.command_picks.sorted(default_order({*builtin_commands(), *from_command})):
            if name in builtin_commands():
                yield self._entry(builtin_commands()[name])
            else:
                yield CommandEntry(name, from_command[name].description, from_command[name].hint)

    def _entry(self, command: BuiltinCommand) -> CommandEntry:
        values = command.values

        def listed() -> Iterable[ArgumentValue]:
            name, at, found = self._arguments
            if values is not None and (name != command.name or time.monotonic() - at > _VALUES_SECONDS):
                found = [(v, "") if isinstance(v, str) else v for v in values(self)]
                self._arguments = command.name, time.monotonic(), found
            return found

        return CommandEntry(
            command.name, command.help, command.usage, command.aliases, listed if values else None, command.strict
        )

    def _file_names(self) -> tuple[str, ...]:
        if self._files is None:
            context = self.agent.tool_context
            self._files = FileNames(self.run_env.cwd, context, self.live.refresh_menu)
        agents = self.agent.background.open if self.agent.background is not None else []
        return (*(agent.name for agent in agents), *self._files())

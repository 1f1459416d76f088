"""The session loop on a terminal, line by line: read a message, run the turn, show it, ask for approvals.

Ctrl-C during a turn interrupts it and keeps the conversation; at the prompt it clears the line. Ctrl-D leaves.
After a turn that failed or was stopped, a line says what it left; after a cancelled plan, an undo is offered.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from agent_cli import (
    Answer,
    ApprovalRequested,
    Approver,
    Asker,
    Complete,
    Config,
    Defer,
    Event,
    Layers,
    LiveSession,
    QuestionAsked,
    QuestionReply,
    RunEnvironment,
    Session,
    Suspended,
    TurnFinished,
    TurnResult,
    TurnStarted,
    Usage,
    UsageError,
)
from agent_cli.config.schema import Settings
from agent_cli.kernel.run_environment import has_color, is_dumb
from agent_cli.kernel.runtime.session_commands import is_slash
from agent_cli.kernel.runtime.titles import Titles
from agent_cli.kernel.runtime.user_decision import DecisionWord
from agent_cli.kernel.session.history import Exchange
from agent_cli.kernel.session.store import state_folder
from agent_cli.knowledge.template import missing_files
from agent_cli.shells.terminal import commands  # noqa: F401 - registers them
from agent_cli.shells.terminal.app.attachments import ImageAttachments, typed_images
from agent_cli.shells.terminal.dialogs.approval import are_alike, ask_approval, decided
from agent_cli.shells.terminal.dialogs.lines import LineDialogs
from agent_cli.shells.terminal.dialogs.model import Dialog
from agent_cli.shells.terminal.dialogs.questions import Dialogs, ask_question
from agent_cli.shells.terminal.line_input import is_line_waiting, read_line, read_rest_of_paste, run_interruptible
from agent_cli.shells.terminal.picks import Picks
from agent_cli.shells.terminal.render.code import display_lines
from agent_cli.shells.terminal.render.console import abbreviate_home, make_console, print_prose
from agent_cli.shells.terminal.render.events import EventRenderer
from agent_cli.shells.terminal.render.theme import Colors, ThemedStream
from agent_cli.shells.terminal.slash import (
    ExitRequestedError,
    as_command,
    find_command,
    is_bang,
    parse_note,
    run_slash,
)
from agent_cli.shells.terminal.startup import (
    TIPS,
    beginner_hint,
    farewell,
    first_approval_hint,
    first_rows,
    greet_resumed,
    greeting_lines,
    restore_mode,
    show_turns,
    tip,
    waiting_schedules,
)
from agent_tools.base import ToolError
from agent_tools.lazy import lazy_imports
from agent_tools.results import Display, TodoView
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.text import one_line

with lazy_imports():
    # Each is used when a user asks for something, not to show the prompt.
    from agent_cli.shells.terminal.commands import changes, context, login, memory, session
    from agent_cli.shells.terminal.render import markdown


def proposed_message(event: TurnFinished) -> str:
    """Return the message with which a user would continue after a turn; "" if it has left nothing."""
    if event.result == "Failed" or event.degraded or event.diagnostics.terminal_reason == "interrupted":
        return "continue" if event.diagnostics.terminal_reason != "cancelled" else ""
    if event.result == "MaxIterations":
        return "continue"
    # Without the commands, in backticks: others only ran, and nothing tells whether they failed.
    if "failed" in re.sub(r"`[^`]*`", "", event.verified) and event.changed_files:
        return "repair what the failed check reports"
    return "continue with the next step of the plan" if event.plan_unfinished else ""


def turn_outcome(result: TurnResult | None) -> Literal["well", "stopped", "badly"]:
    """Classify the end of a turn for offering an undo.

    badly: the user cancelled it at a plan.
    stopped: it failed, was interrupted, at a limit, or a call was rejected; users then prefer to give new instructions,
        or to continue, over answering another question.
    """
    if result is None or isinstance(result, Suspended):
        return "well"
    if result.end.diagnostics.terminal_reason == "cancelled":
        return "badly"
    refused = any(d.by == "person" for d in result.end.denials)
    return "well" if isinstance(result, Complete) and not result.degraded and not refused else "stopped"


START_DELAY_SECONDS = 0.5
BYPASS_WARNING = "bypassPermissions: commands and edits run without asking. Use this only in a container or on a copy."
# Rows printed of a panel, for which there is no live screen.
_MAX_PANEL_ROWS = 20


class LineScreen:
    """Standard output: a console on a stream with the theme applied."""

    def __init__(
        self, settings: Settings, home: Path | None, *, plain: bool = False, verbose: bool = False, worktree: str = ""
    ) -> None:
        """plain: no colours, no redrawing. verbose: print more. worktree: the name of the one worked in.

        Raises UsageError for an unknown theme.
        """
        self.verbose, self.worktree = verbose, worktree
        plain = plain or settings.terminal.plain or is_dumb(os.environ)
        color = has_color(settings.color, os.environ, plain=plain)
        # What was typed where no message was read, or pasted: the draft of the next message.
        self.draft = ""
        # Messages that were sent before there was a session, the oldest first.
        self.queued: list[str] = []
        self.colors = Colors(settings.terminal.theme, os.environ, home, color=color)
        self.stream = ThemedStream(sys.stdout, self.colors)
        self.console = make_console(settings.color, os.environ, plain=plain, file=self.stream)

    def keep_draft(self, text: str) -> None:
        """Add text to the draft of the next message."""
        self.draft = f"{self.draft}\n{text}".strip()

    def take_draft(self, line: str = "") -> str:
        """Return the draft with a line behind it; nothing of it is left."""
        text, self.draft = f"{self.draft}\n{line}".strip(), ""
        return text


class Repl(Dialogs):
    """A session and its message loop."""

    def __init__(
        self, config: Config, run_env: RunEnvironment, layers: Layers, screen: LineScreen, *, first: bool
    ) -> None:
        """first: it is the user's first session. Raises UsageError."""
        self.config, self.run_env, self.layers = config, run_env, layers
        self._screen, self._console, self._first = screen, screen.console, first
        self._hinted = False
        # The user leaves for a stage, or leaves this one.
        self.changes_stage = False
        # A message that would continue the work; "" if nothing is left.
        self.proposal = ""
        # What was decided about calls whose turn has not come, by call and what was shown of it.
        self.agreed: dict[tuple[str, str], DecisionWord] = {}
        self.pictures = ImageAttachments()
        saved = self.layers.settings().save_sessions
        self.command_picks = Picks(state_folder(os.environ) / "picks.json" if saved else None, "command")
        self.show = self._open_screen()
        self.agent = self._build(config)
        self._titles = Titles(self.add_usage)
        self._count_from_restored()

    # Blanks before the text that commands print.
    _margin = ""

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        """Keys and what they do, for /help."""
        return (("Ctrl-C, Ctrl-D", "interrupt a turn; leave"),)

    @property
    def has_menus(self) -> bool:
        return False

    @property
    def mode_key(self) -> str:
        """The key, or the command, that changes the mode."""
        return "/mode"

    def _open_screen(self) -> EventRenderer:
        """Return the event renderer."""
        return EventRenderer(self._console, verbose=self._screen.verbose)

    def _build(self, config: Config) -> Session:
        agent = Session.open(
            config, self.run_env, self._make_approver, self._warn,
            layers=self.layers, as_saved="waiting", attended=True,
        )  # fmt: skip
        agent.tool_context.user_types = True
        agent.deps.state.asks_in_turn = True
        waiting = agent.restored.waiting if agent.restored else None
        return restore_mode(agent, config) if waiting is None or not waiting.saved else agent

    def _make_approver(self, on_ask: str) -> tuple[Approver, Asker]:
        """Return approver and asker. A user is present, so `on_ask` is ignored."""
        return self._approve, self._ask

    def show_event(self, event: Event) -> None:
        """Show an event of the conversation; all events of all turns pass here."""
        self.note_end(event)
        self.show(event)

    def note_end(self, event: Event) -> None:
        """Note what a turn has left to do, until the next one begins."""
        if isinstance(event, TurnStarted):
            self.proposal = ""
        elif isinstance(event, TurnFinished):
            self.proposal = proposed_message(event)

    @property
    def _asked_view(self) -> LiveSession:
        """The session as the thread knows it that asks."""
        return self.show.view

    def _approve(self, request: ApprovalRequested) -> Answer:
        if self._first and not self._hinted:
            self._hinted = True
            sandbox = self.agent.tool_context.supplied(SandboxRunner)
            sandboxed = sandbox is not None and sandbox.is_boundary
            self.say(first_approval_hint(sandboxed=sandboxed, trusts=request.trusts))
        workspace, traits_of = self.agent.tool_context.workspace, self.agent.traits_of
        if verdict := self.agreed.pop((request.call_id, request.binding), None):
            return decided(request, verdict).answer_to(request, workspace, traits_of=traits_of)
        calls = [c.question for c in self._asked_view.asked_together(request.call_id)]
        asked = [question for question in calls if isinstance(question, ApprovalRequested)]
        place = next((n for n, question in enumerate(asked, 1) if question.call_id == request.call_id), 0)
        alike = [other for other in asked[place:] if are_alike(request, other)] if place else []

        def agree(verdict: DecisionWord) -> None:
            self.agreed = {(other.call_id, other.binding): verdict for other in alike}

        about = f"{place} of {len(asked)}" if len(asked) > 1 else self._asked_view.asked_for(request.call_id)
        return ask_approval(
            request, self.put, workspace, traits_of, about=about, alike=alike, agree=agree,
            put_call=lambda dialog: self.put_call(dialog, request),
        )  # fmt: skip

    def put_call(self, dialog: Dialog, request: ApprovalRequested) -> Any:
        """Ask about a call; return the answer."""
        return self.put(dialog)

    def take_back(self) -> int:
        """Forget the decisions about calls that have not begun, and ask again. Return how many there were."""
        count, self.agreed = len(self.agreed), {}
        return count

    def put(self, dialog: Dialog) -> Any:
        # The lines of a script are answers in their order; nobody is there to send a draft.
        keep = self._screen.keep_draft if sys.stdin.isatty() else None
        return LineDialogs(self._console, read_line, self._run_at_question, keep).put(dialog)

    def outside(self, run: Callable[[], Any]) -> Any:
        """Run something that reads and writes the terminal itself; return its result, None after Ctrl-C."""
        return run_interruptible(run)

    def _run_at_question(self, words: str) -> bool:
        """Run a slash command while a question is open, if that is allowed; return False if it is not a command."""
        command = find_command(name := words[1:].partition(" ")[0])
        if command is None:
            return False
        if not command.aside or command.name == "exit":
            self.say(f"/{name} cannot run while a question is open; answer it first, or press Ctrl-C")
            return True
        try:
            self.run_command(words)
        except UsageError as mistake:
            self.say(str(mistake))
        return True

    def run_command(self, line: str) -> None:
        """Run a slash command, and count its use. Raises ExitRequestedError, UsageError."""
        name = line[1:].partition(" ")[0]
        if (command := find_command(name)) is not None or name in self.agent.commands:
            self.command_picks.add(command.name if command else name)
        run_slash(self, line)

    def _warn(self, text: str) -> None:
        self.say(f"warning: {text}")

    def run(self, first: str) -> int:
        """Greet, process messages until the end, and print how to resume.

        No prompt is written if the input is a pipe.
        """
        mark = "> " if os.isatty(0) else ""
        with self._stderr_if_piped():
            self._greet()
            greet_resumed(self)
        self._look_for_editor()
        self._resume_waiting()
        if first.strip():
            self.say(f"> {first}")
            self.run_turn(first)
        while True:
            try:
                while self.wakes():
                    self.run_woken()
                text = self._read_message(mark)
                if text:
                    self.handle_input(text)
            except KeyboardInterrupt:
                dropped = self._screen.take_draft()
                self.say("The draft is dropped." if dropped else "(Ctrl-D or /exit leaves)")
            except (EOFError, ExitRequestedError):
                break
            except UsageError as mistake:
                self.say(str(mistake))
        with self._stderr_if_piped():
            self._farewell()
        return 0

    def _look_for_editor(self) -> None:
        """Connect to the editor of the workspace, in the background; for a script only if it is asked for."""
        if not (os.isatty(0) or self.config.ide):
            return
        self.agent.ide.on_mention = lambda mention: self.take_mention(self.agent.ide.spell(mention))
        self.agent.ide.on_connected = self.show_editor
        self.agent.ide.start()

    def show_editor(self) -> None:
        """Show that an editor is connected. On any thread."""

    def take_mention(self, text: str) -> None:
        """Take a file that the user sends from the editor: it is a part of the next message. On another thread."""
        self._screen.keep_draft(text)

    def _attach_selection(self) -> str:
        """Return what is selected in the editor for the next message, and name it on the screen."""
        attached = self.agent.ide.attach()
        if attached.said:
            self.say(f"  {attached.said}")
        return attached.block

    def _read_message(self, mark: str) -> str:
        """Return a line, or the draft with a line: only Enter at the prompt sends it. A paste joins the draft."""
        screen = self._screen
        while True:
            if screen.draft:
                self.say("  Your draft:")
                for line in screen.draft.split("\n"):
                    self.say(f"    {line}")
                self.say("  Enter sends it, with the line that you add to it; Ctrl-C drops it.")
            ahead = is_line_waiting()
            line = read_line(mark).strip()
            if not ahead and (rest := read_rest_of_paste()):
                screen.keep_draft(f"{line}\n{rest}")
            elif is_slash(as_command(line)) or is_bang(line):
                return line
            else:
                return screen.take_draft(line)

    @contextmanager
    def _stderr_if_piped(self) -> Iterator[None]:
        """Write to standard error if standard output is a file or a pipe, which gets only the conversation."""
        console = self._console
        if not os.isatty(1):
            self._console = make_console("never", os.environ, plain=True, file=sys.stderr)
        try:
            yield
        finally:
            self._console = console

    def _resume_waiting(self) -> None:
        """Ask about the open calls of a suspended turn, before any message."""
        waiting = self.agent.restored.waiting if self.agent.restored else None
        if waiting is None or not (waiting.calls or waiting.undecided):
            return
        if not waiting.calls and self.agent.background is not None and self.agent.background.outlive:
            self.agent.resume_agents()
            return
        self.agent.store.claim_plan(self.agent.session_id)
        count = len(waiting.undecided)
        what = "a call of this session waits" if count == 1 else f"{count} calls of this session wait"
        self.say(f"  {what} for you" if count else "  what was decided before is carried out now")
        conversation = self.agent
        self.run_interruptible(lambda: conversation.resume(self.show_event, waiting.spent))

    def handle_input(self, text: str) -> None:
        """Process a line: slash command, shell command, note or message. Raises ExitRequestedError, UsageError."""
        text = as_command(text)
        if is_slash(text):
            self.run_command(text)
        elif is_bang(text):
            self.run_interruptible(lambda: session.run_bang(self, text))
        elif note := parse_note(text):
            memory.take_note(self, note)
        elif self.agent.message_agent(text):
            self.say("  it reads this at its next step")
        else:
            self.run_turn(text)

    def run_turn(self, text: str) -> None:
        """Send a message and show its turn. Raises UsageError for an image that cannot be read.

        What cannot be sent is the draft again.
        """
        conversation = self.agent
        context = self.agent.tool_context
        pictures = self.pictures.images_in(text, context.workspace.cwd, context.workspace.start)
        for name in missing_files(text, context) if "@" in text and not pictures else ():
            self.say(f"  @{one_line(name)} is not a file that can be attached; it is sent as plain text")
        for path in typed_images(text, context.workspace.cwd, context.workspace.start):
            self.say(f"  attached {one_line(path.name)}")
        try:
            media = self.agent.attachments.images(map(str, pictures))
        except UsageError:
            self.propose_message(text)
            raise
        editor = self._attach_selection()
        self.agreed = {}
        try:
            self.run_interruptible(lambda: conversation.send(text, self.show_event, media, append=editor))
        except ToolError as error:
            self.say(str(error))
            self.propose_message(text)
        else:
            if os.isatty(0):
                login.offer_login(self)
            self._offer_undo()
        self.measure_context()
        self.agent.record_unsaid()
        self._titles.turn_ended(self.agent)

    def wakes(self) -> bool:
        """Return True if what ended in the background may start a turn now."""
        return self.agent.wakes(self.layers.settings().wake_turns)

    def run_woken(self) -> None:
        """Run a turn with what ended in the background."""
        reports = self.agent.take_reports()
        limit = self.layers.settings().wake_turns
        self.say(f"  continuing with what ended in the background ({self.agent.woken} of {limit}, see wake_turns)")
        self.run_interruptible(lambda: self.agent.send(reports, self.show_event, verbatim=True))
        self.measure_context()

    @property
    def usage(self) -> Usage:
        """Usage of the session."""
        return self.show.view.spent

    @property
    def context_tokens(self) -> int:
        """Tokens of the model's window in use."""
        return self.show.view.context

    def add_usage(self, usage: Usage) -> None:
        """Add usage outside of turns."""
        self.show.view.spent += usage

    def measure_context(self) -> None:
        """Measure the context if the window size is known, for providers that report no usage."""
        conversation = self.agent
        used, size = conversation.context.used()
        if size and conversation.history:
            self.show.view.context = used

    def _count_from_restored(self) -> None:
        """Continue the counts of a resumed session; a fork starts at zero."""
        restored = self.agent.restored
        same = restored is not None and restored.header.session_id == self.agent.session_id
        self.show.view.spent = restored.usage if restored is not None and same else Usage()
        self.show.view.context = restored.tokens if restored is not None else 0
        self.show.view.continue_from(context.logged_view(self) if restored is not None and restored.plan else None)
        self.measure_context()

    def _offer_undo(self) -> None:
        """After a turn that did not end well, say what it changed; offer to undo it if the user cancelled the turn."""
        ended = turn_outcome(self.agent.last)
        changed = self.agent.turn_changes if ended != "well" else ""
        if not changed:
            return
        if ended == "stopped" or not os.isatty(0) or self.agent.agents_at_work:
            self.say(f"  This turn left {changed}. /undo reverts that.")
            return
        self.say(f"  This turn left {changed}.")
        changes.roll_back(self)

    def run_interruptible(self, run: Callable[[], object]) -> None:
        """Run something with Ctrl-C as its interrupt; a third press raises KeyboardInterrupt."""
        conversation = self.agent
        pressed = 0

        def on_interrupt(number: int, frame: object) -> None:
            nonlocal pressed
            pressed += 1
            if pressed > 2:
                raise KeyboardInterrupt
            conversation.interrupt()

        before = signal.signal(signal.SIGINT, on_interrupt)
        try:
            run()
        finally:
            signal.signal(signal.SIGINT, before)

    def _greet(self) -> None:
        agent = self.agent
        mode = agent.policy.mode
        width = self._console.width - 1 if self.has_menus else 10_000
        folder = abbreviate_home(self.run_env.cwd, self.run_env.home)
        if self.has_menus:
            for row in first_rows(agent, folder, width):
                self._console.print(row)
        else:
            for line in greeting_lines(agent.model.name, mode, folder, width):
                self.say(line)
        for text in self.layers.ignored:
            self.say(f"  {one_line(text)}")
        if self._first:
            sandbox = agent.settings.sandbox
            self.say(beginner_hint(self.mode_key, width, unasked=sandbox.auto_allow is True and sandbox.mode != "off"))
        elif agent.restored is None:
            self.say(f"  Tip: {tip(agent, self.mode_key)}" if self.has_menus else f"  {TIPS[0]}")
        for text in waiting_schedules(self.run_env.env):
            self.say(f"  {text}")
        if mode == "bypassPermissions":
            self._warn(BYPASS_WARNING)
        if agent.mcp is not None:
            agent.mcp.report_changes()
        # Slow work starts after the prompt is shown.
        self.agent.start_background_work(START_DELAY_SECONDS)

    def change_stage(self) -> None:
        self.changes_stage = True
        raise ExitRequestedError

    def _farewell(self) -> None:
        self._titles.close()
        if self.changes_stage:
            return
        for line in farewell(self.agent, self._screen.worktree):
            self.say(line)

    def say(self, text: str) -> None:
        """Show a line; wrapped by words on a terminal."""
        print_prose(text, self._console)

    def show_earlier(self, exchanges: Sequence[Exchange], earlier: int) -> None:
        """Show turns of a resumed session, folded. earlier: number of turns before them."""
        show_turns(self.say, self._console, exchanges, earlier)

    def show_display(self, display: Display) -> None:
        """Show a display in full."""
        width = self._console.width if self._console.is_terminal else 0
        for line in display_lines(display, whole=True, width=width):
            self._console.print(line)

    def show_markdown(self, text: str) -> None:
        """Show text of the model that is not part of the transcript."""
        if not self._console.is_terminal:
            self.say(text)
            return
        stream = markdown.MarkdownStream(self._console.width - len(self._margin), color=not self._console.no_color)
        lines = [*stream.feed(text), *stream.finish()]
        self._console.file.write("".join(f"{self._margin if line else ''}{line}\n" for line in lines))

    def start_new_session(self) -> None:
        """Start a new session with the same configuration and choices. Raises UsageError."""
        before = self.agent
        self._change_session("clear")
        self._keep_choices(before)
        self.agent.mark_cleared()

    def resume(self, session_id: str) -> None:
        """Switch to another session. Raises UsageError and then changes nothing."""
        self._change_session(resume=session_id)
        greet_resumed(self)
        self._resume_waiting()

    def fork(self) -> str:
        """Continue in a copy of this session with the same choices; return the old ID. Raises UsageError."""
        before, old = self.agent, self.agent.session_id
        self._change_session(resume=old, fork=True)
        self._keep_choices(before)
        return old

    def _keep_choices(self, before: Session) -> None:
        """Take over what the user chose in the session before: mode, model, effort, rules and grants."""
        self.switch_mode(before.policy.mode)
        self.agent.policy.keep_session_rules(before.policy)
        chosen, conversation = before.options, self.agent
        if chosen.label != conversation.label:
            self.switch_model(chosen.label, "same")
        conversation.options = conversation.options.replace(effort=chosen.effort)

    def _change_session(self, why: str = "other", **changes: Any) -> None:
        """Switch to another session with the same configuration, except what selects a session.

        Raises UsageError and then changes nothing.
        """
        fresh = {"latest": False, "resume": None, "session_id": None, "fork": False, "images": ()}
        agent = self._build(self.config.replace(**fresh | changes))
        agent.ide.adopt(self.agent.ide)
        self.agent.close(why)
        self.agent = agent
        self._count_from_restored()
        agent.start_background_work(START_DELAY_SECONDS)

    def switch_model(self, name: str, source: str = "command") -> None:
        """Continue with another model. Raises UsageError."""
        self.agent.use_model(name, source, lambda question: self.confirm(question, grave=False))

    def _ask(self, asked: QuestionAsked) -> QuestionReply | Defer:
        workspace = self.agent.tool_context.workspace
        return ask_question(asked, self.put, workspace, self.layers.settings().plan_ttl, self.agent.check_mode)

    def switch_mode(self, mode: str) -> None:
        """Change the permission mode. Raises UsageError."""
        self.agent.use_mode(mode)

    def send_sequence(self, sequence: str) -> bool:
        """Send the terminal a sequence that draws nothing; return False if there is no such terminal."""
        if not self._console.is_terminal:
            return False
        self._screen.stream.write(sequence)
        self._screen.stream.flush()
        return True

    @property
    def theme(self) -> str:
        """Name of the theme."""
        return self._screen.colors.name

    def switch_theme(self, theme: str) -> None:
        """Change the theme for the rest of the session. Raises UsageError."""
        self._screen.colors.set_theme(theme)

    def switch_vim(self) -> bool | None:
        """Toggle vi keys in the input line; None if there is no line editor."""
        return None

    def watch(self, rows: Callable[[int, int], Sequence[str]]) -> None:
        for row in rows(self._console.width, _MAX_PANEL_ROWS):
            self.say(row)

    def show_plan(self) -> None:
        plan = self.agent.tool_context.plan
        if not plan:
            self.say("There is no plan.")
        elif self.agent.plan_paused:
            self.say("The plan of an earlier request is paused; ask to continue it:")
        for line in display_lines(TodoView(plan), words=not self._console.is_terminal):
            self._console.print(line)

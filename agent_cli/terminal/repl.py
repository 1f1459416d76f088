"""The session on a terminal, line by line: read a message, run the turn, show it, ask where a call needs a person.

Ctrl-C while a turn runs interrupts it and keeps the conversation; at the prompt it clears the line. Ctrl-D leaves.
"""

from __future__ import annotations

import os
import signal
from typing import cast

from agent_cli import __version__
from agent_cli.assembly import Agent, build, switch_model
from agent_cli.core.modes import Mode
from agent_cli.options import RunOptions
from agent_cli.place import Mistake, check_mode, find_place, read_settings
from agent_cli.session.store import SessionStore, state_folder
from agent_cli.terminal.approval import AskInLines
from agent_cli.terminal.asking import QuestionsInLines
from agent_cli.terminal.console import make_console, styled
from agent_cli.terminal.input import Input
from agent_cli.terminal.show import Show
from agent_cli.terminal.slash import Leave, run_slash
from agent_cli.terminal.views import lines_of
from agent_tools.display import TodoView


def run_repl(options: RunOptions) -> int:
    """A session until the person leaves; the exit code. Raises Mistake before it has begun."""
    repl = Repl(options)
    try:
        return repl.run(" ".join(options.prompt))
    finally:
        repl.agent.close()


class Repl:
    """The session's parts and the loop over messages."""

    def __init__(self, options: RunOptions) -> None:
        self.options = options
        self._place = find_place(os.environ)
        self._layers = read_settings(options, self._place)
        settings = self._layers.settings()
        plain = options.plain or os.environ.get("TERM", "") in ("", "dumb", "unknown")
        self._console = make_console(settings.color, os.environ, plain=plain)
        folder = SessionStore(state_folder(os.environ), self._place.root).folder
        keep = folder / "history" if settings.save_sessions else None
        self._input = Input(keep, plain=plain)
        self.show = Show(self._console, verbose=options.verbose)
        self.agent = self._build(options)

    def _build(self, options: RunOptions) -> Agent:
        approver = AskInLines(self._console, self._input.line)
        return build(
            options,
            self._place,
            self._layers,
            approver,
            lambda text: self.say(f"warning: {text}"),
            asker=QuestionsInLines(self._console, self._input.line),
            attended=True,
        )

    def run(self, first: str) -> int:
        """Greet, take messages until the end, say how to come back."""
        self._greet()
        if first.strip():
            self.say(f"> {first}")
            self._turn(first)
        while True:
            try:
                text = self._input.message("> ").strip()
                if text.startswith("/") and not text.startswith("//"):
                    run_slash(self, text)
                elif text:
                    self._turn(text)
            except KeyboardInterrupt:
                self.say("(Ctrl-D or /exit leaves)")
            except (EOFError, Leave):
                break
            except Mistake as mistake:
                self.say(str(mistake))
        self._farewell()
        return 0

    def _turn(self, text: str) -> None:
        conversation = self.agent.conversation
        pressed = 0

        def on_interrupt(number: int, frame: object) -> None:
            nonlocal pressed
            pressed += 1
            if pressed > 2:
                raise KeyboardInterrupt
            conversation.interrupt()

        before = signal.signal(signal.SIGINT, on_interrupt)
        try:
            conversation.say(text, self.show)
        finally:
            signal.signal(signal.SIGINT, before)

    def _greet(self) -> None:
        agent = self.agent
        mode = agent.conversation.kit.policy.mode
        self.say(f"agent {__version__} · {agent.model.name} · {mode} · {self._place.cwd}")
        for text in self._layers.ignored:
            self.say(f"  {text}")
        if agent.restored is not None:
            self.say(f"  restored {len(agent.restored.history)} messages of session {agent.header.session_id}")
        else:
            self.say("  /help lists the commands")

    def _farewell(self) -> None:
        if self.agent.conversation.history and self.agent.settings.save_sessions:
            self.say(f"To go on with this session: agent --resume {self.agent.header.session_id}")

    def say(self, text: str) -> None:
        self._console.print(styled(text))

    def start_over(self) -> None:
        """A new session with the same options. Raises Mistake."""
        fresh = self.options.but(continue_=False, resume=None, session_id=None, fork_session=False)
        agent = self._build(fresh)
        self.agent.close()
        self.agent = agent

    def switch_model(self, name: str) -> None:
        """Go on with another model. Raises Mistake."""
        switch_model(self.agent, name)

    def switch_mode(self, mode: str) -> None:
        """Change what is permitted. Raises Mistake."""
        check_mode(mode, os.environ)
        self.agent.conversation.kit.policy.mode = cast(Mode, mode)

    def show_plan(self) -> None:
        plan = self.agent.conversation.kit.context.plan
        if not plan:
            self.say("There is no plan.")
        for line in lines_of(TodoView(plan)):
            self._console.print(line)

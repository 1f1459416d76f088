"""Interfaces between the screen, its parts and the session; and the appearance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, Protocol

from agent_cli.shells.terminal.app.output import reflows
from agent_cli.shells.terminal.app.question_panel import QuestionHost, QuestionPanel
from agent_cli.shells.terminal.dialogs.view import View
from agent_cli.shells.terminal.render.theme import Palette, may_ask_background
from agent_tools.record import Value
from agent_tools.results import TodoItem


class Appearance(Value):
    """Appearance and editing mode of the screen: see the settings under [terminal].

    before_session: only a question is asked; messages wait for the session.
    """

    reflow: bool = False
    vim: bool = False
    title: bool = False
    notify: bool = True
    ask_background: bool = False
    ask_paste: bool = False
    before_session: bool = False
    markers: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
    # The folder whose files are linked; None: no links.
    links: Path | None = None


DEFAULT_APPEARANCE = Appearance()


def appearance_for(env: Mapping[str, str]) -> Appearance:
    """Return the appearance for a terminal, whatever is shown on it."""
    # The Linux console has no Braille characters.
    markers = "|/-\\" if env.get("TERM") == "linux" else DEFAULT_APPEARANCE.markers
    return Appearance(reflow=reflows(env), ask_background=may_ask_background(env), markers=markers)


# Returns the rows of a panel that fit the columns and rows it may take.
Panel = Callable[[int, int], Sequence[str]]


class ScreenSession(Protocol):
    """The session as seen by the screen. `send` runs on the worker's thread, the rest on the drawing thread."""

    def send(self, text: str) -> None:
        """Process a message or slash command to its end."""

    def knows(self, command: str) -> bool:
        """Return True if a slash command exists."""

    def is_command(self, text: str) -> bool:
        """Return True for a slash command that exists, a shell command, and a note."""

    def may_aside(self, text: str) -> bool:
        """Return True if a slash command may run during a turn."""

    def aside(self, text: str) -> None:
        """Run a slash command during a turn; on its own thread."""

    def interrupt(self) -> None: ...

    def retry_now(self) -> None:
        """Try the model again at once."""

    def queue(self, text: str) -> None:
        """Pass a message to the running turn for its next step, unless its kind waits for the end of the turn."""

    def unqueue(self, text: str) -> bool:
        """Remove a queued message; return False if the turn already has it."""

    def keep(self, draft: str, queued: Sequence[str]) -> None:
        """Save the unsent input, after each key, so that it survives a crash."""

    def plan(self) -> Sequence[TodoItem]: ...

    def message_agent(self, text: str) -> bool:
        """Pass a message to the sub-agent in the background that it names; return False if it names none."""

    def plan_paused(self) -> bool:
        """Return True if the plan belongs to an earlier request, not to the running turn."""

    def toolbar(self) -> Iterable[str | tuple[str, str]]:
        """Return the fields of the toolbar; a field that is not dim is a pair of style and text."""

    def status_line(self) -> str:
        """Return a custom toolbar line, which may contain only SGR sequences; "" for the default toolbar."""

    def next_mode(self) -> None: ...

    def wakes(self) -> bool:
        """Return True if what ended in the background may start a turn now."""

    def run_woken(self) -> None:
        """Run the turn that it starts; on the worker's thread."""

    @property
    def proposal(self) -> str:
        """A message that would continue the work; "" if nothing is left."""

    @property
    def agreed(self) -> Sized:
        """What was decided about calls whose turn has not come."""

    def take_back(self) -> int:
        """Ask for approval of these calls instead; return how many there were."""


class LiveScreen(QuestionHost, Protocol):
    """The screen as seen by the keys and the layout. Everything runs on the drawing thread."""

    session: ScreenSession
    questions: QuestionPanel
    queued: list[str]
    busy: bool
    hint: str
    look: Appearance
    clock: Callable[[], float]
    panel: Panel | None

    @property
    def palette(self) -> Palette:
        """The colours now."""

    @property
    def marker(self) -> object:
        """The moving marker; `str` returns its current sign."""

    @property
    def proposal(self) -> str:
        """The message that is offered in the empty line; "" for none."""

    @property
    def seconds(self) -> float:
        """Seconds of the current work, excluding the time of open questions."""

    def draw_soon(self) -> None:
        """Draw with the next frame."""

    def soon(self, run: Callable[[], object]) -> None:
        """Run on the drawing thread; from any thread."""

    def send(self, text: str) -> None:
        """Start work with a message; the worker must be idle."""

    def queue(self, text: str) -> None:
        """Queue a message for the next step, or for the end of the work."""

    def interrupt(self) -> None:
        """Stop the work; the conversation stays."""

    def outside(self, run: Callable[[], Any]) -> Any:
        """Run a program that needs the terminal and return its result; not from the drawing thread."""

    def page(self, text: str) -> None:
        """Show a long text in a view."""

    def aside(self, text: str, *, opens_view: bool = False) -> None:
        """Run a command on its own thread, also during a turn."""

    def suspend(self) -> None:
        """Stop the program until the shell continues it."""

    def open_view(self, view: View) -> None:
        """Show a view."""

    def hint_for(self, text: str, seconds: float) -> None:
        """Show a hint above the input line for some seconds."""

    def clear_hint(self) -> None:
        """Remove the hint."""

    def show_panel(self, panel: Panel, *, stays: bool = False) -> None:
        """Show rows below the input line until the next key; stays: until Esc."""

    def close_panel(self) -> bool:
        """Close the panel; return False if there is none."""

    def leave(self) -> None:
        """End the session."""

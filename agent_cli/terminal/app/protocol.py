"""What the screen needs of a session, what its parts need of the screen, and how it looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from agent_cli.terminal.app.question_panel import QuestionHost, QuestionPanel
from agent_tools.display import TodoItem
from agent_tools.record import Value


class Appearance(Value):
    """How the screen looks and is typed in: see the settings under [terminal]."""

    theme: str = "dark"
    color: bool = True
    reflow: bool = False
    vim: bool = False
    title: bool = False
    notify: bool = True


LOOK = Appearance()


class ScreenSession(Protocol):
    """What the screen needs of a session. `send` runs on the worker's thread, the rest on the screen's."""

    def send(self, text: str) -> None:
        """A message, or a slash command, to its end."""

    def knows(self, command: str) -> bool:
        """Whether there is such a slash command."""

    def may_aside(self, text: str) -> bool:
        """Whether a slash command may be given while a turn runs."""

    def aside(self, text: str) -> None:
        """Run one. On a thread of its own."""

    def interrupt(self) -> None: ...

    def queue(self, text: str) -> None:
        """Give a message to the running turn, for its next step, unless it is of a kind that waits for the end."""

    def take_back(self, text: str) -> bool:
        """Take it out again; False where the turn has it already."""

    def keep(self, draft: str, queued: Sequence[str]) -> None:
        """What is typed and not sent yet, after each key: to be there again after a crash."""

    def plan(self) -> Sequence[TodoItem]: ...

    def plan_paused(self) -> bool:
        """Whether the plan belongs to an earlier request and the running turn leaves it alone."""

    def toolbar(self) -> Iterable[str]: ...

    def status_line(self) -> str:
        """What stands in the toolbar instead: a line with SGR sequences and no others; "" for the usual."""

    def next_mode(self) -> None: ...


class LiveScreen(QuestionHost, Protocol):
    """What the keys and the layout need of the screen. All of it is on the thread that draws."""

    session: ScreenSession
    questions: QuestionPanel
    queued: list[str]
    busy: bool
    hint: str
    look: Appearance
    clock: Callable[[], float]

    @property
    def seconds(self) -> float:
        """How long the work has been going on."""

    def draw_soon(self) -> None:
        """Draw with the next frame."""

    def soon(self, run: Callable[[], object]) -> None:
        """Run on the thread that draws, from any."""

    def send(self, text: str) -> None:
        """Begin with a message; the work is idle."""

    def queue(self, text: str) -> None:
        """Have a message wait for the next step, or for the end of the work."""

    def interrupt(self) -> None:
        """Stop the work; the conversation is kept."""

    def outside(self, run: Callable[[], Any]) -> Any:
        """Run a program that needs the terminal; its result. From any thread but the one that draws."""

    def page(self, text: str) -> None:
        """Show a long text in the pager."""

    def hint_for(self, text: str, seconds: float) -> None:
        """Show a word above the line, for a while."""

    def clear_hint(self) -> None:
        """Remove that word."""

    def leave(self) -> None:
        """End the session."""

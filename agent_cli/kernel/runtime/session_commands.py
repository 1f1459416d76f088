"""Slash commands for front ends without a terminal: those that act on the session, and what is said of unknown ones.

All others are prompts, which the conversation expands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from agent_cli.kernel.engine.compaction.controls import ContextWindow
from agent_cli.kernel.engine.conversation import Conversation
from agent_cli.kernel.events import Event
from agent_tools.text import one_line

_MAX_SUGGESTIONS = 6


class CommandedSession(Protocol):
    """The session that the commands act on."""

    @property
    def conversation(self) -> Conversation: ...

    def clear(self) -> None: ...

    def cost_words(self) -> str: ...


# The names that `run_session_command` takes, for menus: what each does, and the hint about its words.
SESSION_COMMANDS = {
    "clear": ("begin a new session", ""),
    "compact": ("summarize the conversation", "[what to keep]"),
    "context": ("show what fills the context window", ""),
    "cost": ("show what the session cost", ""),
}


def run_session_command(session: CommandedSession, text: str, show: Callable[[Event], None]) -> str | None:
    """Run `/name words` and return the answer; None if it is not a command of the session."""
    name, _, words = text[1:].partition(" ")
    match name:
        case "clear" | "new" | "reset":
            session.clear()
            return ""
        case "compact":
            return ContextWindow(session.conversation).compact(show, words.strip()) or "Compacted."
        case "cost" | "usage":
            return session.cost_words()
        case "context":
            found = ContextWindow(session.conversation).usage()
            size = f" of {found.size:,}" if found.size else ""
            parts = "\n".join(f"- {part}: {count:,}" for part, count in found.parts)
            return f"Context: {found.used:,}{size} tokens\n\n{parts}"
    return None


def is_slash(text: str) -> bool:
    """Return True if a line is a slash command: not `//...`, and not a path such as `/etc/hosts`."""
    return text.startswith("/") and "/" not in text.partition(" ")[0][1:].partition("\n")[0]


def unknown_command(name: str, known: Sequence[str]) -> str:
    """Return the sentence for a name that no command has, with those that match."""
    near = [n for n in known if name and n.startswith(name)] or [n for n in known if len(name) > 1 and name in n]
    if not near:
        import difflib

        near = difflib.get_close_matches(name, known, 3)
    if not near:
        return f"Unknown command /{one_line(name)}. /help lists the commands."
    *most, last = (f"/{n}" for n in near[:_MAX_SUGGESTIONS])
    return f"Unknown command /{one_line(name)}. Did you mean {' or '.join(filter(None, (', '.join(most), last)))}?"

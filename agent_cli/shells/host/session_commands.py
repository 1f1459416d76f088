"""Slash commands that act on the session, in a message of a host or of -p. All others are prompts, which the
conversation expands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from agent_cli import Event
from agent_cli.kernel.engine.compaction.controls import compact_now, context_usage
from agent_cli.kernel.engine.conversation import Conversation


class CommandedSession(Protocol):
    """The session that the commands act on."""

    @property
    def conversation(self) -> Conversation: ...

    def clear(self) -> None: ...

    def cost_words(self) -> str: ...


def run_session_command(session: CommandedSession, text: str, show: Callable[[Event], None]) -> str | None:
    """Run `/name words` and return the answer; None if it is not a command of the session."""
    name, _, words = text[1:].partition(" ")
    match name:
        case "clear" | "new" | "reset":
            session.clear()
            return ""
        case "compact":
            return compact_now(session.conversation, show, words.strip()) or "Compacted."
        case "cost" | "usage":
            return session.cost_words()
        case "context":
            found = context_usage(session.conversation)
            size = f" of {found.size:,}" if found.size else ""
            parts = "\n".join(f"- {part}: {count:,}" for part, count in found.parts)
            return f"Context: {found.used:,}{size} tokens\n\n{parts}"
    return None

"""Going on with a session: what is shown of it first, and what is counted on from where it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_cli.core.events import Warned
from agent_cli.core.usage import Usage
from agent_cli.engine.context import context_used
from agent_cli.session.recent import exchange_of, last_exchange
from agent_cli.session.store import SessionStore, state_folder
from agent_tools.clipping import counted, shorten

if TYPE_CHECKING:
    from agent_cli.session.records import Restored
    from agent_cli.terminal.repl import Repl

# Lines of the user's message.
_LINES = 12
BROKE_OFF = "the last turn broke off here"


def adopt(repl: Repl) -> None:
    """Let what is counted go on from where the session was; a copy begins at nothing."""
    restored = repl.agent.restored
    same = restored is not None and restored.header.session_id == repl.agent.header.session_id
    repl.show.usage = restored.usage if restored is not None and same else Usage()
    repl.show.context_tokens = restored.tokens if restored is not None else 0
    measure(repl)


def measure(repl: Repl) -> None:
    """Have the toolbar say how full a window of known size is, also where no report of a provider's tells."""
    conversation = repl.agent.conversation
    used, size = context_used(conversation)
    if size and conversation.history:
        repl.show.context_tokens = used


def greet_back(repl: Repl) -> None:
    """Say what was restored, and show the last exchange as it was."""
    restored = repl.agent.restored
    if restored is None:
        return
    repl.say(f"  {restored_words(restored)}")
    log = SessionStore(state_folder(repl.place.env), repl.place.root).path(restored.header.session_id)
    exchange = last_exchange(log) or exchange_of(restored.history)
    if exchange is None:
        return
    lines = exchange.question.strip().splitlines()
    more = f"… {counted(len(lines) - _LINES, 'more line')}"
    for number, line in enumerate(lines[:_LINES] + ([more] if len(lines) > _LINES else [])):
        repl.say(f"{'  ' if number else '> '}{line}")
    if exchange.skipped:
        repl.say(f"  … {counted(exchange.skipped, 'earlier step')} of this turn")
    for event in exchange.events:
        repl.listener(event)
    if restored.last is None and restored.waiting is None:
        repl.listener(Warned(BROKE_OFF))


def restored_words(restored: Restored) -> str:
    """What there is of a session, on one line."""
    cost = f", ${restored.usage.cost:.4f} so far" if restored.usage.cost else ""
    tokens = f", {counted(restored.tokens, 'token')}" if restored.tokens else ""
    name = f": {shorten(restored.name, 60)}" if restored.name else ""
    messages = counted(len(restored.history), "message")
    return f"restored {messages}{tokens}{cost} of session {restored.header.session_id[:8]}{name}"

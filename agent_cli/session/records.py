"""What a session is, as values: its header, what is read back of it, and its line in a list."""

from __future__ import annotations

from agent_cli.core.messages import Message
from agent_cli.core.outcome import Diagnostics
from agent_cli.core.usage import Usage
from agent_tools.display import TodoItem
from agent_tools.values import Value


class Header(Value):
    """What a session is and what stays fixed in it: the first record.

    system: the whole system prompt, environment block included. tools: names, fixed at the first request.
    """

    session_id: str
    cwd: str
    root: str
    model: str
    system: str
    tools: tuple[str, ...]
    version: str
    forked_from: str = ""


class Restored(Value):
    """A session as read from disk. `bad` counts damaged records that were skipped; seq and parent continue the log."""

    header: Header
    history: tuple[Message, ...]
    seen: dict[str, str]
    plan: tuple[TodoItem, ...]
    usage: Usage
    last: Diagnostics | None
    seq: int
    parent: str
    created: str
    updated: str
    bad: int = 0


class SessionInfo(Value):
    """A line of `agent sessions list`."""

    session_id: str
    cwd: str
    model: str
    first_message: str
    messages: int
    cost: float
    pending: int
    created: str
    updated: str

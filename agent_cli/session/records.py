"""What a session is, as values: its header, what is read back of it, and its line in a list."""

from __future__ import annotations

from typing import Any

from agent_cli.core.events import ApprovalRequested, ApprovalResolved, QuestionAnswered, QuestionAsked
from agent_cli.core.messages import Message, ToolCall
from agent_cli.core.results import Diagnostics, Spent, Usage
from agent_cli.core.window import Compaction, UsageReport
from agent_tools.display import TodoItem
from agent_tools.record import Value
from agent_tools.shell.state import ShellSnapshot


class SessionNotFoundError(Exception):
    """There is no such session, or more than one fits; the message says so."""


class Header(Value, tag="Header"):
    """What a session is and what stays fixed in it: the first record.

    system: the whole system prompt, environment block included. tools: names, fixed at the first request. branch: the
    one that was checked out then.
    """

    session_id: str
    cwd: str
    root: str
    model: str
    system: str
    tools: tuple[str, ...]
    version: str
    forked_from: str = ""
    branch: str = ""


class Partial(Value, tag="Partial"):
    """A piece of an answer that was still coming; `start`: where it begins in the answer."""

    text: str
    start: int = 0


class Mended(Value, tag="Mended"):
    """The log was damaged and has been written anew: how many records were lost, how many numbers were missing then,
    under which name the file is kept as it was, and whether the session waited for a user then."""

    bad: int
    missing: int
    kept: str
    waiting: bool = False


class WaitingTurn(Value, tag="Waiting"):
    """A turn to be resumed: what is asked, what was already said, and how the turn goes on.

    requests and questions: by call id, for open calls only, those of sub-agents included (their histories: nested).
    decisions and answers: a user's, not carried out yet. asked_at: when the last of it was put to the user.
    by_model: what the turn has used so far.
    """

    calls: tuple[ToolCall, ...]
    requests: dict[str, ApprovalRequested]
    questions: dict[str, QuestionAsked]
    decisions: dict[str, ApprovalResolved]
    answers: dict[str, QuestionAnswered]
    spent: Spent
    mode: str
    grants: tuple[str, ...]
    saved: dict[str, Any]
    asked_at: str
    nested: dict[str, tuple[Message, ...]] = {}  # noqa: RUF012 - never changed
    nested_seen: dict[str, dict[str, str]] = {}  # noqa: RUF012 - never changed
    nested_shell: dict[str, ShellSnapshot] = {}  # noqa: RUF012 - never changed
    nested_compactions: dict[str, tuple[Compaction, ...]] = {}  # noqa: RUF012 - never changed
    kept: dict[str, Any] = {}  # noqa: RUF012 - never changed
    by_model: dict[str, Usage] = {}  # noqa: RUF012 - never changed

    @property
    def undecided(self) -> tuple[str, ...]:
        """The calls that a user still has to decide about."""
        return tuple(i for i in (*self.requests, *self.questions) if i not in self.decisions and i not in self.answers)

    @property
    def decided(self) -> tuple[str, ...]:
        """The calls that a user has decided about, which is not carried out yet."""
        return tuple(i for i in (*self.requests, *self.questions) if i in self.decisions or i in self.answers)


class Restored(Value):
    """A session as read from disk. `bad` counts records that were lost since it was last mended; seq and parent
    continue the log.

    last: the end of the last turn; None while it runs, or where it broke off. waiting: the turn that waits for a user,
    or for a decision to be carried out. interrupted: the turn that broke off otherwise. missing: the numbers of records
    that are not there, mended or not. rebuilt: the header was lost; this one holds what could be told from the rest.
    started: the open calls that had begun. tokens: what the conversation fills of a window; from the last model call,
    and estimated since. compactions, pins and report: what the model is shown of the history, see `Window`. plans: what
    the plan became, with how many messages there were then.
    name: what the session is called; empty where nobody named it.
    """

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
    waiting: WaitingTurn | None = None
    interrupted: WaitingTurn | None = None
    model: str = ""
    shell: ShellSnapshot | None = None
    compactions: tuple[Compaction, ...] = ()
    pins: tuple[str, ...] = ()
    report: UsageReport | None = None
    missing: int = 0
    rebuilt: bool = False
    started: frozenset[str] = frozenset()
    tokens: int = 0
    name: str = ""
    plans: tuple[tuple[int, tuple[TodoItem, ...]], ...] = ()


class SessionInfo(Value):
    """A line of `agent sessions list`. pending and completed: what calls do, in words; stage: see `story.Stage`.

    size: bytes on disk. name: empty where nobody named it.
    """

    session_id: str
    cwd: str
    model: str
    first_message: str
    query: str
    stage: str
    messages: int
    cost: float
    plan: tuple[TodoItem, ...]
    pending: tuple[str, ...]
    completed: tuple[str, ...]
    created: str
    updated: str
    name: str = ""
    branch: str = ""
    root: str = ""
    size: int = 0

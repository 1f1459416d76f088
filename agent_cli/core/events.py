"""What happens in a turn, as frozen plain data. Every front end and the session log read the same stream.

`LOGGED` are the events that are records; text deltas are not (the finished message is).
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from agent_cli.core.messages import Message
from agent_cli.core.results import Diagnostics, Failure, Spent, Usage
from agent_tools.base import Effect, ToolResult
from agent_tools.display import Display, TodoItem
from agent_tools.record import Value
from agent_tools.shell.state import ShellSnapshot

Decider = Literal["rule", "mode", "person", "hook", "default"]


def decider_word(by: str) -> str:
    """Return who decided, for output. Logs have an older word for the user."""
    return "user" if by == "person" else by


# Why a conversation is compacted: its window is full, the user asked, the provider refused it.
Trigger = Literal["auto", "manual", "too_long"]


class TurnStarted(Value, tag="TurnStarted"):
    """`saved` is what a suspended turn must be resumed with: settings, rules and flags, as plain data."""

    model: str
    mode: str
    saved: dict[str, Any] = {}  # noqa: RUF012 - never changed


class RoundStarted(Value, tag="RoundStarted"):
    round: int


class FirstChunk(Value):
    """The provider began to answer. `ms` since the request was sent."""

    ms: int


class TextDelta(Value):
    text: str


class ThinkingDelta(Value):
    text: str


class AnswerRestarted(Value):
    """The answer broke off and is asked for again: the text and thinking shown since the request are void."""


class MessageAdded(Value, tag="MessageAdded"):
    """The history grew. This is the record that sessions are rebuilt from."""

    message: Message


class ToolRequested(Value, tag="ToolRequested"):
    """The model asks for a call; `summary` is made from its arguments."""

    call_id: str
    tool: str
    arguments: dict[str, Any]
    summary: str


class ApprovalRequested(Value, tag="ApprovalRequested"):
    """A user is asked. `reason` says why the rules do not decide; `always` is the rule that "always" would add.

    `binding` is a hash of what is shown: arguments, working directory, targets and their contents. An approval holds
    for just that. facts: what was computed for the question, a line each. grants: what `always` would allow, in words.
    keeps: it could also be saved for the project. arguments: of the call, as the tool would run with them.
    """

    call_id: str
    tool: str
    summary: str
    reason: str
    effects: tuple[Effect, ...]
    cwd: str
    preview: Display | None = None
    always: str = ""
    binding: str = ""
    facts: tuple[str, ...] = ()
    grants: str = ""
    keeps: bool = False
    arguments: dict[str, Any] = {}  # noqa: RUF012 - never changed


class ApprovalResolved(Value, tag="ApprovalResolved"):
    """What was decided about a call, by whom, and in which words."""

    call_id: str
    decision: Literal["approve", "reject", "defer"]
    by: Decider
    reason: str = ""
    rule: str = ""
    binding: str = ""


class QuestionAsked(Value, tag="QuestionAsked"):
    """The model asks the user, or a plan wants approval, or what was done is to be looked at ("review").

    ran: what the call gave, where its tool ran and then asked; it is not run again when the answer comes.
    """

    call_id: str
    kind: Literal["questions", "plan", "review"]
    data: dict[str, Any]
    ran: ToolResult | None = None


class QuestionAnswered(Value, tag="QuestionAnswered"):
    """What the user said, or that nobody did yet ("defer")."""

    call_id: str
    verdict: Literal["answer", "approve", "revise", "undo", "cancel", "defer"]
    text: str = ""
    by: Decider = "person"
    mode: str = ""


class ToolStarted(Value, tag="ToolStarted"):
    """Logged and synced before the call runs, so that a crash can be told apart from "never ran"."""

    call_id: str
    tool: str


class ToolProgress(Value):
    call_id: str
    text: str


class ToolFinished(Value, tag="ToolFinished"):
    """`seen`: what the model now knows of files, path to fingerprint, as changed by this call. `shell`: where the next
    command starts and with which variables, where this call changed that."""

    call_id: str
    tool: str
    is_error: bool
    duration_ms: int
    display: Display | None = None
    seen: dict[str, str] = {}  # noqa: RUF012 - never changed
    shell: ShellSnapshot | None = None


class FilesSeen(Value, tag="FilesSeen"):
    """A message carried the whole text of files that it mentions; path to fingerprint."""

    seen: dict[str, str]


class TurnPaused(Value, tag="TurnPaused"):
    """The turn waits for a user. `spent` is what the resumed turn begins with, `kept` what holds in it then: what
    its prompts lent, and where its gates stand."""

    pending: int
    rounds_used: int
    rounds_left: int | None
    spent: Spent = Spent()
    mode: str = ""
    kept: dict[str, Any] = {}  # noqa: RUF012 - never changed


class Checkpoint(Value, tag="Checkpoint"):
    """A user is about to be asked. Should the program end before the answer, the turn is resumed with this, as with
    the fields of the same names in `TurnPaused`."""

    spent: Spent = Spent()
    mode: str = ""
    kept: dict[str, Any] = {}  # noqa: RUF012 - never changed


class TurnResumed(Value, tag="TurnResumed"):
    reason: str
    rounds_left: int | None


class PlanChanged(Value, tag="PlanChanged"):
    """The plan is now `items`. paused: it belongs to an earlier request, and this turn leaves it alone."""

    items: tuple[TodoItem, ...]
    paused: bool = False


class PlanContinued(Value, tag="PlanContinued"):
    round: int
    attempt: int
    text_length: int


class Compacting(Value):
    """The conversation is being summed up, which takes a model call. tokens: what it fills now."""

    trigger: Trigger
    tokens: int


class Compacted(Value, tag="Compacted"):
    """From here on the model is shown less of the history, which itself is as it was.

    kept: how many of the newest messages stay; `head` stands in the place of the `dropped` ones before them. cuts: the
    texts of shortened results by call. by: who wrote the summary; "" where only results were cut. restated: what the
    head holds beside the summary, in words. seen: what the model now knows of the files in it. usage: what the summary
    cost; a turn's own usage includes it.
    """

    trigger: Trigger
    kept: int
    dropped: int
    summary: str = ""
    head: tuple[Message, ...] = ()
    cuts: dict[str, str] = {}  # noqa: RUF012 - never changed
    tokens_before: int = 0
    tokens_after: int = 0
    by: Literal["model", "program", ""] = ""
    restated: tuple[str, ...] = ()
    seen: dict[str, str] = {}  # noqa: RUF012 - never changed
    usage: Usage = Usage()


class Uncompacted(Value, tag="Uncompacted"):
    """The latest compaction holds no more: the model is shown again what it took away."""

    tokens: int


class Pinned(Value, tag="Pinned"):
    """A message with this text is kept word for word by compactions; with `on` False, no more."""

    text: str
    on: bool = True


class Rewound(Value, tag="Rewound"):
    """The user went back: the history goes on after its first `messages`; `plan` is what it was there."""

    messages: int
    plan: tuple[TodoItem, ...] = ()


class HookStarted(Value):
    """A hook begins to run. name: the event, and what its matcher was compared with: "PreToolUse:Bash"."""

    hook_id: str
    event: str
    name: str
    command: str


class HookRan(Value, tag="HookRan"):
    """A hook has run. exit_code: None where it was ended. note: what was wrong with it, or why it said no.

    outcome: "blocked" where it said no; "cancelled" where it was ended. stdout and stderr are its beginnings.
    """

    event: str
    command: str
    exit_code: int | None
    duration_ms: int
    hook_id: str = ""
    name: str = ""
    source: str = ""
    outcome: Literal["success", "blocked", "error", "cancelled"] = "success"
    note: str = ""
    stdout: str = ""
    stderr: str = ""


class UsageAdded(Value, tag="UsageAdded"):
    """Once per model call. `cost` inside is unreliable where the model has no known price.

    aside: the call was not the conversation's own, so its tokens say nothing about the window.
    """

    model: str
    usage: Usage
    aside: bool = False


class SubagentEvent(Value, tag="SubagentEvent"):
    """An event of a nested turn; `call_id` is the Task call that it works for."""

    agent: str
    call_id: str
    event: "Event"  # noqa: UP037 - resolved when it is read back


class SessionNamed(Value, tag="SessionNamed"):
    """The session has a name from here on: the user's, or a title that `model` made, for `usage`."""

    name: str
    model: str = ""
    usage: Usage = Usage()


class Warned(Value, tag="Warned"):
    """Something a user should know; the turn goes on. wait: seconds until a failed model call is tried again."""

    text: str
    wait: float = 0.0


class TurnFinished(Value, tag="TurnFinished"):
    """The end, as the log keeps it. usage: of this part of the turn; earlier: of its parts before a pause."""

    result: Literal["Complete", "Suspended", "Failed", "MaxIterations"]
    diagnostics: Diagnostics
    usage: Usage
    text: str = ""
    degraded: bool = False
    failure: Failure | None = None
    denials: tuple[str, ...] = ()
    plan_unfinished: bool = False
    verified: str = ""
    changed_files: bool = False
    earlier: Usage = Usage()


Event = (
    TurnStarted
    | RoundStarted
    | FirstChunk
    | TextDelta
    | ThinkingDelta
    | AnswerRestarted
    | MessageAdded
    | ToolRequested
    | ApprovalRequested
    | ApprovalResolved
    | QuestionAsked
    | QuestionAnswered
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | FilesSeen
    | TurnPaused
    | Checkpoint
    | TurnResumed
    | PlanChanged
    | PlanContinued
    | Compacting
    | Compacted
    | Uncompacted
    | Pinned
    | Rewound
    | HookStarted
    | HookRan
    | UsageAdded
    | SubagentEvent
    | SessionNamed
    | Warned
    | TurnFinished
)
UNLOGGED = (TextDelta, ThinkingDelta, FirstChunk, AnswerRestarted, ToolProgress, Compacting, HookStarted)


def events_by_tag(names: str) -> dict[str, Any]:
    """The classes of these events, by tag. names: tags with blanks between. Raises KeyError for one that is none."""
    every = {cls._tag: cls for cls in get_args(Event)}
    return {name: every[name] for name in names.split()}


def unwrap(event: Event) -> Event:
    """The event itself, out of however many sub-agents it comes."""
    while isinstance(event, SubagentEvent):
        event = event.event
    return event

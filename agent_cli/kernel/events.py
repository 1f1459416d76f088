"""The events of a turn, as frozen plain data. Every front end and the session log read the same stream.

`UNLOGGED` are the events that are shown but not recorded, such as text deltas: the finished message is recorded.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from agent_cli.kernel.messages import Message
from agent_cli.kernel.results import Check, Diagnostics, Failure, Spent, Usage
from agent_tools.base import Effect, ToolResult
from agent_tools.record import Value
from agent_tools.results import Diff, Display, TodoItem
from agent_tools.shell.state import ShellSnapshot

Decider = Literal["rule", "mode", "person", "hook", "default"]
# What a rule that an approval adds holds for: this session, the project, or all runs of the schedule that started it.
RuleScope = Literal["session", "project", "schedule"]


def decider_word(by: str) -> str:
    """Return the word for who decided, for output. Logs have an older word for the user."""
    return "user" if by == "person" else by


# Why a compaction runs: the window is full; the user asked; the provider refused the request as too long, or without a
# known reason; old results are cleared.
Trigger = Literal["auto", "manual", "too_long", "refused", "clear"]


class TurnStarted(Value, tag="TurnStarted"):
    """A turn starts. saved: settings, rules and flags to resume it with, as JSON data."""

    model: str
    mode: str
    saved: dict[str, Any] = {}  # noqa: RUF012 - never changed


class RoundStarted(Value, tag="RoundStarted"):
    round: int


class PromptRead(Value):
    """A local server has read some of the tokens of the request."""

    read: int
    total: int


class FirstChunk(Value):
    """The provider began to answer, `ms` after the request was sent.

    id, model, usage: of the answer, as far as the provider has reported them by then.
    """

    ms: int
    id: str = ""
    model: str = ""
    usage: Usage = Usage()


class TextDelta(Value):
    text: str


class ThinkingDelta(Value):
    text: str


class ThinkingSigned(Value):
    """The thinking so far is signed; `data` is an encrypted block. Emitted only with `TurnOptions.pieces`."""

    signature: str = ""
    data: str = ""


class CallStarted(Value):
    """The model begins to write a call. Emitted only with `TurnOptions.pieces`."""

    call_id: str
    tool: str


class ArgumentsDelta(Value):
    """A piece of the JSON text of a call's arguments. Emitted only with `TurnOptions.pieces`."""

    call_id: str
    json: str


class AnswerRestarted(Value):
    """The answer broke off and is requested again: the text and thinking shown since the request are void."""


class MessageAdded(Value, tag="MessageAdded"):
    """A message was added to the history. Sessions are rebuilt from these records.

    uuids: UUIDs that came with the message, one per block; see `message_ids`.
    """

    message: Message
    uuids: tuple[str, ...] = ()


class ToolRequested(Value, tag="ToolRequested"):
    """The model requests a call; `summary` is made from its arguments."""

    call_id: str
    tool: str
    arguments: dict[str, Any]
    summary: str


class ApprovalRequested(Value, tag="ApprovalRequested"):
    """The user is asked to approve a call.

    reason: why the rules do not decide it.
    always: the rule that "always" would add; "" for none.
    binding: hash of what is shown (arguments, working directory, targets and their contents); an approval holds only
        for that.
    facts: computed facts for the question, one per line.
    grants: what `always` would allow, in words.
    keeps: the rule could also be saved for the project.
    trusts: saving it would also trust the project.
    scheduled: a schedule started the session, and the rule could be saved for it.
    arguments: of the call, as the tool would run with them.
    exact: a narrower rule than `always`, for this very command; "" for none.
    warnings: what the user should know before approving, most serious first, one per line.
    edits: the call edits files, and the mode acceptEdits would allow it.
    deferred: a hook deferred the call: the turn is suspended, and resuming it asks the hook again.
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
    exact: str = ""
    warnings: tuple[str, ...] = ()
    edits: bool = False
    deferred: bool = False
    trusts: bool = False
    scheduled: bool = False


# Reason of a rejection by a user who edited the call; the edited call is asked about again.
EDITED = "changed the arguments"


class ApprovalResolved(Value, tag="ApprovalResolved"):
    """A call was decided: how, by whom, and why.

    reason: the user's own words with an approval or a rejection.
    rule, scope: the rule that an approval adds, and for how long.
    mode: the permission mode that the user chose when approving; "" for none.
    user: name of the user who decided, where several can; "" at a terminal.
    arguments: what the call runs with instead of its own arguments; None for its own.
    change: what the model reads about these arguments; "" for the arguments themselves.
    """

    call_id: str
    decision: Literal["approve", "reject", "defer"]
    by: Decider
    reason: str = ""
    rule: str = ""
    binding: str = ""
    mode: str = ""
    user: str = ""
    scope: RuleScope = "session"
    arguments: dict[str, Any] | None = None
    change: str = ""


class QuestionAsked(Value, tag="QuestionAsked"):
    """The model asks the user, or a plan needs approval, or changes need a review.

    ran: the result of a tool that ran and then asked; it does not run again when the answer comes.
    """

    call_id: str
    kind: Literal["questions", "plan", "review"]
    data: dict[str, Any]
    ran: ToolResult | None = None


class QuestionAnswered(Value, tag="QuestionAnswered"):
    """The user's answer; "defer" if nobody answered yet.

    user: as in `ApprovalResolved`.
    plan: an approved plan as the user edited it; empty if they did not.
    """

    call_id: str
    verdict: Literal["answer", "approve", "revise", "undo", "cancel", "defer"]
    text: str = ""
    by: Decider = "person"
    mode: str = ""
    user: str = ""
    plan: dict[str, Any] = {}  # noqa: RUF012 - never changed


class ToolStarted(Value, tag="ToolStarted"):
    """A call starts. Logged and synced before it runs, so that a crash can be told apart from "never ran"."""

    call_id: str
    tool: str


class ToolProgress(Value):
    call_id: str
    text: str


class ToolFinished(Value, tag="ToolFinished"):
    """A call ended.

    seen: files that this call read or changed, path to fingerprint.
    shell: working directory and variables of later commands, if this call changed them.
    check: the check of the work that it ran, or that ended.
    changed: files that a command, or another program's tool, changed, without their patches.
    heads: the commits that were checked out before and after it, if it changed that.
    """

    call_id: str
    tool: str
    is_error: bool
    duration_ms: int
    display: Display | None = None
    seen: dict[str, str] = {}  # noqa: RUF012 - never changed
    shell: ShellSnapshot | None = None
    check: Check | None = None
    changed: tuple[Diff, ...] = ()
    heads: tuple[str, ...] = ()


class FilesSeen(Value, tag="FilesSeen"):
    """A message contained the text of files that it mentions, or results told how files changed; path to mark."""

    seen: dict[str, str]


class TurnPaused(Value, tag="TurnPaused"):
    """The turn is suspended until the user answers.

    spent: totals that the resumed turn starts from.
    kept: state of the turn to restore: overrides of its prompts, state of its gates.
    """

    pending: int
    rounds_used: int
    rounds_left: int | None
    spent: Spent = Spent()
    mode: str = ""
    kept: dict[str, Any] = {}  # noqa: RUF012 - never changed


class Checkpoint(Value, tag="Checkpoint"):
    """The user is about to be asked. If the program ends before the answer, the turn is resumed with these fields, as
    with those of `TurnPaused`.
    """

    spent: Spent = Spent()
    mode: str = ""
    kept: dict[str, Any] = {}  # noqa: RUF012 - never changed


class TurnResumed(Value, tag="TurnResumed"):
    reason: str
    rounds_left: int | None


class PlanChanged(Value, tag="PlanChanged"):
    """The plan changed to `items`. paused: it belongs to an earlier request, and this turn leaves it alone."""

    items: tuple[TodoItem, ...]
    paused: bool = False


class PlanContinued(Value, tag="PlanContinued"):
    round: int
    attempt: int
    text_length: int


class Compacting(Value):
    """The conversation, of this many tokens, is being summarized, which takes a model call."""

    trigger: Trigger
    tokens: int


class Compacted(Value, tag="Compacted"):
    """The model is shown less of the history from here on; the history itself is unchanged.

    kept: how many of the newest messages stay.
    dropped: how many messages before them are replaced by `head`.
    summary: the text of the summary.
    head: the messages that replace the dropped ones.
    cuts: texts of shortened results by call id.
    by: who wrote the summary; "" if only results were cut.
    restated: what the head contains besides the summary, in words.
    seen: fingerprints of the files in the head.
    usage: of the summary; a turn's own usage includes it.
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
    """The latest compaction was undone: the model is shown again what it removed."""

    tokens: int


class LeftOut(Value, tag="LeftOut"):
    """What requests to a model leave out from here on, as its provider refused it; the history itself is unchanged.

    It replaces what was left out for that model before.
    model: its label.
    reasoning: how many messages at the beginning of the history are sent without their reasoning; -1: all.
    media: digests of images and documents that are sent as a line of text (`Media.digest`).
    tools: names of tools that are not offered.
    """

    model: str
    reasoning: int = 0
    media: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


class Pinned(Value, tag="Pinned"):
    """Compactions carry a message with this text over verbatim; with `on` False, no longer."""

    text: str
    on: bool = True


class Rewound(Value, tag="Rewound"):
    """The user rewound the conversation to its first `messages`; `plan` is the plan at that point."""

    messages: int
    plan: tuple[TodoItem, ...] = ()


class HookStarted(Value):
    """A hook starts. name: the event, and what its matcher was compared with: "PreToolUse:Bash"."""

    hook_id: str
    event: str
    name: str
    command: str


class HookFinished(Value, tag="HookRan"):
    """A hook ended.

    exit_code: None if it was killed.
    source: where it is configured.
    outcome: "blocked" if it refused; "cancelled" if it was killed.
    note: its error, or the reason for its refusal.
    stdout, stderr: the beginning of its output.
    check: the check of the work that it was: the command of `after_turn`.
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
    check: Check | None = None

    @property
    def failed(self) -> bool:
        """True if the hook could not run, did not end in time, or gave an answer that is not understood."""
        return self.outcome in ("error", "cancelled")


class UsageAdded(Value, tag="UsageAdded"):
    """The usage of one model call. Its `cost` is unreliable if the model has no known price.

    aside: the call was outside the conversation, so its tokens do not count towards the window.
    of_turn: it counts towards the limits of a turn; False for the user's side questions.
    """

    model: str
    usage: Usage
    aside: bool = False
    of_turn: bool = True


class SubagentEvent(Value, tag="SubagentEvent"):
    """An event of a nested turn; `call_id` is the Task call that it works for.

    name: of a sub-agent in the background; "" for one that its call waits for.
    """

    agent: str
    call_id: str
    event: "Event"  # noqa: UP037 - resolved when it is read back
    name: str = ""


class SessionNamed(Value, tag="SessionNamed"):
    """The session got a name: the user's, or a title that `model` made, for `usage`."""

    name: str
    model: str = ""
    usage: Usage = Usage()


class Warned(Value, tag="Warned"):
    """A warning for the user; the turn continues. wait: seconds until a failed model call is retried."""

    text: str
    wait: float = 0.0


class ModelRetry(Value):
    """A failed model call is retried in `wait` seconds, for the `attempt`th of at most `attempts` times."""

    attempt: int
    attempts: int
    failure: Failure
    wait: float


class Noted(Value, tag="Noted"):
    """A notice that the program repaired or repeated a malformed answer."""

    text: str


class TurnFinished(Value, tag="TurnFinished"):
    """The turn ended. usage: of this part of the turn; earlier: of its parts before a suspension."""

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
    TurnStarted | RoundStarted | PromptRead | FirstChunk | TextDelta | ThinkingDelta | ThinkingSigned | CallStarted |
    ArgumentsDelta | AnswerRestarted | MessageAdded | ToolRequested | ApprovalRequested | ApprovalResolved |
    QuestionAsked | QuestionAnswered | ToolStarted | ToolProgress | ToolFinished | FilesSeen | TurnPaused | Checkpoint
    | TurnResumed | PlanChanged | PlanContinued | Compacting | Compacted | Uncompacted | Pinned | LeftOut |
    Rewound | HookStarted | HookFinished | UsageAdded | SubagentEvent | SessionNamed | Warned | Noted | ModelRetry
    | TurnFinished
)  # fmt: skip
UNLOGGED = (
    TextDelta, ThinkingDelta, ThinkingSigned, CallStarted, ArgumentsDelta, PromptRead, FirstChunk, AnswerRestarted,
    ToolProgress, Compacting, HookStarted, ModelRetry,
)  # fmt: skip
# After these, no more of an answer that was begun will come.
ENDS_ANSWER = (AnswerRestarted, MessageAdded, TurnFinished)
# After these, the log is synced: what follows may have effects, or nothing follows. After messages of the user, too.
SYNCED = (Checkpoint, ToolStarted, TurnFinished)

# What an event is about, in a word; that of a message depends on whose it is.
Kind = Literal[
    "", "text", "thinking", "piece", "first", "restarted", "message", "answer", "requested", "asked", "decided",
    "started", "output", "answered", "finished", "usage", "plan", "continued", "retry", "warning", "notice",
    "compacting", "compacted", "uncompacted", "pinned", "hook started", "hook", "begun", "round", "reading", "paused",
    "resumed", "ended", "rewound", "named",
]  # fmt: skip
KINDS: dict[type, Kind] = {
    TextDelta: "text", ThinkingDelta: "thinking",
    ThinkingSigned: "piece", CallStarted: "piece", ArgumentsDelta: "piece",
    FirstChunk: "first", AnswerRestarted: "restarted", ToolRequested: "requested", ApprovalRequested: "asked",
    QuestionAsked: "asked", ApprovalResolved: "decided", QuestionAnswered: "decided", ToolStarted: "started",
    ToolProgress: "output", ToolFinished: "finished", UsageAdded: "usage", PlanChanged: "plan",
    PlanContinued: "continued", ModelRetry: "retry", Warned: "warning", Noted: "notice", Compacting: "compacting",
    Compacted: "compacted", Uncompacted: "uncompacted", Pinned: "pinned", HookStarted: "hook started",
    HookFinished: "hook", TurnStarted: "begun", RoundStarted: "round", PromptRead: "reading", TurnPaused: "paused",
    TurnResumed: "resumed", TurnFinished: "ended", Rewound: "rewound", SessionNamed: "named",
}  # fmt: skip
PIECES = frozenset(("text", "thinking", "piece"))


def events_by_tag(names: str) -> dict[str, Any]:
    """Return the classes of events by tag. names: tags separated by spaces. Raises KeyError for an unknown one."""
    every = {cls._tag: cls for cls in get_args(Event)}
    return {name: every[name] for name in names.split()}


def unwrap(event: Event) -> Event:
    """Return the event itself, without the sub-agents it is wrapped in."""
    while isinstance(event, SubagentEvent):
        event = event.event
    return event

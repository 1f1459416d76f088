"""The bodies of requests and answers, by which requests are checked and the OpenAPI document is written."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from agent_cli import MODES
from agent_cli.kernel.events import RuleScope
from agent_cli.kernel.runtime.user_decision import DecisionWord, LineComment, with_comments

LongText = Annotated[str, StringConstraints(max_length=400_000)]
PromptText = Annotated[str, StringConstraints(min_length=1, max_length=400_000, pattern=r"\S")]
ShortText = Annotated[str, StringConstraints(max_length=200)]
ProjectText = Annotated[str, StringConstraints(max_length=4_000)]
SessionState = Literal["waiting", "running", "queued", "interrupted", "failed", "done", "idle"]
HunkIndexes = Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=10_000)]


class JsonBody(BaseModel):
    """A request: unknown fields are a mistake, and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


class TaskBudget(JsonBody):
    """Limits of each turn: dollars, model calls, seconds of work."""

    cost: Annotated[float, Field(gt=0, le=1e6)] | None = None
    rounds: Annotated[int, Field(ge=1, le=100_000)] | None = None
    seconds: Annotated[float, Field(gt=0, le=1e7)] | None = None


class CommentBody(JsonBody):
    """A comment on a line of a change; on the whole file without `line`. side: "old" for a removed line."""

    path: ProjectText
    text: Annotated[str, StringConstraints(min_length=1, max_length=20_000)]
    line: Annotated[int, Field(ge=0, le=1 << 31)] = 0
    side: Literal["new", "old"] = "new"

    def value(self) -> LineComment:
        return LineComment(self.path, self.text, self.line, self.side)


Comments = Annotated[list[CommentBody], Field(max_length=500)]
Uploads = Annotated[list[ShortText], Field(max_length=10)]


class StartBody(JsonBody):
    """A task to start.

    project: its ID, its name, or the path of its folder.
    folder: inside the project; by default the project itself.
    stage: work in a copy, and ask once for all changes at the end of a turn.
    """

    prompt: PromptText
    project: ProjectText
    folder: Annotated[str, StringConstraints(max_length=4_000)] = ""
    model: ShortText | None = None
    mode: Annotated[str, Field(json_schema_extra={"enum": list(MODES)})] | None = None
    name: ShortText | None = None
    worktree: bool = False
    stage: bool = False
    budget: TaskBudget = TaskBudget()
    uploads: Uploads = []


class MessageBody(JsonBody):
    """A message. how: "steer" sends it to the running turn, "queue" after it.

    comments: on lines of the changes. uploads: IDs of the files that it brings.
    """

    text: LongText = ""
    how: Literal["steer", "queue"] = "queue"
    comments: Comments = []
    uploads: Uploads = []

    def whole(self) -> str:
        """Return the text with the comments; "" for nothing."""
        return with_comments(self.text, (comment.value() for comment in self.comments))


class SessionChange(JsonBody):
    """What to change of a session. The mode counts at once, the model from the next message on."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"\S")] | None = None
    archived: bool | None = None
    model: ShortText | None = None
    mode: Annotated[str, Field(json_schema_extra={"enum": list(MODES)})] | None = None


class TrustBody(JsonBody):
    """Trust a project, or no longer. binding: of what it brings, as it was shown."""

    trusted: bool
    binding: ShortText = ""


class ImportBody(JsonBody):
    """A session of another program to take over: "claude", "codex", "gemini" or "opencode", and its ID."""

    program: ShortText
    source_id: ShortText


class ShipBody(JsonBody):
    """An approved step. binding: of the step as it was shown. title, text: of a pull request; text of a commit.

    hunks: the indexes of the changes to commit; by default all.
    """

    step: Literal["commit", "push", "pull_request"]
    binding: ShortText
    title: ShortText = ""
    text: LongText = ""
    hunks: list[int] | None = None


class PairBody(JsonBody):
    """The code of a device, and its name in lists."""

    code: ShortText
    device: ShortText = ""


class PushBody(JsonBody):
    """A browser's push subscription. on: False ends it."""

    endpoint: Annotated[str, StringConstraints(max_length=2_000)]
    p256dh: ShortText = ""
    auth: ShortText = ""
    on: bool = True


class PushAnswerBody(JsonBody):
    """The ticket of a notification."""

    ticket: ShortText


class PushInfo(BaseModel):
    """The key to subscribe with, and whether a device of this token gets notifications."""

    key: str
    subscribed: bool


class EmptyBody(JsonBody):
    """Nothing."""


class DecisionChoices(JsonBody):
    """What a decision may have besides the verdict and the text; see docs/http-api.md for what takes which."""

    comments: Comments = []
    rule: Annotated[str, StringConstraints(max_length=20_000)] = ""
    scope: RuleScope = "session"
    mode: ShortText = ""
    hunks: HunkIndexes | None = None
    arguments: dict[str, Any] | None = None
    answers: Annotated[list[LongText], Field(max_length=50)] = []
    plan: dict[str, Any] = {}

    def fields(self) -> dict[str, Any]:
        """Return them as fields of a `UserDecision`."""
        found = {name: getattr(self, name) for name in DecisionChoices.model_fields}
        return found | {
            "answers": tuple(self.answers),
            "hunks": None if self.hunks is None else tuple(self.hunks),
            "comments": tuple(comment.value() for comment in self.comments),
        }


class DecisionFields(DecisionChoices):
    """A decision besides its verdict."""

    call_id: ShortText
    binding: ShortText
    text: LongText = ""


class DecisionBody(DecisionFields):
    """A decision about one call, question, plan or review."""

    verdict: DecisionWord


class ScheduleBody(JsonBody):
    """A schedule to add. spec: as `agent every` takes it. budget: dollars for the runs of a day.

    missed: whether what was missed while nothing ticked runs once, late. zone: by default this machine's.
    """

    spec: ShortText
    prompt: PromptText
    project: ProjectText
    zone: ShortText = ""
    model: ShortText | None = None
    mode: Annotated[str, Field(json_schema_extra={"enum": list(MODES)})] | None = None
    budget: Annotated[float, Field(gt=0, le=1e6)] | None = None
    missed: Literal["once", "skip"] = "once"


class ScheduleChange(JsonBody):
    """Pause a schedule, or end its pause: times in it do not count as missed."""

    paused: bool


class UndoBody(JsonBody):
    """Undo this turn and all after it. conversation: the conversation goes back, too."""

    point: Annotated[int, Field(ge=0, le=1 << 31)]
    conversation: bool = False


class CodingStart(JsonBody):
    """A request to plan and then carry out, see docs/http-api.md."""

    query: PromptText
    project: ProjectText = ""
    mode: Literal["plan", "execute"] = "plan"


class CodingApprove(DecisionChoices):
    """A decision about what waits in a session: the plan, or its calls."""

    approved: bool
    feedback: LongText = ""
    call_ids: Annotated[list[ShortText], Field(max_length=1_000)] = []


class ErrorFields(BaseModel):
    model_config = ConfigDict(extra="allow")
    code: str
    message: str


class ErrorAnswer(BaseModel):
    """Every answer that is not a success."""

    error: ErrorFields


class TokenItem(BaseModel):
    name: str
    role: Literal["read", "decide", "start"]
    version: str


class ProjectItem(BaseModel):
    """A folder to work in. needs_trust: it brings settings or commands that are used only once it is trusted."""

    id: str
    name: str
    path: str
    branch: str
    git: bool
    trusted: bool
    needs_trust: bool
    model: str
    mode: str


class ProjectList(BaseModel):
    """modes: the permission modes that a task may have, each with its words."""

    projects: list[ProjectItem]
    modes: list[tuple[str, str]]


class ProjectTrust(BaseModel):
    """Whether a project is trusted, in words, and what it brings, a phrase each."""

    trusted: bool
    state: str
    brings: list[str]
    binding: str


class ImportItem(BaseModel):
    """A session of another program. name: of the program. taken_over_as: the ID of the session of ours; "" for none."""

    program: str
    name: str
    source_id: str
    cwd: str
    title: str
    updated: str
    taken_over_as: str


class ImportList(BaseModel):
    """The sessions of other programs in the folder of a project, the latest first."""

    sessions: list[ImportItem]


class ModelItem(BaseModel):
    name: str
    window: int | None
    input_price: float | None
    output_price: float | None
    words: str


class ModelList(BaseModel):
    """Models to choose from, the newest first. default: the model of a task that names none. more: left out here."""

    models: list[ModelItem]
    default: str
    more: int


class SessionItem(BaseModel):
    """A session in a list. asks: the title of the question that waits.

    facts: its project, branch and cost, in words. excerpt: the message that a search found.
    """

    id: str
    title: str
    project: str
    folder: str
    worktree: bool
    branch: str
    state: SessionState
    mode: str
    model: str
    created: str
    updated: str
    messages: int
    cost: float
    cost_known: bool
    pending: int
    asks: str
    elsewhere: str
    host: str
    outcome: str
    error: str
    archived: bool
    excerpt: str
    facts: list[str]


class BoardColumn(BaseModel):
    title: str
    states: list[SessionState]


class SessionPage(BaseModel):
    """Sessions, those that wait first. columns: the board has the sessions of these states side by side."""

    sessions: list[SessionItem]
    next: str | None
    counts: dict[str, int]
    columns: list[BoardColumn]


class QueuedMessage(BaseModel):
    id: str
    text: str
    how: str
    user: str


class SessionDetail(SessionItem):
    """A session with all that its view shows. head, usage_rows: what is said of it, in words.

    agents: a line about each sub-agent in the background that is at work.
    """

    query: str
    plan: list[dict[str, Any]]
    agents: list[str]
    pending_items: list[dict[str, Any]]
    queued: list[QueuedMessage]
    usage: dict[str, Any]
    tokens: int
    window: int | None
    answer: str
    changed_files: list[str]
    decisions: list[dict[str, Any]]
    head: list[str]
    usage_rows: list[tuple[str, str]]


class EventItem(BaseModel):
    """A record of the session's log."""

    seq: int
    time: str
    type: str
    data: dict[str, Any]


class HistoryPage(BaseModel):
    events: list[EventItem]
    first: int
    last: int
    total: int


class ViewPage(BaseModel):
    """Entries of a session's view, see docs/view-stream.md. first: key of the first of them."""

    first: int
    changes: list[dict[str, Any]]


class PendingItems(BaseModel):
    items: list[dict[str, Any]]


class DecidedAnswer(BaseModel):
    """The decision, and how many are missing until the work goes on."""

    call_id: str
    decided: str
    decided_by: str
    left: int


class AcceptedAnswer(BaseModel):
    """The ID under which the request is stored."""

    id: str


class ShipStep(BaseModel):
    """A step to ship changes. why: it is not possible now. items: files or commits. subject, text: proposed words.

    hunks: the changes to choose from, each with its index, its path and its rows.
    """

    step: Literal["commit", "push", "pull_request"]
    title: str
    why: str
    items: list[str]
    hunks: list[dict[str, Any]]
    facts: list[str]
    warnings: list[str]
    subject: str
    text: str
    button: str
    binding: str


class ShipSteps(BaseModel):
    steps: list[ShipStep]


class ShipAnswer(BaseModel):
    """What was done. url: of a pull request."""

    done: str
    url: str


class ProposedMessage(BaseModel):
    text: str


class UploadItem(BaseModel):
    """A file that a message can bring within a day."""

    id: str
    name: str
    mime: str
    size: int


class CompletionItem(BaseModel):
    """What the text from `start` to the cursor can become."""

    text: str
    help: str
    start: int


class CompletionList(BaseModel):
    items: list[CompletionItem]


class ScheduledRunItem(BaseModel):
    """A run. at: its time, in UTC. state: "starting", "running", "waiting", "broken off", "skipped", or its end."""

    at: str
    state: str
    why: str
    session_id: str
    cost: float
    attempts: int
    by_hand: bool


class ScheduledRuns(BaseModel):
    """The runs of a schedule, the oldest first."""

    runs: list[ScheduledRunItem]


class ScheduleItem(BaseModel):
    """A schedule. next: with the offset of its zone; "" in a pause. rules: what its runs are always allowed.

    state, session_id: of the run that is not over; no other one starts meanwhile.
    """

    id: str
    spec: str
    zone: str
    folder: str
    prompt: str
    paused: bool
    missed: str
    budget: float | None
    next: str
    rules: list[str]
    state: str
    session_id: str
    last: ScheduledRunItem | None


class ScheduleList(BaseModel):
    schedules: list[ScheduleItem]


class UndoPoints(BaseModel):
    points: list[dict[str, Any]]


class UndoAnswer(BaseModel):
    restored: list[str]
    deleted: list[str]
    skipped: list[dict[str, str]]


class FileDiffItem(BaseModel):
    """A change of a file. rows: the patch as the page shows it, each with its kind, line numbers and nodes."""

    path: str
    status: Literal["created", "modified", "deleted"]
    added: int
    removed: int
    patch: str
    rows: list[list[Any]]


class SessionDiff(BaseModel):
    files: list[FileDiffItem]
    text: str


class RecordedFile(BaseModel):
    path: str
    added: int
    removed: int
    created: bool
    deleted: bool


class EvidenceItem(BaseModel):
    """A command that ran. Only a `check` has an outcome. after: the file changed last before it, by the call `by`.

    stale: a file that was changed after it.
    """

    command: str
    check: bool
    outcome: Literal["passed", "failed", "unproven", ""]
    code: int | None
    seconds: float
    turn: int
    time: str
    after: str
    by: str
    stale: str


class RecordedStepItem(BaseModel):
    text: str
    status: Literal["pending", "in_progress", "completed", "cancelled", "dropped"]
    verdict: Literal["passed", "stale", "failed", "unproven", "unchecked", "none"]
    verdict_text: str
    files: list[RecordedFile]
    evidence: list[EvidenceItem]
    turns: list[int]


class PlanItem(BaseModel):
    """A plan. approved: who approved it; empty for a todo list."""

    turn: int
    approved: str
    steps: list[RecordedStepItem]


class SessionRecord(BaseModel):
    """The completion record. unchecked: files that were changed after the last check that passed."""

    summary: str
    plans: list[PlanItem]
    outside: RecordedStepItem | None
    files: list[RecordedFile]
    unchecked: list[str]


class CodingState(BaseModel):
    """The state of a request, as `POST /coding/start` answers it."""

    session_id: str
    mode: str
    stage: str
    query: str
    clarified_query: str
    plan: dict[str, Any] | None
    todos: list[dict[str, Any]]
    completed_steps: list[str]
    pending: list[dict[str, Any]]
    result: str
    error: str

"""A turn's options, the state that outlives it, and the values that travel through it. None knows the turn itself."""

from __future__ import annotations

import _thread  # `threading` costs a one-shot run a millisecond
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from agent_cli.config.schema import TurnSettings
from agent_cli.kernel.decisions import Decision, Level
from agent_cli.kernel.events import Event, LeftOut
from agent_cli.kernel.messages import Message, ToolCall
from agent_cli.kernel.modes import Effort
from agent_cli.kernel.results import Limits, Spent, Usage
from agent_cli.kernel.window import Window
from agent_cli.models.base import ModelClient, ToolSpec
from agent_tools.base import Effect, Tool, ToolResult
from agent_tools.cancel import CancelToken
from agent_tools.record import Value
from agent_tools.results import Diff, MediaKind, TurnOverrides
from agent_tools.shell.state import ShellSnapshot

V = TypeVar("V")
Price = Callable[[Usage], Usage]


def free(usage: Usage) -> Usage:
    """Return the usage unchanged: the model costs nothing."""
    return usage


class TurnOptions(TurnSettings):
    """Request parameters and limits of a turn, beside the settings that it reads.

    model: the provider's own name of the model.
    label: the name shown to users.
    searched: tools that only a search finds; a type of sub-agents may name them.
    input_modalities: kinds of media that the model accepts.
    provider: its name, by which the limits of media in one request are found.
    spent: what earlier parts of the turn used.
    answer_tokens: length of an answer where max_tokens is not set; None: the provider's own.
    total_tokens: the most that the model can write, with its reasoning.
    usual_effort: effort where the user asks for none.
    overrides: those of the user's message, for this turn.
    saved: settings, rules and flags to record with the turn, for its resumption.
    suspended_state: state that was stored when the turn was suspended.
    clear_at: shares of the window at which old results are cleared, in steps.
    read_only: of a sub-agent, while the user has not approved the plan of the parent turn.
    pieces: also emit events for the arguments of calls as they arrive, and for the signatures of thinking.
    """

    model: str
    label: str
    system: str
    tools: tuple[ToolSpec, ...] = ()
    searched: tuple[ToolSpec, ...] = ()
    input_modalities: frozenset[MediaKind] = frozenset()
    provider: str = ""
    limits: Limits = Limits()
    spent: Spent = Spent()
    answer_tokens: int | None = None
    total_tokens: int | None = None
    usual_effort: Effort | None = None
    cache_key: str = ""
    read_only: bool = False
    clear_at: tuple[float, ...] = ()
    overrides: TurnOverrides = TurnOverrides()
    pieces: bool = False
    saved: dict[str, Any] = {}  # noqa: RUF012 - never changed
    suspended_state: dict[str, Any] = {}  # noqa: RUF012 - never changed

    @property
    def effort_in_use(self) -> Effort | None:
        """The effort that is asked for: the user's, or else the usual one; None: the model decides."""
        return self.effort or (None if self.thinking_tokens else self.usual_effort)

    @property
    def effort_label(self) -> str:
        """The effort in words for a user."""
        if self.effort or not self.effort_in_use:
            return self.effort or "model default"
        return f"{self.effort_in_use} (default)"


class ModelHandle(Value):
    """A model ready for use.

    label: the name shown to users.
    model: the provider's own name.
    price: adds the cost of a call.
    input_modalities: kinds of media that it accepts.
    window: size of its context window in tokens; None if unknown.
    provider, answer_tokens, total_tokens, usual_effort: as in TurnOptions.
    """

    label: str
    model: str
    client: ModelClient
    price: Price = staticmethod(free)
    input_modalities: frozenset[MediaKind] = frozenset()
    window: int | None = None
    answer_tokens: int | None = None
    total_tokens: int | None = None
    usual_effort: Effort | None = None
    provider: str = ""

    def options(self, options: TurnOptions) -> TurnOptions:
        """Return the options of a turn for this model."""
        return options.replace(
            model=self.model, label=self.label, input_modalities=self.input_modalities, context_window=self.window,
            answer_tokens=self.answer_tokens, total_tokens=self.total_tokens, usual_effort=self.usual_effort,
            provider=self.provider,
        )  # fmt: skip


class ChangeObserver:
    """Observer of calls that may change files; this base class does nothing.

    takes_all: it acts on all changes of a turn when that ends, so nothing may outlive the turn.
    """

    takes_all = False

    def turn(self, history: Sequence[Message], *, new: bool, model: str) -> None:
        """Handle the start (or resumption) of a turn with this history. model: the label of its model."""

    def ended(self, *, suspended: bool) -> None:
        """Handle the end of a turn. suspended: it goes on after a decision."""

    def before(self, call: str, tool: str, summary: str, effects: Sequence[Effect], cwd: str) -> Sequence[str]:
        """Handle a call that is about to run; return warnings for the user."""
        return ()

    def after(self, call: str) -> Sequence[str]:
        """Handle the end of a call, however it ended; return warnings for the user."""
        return ()

    def after_earlier(self, call: str) -> None:
        """Handle the end of calls that began in other processes: those whose ID begins with this text."""

    def facts(self, effects: Sequence[Effect], cwd: str) -> Sequence[str]:
        """Return the facts for an approval question: which changes of the call could not be undone."""
        return ()

    def revert(self, calls: Sequence[str]) -> str:
        """Restore the files to their state before these calls; return what happened, as a sentence."""
        return "Nothing was undone: there are no snapshots here."

    def diffs(self, calls: Sequence[str]) -> Sequence[Diff]:
        """Return the changes of these calls file by file, including those made by commands; empty if unknown."""
        return ()

    def changed(self, call: str) -> Sequence[Diff]:
        """Return the files that a command has changed, without patches; empty if unknown. Asked once."""
        return ()

    def summed(self) -> str:
        """Summarize the changes of the latest turn: "3 files created, 2 modified"; "" for none."""
        return ""

    def for_agent(self, history: Sequence[Message], title: str) -> ChangeObserver:
        """Return the observer of a sub-agent in the background, whose changes are undone by themselves.

        history: of the turn that starts it. title: names its changes.
        """
        return self

    def close(self) -> None:
        """Handle the end of the conversation."""


class PreparedCall(Value):
    """A call that can be run, with the policy's decision."""

    call: ToolCall
    tool: Tool[Any]
    args: Any
    effects: tuple[Effect, ...]
    summary: str
    decision: Decision

    @property
    def needs_approval(self) -> bool:
        return self.decision.level is Level.ASK

    @property
    def harmless(self) -> bool:
        """Return True if the call only reads, or only changes the conversation."""
        return all(e.kind in ("read", "state") for e in self.effects)

    @property
    def writes(self) -> set[str]:
        return {e.target for e in self.effects if e.kind == "write"}


class CallError(Value):
    """Why a call cannot run, as the text of its result."""

    text: str


CheckedCall = PreparedCall | CallError


class GateResult(Value, tag="Look"):
    """Outcome of a gate.

    how: "go": run the call. "suspended", "cancelled": how the turn ends. "answered": the calls have their results.
    note: appended to the call's result.
    """

    how: Literal["go", "suspended", "cancelled", "answered"] = "go"
    note: str = ""


class LiveMapping(Mapping[str, V]):
    """A mapping whose content can be replaced at any time, from any thread: readers see the old or the new content."""

    def __init__(self, content: Mapping[str, V]) -> None:
        self.content = content

    def replace(self, content: Mapping[str, V]) -> None:
        """Replace the content. The given mapping is not copied."""
        self.content = content

    def __getitem__(self, name: str) -> V:
        return self.content[name]

    def __contains__(self, name: object) -> bool:
        return name in self.content

    def __iter__(self) -> Iterator[str]:
        return iter(self.content)

    def __len__(self) -> int:
        return len(self.content)


class ToolTable(LiveMapping[Tool[Any]]):
    """The tools that may be called, by name. They can be replaced while a turn runs.

    aliases: names that the model may use, and the name of the tool that is meant by each.
    """

    def __init__(self, tools: Iterable[Tool[Any]] = (), aliases: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__({tool.name: tool for tool in tools})
        self.aliases = aliases


class NestedState:
    """The state of a suspended sub-agent.

    history: its messages so far.
    seen: files it has read, path to fingerprint.
    shell: working directory and variables of its commands.
    window: its view of the history.
    cancel: stops it alone, while it runs.
    """

    def __init__(
        self,
        history: tuple[Message, ...] = (),
        seen: Mapping[str, str] | None = None,
        shell: ShellSnapshot | None = None,
        window: Window | None = None,
    ) -> None:
        self.history = history
        self.seen = dict(seen or {})
        self.shell = shell
        self.window = window or Window()
        self.cancel: CancelToken | None = None


class SubagentEnd(Value):
    """What a sub-agent did, for the hooks after its call. calls: the tools that it called, in order."""

    kind: str
    model: str
    usage: Usage
    calls: tuple[str, ...]
    milliseconds: int


class SessionOrigin(Value):
    """How a session begins here, for its Setup and SessionStart hooks.

    source: "startup", "resume", "fork" or "clear"; "" once its hooks have run.
    setup: "init" or "maintenance" before a session that prepares its folder.
    idle_since: when a resumed session was last written to, in seconds since the epoch; None if unknown.
    cache_seconds: how long the provider caches a prompt.
    memory: the memory files that were read: path, whose they are, and the file that imports it.
    """

    source: str = "startup"
    setup: str = ""
    idle_since: float | None = None
    cache_seconds: int = 300
    memory: tuple[tuple[str, str, str], ...] = ()


class ConversationState:
    """State that outlives a turn and changes while one runs.

    inbox: messages that go to the model at the next round.
    running: dependencies and options of the latest turn of the conversation; None before the first.
    window: the part of the history that the model is shown.
    began: start of the session, wall clock.
    answered: when the last turn ended, wall clock; None before that.
    ids: call ids in use.
    held: results of calls that ran and wait for the user's answer, by call id.
    nested: suspended sub-agents, by the id of their call.
    ended: sub-agents that have ended, by the id of their call, where a hook runs after it.
    prompt_id: UUID of the message that the turn answers.
    agent_id: the call that started the sub-agent whose state this is; "" at the top.
    agent_transcript: returns the path of a sub-agent's transcript by its ID; None if there is none.
    reported: called when something in the background has a report for the model, on its thread.
    background: the sub-agents in the background; None before the first.
    asks_in_turn: the questions of these are put on the thread of the turn, once that waits for them.
    emit: records an event of these and shows it, on any thread.
    editing: held while a tool changes files, from the look at them to the last byte.
    """

    def __init__(self, window: Window | None = None) -> None:
        self.inbox: list[str] = []
        self.running: tuple[Any, TurnOptions] | None = None
        self.window = window or Window()
        self.began = time.time()
        self.answered: float | None = None
        self.ids: set[str] = set()
        self.held: dict[str, ToolResult] = {}
        self.nested: dict[str, NestedState] = {}
        self.ended: dict[str, SubagentEnd] = {}
        self.prompt_id = self.agent_id = ""
        self.agent_transcript: Callable[[str], str | None] = lambda agent_id: None
        self.reported: Callable[[], None] = lambda: None
        self.background: Any = None  # BackgroundAgents, which is built on turns
        self.asks_in_turn = False
        self.emit: Callable[[Event], None] = lambda event: None
        self.editing = _thread.allocate_lock()

    def of_nested(self, call_id: str) -> ConversationState:
        """Return the state of a sub-agent: shared with this one, except for its window."""
        made = ConversationState(self.nested.setdefault(call_id, NestedState()).window)
        made.began, made.ids, made.held, made.nested = self.began, self.ids, self.held, self.nested
        made.editing = self.editing
        made.prompt_id, made.agent_id, made.agent_transcript = self.prompt_id, call_id, self.agent_transcript
        for model, left in self.window.left_out.items():
            if left.tools:
                made.window.left_out.setdefault(model, LeftOut(model, tools=left.tools))
        return made

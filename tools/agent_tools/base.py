"""The Tool base class, and the context that the tools of one conversation share.

A tool has a name, an arguments class, the effects of a call, and a way to run. It knows neither the screen, nor the
event stream, nor permissions. It declares its `effects`, shows a `preview` and does the work in `run`.
docs/adding-a-tool.md shows how to add one.

The context has the workspace, services of the program, and state of the tools. It knows no tool: a tool stores what it
needs between calls in its own `ToolState`, made on first use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

from agent_tools.cancel import CancelToken
from agent_tools.fs.workspace import Workspace
from agent_tools.record import Value
from agent_tools.results import (
    AskModel,
    AskUser,
    Display,
    Effect,
    EffectKind,
    ExpandedPrompt,
    Finish,
    MediaKind,
    Outcome,
    Progress,
    ResultLimits,
    ResultSize,
    Suspend,
    TodoItem,
    ToolError,
    ToolResult,
)  # fmt: skip
from agent_tools.sandbox.conditions import RunConditions
from agent_tools.schema import Freeform, canonical, read_arguments, schema_of
from agent_tools.text import HeadTail

Y_co = TypeVar("Y_co", covariant=True)
R = TypeVar("R")


class Steps(Generic[Y_co, R]):
    """Iterates over a generator once, and keeps what it returns.

    result: that value, once a loop has come to the end by itself.
    """

    result: R

    def __init__(self, steps: Generator[Y_co, None, R]) -> None:
        self._steps = steps

    def __iter__(self) -> Iterator[Y_co]:
        self.result = yield from self._steps

    def finish(self) -> R:
        """Run to the end and return the result; what is yielded is dropped."""
        for _ in self:
            pass
        return self.result


class UserCommand(Protocol):
    """A prompt that the user saved under a name. hint: its arguments, in words."""

    @property
    def description(self) -> str: ...

    @property
    def hint(self) -> str: ...

    def expand(self, arguments: str, ctx: ToolContext) -> str | ExpandedPrompt:
        """Return the prompt with the arguments filled in, and its commands and overrides, if any. Raises ToolError."""


class UserSkill(UserCommand, Protocol):
    """A skill. folder: the directory of its files."""

    @property
    def folder(self) -> Path: ...


class HasDescription(Protocol):
    """An extension whose description tells the model when to use it."""

    @property
    def description(self) -> str: ...


class FolderMemory(Protocol):
    """Memory files of the folders in which the model has touched files."""

    def notices(self, ctx: ToolContext) -> list[str]:
        """Return the texts that are new for the model; each is returned once."""

    def all_texts(self) -> list[str]:
        """Return every text sent so far, to put into a compacted history."""

    def nested(self) -> FolderMemory:
        """Return a memory for a sub-agent."""

    def mark_sent(self, texts: Iterable[str]) -> None:
        """Count the texts in these messages of the conversation as sent."""


class ToolState:
    """State of a tool between its calls in one conversation; see `ToolContext.state`."""

    def nested(self) -> Self:
        """Return the state for a sub-agent; by default the same object."""
        return self

    def notices(self, ctx: ToolContext, *, root: bool) -> list[str]:
        """Return notes for the model's next round; each is returned once. root: False in a sub-agent."""
        return []

    def close(self) -> None:
        """Release resources at the end of the conversation."""


S = TypeVar("S", bound=ToolState)


class ToolContext:
    """What the tools of one conversation share. Made by `runtime/builder.py`, passed to every call, rebuilt on resume.

    env: environment for commands.
    settings: values that tools read.
    require_read_first: a file must be read before it is edited.
    small_model: the model is small: an edit needs no read where the old text is found exactly once, Grep shows
        lines, Read shows no numbers, and directories.
    supplied: states made by the program, such as the sandbox for commands.

    seen: for each file that the model has read or written, the hash of the content it knows (`encoding.fingerprint`).
    plan: the current todo list.
    readable: returns True if a search may show the file's content; None if it may show every file.
    input_modalities: media that the model accepts besides text.
    result_limits: how much of a result the model is shown.
    run_conditions: returns how an allowed command must run.
    command_rule: returns True if a rule allows a command, False if one denies it or asks, None if there is none; None
        itself where no checkers run after edits.
    commands, skills: the user's commands and skills that the model may use, by name.
    agents: types of sub-agents that are not built in.
    nested_memory: memory files of the folders that were touched.
    mentioned: block of a whole file in a prompt that mentions it, to the file's path and fingerprint.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        cancel: CancelToken | None = None,
        env: dict[str, str] | None = None,
        settings: dict[str, Any] | None = None,
        require_read_first: bool = True,
        small_model: bool = False,
        supplied: Iterable[ToolState] = (),
    ) -> None:
        self.workspace = workspace
        self.cancel = cancel or CancelToken()
        self.env = env or {}
        self.settings = settings or {}
        self.require_read_first = require_read_first
        self.small_model = small_model
        self.seen: dict[str, str] = {}
        self.plan: tuple[TodoItem, ...] = ()
        self.readable: Callable[[Path | str], bool] | None = None
        self.input_modalities: frozenset[MediaKind] = frozenset()
        self.result_limits = ResultLimits()
        self.run_conditions: Callable[[str], RunConditions] = lambda command: RunConditions()
        self.command_rule: Callable[[str], bool | None] | None = None
        self.commands: Mapping[str, UserCommand] = {}
        self.skills: Mapping[str, UserSkill] = {}
        self.agents: Mapping[str, HasDescription] = {}
        self.nested_memory: FolderMemory | None = None
        self.mentioned: dict[str, tuple[str, str]] = {}
        self._parent: ToolContext | None = None
        self._owner: ToolContext | None = None
        self._states: dict[type[ToolState], Any] = {}
        # All states in order of creation, those of sub-agents included.
        self._to_close: list[ToolState] = []
        self._sent_notes: dict[str, object] = {}
        for state in supplied:
            self.supply(state)

    def supply(self, state: ToolState) -> None:
        """Register a state that the program made."""
        self._states[type(state)] = state
        self._to_close.append(state)

    def supplied(self, kind: type[S]) -> S | None:
        """Return the state of this class, or None if there is none yet."""
        found: S | None = self._states.get(kind)
        return found

    def state(self, kind: type[S]) -> S:
        """Return the state of this class, made on first use. A sub-agent gets what `ToolState.nested` returns."""
        found: S | None = self._states.get(kind)
        if found is None:
            made = kind() if self._parent is None else self._parent.state(kind).nested()
            # Another thread may have added one meanwhile.
            found = self._states.setdefault(kind, made)
            self._close_later(found)
        return found

    def nested(self) -> ToolContext:
        """Return a context for a sub-agent, with its own files read, plan and working directory; the rest is shared."""
        child = ToolContext.__new__(type(self))
        child.__dict__.update(self.__dict__)
        child.seen, child.plan, child.mentioned = {}, (), {}
        child.workspace = self.workspace.copy()
        child.nested_memory = self.nested_memory.nested() if self.nested_memory is not None else None
        child._parent, child._owner = self, None
        child._states = {kind: state.nested() for kind, state in self._states.items()}
        for state in child._states.values():
            self._close_later(state)
        return child

    def for_call(self) -> ToolContext:
        """Return a nested context for one call in another thread, which can be cancelled by itself."""
        child = self.nested()
        child._owner = self.owner
        child.cancel = CancelToken()
        return child

    @property
    def owner(self) -> ToolContext:
        """The context of the conversation or sub-agent that this one belongs to."""
        return self._owner or self

    def once(self, note: str) -> str:
        """Return the note the first time in this conversation, "" afterwards."""
        mark = object()
        return note if self._sent_notes.setdefault(note, mark) is mark else ""

    def result_buffer(self, size: ResultSize = "short") -> HeadTail:
        """Return a buffer for a result that arrives in pieces; what is not shown of it is saved in a file."""
        search = self.workspace.advice("Grep Read", "{} shows any part of it").strip()
        return self.result_limits.buffer(size, self.workspace.scratch, f"; {search}" if search else "")

    def mark_mentions_read(self, text: str) -> dict[str, str]:
        """Mark the mentioned files whose whole block is in `text` as read; return their paths and fingerprints."""
        found = {path: mark for block, (path, mark) in self.mentioned.items() if block in text}
        self.seen |= found
        return found

    def notices(self) -> list[str]:
        """Return notes about what happened meanwhile, for the model's next round; each is returned once."""
        near = self.nested_memory.notices(self) if self.nested_memory is not None else []
        root = self._parent is None
        return [*(line for state in [*self._states.values()] for line in state.notices(self, root=root)), *near]

    def close(self) -> None:
        """Close the states, the latest first, and delete the outputs of commands.

        An exception in one does not keep the others from being closed; it is raised at the end.
        """
        with ExitStack() as stack:
            stack.callback(self.workspace.scratch.close)
            for state in self._to_close:
                stack.callback(state.close)

    def _close_later(self, state: ToolState) -> None:
        # States with nothing to close would pile up: every command of a saved prompt makes one.
        if type(state).close is not ToolState.close and state not in self._to_close:
            self._to_close.append(state)


__all__ = [
    "AskModel", "AskUser", "Effect", "EffectKind", "Finish", "Freeform", "Outcome", "Progress", "Suspend", "Tool",
    "ToolContext", "ToolError", "ToolResult",
]  # fmt: skip

A = TypeVar("A", bound=Value)


class Tool(ABC, Generic[A]):
    """Base class of all tools. `name` is what the model calls; the fields of `Args` are the arguments.

    The class attributes below are the traits that the rest of the program asks for; it never compares names.
    `registry.tool_class` finds the class of a name.
    """

    name: str
    Args: type[A]
    # Description for the model of a tool without a prompt file.
    description: str = ""
    # Names that other programs have for it, accepted in rules, hook matchers and agent types.
    other_names: ClassVar[tuple[str, ...]] = ()
    # Arguments of a sample call, to test hooks with.
    example: ClassVar[Mapping[str, Any]] = {}

    # The only models that are offered it, by a regular expression for their names: those trained on it.
    trained_models: ClassVar[str] = ""
    # Tools that these models do not need beside it.
    instead_of: ClassVar[tuple[str, ...]] = ()
    # Arguments that small models are offered; () keeps the tool from them.
    small_arguments: ClassVar[tuple[str, ...]] = ()
    # Its input in plain text, for models that are trained on it.
    freeform: ClassVar[Freeform | None] = None

    # How a call runs.
    # Only asks the user: `run` has no effect and returns a `Suspend`.
    asks_user: ClassVar[bool] = False
    # Starts a sub-agent: its work is a turn of its own, run by the engine.
    nested: ClassVar[bool] = False
    # Read-only; calls may run in parallel.
    parallel_safe: ClassVar[bool] = False
    # Needs this conversation (its user, plan or model), so it is not served to other programs over MCP.
    of_conversation: ClassVar[bool] = False
    # Proposes the plan that ends plan mode; only the main conversation can.
    ends_plan_mode: ClassVar[bool] = False
    # Changes the todo list and nothing else.
    changes_plan: ClassVar[bool] = False
    # Argument that holds a whole todo list, which the user may want to approve.
    plan_argument: ClassVar[str] = ""

    # Files, commands and addresses.
    # Arguments that name paths.
    paths: ClassVar[tuple[str, ...]] = ()
    # Argument that names the file that is read or changed.
    file_argument: ClassVar[str] = ""
    # The result is the content of that file.
    shows_file: ClassVar[bool] = False
    # Can show a file given only its path: compaction reads files again with it.
    reopens: ClassVar[bool] = False
    # Changes files.
    changes_files: ClassVar[bool] = False
    # Replaces the whole content of a file.
    replaces_file: ClassVar[bool] = False
    # Argument that holds a command line.
    command_argument: ClassVar[str] = ""
    # Types into a running program, which may do anything with the input.
    types_input: ClassVar[bool] = False
    # Argument that holds a URL to open; the user is asked about a URL that only the model has mentioned.
    address_argument: ClassVar[str] = ""

    # Results.
    # How much the model is shown: see `result_limits`. Tools with pages keep to them by themselves.
    result_size: ClassVar[ResultSize] = "short"
    # Describe a state: the same call made later makes the earlier result stale.
    repeatable: ClassVar[bool] = False
    # Show lines of files that the call did not name.
    searches_content: ClassVar[bool] = False
    # Are written by the model, or may be composed from its own words.
    composed: ClassVar[bool] = False
    # Arguments that hooks find even where the model left them out, as hooks of other programs expect.
    hook_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    # Approval.
    # Argument that the user may edit before the call runs.
    editable: ClassVar[str] = ""
    # That argument is a single line.
    editable_in_line: ClassVar[bool] = False
    # The user may accept only some parts of the change; has the arguments of the edit tools.
    in_parts: ClassVar[bool] = False

    # Permission rules.
    # Kind of the text in parentheses: a path glob, a command, a host, or the target of the effect; "": none is allowed.
    rule_names: ClassVar[Literal["", "path", "command", "domain", "target"]] = ""
    # Effects that a rule about this tool covers in every tool: a rule that denies Edit denies Write too.
    rule_covers: ClassVar[tuple[EffectKind, ...]] = ()
    # A rule that allows every call may be suggested.
    granted_whole: ClassVar[bool] = False

    def resolve_paths(self, args: A, ctx: ToolContext) -> A:
        """Return the arguments with their paths resolved (`Workspace.resolved`).

        Called once, before `effects`, so that `run` opens exactly the paths that were approved. Raises ToolError.
        """
        named = {name: text for name in self.paths if (text := getattr(args, name)) is not None}
        return args.replace(**{name: ctx.workspace.resolved(text) for name, text in named.items()}) if named else args

    @abstractmethod
    def effects(self, args: A, ctx: ToolContext) -> tuple[Effect, ...]:
        """Return what running with these arguments would do. In doubt, claim that it changes things."""

    @abstractmethod
    def run(self, args: A, ctx: ToolContext) -> Outcome:
        """Run the call. Return a `ToolResult`, or be a generator that yields `Progress` or questions and returns one.

        Raises ToolError for failures that the model should read, CancelledError when the turn is interrupted.
        """

    @abstractmethod
    def summary(self, args: A, ctx: ToolContext) -> str:
        """Return the call in one line for the user, made from its arguments: "Run: pytest -q"."""

    def may_run_in_parallel(self, args: A) -> bool:
        """Return True if this call may run in parallel with others, provided that its commands only read."""
        return self.parallel_safe

    def is_exclusive(self, args: A) -> bool:
        """Return True if the call must be the only one of its round."""
        return False

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments. Override together with `read` where they are no fixed class."""
        return schema_of(self.name, self.Args)

    def read(self, arguments: dict[str, Any]) -> A:
        """Validate the arguments. Raises ToolError that lists the mistakes."""
        args: A = read_arguments(self.Args, arguments)
        return args

    def canonical(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments under the names of the schema, as hooks, approvals and the log get them."""
        # A tool with a schema of its own accepts no other names.
        return canonical(self.Args, arguments) if type(self).schema is Tool.schema else arguments

    def resolve_target(self, args: A, ctx: ToolContext) -> tuple[Tool[Any], Any]:
        """Return the tool that is really called, and its arguments: those are checked, approved and run.

        Raises ToolError if there is none.
        """
        return self, args

    def wrap_call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Return the arguments with which this tool makes a call of a tool that is not on offer; None if it cannot."""
        return None

    def preview(self, args: A, ctx: ToolContext) -> Display | None:
        """Return what would happen, for the approval prompt: a diff, or None where the summary is enough.

        Raises ToolError if the call is bound to fail; the user is then not asked.
        """
        return None

    def dynamic_description(self, ctx: ToolContext) -> str:
        """Return what to append to the description in this workspace or session; "" for nothing."""
        return ""

    def available(self, ctx: ToolContext) -> bool:
        """Return True if the tool can work here; checked once per session, for the list that the model gets."""
        return True

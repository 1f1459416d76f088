"""The context that the tools of one conversation share: the workspace, services of the program, and state of the tools.

It knows no tool: a tool stores what it needs between calls in its own `ToolState`, made on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

from agent_tools.cancel import CancelToken
from agent_tools.fs.workspace import Workspace
from agent_tools.record import Protocol, Value
from agent_tools.results import ExpandedPrompt, MediaKind, ResultLimits, ResultSize, TodoItem, ToolResult
from agent_tools.sandbox.conditions import RunConditions
from agent_tools.text import HeadTail, size_of


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


class OfferedExtensions(Value):
    """What users added with files, by name.

    commands, skills: those that the model may use.
    agents: types of sub-agents that are not built in.
    """

    commands: Mapping[str, UserCommand] = {}
    skills: Mapping[str, UserSkill] = {}
    agents: Mapping[str, HasDescription] = {}


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

    def unfinished(self) -> Mapping[str, str]:
        """Return what still runs and ends with the conversation: names by ID."""
        return {}

    def outliving(self) -> Mapping[str, str]:
        """Return what still runs and does not end with the conversation: names by ID."""
        return {}

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
    readable: returns True if a search may show the file's content; None if it may show every file.
    reads_outside: returns True if a message may contain this file of another place. named: the user named the file.
    run_conditions: returns how an allowed command must run.
    command_rule: returns True if a rule allows a command, False if one denies it or asks, None if there is none; None
        itself where no checkers run after edits.
    extensions: what the user added with files; replaced when these are read again.
    input_modalities: media that the model accepts besides text.
    result_limits: how much of a result the model is shown.

    seen: for each file that the model has read or written, what it knows of it (`read_state.KnownVersion.mark`).
    source: the call that runs, as of `read_state.call_source`; "" for none.
    plan: the current todo list.
    nested_memory: memory files of the folders that were touched.
    mentioned: block of a file in a prompt that mentions it, to the file's path and its mark for `seen`.
    edits_follow: calls of the same answer that edit files follow the one that runs.
    user_types: a user types the messages, at a terminal.
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
        readable: Callable[[Path | str], bool] | None = None,
        reads_outside: Callable[[Path, bool], bool] = lambda path, named: False,
        run_conditions: Callable[[str], RunConditions] = lambda command: RunConditions(),
        command_rule: Callable[[str], bool | None] | None = None,
        extensions: OfferedExtensions = OfferedExtensions(),  # noqa: B008 - frozen
        input_modalities: frozenset[MediaKind] = frozenset(),
        result_limits: ResultLimits = ResultLimits(),  # noqa: B008 - frozen
    ) -> None:
        self.workspace = workspace
        self.cancel = cancel or CancelToken()
        self.env = env or {}
        self.settings = settings or {}
        self.require_read_first = require_read_first
        self.small_model = small_model
        self.readable = readable
        self.reads_outside = reads_outside
        self.user_types = False
        self.run_conditions = run_conditions
        self.command_rule = command_rule
        self.extensions = extensions
        self.input_modalities = input_modalities
        self.result_limits = result_limits
        self.seen: dict[str, str] = {}
        self.source = ""
        self.plan: tuple[TodoItem, ...] = ()
        self.nested_memory: FolderMemory | None = None
        self.mentioned: dict[str, tuple[str, str]] = {}
        self.edits_follow = False
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

    def fit(self, result: ToolResult, size: ResultSize) -> ToolResult:
        """Return the result as the model is shown it: of a long one both ends, and the name of the file with all."""
        most = self.result_limits.most(size)
        # The tool itself may have added a few notes to a result of the right size.
        if size == "whole" or size_of(result.text) <= most * 5 // 4 + 500:
            return result
        buffer = self.result_buffer(size)
        buffer.feed(result.text.encode("utf-8", "replace"))
        buffer.close()
        return result.replace(text=buffer.text("ask for less of it", failed=result.is_error))

    def mark_mentions_read(self, text: str) -> dict[str, str]:
        """Mark the mentioned files whose block is in `text` as read; return their paths and marks."""
        found = {path: mark for block, (path, mark) in self.mentioned.items() if block in text}
        self.seen |= found
        return found

    def notices(self) -> list[str]:
        """Return notes about what happened meanwhile, for the model's next round; each is returned once."""
        near = self.nested_memory.notices(self) if self.nested_memory is not None else []
        root = self._parent is None
        return [*(line for state in [*self._states.values()] for line in state.notices(self, root=root)), *near]

    def unfinished(self) -> dict[str, str]:
        """Return what still runs and ends with the conversation: names by ID."""
        return {key: name for state in [*self._states.values()] for key, name in state.unfinished().items()}

    def outliving(self) -> dict[str, str]:
        """Return what still runs and does not end with the conversation: names by ID."""
        return {key: name for state in [*self._states.values()] for key, name in state.outliving().items()}

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

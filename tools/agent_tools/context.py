"""What the tools of one conversation share: where they work, what the program supplies, and slots for their own state.

The context knows no tool: what a tool keeps between its calls is a `ToolState` of that tool's, made on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from agent_tools.cancel import CancelToken
from agent_tools.display import TodoItem
from agent_tools.fs.workspace import Workspace
from agent_tools.media import MediaKind
from agent_tools.overrides import ExpandedPrompt
from agent_tools.sandbox.conditions import RunConditions


class UserCommand(Protocol):
    """A prompt that the user keeps under a name; hint: its arguments, in words."""

    @property
    def description(self) -> str: ...

    @property
    def hint(self) -> str: ...

    def expand(self, arguments: str, ctx: ToolContext) -> str | ExpandedPrompt:
        """The whole prompt, with what it brings beside words. Raises ToolError."""


class UserSkill(UserCommand, Protocol):
    """A skill; folder: where its files are."""

    @property
    def folder(self) -> Path: ...


class Described(Protocol):
    """Something that says of itself when it is of use."""

    @property
    def description(self) -> str: ...


class NearbyMemory(Protocol):
    """What the model should know near files that were touched; see `notices`."""

    def notices(self, ctx: ToolContext) -> list[str]:
        """Texts for the model, each once."""

    def retold(self) -> list[str]:
        """All texts so far, for a history from which they were cut."""

    def nested(self) -> NearbyMemory:
        """For a conversation of its own."""

    def restored(self, texts: Iterable[str]) -> None:
        """Take what these messages of the conversation have told as told."""


class ToolState:
    """What a tool keeps between its calls in one conversation; see `ToolContext.state`."""

    def nested(self) -> Self:
        """For a sub-agent; by default the same."""
        return self

    def notices(self, ctx: ToolContext, *, root: bool) -> list[str]:
        """What the model should know at its next round, each once. root: it is not the context of a sub-agent."""
        return []

    def close(self) -> None:
        """The conversation ends."""


S = TypeVar("S", bound=ToolState)


class ToolContext:
    """What the tools of one conversation share. Built by assembly, passed to every call, rebuilt on resume.

    env: the environment for commands. settings: values that tools read. demand_read: a file is edited only once it was
    read. supplied: states that the program makes itself, such as the sandbox for commands.

    seen: for each file the model has read or written, the hash of the content it knows (`workspace.fingerprint`).
    plan: the todo list as it stands. readable: whether a file's content may be shown by a search; None where every
    file's may. takes: what the model can be shown beside text. run_conditions: how an allowed command is to run.
    commands, skills: the user's, by name, that the model may use. agents: the types of sub-agents that are not shipped.
    nearby: the memory of folders that are touched. mentioned: texts of whole files, as a prompt that mentions them has
    them, with path and fingerprint.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        cancel: CancelToken | None = None,
        env: dict[str, str] | None = None,
        settings: dict[str, Any] | None = None,
        require_read_first: bool = True,
        supplied: Iterable[ToolState] = (),
    ) -> None:
        self.workspace = workspace
        self.cancel = cancel or CancelToken()
        self.env = env or {}
        self.settings = settings or {}
        self.require_read_first = require_read_first
        self.seen: dict[str, str] = {}
        self.plan: tuple[TodoItem, ...] = ()
        self.readable: Callable[[Path | str], bool] | None = None
        self.takes: frozenset[MediaKind] = frozenset()
        self.run_conditions: Callable[[str], RunConditions] = lambda command: RunConditions()
        self.commands: Mapping[str, UserCommand] = {}
        self.skills: Mapping[str, UserSkill] = {}
        self.agents: Mapping[str, Described] = {}
        self.nearby: NearbyMemory | None = None
        self.mentioned: dict[str, tuple[str, str]] = {}
        self._parent: ToolContext | None = None
        self._states: dict[type[ToolState], Any] = {}
        # All that were made, by sub-agents too, in this order.
        self._to_close: list[ToolState] = []
        self._told: dict[str, object] = {}
        for state in supplied:
            self.supply(state)

    def supply(self, state: ToolState) -> None:
        """Put a state that the program made into its slot."""
        self._states[type(state)] = state
        self._to_close.append(state)

    def supplied(self, kind: type[S]) -> S | None:
        """The state of this class, where there is one already."""
        found: S | None = self._states.get(kind)
        return found

    def state(self, kind: type[S]) -> S:
        """The state of this class: one for the conversation, or as `ToolState.nested` says. Made on first use."""
        found: S | None = self._states.get(kind)
        if found is None:
            made = kind() if self._parent is None else self._parent.state(kind).nested()
            # Another thread may have been faster.
            found = self._states.setdefault(kind, made)
            self._close_later(found)
        return found

    def nested(self) -> ToolContext:
        """The context of a sub-agent: all is shared but what it has read, its plan, and where its commands start."""
        child = ToolContext.__new__(type(self))
        child.__dict__.update(self.__dict__)
        child.seen, child.plan, child.mentioned = {}, (), {}
        child.workspace = self.workspace.copy()
        child.nearby = self.nearby.nested() if self.nearby is not None else None
        child._parent = self
        child._states = {kind: state.nested() for kind, state in self._states.items()}
        for state in child._states.values():
            self._close_later(state)
        return child

    def once(self, note: str) -> str:
        """The note, the first time in this conversation; "" from then on."""
        mark = object()
        return note if self._told.setdefault(note, mark) is mark else ""

    def read_in(self, text: str) -> dict[str, str]:
        """Count the mentioned files as read whose whole text stands in what the model reads; path to fingerprint."""
        found = {path: mark for block, (path, mark) in self.mentioned.items() if block in text}
        self.seen |= found
        return found

    def notices(self) -> list[str]:
        """What happened meanwhile that the model should know at its next round, each once."""
        near = self.nearby.notices(self) if self.nearby is not None else []
        root = self._parent is None
        return [*(line for state in [*self._states.values()] for line in state.notices(self, root=root)), *near]

    def close(self) -> None:
        """Close the states, the latest first, and remove the outputs of commands.

        Whatever one raises, the others are closed; then it is raised.
        """
        with ExitStack() as stack:
            stack.callback(self.workspace.scratch.close)
            for state in self._to_close:
                stack.callback(state.close)

    def _close_later(self, state: ToolState) -> None:
        # Of those with nothing to close, every command of a saved prompt makes another.
        if type(state).close is not ToolState.close and state not in self._to_close:
            self._to_close.append(state)

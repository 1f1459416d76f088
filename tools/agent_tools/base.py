"""What a tool is: a name, an arguments class, the effects it is about to have, and how it runs.

A tool knows neither the screen, nor the event stream, nor permission. It says what it will do (`effects`), shows what
would happen (`preview`), and does it (`run`). Adding one is described in docs/adding-a-tool.md.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from agent_tools.cancel import CancelToken
from agent_tools.display import Display, TodoItem
from agent_tools.media import MediaKind
from agent_tools.overrides import ExpandedPrompt
from agent_tools.record import Value
from agent_tools.results import (
    AskModel,
    AskUser,
    Effect,
    EffectKind,
    Finish,
    Outcome,
    Progress,
    Suspend,
    ToolError,
    ToolResult,
)  # fmt: skip
from agent_tools.sandbox.conditions import RunConditions
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.schema import canonical, read_arguments, schema_of
from agent_tools.shell.jobs import Jobs
from agent_tools.shell.state import Carried, ShellState

if TYPE_CHECKING:
    from agent_tools.fs.workspace import Workspace
    from agent_tools.web.cache import Page


__all__ = [
    "AskModel", "AskUser", "Effect", "EffectKind", "Finish", "Outcome", "Progress", "Suspend", "Tool", "ToolContext",
    "ToolError", "ToolResult",
]  # fmt: skip

A = TypeVar("A", bound=Value)


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


class ToolContext:
    """What the tools of one conversation share. Built by assembly, passed to every call, rebuilt on resume.

    seen: for each file the model has read or written, the hash of the content it knows (`workspace.fingerprint`).
    plan: the todo list as it stands.
    env: the environment for commands. readable: whether a file's content may be shown by a search; None where every
    file's may. takes: what the model can be shown beside text. sandbox: what commands run in; None: nothing. terms: how
    a command that was allowed is to run. shell: the variables that carry over between commands. jobs: those in the
    background. pages: what WebFetch has read lately. commands, skills: the user's, by name, that the
    model may use. agents: the types of sub-agents that are not shipped. nearby: the memory of folders that are
    touched. mentioned: texts of whole files, as a prompt that mentions them has them, with path and fingerprint.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        cancel: CancelToken | None = None,
        env: dict[str, str] | None = None,
        settings: dict[str, Any] | None = None,
        demand_read: bool = True,
    ) -> None:
        self.workspace = workspace
        self.cancel = cancel or CancelToken()
        self.env = env or {}
        self.settings = settings or {}
        self.demand_read = demand_read
        self.seen: dict[str, str] = {}
        self.plan: tuple[TodoItem, ...] = ()
        self.readable: Callable[[Path | str], bool] | None = None
        self.takes: frozenset[MediaKind] = frozenset()
        self.sandbox: SandboxRunner | None = None
        self.terms: Callable[[str], RunConditions] = lambda command: RunConditions()
        self.shell = ShellState()
        self.jobs = Jobs()
        self.pages: dict[str, Page] = {}
        self.commands: Mapping[str, UserCommand] = {}
        self.skills: Mapping[str, UserSkill] = {}
        self.agents: Mapping[str, Described] = {}
        self.nearby: NearbyMemory | None = None
        self.mentioned: dict[str, tuple[str, str]] = {}
        self._told: dict[str, object] = {}
        self._root = True

    def nested(self) -> ToolContext:
        """The context of a sub-agent: all is shared but what it has read, its plan, and where its commands start."""
        child = ToolContext.__new__(type(self))
        child.__dict__.update(self.__dict__)
        child.seen, child.plan, child.mentioned = {}, (), {}
        child.workspace, child.shell = self.workspace.copy(), self.shell.copy()
        child.nearby = self.nearby.nested() if self.nearby is not None else None
        child._root = False
        return child

    def carried(self) -> Carried:
        """What the next command starts with, as it may be written down."""
        return Carried(str(self.workspace.cwd), self.shell.public())

    def carry_on(self, carried: Carried) -> None:
        """Start commands with what was written down, as far as that is possible here and now."""
        cwd = Path(carried.cwd)
        if os.path.isdir(cwd) and self.workspace.inside(cwd):  # noqa: PTH112 - the method raises where a parent is closed
            self.workspace.cwd = cwd
        self.shell.restore(carried.variables)

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
        """What happened meanwhile that the model should know at its next round; each is told once."""
        near = self.nearby.notices(self) if self.nearby is not None else []
        return [*self.jobs.notices(self, root=self._root), *near]

    def close(self) -> None:
        """End what runs in the background, and remove what was kept for reading."""
        self.jobs.close()
        self.workspace.scratch.close()
        if self.sandbox is not None:
            self.sandbox.close()


class Tool(ABC, Generic[A]):
    """A tool. `name` is what the model calls; `Args` is a `Value` whose fields are the arguments.

    The class attributes below say what the rest of the program needs to know of a tool; it asks for these and never for
    the name. `builtin.tool_class` finds them for a name.
    """

    name: str
    Args: type[A]
    # What the model is told of a tool that has no prompt file.
    told: str = ""
    # What other programs call it, in rules, hook matchers and agent types.
    other_names: ClassVar[tuple[str, ...]] = ()
    # Arguments of a call, to try hooks with.
    example: ClassVar[Mapping[str, Any]] = {}

    # How a call runs.
    # It only asks the user: its `run` has no effect and returns a `Suspend`.
    asks_person: ClassVar[bool] = False
    # Its work is a turn of its own, run by the engine: a sub-agent.
    nested: ClassVar[bool] = False
    # It only looks, and may run beside others of its kind.
    side_by_side: ClassVar[bool] = False
    # It is about one conversation, its user, plan or model: not offered to other programs.
    of_conversation: ClassVar[bool] = False
    # It proposes the plan that ends plan mode, which only the user's own conversation can.
    ends_plan_mode: ClassVar[bool] = False
    # It changes the todo list, and nothing else.
    changes_plan: ClassVar[bool] = False
    # The argument that holds a whole todo list, which the user may want to approve.
    plan_argument: ClassVar[str] = ""

    # What it reads and writes.
    # The arguments that name paths.
    paths: ClassVar[tuple[str, ...]] = ()
    # The argument that names the file it is about.
    file_argument: ClassVar[str] = ""
    # Its result is what is in that file.
    shows_file: ClassVar[bool] = False
    # Given nothing but the file, it shows it as it is now: a compaction reads files again with it.
    reopens: ClassVar[bool] = False
    # It changes files.
    changes_files: ClassVar[bool] = False
    # It gives a file a new content as a whole.
    replaces_file: ClassVar[bool] = False
    # The argument that holds a command line.
    command_argument: ClassVar[str] = ""
    # The argument that names an address to open; one that only the model has named is asked about.
    address_argument: ClassVar[str] = ""

    # What its results are worth.
    # They tell of a state: the same call made later makes the result stale.
    repeatable: ClassVar[bool] = False
    # They show lines of files that the call did not name.
    searches_content: ClassVar[bool] = False
    # They are the model's own words, or may be made of them.
    composed: ClassVar[bool] = False

    # What a user is asked about a call.
    # The argument that the user may change before the call runs.
    editable: ClassVar[str] = ""
    # Whether that argument fits into a line.
    editable_in_line: ClassVar[bool] = False
    # The user may take some parts of its change and leave others; it has the arguments of the tools that edit.
    in_parts: ClassVar[bool] = False

    # What rules about it say.
    # What stands in parentheses: a glob, a command, a host, the target of its effect; "": such a rule is a mistake.
    rule_names: ClassVar[Literal["", "path", "command", "domain", "target"]] = ""
    # The effects that a rule about it is about whichever tool has them: who may not Edit a file may not Write it.
    rule_covers: ClassVar[tuple[EffectKind, ...]] = ()
    # A rule that allows every call of it may be proposed.
    granted_whole: ClassVar[bool] = False

    def resolved(self, args: A, ctx: ToolContext) -> A:
        """The arguments with what their paths mean now (`Workspace.resolved`), for all that is done with a call.

        It is asked once, before `effects`: what is decided about is then what `run` opens. Raises ToolError.
        """
        named = {name: text for name in self.paths if (text := getattr(args, name)) is not None}
        return args.but(**{name: ctx.workspace.resolved(text) for name, text in named.items()}) if named else args

    @abstractmethod
    def effects(self, args: A, ctx: ToolContext) -> tuple[Effect, ...]:
        """What running with these arguments would do. In doubt, say that it changes things."""

    @abstractmethod
    def run(self, args: A, ctx: ToolContext) -> Outcome:
        """Do it. Return a `ToolResult`, or be a generator that yields `Progress` (or a question) and returns one.

        Raises ToolError for failures the model should read, Cancelled when the turn is interrupted.
        """

    @abstractmethod
    def summary(self, args: A, ctx: ToolContext) -> str:
        """The call in one line for a user, made from its arguments: "Run: pytest -q"."""

    def alone(self, args: A) -> bool:
        """Whether the call must be the only one of its round."""
        return False

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments. For tools whose arguments are no fixed class, overridden with `read`."""
        return schema_of(self.name, self.Args)

    def read(self, arguments: dict[str, Any]) -> A:
        """The checked arguments. Raises ToolError with the mistakes in words."""
        args: A = read_arguments(self.Args, arguments)
        return args

    def canonical(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments under the names of the schema, as hooks, questions and the log are given them."""
        # A tool with a schema of its own accepts no other names.
        return canonical(self.Args, arguments) if type(self).schema is Tool.schema else arguments

    def stands_for(self, args: A, ctx: ToolContext) -> tuple[Tool[Any], Any]:
        """The tool that is really called, and its arguments: what is decided on, asked about and run.

        Raises ToolError where there is none.
        """
        return self, args

    def preview(self, args: A, ctx: ToolContext) -> Display | None:
        """What would happen, for the approval question: a diff, or nothing where the summary says it all.

        Raises ToolError where the call is bound to fail; it is then not asked about.
        """
        return None

    def teach(self, ctx: ToolContext) -> str:
        """What the model is told of the tool beside its prompt file, where that depends on the place."""
        return ""

    def available(self, ctx: ToolContext) -> bool:
        """Whether the tool can work here; decided once per session, for the list the model is given."""
        return True

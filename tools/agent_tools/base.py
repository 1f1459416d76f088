"""What a tool is: a name, an arguments class, the effects it is about to have, and how it runs.

A tool knows neither the screen, nor the event stream, nor permission. It says what it will do (`effects`), shows what
would happen (`preview`), and does it (`run`). Adding one is described in docs/adding-a-tool.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from agent_tools.arguments import ToolError as ToolError
from agent_tools.arguments import read_arguments, schema_of
from agent_tools.cancel import CancelToken
from agent_tools.display import Display, TodoItem
from agent_tools.media import Media, MediaKind
from agent_tools.values import Value

if TYPE_CHECKING:
    from agent_tools.workspace import Workspace


class Effect(Value):
    """One thing a call is about to do. `target`: an absolute resolved path, a command line, or a URL."""

    kind: Literal["read", "write", "run", "fetch", "state"]
    target: str = ""


class Suspend(Value):
    """The call cannot finish without a person. "questions": data holds `questions`; "plan": the plan to approve."""

    kind: Literal["questions", "plan"]
    data: dict[str, Any]


class Finish(Value):
    """The call completes the turn with this return value."""

    value: Any


class ToolResult(Value):
    """What came of a call: `text` and `media` for the model, `display` for the person."""

    text: str
    display: Display | None = None
    is_error: bool = False
    suspend: Suspend | None = None
    finish: Finish | None = None
    media: tuple[Media, ...] = ()


class Progress(Value):
    """Output while a tool runs: complete or partial lines, as they come."""

    text: str


class Ask(Value):
    """A question to the small model, yielded by a running tool, which is sent the answer. `text` may be untrusted."""

    system: str
    text: str
    max_tokens: int = 2_000


Outcome = ToolResult | Generator[Any, Any, ToolResult]
A = TypeVar("A", bound=Value)


class ToolContext:
    """What the tools of one conversation share. Built by assembly, passed to every call, rebuilt on resume.

    seen: for each file the model has read or written, the hash of the content it knows (`workspace.fingerprint`).
    plan: the todo list as it stands.
    env: the environment for commands. readable: whether a file's content may be shown by a search; None where every
    file's may. takes: what the model can be shown beside text.
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
        self.readable: Callable[[Path], bool] | None = None
        self.takes: frozenset[MediaKind] = frozenset()

    def nested(self) -> ToolContext:
        """The context of a sub-agent: everything shared but what it has read and its plan."""
        child = ToolContext.__new__(type(self))
        child.__dict__.update(self.__dict__)
        child.seen, child.plan = {}, ()
        return child

    def notices(self) -> list[str]:
        """What happened meanwhile that the model should know at its next round; each is told once."""
        return []


class Tool(ABC, Generic[A]):
    """A tool. `name` is what the model calls; `Args` is a `Value` whose fields are the arguments."""

    name: ClassVar[str]
    Args: type[A]
    # A tool that only asks the person: its `run` has no effect and returns a `Suspend`.
    asks_person: ClassVar[bool] = False
    # A tool whose work is a turn of its own, run by the engine.
    nested: ClassVar[bool] = False
    # A tool that only looks, and may run beside others of its kind.
    side_by_side: ClassVar[bool] = False

    @abstractmethod
    def effects(self, args: A, ctx: ToolContext) -> tuple[Effect, ...]:
        """What running with these arguments would do. In doubt, say that it changes things."""

    @abstractmethod
    def run(self, args: A, ctx: ToolContext) -> Outcome:
        """Do it. Return a `ToolResult`, or be a generator that yields `Progress` (or `Ask`) and returns one.

        Raises ToolError for failures the model should read, Cancelled when the turn is interrupted.
        """

    @abstractmethod
    def summary(self, args: A, ctx: ToolContext) -> str:
        """The call in one line for a person, made from its arguments: "Run: pytest -q"."""

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

    def preview(self, args: A, ctx: ToolContext) -> Display | None:
        """What would happen, for the approval question: a diff, or nothing where the summary says it all.

        Raises ToolError where the call is bound to fail; it is then not asked about.
        """
        return None

    def available(self, ctx: ToolContext) -> bool:
        """Whether the tool can work here; decided once per session, for the list the model is given."""
        return True

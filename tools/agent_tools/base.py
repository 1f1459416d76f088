"""What a tool is: a name, an arguments class, the effects it is about to have, and how it runs.

A tool knows neither the screen, nor the event stream, nor permission. It says what it will do (`effects`), shows what
would happen (`preview`), and does it (`run`). Adding one is described in docs/adding-a-tool.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Literal, TypeVar

from agent_tools.context import ToolContext
from agent_tools.display import Display
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
from agent_tools.schema import Freeform, canonical, read_arguments, schema_of

__all__ = [
    "AskModel", "AskUser", "Effect", "EffectKind", "Finish", "Freeform", "Outcome", "Progress", "Suspend", "Tool",
    "ToolContext", "ToolError", "ToolResult",
]  # fmt: skip

A = TypeVar("A", bound=Value)


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

    # Its input in plain text, for models that are trained on it.
    freeform: ClassVar[Freeform | None] = None

    # How a call runs.
    # It only asks the user: its `run` has no effect and returns a `Suspend`.
    asks_user: ClassVar[bool] = False
    # Its work is a turn of its own, run by the engine: a sub-agent.
    nested: ClassVar[bool] = False
    # It only looks, and may run beside others of its kind.
    parallel_safe: ClassVar[bool] = False
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

    def resolve_target(self, args: A, ctx: ToolContext) -> tuple[Tool[Any], Any]:
        """The tool that is really called, and its arguments: what is decided on, asked about and run.

        Raises ToolError where there is none.
        """
        return self, args

    def preview(self, args: A, ctx: ToolContext) -> Display | None:
        """What would happen, for the approval question: a diff, or nothing where the summary says it all.

        Raises ToolError where the call is bound to fail; it is then not asked about.
        """
        return None

    def dynamic_description(self, ctx: ToolContext) -> str:
        """What the model is told of the tool beside its prompt file, where that depends on the place."""
        return ""

    def available(self, ctx: ToolContext) -> bool:
        """Whether the tool can work here; decided once per session, for the list the model is given."""
        return True

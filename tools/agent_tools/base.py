"""The Tool base class: a name, an arguments class, traits, the effects of a call, and a way to run.

A tool knows neither the screen, nor the event stream, nor permissions. It declares its `effects`, shows a `preview` and
does the work in `run`. docs/adding-a-tool.md shows how to add one. What tools share is in `context.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, TypeVar

from agent_tools.context import HasDescription, ToolContext, ToolState, UserCommand
from agent_tools.record import Value
from agent_tools.requirements import Need, is_met
from agent_tools.results import (
    AskHooks,
    AskModel,
    AskUser,
    Display,
    Effect,
    EffectKind,
    Finish,
    Outcome,
    Progress,
    ResultSize,
    Suspend,
    ToolError,
    ToolResult,
)  # fmt: skip
from agent_tools.schema import Freeform, canonical, read_arguments, schema_of

__all__ = [
    "AskHooks", "AskModel", "AskUser", "Effect", "EffectKind", "Finish", "Freeform", "HasDescription", "Outcome",
    "Progress", "Suspend", "Tool", "ToolContext", "ToolError", "ToolResult", "ToolState", "UserCommand",
]  # fmt: skip

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


A = TypeVar("A", bound=Value)


class Tool(ABC, Generic[A]):
    """Base class of all tools. `name` is what the model calls; the fields of `Args` are the arguments.

    The class attributes below are the traits that the rest of the program asks for; it never compares names.
    `registry.tool_traits` finds those of a name. A trait is data: `make schemas` puts them into tools.json.
    """

    name: str
    Args: type[A]
    # Description for the model of a tool without a prompt file.
    description: str = ""
    # Names that other programs have for it, accepted in rules, hook matchers and agent types.
    other_names: ClassVar[tuple[str, ...]] = ()
    # Arguments of a sample call, to test hooks with.
    example: ClassVar[Mapping[str, Any]] = {}

    # The only models that are offered it, by the beginnings of their names: those trained on it; () for all models.
    trained_models: ClassVar[tuple[str, ...]] = ()
    # Tools that these models do not need beside it.
    instead_of: ClassVar[tuple[str, ...]] = ()
    # Arguments that small models are offered; () keeps the tool from them.
    small_arguments: ClassVar[tuple[str, ...]] = ()
    # Its input in plain text, for models that are trained on it.
    freeform: ClassVar[Freeform | None] = None

    # Found by ToolSearch, and in the requests only if the settings name it: models rarely choose it.
    rare: ClassVar[bool] = False
    # What must be there for the tool to be offered.
    needs: ClassVar[Need | None] = None
    # Language servers of which one must be usable for it to be offered, as `checkers.SERVERS`.
    servers: ClassVar[tuple[Any, ...]] = ()

    # How a call runs.
    # Only asks the user: `run` has no effect and returns a `Suspend`.
    asks_user: ClassVar[bool] = False
    # Starts a sub-agent: its work is a turn of its own, run by the engine.
    nested: ClassVar[bool] = False
    # Read-only; calls may run in parallel.
    parallel_safe: ClassVar[bool] = False
    # Needs this conversation (its user, plan or model), so it is not served to other programs over MCP.
    of_conversation: ClassVar[bool] = False
    # Called by the program itself; models are not offered it.
    of_program: ClassVar[bool] = False
    # A tool of an MCP server.
    of_server: ClassVar[bool] = False
    # Finds or calls tools of MCP servers that are not offered by themselves.
    reaches_servers: ClassVar[bool] = False
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
    # Only looks around; calls in a row are shown as one line that counts them, in these words.
    explores: ClassVar[Literal["", "read", "search", "list"]] = ""
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
    # So it may here, by their numbers in the preview: the argument `leave_out`.
    numbered_parts: ClassVar[bool] = False

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

    def facts(self, args: A, ctx: ToolContext) -> tuple[str, ...]:
        """Return facts for the approval prompt besides the preview, a line each."""
        return ()

    def refused(self, args: A, reason: str, ctx: ToolContext) -> ToolResult | None:
        """Return the result of a call that the user refused, if it is another than that of all tools.

        reason: the user's words; "" for none.
        """
        return None

    def dynamic_description(self, ctx: ToolContext) -> str:
        """Return what to append to the description in this workspace or session; "" for nothing."""
        return ""

    def available(self, ctx: ToolContext) -> bool:
        """Return True if the tool can work here; checked once per session, for the list that the model gets."""
        return self.needs is None or is_met(self.needs, ctx)

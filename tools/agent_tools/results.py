"""The results of calls: effects, attachments, values that a running tool yields, prompts to expand, and size limits.

A result takes at most a share of the model's window. A short result is shown whole. Of a longer one, the model sees the
beginning and the end, and the file that has all of it. Tools that page their results stop at the end of a page, and
name the offset to continue with.

A display is for the user: plain data, rendered by the front end.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Generator, Sequence
from typing import Any, ClassVar, Literal

from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.shell.output_file import Scratch
from agent_tools.text import HeadTail

with lazy_imports():
    from agent_tools.shell import error_lines


class Diff(Value, tag="Diff"):
    """A change to one file. patch: a unified diff with three context lines and no file header."""

    path: str
    patch: str
    added: int = 0
    removed: int = 0
    created: bool = False
    deleted: bool = False


class Diffs(Value, tag="Diffs"):
    """Changes to several files."""

    files: tuple[Diff, ...]


class Listing(Value, tag="Listing"):
    """Names found: files, matches, directory entries. more: number of lines not listed.

    found: number found, if it is not the number of lines.
    """

    title: str
    lines: tuple[str, ...] = ()
    more: int = 0
    found: int | None = None


class FileView(Value, tag="FileView"):
    """Part of a file that was read. first: first line, from 1. lines: number of lines. total: lines of the file.

    ended: the last line of the file ends with a line break.
    """

    path: str
    first: int
    lines: int
    total: int
    ended: bool = False


class CommandOutput(Value, tag="CommandOutput"):
    """A command that ran.

    exit_code: None if a signal or the time-out ended it.
    pipe: exit codes of the parts of the last pipe that it ran; () if unknown.
    check_failed: a check in a pipe failed, which the exit code does not show.
    """

    command: str
    output: str
    exit_code: int | None
    seconds: float
    note: str = ""
    pipe: tuple[int, ...] = ()
    check_failed: bool = False

    @property
    def failed(self) -> bool:
        """Return True if the command, or a check in it, failed."""
        return self.exit_code != 0 or self.check_failed


class TodoItem(Value, tag="TodoItem"):
    """One step of the plan."""

    ALIASES: ClassVar = {"content": ("step", "title", "description", "task", "text")}
    UNLISTED: ClassVar = ("id", "priority")

    content: str
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"
    activeForm: str = ""  # noqa: N815 - the argument name that models know
    id: str = ""
    priority: Literal["", "high", "medium", "low"] = ""

    @property
    def label(self) -> str:
        """Return the content with ID and priority, for the model."""
        parts = [f"id {self.id}" if self.id else "", f"{self.priority} priority" if self.priority else ""]
        shown = ", ".join(filter(None, parts))
        return f"{self.content} ({shown})" if shown else self.content


class TodoView(Value, tag="TodoView"):
    """The whole current plan."""

    items: tuple[TodoItem, ...]


class Note(Value, tag="Note"):
    """A line of text for the user.

    ended: the background command that has ended, with its exit code, None if it was stopped.
    """

    text: str
    ended: tuple[str, int | None] | None = None


Display = Diff | Diffs | Listing | FileView | CommandOutput | TodoView | Note


MediaKind = Literal["image", "pdf"]


class Media(Value, tag="Media"):
    """One attachment. mime: such as image/png. data: base64 without line breaks. name: of the file, as given."""

    mime: str
    data: str
    name: str = ""

    @property
    def kind(self) -> MediaKind:
        return "pdf" if self.mime == "application/pdf" else "image"

    @property
    def digest(self) -> str:
        """Identifies the content."""
        return f"{crc32(self.data.encode()):08x}-{len(self.data):x}"


class TurnOverrides(Value, tag="Lent"):
    """Overrides until the end of the turn.

    rules: permission rules for calls that need no approval.
    model: the model to use.
    flow: the workflow that the engine enforces.
    source: description of the file that declares them.
    from_user: the file belongs to the user, not to the project.
    hooks: its hooks, as JSON data.
    for_session: the hooks run until the session ends.
    """

    _former = {"own": "from_user"}  # noqa: RUF012

    rules: tuple[str, ...] = ()
    model: str = ""
    flow: str = ""
    source: str = ""
    from_user: bool = True
    hooks: tuple[dict[str, Any], ...] = ()
    for_session: bool = False

    def __bool__(self) -> bool:
        return bool(self.rules or self.model or self.flow or self.hooks)


class ExpandedPrompt(Value):
    """A prompt with shell commands or overrides.

    name: name of the command or skill.
    pieces: text, command, text, ...; each command is replaced by its output.
    below: paragraphs to append.
    overrides: those for the turn.
    """

    name: str
    pieces: tuple[str, ...]
    below: tuple[str, ...] = ()
    overrides: TurnOverrides = TurnOverrides()

    @property
    def commands(self) -> tuple[str, ...]:
        return self.pieces[1::2]

    def text(self, outputs: Sequence[str] = ()) -> str:
        """Return the prompt with the outputs of its commands; without outputs, with the commands as written."""
        shown = list(outputs) or [f"!`{command}`" for command in self.commands]
        words = [*self.pieces]
        words[1::2] = shown
        return "\n\n".join(["".join(words).strip(), *self.below])


def as_expanded_prompt(prompt: str | ExpandedPrompt, name: str = "") -> ExpandedPrompt:
    """Return any prompt as an ExpandedPrompt."""
    return prompt if isinstance(prompt, ExpandedPrompt) else ExpandedPrompt(name, (prompt,))


# "short", "page": the limit of that name. "whole": never truncated, such as instructions of the user.
ResultSize = Literal["short", "page", "whole"]
# Assumed size of an unknown window, in tokens.
ASSUMED_WINDOW_TOKENS = 128_000
_BYTES_PER_TOKEN = 3.5
_WINDOW_DIVISOR = 8
_MIN_LIMIT_BYTES = 1_000


class ResultLimits(Value):
    """Limits of results. short, page: bytes. window: size of the model's window in tokens."""

    short: int = 10_000
    page: int = 25_000
    window: int = ASSUMED_WINDOW_TOKENS

    def most(self, size: ResultSize) -> int:
        """Return the limit in bytes; for "whole", that of one page if it is read in parts."""
        most = self.short if size == "short" else max(self.short, self.page)
        return max(min(most, int(self.window * _BYTES_PER_TOKEN / _WINDOW_DIVISOR)), _MIN_LIMIT_BYTES)

    def buffer(self, size: ResultSize, scratch: Scratch, search: str) -> HeadTail:
        """Return a buffer for a result that arrives in pieces; a long one is saved whole in a file.

        Of a failure, a third is the beginning and two thirds are the end; of other results less is shown, half and
        half.
        search: how the model can search the file; "" if it cannot.
        """
        most = self.most(size)
        head = most * 7 // 20
        find = error_lines.describe_error_lines
        return HeadTail(head, most - head, scratch, search=search, brief=most * 2 // 5, find_errors=find)


class ToolError(Exception):
    """The call failed for a reason that the model can act on; it reads the message."""


EffectKind = Literal["read", "write", "run", "fetch", "state", "prompt", "call"]


class Effect(Value, tag="Effect"):
    """One thing that a call is about to do.

    kind: "state" changes only the conversation; "prompt" adds a saved prompt to it; "call" has effects unknown to this
    program.
    target: an absolute resolved path, a command line, a URL, or the name of the prompt or tool.
    """

    kind: EffectKind
    target: str = ""


class Suspend(Value, tag="Suspend"):
    """The call needs the user's answer. data: has `questions` for "questions", the plan to approve for "plan"."""

    kind: Literal["questions", "plan"]
    data: dict[str, Any]


class Finish(Value, tag="Finish"):
    """The call completes the turn with this return value. checked: the checks at the end of a turn have run."""

    value: Any = None
    checked: bool = False


class ToolResult(Value, tag="ToolResult"):
    """The result of a call.

    text, media: for the model.
    display: for the user.
    suspend: the question that the turn waits for.
    finish: ends the turn with a return value.
    overrides: for the rest of the turn.
    """

    _former = {"lent": "overrides"}  # noqa: RUF012

    text: str
    display: Display | None = None
    is_error: bool = False
    suspend: Suspend | None = None
    finish: Finish | None = None
    media: tuple[Media, ...] = ()
    overrides: TurnOverrides = TurnOverrides()


class Progress(Value):
    """Output of a running tool: complete or partial lines, as they arrive."""

    text: str


class AskModel(Value):
    """A question to the small model, yielded by a running tool, which gets the answer. `text` may be untrusted."""

    system: str
    text: str
    max_tokens: int = 2_000


class AskUser(Value):
    """A question to the user, yielded by a running tool, which gets the answer; None if no user can be asked."""

    question: str
    options: tuple[str, ...] = ()


class AskHooks(Value):
    """A form of a server, yielded by a running tool before and after it is answered; hooks may answer it otherwise.

    answer: in the protocol's form; None before there is one. What is sent back is an answer, or None.
    """

    server: str
    form: dict[str, Any]
    answer: dict[str, Any] | None = None


Outcome = ToolResult | Generator[Any, Any, ToolResult]

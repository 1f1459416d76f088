"""Hooks as the engine sees them: their events, their configuration, their results, and the implementation without any.

A hook is a command (or a function, for programs that embed the engine) that runs at a named step. The engine calls
`wants` first; a step without hooks costs that call and nothing else.

Each event is one row: matcher, effect of its answers, payload. A new event is a name in `HookEvent`, a row here, and
the place in the engine that fires it. Matching, parsing of answers, validation of settings, `agent hooks` and the table
in docs/hooks.md derive from the row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Literal

from agent_cli.core.events import Event, HookFinished
from agent_tools.cancel import CancelToken
from agent_tools.record import Protocol, Value
from agent_tools.registry import SHELL
from agent_tools.text import escape_controls, short_duration, shorten

HookEvent = Literal[
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "Setup",
    "SessionStart",
    "SessionEnd",
    "Notification",
]
HookVerdict = Literal["", "allow", "ask", "defer", "deny"]
STRICTNESS: tuple[HookVerdict, ...] = ("", "allow", "ask", "defer", "deny")
CALL_FIELDS = ("tool_name", "tool_input", "tool_use_id", "effects")


class HookEventRow(Value):
    """One hook event.

    name: as settings and payloads spell it.
    when: when it fires, for the documentation.
    example: its own fields on standard input, with the values of `agent hooks test`; those of a call are left out.
    matched: the field that a matcher is compared with; "" for an event without matchers.
    subjects: the values of that field, where they are few.
    verdicts: what an answer may decide: an imperative, and the sentence of `agent hooks test`. "deny" means block.
    verdict_key: where the verdict is in an answer: `decision`, or under hookSpecificOutput `permissionDecision`, or
        `decision.behavior`.
    plain_text: plain text on standard output is context for the model.
    adds_context: an answer may have additionalContext.
    changes_input: an answer may have updatedInput.
    changes_output: an answer may have updatedToolOutput.
    sets_variables: the hook gets a file (CLAUDE_ENV_FILE); what it exports there is set for the session's commands.
    shows_refusal: the engine shows a refusal itself, so the line about the hook is left out.
    before_message: it may run before the message of its turn.
    """

    name: HookEvent
    when: str
    example: dict[str, Any]
    matched: str = ""
    subjects: tuple[str, ...] = ()
    verdicts: dict[HookVerdict, tuple[str, str]] = {}  # noqa: RUF012 - never changed
    verdict_key: Literal["decision", "permissionDecision", "behavior"] = "decision"
    plain_text: bool = False
    adds_context: bool = False
    changes_input: bool = False
    changes_output: bool = False
    sets_variables: bool = False
    shows_refusal: bool = False
    before_message: bool = False

    @property
    def about_call(self) -> bool:
        """Return True if it is about a tool call, so that `if` rules may filter it."""
        return self.matched == "tool_name"

    @property
    def blocks(self) -> bool:
        """Return True if a hook may refuse."""
        return "deny" in self.verdicts

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its own fields on standard input."""
        return (*(CALL_FIELDS if self.about_call else ()), *self.example)


_AGENT = {"agent_id": "call_1", "agent_type": "general-purpose"}
_DONE = {
    "stop_hook_active": False, "last_assistant_message": "Done.", "background_tasks": [], "session_crons": [],
}  # fmt: skip
_ROWS = (
    HookEventRow(
        "PreToolUse",
        "before a call",
        {},
        matched="tool_name",
        verdicts={
            "deny": ("refuse it", "the call would be refused"),
            "ask": ("ask the user", "the user would be asked"),
            "defer": ("defer it", "the run would be suspended; with a user present, they would be asked"),
            "allow": ("allow it", "the call would be allowed, unless a rule or a protected file forbids it"),
        },
        verdict_key="permissionDecision",
        adds_context=True,
        changes_input=True,
        shows_refusal=True,
        before_message=True,
    ),
    HookEventRow(
        "PermissionRequest",
        "before the user is asked",
        {"reason": "is not allowed by a rule"},
        matched="tool_name",
        verdicts={
            "deny": ("answer no", "the question would be answered with no"),
            "allow": ("answer yes", "the question would be answered with yes"),
        },
        verdict_key="behavior",
        changes_input=True,
        shows_refusal=True,
    ),
    HookEventRow(
        "PostToolUse",
        "a call succeeded",
        {"tool_response": {"content": "hello\n", "success": True}, "duration_ms": 10},
        matched="tool_name",
        verdicts={"deny": ("tell the model what is wrong", "the model would get a message")},
        adds_context=True,
        changes_output=True,
    ),
    HookEventRow(
        "PostToolUseFailure",
        "a call failed",
        {"error": "Exit code 1", "is_interrupt": False, "duration_ms": 10},
        matched="tool_name",
        verdicts={"deny": ("tell the model what is wrong", "the model would get a message")},
        adds_context=True,
    ),
    HookEventRow(
        "PostToolBatch",
        "all calls of an answer have results",
        {
            "tool_calls": [
                {
                    "tool_name": SHELL.name,
                    "tool_input": {"command": "ls"},
                    "tool_use_id": "call_1",
                    "tool_response": "a.txt",
                }
            ]
        },
        verdicts={"deny": ("end the turn", "the turn would end")},
        adds_context=True,
        shows_refusal=True,
    ),
    HookEventRow(
        "UserPromptSubmit",
        "you sent a message",
        {"prompt": "hello"},
        verdicts={"deny": ("block it", "the message would not be sent")},
        plain_text=True,
        adds_context=True,
        shows_refusal=True,
        before_message=True,
    ),
    HookEventRow(
        "UserPromptExpansion",
        "your command becomes a prompt",
        {
            "expansion_type": "slash_command",
            "command_name": "review",
            "command_args": "",
            "command_source": "project",
            "prompt": "/review",
        },
        matched="command_name",
        verdicts={"deny": ("block it", "the message would not be sent")},
        plain_text=True,
        adds_context=True,
        shows_refusal=True,
        before_message=True,
    ),
    HookEventRow(
        "Stop",
        "the model is done",
        dict(_DONE),
        verdicts={"deny": ("make it continue", "the turn would continue")},
    ),
    HookEventRow(
        "SubagentStart",
        "a sub-agent starts",
        dict(_AGENT),
        matched="agent_type",
        adds_context=True,
    ),
    HookEventRow(
        "SubagentStop",
        "a sub-agent is done",
        {**_DONE, **_AGENT, "agent_transcript_path": ""},
        matched="agent_type",
        verdicts={"deny": ("make it continue", "the sub-agent would continue")},
    ),
    HookEventRow(
        "PreCompact",
        "before compaction",
        {"trigger": "manual", "custom_instructions": None},
        matched="trigger",
        subjects=("manual", "auto"),
        verdicts={"deny": ("block it", "nothing would be compacted")},
        plain_text=True,
        adds_context=True,
    ),
    HookEventRow(
        "PostCompact",
        "after compaction",
        {"trigger": "manual", "compact_summary": "The tests pass."},
        matched="trigger",
        subjects=("manual", "auto"),
    ),
    HookEventRow(
        "Setup",
        "`--init` or `--maintenance`",
        {"trigger": "init"},
        matched="trigger",
        subjects=("init", "maintenance"),
        plain_text=True,
        adds_context=True,
        sets_variables=True,
        before_message=True,
    ),
    HookEventRow(
        "SessionStart",
        "before the first message",
        {"source": "startup", "model": "openai/gpt-5"},
        matched="source",
        subjects=("startup", "resume", "fork", "clear", "compact"),
        plain_text=True,
        adds_context=True,
        sets_variables=True,
        before_message=True,
    ),
    HookEventRow(
        "SessionEnd",
        "the session ends",
        {"reason": "other"},
        matched="reason",
        subjects=("clear", "prompt_input_exit", "other"),
    ),
    HookEventRow(
        "Notification",
        "a question is waiting for you",
        {"notification_type": "permission_prompt", "message": "The agent needs your permission"},
        matched="notification_type",
        subjects=("permission_prompt", "elicitation_dialog"),
    ),
)
HOOK_EVENTS: dict[str, HookEventRow] = {row.name: row for row in _ROWS}


def events_table() -> str:
    """Return the table of docs/hooks.md."""
    lines = [
        "| event | when | matcher | its own fields on standard input | what it can do |",
        "|---|---|---|---|---|",
    ]
    for row in _ROWS:
        matcher = ", ".join(f"`{s}`" for s in row.subjects) or row.matched.removesuffix("_name").replace("_", " ")
        fields = " ".join(f"`{name}`" for name in row.fields)
        can = [words for words, _ in row.verdicts.values()]
        can += ["change the input"] * row.changes_input + ["change the result"] * row.changes_output
        can += ["add context"] * row.adds_context + ["set variables"] * row.sets_variables
        lines.append(f"| `{row.name}` | {row.when} | {matcher} | {fields} | {', '.join(can)} |")
    return "\n".join(lines) + "\n"


DEFAULT_TIMEOUT_SECONDS = 60.0


class Hook(Value):
    """A configured hook.

    command: a command line; by kind also a URL to post to, a condition in natural language, or the name of a tool.
    args: if set, the command is started without a shell.
    strict: a failure of the hook blocks, too.
    from_user: configured by the user, not by a project.
    background: run without waiting for its answer.
    wakes: run in the background; if it blocks, its reason is sent to the model.
    only: a permission rule; the hook runs only for calls that it covers.
    headers: sent to the URL.
    variables: environment variables that the headers may use.
    model: evaluates the condition; "" for the small model.
    env: additional environment variables of the command.
    server, tool, input: the MCP tool to call, and its arguments with `${field}` of the hook's input.
    once: run once in a session; a failed run does not count.
    shell: runs the command line, by its name or path; "" for bash.
    cwd: folder of the command, relative to the workspace; "" for the session's working directory.
    refuses_only: its allow and its changes of the input have no effect, as a key that may limit it is not understood.
    unusable: why it cannot run; it is a failure at each step that it is for.
    """

    _former = {"own": "from_user"}  # noqa: RUF012

    event: HookEvent
    command: str
    matcher: str = ""
    args: tuple[str, ...] = ()
    timeout: float = DEFAULT_TIMEOUT_SECONDS
    strict: bool = False
    source: str = ""
    from_user: bool = True
    background: bool = False
    wakes: bool = False
    kind: Literal["command", "http", "prompt", "agent", "mcp_tool"] = "command"
    only: str = ""
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed
    variables: tuple[str, ...] = ()
    model: str = ""
    env: dict[str, str] = {}  # noqa: RUF012
    server: str = ""
    tool: str = ""
    input: dict[str, Any] = {}  # noqa: RUF012
    once: bool = False
    shell: str = ""
    cwd: str = ""
    refuses_only: bool = False
    unusable: str = ""

    @property
    def where(self) -> str:
        """The matcher and the rule that limit it; "" for none."""
        return " if ".join(text for text in (self.matcher, self.only) if text)

    def __str__(self) -> str:
        """Describe the hook for lists: where it applies and what it runs."""
        where = f" ({self.where})" if self.where else ""
        more = f", sent {', '.join(self.variables)}" if self.variables else ""
        more += f" {json.dumps(self.input, ensure_ascii=False)}" if self.input else ""
        more += f", run by {self.shell}" if self.shell else ""
        more += f", in {self.cwd}" if self.cwd else ""
        # The variables of a plugin name its folders.
        given = [f"{n}={shorten(v, 80)}" for n, v in self.env.items() if not n.startswith("CLAUDE_PLUGIN_")]
        more += f", with {' '.join(given)}" if given else ""
        more += f", which cannot run: {self.unusable}" if self.unusable else ""
        return f"{self.event}{where}: {' '.join((self.command, *self.args))}{more}"


class HookResult(Value):
    """The combined answer of the hooks of one step; the strictest verdict wins.

    verdict: "deny" also means "block": for Stop "continue", for PostToolUse "send this to the model".
    reason: in the hooks' words.
    changed: arguments to use instead of those given.
    output: what the model gets instead of a call's result; None: leave the result.
    context: additions for the model.
    stop: the turn ends with this message for the user; None: it continues.
    updates: changes of permissions that come with an allow, in the form of Claude Code.
    """

    verdict: HookVerdict = ""
    reason: str = ""
    changed: dict[str, Any] | None = None
    output: Any = None
    context: tuple[str, ...] = ()
    stop: str | None = None
    updates: tuple[dict[str, Any], ...] = ()


RefreshFields = Callable[[dict[str, Any]], Mapping[str, Any]]


class Hooks(Protocol):
    """The hooks of a conversation.

    `data`: the fields of the event beyond those that all events have.
    """

    def wants(self, event: HookEvent, subject: str = "") -> bool:
        """Return True if any hook runs at this step. subject: compared with matchers; "" matches any."""

    def run(
        self, event: HookEvent, data: Mapping[str, Any], cancel: CancelToken, refresh: RefreshFields | None = None
    ) -> Generator[Event, None, HookResult]:
        """Run the hooks of a step in their order. Raises CancelledError.

        refresh: recomputes fields of `data` for the next hooks after one has changed the input.
        """

    def run_in_background(self, event: HookEvent, data: Mapping[str, Any]) -> None:
        """Start the hooks of a step in the background; collect their events with `drain`."""

    def drain(self) -> list[Event]:
        """Return the events of background hooks that have ended, each once."""

    def close(self) -> None:
        """End the background hooks that still run."""

    def add(self, hooks: Sequence[Hook]) -> None:
        """Add hooks after the others; skip those that are already there."""

    def remove(self, hooks: Sequence[Hook]) -> None:
        """Remove hooks that were added."""

    def nested(self, hooks: Sequence[Hook]) -> Hooks:
        """Return the hooks of a sub-agent: these and its own. Adding to the result changes nothing here."""


class NoHooks:
    """The implementation without hooks."""

    def wants(self, event: HookEvent, subject: str = "") -> bool:
        return False

    def run(
        self, event: HookEvent, data: Mapping[str, Any], cancel: CancelToken, refresh: RefreshFields | None = None
    ) -> Generator[Event, None, HookResult]:
        yield from ()
        return HookResult()

    def run_in_background(self, event: HookEvent, data: Mapping[str, Any]) -> None:
        return

    def drain(self) -> list[Event]:
        return []

    def close(self) -> None:
        return

    def add(self, hooks: Sequence[Hook]) -> None:
        return

    def remove(self, hooks: Sequence[Hook]) -> None:
        return

    def nested(self, hooks: Sequence[Hook]) -> Hooks:
        return self


NO_HOOKS = NoHooks()


def should_display(event: HookFinished) -> bool:
    """Return True if the user should see that a hook ran: it failed, or its refusal is not shown elsewhere."""
    row = HOOK_EVENTS.get(event.event)  # None for the command of `after_turn`
    shown_elsewhere = event.outcome == "blocked" and row is not None and row.shows_refusal
    return event.outcome != "success" and not shown_elsewhere


def hook_line(event: HookFinished) -> str:
    """Describe a finished hook in one line."""
    how = {"success": "ok", "blocked": "refused", "error": "failed", "cancelled": "ended"}[event.outcome]
    if event.outcome == "blocked" and event.event in ("PostToolUse", "PostToolUseFailure"):
        how = "told the model"  # the call is over
    more = f": {shorten(event.note, 300)}" if event.note else ""
    took = short_duration(event.duration_ms / 1000)
    return f"hook {escape_controls(event.name)} `{shorten(event.command, 80)}`: {how}, {took}{more}"

"""The hook events: a row each, and the function that builds its payload.

A new event is a function here, and the place in the engine that runs its hooks:

    yield from hook_points.fire(turn, hook_events.post_compact(kind, summary))

Matching, parsing of answers, validation of settings, `agent hooks` and the table in docs/hooks.md derive from the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

from agent_cli.hooks.declaration import HookVerdict
from agent_cli.kernel.events import HookFinished
from agent_cli.kernel.message_ids import subagent_id
from agent_tools.base import Effect
from agent_tools.record import Value
from agent_tools.registry import SHELL, tool_name
from agent_tools.task import COMMON_NAMES, COMMON_TOOL_NAMES
from agent_tools.text import escape_controls, short_duration, shorten

if TYPE_CHECKING:
    from agent_tools.shell.jobs import Job

P = ParamSpec("P")
STRICTNESS: tuple[HookVerdict, ...] = ("", "allow", "ask", "defer", "deny")
CALL_FIELDS = ("tool_name", "tool_input", "tool_use_id", "effects")


class HookEventRow(Value):
    """One hook event.

    name: as settings and payloads spell it.
    when: when it fires, for the documentation.
    payload: returns its own fields on standard input.
    sample: arguments of `payload`, for the documentation and `agent hooks test`.
    matched: the field that a matcher is compared with; "" for an event without matchers.
    subjects: the values of that field, where they are few.
    verdicts: what an answer may decide: an imperative, and the sentence of `agent hooks test`. "deny" means block.
    verdict_key: where the verdict is in an answer: `decision`, or under hookSpecificOutput `permissionDecision`, or
        `decision.behavior`.
    plain_text: plain text on standard output is context for the model.
    adds_context: an answer may have additionalContext.
    changes_input: an answer may have updatedInput.
    changes_output: an answer may have updatedToolOutput.
    answers_form: an answer may have action and content, which answer a server's question.
    names_folder: an answer is the path of a folder, as worktreePath or as plain text.
    sets_variables: the hook gets a file (CLAUDE_ENV_FILE); what it exports there is set for the session's commands.
    shows_refusal: the engine shows a refusal itself, so the line about the hook is left out.
    before_message: it may run before the message of its turn.
    """

    name: str
    when: str
    payload: Callable[..., dict[str, Any]]
    sample: tuple[Any, ...]
    matched: str = ""
    subjects: tuple[str, ...] = ()
    verdicts: dict[HookVerdict, tuple[str, str]] = {}  # noqa: RUF012 - never changed
    verdict_key: Literal["decision", "permissionDecision", "behavior"] = "decision"
    plain_text: bool = False
    adds_context: bool = False
    changes_input: bool = False
    changes_output: bool = False
    answers_form: bool = False
    names_folder: bool = False
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
    def example(self) -> dict[str, Any]:
        """Sample values of its own fields, without those of a call."""
        return {name: value for name, value in self.payload(*self.sample).items() if name not in CALL_FIELDS}

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its own fields on standard input."""
        return (*(CALL_FIELDS if self.about_call else ()), *self.example)


class HookStep(Value):
    """A step at which the hooks of an event run. fields: those of the event."""

    event: str
    fields: dict[str, Any]

    @property
    def subject(self) -> str:
        """The name that matchers are compared with; "" for an event without matchers."""
        return event_subject(self.event, self.fields)


def event_subject(event: str, data: Mapping[str, Any]) -> str:
    """Return the name in a payload that matchers are compared with; "" for an event without matchers."""
    return str(data.get(HOOK_EVENTS[event].matched, ""))


class HookedCall(Value):
    """A call as hooks see it: the tool that is really called, and its arguments with absolute paths."""

    tool: str
    call_id: str
    arguments: dict[str, Any]
    effects: Sequence[Effect] = ()

    def fields(self) -> dict[str, Any]:
        """Return the fields about it: Claude Code's, and the effects, which name every file that the call touches."""
        effects = [{"kind": e.kind, "target": e.target} for e in self.effects]
        found = {"tool_name": common_tool(self.tool), "tool_input": self.arguments}
        return {**found, "tool_use_id": self.call_id, "effects": effects}


def common_tool(name: str) -> str:
    """Return a tool's name as Claude Code writes it."""
    name = tool_name(name)
    return COMMON_TOOL_NAMES.get(name, name)


def agent_fields(agent_id: str, kind: str) -> dict[str, Any]:
    """Return the fields about a sub-agent: its ID, and its type by the name that scripts compare."""
    return {"agent_id": subagent_id(agent_id), "agent_type": COMMON_NAMES.get(kind, kind)}


HOOK_EVENTS: dict[str, HookEventRow] = {}


def hook_event(
    name: str, when: str, *sample: Any, **row: Any
) -> Callable[[Callable[P, dict[str, Any]]], Callable[P, HookStep]]:
    """Declare an event with the function that builds its payload; see HookEventRow. The function returns a step."""

    def declare(payload: Callable[P, dict[str, Any]]) -> Callable[P, HookStep]:
        HOOK_EVENTS[name] = HookEventRow(name, when, payload, sample, **row)
        return lambda *args, **kwargs: HookStep(name, payload(*args, **kwargs))

    return declare


_CALL = HookedCall(SHELL.name, "call_1", {"command": "ls"})


@hook_event(
    "PreToolUse",
    "before a call",
    _CALL,
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
)
def pre_tool_use(call: HookedCall) -> dict[str, Any]:
    return call.fields()


@hook_event(
    "PreSkillShellCommand",
    "before a command in the text of a skill or command",
    _CALL,
    "deploy",
    matched="tool_name",
    verdicts={
        "deny": ("refuse it", "the message would not be sent"),
        "ask": ("refuse it", "the message would not be sent"),
        "defer": ("refuse it", "the message would not be sent"),
    },
    verdict_key="permissionDecision",
    shows_refusal=True,
    before_message=True,
)
def pre_skill_shell_command(call: HookedCall, name: str) -> dict[str, Any]:
    return {**call.fields(), "command_name": name, "invoked_by": "user"}


@hook_event(
    "PermissionRequest",
    "before the user is asked",
    _CALL,
    "is not allowed by a rule",
    matched="tool_name",
    verdicts={
        "deny": ("answer no", "the question would be answered with no"),
        "allow": ("answer yes", "the question would be answered with yes"),
    },
    verdict_key="behavior",
    changes_input=True,
    shows_refusal=True,
)
def permission_request(call: HookedCall, reason: str, suggestions: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    found = {**call.fields(), "reason": reason}
    return {**found, "permission_suggestions": [*suggestions]} if suggestions else found


@hook_event("PermissionDenied", "a call was refused, not by you", _CALL, "is denied by Bash(ls)", matched="tool_name")
def permission_denied(call: HookedCall, reason: str) -> dict[str, Any]:
    return {**call.fields(), "reason": reason}


_MESSAGE: dict[HookVerdict, tuple[str, str]] = {
    "deny": ("tell the model what is wrong", "the model would get a message")
}


@hook_event(
    "PostToolUse",
    "a call succeeded",
    _CALL,
    {"content": "hello\n", "success": True},
    10,
    matched="tool_name",
    verdicts=_MESSAGE,
    adds_context=True,
    changes_output=True,
)
def post_tool_use(call: HookedCall, response: dict[str, Any], ms: int) -> dict[str, Any]:
    return {**call.fields(), "tool_response": response, "duration_ms": ms}


@hook_event(
    "PostToolUseFailure",
    "a call failed",
    _CALL,
    "Exit code 1",
    False,
    10,
    matched="tool_name",
    verdicts=_MESSAGE,
    adds_context=True,
)
def post_tool_use_failure(call: HookedCall, error: str, interrupted: bool, ms: int) -> dict[str, Any]:
    return {**call.fields(), "error": error, "is_interrupt": interrupted, "duration_ms": ms}


@hook_event(
    "PostToolBatch",
    "all calls of an answer have results",
    [(_CALL, "a.txt")],
    verdicts={"deny": ("end the turn", "the turn would end")},
    adds_context=True,
    shows_refusal=True,
)
def post_tool_batch(calls: Iterable[tuple[HookedCall, str]]) -> dict[str, Any]:
    found = []
    for call, result in calls:
        fields = call.fields()
        del fields["effects"]
        found.append({**fields, "tool_response": result})
    return {"tool_calls": found}


_UNSENT: dict[HookVerdict, tuple[str, str]] = {"deny": ("block it", "the message would not be sent")}


@hook_event(
    "UserPromptSubmit",
    "you sent a message",
    "hello",
    verdicts=_UNSENT,
    plain_text=True,
    adds_context=True,
    shows_refusal=True,
    before_message=True,
)
def user_prompt_submit(prompt: str) -> dict[str, Any]:
    return {"prompt": prompt}


@hook_event(
    "UserPromptExpansion",
    "your command becomes a prompt",
    "/review",
    "review",
    "",
    "project",
    matched="command_name",
    verdicts=_UNSENT,
    plain_text=True,
    adds_context=True,
    shows_refusal=True,
    before_message=True,
)
def user_prompt_expansion(prompt: str, name: str, arguments: str, source: str) -> dict[str, Any]:
    return {
        "expansion_type": "mcp_prompt" if source == "mcp" else "slash_command",
        "command_name": name,
        "command_args": arguments,
        "command_source": source,
        "prompt": prompt,
    }


@hook_event(
    "Stop", "the model is done", "Done.", False, (), verdicts={"deny": ("make it continue", "the turn would continue")}
)
def stop(answer: str, again: bool, jobs: Iterable[Job]) -> dict[str, Any]:
    return {
        "stop_hook_active": again,
        "last_assistant_message": answer,
        "background_tasks": [
            {"id": j.id, "type": "shell", "status": "running", "description": j.command, "command": j.command}
            for j in jobs
        ],
        "session_crons": [],
    }


# Kinds of failures as Claude Code calls them; it calls all others "unknown".
_FAILURES = {
    "auth": "authentication_failed", "rate_limit": "rate_limit", "overloaded": "server_error",
    "network": "server_error", "bad_request": "invalid_request", "context_too_long": "invalid_request",
}  # fmt: skip


@hook_event(
    "StopFailure",
    "the model failed, and the turn with it",
    "rate_limit",
    "Too many requests.",
    "",
    matched="error",
    subjects=(*dict.fromkeys(_FAILURES.values()), "max_output_tokens", "unknown"),
)
def stop_failure(kind: str, message: str, answer: str) -> dict[str, Any]:
    return {"error": _FAILURES.get(kind, kind), "error_details": message, "last_assistant_message": answer}


@hook_event("CwdChanged", "a command changed the working directory", "/home/me/app", "/home/me/app/src")
def cwd_changed(before: str, now: str) -> dict[str, Any]:
    return {"old_cwd": before, "new_cwd": now}


@hook_event(
    "ConfigChange",
    "a rule was saved for the project",
    "local_settings",
    matched="source",
    subjects=("local_settings",),
)
def config_change(source: str) -> dict[str, Any]:
    return {"source": source}


@hook_event(
    "DirectoryAdded",
    "a folder was added to the workspace",
    "/home/me/library",
    "slash_command",
    matched="source",
    subjects=("slash_command", "register_repo_root"),
)
def directory_added(folder: str, source: str) -> dict[str, Any]:
    return {"directory": folder, "source": source}


class ModelSwitch(Value):
    """Another model for a session, and what it costs to send it the conversation.

    requested: as it was asked for; None for the default.
    cache_warm: the model before still has the conversation in its cache.
    """

    from_model: str
    to_model: str
    requested: str | None
    source: str
    context_tokens: int = 0
    cache_warm: bool = False
    cache_minutes: int = 5
    cost: float = 0.0
    priced: bool = True

    def fields(self) -> dict[str, Any]:
        """Return the fields of its events, as Claude Code names them."""
        return {
            "from_model": self.from_model, "to_model": self.to_model, "requested_model": self.requested,
            "source": self.source, "context_tokens": self.context_tokens, "prompt_cache_warm": self.cache_warm,
            "cache_ttl": "1h" if self.cache_minutes >= 60 else "5m", "estimated_cache_write_usd": round(self.cost, 4),
            "pricing": "catalog" if self.priced else "default",
        }  # fmt: skip


_SWITCH = ModelSwitch("claude-sonnet-4-5", "claude-opus-4-5", "opus", "command")


@hook_event(
    "PreModelSwitch",
    "before another model is used",
    _SWITCH,
    matched="to_model",
    verdicts={
        "deny": ("keep the model", "the model would stay"),
        "ask": ("ask the user", "the user would be asked"),
        "allow": ("allow it", "the model would change"),
    },
    verdict_key="permissionDecision",
    shows_refusal=True,
)
def pre_model_switch(switch: ModelSwitch) -> dict[str, Any]:
    return switch.fields()


@hook_event("PostModelSwitch", "another model is used", _SWITCH, matched="to_model", adds_context=True)
def post_model_switch(switch: ModelSwitch) -> dict[str, Any]:
    return switch.fields()


@hook_event(
    "WorktreeCreate",
    "`--worktree` needs a folder, which the hook makes",
    "try",
    verdicts={"deny": ("refuse it", "no session would begin")},
    names_folder=True,
    shows_refusal=True,
)
def worktree_create(name: str) -> dict[str, Any]:
    return {"name": name}


@hook_event("WorktreeRemove", "such a folder is to be removed, by the hook", "/home/me/worktrees/try")
def worktree_remove(path: str) -> dict[str, Any]:
    return {"worktree_path": path}


@hook_event(
    "InstructionsLoaded",
    "a memory file is read",
    "/home/me/app/CLAUDE.md",
    "Project",
    matched="load_reason",
    subjects=("session_start", "include"),
    before_message=True,
)
def instructions_loaded(path: str, kind: str, by: str = "") -> dict[str, Any]:
    found = {"file_path": path, "memory_type": kind, "load_reason": "include" if by else "session_start"}
    return found | ({"parent_file_path": by} if by else {})


_FORM: dict[HookVerdict, tuple[str, str]] = {"deny": ("decline it", "the question would be declined")}
_QUESTION = {"message": "Which branch?", "mode": "form", "requestedSchema": {"type": "object"}}


def _form_fields(server: str, form: Mapping[str, Any]) -> dict[str, Any]:
    found = {"mcp_server_name": server, "message": str(form.get("message", "")), "mode": str(form.get("mode", "form"))}
    names = {"url": "url", "elicitationId": "elicitation_id", "requestedSchema": "requested_schema"}
    return found | {name: form[key] for key, name in names.items() if key in form}


@hook_event(
    "Elicitation",
    "a server asks you",
    "git",
    _QUESTION,
    matched="mcp_server_name",
    verdicts=_FORM,
    answers_form=True,
    shows_refusal=True,
)
def elicitation(server: str, form: Mapping[str, Any]) -> dict[str, Any]:
    return _form_fields(server, form)


@hook_event(
    "ElicitationResult",
    "a server's question has an answer",
    "git",
    _QUESTION,
    {"action": "accept", "content": {"branch": "main"}},
    matched="mcp_server_name",
    verdicts=_FORM,
    answers_form=True,
    shows_refusal=True,
)
def elicitation_result(server: str, form: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    return {**_form_fields(server, form), **answer}


@hook_event(
    "SubagentStart",
    "a sub-agent starts",
    {"agent_id": "call_1", "agent_type": "general-purpose"},
    matched="agent_type",
    adds_context=True,
)
def subagent_start(agent: dict[str, Any]) -> dict[str, Any]:
    return agent


@hook_event(
    "SubagentStop",
    "a sub-agent is done",
    "Done.",
    False,
    (),
    {"agent_id": "call_1", "agent_type": "general-purpose"},
    "",
    matched="agent_type",
    verdicts={"deny": ("make it continue", "the sub-agent would continue")},
)
def subagent_stop(
    answer: str, again: bool, jobs: Iterable[Job], agent: dict[str, Any], transcript: str
) -> dict[str, Any]:
    return {**stop(answer, again, jobs).fields, **agent, "agent_transcript_path": transcript}


@hook_event(
    "PreCompact",
    "before compaction",
    "manual",
    matched="trigger",
    subjects=("manual", "auto"),
    verdicts={"deny": ("block it", "nothing would be compacted")},
    plain_text=True,
    adds_context=True,
)
def pre_compact(trigger: str, focus: str = "") -> dict[str, Any]:
    return {"trigger": trigger, "custom_instructions": focus or None}


@hook_event(
    "PostCompact", "after compaction", "manual", "The tests pass.", matched="trigger", subjects=("manual", "auto")
)
def post_compact(trigger: str, summary: str) -> dict[str, Any]:
    return {"trigger": trigger, "compact_summary": summary}


@hook_event(
    "Setup",
    "`--init` or `--maintenance`",
    "init",
    matched="trigger",
    subjects=("init", "maintenance"),
    plain_text=True,
    adds_context=True,
    sets_variables=True,
    before_message=True,
)
def setup(trigger: str) -> dict[str, Any]:
    return {"trigger": trigger}


@hook_event(
    "SessionStart",
    "before the first message",
    "startup",
    "openai/gpt-5",
    matched="source",
    subjects=("startup", "resume", "fork", "clear", "compact"),
    plain_text=True,
    adds_context=True,
    sets_variables=True,
    before_message=True,
)
def session_start(source: str, model: str, more: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    return {"source": source, "model": model, **more}


@hook_event(
    "SessionEnd", "the session ends", "other", matched="reason", subjects=("clear", "prompt_input_exit", "other")
)
def session_end(reason: str) -> dict[str, Any]:
    return {"reason": reason}


@hook_event(
    "Notification",
    "a question is waiting for you",
    "permission_prompt",
    "The agent needs your permission",
    matched="notification_type",
    subjects=("permission_prompt", "elicitation_dialog"),
)
def notification(kind: str, message: str) -> dict[str, Any]:
    return {"notification_type": kind, "message": message}


def runs_before_message(event: str) -> bool:
    """Return True if the event may come before the message of its turn."""
    return event in HOOK_EVENTS and HOOK_EVENTS[event].before_message


def should_display(event: HookFinished) -> bool:
    """Return True if the user should see that a hook ran: it failed, or its refusal is not shown elsewhere."""
    row = HOOK_EVENTS.get(event.event)  # None for the command of `after_turn`
    shown_elsewhere = event.outcome == "blocked" and row is not None and row.shows_refusal
    return event.outcome != "success" and not shown_elsewhere


def is_after_call(event: HookFinished) -> bool:
    """Return True for a hook that runs when a call is over, before its result is reported."""
    return event.event in ("PostToolUse", "PostToolUseFailure")


def hook_line(event: HookFinished) -> str:
    """Describe a finished hook in one line."""
    how = {"success": "ok", "blocked": "refused", "error": "failed", "cancelled": "ended"}[event.outcome]
    if event.outcome == "blocked" and is_after_call(event):
        how = "told the model"  # the call is over
    more = f": {shorten(event.note, 300)}" if event.note else ""
    took = short_duration(event.duration_ms / 1000)
    return f"hook {escape_controls(event.name)} `{shorten(event.command, 80)}`: {how}, {took}{more}"

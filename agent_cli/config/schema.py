"""Every setting: its type, default, meaning and who may set it. The one definition.

`.agentrc.example`, docs/configuration.md, validation and the command line's overrides all come from this class.

A field's annotation may carry a `Scope`. Files of a project may set a key freely ("any"), only in the stricter
direction ("tighten"), or not at all ("user"): a repository must not send keys elsewhere, run programs or widen what is
allowed.
"""

from typing import Annotated, Literal

from agent_cli.core.modes import Effort, Mode
from agent_tools.values import Value


class Scope(Value):
    """Who may set a key: see the module text."""

    who: Literal["any", "tighten", "user"]


USER = Scope("user")
TIGHTEN = Scope("tighten")


class Permissions(Value):
    """Rules and mode, under [permissions]."""

    mode: Annotated[Mode, "how open questions are answered", TIGHTEN] = "default"
    allow: Annotated[tuple[str, ...], "rules for calls that run without a question", USER] = ()
    ask: Annotated[tuple[str, ...], "rules for calls that are always asked about"] = ()
    deny: Annotated[tuple[str, ...], "rules for calls that never run"] = ()
    additional_directories: Annotated[tuple[str, ...], "folders beside the workspace that may be read", USER] = ()


class Settings(Value):
    """The settings of a run, all layers merged."""

    model: Annotated[str | None, "model as provider/model; empty: whatever is found"] = None
    small_model: Annotated[str | None, "model for small jobs; empty: the model"] = None
    fallback_models: Annotated[tuple[str, ...], "models to go on with when the model fails"] = ()
    transport: Annotated[Literal["auto", "direct", "litellm"], "how models are reached", USER] = "auto"
    base_url: Annotated[str | None, "base URL of an OpenAI or Anthropic compatible server", USER] = None
    key_command: Annotated[str | None, "command that prints the API key", USER] = None
    keyring: Annotated[bool, "look for API keys in the system keyring", USER] = True

    effort: Annotated[Effort | None, "reasoning effort"] = None
    thinking_tokens: Annotated[int | None, "budget for reasoning, in tokens"] = None
    reasoning_summary: Annotated[bool, "ask for summaries of hidden reasoning"] = False
    keep_thinking: Annotated[int, "turns whose reasoning is sent again; 0: all"] = 0
    max_tokens: Annotated[int | None, "longest answer, in tokens; empty: the model's own limit"] = None
    temperature: Annotated[float | None, "sampling temperature"] = None
    prefill: Annotated[str, "text that every answer begins with, where the model takes it"] = ""
    stream: Annotated[bool, "stream answers"] = True

    system_prompt: Annotated[str | None, "replaces the built-in system prompt", USER] = None
    append_system_prompt: Annotated[str, "added to the system prompt", USER] = ""
    memory_files: Annotated[tuple[str, ...], "names of memory files, nearest first"] = ("AGENTS.md", "CLAUDE.md")
    tools: Annotated[tuple[str, ...] | None, "names of the tools to offer; unset: all", TIGHTEN] = None

    max_rounds: Annotated[int, "model calls per turn; 0: no limit", TIGHTEN] = 200
    max_tool_calls: Annotated[int, "tool calls per turn; 0: no limit", TIGHTEN] = 500
    max_seconds: Annotated[float, "working time per turn in seconds; 0: no limit", TIGHTEN] = 0.0
    max_cost: Annotated[float, "dollars per turn; 0: no limit", TIGHTEN] = 0.0

    max_failures: Annotated[int, "failed calls in a row that end a turn; 0: no limit", TIGHTEN] = 5
    max_denials: Annotated[int, "refusals of the same call that end a turn; 0: no limit", TIGHTEN] = 3

    plan_review: Annotated[
        Literal["off", "plan", "always"],
        "whose plans are put to the person: none, those of plan mode, every first one",
        TIGHTEN,
    ] = "plan"
    plan_review_fresh: Annotated[bool, "a new one-shot session may take up a plan that waits here", USER] = False
    plan_ttl: Annotated[int, "minutes that a plan may wait for a person; 0: for ever"] = 60
    plan_nudges: Annotated[int, "how often a turn is sent on while its plan is unfinished"] = 5
    plan_reminder: Annotated[int, "rounds between reminders of the plan; 0: none"] = 3
    verify: Annotated[tuple[str, ...], "beginnings of commands that check the work, beside the known runners"] = ()

    retries: Annotated[int, "attempts after a failure of the provider that may pass"] = 5
    connect_timeout: Annotated[float, "seconds to reach the provider"] = 10.0
    idle_timeout: Annotated[float, "seconds without a byte from the provider"] = 120.0
    total_timeout: Annotated[float, "seconds for one answer; 0: no limit"] = 0.0
    shell_timeout: Annotated[float, "seconds a command may take unless the call says otherwise"] = 120.0

    stdin_limit: Annotated[int, "bytes of piped input that are read"] = 1_048_576
    stdin_wait: Annotated[float, "seconds to wait for a silent pipe when there is a prompt"] = 30.0
    color: Annotated[Literal["auto", "always", "never"], "colours on the terminal"] = "auto"
    save_sessions: Annotated[bool, "keep sessions on disk", USER] = True

    permissions: Annotated[Permissions, "rules and mode"] = Permissions()

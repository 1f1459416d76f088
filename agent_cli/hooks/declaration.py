"""Hooks as they are declared, what they may use, and the result of a step. The package's other files build on this."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from agent_cli.kernel.events import UsageAdded
from agent_tools.base import Effect, ToolError
from agent_tools.cancel import CancelToken
from agent_tools.record import Value
from agent_tools.text import shorten

HookVerdict = Literal["", "allow", "ask", "defer", "deny"]
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

    event: str
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


class PythonHook(Value):
    """A hook in Python: receives what a command reads from standard input, and returns what one prints, or None.

    An exception is a failure, which blocks if the hook is strict. Without a time limit it runs in the turn's thread.

    timeout: seconds; 0 for no limit. With a limit, `call` runs in its own thread, and may block.
    cancelled: called once, on any thread, when the answer of a hook with a time limit is no longer awaited; receives
        the same data as `call`.
    """

    event: str
    call: Callable[[dict[str, Any]], Mapping[str, Any] | None]
    matcher: str = ""
    strict: bool = False
    from_user: bool = True
    source: str = "Python"
    timeout: float = 0.0
    cancelled: Callable[[dict[str, Any]], None] | None = None

    # What only configured hooks have.
    only = unusable = ""
    background = wakes = once = refuses_only = False

    @property
    def command(self) -> str:
        return str(getattr(self.call, "__qualname__", type(self.call).__name__))


AnyHook = Hook | PythonHook


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

    @property
    def refusal(self) -> str | None:
        """Why the hooks refuse or end the turn; None if they do not."""
        if self.verdict == "deny" or self.stop is not None:
            return self.reason or self.stop or ""
        return None


RefreshFields = Callable[[dict[str, Any]], Mapping[str, Any]]


class HookSession(Value):
    """The session that hooks run in, as their payload describes it.

    transcript: returns the path of its transcript, or None if it has none yet.
    root: the project's folder.
    """

    session_id: str = ""
    transcript: Callable[[], Path | None] | None = None
    root: Path = Path()

    @property
    def transcript_path(self) -> str:
        return str((self.transcript and self.transcript()) or "")


class HookSurroundings:
    """What hooks run in and may use; a subclass has more to offer."""

    def __init__(self, session: HookSession | None = None) -> None:
        self.session = session or HookSession(root=Path.cwd())

    def environment(self, hook: Hook) -> dict[str, str]:
        """Return the variables of a hook."""
        return {}

    def cwd(self) -> Path:
        """Return the folder that hooks run in."""
        return self.session.root

    def covers(self, rule: str, tool: str, effects: Sequence[Effect]) -> bool:
        """Return True if a rule covers a call with this tool and these effects, for hooks limited to some calls."""
        return True

    def evaluate(self, hook: Hook, text: str, cancel: CancelToken, used: list[UsageAdded]) -> str:
        """Ask a model about the condition of a hook, given with its input. Raises ToolError, CancelledError.

        used: collects what that uses.
        """
        raise ToolError("No model is available to judge it.")

    def wake(self, text: str) -> None:
        """Send the model a message at its next round."""

    def call_tool(self, server: str, tool: str, arguments: dict[str, Any], cancel: CancelToken) -> str:
        """Call a tool of an MCP server; return its text. Raises ToolError, CancelledError."""
        raise ToolError(f"there is no MCP server {server} here")

"""`!command`: run a user's command now and pass it to the model with the next message; `!!command` hides it.

It runs as in the shell tool, with the same working directory and exports, but without approval and sandbox, since the
user typed it.
"""

from __future__ import annotations

from agent_cli.core.events import ToolFinished, ToolProgress, ToolRequested, ToolStarted
from agent_cli.terminal.slash import SlashContext
from agent_tools.base import Progress, ToolError, ToolResult
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.registry import SHELL

CALL = "!"


def is_bang(text: str) -> bool:
    return text.startswith("!") and text.strip("!").strip() != ""


def run_bang(ctx: SlashContext, text: str) -> None:
    """Run the command after the `!` and show it as a call."""
    hidden = text.startswith("!!")
    command = text.removeprefix("!!" if hidden else "!").strip()
    conversation = ctx.agent.conversation
    context = conversation.deps.context
    context.cancel = CancelToken()
    ctx.show_event(ToolRequested(CALL, SHELL.name, {"command": command}, f"! {command}"))
    ctx.show_event(ToolStarted(CALL, SHELL.name))
    try:
        args = SHELL.read({"command": command, "dangerouslyDisableSandbox": True})
        outcome = SHELL.run(args, context)
        result = outcome if isinstance(outcome, ToolResult) else None
        while result is None:
            try:
                step = next(outcome)  # type: ignore[arg-type]
            except StopIteration as stop:
                result = stop.value
                break
            if isinstance(step, Progress):
                ctx.show_event(ToolProgress(CALL, step.text))
    except ToolError as error:
        result = ToolResult(str(error), is_error=True)
    except CancelledError:
        result = ToolResult("[interrupted by the user]", is_error=True)
    ctx.show_event(ToolFinished(CALL, SHELL.name, result.is_error, 0, result.display))
    if result.display is None:
        ctx.say(f"  {result.text}")
    if not hidden:
        conversation.inbox.append(f"<user_command>\n$ {command}\n{result.text}\n</user_command>")

"""The commands in a saved prompt, run: each in the shell as the session left it, which it does not change."""

from __future__ import annotations

from collections.abc import Generator

from agent_tools.base import Progress, ToolContext
from agent_tools.display import CommandOutput
from agent_tools.overrides import ExpandedPrompt
from agent_tools.shell.bash import Bash, BashArgs


def fill(prompt: ExpandedPrompt, ctx: ToolContext) -> Generator[Progress, None, str]:
    """The prompt with the output of its commands. The caller has asked permission.

    Raises ToolError, CancelledError.

    A command that fails is no error: the model reads what it said, and its exit code.
    """
    outputs = []
    for command in prompt.commands:
        result = yield from Bash().run(BashArgs(command), ctx.nested())
        shown = result.display
        if not isinstance(shown, CommandOutput):
            outputs.append(result.text)
        elif shown.exit_code == 0:
            outputs.append(shown.output or "(no output)")
        else:
            outputs.append(f"{shown.output}\n[{shown.note}]".strip())
    return prompt.text(outputs)

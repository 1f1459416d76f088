"""The SlashCommand tool: the model runs a prompt that the user saved under a name."""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated

from agent_tools.base import Effect, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.display import Note
from agent_tools.overrides import ExpandedPrompt, prompted
from agent_tools.record import Value
from agent_tools.shell.bash import fill
from agent_tools.text import counted, one_line, shorten

LIST = 2_000
_LINE = 240


class SlashCommandArgs(Value):
    """The arguments of SlashCommand."""

    command: Annotated[str, "/name and its arguments"]


class SlashCommand(Tool[SlashCommandArgs]):
    """Expands a command of the user, which the model then follows."""

    name = "SlashCommand"
    result_size = "whole"
    Args = SlashCommandArgs
    of_conversation = True
    rule_names = "target"

    def available(self, ctx: ToolContext) -> bool:
        return bool(ctx.commands)

    def dynamic_description(self, ctx: ToolContext) -> str:
        """Return the commands that fit, one per line, and the number of the others."""
        lines: list[str] = []
        room = LIST
        for name, command in ctx.commands.items():
            words = " ".join(
                filter(None, [f"/{name}", command.hint, command.description and f"- {command.description}"])
            )
            line = shorten(one_line(words), _LINE)
            room -= len(line.encode("utf-8", "replace")) + 1
            if room < 0:
                lines.append(f"and {len(ctx.commands) - len(lines)} more, which the user can name")
                break
            lines.append(line)
        return "\n".join(lines)

    def effects(self, args: SlashCommandArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        uses = Effect("prompt", f"/{_split(args.command)[0]}")
        return (uses, *(Effect("run", command) for command in self._prompt(args, ctx).commands))

    def summary(self, args: SlashCommandArgs, ctx: ToolContext) -> str:
        return f"Use the command {shorten(one_line('/' + ' '.join(_split(args.command))), 100).rstrip()}"

    def preview(self, args: SlashCommandArgs, ctx: ToolContext) -> Note:
        return Note(self._prompt(args, ctx).text())

    def run(self, args: SlashCommandArgs, ctx: ToolContext) -> Generator[Progress, None, ToolResult]:
        name, _ = _split(args.command)
        prompt = self._prompt(args, ctx)
        text = prompt.text()
        if prompt.commands:
            text = yield from fill(prompt, ctx)
        ctx.mark_mentions_read(text)
        said = f"The user's command /{name} says this; do it now:\n\n{text}"
        return ToolResult(said, Note(f"a prompt of {counted(len(text.splitlines()), 'line')}"), lent=prompt.lent)

    def _prompt(self, args: SlashCommandArgs, ctx: ToolContext) -> ExpandedPrompt:
        name, arguments = _split(args.command)
        command = ctx.commands.get(name)
        if command is None:
            known = ", ".join(f"/{n}" for n in ctx.commands)
            raise ToolError(f"Unknown command /{one_line(name)}. The user's commands are: {known or 'none'}.")
        return prompted(command.expand(arguments, ctx), name)


def _split(text: str) -> tuple[str, str]:
    """Split a call, with or without the slash, into name and arguments."""
    name, _, arguments = text.strip().removeprefix("/").partition(" ")
    return name, arguments.strip()

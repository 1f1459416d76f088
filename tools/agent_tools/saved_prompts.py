"""The Skill and SlashCommand tools: let the model use the user's skills and prompts."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Annotated, ClassVar

from agent_tools.base import Effect, HasDescription, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.record import Value
from agent_tools.results import ExpandedPrompt, Note, as_expanded_prompt
from agent_tools.shell.bash import expand_prompt
from agent_tools.text import counted, one_line, shorten

_SKILL_LIST_BYTES = 8_000
# Line lengths to try until all skills fit; 0 for names only.
_LINE_WIDTHS = (1_000, 400, 200, 100, 0)


class SkillArgs(Value):
    """The arguments of Skill."""

    ALIASES: ClassVar = {"skill": ("name", "command"), "args": ("arguments",)}

    skill: Annotated[str, "The skill's name"]
    args: Annotated[str, "What to use it on"] = ""


class UseSkill(Tool[SkillArgs]):
    """Loads a skill. Its text needs no approval, but the commands that it runs and the rules that it adds do."""

    name = "Skill"
    result_size = "whole"
    Args = SkillArgs
    rule_names = "target"
    needs = "skills"

    def dynamic_description(self, ctx: ToolContext) -> str:
        """Return the skills, one per line; with many, lines are shortened so that all fit, if possible."""
        return skill_list(ctx.extensions.skills)

    def effects(self, args: SkillArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        # Use the current content of the file, not that at the start.
        prompt = self._prompt(args, ctx)
        runs = tuple(Effect("run", command) for command in prompt.commands)
        return (Effect("prompt" if runs or prompt.overrides.rules else "state", _skill_name(args)), *runs)

    def summary(self, args: SkillArgs, ctx: ToolContext) -> str:
        return f"Use the skill {shorten(one_line(f'{_skill_name(args)} {args.args}'), 100).rstrip()}"

    def preview(self, args: SkillArgs, ctx: ToolContext) -> Note:
        prompt = self._prompt(args, ctx)
        allows = f"It allows, for this turn: {', '.join(prompt.overrides.rules)}\n\n" if prompt.overrides.rules else ""
        return Note(allows + prompt.text())

    def run(self, args: SkillArgs, ctx: ToolContext) -> Generator[Progress, None, ToolResult]:
        prompt = self._prompt(args, ctx)
        text = prompt.text()
        if prompt.commands:
            text = yield from expand_prompt(prompt, ctx)
        ctx.mark_mentions_read(text)
        message = f"The skill {_skill_name(args)} says this; work by it now:\n\n{text}"
        shown = Note(counted(len(text.splitlines()), "line"))  # its name is in the summary
        return ToolResult(message, shown, overrides=prompt.overrides.replace(model=""))

    def _prompt(self, args: SkillArgs, ctx: ToolContext) -> ExpandedPrompt:
        skill = ctx.extensions.skills.get(_skill_name(args))
        if skill is None:
            known = shorten(", ".join(ctx.extensions.skills), _SKILL_LIST_BYTES)
            raise ToolError(f"Unknown skill {one_line(_skill_name(args))!r}. The skills are: {known}.")
        return as_expanded_prompt(skill.expand(args.args, ctx), _skill_name(args))


def _skill_name(args: SkillArgs) -> str:
    return args.skill.strip().removeprefix("/")


def skill_list(skills: Mapping[str, HasDescription]) -> str:
    """Format names and descriptions within the size limit."""
    for width in _LINE_WIDTHS:
        lines = [shorten(one_line(f"{n}: {s.description}"), width) if width else n for n, s in skills.items()]
        if sum(len(line.encode("utf-8", "replace")) + 1 for line in lines) <= _SKILL_LIST_BYTES:
            return "\n".join(lines)
    shown: list[str] = []
    remaining = _SKILL_LIST_BYTES
    for name in skills:
        remaining -= len(name.encode("utf-8", "replace")) + 1
        if remaining < 0:
            shown.append(f"and {len(skills) - len(shown)} more, which a search for tools finds")
            break
        shown.append(name)
    return "\n".join(shown)


_COMMAND_LIST_BYTES = 2_000
_COMMAND_WIDTH = 240


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
    needs = "commands"

    def dynamic_description(self, ctx: ToolContext) -> str:
        """Return the commands that fit, one per line, and the number of the others."""
        lines: list[str] = []
        remaining = _COMMAND_LIST_BYTES
        for name, command in ctx.extensions.commands.items():
            words = " ".join(
                filter(None, [f"/{name}", command.hint, command.description and f"- {command.description}"])
            )
            line = shorten(one_line(words), _COMMAND_WIDTH)
            remaining -= len(line.encode("utf-8", "replace")) + 1
            if remaining < 0:
                lines.append(f"and {len(ctx.extensions.commands) - len(lines)} more, which the user can name")
                break
            lines.append(line)
        return "\n".join(lines)

    def effects(self, args: SlashCommandArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        uses = Effect("prompt", f"/{_split_command(args.command)[0]}")
        return (uses, *(Effect("run", command) for command in self._prompt(args, ctx).commands))

    def summary(self, args: SlashCommandArgs, ctx: ToolContext) -> str:
        return f"Use the command {shorten(one_line('/' + ' '.join(_split_command(args.command))), 100).rstrip()}"

    def preview(self, args: SlashCommandArgs, ctx: ToolContext) -> Note:
        return Note(self._prompt(args, ctx).text())

    def run(self, args: SlashCommandArgs, ctx: ToolContext) -> Generator[Progress, None, ToolResult]:
        name, _ = _split_command(args.command)
        prompt = self._prompt(args, ctx)
        text = prompt.text()
        if prompt.commands:
            text = yield from expand_prompt(prompt, ctx)
        ctx.mark_mentions_read(text)
        message = f"The user's command /{name} says this; do it now:\n\n{text}"
        return ToolResult(
            message, Note(f"a prompt of {counted(len(text.splitlines()), 'line')}"), overrides=prompt.overrides
        )

    def _prompt(self, args: SlashCommandArgs, ctx: ToolContext) -> ExpandedPrompt:
        name, arguments = _split_command(args.command)
        command = ctx.extensions.commands.get(name)
        if command is None:
            known = ", ".join(f"/{n}" for n in ctx.extensions.commands)
            raise ToolError(f"Unknown command /{one_line(name)}. The user's commands are: {known or 'none'}.")
        return as_expanded_prompt(command.expand(arguments, ctx), name)


def _split_command(text: str) -> tuple[str, str]:
    """Split a call, with or without the slash, into name and arguments."""
    name, _, arguments = text.strip().removeprefix("/").partition(" ")
    return name, arguments.strip()

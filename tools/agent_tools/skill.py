"""The Skill tool: saved instructions for a kind of task, read by the model when it needs them."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Annotated, ClassVar

from agent_tools.base import Effect, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.context import HasDescription
from agent_tools.display import Note
from agent_tools.overrides import ExpandedPrompt, prompted
from agent_tools.record import Value
from agent_tools.shell.bash import fill
from agent_tools.text import one_line, shorten

LIST = 8_000
# Line lengths to try until all skills fit; 0 for names only.
_LINES = (1_000, 400, 200, 100, 0)


class SkillArgs(Value):
    """The arguments of Skill."""

    ALIASES: ClassVar = {"skill": ("name", "command"), "args": ("arguments",)}

    skill: Annotated[str, "The skill's name"]
    args: Annotated[str, "What to use it on"] = ""


class UseSkill(Tool[SkillArgs]):
    """Loads a skill. Its text needs no approval; commands that it runs and rules that it brings do."""

    name = "Skill"
    result_size = "whole"
    Args = SkillArgs
    rule_names = "target"

    def available(self, ctx: ToolContext) -> bool:
        return bool(ctx.skills)

    def dynamic_description(self, ctx: ToolContext) -> str:
        """Return the skills, one per line; with many, lines get shorter so that all fit, if possible."""
        return skill_list(ctx.skills)

    def effects(self, args: SkillArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        # The current content of the file, not that at the start, takes effect.
        prompt = self._prompt(args, ctx)
        runs = tuple(Effect("run", command) for command in prompt.commands)
        return (Effect("prompt" if runs or prompt.lent.rules else "state", _name(args)), *runs)

    def summary(self, args: SkillArgs, ctx: ToolContext) -> str:
        return f"Use the skill {shorten(one_line(f'{_name(args)} {args.args}'), 100).rstrip()}"

    def preview(self, args: SkillArgs, ctx: ToolContext) -> Note:
        prompt = self._prompt(args, ctx)
        allows = f"It allows, for this turn: {', '.join(prompt.lent.rules)}\n\n" if prompt.lent.rules else ""
        return Note(allows + prompt.text())

    def run(self, args: SkillArgs, ctx: ToolContext) -> Generator[Progress, None, ToolResult]:
        prompt = self._prompt(args, ctx)
        text = prompt.text()
        if prompt.commands:
            text = yield from fill(prompt, ctx)
        ctx.mark_mentions_read(text)
        said = f"The skill {_name(args)} says this; work by it now:\n\n{text}"
        return ToolResult(said, Note(f"skill {_name(args)}"), lent=prompt.lent.replace(model=""))

    def _prompt(self, args: SkillArgs, ctx: ToolContext) -> ExpandedPrompt:
        skill = ctx.skills.get(_name(args))
        if skill is None:
            raise ToolError(f"Unknown skill {one_line(_name(args))!r}. The skills are: {', '.join(ctx.skills)}.")
        return prompted(skill.expand(args.args, ctx), _name(args))


def _name(args: SkillArgs) -> str:
    return args.skill.strip().removeprefix("/")


def skill_list(skills: Mapping[str, HasDescription]) -> str:
    """Format names and descriptions within the size limit."""
    for most in _LINES:
        lines = [shorten(one_line(f"{n}: {s.description}"), most) if most else n for n, s in skills.items()]
        if sum(len(line.encode("utf-8", "replace")) + 1 for line in lines) <= LIST:
            return "\n".join(lines)
    shown: list[str] = []
    room = LIST
    for name in skills:
        room -= len(name.encode("utf-8", "replace")) + 1
        if room < 0:
            shown.append(f"and {len(skills) - len(shown)} more, which the user can name")
            break
        shown.append(name)
    return "\n".join(shown)

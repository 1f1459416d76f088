"""List what the user's files add: skills, sub-agent types, hooks."""

from __future__ import annotations

from agent_cli.core.hooks import Hook
from agent_cli.terminal.slash import SlashContext, slash
from agent_tools.text import one_line, shorten

_WIDTH = 100


@slash("skills", "the skills there are; /NAME uses one", aside=True)
def _skills(ctx: SlashContext, words: str) -> None:
    skills = ctx.agent.added.skills
    for name, skill in skills.items():
        who = "" if skill.by_model and skill.by_user else " (only you)" if skill.by_user else " (only the agent)"
        ctx.say(f"  {one_line(name)}{who}  {shorten(skill.description, _WIDTH)}")
        ctx.say(f"      {one_line(str(skill.folder))}")
    if not skills:
        ctx.say(
            "There are no skills: a skill is a folder with a SKILL.md in .agent/skills or .claude/skills, here or in "
            "your home folder."
        )


@slash("agents", "the types of sub-agents", aside=True)
def _agents(ctx: SlashContext, words: str) -> None:
    deps = ctx.agent.conversation.deps
    for name, kind in deps.agents.items():
        tools = ", ".join(kind.tools) if kind.tools else "all tools"
        model = f", model {one_line(kind.model)}" if kind.model else ""
        ctx.say(f"  {one_line(name)}  {shorten(kind.description, _WIDTH)}")
        ctx.say(f"      {one_line(tools)}{model}{f', {one_line(str(kind.path))}' if kind.path else ''}")
    if not deps.agents:
        ctx.say("There are none: the tool Task is not offered in this session.")


@slash("hooks", "the hooks of this session, and those held back for lack of trust", aside=True)
def _hooks(ctx: SlashContext, words: str) -> None:
    layers, settings = ctx.agent.layers, ctx.agent.settings
    for hook in settings.hooks:
        counts = (hook.own or layers.trust.trusted) and not settings.disable_hooks
        ctx.say(_line(hook, "" if counts else ", does not run"))
    for hook in layers.held_hooks:
        ctx.say(_line(hook, ", held: the project is not trusted"))
    if not settings.hooks and not layers.held_hooks:
        ctx.say("There are no hooks.")


def _line(hook: Hook, standing: str) -> str:
    return f"  {hook.event} {hook.where or '*'}  {shorten(hook.command)}  ({hook.source}{standing})"

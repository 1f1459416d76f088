"""Session permissions beside the settings: rules, directories, effort."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast, get_args

from agent_cli.core.modes import Effort
from agent_cli.core.rules import RuleError, RuleList
from agent_cli.terminal.slash import SlashContext, slash
from agent_tools.record import to_json
from agent_tools.text import number_in, one_line

_LISTS = ("deny", "ask", "allow")
_EFFORTS = get_args(Effort)


@slash("permissions", "the rules in force and where each comes from; change those of this session",
       "[allow|ask|deny RULE | remove N]")  # fmt: skip
def _permissions(ctx: SlashContext, words: str) -> None:
    context = ctx.agent.conversation.deps.context
    policy = ctx.agent.conversation.deps.policy
    verb, _, rest = words.partition(" ")
    rest = rest.strip()
    rules = sorted(policy.rules, key=lambda r: _LISTS.index(r.list))
    if verb in _LISTS and rest:
        try:
            rule = policy.add(cast(RuleList, verb), rest)
        except RuleError as error:
            ctx.say(f"{error}.")
            return
        ctx.say(f"{rule.list} {rule.text} holds for this session.")
    elif verb == "remove" and 1 <= number_in(rest) <= len(rules):
        rule = rules[number_in(rest) - 1]
        try:
            policy.remove(rule)
        except ValueError:
            ctx.say(f"{rule.text} comes from {rule.source}; change it there.")
            return
        ctx.say(f"{rule.list} {rule.text} does not hold any more.")
    elif words:
        ctx.say("Say: allow RULE, ask RULE, deny RULE, or remove N for a rule of this session.")
        return
    else:
        origin = ctx.layers.origins.get("permissions.mode", "the default")
        ctx.say(f"mode: {policy.mode}" + (f" ({origin})" if policy.mode == ctx.agent.settings.permissions.mode else ""))
        if policy.runs_unasked:
            ctx.say(
                "  Commands run in the sandbox without a question (sandbox.auto_allow); deleting files, leaving the"
                " workspace and the network still ask."
            )
        for number, rule in enumerate(rules, 1):
            why = f": {rule.why}" if rule.why else ""
            ctx.say(f"  {number}. {rule.list:<5} {rule.text}  ({rule.source}){why}")
        if not rules:
            ctx.say("  There are no rules. /permissions allow Bash(git status:*) adds one for this session.")
        return
    # Searches cache the rules that hide files.
    context.readable = policy.readable()


@slash("effort", "show or change how hard the model thinks", "[LEVEL | default]",
       values=lambda ctx: ("default", *_EFFORTS))  # fmt: skip
def _effort(ctx: SlashContext, words: str) -> None:
    conversation = ctx.agent.conversation
    if words and words != "default" and words not in _EFFORTS:
        ctx.say(f"{one_line(words)} is none of {', '.join((*_EFFORTS, 'default'))}.")
        return
    if words:
        effort = None if words == "default" else cast(Effort, words)
        conversation.options = conversation.options.replace(effort=effort)
    info = ctx.agent.info
    unused = "" if info is None or info.reasoning or not words else "; the catalog says that this model does not reason"
    ctx.say(f"effort: {conversation.options.effort or 'the default of the model'}{unused}")


@slash("add-dir", "let a folder count as part of the workspace for this session", "PATH")
def _add_dir(ctx: SlashContext, words: str) -> None:
    conversation = ctx.agent.conversation
    workspace = conversation.deps.context.workspace
    if not words:
        for root in workspace.roots:
            ctx.say(f"  {root}")
        ctx.say("/add-dir PATH adds a folder.")
        return
    folder = Path(os.path.realpath(ctx.place.cwd / os.path.expanduser(words)))
    if not os.path.isdir(folder):  # noqa: PTH112 - the method raises where a parent is closed
        ctx.say(f"{one_line(words)} is not a folder.")
        return
    if any(folder.is_relative_to(root) for root in workspace.roots):
        ctx.say(f"{one_line(str(folder))} is part of the workspace already.")
        return
    home = ctx.place.home
    wide = folder == Path(folder.anchor) or folder == home or ctx.place.root.is_relative_to(folder)
    question = f"{folder} holds much more than a project: all of it could be read without a question. Add it?"
    if wide and not ctx.confirm(question):
        ctx.say("Nothing was added.")
        return
    workspace.widen(folder)
    _remember(ctx, folder)
    told = f"The user added the folder {folder} to the workspace for this session."
    conversation.inbox.append(f"<workspace_change>\n{told}\n</workspace_change>")
    ctx.say(f"{one_line(str(folder))} counts as inside the workspace for this session.")


def _remember(ctx: SlashContext, folder: Path) -> None:
    """Save the directory for turns that are suspended and resumed later."""
    agent = ctx.agent
    permissions = agent.settings.permissions
    folders = (*permissions.additional_directories, str(folder))
    agent.settings = agent.settings.replace(permissions=permissions.replace(additional_directories=folders))
    saved = agent.conversation.options.saved
    if saved:
        agent.conversation.options = agent.conversation.options.replace(
            saved={**saved, "settings": to_json(agent.settings)}
        )

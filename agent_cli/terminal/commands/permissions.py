"""What holds in this session beside the settings: rules, folders, effort."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from agent_cli.core.modes import Effort
from agent_cli.core.rules import RuleError, RuleList
from agent_cli.terminal.commands.registry import slash
from agent_tools.record import to_plain
from agent_tools.text import number_in, one_line

if TYPE_CHECKING:
    from agent_cli.terminal.repl import Repl

_LISTS = ("deny", "ask", "allow")
_EFFORTS = get_args(Effort)


@slash("permissions", "the rules in force and where each comes from; change those of this session",
       "[allow|ask|deny RULE | remove N]")  # fmt: skip
def _permissions(repl: Repl, words: str) -> None:
    context = repl.agent.conversation.kit.context
    policy = repl.agent.conversation.kit.policy
    verb, _, rest = words.partition(" ")
    rest = rest.strip()
    rules = sorted(policy.rules, key=lambda r: _LISTS.index(r.list))
    if verb in _LISTS and rest:
        try:
            rule = policy.add(cast(RuleList, verb), rest)
        except RuleError as error:
            repl.say(f"{error}.")
            return
        repl.say(f"{rule.list} {rule.text} holds for this session.")
    elif verb == "remove" and 1 <= number_in(rest) <= len(rules):
        rule = rules[number_in(rest) - 1]
        try:
            policy.remove(rule)
        except ValueError:
            repl.say(f"{rule.text} comes from {rule.source}; change it there.")
            return
        repl.say(f"{rule.list} {rule.text} does not hold any more.")
    elif words:
        repl.say("Say: allow RULE, ask RULE, deny RULE, or remove N for a rule of this session.")
        return
    else:
        origin = repl.layers.origins.get("permissions.mode", "the default")
        repl.say(
            f"mode: {policy.mode}" + (f" ({origin})" if policy.mode == repl.agent.settings.permissions.mode else "")
        )
        if policy.runs_unasked:
            repl.say(
                "  Commands run in the sandbox without a question (sandbox.auto_allow); deleting files, leaving the"
                " workspace and the network still ask."
            )
        for number, rule in enumerate(rules, 1):
            why = f": {rule.why}" if rule.why else ""
            repl.say(f"  {number}. {rule.list:<5} {rule.text}  ({rule.source}){why}")
        if not rules:
            repl.say("  There are no rules. /permissions allow Bash(git status:*) adds one for this session.")
        return
    # Searches hold on to the rules that keep files from being shown.
    context.readable = policy.readable()


@slash("effort", "show or change how hard the model thinks", "[LEVEL | default]",
       values=lambda repl: ("default", *_EFFORTS))  # fmt: skip
def _effort(repl: Repl, words: str) -> None:
    conversation = repl.agent.conversation
    if words and words != "default" and words not in _EFFORTS:
        repl.say(f"{one_line(words)} is none of {', '.join((*_EFFORTS, 'default'))}.")
        return
    if words:
        effort = None if words == "default" else cast(Effort, words)
        conversation.options = conversation.options.but(effort=effort)
    info = repl.agent.info
    unused = "" if info is None or info.reasoning or not words else "; the catalog says that this model does not reason"
    repl.say(f"effort: {conversation.options.effort or 'the default of the model'}{unused}")


@slash("add-dir", "let a folder count as part of the workspace for this session", "PATH")
def _add_dir(repl: Repl, words: str) -> None:
    conversation = repl.agent.conversation
    workspace = conversation.kit.context.workspace
    if not words:
        for root in workspace.roots:
            repl.say(f"  {root}")
        repl.say("/add-dir PATH adds a folder.")
        return
    folder = Path(os.path.realpath(repl.place.cwd / os.path.expanduser(words)))
    if not os.path.isdir(folder):  # noqa: PTH112 - the method raises where a parent is closed
        repl.say(f"{one_line(words)} is not a folder.")
        return
    if any(folder.is_relative_to(root) for root in workspace.roots):
        repl.say(f"{one_line(str(folder))} is part of the workspace already.")
        return
    home = repl.place.home
    wide = folder == Path(folder.anchor) or folder == home or repl.place.root.is_relative_to(folder)
    question = f"{folder} holds much more than a project: all of it could be read without a question. Add it?"
    if wide and not repl.confirm(question):
        repl.say("Nothing was added.")
        return
    workspace.widen(folder)
    _remember(repl, folder)
    told = f"The user added the folder {folder} to the workspace for this session."
    conversation.inbox.append(f"<workspace_change>\n{told}\n</workspace_change>")
    repl.say(f"{one_line(str(folder))} counts as inside the workspace for this session.")


def _remember(repl: Repl, folder: Path) -> None:
    """A turn that is suspended from now on is resumed with the folder."""
    agent = repl.agent
    permissions = agent.settings.permissions
    folders = (*permissions.additional_directories, str(folder))
    agent.settings = agent.settings.but(permissions=permissions.but(additional_directories=folders))
    saved = agent.conversation.options.saved
    if saved:
        agent.conversation.options = agent.conversation.options.but(
            saved={**saved, "settings": to_plain(agent.settings)}
        )

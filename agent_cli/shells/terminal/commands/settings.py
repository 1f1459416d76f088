"""Session settings: approval mode and rules, directories, theme, vi keys. Changes last for the session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

from agent_cli import MODES, Mode
from agent_cli.kernel.rules import RuleError, RuleList
from agent_cli.kernel.runtime.tools import warn_unknown_rules
from agent_cli.policy.policy import SESSION
from agent_cli.shells.terminal.dialogs.view import View, ViewAction, ViewItem, prose_lines
from agent_cli.shells.terminal.render.theme import theme_names
from agent_cli.shells.terminal.slash import SlashContext, slash
from agent_tools.text import one_line, parse_number

MODE_HELP: dict[Mode, str] = {
    "default": "asks before changes and commands",
    "acceptEdits": "edits files without asking; commands still ask",
    "plan": "changes nothing until you approve a plan",
    "dontAsk": "refuses whatever would need approval",
    "bypassPermissions": "runs everything without asking: for sandboxes only",
}


@slash("mode", "choose the approval mode", "[MODE]", aside=True, values=lambda ctx: MODE_HELP.items(), strict=True)
def _mode(ctx: SlashContext, words: str) -> None:
    now = ctx.agent.policy.mode
    if words and words not in MODES:
        ctx.say(f"{one_line(words)} is not a mode. There are {', '.join(MODES)}.")
        return
    if not words and ctx.has_menus:
        options = [(mode, f"{MODE_HELP[mode]}{' (current)' if mode == now else ''}") for mode in MODES]
        if (picked := ctx.choose("Approval mode", options, quiet=True)) is None:
            return
        words = MODES[picked]
    if words:
        ctx.switch_mode(words)
    ctx.say(f"mode: {ctx.agent.policy.mode}")


@slash(
    "theme",
    "choose the colours",
    "[NAME]",
    aside=True,
    values=lambda ctx: theme_names(ctx.run_env.home).items(),
    aliases=("themes",),
)
def _theme(ctx: SlashContext, words: str) -> None:
    if not words:
        names = list(theme_names(ctx.run_env.home).items())
        if (picked := ctx.choose("Which theme?", names, quiet=True)) is not None:
            words = names[picked][0]
    if words:
        ctx.switch_theme(words)
    ctx.say(f"theme: {ctx.theme}" + (f" (/config terminal.theme {words} makes it the default)" if words else ""))


@slash("vim", "toggle vi keys", aside=True)
def _vim(ctx: SlashContext, words: str) -> None:
    on = ctx.switch_vim()
    if on is None:
        ctx.say("There is no line editor here, so there are no vi keys.")
    else:
        ctx.say(f"vi mode {'on' if on else 'off'}")


_RULE_LISTS = ("deny", "ask", "allow")


@slash("permissions", "list permission rules; add or remove some for this session",
       "[allow|ask|deny RULE | remove N]", values=lambda ctx: ("allow ", "ask ", "deny ", "remove "),
       aliases=("allowed-tools", "approvals"))  # fmt: skip
def _permissions(ctx: SlashContext, words: str) -> None:
    policy = ctx.agent.policy
    verb, _, rest = words.partition(" ")
    rest = rest.strip()
    rules = sorted(policy.rules, key=lambda r: _RULE_LISTS.index(r.list))
    if verb in _RULE_LISTS and rest:
        try:
            rule = policy.add(cast(RuleList, verb), rest)
        except RuleError as error:
            ctx.say(f"{error}.")
            return
        ctx.say(f"{rule.list} {rule.text} holds for this session.")
        warn_unknown_rules([rule], ctx.agent.deps.tools.values(), lambda text: ctx.say(f"warning: {text}"))
    elif verb == "remove" and 1 <= parse_number(rest) <= len(rules):
        rule = rules[parse_number(rest) - 1]
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
        _show_rules(ctx)


_RULE_MARKS = {"deny": ("⊘", "bad"), "ask": ("?", "warn"), "allow": ("✓", "good")}


def _show_rules(ctx: SlashContext) -> None:
    """Show the mode and the rules, and remove those of this session that the user picks."""
    policy = ctx.agent.policy
    rules = sorted(policy.rules, key=lambda r: _RULE_LISTS.index(r.list))
    origin = ctx.layers.origins.get("permissions.mode", "the default")
    now = f"mode: {policy.mode}" + (f" ({origin})" if policy.mode == ctx.agent.settings.permissions.mode else "")
    what = f"\n{MODE_HELP[policy.mode]}" if ctx.has_menus else ""
    if policy.runs_unasked:
        what += (
            "\nCommands run in the sandbox without a question (sandbox.auto_allow); deleting files, leaving the"
            " workspace and the network still ask."
        )
    elif policy.tries_reading:
        what += (
            "\nCommands that only read run in the sandbox without a question (sandbox.auto_allow); what it stops asks."
        )
    items = []
    for number, rule in enumerate(rules, 1):
        mark, style = _RULE_MARKS[rule.list]
        about = f"{rule.source}{f': {rule.why}' if rule.why else ''}"
        why = f": {rule.why}" if rule.why else ""
        line = f"{number}. {rule.list:<5} {rule.text}  ({rule.source}){why}"
        items.append(ViewItem(rule.text, about, line=line, mark=mark, style=style, section=rule.list))
    empty = "There are no rules. /permissions allow Bash(git status:*) adds one for this session."
    remove = ViewAction("x", "remove", lambda index: rules[index].source == SESSION)
    view = View("Permissions", lambda width: prose_lines(now + what, width), tuple(items), empty, (remove,))
    left = ctx.show_view(view)
    if left is not None:
        policy.remove(rules[left.index])
        ctx.say(f"{rules[left.index].list} {rules[left.index].text} does not hold any more.")


def _sibling_folders(ctx: SlashContext) -> Iterator[str]:
    """Yield the folders next to the workspace."""
    with suppress(OSError):
        siblings = (e.name for e in os.scandir(ctx.run_env.root.parent) if e.is_dir() and not e.name.startswith("."))
        yield from (f"../{name}" for name in sorted(siblings) if name != ctx.run_env.root.name)


@slash(
    "add-dir",
    "add a folder to the workspace for this session",
    "PATH",
    values=_sibling_folders,
    aliases=("dir", "directory"),
)
def _add_dir(ctx: SlashContext, words: str) -> None:
    workspace = ctx.agent.tool_context.workspace
    if not words:
        for root in workspace.roots:
            ctx.say(f"  {root}")
        ctx.say("/add-dir PATH adds a folder.")
        return
    folder = Path(os.path.realpath(ctx.run_env.cwd / os.path.expanduser(words)))
    if not os.path.isdir(folder):  # noqa: PTH112 - the method raises where a parent is closed
        ctx.say(f"{one_line(words)} is not a folder.")
        return
    if any(folder.is_relative_to(root) for root in workspace.roots):
        ctx.say(f"{one_line(str(folder))} is already part of the workspace.")
        return
    home = ctx.run_env.home
    wide = folder == Path(folder.anchor) or folder == home or ctx.run_env.root.is_relative_to(folder)
    question = f"{folder} holds much more than a project: all of it could be read without a question. Add it?"
    if wide and not ctx.confirm(question, grave=False):
        ctx.say("Nothing was added.")
        return
    ctx.agent.add_folder(folder, "slash_command")
    ctx.say(f"{one_line(str(folder))} is part of the workspace for this session.")

"""Hooks as they stand in settings: `[[hooks]]` in TOML, or Claude Code's JSON shape, read into one list.

    [[hooks]]                                 {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [
    event = "PreToolUse"                          {"type": "command", "command": "./check.sh", "timeout": 10}]}]}}
    matcher = "Bash"
    command = "./check.sh"

What is not understood is never half taken: the hook is left out, and named.
"""

from __future__ import annotations

import re
from typing import Any

from agent_cli.config.reading import nearest
from agent_cli.core.hooks import EVENTS, SECONDS, Hook
from agent_tools.clipping import shorten

MOST = 500
_LONGEST = 86_400.0
_KEYS = ("event", "matcher", "command", "args", "timeout", "strict", "background")
# Claude Code's events that have no counterpart here. Nothing is let through because their hooks do not run.
ELSEWHERE = frozenset(
    "PostToolUseFailure PermissionDenied PostCompact StopFailure SubagentStart Setup TaskCreated TaskCompleted "
    "TeammateIdle ConfigChange InstructionsLoaded CwdChanged FileChanged WorktreeCreate WorktreeRemove Elicitation "
    "ElicitationResult UserPromptExpansion PostToolBatch".split()
)
# Of Claude Code's entries: what is shown while one runs, which we do not show.
_HARMLESS = ("statusMessage",)


def hooks_of(raw: Any, source: str, *, own: bool) -> tuple[tuple[Hook, ...], list[str]]:
    """The hooks that a value of the key `hooks` spells, in order, and what is wrong with the others, a sentence each.

    A list is ours, a table Claude Code's.
    """
    problems: list[str] = []
    entries = _from_claude(raw, problems) if isinstance(raw, dict) else _from_ours(raw, problems)
    found = []
    for where, entry in entries:
        hook = _hook(entry, where, source, own, problems)
        if hook is not None:
            found.append(hook)
    if len(found) > MOST:
        problems.append(f"there can be {MOST} hooks, and these are {len(found)}")
    return tuple(found[:MOST]), problems


def _from_ours(raw: Any, problems: list[str]) -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(raw, list | tuple) or not all(isinstance(entry, dict) for entry in raw):
        problems.append("hooks: expected tables, [[hooks]]")
        return []
    return [(f"hooks[{number}]", entry) for number, entry in enumerate(raw)]


def _from_claude(raw: dict[str, Any], problems: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Entries of our shape from {Event: [{matcher, hooks: [...]}]}."""
    found = []
    for event, groups in raw.items():
        if not isinstance(groups, list):
            problems.append(f"hooks.{event}: expected a list")
            continue
        for number, group in enumerate(groups):
            where = f"hooks.{event}[{number}]"
            inner = group.get("hooks") if isinstance(group, dict) else None
            if not isinstance(inner, list):
                problems.append(f"{where}: expected matcher and hooks")
                continue
            for entry in inner:
                if why := _foreign(entry):
                    problems.append(f"{where}: {why}")
                    continue
                kept = {k: v for k, v in entry.items() if k not in (*_HARMLESS, "type")}
                if "async" in kept:
                    kept["background"] = kept.pop("async")
                found.append((where, {**kept, "event": event, "matcher": group.get("matcher") or ""}))
    return found


def _foreign(entry: Any) -> str:
    """Why an entry of Claude Code's is none that can be run here; "" where it can."""
    if not isinstance(entry, dict):
        return "expected a table with type and command"
    kind = entry.get("type", "command")
    if kind != "command":
        return f"hooks of the type {shorten(str(kind), 40)} are not offered, only commands"
    return "`if` is not offered; let the command look at tool_input" if entry.get("if") else ""


def _hook(entry: dict[str, Any], where: str, source: str, own: bool, problems: list[str]) -> Hook | None:
    fields = dict(entry)
    seconds = fields.get("timeout", SECONDS)
    args = fields.get("args") or ()
    why = ""
    if unknown := next((k for k in fields if k not in _KEYS), ""):
        why = f"{unknown}: there is no such key{nearest(unknown, list(_KEYS))}"
    elif (event := fields.get("event")) not in EVENTS:
        why = f"{event!r} is no event that is offered{nearest(str(event), list(EVENTS))}"
    elif not isinstance(fields.get("command"), str) or not fields["command"].strip():
        why = "command: expected text"
    elif not isinstance(args, list | tuple) or not all(isinstance(a, str) for a in args):
        why = "args: expected a list of text"
    elif name := next((n for n in ("strict", "background") if not isinstance(fields.get(n, False), bool)), ""):
        why = f"{name}: expected true or false"
    elif isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _LONGEST:
        why = f"timeout: expected seconds up to {_LONGEST:,.0f}"
    else:
        why = _bad_matcher(fields.get("matcher", ""))
    if why:
        problems.append(f"{where}: {why}")
        return None
    return Hook(
        fields["event"], fields["command"], fields.get("matcher", ""), tuple(args), float(seconds),
        fields.get("strict", False), source, own, fields.get("background", False),
    )  # fmt: skip


def _bad_matcher(matcher: Any) -> str:
    if not isinstance(matcher, str):
        return "matcher: expected text"
    if re.fullmatch(r"[\w |,*-]*", matcher):
        return ""
    if re.fullmatch(r"\w+\([^()?]*[:\s][^()]*\)", matcher):
        # It would be a regular expression that no name of a tool ever fits.
        return (
            f"matcher: {shorten(matcher, 80)} is spelled like a rule; a matcher is compared with the tool's name only"
        )
    try:
        re.compile(matcher)
    except re.error as error:
        return f"matcher: {shorten(matcher, 80)} is no regular expression: {error}"
    return ""

"""Parse hooks in settings: `[[hooks]]` in TOML, or Claude Code's JSON form, into one list.

    [[hooks]]                                 {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [
    event = "PreToolUse"                          {"type": "command", "command": "./check.sh", "timeout": 10}]}]}}
    matcher = "Bash"
    command = "./check.sh"

A hook that is not understood is never used in part: it is ignored and reported.
"""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path
from typing import Any

from agent_cli.config.parsing import nearest_key_hint
from agent_cli.core.hooks import DEFAULT_TIMEOUT_SECONDS, HOOK_EVENTS, Hook
from agent_cli.core.rules import RuleError, read_rule
from agent_tools.base import ToolError
from agent_tools.fs.safe_files import NotRegularFileError, resolve_inside
from agent_tools.net.urls import split_url
from agent_tools.text import shorten

MAX_HOOKS = 500
_MAX_TIMEOUT_SECONDS = 86_400.0
# Claude Code's names of some fields.
_CLAUDE_FIELDS = {
    "async": "background", "asyncRewake": "wakes", "allowedEnvVars": "allowed_env_vars", "onFailure": "strict",
}  # fmt: skip
# Claude Code's hook types, each with the key of what it runs, and with all its own keys.
_KINDS = {"command": "command", "http": "url", "prompt": "prompt", "agent": "prompt", "mcp_tool": "tool"}
_KIND_FIELDS = {
    "command": ("command", "args"), "http": ("url", "headers", "allowed_env_vars"), "prompt": ("prompt", "model"),
    "agent": ("prompt", "model"), "mcp_tool": ("tool", "server", "input"),
}  # fmt: skip
_FLAGS = ("strict", "background", "wakes", "once")
_KEYS = (
    "event",
    "type",
    "matcher",
    "if",
    "timeout",
    *_FLAGS,
    *dict.fromkeys(chain.from_iterable(_KIND_FIELDS.values())),
)
_HEADER = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
# Claude Code's events that are not supported. Ignoring their hooks allows nothing that they would refuse.
UNSUPPORTED_EVENTS = frozenset(
    "PostToolUseFailure PermissionDenied PostCompact StopFailure SubagentStart Setup TaskCreated TaskCompleted "
    "TeammateIdle ConfigChange InstructionsLoaded CwdChanged FileChanged WorktreeCreate WorktreeRemove Elicitation "
    "ElicitationResult UserPromptExpansion PostToolBatch".split()
).difference(HOOK_EVENTS)
# Keys of Claude Code's entries that are ignored: texts that are not shown.
_IGNORED_FIELDS = ("statusMessage", "rewakeMessage", "rewakeSummary")


def parse_hooks(
    raw: Any, source: str, *, from_user: bool, root: Path | None = None
) -> tuple[tuple[Hook, ...], list[str]]:
    """Parse a value of the key `hooks` into its hooks, in order, and a message for each invalid one.

    A list is in our form, a table in Claude Code's. root: the project of the hooks, if they are not the user's own.
    """
    problems: list[str] = []
    entries = _from_claude(raw, problems) if isinstance(raw, dict) else _from_ours(raw, problems)
    found = []
    for where, entry in entries:
        hook = _hook(entry, where, source, from_user, problems)
        if hook is None:
            continue
        if not from_user and root is not None and (script := _outside(hook, root)):
            problems.append(f"{where}: {script} points outside {root}, where it could change unnoticed")
        else:
            found.append(hook)
    if len(found) > MAX_HOOKS:
        problems.append(f"at most {MAX_HOOKS} hooks are allowed, found {len(found)}")
    return tuple(found[:MAX_HOOKS]), problems


def _outside(hook: Hook, root: Path) -> str:
    """Return a script in the project's `.claude` or `.agent` that a hook names and a link leads out of the project."""
    if hook.kind != "command":
        return ""
    for word in (hook.command, *hook.args):
        for name in re.findall(r"(?<![\w.-])\.(?:claude|agents?)/[^\s\"'`;|&<>(){}$*?\[\]]+", word):
            try:
                resolve_inside(root / name, root)
            except NotRegularFileError:
                return str(name)
            except OSError:
                continue
    return ""


def _from_ours(raw: Any, problems: list[str]) -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(raw, list | tuple) or not all(isinstance(entry, dict) for entry in raw):
        problems.append("hooks: expected tables, [[hooks]]")
        return []
    return [(f"hooks[{number}]", entry) for number, entry in enumerate(raw)]


def _from_claude(raw: dict[str, Any], problems: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Convert {Event: [{matcher, hooks: [...]}]} to entries of our form."""
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
                if why := _unsupported(entry):
                    problems.append(f"{where}: {why}")
                    continue
                kept = {_CLAUDE_FIELDS.get(k, k): v for k, v in entry.items() if k not in _IGNORED_FIELDS}
                if kept.get("strict") in ("block", "continue"):
                    kept["strict"] = kept["strict"] == "block"
                found.append((where, {**kept, "event": event, "matcher": group.get("matcher") or ""}))
    return found


def _unsupported(entry: Any) -> str:
    """Return why an entry of Claude Code's cannot run here; "" if it can."""
    if not isinstance(entry, dict):
        return "expected a table with type and command"
    kind = entry.get("type", "command")
    if kind not in _KINDS:
        return f"hooks of type {shorten(str(kind), 40)} are not supported, only {', '.join(_KINDS)}"
    key = _KINDS[kind]
    return "" if key in entry else f"{key}: expected text"


def _hook(entry: dict[str, Any], where: str, source: str, from_user: bool, problems: list[str]) -> Hook | None:
    fields = dict(entry)
    seconds = fields.get("timeout", DEFAULT_TIMEOUT_SECONDS)
    why = ""
    if unknown := next((k for k in fields if k not in _KEYS), ""):
        why = f"{unknown}: unknown key{nearest_key_hint(unknown, list(_KEYS))}"
    elif "event" not in fields:
        why = f"event: expected one of {', '.join(HOOK_EVENTS)}"
    elif not isinstance(event := fields["event"], str) or event not in HOOK_EVENTS:
        why = f"{event!r} is not a known event{nearest_key_hint(str(event), list(HOOK_EVENTS))}"
    elif "type" not in fields and not any(key in fields for key in _KINDS.values()):
        why = f"expected what to run: {', '.join(dict.fromkeys(_KINDS.values()))}"
    elif fields.get("type", "command") not in _KINDS:
        why = f"type: expected one of {', '.join(_KINDS)}"
    elif name := next((n for n in _FLAGS if not isinstance(fields.get(n, False), bool)), ""):
        why = f"{name}: expected true or false"
    elif isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _MAX_TIMEOUT_SECONDS:
        why = f"timeout: expected seconds up to {_MAX_TIMEOUT_SECONDS:,.0f}"
    else:
        kind = fields.get("type") or next((k for k, key in _KINDS.items() if key in fields), "command")
        why = _misplaced(fields, kind) or _KIND_CHECKS[kind](fields)
        why = why or _bad_matcher(fields.get("matcher", "")) or _bad_filter(fields)
    if why:
        problems.append(f"{where}: {why}")
        return None
    found = {
        "event": fields["event"],
        "command": f"mcp__{fields['server']}__{fields['tool']}" if kind == "mcp_tool" else fields[_KINDS[kind]],
        "matcher": fields.get("matcher", ""),
        "args": tuple(fields.get("args") or ()),
        "timeout": float(seconds),
        "strict": fields.get("strict", False),
        "source": source,
        "from_user": from_user,
        "background": fields.get("background", False) or fields.get("wakes", False),
        "wakes": fields.get("wakes", False),
        "kind": kind,
        "only": fields.get("if") or "",
        "headers": dict(fields.get("headers") or {}),
        "variables": tuple(fields.get("allowed_env_vars") or ()),
        "model": fields.get("model") or "",
        "server": fields.get("server") or "",
        "tool": fields.get("tool") or "",
        "input": dict(fields.get("input") or {}),
        "once": fields.get("once", False),
    }
    # Only values that differ from the defaults: the record of each turn contains the settings.
    return Hook(**{name: value for name, value in found.items() if value != getattr(Hook, name, None)})


def _misplaced(fields: dict[str, Any], kind: str) -> str:
    """Return a field that this kind of hook does not use."""
    name = next(
        (key for keys in _KIND_FIELDS.values() for key in keys if key not in _KIND_FIELDS[kind] and key in fields), ""
    )
    return f"{name}: does not apply to a hook with a {_KINDS[kind]}" if name else ""


def _bad_command(fields: dict[str, Any]) -> str:
    if not isinstance(fields.get("command"), str) or not fields["command"].strip():
        return "command: expected text"
    return "" if _is_texts(fields.get("args") or ()) else "args: expected a list of text"


def _bad_server(fields: dict[str, Any]) -> str:
    headers = fields.get("headers") or {}
    if not isinstance(headers, dict) or not all(
        re.fullmatch(_HEADER, n) and isinstance(v, str) for n, v in headers.items()
    ):
        return "headers: expected a table of text"
    if not _is_texts(fields.get("allowed_env_vars") or ()):
        return "allowed_env_vars: expected a list of text"
    try:
        split_url(fields["url"] if isinstance(fields.get("url"), str) else "")
    except ToolError as error:
        return f"url: {error}"
    return ""


def _bad_condition(fields: dict[str, Any]) -> str:
    if not isinstance(fields.get("prompt"), str) or not fields["prompt"].strip():
        return "prompt: expected text"
    if not isinstance(fields.get("model") or "", str):
        return "model: expected the name of a model"
    if fields.get("background") or fields.get("wakes"):
        return "background: a hook with a prompt always waits for its answer"
    return "" if HOOK_EVENTS[fields["event"]].blocks else f"prompt: {fields['event']} has nothing to refuse"


def _bad_tool(fields: dict[str, Any]) -> str:
    if name := next((n for n in ("server", "tool") if not isinstance(fields.get(n), str) or not fields[n].strip()), ""):
        return f"{name}: expected the name of {'an MCP server' if name == 'server' else 'a tool of the MCP server'}"
    return "" if isinstance(fields.get("input") or {}, dict) else "input: expected a table"


_KIND_CHECKS = {
    "command": _bad_command, "http": _bad_server, "prompt": _bad_condition, "agent": _bad_condition,
    "mcp_tool": _bad_tool,
}  # fmt: skip


def _bad_filter(fields: dict[str, Any]) -> str:
    """Return what is wrong with `if`, a rule about calls in the grammar of permissions."""
    rule = fields.get("if")
    if rule in (None, ""):
        return ""
    if not isinstance(rule, str):
        return "if: expected a rule, as Bash(git push:*)"
    if not HOOK_EVENTS[fields["event"]].about_call:
        return f"if: {fields['event']} is not about a call, so this hook would never run"
    try:
        read_rule("deny", rule, "", Path("/"))
    except RuleError as error:
        return f"if: {error}"
    return ""


def _is_texts(found: Any) -> bool:
    return isinstance(found, list | tuple) and all(isinstance(a, str) for a in found)


def _bad_matcher(matcher: Any) -> str:
    if not isinstance(matcher, str):
        return "matcher: expected text"
    # Names and alternatives, the usual matchers, are recognized without a regular expression.
    if matcher.replace("|", "x").isalnum() or re.fullmatch(r"[\w |,*-]*", matcher):
        return ""
    if re.fullmatch(r"\w+\([^()?]*[:\s][^()]*\)", matcher):
        # It would be a regular expression that never matches the name of a tool.
        return (
            f"matcher: {shorten(matcher, 80)} is spelled like a rule; a matcher is compared with the tool's name only"
        )
    try:
        re.compile(matcher)
    except re.error as error:
        return f"matcher: {shorten(matcher, 80)} is not a regular expression: {error}"
    return ""

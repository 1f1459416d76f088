"""Parse hooks in settings: `[[hooks]]` in TOML, or Claude Code's JSON form, into one list.

    [[hooks]]                                 {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [
    event = "PreToolUse"                          {"type": "command", "command": "./check.sh", "timeout": 10}]}]}}
    matcher = "Bash"
    command = "./check.sh"

In our own form every mistake is an error. In Claude Code's form, which other programs write, a hook runs without the
keys that are not known, and they are named. A hook that cannot run at all is named as well, also when it is to run; if
it is strict, it refuses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

from agent_cli.hooks.declaration import DEFAULT_TIMEOUT_SECONDS, Hook
from agent_cli.hooks.events import HOOK_EVENTS
from agent_cli.kernel.rules import FOREIGN_TOOLS, RuleError, mistyped_tool, read_rule
from agent_tools.base import ToolError
from agent_tools.fs.safe_files import NotRegularFileError, resolve_inside
from agent_tools.net.urls import split_url
from agent_tools.record import Value
from agent_tools.text import nearest_key_hint, shorten

MAX_HOOKS = 500
_MAX_TIMEOUT_SECONDS = 86_400.0
# Claude Code's names of some fields.
_CLAUDE_FIELDS = {
    "async": "background", "asyncRewake": "wakes", "allowedEnvVars": "allowed_env_vars", "onFailure": "strict",
}  # fmt: skip
# Claude Code's hook types, each with the key of what it runs, and with all its own keys.
_KINDS = {"command": "command", "http": "url", "prompt": "prompt", "agent": "prompt", "mcp_tool": "tool"}
_KIND_FIELDS = {
    "command": ("command", "args", "shell", "cwd", "env"), "http": ("url", "headers", "allowed_env_vars", "env"),
    "prompt": ("prompt", "model"), "agent": ("prompt", "model"), "mcp_tool": ("tool", "server", "input"),
}  # fmt: skip
_FLAGS = ("strict", "background", "wakes", "once")
# Names of the time limit, with the seconds of their unit.
_TIMEOUTS = {
    "timeout": 1.0,
    **dict.fromkeys(("timeoutSeconds", "timeout_seconds", "timeoutSec", "timeout_sec"), 1.0),
    **dict.fromkeys(("timeoutMs", "timeout_ms", "timeoutMillis", "timeoutMilliseconds", "timeout_milliseconds"), 0.001),
}
_UNITS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0, "h": 3600.0}
_SWITCHES = ("enabled", "disabled")
_KEYS = (
    "event",
    "type",
    "matcher",
    "if",
    "timeout",
    *_FLAGS,
    *_SWITCHES,
    *dict.fromkeys(chain.from_iterable(_KIND_FIELDS.values())),
)
_HEADER = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
# Claude Code's events that are not supported. Ignoring their hooks allows nothing that they would refuse.
UNSUPPORTED_EVENTS = frozenset(
    "PostToolUseFailure PermissionDenied PostCompact StopFailure SubagentStart Setup TaskCreated TaskCompleted "
    "TeammateIdle ConfigChange InstructionsLoaded CwdChanged FileChanged WorktreeCreate WorktreeRemove Elicitation "
    "ElicitationResult UserPromptExpansion PostToolBatch MessageDisplay".split()
).difference(HOOK_EVENTS)
# Keys that only describe a hook, or name texts that are not shown.
_LABELS = frozenset(
    "statusMessage rewakeMessage rewakeSummary description name id title label comment comments note notes version"
    " author tags category $comment $schema //".split()
)
# Keys that other programs know and that cannot limit what a hook is for.
_HARMLESS = frozenset("priority order blocking continueOnBlock continueOnError silent quiet".split())
_CONTINUES = ("continue", "ignore", "allow", "warn", "pass")


class ParsedHooks(Value):
    """The hooks in a value of the key `hooks`.

    hooks: those that are understood, in order. One that could refuse but cannot run is among them, as unusable.
    problems: a message for each that cannot run.
    refusing: the same for those that are strict, and therefore refuse.
    notes: messages about keys without effect, of hooks that run.
    """

    hooks: tuple[Hook, ...] = ()
    problems: tuple[str, ...] = ()
    refusing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return everything to be reported, with what follows from it."""
        found = [f"{problem}; this hook is strict and cannot run, so it refuses" for problem in self.refusing]
        return [*found, *(f"{problem}; this hook does not run" for problem in self.problems), *self.notes]


def parse_hooks(
    raw: Any, source: str, *, from_user: bool, root: Path | None = None, foreign: bool = False
) -> ParsedHooks:
    """Parse a value of the key `hooks`: a list is in our form, a table in Claude Code's.

    root: the project of the hooks, if they are not the user's own.
    foreign: the file is of another program, so unknown keys are noted, in a list as well.
    """
    reader = _HooksReader(source, from_user, root)
    if isinstance(raw, dict):
        reader.read_claude(raw)
    elif isinstance(raw, list | tuple) and all(isinstance(entry, dict) for entry in raw):
        for number, entry in enumerate(raw):
            reader.add(f"hooks[{number}]", entry, lenient=foreign)
    else:
        reader.problems.append("hooks: expected tables, [[hooks]]")
    if len(reader.found) > MAX_HOOKS:
        reader.problems.append(f"at most {MAX_HOOKS} hooks are allowed, found {len(reader.found)}")
    hooks, notes = tuple(reader.found[:MAX_HOOKS]), tuple(dict.fromkeys(reader.notes))
    return ParsedHooks(hooks, tuple(reader.problems), tuple(reader.refusing), notes)


def parse_front_matter(raw: Any, source: str, within: Path | None) -> ParsedHooks:
    """Parse the key `hooks` of a file's front matter. within: the project of the file; None for the user's own."""
    try:
        raw = json.loads(json.dumps(raw, default=str))  # YAML allows keys and values that JSON does not
    except (TypeError, ValueError, RecursionError):
        return ParsedHooks(notes=("hooks: expected events, each with a list",))
    return parse_hooks(raw, source, from_user=within is None, root=within, foreign=True)


class _HooksReader:
    """Reads the hooks of one source; the lists are those of ParsedHooks."""

    def __init__(self, source: str, from_user: bool, root: Path | None) -> None:
        self._source, self._from_user = source, from_user
        self._root = None if from_user else root
        self.found: list[Hook] = []
        self.problems: list[str] = []
        self.refusing: list[str] = []
        self.notes: list[str] = []

    def read_claude(self, raw: dict[str, Any]) -> None:
        """Read {Event: [{matcher, hooks: [...]}]}; keys of a group apply to each of its hooks."""
        for event, groups in raw.items():
            if isinstance(groups, dict):
                groups = [groups]
            if not isinstance(groups, list):
                self.problems.append(f"hooks.{event}: expected a list")
                continue
            for number, group in enumerate(groups):
                where = f"hooks.{event}[{number}]"
                inner = group.get("hooks") if isinstance(group, dict) else None
                shared = {key: value for key, value in group.items() if key != "hooks"} if inner is not None else {}
                if inner is None and isinstance(group, dict) and any(key in group for key in _KINDS.values()):
                    inner = group  # a hook that is in no group
                for entry in inner if isinstance(inner, list) else [inner]:
                    if isinstance(entry, dict):
                        limits = {key: shared[key] for key in ("matcher",) if shared.get(key)}
                        self.add(where, {**shared, **entry, **limits, "event": event}, lenient=True)
                    else:
                        what = "matcher and hooks" if inner is None else "a table with type and command"
                        self.problems.append(f"{where}: expected {what}")

    def add(self, where: str, given: dict[str, Any], *, lenient: bool = False) -> None:
        """Read one hook of our form, or of Claude Code's with its event."""
        notes: list[str] = []
        fields = _tolerated(given, notes) if lenient else dict(given)
        if _switched_off(fields, notes):
            return
        why = _mistake(fields)
        hook = None if why else _hook(fields, self._source, self._from_user)
        if hook is not None and self._root is not None and (script := _outside(hook, self._root)):
            why = f"{script} points outside {self._root}, so it could change without your notice"
        if why:
            unusable = self._unusable(fields, why) if lenient else None
            (self.refusing if unusable is not None and unusable.strict else self.problems).append(f"{where}: {why}")
            self.found += [unusable] if unusable is not None else []
        elif hook is not None:
            self.found.append(hook)
            self.notes += [f"{where}: {note}" for note in (*notes, *_mistyped(hook))]

    def _unusable(self, fields: dict[str, Any], why: str) -> Hook | None:
        """Return a hook that cannot run, to be named where it would; None if it could refuse nothing."""
        row = HOOK_EVENTS.get(str(fields.get("event")))
        if row is None or not row.blocks:
            return None
        what = next((fields[key] for key in _KINDS.values() if isinstance(fields.get(key), str)), "")
        matcher = "" if _bad_matcher(fields.get("matcher", "")) else fields.get("matcher", "")
        return Hook(
            row.name, shorten(what or str(fields.get("type", "hook")), 200), matcher, source=self._source,
            strict=fields.get("strict") is True, from_user=self._from_user, unusable=why,
        )  # fmt: skip


def _tolerated(given: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return the keys of a hook in Claude Code's form that can be used, under our names; note the others."""
    fields: dict[str, Any] = {}
    for key, value in given.items():
        name = _CLAUDE_FIELDS.get(key, key)
        if key in _LABELS or key.startswith("_") or value is None:
            continue
        if name == "strict" and isinstance(value, str):
            if value not in ("block", *_CONTINUES):
                notes.append(f"{key}: expected block or continue, found {shorten(repr(value), 40)}; a failure blocks")
            value = value not in _CONTINUES
        if name in (*_FLAGS, *_SWITCHES) and isinstance(value, str) and value.lower() in ("true", "false"):
            value = value.lower() == "true"
        if name in _TIMEOUTS:
            if (seconds := _seconds(value, _TIMEOUTS[name])) is None:
                limit = f"{_MAX_TIMEOUT_SECONDS:,.0f}"
                notes.append(f"{key}: expected seconds up to {limit}; {DEFAULT_TIMEOUT_SECONDS:.0f} are used")
            else:
                fields["timeout"] = seconds
        elif name in (*_FLAGS, *_SWITCHES) and not isinstance(value, bool):
            notes.append(f"{key}: expected true or false; it has no effect")
        elif name not in _KEYS:
            fields["refuses_only"] = fields.get("refuses_only", False) or key not in _HARMLESS
            notes.append(f"{key}: unknown key{nearest_key_hint(key, list(_KEYS))}; the hook runs without it")
        else:
            fields[name] = value
    if isinstance(kind := fields.get("type"), str):
        fields["type"] = kind.lower()
    if isinstance(words := fields.get("command"), list) and words and "args" not in fields:
        fields["command"], fields["args"] = words[0], words[1:]
    if isinstance(env := fields.get("env"), dict):
        fields["env"] = {name: value for name, value in env.items() if value is not None}
    kind = _kind(fields)
    for name in dict.fromkeys(chain.from_iterable(_KIND_FIELDS.values())):
        if name in fields and kind in _KINDS and name not in _KIND_FIELDS[kind]:
            notes.append(f"{name}: has no effect in a hook with a {_KINDS[kind]}")
            del fields[name]
        elif name in fields and name in _CHECKS and (why := _CHECKS[name](fields[name])):
            notes.append(f"{name}: {why}; it has no effect")
            del fields[name]
    return fields


def _switched_off(fields: dict[str, Any], notes: list[str]) -> bool:
    """Take the keys that switch a hook on or off; return True if it is off."""
    on, off = (fields.get(key) for key in _SWITCHES)
    if isinstance(on, bool) and isinstance(off, bool) and on is off:
        notes.append("enabled and disabled contradict each other; the hook runs")
        off = on = None
    return on is False or off is True


def _seconds(raw: Any, unit: float = 1.0) -> float | None:
    """Return a time limit in seconds, of a number or of a text such as "30s"; None if it is none."""
    if isinstance(raw, str):
        match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([a-zA-Z]*)\s*", raw)
        scale = _UNITS.get(match[2].lower(), _UNITS.get(match[2].lower().removesuffix("s"))) if match else None
        if match is None or (match[2] and scale is None):
            return None
        raw, unit = float(match[1]), scale or unit
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not isfinite(raw):
        return None
    return float(raw * unit) if 0 < raw * unit <= _MAX_TIMEOUT_SECONDS else None


def _kind(fields: dict[str, Any]) -> Any:
    return fields.get("type") or next((kind for kind, key in _KINDS.items() if key in fields), "command")


def _mistyped(hook: Hook) -> Iterator[str]:
    """Yield a note for each name in a matcher that is no tool's, but nearly one."""
    if not HOOK_EVENTS[hook.event].about_call or not re.fullmatch(r"[\w |,-]+", hook.matcher):
        return
    for name in filter(None, re.split(r"[ |,]+", hook.matcher)):
        if name not in FOREIGN_TOOLS and (near := mistyped_tool(name)):
            yield f"matcher: there is no tool {name}; did you mean {near}?"


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


def _mistake(fields: dict[str, Any]) -> str:
    """Return why a hook cannot run; "" if it can."""
    kind = _kind(fields)
    if unknown := next((k for k in fields if k not in (*_KEYS, "refuses_only")), ""):
        return f"{unknown}: unknown key{nearest_key_hint(unknown, list(_KEYS))}"
    if "event" not in fields:
        return f"event: expected one of {', '.join(HOOK_EVENTS)}"
    if not isinstance(event := fields["event"], str) or event not in HOOK_EVENTS:
        return f"{event!r} is not a known event{nearest_key_hint(str(event), list(HOOK_EVENTS))}"
    if "type" not in fields and not any(key in fields for key in _KINDS.values()):
        return f"expected what to run: {', '.join(dict.fromkeys(_KINDS.values()))}"
    if kind not in _KINDS:
        return f"hooks of type {shorten(str(kind), 40)} are not supported, only {', '.join(_KINDS)}"
    if name := next((n for n in (*_FLAGS, *_SWITCHES) if not isinstance(fields.get(n, False), bool)), ""):
        return f"{name}: expected true or false"
    if _seconds(fields.get("timeout", DEFAULT_TIMEOUT_SECONDS)) is None:
        return f"timeout: expected seconds up to {_MAX_TIMEOUT_SECONDS:,.0f}"
    if name := next((n for n, check in _CHECKS.items() if n in fields and check(fields[n])), ""):
        return f"{name}: {_CHECKS[name](fields[name])}"
    why = _misplaced(fields, kind) or _KIND_CHECKS[kind](fields)
    return why or _bad_matcher(fields.get("matcher", "")) or _bad_filter(fields)


def _hook(fields: dict[str, Any], source: str, from_user: bool) -> Hook:
    """Return the hook of fields without a mistake."""
    kind = _kind(fields)
    found = {
        "event": fields["event"],
        "command": f"mcp__{fields['server']}__{fields['tool']}" if kind == "mcp_tool" else fields[_KINDS[kind]],
        "matcher": fields.get("matcher", ""),
        "args": tuple(fields.get("args") or ()),
        "timeout": _seconds(fields.get("timeout", DEFAULT_TIMEOUT_SECONDS)),
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
        "shell": fields.get("shell") or "",
        "cwd": fields.get("cwd") or "",
        "env": {name: _env_text(value) for name, value in (fields.get("env") or {}).items()},
        "refuses_only": fields.get("refuses_only", False),
    }
    # Only values that differ from the defaults: the record of each turn contains the settings.
    return Hook(**{name: value for name, value in found.items() if value != getattr(Hook, name, None)})


def _env_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bad_env(raw: Any) -> str:
    if isinstance(raw, dict) and all(
        re.fullmatch(r"[A-Za-z_]\w*", str(name)) and isinstance(value, str | int | float) for name, value in raw.items()
    ):
        return ""
    return "expected a table of variables"


def _bad_shell(raw: Any) -> str:
    return "" if isinstance(raw, str) and re.fullmatch(r"[\w./+-]{1,200}", raw) else "expected the name of a shell"


def _bad_folder(raw: Any) -> str:
    return "" if isinstance(raw, str) and raw.strip() and "\0" not in raw else "expected a folder"


# Of keys that a hook can do without.
_CHECKS = {"env": _bad_env, "shell": _bad_shell, "cwd": _bad_folder}


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

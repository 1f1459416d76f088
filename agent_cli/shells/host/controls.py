"""The control requests of a host, here those about the session; an unknown one gets an error.

A function receives the open session and the fields of the request, and returns the fields of the answer. It runs on the
reading thread while a turn may be running; those in `SLOW_CONTROLS` run in a separate thread, and those in
`BETWEEN_TURNS` after the running turn.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast, get_args

from agent_cli import MODES, Session, UsageError
from agent_cli.config.parsing import SettingsError
from agent_cli.config.rule_lists import rule_list
from agent_cli.hooks import Hook
from agent_cli.hooks.events import HOOK_EVENTS
from agent_cli.kernel.modes import MODE_ALIASES, Effort
from agent_cli.kernel.rules import RuleError, RuleList
from agent_cli.kernel.runtime.saved_settings import SettingsFile
from agent_cli.kernel.version import CLAUDE_CODE_VERSION
from agent_cli.shells.headless.result_object import model_usage
from agent_cli.shells.host.channel import Fields
from agent_cli.shells.host.control_handlers import FILE_CONTROLS, SERVER_CONTROLS, server_states
from agent_cli.shells.host.control_table import ControlError, ControlTable, OpenSession
from agent_tools.base import ToolError
from agent_tools.record import to_json
from agent_tools.shell.jobs import Jobs
from agent_tools.text import one_line, shorten

SLOW_CONTROLS = frozenset(
    {"mcp_reconnect", "mcp_toggle", "mcp_call", "rewind_files", "mcp_read_resource", "get_usage", "file_suggestions"}
)
_MODEL_CONTROLS = ("set_model", "apply_flag_settings")
BETWEEN_TURNS = frozenset({"mcp_set_servers"})
_SESSION = ControlTable()
_RULE_LISTS: tuple[RuleList, ...] = ("deny", "ask", "allow")
_ACCENTS = ("default", "red", "blue", "green", "yellow", "purple", "orange", "pink", "cyan")
_COLORS = ("promptBorder", "inactive", "cyan", "claude", "warning", "purple")


def waits_for_hooks(agent: Session, subtype: str) -> bool:
    """Return True if hooks run during a request: a hook of the host is answered on the thread that reads requests."""
    return subtype in _MODEL_CONTROLS and (agent.has_hooks("PreModelSwitch") or agent.has_hooks("PostModelSwitch"))


def run_control(session: OpenSession, subtype: str, fields: Fields) -> Fields:
    """Carry out a request and return its answer. Raises ControlError."""
    found = _SESSION.get(subtype) or SERVER_CONTROLS.get(subtype) or FILE_CONTROLS.get(subtype)
    if found is None:
        raise ControlError(f"Unsupported control request subtype: {subtype or '(none)'}")
    try:
        return found(session, fields)
    except (UsageError, ToolError) as error:
        raise ControlError(str(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ControlError(f"The request {subtype} is not valid: {type(error).__name__} {error}") from None


@_SESSION.handles("interrupt")
def _interrupt(session: OpenSession, fields: Fields) -> Fields:
    cancelled = session.drop_queued() if fields.get("cancel_queued") else []
    session.interrupt()
    return {"still_queued": session.queued(), **({"cancelled": cancelled} if cancelled else {})}


@_SESSION.handles("cancel_async_message")
def _cancel_message(session: OpenSession, fields: Fields) -> Fields:
    return {"cancelled": bool(session.drop_queued(str(fields["message_uuid"])))}


@_SESSION.handles("set_permission_mode")
def _set_permission_mode(session: OpenSession, fields: Fields) -> Fields:
    mode = str(fields["mode"])
    mode = MODE_ALIASES.get(mode, mode)
    if mode not in MODES:
        raise ControlError(f"{mode} is not a permission mode. Available: {', '.join(MODES)}.")
    session.agent.use_mode(mode)
    return {"mode": mode}


@_SESSION.handles("set_model")
def _set_model(session: OpenSession, fields: Fields) -> Fields:
    name = fields.get("model")
    session.agent.use_model(session.first_model if name in (None, "", "default") else str(name), "sdk")
    return {}


@_SESSION.handles("set_max_thinking_tokens")
def _set_thinking(session: OpenSession, fields: Fields) -> Fields:
    tokens = fields.get("max_thinking_tokens")
    if tokens is not None and (not isinstance(tokens, int) or tokens < 0):
        raise ControlError("max_thinking_tokens must be a number of tokens, or null for the default.")
    changed = {"effort": "none", "thinking_tokens": None} if tokens == 0 else {"thinking_tokens": tokens}
    session.agent.options = session.agent.options.replace(**changed)
    return {}


def _hook_row(hook: Hook) -> Fields:
    text = one_line(hook.command)
    source = "userSettings" if hook.from_user else "projectSettings"
    return {
        "event": hook.event, "matcher": hook.matcher, "source": source, "sourceLabel": hook.source, "type": hook.kind,
        "displayText": text, "commandText": text, "contentLabel": hook.kind.capitalize(), "timeout": hook.timeout,
        "runsOnce": hook.once, "runsInBackground": hook.background, **({"condition": hook.only} if hook.only else {}),
    }  # fmt: skip


@_SESSION.handles("get_hooks_listing")
def _list_hooks(session: OpenSession, fields: Fields) -> Fields:
    """Return the hooks of the settings, and the events that hooks may have."""
    hooks = session.agent.layers.active_hooks(session.agent.settings)
    rows = [_hook_row(hook) for hook in hooks]
    catalog = [{"name": e.name, "summary": e.when, "supportsMatcher": bool(e.matched)} for e in HOOK_EVENTS.values()]
    counts = Counter(hook.event for hook in hooks)
    listed = [{**event, "hookCount": counts[str(event["name"])]} for event in catalog if counts[str(event["name"])]]
    return {"events": listed, "hooks": rows, "eventCatalog": catalog}


@_SESSION.handles("rename_session")
def _rename(session: OpenSession, fields: Fields) -> Fields:
    session.agent.rename(" ".join(str(fields["title"]).split()))
    return {}


@_SESSION.handles("set_color")
def _set_color(session: OpenSession, fields: Fields) -> Fields:
    """Take the color that the host draws the session in; nothing here draws it."""
    color = str(fields["color"])
    if color not in _ACCENTS:
        raise ControlError(f"{shorten(one_line(color), 40)} is not a color; there are {', '.join(_ACCENTS)}.")
    return {}


@_SESSION.handles("get_context_usage")
def _context_usage(session: OpenSession, fields: Fields) -> Fields:
    agent = session.agent
    found = agent.context.usage()
    size = found.size or 0
    categories = [
        {"name": name, "tokens": count, "color": _COLORS[n % len(_COLORS)], "kind": "used"}
        for n, (name, count) in enumerate(found.parts)
    ]
    if found.free:
        categories.append({"name": "free space", "tokens": found.free, "color": "inactive", "kind": "free"})
    used = agent.window.report
    return {
        "categories": categories,
        "totalTokens": found.used,
        "maxTokens": found.limit or size,
        "rawMaxTokens": size,
        "percentage": round(100 * found.used / size, 1) if size else 0,
        "model": agent.label,
        "isAutoCompactEnabled": found.limit is not None,
        **({"autoCompactThreshold": found.limit} if found.limit else {}),
        "memoryFiles": [{"path": str(f.path), "type": "memory", "tokens": 0} for f in agent.memory.files],
        "mcpTools": [
            {"name": tool.name, "serverName": tool.name.split("__")[1], "tokens": 0, "isLoaded": True}
            for tool in agent.options.tools
            if tool.name.startswith("mcp__")
        ],
        "agents": [{"agentType": name, "source": "session", "tokens": 0} for name in agent.agent_types],
        "gridRows": [],
        "apiUsage": {"input_tokens": used.filled, "output_tokens": 0} if used else None,
    }


@_SESSION.handles("get_session_cost")
def _session_cost(session: OpenSession, fields: Fields) -> Fields:
    return {"text": session.cost_words(), "total_cost_usd": session.usage.cost}


@_SESSION.handles("get_usage")
def _usage(session: OpenSession, fields: Fields) -> Fields:
    """Return the session's usage so far. There is no subscription here, and so no rate limits."""
    agent = session.agent
    seconds = time.time() - agent.started_at
    work = agent.undo
    changed = work.diffs(work.from_message(0))
    return {
        "session": {
            "total_cost_usd": session.usage.cost or 0.0,
            "total_api_duration_ms": session.api_ms,
            "total_duration_ms": round(seconds * 1000),
            "total_lines_added": sum(d.added for d in changed),
            "total_lines_removed": sum(d.removed for d in changed),
            "model_usage": {name: model_usage(used, (None, None)) for name, used in session.view.models.items()},
        },
        "subscription_type": None,
        "rate_limits_available": False,
        "rate_limits": None,
        "behaviors": None,
    }


@_SESSION.handles("list_models")
def _list_models(session: OpenSession, fields: Fields) -> Fields:
    return {"models": session.models()}


@_SESSION.handles("get_binary_version")
def _version(session: OpenSession, fields: Fields) -> Fields:
    return {"version": CLAUDE_CODE_VERSION}


@_SESSION.handles("stop_task")
def _stop_task(session: OpenSession, fields: Fields) -> Fields:
    conversation, task = session.agent, str(fields["task_id"])
    if conversation.stop_subagent(task):
        return {}
    job = session.agent.tool_context.state(Jobs).find(task)
    if not job.running:
        raise ControlError(f"Task {job.id} is not running.")
    job.stop()
    job.end()
    return {}


@_SESSION.handles("background_tasks")
def _background(session: OpenSession, fields: Fields) -> Fields:
    """Answer that nothing was moved to the background, which is not supported."""
    return {"backgrounded": False}


@_SESSION.handles("get_task_output")
def _task_output(session: OpenSession, fields: Fields) -> Fields:
    text = session.agent.tool_context.state(Jobs).find(str(fields["task_id"])).output()
    return {"output": text, "total_bytes": len(text.encode()), "truncated": False}


@_SESSION.handles("get_settings")
def _get_settings(session: OpenSession, fields: Fields) -> Fields:
    settings = cast(dict[str, Any], to_json(session.agent.settings))
    return {"effective": settings, "sources": sorted(set(session.agent.layers.origins.values()))}


@_SESSION.handles("apply_flag_settings")
def _apply_settings(session: OpenSession, fields: Fields) -> Fields:
    """Apply model, permission mode and rules, and effort to the running session. Other settings cannot be changed."""
    settings: Mapping[str, Any] = fields["settings"]
    ignored = []
    for name, value in settings.items():
        if name == "model":
            _set_model(session, {"model": value})
        elif name == "permissions" and isinstance(value, dict):
            ignored += [f"{name}.{key}" for key in value if key not in (*_RULE_LISTS, "defaultMode")]
            _add_rules(session, value)
            if value.get("defaultMode"):
                _set_permission_mode(session, {"mode": value["defaultMode"]})
        elif name in ("effort", "effortLevel") and value is not None:
            if value not in get_args(Effort):
                raise ControlError(f"{value} is not a level of effort. Available: {', '.join(get_args(Effort))}.")
            session.agent.options = session.agent.options.replace(effort=value)
        else:
            ignored.append(name)
    return {"ignored": ignored} if ignored else {}


def _add_rules(session: OpenSession, permissions: Mapping[str, Any]) -> None:
    """Add the rules of a host's settings. Raises ControlError for any that cannot be read, as none may be lost."""
    for kind in _RULE_LISTS:
        given = permissions.get(kind)
        listed = rule_list(given if given is not None else ())
        if listed is None or not all(isinstance(text, str) for text in listed):
            raise ControlError(f"permissions.{kind}: expected a list of rules.")
        for text in listed:
            try:
                session.agent.policy.add(kind, text)
            except RuleError as error:
                raise ControlError(f"permissions.{kind}: {error}.") from None


@_SESSION.handles("update_settings")
def _update_settings(session: OpenSession, fields: Fields) -> Fields:
    """Save a setting: the output style in the project's own local file, or the effort in the user's."""
    source, settings = str(fields["source"]), dict(fields["settings"])
    known = {"localSettings": ("outputStyle", "output_style"), "userSettings": ("effortLevel", "effort")}
    if source not in known:
        raise ControlError(f"{source} cannot be written. Available: {', '.join(known)}.")
    name, ours = known[source]
    if [*settings] != [name] or not isinstance(settings[name], str):
        raise ControlError(f"In {source} only {name} can be set, as text.")
    agent, run_env = session.agent, session.run_env
    if not session.config.reads(source.removesuffix("Settings")):
        raise ControlError(
            f"{source} are not read in this session ({session.config.name_of('sources')}), so they are not written."
        )
    try:
        if source == "userSettings":
            if run_env.home is None:
                raise ControlError("There is no home folder to save the setting in.")
            SettingsFile(run_env.home / ".agentrc").set(ours, settings[name])
            return {}
        why = SettingsFile.set_in_project(agent.layers.trust, run_env.env, ours, settings[name])
    except (SettingsError, OSError) as error:
        why = str(error)
    if why:
        raise ControlError(f"{name} was not saved: {why}")
    return {}


@_SESSION.handles("list_permission_rules")
def _list_rules(session: OpenSession, fields: Fields) -> Fields:
    policy = session.agent.policy
    rules = [{"behavior": r.list, "rule": r.text, "source": r.source} for r in policy.rules]
    return {"state": {"mode": policy.mode, "rules": rules}}


@_SESSION.handles("reload_skills")
def _reload_skills(session: OpenSession, fields: Fields) -> Fields:
    session.reload()
    names = set(session.agent.added.skills)
    return {"skills": [c for c in session.commands() if c["name"] in names]}


@_SESSION.handles("reload_plugins")
def _reload_plugins(session: OpenSession, fields: Fields) -> Fields:
    problems = session.reload()
    return {
        "commands": session.commands(),
        "agents": session.agents(),
        "plugins": session.plugins(),
        "mcpServers": server_states(session.agent),
        "error_count": len(problems),
    }


@_SESSION.handles("reload_output_styles")
def _reload_styles(session: OpenSession, fields: Fields) -> Fields:
    return {"available_output_styles": session.output_styles()}


@_SESSION.handles("set_has_subscribers")
def _has_subscribers(session: OpenSession, fields: Fields) -> Fields:
    return {}


@_SESSION.handles("end_session")
def _end_session(session: OpenSession, fields: Fields) -> Fields:
    session.end()
    return {}

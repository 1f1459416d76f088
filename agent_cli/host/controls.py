"""The control requests of a host, each a function in a table; an unknown one gets an error.

A function gets the open session and the fields of the request and returns the fields of the answer. It runs on the
reading thread, beside the running turn; those in `SLOW` run on a thread of their own, and those in `BETWEEN_TURNS`
once the running turn has ended.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from agent_cli.core.events import SessionNamed
from agent_cli.core.modes import MODES
from agent_cli.core.place import RunEnvironment, UsageError
from agent_cli.core.results import Usage
from agent_cli.engine.compaction.controls import filling
from agent_cli.host.callbacks import HostCallbacks, change_rules
from agent_cli.host.channel import Fields
from agent_cli.mcp.config import DeclaredServer, read_json
from agent_cli.runtime.builder import Agent, switch_model
from agent_cli.runtime.checkpoints import undo_manager
from agent_cli.runtime.environment import check_mode
from agent_tools.base import ToolError
from agent_tools.display import Diff
from agent_tools.fs.safe_files import open_regular
from agent_tools.record import to_json
from agent_tools.shell.jobs import Jobs


class OpenSession(Protocol):
    """What a control request can use of a session.

    usage: of its turns. messages: the length of the history before each message, by the message's ID. first_model: the
    model to return to for the host's "default".
    """

    place: RunEnvironment
    callbacks: HostCallbacks
    usage: Usage
    messages: dict[str, int]
    first_model: str
    version: str

    @property
    def agent(self) -> Agent: ...

    def interrupt(self) -> None: ...

    def end(self) -> None: ...

    def clear(self) -> None: ...

    def queued(self) -> list[str]: ...

    def drop_queued(self, name: str = "") -> list[str]: ...

    def reload(self) -> list[str]: ...

    def commands(self) -> list[Fields]: ...

    def agents(self) -> list[Fields]: ...

    def plugins(self) -> list[Fields]: ...

    def models(self) -> list[Fields]: ...

    def output_styles(self) -> list[str]: ...

    def cost_words(self) -> str: ...


Control = Callable[[OpenSession, Fields], Fields]
_CONTROLS: dict[str, Control] = {}
SLOW = frozenset({"mcp_reconnect", "mcp_toggle", "rewind_files"})
BETWEEN_TURNS = frozenset({"mcp_set_servers"})
SERVER_SECONDS = 30.0
_COLORS = ("promptBorder", "inactive", "cyan", "claude", "warning", "purple")
# Our words for the state of a server -> those that hosts expect.
SERVER_WORDS = {"ready": "connected", "starting": "pending", "waiting": "pending", "login": "needs-auth",
                "unapproved": "pending"}  # fmt: skip


class ControlError(Exception):
    """A request cannot be carried out; the message is a sentence for the host."""


def control(name: str) -> Callable[[Control], Control]:
    """Register a function under the subtype that it answers."""

    def register(function: Control) -> Control:
        _CONTROLS[name] = function
        return function

    return register


def run_control(session: OpenSession, subtype: str, fields: Fields) -> Fields:
    """Carry out a request and return its answer. Raises ControlError."""
    found = _CONTROLS.get(subtype)
    if found is None:
        raise ControlError(f"Unsupported control request subtype: {subtype or '(none)'}")
    try:
        return found(session, fields)
    except (UsageError, ToolError) as error:
        raise ControlError(str(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ControlError(f"The request {subtype} is not valid: {type(error).__name__} {error}") from None


@control("interrupt")
def _interrupt(session: OpenSession, fields: Fields) -> Fields:
    cancelled = session.drop_queued() if fields.get("cancel_queued") else []
    session.interrupt()
    return {"still_queued": session.queued(), **({"cancelled": cancelled} if cancelled else {})}


@control("cancel_async_message")
def _cancel_message(session: OpenSession, fields: Fields) -> Fields:
    return {"cancelled": bool(session.drop_queued(str(fields["message_uuid"])))}


@control("set_permission_mode")
def _set_permission_mode(session: OpenSession, fields: Fields) -> Fields:
    mode = str(fields["mode"])
    mode = {"auto": "default", "manual": "default"}.get(mode, mode)
    if mode not in MODES:
        raise ControlError(f"{mode} is not a permission mode; there are {', '.join(MODES)}.")
    check_mode(mode, session.place.env, session.agent.layers.managed)
    session.agent.conversation.deps.policy.mode = mode
    return {"mode": mode}


@control("set_model")
def _set_model(session: OpenSession, fields: Fields) -> Fields:
    name = fields.get("model")
    switch_model(session.agent, session.first_model if name in (None, "", "default") else str(name))
    return {}


@control("set_max_thinking_tokens")
def _set_thinking(session: OpenSession, fields: Fields) -> Fields:
    tokens = fields.get("max_thinking_tokens")
    conversation = session.agent.conversation
    if tokens is not None and (not isinstance(tokens, int) or tokens < 0):
        raise ControlError("max_thinking_tokens is a number of tokens, or null for the default.")
    changed = {"effort": "none", "thinking_tokens": None} if tokens == 0 else {"thinking_tokens": tokens}
    conversation.options = conversation.options.replace(**changed)
    return {}


@control("rename_session")
def _rename(session: OpenSession, fields: Fields) -> Fields:
    session.agent.rename(SessionNamed(" ".join(str(fields["title"]).split())))
    return {}


@control("get_context_usage")
def _context_usage(session: OpenSession, fields: Fields) -> Fields:
    agent = session.agent
    found = filling(agent.conversation)
    size = found.size or 0
    categories = [
        {"name": name, "tokens": count, "color": _COLORS[n % len(_COLORS)], "kind": "used"}
        for n, (name, count) in enumerate(found.parts)
    ]
    if found.free:
        categories.append({"name": "free space", "tokens": found.free, "color": "inactive", "kind": "free"})
    used = agent.conversation.deps.state.window.report
    return {
        "categories": categories,
        "totalTokens": found.used,
        "maxTokens": found.limit or size,
        "rawMaxTokens": size,
        "percentage": round(100 * found.used / size, 1) if size else 0,
        "model": agent.conversation.options.label,
        "isAutoCompactEnabled": found.limit is not None,
        **({"autoCompactThreshold": found.limit} if found.limit else {}),
        "memoryFiles": [{"path": str(f.path), "type": "memory", "tokens": 0} for f in agent.memory.files],
        "mcpTools": [
            {"name": tool.name, "serverName": tool.name.split("__")[1], "tokens": 0, "isLoaded": True}
            for tool in agent.conversation.options.tools
            if tool.name.startswith("mcp__")
        ],
        "agents": [{"agentType": name, "source": "session", "tokens": 0} for name in agent.conversation.deps.agents],
        "gridRows": [],
        "apiUsage": {"input_tokens": used.filled, "output_tokens": 0} if used else None,
    }


@control("get_session_cost")
def _session_cost(session: OpenSession, fields: Fields) -> Fields:
    return {"text": session.cost_words(), "total_cost_usd": session.usage.cost}


@control("list_models")
def _list_models(session: OpenSession, fields: Fields) -> Fields:
    return {"models": session.models()}


@control("get_binary_version")
def _version(session: OpenSession, fields: Fields) -> Fields:
    return {"version": session.version}


@control("rewind_files")
def _rewind_files(session: OpenSession, fields: Fields) -> Fields:
    """Restore the files as they were before a message of the user, as far as no file changed since."""
    agent = session.agent
    at = session.messages.get(str(fields["user_message_id"]))
    if at is None:
        return {"canRewind": False, "error": "No file checkpoint found for this message."}
    work = undo_manager(agent.place, agent.settings, agent.header.session_id)
    turns = work.from_message(at)
    plan = work.plan(turns)
    items = plan.of("ready", "ask")
    diffs: list[Diff] = work.diffs(turns)
    answer: Fields = {
        "canRewind": True,
        "filesChanged": [i.path for i in items],
        "insertions": sum(d.removed for d in diffs),
        "deletions": sum(d.added for d in diffs),
    }
    if fields.get("dry_run"):
        return answer
    failed = work.undo(turns, items)
    if failed:
        answer["error"] = "; ".join(f"{path}: {why}" for path, why in failed.items())
    return answer


def server_states(agent: Agent) -> list[Fields]:
    """Return each MCP server with its state and tools, as hosts expect them."""
    if agent.mcp is None:
        return []
    found = []
    for name, server in agent.mcp.servers.all.items():
        state: Fields = {
            "name": name,
            "status": SERVER_WORDS.get(server.status, server.status),
            "scope": {"given": "dynamic", "own": "user"}.get(server.found.scope, server.found.scope),
        }
        if server.reason:
            state["error"] = server.reason
        if server.status == "ready":
            about, _, version = server.about.rpartition(" ")
            state["serverInfo"] = {"name": about or server.about or name, "version": version if about else ""}
            state["tools"] = [
                {"name": o.name, "description": o.description, "annotations": {"readOnly": o.read_only}}
                for o in server.tools.values()
            ]
        found.append(state)
    return found


@control("mcp_status")
def _mcp_status(session: OpenSession, fields: Fields) -> Fields:
    if session.agent.mcp is not None:
        session.agent.mcp.servers.begin()
    return {"mcpServers": server_states(session.agent)}


def _server(session: OpenSession, fields: Fields) -> Any:
    name = str(fields["serverName"])
    servers = session.agent.mcp.servers.all if session.agent.mcp is not None else {}
    if name not in servers:
        raise ControlError(f"Server not found: {name}")
    return servers[name]


@control("mcp_reconnect")
def _mcp_reconnect(session: OpenSession, fields: Fields) -> Fields:
    server = _server(session, fields)
    server.restart(SERVER_SECONDS)
    server.wait(SERVER_SECONDS)
    if server.status not in ("ready", "login"):
        raise ControlError(f"{server.name} did not connect: {server.reason or server.status}")
    return {}


@control("mcp_toggle")
def _mcp_toggle(session: OpenSession, fields: Fields) -> Fields:
    server = _server(session, fields)
    if fields.get("enabled"):
        server.restart(SERVER_SECONDS)
        server.wait(SERVER_SECONDS)
    else:
        server.disable()
    return {}


@control("mcp_message")
def _mcp_message(session: OpenSession, fields: Fields) -> Fields:
    """Take a message that a server in the host sends by itself."""
    session.callbacks.servers.receive(str(fields["server_name"]), dict(fields["message"]))
    return {}


@control("mcp_set_servers")
def _set_servers(session: OpenSession, fields: Fields) -> Fields:
    """Replace the servers that the host added to the session."""
    if session.agent.mcp is None:
        raise ControlError("This session has no MCP servers.")
    found, errors = list[DeclaredServer](), dict[str, str]()
    for name, table in dict(fields["servers"]).items():
        problems: list[str] = []
        for server in read_json(json.dumps({name: table}), "the host", "given", problems):
            if why := session.agent.layers.managed.refuses_server(server.name, server.line):
                problems.append(f"{server.name} is not used: {why}")
            else:
                found.append(server)
        errors |= dict.fromkeys([name] if problems else (), "; ".join(problems))
    added, removed = session.agent.mcp.set_added(found)
    return {"added": added, "removed": removed, "errors": errors}


@control("stop_task")
def _stop_task(session: OpenSession, fields: Fields) -> Fields:
    job = session.agent.conversation.deps.context.state(Jobs).find(str(fields["task_id"]))
    if not job.running:
        raise ControlError(f"Task {job.id} is not running.")
    job.stop()
    job.end()
    return {}


@control("get_task_output")
def _task_output(session: OpenSession, fields: Fields) -> Fields:
    text = session.agent.conversation.deps.context.state(Jobs).find(str(fields["task_id"])).output()
    return {"output": text, "total_bytes": len(text.encode()), "truncated": False}


@control("get_settings")
def _get_settings(session: OpenSession, fields: Fields) -> Fields:
    settings = cast(dict[str, Any], to_json(session.agent.settings))
    return {"effective": settings, "sources": sorted(set(session.agent.layers.origins.values()))}


@control("apply_flag_settings")
def _apply_settings(session: OpenSession, fields: Fields) -> Fields:
    """Apply settings to the running session: model, permission mode and rules, effort. Others hold from the start."""
    settings: Mapping[str, Any] = fields["settings"]
    ignored = []
    for name, value in settings.items():
        if name == "model":
            _set_model(session, {"model": value})
        elif name == "permissions" and isinstance(value, dict):
            for kind in ("allow", "deny", "ask"):
                rules = [{"toolName": text} for text in value.get(kind) or ()]
                change_rules(session.agent.conversation.deps.policy, {"behavior": kind, "rules": rules})
            if value.get("defaultMode"):
                _set_permission_mode(session, {"mode": value["defaultMode"]})
        elif name in ("effort", "effortLevel") and value is not None:
            conversation = session.agent.conversation
            conversation.options = conversation.options.replace(effort=value)
        else:
            ignored.append(name)
    return {"ignored": ignored} if ignored else {}


@control("list_permission_rules")
def _list_rules(session: OpenSession, fields: Fields) -> Fields:
    policy = session.agent.conversation.deps.policy
    rules = [{"behavior": r.list, "rule": r.text, "source": r.source} for r in policy.rules]
    return {"state": {"mode": policy.mode, "rules": rules}}


@control("read_file")
def _read_file(session: OpenSession, fields: Fields) -> Fields:
    """Return a file of the workspace, for a host that shows it."""
    workspace = session.agent.conversation.deps.context.workspace
    path = workspace.resolve(str(fields["path"]))
    if not any(path.is_relative_to(root) for root in workspace.roots):
        raise ControlError(f"{fields['path']} is outside the workspace.")
    most = int(fields.get("max_bytes") or 1 << 20)
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ControlError(f"{fields['path']} cannot be read: {error.strerror}") from None
    return {"contents": data[:most].decode("utf-8", "replace"), "absPath": str(path), "truncated": len(data) > most}


@control("reload_skills")
def _reload_skills(session: OpenSession, fields: Fields) -> Fields:
    session.reload()
    names = set(session.agent.added.skills)
    return {"skills": [c for c in session.commands() if c["name"] in names]}


@control("reload_plugins")
def _reload_plugins(session: OpenSession, fields: Fields) -> Fields:
    problems = session.reload()
    return {
        "commands": session.commands(),
        "agents": session.agents(),
        "plugins": session.plugins(),
        "mcpServers": server_states(session.agent),
        "error_count": len(problems),
    }


@control("reload_output_styles")
def _reload_styles(session: OpenSession, fields: Fields) -> Fields:
    return {"available_output_styles": session.output_styles()}


@control("set_has_subscribers")
def _has_subscribers(session: OpenSession, fields: Fields) -> Fields:
    return {}


@control("end_session")
def _end_session(session: OpenSession, fields: Fields) -> Fields:
    session.end()
    return {}

"""Handlers that manage sessions and projects: name, archive, model and mode, copies, deletion, trust."""

from __future__ import annotations

import asyncio
import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

from starlette.requests import Request

from agent_cli import Config, StoredSession, UsageError, UserTrust, read_settings
from agent_cli.extras.server.actions import (
    check_mode_allowed,
    check_session_model,
    find_task,
    storage_error,
    store_entry,
)
from agent_cli.extras.server.guard import RequestRefusedError
from agent_cli.extras.server.hub import Hub
from agent_cli.extras.server.queries import current_entry, session_log, session_not_found, token_of
from agent_cli.extras.server.schemas import EmptyBody, ImportBody, SessionChange, TrustBody
from agent_cli.extras.server.tasks import TaskSpec, new_entry
from agent_cli.extras.server.views import ServedProject
from agent_cli.takeover import stores
from agent_tools.text import new_uuid, one_line, utc_stamp


async def change_session(hub: Hub, request: Request, body: SessionChange) -> dict[str, Any]:
    """Change what is said of a session, and how it goes on; nothing of it if one change is refused."""
    session_id, user = request.path_params["id"], token_of(request).name
    path = session_log(hub, session_id)
    if body.mode:
        check_mode_allowed(hub, body.mode)
    if body.model:
        folder = Path((await current_entry(hub, session_id))["folder"])
        try:
            await asyncio.to_thread(check_session_model, hub, folder, Config(model=body.model))
        except UsageError as error:
            raise RequestRefusedError(409, "settings", str(error)) from None
    if body.name is not None or body.archived is not None:
        path = idle_log(hub, session_id)
    options = {name: value for name, value in (("model", body.model), ("mode", body.mode)) if value}
    task = find_task(hub, session_id, user) if options else None
    if body.name is not None and (
        why := await asyncio.to_thread(StoredSession(path).rename, one_line(body.name.strip()))
    ):
        raise RequestRefusedError(409, "busy", why)
    try:
        if body.archived is not None:
            await asyncio.to_thread(StoredSession(path).archive, archived=body.archived)
    except OSError as error:
        raise storage_error(error) from None
    if task is not None:
        store_entry(hub, task, new_entry("options", user, data=options))
    hub.notify_changed(session_id)
    return await current_entry(hub, session_id)


async def fork_session(hub: Hub, request: Request, body: EmptyBody) -> dict[str, Any]:
    """Copy a session; the copy has the same conversation, folder, model and mode."""
    session_id, user = request.path_params["id"], token_of(request).name
    path = session_log(hub, session_id)
    restored = await asyncio.to_thread(hub.views.restored, path)
    entry = await current_entry(hub, session_id)
    if restored is None or not restored.history:
        raise RequestRefusedError(409, "empty", "Nothing has happened in this session yet.")
    task = hub.views.task(session_id)
    header, project = restored.header, hub.views.projects[entry["project"]]
    config = (task.config if task is not None else Config()).replace(
        on_ask="suspend", resume=session_id, fork=True, session_id=None, name=None
    )
    worktree = task is not None and task.spec.worktree
    made = TaskSpec(
        new_uuid(), header.cwd, header.root, str(project.folder), entry["title"], utc_stamp(), user, config, worktree
    )
    try:
        copy = hub.tasks.create(made, new_entry("open", user))
    except OSError as error:
        raise storage_error(error) from None
    hub.pool.wake(copy)
    return await current_entry(hub, made.session_id)


async def delete_session(hub: Hub, request: Request) -> dict[str, Any]:
    """Delete a session that is not at work, with all its files; the files of the project stay."""
    session_id = request.path_params["id"]
    path = idle_log(hub, session_id)
    if why := await asyncio.to_thread(StoredSession(path).remove):
        raise RequestRefusedError(409, "busy", why)
    try:
        hub.tasks.remove(session_id)
    except OSError as error:
        raise storage_error(error) from None
    hub.notify_changed(session_id)
    return {"id": session_id}


def idle_log(hub: Hub, session_id: str) -> Path:
    """Return the log of a session; refuse one that is at work here or open elsewhere."""
    path = session_log(hub, session_id)
    entry = hub.views.entry(session_id)
    if entry is None:
        raise session_not_found(session_id)
    if session_id in hub.pool.running or session_id in hub.pool.queued:
        raise RequestRefusedError(409, "running", "The session is at work: interrupt it first.")
    if entry["elsewhere"]:
        raise RequestRefusedError(409, "busy", f"{entry['elsewhere']} Close it there first.")
    return path


def _project(hub: Hub, request: Request) -> ServedProject:
    project = hub.views.projects.get(request.path_params["project"])
    if project is None:
        raise RequestRefusedError(404, "project", "This server has no such project.")
    return project


async def list_foreign(hub: Hub, request: Request) -> dict[str, Any]:
    """Return the sessions of other agents in the folder of a project."""
    run_env = hub.run_env(_project(hub, request).folder)
    return {"sessions": await asyncio.to_thread(stores.foreign_session_rows, run_env, every=False)}


async def import_session(hub: Hub, request: Request, body: ImportBody) -> dict[str, Any]:
    """Take over a session of another agent; one that was taken over before is answered with as it is."""
    run_env = hub.run_env(_project(hub, request).folder)

    def take_over() -> str:
        programs = stores.read_programs(body.program)
        return stores.take_over(
            run_env, stores.choose_session(run_env, programs, body.source_id, every=False)
        ).session_id

    try:
        session_id = await asyncio.to_thread(take_over)
    except UsageError as error:
        raise RequestRefusedError(409, "import", str(error)) from None
    hub.notify_changed(session_id)
    return await current_entry(hub, session_id)


async def get_trust(hub: Hub, request: Request) -> dict[str, Any]:
    """Return whether a project is trusted, and what it brings."""
    return await asyncio.to_thread(_trust, hub, _project(hub, request))


async def set_trust(hub: Hub, request: Request, body: TrustBody) -> dict[str, Any]:
    """Trust a project as it was shown, or no longer."""
    project = _project(hub, request)

    def change() -> dict[str, Any]:
        run_env = hub.run_env(project.folder)
        if not body.trusted:
            try:
                UserTrust.revoke(run_env)
            except OSError as error:
                why = error.strerror or str(error)
                raise RequestRefusedError(507, "disk", f"Trust could not be revoked: {why}.") from None
            return _trust(hub, project)
        trust = UserTrust(run_env)
        if _binding(trust.files) != body.binding:
            why = "The project has changed since you saw what it brings: look at it again."
            raise RequestRefusedError(409, "changed", why)
        if why := trust.remember():
            raise RequestRefusedError(409, "trust", f"{project.name} is not trusted: {why}.")
        return _trust(hub, project)

    return await asyncio.to_thread(change)


def _trust(hub: Hub, project: ServedProject) -> dict[str, Any]:
    run_env = hub.run_env(project.folder)
    try:
        # Before what it brings is read: what changes meanwhile is not trusted.
        files = UserTrust(run_env).files
        layers = read_settings(Config(), run_env, [])
    except UsageError as error:
        raise RequestRefusedError(409, "settings", str(error)) from None
    return {
        "trusted": layers.trust.trusted,
        "state": layers.trust.label,
        "brings": layers.trust_phrases(),
        "binding": _binding(files),
    }


def _binding(files: dict[str, str] | None) -> str:
    """Return a hash of a project's files as they were shown."""
    return blake2b(json.dumps(files, sort_keys=True).encode(), digest_size=12).hexdigest()

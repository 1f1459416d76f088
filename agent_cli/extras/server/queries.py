"""Handlers that only read: projects, models, sessions, their events, questions, changes and exports."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agent_cli import Config, RunEnvironment, SessionView, StoredSession, UsageError, __version__, read_settings
from agent_cli.config.prompts import git_branch
from agent_cli.extras.server.drawing import with_rows
from agent_cli.extras.server.guard import AccessToken, RequestRefusedError
from agent_cli.extras.server.hub import Hub
from agent_cli.extras.server.live_view import FIRST_ENTRIES, MAX_ENTRIES, encode_event
from agent_cli.extras.server.streams import (
    PING_SECONDS,
    RecordEvents,
    SessionFeed,
    ViewEvents,
    session_events,
    state_changes,
)
from agent_cli.extras.server.views import STATES, ServedProject, public_event, read_lines
from agent_cli.extras.server.words import COLUMNS, MODES, model_words
from agent_cli.kernel.runtime.checkpoints import undo_manager
from agent_cli.kernel.runtime.models import ReachableModels
from agent_cli.kernel.runtime.tools import tool_definitions
from agent_cli.kernel.session import export
from agent_cli.models.catalog import ModelInfo
from agent_cli.models.offers import in_shares
from agent_cli.undo.undo import UndoManager
from agent_tools.text import shorten

_MAX_PAGE_SIZE = 500
_TYPES = {"markdown": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8", "json": "application/json"}


def query_number(request: Request, name: str, usual: int, limit: int = 1 << 53) -> int:
    """Return a number of the query."""
    text = request.query_params.get(name, "")
    if not text:
        return usual
    if not text.isascii() or not text.isdigit() or len(text) > 16:
        raise RequestRefusedError(400, "query", f"{name}: expected a whole number.")
    return min(int(text), limit)


def token_of(request: Request) -> AccessToken:
    """Return the token of a request."""
    token: AccessToken = request.scope["state"]["token"]
    return token


def session_log(hub: Hub, session_id: str) -> Path:
    """Return the log of a session that the server shows; refuse any other."""
    path = hub.views.session_log(session_id)
    if path is None:
        raise session_not_found(session_id)
    return path


def session_not_found(session_id: str) -> RequestRefusedError:
    """Return the refusal for a session that is not here."""
    return RequestRefusedError(404, "session", f"There is no session {shorten(session_id, 40)} in these projects.")


async def current_entry(hub: Hub, session_id: str) -> dict[str, Any]:
    """Return a session as a list shows it."""
    found = await asyncio.to_thread(hub.views.entry, session_id)
    if found is None:
        raise session_not_found(session_id)
    return found


async def get_identity(hub: Hub, request: Request) -> dict[str, Any]:
    token = token_of(request)
    return {"name": token.name, "role": token.role, "version": __version__}


async def list_projects(hub: Hub, request: Request) -> dict[str, Any]:
    def described(project: ServedProject) -> dict[str, Any]:
        model, mode, trust = "", "default", ""
        with suppress(UsageError):
            layers = read_settings(Config(), hub.run_env(project.folder), [])
            settings = layers.settings()
            model, mode, trust = settings.model or "", settings.permissions.mode, layers.trust.state
        return {
            "id": project.id, "name": project.name, "path": str(project.folder),
            "branch": git_branch(project.folder), "git": (project.folder / ".git").exists(),
            "trusted": trust == "trusted", "needs_trust": trust in ("untrusted", "changed"),
            "model": model, "mode": mode,
        }  # fmt: skip

    found = await asyncio.to_thread(lambda: [described(project) for project in hub.views.projects.values()])
    modes = [pair for pair in MODES.items() if hub.options.bypass or pair[0] != "bypassPermissions"]
    return {"projects": found, "modes": modes}


async def list_models(hub: Hub, request: Request) -> dict[str, Any]:
    def listed() -> dict[str, Any]:
        project = hub.views.find_project(request.query_params.get("project", ""))
        run_env = hub.run_env(project.folder if project is not None else Path.home())
        settings = read_settings(Config(), run_env, []).settings()
        reachable = ReachableModels(run_env, settings)
        current, usable = reachable.current, reachable.offers.usable()
        everything = request.query_params.get("all") == "true"
        shown = [each for models in usable for each in models] if everything else in_shares(usable)
        return {
            "models": [_model_item(each) for each in shown],
            "default": current,
            "more": sum(map(len, usable)) - len(shown),
        }

    try:
        return await asyncio.to_thread(listed)
    except UsageError as error:
        raise RequestRefusedError(409, "settings", str(error)) from None


def _model_item(model: ModelInfo) -> dict[str, Any]:
    price_in, price_out = model.price_per_million
    return {"name": model.name, "window": model.context_window, "input_price": price_in, "output_price": price_out,
        "words": model_words(model),
    }  # fmt: skip


async def list_sessions(hub: Hub, request: Request) -> dict[str, Any]:
    query = request.query_params
    state, project, words = query.get("state", ""), query.get("project", ""), query.get("query", "").lower().split()
    limit, start = max(1, query_number(request, "limit", 50, _MAX_PAGE_SIZE)), _decode_cursor(query.get("cursor", ""))
    if state and state not in STATES:
        raise RequestRefusedError(400, "query", f"state: expected one of {', '.join(STATES)}.")
    archived, deep = query.get("archived") == "true", query.get("messages") == "true"

    def search() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        every = hub.views.all_sessions()
        some = [
            each for each in every
            if each["archived"] == archived
            and (not state or each["state"] == state) and (not project or each["project"] == project)
        ]  # fmt: skip
        return every, hub.views.search(some, words, messages=deep) if words else some

    every, found = await asyncio.to_thread(search)
    more = start + limit < len(found)
    return {
        "sessions": found[start : start + limit],
        "next": urlsafe_b64encode(str(start + limit).encode()).decode() if more else None,
        "counts": hub.views.counts(every),
        "columns": [{"title": title, "states": list(states)} for title, states in COLUMNS.items()],
    }


def _decode_cursor(cursor: str) -> int:
    if not cursor:
        return 0
    with suppress(ValueError):
        return max(0, int(urlsafe_b64decode(cursor.encode("ascii")).decode("ascii")[:12]))
    raise RequestRefusedError(400, "query", "cursor: expected one that an earlier answer had as next.")


async def get_session(hub: Hub, request: Request) -> dict[str, Any]:
    session_id = request.path_params["id"]
    found = await hub.detail(session_id)
    if found is None:
        raise session_not_found(session_id)
    return found


async def list_pending(hub: Hub, request: Request) -> dict[str, Any]:
    return {"items": (await get_session(hub, request))["pending_items"]}


async def get_history(hub: Hub, request: Request) -> dict[str, Any]:
    path = session_log(hub, request.path_params["id"])
    limit = max(1, query_number(request, "limit", 200, 2_000))
    before, after = query_number(request, "before", 0), query_number(request, "after", 0)

    def read() -> dict[str, Any]:
        lines = [line for line in read_lines(path) if line.type != "Partial"]
        later = [line for line in lines if line.seq > after and (not before or line.seq < before)]
        chosen = later[:limit] if after else later[-limit:]
        return {
            "events": [public_event(line) for line in chosen],
            "first": lines[0].seq if lines else 0,
            "last": lines[-1].seq if lines else 0,
            "total": len(lines),
        }

    return await asyncio.to_thread(read)


async def get_view(hub: Hub, request: Request) -> dict[str, Any]:
    live = hub.views.live(session_log(hub, request.path_params["id"]))
    before = query_number(request, "before", 1 << 53)
    limit = max(1, query_number(request, "limit", FIRST_ENTRIES, MAX_ENTRIES))
    first, changes = await asyncio.to_thread(live.page, before, limit)
    return {"first": first, "changes": changes}


async def stream_session(hub: Hub, request: Request) -> Response:
    """Stream the records of one session."""
    last = request.headers.get("last-event-id", "")
    after = int(last) if last.isascii() and last.isdigit() and len(last) < 17 else query_number(request, "after", 0)
    feed = _feed(hub, request)
    return _stream_feed(
        hub, request, feed, RecordEvents(feed, after).read, lambda now, _: [encode_event("session", now)]
    )


async def stream_view(hub: Hub, request: Request) -> Response:
    """Stream the changes of one session's view."""
    feed = _feed(hub, request)
    events = ViewEvents(hub.views.live(feed.log), request.headers.get("last-event-id", ""))
    return _stream_feed(hub, request, feed, events.read, state_changes)


def _feed(hub: Hub, request: Request) -> SessionFeed:
    session_id = request.path_params["id"]
    log, task = session_log(hub, session_id), hub.views.task(session_id)
    live = task.live if task is not None else None
    return SessionFeed(log, live, lambda: hub.detail(session_id), lambda: hub.version(session_id))


def _stream_feed(
    hub: Hub, request: Request, feed: SessionFeed, read: Callable[[], list[bytes]], tell: Callable[..., list[bytes]]
) -> Response:
    session_id = request.path_params["id"]

    async def stream() -> AsyncGenerator[bytes]:
        hub.follow(session_id, feed.changed)
        try:
            async for piece in session_events(hub.watch, feed, read, tell):
                yield piece
        finally:
            hub.unfollow(session_id, feed.changed)

    return _stream_response(request, stream())


async def stream_sessions(hub: Hub, request: Request) -> Response:
    """Stream the sessions that change."""

    async def stream() -> AsyncGenerator[bytes]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        hub.listeners.add(queue)
        try:
            yield b": hello\n\n"
            while True:
                changed: set[str] = set()
                with suppress(TimeoutError):
                    async with asyncio.timeout(PING_SECONDS):
                        changed.add(await queue.get())
                while not queue.empty():
                    changed.add(queue.get_nowait())
                for session_id in sorted(changed):
                    found = await asyncio.to_thread(hub.views.entry, session_id)
                    yield encode_event("session", found) if found else encode_event("deleted", {"id": session_id})
                if not changed:
                    yield b": ping\n\n"
        finally:
            hub.listeners.discard(queue)

    return _stream_response(request, stream())


def _stream_response(request: Request, pieces: AsyncGenerator[bytes]) -> Response:
    valid: Callable[[], bool] = request.scope["state"]["valid"]

    async def while_valid() -> AsyncIterator[bytes]:
        async with aclosing(pieces):
            async for piece in pieces:
                if not valid():
                    return
                yield piece

    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(while_valid(), media_type="text/event-stream", headers=headers)


def session_environment(hub: Hub, session_id: str) -> RunEnvironment:
    """Return where a session works."""
    session_log(hub, session_id)
    task = hub.views.task(session_id)
    entry = hub.views.entry(session_id)
    folder = task.spec.cwd if task is not None else entry["folder"] if entry is not None else ""
    try:
        return hub.run_env(folder)
    except UsageError as error:
        raise RequestRefusedError(409, "folder", str(error)) from None


def checkpoints_of(hub: Hub, session_id: str) -> UndoManager:
    """Return the checkpoints of a session."""
    run_env = session_environment(hub, session_id)
    try:
        return undo_manager(run_env, read_settings(Config(), run_env, []).settings(), session_id)
    except UsageError as error:
        raise RequestRefusedError(409, "undo", str(error)) from None


async def list_undo_points(hub: Hub, request: Request) -> dict[str, Any]:
    """Return the turns that can be undone, the latest first, with what undoing back to them would do."""
    session_id = request.path_params["id"]

    def read() -> list[dict[str, Any]]:
        work = checkpoints_of(hub, session_id)
        root = session_environment(hub, session_id).root
        undoable = [step.turn for step in work.steps() if not step.undone]
        points = []
        for at, turn in enumerate(undoable):
            plan = work.plan([later.turn for later in undoable[at:]])
            files = [
                {"path": _relative_path(item.path, root), "action": item.verb, "kind": item.kind, "why": item.why}
                for item in plan.items
            ]
            message = shorten(turn.text, 200)
            points.append({"id": turn.turn, "message": message, "time": turn.time, "files": files})
        return points[::-1]

    try:
        return {"points": await asyncio.to_thread(read)}
    except UsageError as error:
        raise RequestRefusedError(409, "undo", str(error)) from None


async def get_diff(hub: Hub, request: Request) -> dict[str, Any]:
    session_id = request.path_params["id"]

    def read() -> dict[str, Any]:
        work = checkpoints_of(hub, session_id)
        root = session_environment(hub, session_id).root
        found = work.diffs([step.turn.turn for step in work.steps() if not step.undone])
        files: list[dict[str, Any]] = [
            with_rows({
                "path": _relative_path(d.path, root), "added": d.added, "removed": d.removed, "patch": d.patch,
                "status": "created" if d.created else "deleted" if d.deleted else "modified",
            })
            for d in found
        ]  # fmt: skip
        text = "".join(f"--- a/{f['path']}\n+++ b/{f['path']}\n{f['patch'].rstrip()}\n" for f in files)
        return {"files": files, "text": text}

    try:
        return await asyncio.to_thread(read)
    except UsageError as error:
        raise RequestRefusedError(409, "undo", str(error)) from None


async def get_record(hub: Hub, request: Request) -> dict[str, Any]:
    """Return the completion record."""
    path = session_log(hub, request.path_params["id"])

    def read() -> dict[str, Any]:
        view = StoredSession(path).view() if path.is_file() else SessionView()
        return view.completion().data()

    return await asyncio.to_thread(read)


def _relative_path(path: str, root: Path) -> str:
    inside = Path(path)
    return str(inside.relative_to(root)) if inside.is_relative_to(root) else path


async def export_session(hub: Hub, request: Request) -> Response:
    path = session_log(hub, request.path_params["id"])
    kind = request.query_params.get("format", "markdown")
    if kind not in _TYPES:
        raise RequestRefusedError(400, "query", f"format: expected one of {', '.join(_TYPES)}.")
    if not path.is_file():
        raise RequestRefusedError(409, "empty", "Nothing has happened in this session yet.")
    text = await asyncio.to_thread(export.document, path, kind, tool_definitions)
    suffix = {"markdown": "md"}.get(kind, kind)
    headers = {"content-disposition": f'attachment; filename="session-{path.stem[:8]}.{suffix}"'}
    return Response(text, media_type=_TYPES[kind], headers=headers)

"""The server: the table of API routes and the role that each needs, the page, and uvicorn."""

from __future__ import annotations

import asyncio
import fcntl
import json
import mimetypes
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import uvicorn
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from agent_cli import UsageError, __version__
from agent_cli.extras.server import (
    actions,
    coding,
    commands,
    managing,
    push,
    queries,
    schedules,
    schemas,
    shipping,
    uploads,
)
from agent_cli.extras.server.guard import (
    PAIR_PATH,
    PUSH_ANSWER_PATH,
    UPLOAD_PATH,
    AccessTokenStore,
    FailureLimit,
    RequestGuard,
    RequestRefusedError,
    Role,
)
from agent_cli.extras.server.hub import Hub
from agent_cli.extras.server.notify import HookSender, Notifier
from agent_cli.extras.server.pairing import Pairing
from agent_cli.kernel.session.store import write_crash_report
from agent_tools.fs.safe_files import open_regular, private_folder, read_regular
from agent_tools.record import Value
from agent_tools.text import one_line

_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "format": "uuid"}}
_OTHER_ID = {"in": "path", "required": True, "schema": {"type": "string"}}
# What any request can be answered with.
_COMMON_ERRORS = (400, 401, 403, 405, 408, 413, 415, 421, 429, 503)
_REASONS = {
    400: "The request cannot be read.", 401: "The token is missing or not valid.",
    403: "The token's role, the address or the mode does not allow it.", 404: "It does not exist here.",
    405: "The method is not answered.", 408: "The request did not arrive in time.",
    409: "The state of the session does not allow it.", 413: "The body is too large.",
    415: "The body is not JSON.", 421: "The server does not answer to that name.",
    422: "The body does not fit.", 429: "Too many failed attempts.", 503: "The tokens cannot be read.",
    507: "The request cannot be stored.",
}  # fmt: skip
_NUMBER = {"type": "integer", "minimum": 0}
_SSE = "text/event-stream"


class ApiRoute(Value):
    """One request. query: its parameters with their schemas. media: of an answer that is not JSON."""

    method: str
    path: str
    role: Role
    summary: str
    handler: Callable[..., Awaitable[Any]]
    answer: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    status: int = 200
    errors: tuple[int, ...] = ()
    query: dict[str, Any] = {}  # noqa: RUF012 - never changed
    media: tuple[str, ...] = ()


_STATES = {"type": "string", "enum": ["", *schemas.SessionState.__args__]}  # type: ignore[attr-defined]
_YES_OR_NO = {"type": "boolean"}
_SESSION, _PROJECT, _SCHEDULE = "/v1/sessions/{id}", "/v1/projects/{project}", "/v1/schedules/{schedule}"
_ERRORS = (404, 409, 422, 507)
# fmt: off
ROUTES: tuple[ApiRoute, ...] = (
    ApiRoute("GET", "/v1/me", "read", "Name and role of the token.", queries.get_identity, schemas.TokenItem),
    ApiRoute("GET", "/v1/projects", "read", "The folders that work can be started in.", queries.list_projects,
             schemas.ProjectList),
    ApiRoute("GET", _PROJECT + "/trust", "read", "Whether a project is trusted, and what it brings.",
             managing.get_trust, schemas.ProjectTrust, errors=(404, 409)),
    ApiRoute("POST", _PROJECT + "/trust", "start", "Trust a project, or stop trusting it.",
             managing.set_trust, schemas.ProjectTrust, schemas.TrustBody, 200, _ERRORS),
    ApiRoute("GET", _PROJECT + "/imports", "start", "The sessions of other agents that can be taken over.",
             managing.list_foreign, schemas.ImportList, errors=(404,)),
    ApiRoute("POST", _PROJECT + "/imports", "start", "Take over a session of another agent.",
             managing.import_session, schemas.SessionItem, schemas.ImportBody, 201, _ERRORS),
    ApiRoute("GET", "/v1/models", "read", "The newest models that can be used here; with `all`, every one.",
             queries.list_models, schemas.ModelList, errors=(409,),
             query={"project": {"type": "string"}, "all": _YES_OR_NO}),
    ApiRoute("GET", "/v1/sessions", "read", "List and search sessions, those that wait first.", queries.list_sessions,
             schemas.SessionPage,
             query={"state": _STATES, "project": {"type": "string"}, "query": {"type": "string"},
                    "messages": _YES_OR_NO, "archived": _YES_OR_NO,
                    "limit": _NUMBER, "cursor": {"type": "string"}}),
    ApiRoute("POST", "/v1/sessions", "start", "Start a task; answers with its session at once.", actions.start_session,
             schemas.SessionItem, schemas.StartBody, 201, (404, 409, 422, 507)),
    ApiRoute("GET", "/v1/schedules", "read", "The schedules of these projects.", schedules.list_schedules,
             schemas.ScheduleList, errors=(409, 507)),
    ApiRoute("POST", "/v1/schedules", "start", "Add a schedule.", schedules.add_schedule, schemas.ScheduleItem,
             schemas.ScheduleBody, 201, (409, 422, 507)),
    ApiRoute("PATCH", _SCHEDULE, "start", "Pause a schedule, or end its pause.", schedules.change_schedule,
             schemas.ScheduleItem, schemas.ScheduleChange, 200, _ERRORS),
    ApiRoute("DELETE", _SCHEDULE, "start", "Remove a schedule; its sessions stay.", schedules.remove_schedule,
             schemas.AcceptedAnswer, errors=(404, 409, 507)),
    ApiRoute("GET", _SCHEDULE + "/runs", "read", "What became of each time.", schedules.list_runs,
             schemas.ScheduledRuns, errors=(404, 409, 507)),
    ApiRoute("POST", _SCHEDULE + "/run", "start", "Start a run now; answers with its session.",
             schedules.run_schedule, schemas.AcceptedAnswer, schemas.EmptyBody, 201, _ERRORS),
    ApiRoute("GET", "/v1/push", "read", "The key for push notifications.", push.get_push, schemas.PushInfo,
             errors=(507,)),
    ApiRoute("POST", "/v1/push", "read", "Send notifications to a browser, or no longer.", push.set_push,
             schemas.AcceptedAnswer, schemas.PushBody, 200, (507,)),
    ApiRoute("GET", "/v1/events", "read", "Sessions as they change, as server-sent events.", queries.stream_sessions,
             media=(_SSE,)),
    ApiRoute("GET", _SESSION, "read", "A session with its plan, questions and usage.", queries.get_session,
             schemas.SessionDetail, errors=(404,)),
    ApiRoute("GET", _SESSION + "/history", "read", "Records of the log, a page at a time.", queries.get_history,
             schemas.HistoryPage, errors=(404,), query={"before": _NUMBER, "after": _NUMBER, "limit": _NUMBER}),
    ApiRoute("GET", _SESSION + "/events", "read", "New records of a session, as server-sent events.",
             queries.stream_session, errors=(404,), query={"after": _NUMBER}, media=(_SSE,)),
    ApiRoute("GET", _SESSION + "/view", "read", "Entries of the view, a page at a time.", queries.get_view,
             schemas.ViewPage, errors=(404,), query={"before": _NUMBER, "limit": _NUMBER}),
    ApiRoute("GET", _SESSION + "/view/events", "read", "The view and its changes, as server-sent events.",
             queries.stream_view, errors=(404,), media=(_SSE,)),
    ApiRoute("GET", _SESSION + "/pending", "read", "What waits for a decision.", queries.list_pending,
             schemas.PendingItems, errors=(404,)),
    ApiRoute("GET", _SESSION + "/diff", "read", "What the session changed.", queries.get_diff, schemas.SessionDiff,
             errors=(404, 409)),
    ApiRoute("GET", _SESSION + "/record", "read", "The steps of its plans, each with its evidence.",
             queries.get_record, schemas.SessionRecord, errors=(404,)),
    ApiRoute("GET", _SESSION + "/undo", "read", "The turns that can be undone.", queries.list_undo_points,
             schemas.UndoPoints, errors=(404, 409)),
    ApiRoute("GET", _SESSION + "/export", "read", "The session as a document.", queries.export_session,
             errors=(404, 409), query={"format": {"type": "string", "enum": ["markdown", "html", "json"]}},
             media=("text/markdown", "text/html", "application/json")),
    ApiRoute("POST", UPLOAD_PATH, "start", "Send a file for a message, as the body.", uploads.receive_upload,
             schemas.UploadItem, None, 201, (422, 507), {"name": {"type": "string"}}),
    ApiRoute("GET", "/v1/completions", "read", "Commands and files that the text of a message can become.",
             commands.list_completions, schemas.CompletionList, errors=(404, 409),
             query={"before": {"type": "string"}, "session": {"type": "string"}, "project": {"type": "string"}}),
    ApiRoute("DELETE", _SESSION + "/messages/{message}", "start", "Cancel a queued message.",
             actions.take_back_message, schemas.AcceptedAnswer, errors=(404, 409, 507)),
    ApiRoute("POST", _SESSION + "/messages", "start", "Send a message, now or after the turn.", actions.send_message,
             schemas.AcceptedAnswer, schemas.MessageBody, 202, _ERRORS),
    ApiRoute("PATCH", _SESSION, "start", "Change the name, the model or the mode, archive it.",
             managing.change_session, schemas.SessionItem, schemas.SessionChange, 200, _ERRORS),
    ApiRoute("POST", _SESSION + "/fork", "start", "Copy a session; answers with the copy.", managing.fork_session,
             schemas.SessionItem, schemas.EmptyBody, 201, _ERRORS),
    ApiRoute("DELETE", _SESSION, "start", "Delete a session; the project's files stay.", managing.delete_session,
             schemas.AcceptedAnswer, errors=(404, 409, 507)),
    ApiRoute("GET", _SESSION + "/ship", "read", "The steps to ship changes, with their facts.", shipping.get_ship,
             schemas.ShipSteps, errors=(404, 409)),
    ApiRoute("POST", _SESSION + "/ship", "start", "Take an approved step.",
             shipping.ship, schemas.ShipAnswer, schemas.ShipBody, 200, _ERRORS),
    ApiRoute("POST", _SESSION + "/ship/message", "start", "Let the model propose a message for the commit.",
             shipping.propose, schemas.ProposedMessage, schemas.EmptyBody, 200, _ERRORS),
    ApiRoute("POST", _SESSION + "/interrupt", "start", "Stop the running turn.", actions.interrupt_turn,
             schemas.AcceptedAnswer, schemas.EmptyBody, 202, _ERRORS),
    ApiRoute("POST", _SESSION + "/resume", "start", "Continue a turn that was cut off.", actions.resume_turn,
             schemas.AcceptedAnswer, schemas.EmptyBody, 202, _ERRORS),
    ApiRoute("POST", _SESSION + "/decisions", "decide", "Decide about what waits.", actions.decide,
             schemas.DecidedAnswer, schemas.DecisionBody, 200, _ERRORS),
    ApiRoute("POST", _SESSION + "/approve", "decide", "Approve what waits.", actions.approve, schemas.DecidedAnswer,
             schemas.DecisionFields, 200, _ERRORS),
    ApiRoute("POST", _SESSION + "/reject", "decide", "Reject what waits, with a comment for the model.", actions.reject,
             schemas.DecidedAnswer, schemas.DecisionFields, 200, _ERRORS),
    ApiRoute("POST", _SESSION + "/answer", "decide", "Answer a question, or ask for a change of a plan.",
             actions.answer, schemas.DecidedAnswer, schemas.DecisionFields, 200, _ERRORS),
    ApiRoute("POST", _SESSION + "/undo", "start", "Undo a turn and all after it.", actions.undo_turns,
             schemas.UndoAnswer, schemas.UndoBody, 200, _ERRORS),
    ApiRoute("POST", "/coding/start", "start", "Start a request, by default with a plan.", coding.start_coding,
             schemas.CodingState, schemas.CodingStart, 201, _ERRORS),
    ApiRoute("GET", "/coding/{session_id}", "read", "The state of a request.", coding.get_coding, schemas.CodingState,
             errors=(404,)),
    ApiRoute("POST", "/coding/{session_id}/approve", "decide", "Decide about the plan, or its calls.",
             coding.approve_coding, schemas.CodingState, schemas.CodingApprove, 200, _ERRORS),
)
# fmt: on


def make_routes(hub: Hub) -> list[Route]:
    """Return the routes of `ROUTES`."""
    by_path: dict[str, list[ApiRoute]] = {}
    for row in ROUTES:
        by_path.setdefault(row.path, []).append(row)
    return [
        Route(path, _endpoint(hub, {row.method: row for row in rows}), methods=[row.method for row in rows])
        for path, rows in by_path.items()
    ]


def _endpoint(hub: Hub, rows: dict[str, ApiRoute]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        row = rows["GET" if request.method == "HEAD" else request.method]
        try:
            token = queries.token_of(request)
            if not token.may(row.role):
                raise RequestRefusedError(
                    403, "role", f"{token.name} has the role {token.role}, and this needs {row.role}."
                )
            if row.body is None:
                made = await row.handler(hub, request)
            else:
                made = await row.handler(hub, request, await _parse_body(row.body, request))
        except RequestRefusedError as refusal:
            return refusal_response(refusal)
        except (ClientDisconnect, HTTPException):
            raise
        except Exception as error:  # noqa: BLE001 - costs one request, not the server; shown on stderr
            where = write_crash_report(error, hub.env)
            sys.stderr.write(f"agent: {request.method} {row.path} failed: {type(error).__name__}. See {where}\n")
            return refusal_response(RequestRefusedError(500, "program", "The server failed; its log has a report."))
        return made if isinstance(made, Response) else JSONResponse(made, row.status)

    return endpoint


async def _parse_body(model: type[BaseModel], request: Request) -> BaseModel:
    body = await request.body()
    try:
        # Text that no file could hold would fail where it is stored.
        body.decode("utf-8")
        return model.model_validate_json(body or b"{}")
    except UnicodeDecodeError:
        raise RequestRefusedError(400, "body", "The body is not UTF-8.") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        at = ".".join(map(str, first["loc"]))
        code = 400 if first["type"] == "json_invalid" else 422
        raise RequestRefusedError(code, "body", f"{at}: {first['msg']}" if at else first["msg"]) from None


def refusal_response(refusal: RequestRefusedError) -> Response:
    """Return the HTTP response to a refused request."""
    return Response(refusal.body(), refusal.status, media_type="application/json")


def build_openapi() -> dict[str, Any]:
    """Return the OpenAPI document of `ROUTES`."""
    models = {m for row in ROUTES for m in (row.answer, row.body) if m is not None} | {schemas.ErrorAnswer}
    listed = sorted(models, key=lambda m: m.__name__)
    _, made = models_json_schema(
        [(m, "validation") for m in listed], ref_template="#/components/schemas/{model}"
    )  # fmt: skip
    paths: dict[str, dict[str, Any]] = {}
    for row in ROUTES:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row)
    return {
        "openapi": "3.1.0",
        "info": {"title": "agent serve", "version": __version__, "description": "Sessions of agent, over HTTP."},
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": made["$defs"],
        },
    }


def _operation(row: ApiRoute) -> dict[str, Any]:
    names = [part[1:-1] for part in row.path.split("/") if part.startswith("{")]
    parameters = [(_ID if name.endswith("id") else _OTHER_ID) | {"name": name} for name in names]
    parameters += [{"name": n, "in": "query", "required": False, "schema": s} for n, s in row.query.items()]
    if row.path.endswith("/events"):
        parameters.append({"name": "Last-Event-ID", "in": "header", "required": False, "schema": {"type": "string"}})
    answers: dict[str, Any] = {str(row.status): {"description": row.summary, "content": _content(row)}}
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}}
    for status in sorted({*_COMMON_ERRORS, *row.errors, *((422,) if row.body else ())}):
        answers[str(status)] = {"description": _REASONS[status], "content": error}
    made = {"summary": row.summary, "operationId": _operation_id(row), "parameters": parameters, "responses": answers}
    made["description"] = f"Needs the role {row.role}."
    if row.body is not None:
        schema = {"$ref": f"#/components/schemas/{row.body.__name__}"}
        required = bool(row.body.model_json_schema().get("required"))
        made["requestBody"] = {"required": required, "content": {"application/json": {"schema": schema}}}
    elif row.path == UPLOAD_PATH:
        schema = {"type": "string", "format": "binary"}
        made["requestBody"] = {"required": True, "content": {"application/octet-stream": {"schema": schema}}}
    return made


def _content(row: ApiRoute) -> dict[str, Any]:
    if row.answer is None:
        return {media: {"schema": {"type": "string"}} for media in row.media if media != "application/json"} | (
            {"application/json": {"schema": {}}} if "application/json" in row.media else {}
        )
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{row.answer.__name__}"}}}


def _operation_id(row: ApiRoute) -> str:
    words = [part.strip("{}") for part in row.path.split("/") if part not in ("", "v1")]
    return "_".join([row.method.lower(), *words])


_PAGE = Path(__file__).parent / "page"
_SERVICE_WORKER = "sw.js"
_TYPES = {".js": "text/javascript", ".webmanifest": "application/manifest+json"}
# Seconds until a connection has sent a whole request line and headers, from its first byte or from the connection.
_HEADER_SECONDS = 15.0
# Connections at once; beyond them a request is answered with 503.
_MAX_CONNECTIONS = 1_000
# Seconds that open streams have when the server ends.
_GRACE_SECONDS = 2
_CODES = {404: ("path", "There is nothing at this address."), 405: ("method", "This method is not answered here.")}


class TimedProtocol(H11Protocol):
    """HTTP/1.1 that closes a connection whose next request does not arrive in time."""

    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Limit the time until a request has arrived, unless one is being answered."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_watching()
        elif self._due is None:
            self._due = self.loop.call_later(_HEADER_SECONDS, self.transport.close)

    def _stop_watching(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None


def make_app(hub: Hub, hosts: Iterable[str], tokens: AccessTokenStore, notify: str = "") -> Any:
    """Return the ASGI application. notify: the setting `serve.notify`."""
    hooks = [HookSender(hub, notify).attempts] if notify else []
    notifier = Notifier(hub, [*hooks, hub.push.attempts])

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        hub.pool.recover(hub.is_ready)
        notifier.start()
        ticking = [asyncio.create_task(schedules.ScheduleTicker(hub).run())] if hub.options.ticks else []
        yield
        for task in ticking:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await notifier.stop()

    async def handle_error(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        code, message = _CODES.get(status, ("request", "The request cannot be answered."))
        answer = refusal_response(RequestRefusedError(status, code, message))
        for name, value in ((error.headers or {}) if isinstance(error, HTTPException) else {}).items():
            answer.headers[name] = value
        return answer

    routes = [
        Route("/", _index),
        Route("/page/{name}", _page_file),
        Route("/v1/openapi.json", _openapi),
        Route(PAIR_PATH, _open_endpoint(partial(_pair, Pairing(hub.state)), schemas.PairBody, 201), methods=["POST"]),
        Route(
            PUSH_ANSWER_PATH, _open_endpoint(partial(push.answer_push, hub), schemas.PushAnswerBody), methods=["POST"]
        ),
        *make_routes(hub),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: handle_error})
    return RequestGuard(app, hosts, tokens, FailureLimit(time.monotonic))


def _open_endpoint(
    handler: Callable[..., Awaitable[dict[str, Any]]], model: type[BaseModel], status: int = 200
) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of a request without a token."""

    async def endpoint(request: Request) -> Response:
        try:
            return JSONResponse(await handler(request, await _parse_body(model, request)), status)
        except RequestRefusedError as refusal:
            return refusal_response(refusal)
        except UsageError as error:
            return refusal_response(RequestRefusedError(507, "disk", str(error)))

    return endpoint


async def _pair(pairing: Pairing, request: Request, body: schemas.PairBody) -> dict[str, Any]:
    """Exchange a code for a token."""
    made = await asyncio.to_thread(pairing.redeem, body.code, body.device)
    if made is None:
        request.scope["state"]["failed"]()
        why = "This code is not valid, or no longer. For a new one: agent serve --phone"
        raise RequestRefusedError(403, "code", why)
    return {"name": made[0], "token": made[1]}


async def _openapi(request: Request) -> Response:
    return Response(json.dumps(build_openapi(), indent=1), media_type="application/json")


async def _index(request: Request) -> Response:
    return _serve_file(request, "index.html")


async def _page_file(request: Request) -> Response:
    return _serve_file(request, request.path_params["name"])


def _serve_file(request: Request, name: str) -> Response:
    """Return a file of the page; only the names in its folder are served."""
    path = _PAGE / name
    if name.startswith(".") or "/" in name or "\\" in name or "\0" in name or not path.is_file():
        return refusal_response(RequestRefusedError(404, "path", "There is nothing at this address."))
    data = path.read_bytes()
    mark = f'"{blake2b(data, digest_size=8).hexdigest()}"'
    headers = {"cache-control": "no-cache", "etag": mark}
    if request.headers.get("if-none-match") == mark:
        return Response(status_code=304, headers=headers)
    if name == _SERVICE_WORKER:
        headers["service-worker-allowed"] = "/"
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(data, media_type=kind, headers=headers)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(512)
    except OSError:
        made.close()
        raise
    made.set_inheritable(False)
    return made


def lock_state(state: Path, link: str, here: str) -> int:
    """Make this the one server of a state folder; return the descriptor that holds the lock. Raises UsageError.

    link, here: its address for others, and for programs of this machine. Two would not know of each other's decisions.
    """
    private_folder(state / "serve")
    fd = open_regular(state / "serve" / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        there = os.pread(fd, 800, 0).decode("utf-8", "replace").partition("\n")[0]
        os.close(fd)
        raise UsageError(f"Another agent serve is running: {one_line(there) or 'it is starting'}") from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{link}\n{here}".encode(), 0)
    return fd


def read_last_link(state: Path) -> tuple[str, str]:
    """Return the addresses of the server of a state folder that runs or ran last: for others, and for this machine.

    "" if there was none.
    """
    with suppress(OSError):
        link, _, here = read_regular(state / "serve" / "lock", 800).decode("utf-8", "replace").partition("\n")
        return one_line(link), one_line(here or link)
    return "", ""


def run_server(app: Any, on: socket.socket, tls: Mapping[str, str | None]) -> None:
    """Serve until a signal comes. tls: `ssl_certfile` and `ssl_keyfile`, or nothing."""
    config = uvicorn.Config(
        app, http=TimedProtocol, ws="none", loop="asyncio", log_level="error", access_log=False, server_header=False,
        date_header=True, limit_concurrency=_MAX_CONNECTIONS, timeout_keep_alive=30,
        timeout_graceful_shutdown=_GRACE_SECONDS, proxy_headers=False, h11_max_incomplete_event_size=64 << 10, **tls,  # type: ignore[arg-type]
    )  # fmt: skip
    server = uvicorn.Server(config)
    # Until uvicorn takes signals, and once it hands them on, as it has ended: there is more to say then.
    signal.signal(signal.SIGTERM, lambda number, frame: setattr(server, "should_exit", True))
    with suppress(KeyboardInterrupt):
        server.run(sockets=[on])

"""The server: the table of the API, the page, and uvicorn to listen."""

from __future__ import annotations

import asyncio
import fcntl
import mimetypes
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from agent_cli.core.place import UsageError
from agent_cli.server.guard import RequestGuard, RequestRefusedError
from agent_cli.server.hub import Hub
from agent_cli.server.notify import Notifier
from agent_cli.server.routes import answer_of, openapi_text, starlette_routes
from agent_cli.server.tokens import AccessTokenStore, FailureLimit
from agent_tools.fs.safe_files import open_regular, private_folder, read_regular
from agent_tools.text import one_line

_PAGE = Path(__file__).parent / "page"
# Seconds until a connection has sent its first whole request line and headers.
_HEADER_SECONDS = 15.0
# Connections at once; beyond them a request is answered with 503.
_CONNECTIONS = 1_000
# Seconds that open streams have when the server ends.
_GRACE = 2
_CODES = {404: ("path", "There is nothing at this address."), 405: ("method", "This method is not answered here.")}


class TimedProtocol(H11Protocol):
    """HTTP/1.1 that closes a connection whose headers do not arrive in time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._headers_due = self.loop.call_later(_HEADER_SECONDS, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if getattr(self, "cycle", None) is None and not self.transport.is_closing():
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_due.cancel()
        super().connection_lost(exc)


def make_app(hub: Hub, hosts: Iterable[str], tokens: AccessTokenStore, notifier: Notifier | None = None) -> Any:
    """Return the ASGI application."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        hub.pool.find_again(hub.is_ready)
        if notifier is not None:
            notifier.start()
        yield
        if notifier is not None:
            await notifier.stop()

    async def failed(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        code, message = _CODES.get(status, ("request", "The request cannot be answered."))
        answer = answer_of(RequestRefusedError(status, code, message))
        for name, value in ((error.headers or {}) if isinstance(error, HTTPException) else {}).items():
            answer.headers[name] = value
        return answer

    routes = [
        Route("/", _index),
        Route("/page/{name}", _file),
        Route("/v1/openapi.json", _openapi),
        *starlette_routes(hub),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: failed})
    return RequestGuard(app, hosts, tokens, FailureLimit(time.monotonic))


async def _openapi(request: Request) -> Response:
    return Response(openapi_text(), media_type="application/json")


async def _index(request: Request) -> Response:
    return _served(request, "index.html")


async def _file(request: Request) -> Response:
    return _served(request, request.path_params["name"])


def _served(request: Request, name: str) -> Response:
    """Return a file of the page; only the names in its folder are served."""
    path = _PAGE / name
    if name.startswith(".") or "/" in name or "\\" in name or "\0" in name or not path.is_file():
        return answer_of(RequestRefusedError(404, "path", "There is nothing at this address."))
    data = path.read_bytes()
    mark = f'"{blake2b(data, digest_size=8).hexdigest()}"'
    headers = {"cache-control": "no-cache", "etag": mark}
    if request.headers.get("if-none-match") == mark:
        return Response(status_code=304, headers=headers)
    kind = {".js": "text/javascript"}.get(path.suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
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


def lock_state(state: Path, link: str) -> int:
    """Make this the one server of a state folder; return the descriptor that holds the lock. Raises UsageError.

    Two would not know of each other's decisions.
    """
    private_folder(state / "serve")
    fd = open_regular(state / "serve" / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        there = os.pread(fd, 400, 0).decode("utf-8", "replace")
        os.close(fd)
        raise UsageError(f"Another agent serve is running: {one_line(there) or 'it is starting'}") from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, link.encode(), 0)
    return fd


def last_link(state: Path) -> str:
    """Return the address of the server of a state folder that runs or ran last; "" if there was none."""
    with suppress(OSError):
        return one_line(read_regular(state / "serve" / "lock", 400).decode("utf-8", "replace"))
    return ""


def run_server(app: Any, on: socket.socket, tls: Mapping[str, str | None]) -> None:
    """Serve until a signal comes. tls: `ssl_certfile` and `ssl_keyfile`, or nothing."""
    # uvicorn hands its signals on once it has ended; there is more to say then.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    config = uvicorn.Config(
        app, http=TimedProtocol, ws="none", loop="asyncio", log_level="error", access_log=False, server_header=False,
        date_header=True, limit_concurrency=_CONNECTIONS, timeout_keep_alive=30, timeout_graceful_shutdown=_GRACE,
        proxy_headers=False, h11_max_incomplete_event_size=64 << 10, **tls,  # type: ignore[arg-type]
    )  # fmt: skip
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[on])

"""What every request passes: the address it was sent to, where it comes from, its token, its size and its time.

- Host must be a name of this server, so that a name which somebody points at 127.0.0.1 (DNS rebinding) reaches nothing.
- Origin, where a browser sends one, must be this server; nothing here uses cookies, so a foreign page has no rights.
- A body must be JSON, small, and come within a time limit.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_cli.core.place import UsageError
from agent_cli.server.tokens import AccessTokenStore, FailureLimit

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "manifest-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'"
)
_HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
MAX_BODY = 1 << 20
_DRAINED, _DRAIN_SECONDS = 8 * MAX_BODY, 2.0
# Seconds for a whole body.
BODY_SECONDS = 15.0


class RequestRefusedError(Exception):
    """A request is refused, with a status, a code in one word, and a sentence."""

    def __init__(self, status: int, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.more = status, code, more

    def body(self) -> bytes:
        error = {"code": self.code, "message": str(self)} | self.more
        return json.dumps({"error": error}, ensure_ascii=False).encode()


class RequestGuard:
    """ASGI middleware. hosts: names that Host may have, with port. tls: the server speaks TLS."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str], tokens: AccessTokenStore, limit: FailureLimit) -> None:
        self._app, self._hosts = app, frozenset(host.lower() for host in hosts)
        self._tokens, self._limit = tokens, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            else:
                await self._app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"] not in ("/", "/favicon.ico") and not scope["path"].startswith("/page/"):
                    headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            self._check_address(Headers(scope=scope), scope["method"])
            if scope["path"].startswith(("/v1/", "/coding/")) and scope["path"] != "/v1/openapi.json":
                scope["state"] = {**scope.get("state", {}), "token": self._token(scope)}
                receive = await self._whole_body(scope, receive)
        except RequestRefusedError as refusal:
            await send_refusal(refusal, sent)
            return
        await self._app(scope, receive, sent)

    def _check_address(self, headers: Headers, method: str) -> None:
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            raise RequestRefusedError(421, "host", "This server does not answer to that name; see --allowed-host.")
        origin = headers.get("origin", "").lower()
        if origin and origin.partition("://")[2] not in self._hosts:
            raise RequestRefusedError(403, "origin", "Requests of other web sites are refused.")
        if headers.get("sec-fetch-site", "") == "cross-site" and method != "GET":
            raise RequestRefusedError(403, "origin", "Requests of other web sites are refused.")

    def _token(self, scope: Scope) -> Any:
        """Return the token of a request."""
        scheme, _, secret = Headers(scope=scope).get("authorization", "").partition(" ")
        address = (scope.get("client") or ("", 0))[0]
        try:
            token = self._tokens.find(secret.strip()) if scheme.lower() == "bearer" and secret else None
        except UsageError as error:
            raise RequestRefusedError(503, "tokens", str(error)) from None
        if token is not None:
            return token
        if wait := self._limit.wait(address):
            raise RequestRefusedError(429, "attempts", "Too many failed attempts.", retry_after=int(wait) + 1)
        self._limit.failed(address)
        raise RequestRefusedError(401, "token", "This needs a valid token, as in: Authorization: Bearer TOKEN")

    async def _whole_body(self, scope: Scope, receive: Receive) -> Receive:
        """Read the body, within its limits; return what hands it on."""
        headers = Headers(scope=scope)
        body, size, drained = bytearray(), 0, False
        try:
            async with asyncio.timeout(BODY_SECONDS) as limit:
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        break
                    size += len(message.get("body", b""))
                    if size <= MAX_BODY:
                        body += message.get("body", b"")
                    # What is too large is read for a while, or the client would miss the answer.
                    if size > MAX_BODY and not drained:
                        drained = True
                        limit.reschedule(asyncio.get_running_loop().time() + _DRAIN_SECONDS)
                    if size > _DRAINED or not message.get("more_body", False):
                        break
        except TimeoutError:
            if drained:
                raise _too_large() from None
            raise RequestRefusedError(408, "slow", "The request did not arrive in time.") from None
        if size > MAX_BODY:
            raise _too_large()
        if body and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise RequestRefusedError(415, "type", "A body is JSON: send it with Content-Type: application/json.")
        handed = False

        async def again() -> Message:
            nonlocal handed
            if not handed:
                handed = True
                return {"type": "http.request", "body": bytes(body), "more_body": False}
            return await receive()

        return again


def _too_large() -> RequestRefusedError:
    return RequestRefusedError(413, "size", f"A request has at most {MAX_BODY} bytes.")


async def send_refusal(refusal: RequestRefusedError, send: Send) -> None:
    """Send a refusal as the answer."""
    headers = [(b"content-type", b"application/json")]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if (seconds := refusal.more.get("retry_after")) is not None:
        headers.append((b"retry-after", str(seconds).encode()))
    if refusal.status in (408, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refusal.body()})

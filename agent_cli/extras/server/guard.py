"""Checks of every request: target address, origin, token, size and time.

- Host must be a name of this server, so a foreign name that resolves to 127.0.0.1 (DNS rebinding) is refused.
- Origin, if a browser sends it, must be this server. There are no cookies, so a foreign page has no rights.
- A body must be JSON, within a size limit, and arrive within a time limit.

Bearer tokens have a name and a role. Their hashes are stored in `<state>/serve/tokens.json`, readable by the user only.

Each role includes the ones before it: `read` views, `decide` makes pending decisions, `start` starts and steers work,
edits plans, and says what a call runs instead.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, get_args

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_cli import UsageError
from agent_tools.fs.safe_files import changing, read_regular, write_atomic
from agent_tools.record import DecodeError, Value, from_json, to_json
from agent_tools.text import utc_stamp

Role = Literal["read", "decide", "start"]
ROLES: tuple[Role, ...] = get_args(Role)
# The name of the token that the first start makes.
OWNER = "owner"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,39}")
_MAX_TOKENS_BYTES = 1 << 20


class AccessToken(Value, tag="Token"):
    """A token without its secret. digest: SHA-256 of the secret, in hexadecimal."""

    name: str
    role: Role
    digest: str
    created: str

    def may(self, role: Role) -> bool:
        """Return True if the token's role includes this one."""
        return ROLES.index(self.role) >= ROLES.index(role)


class AccessTokenStore:
    """The tokens of a state folder. A change counts for a running server at its next request."""

    def __init__(self, state: Path) -> None:
        self.path = state / "serve" / "tokens.json"
        self._known: tuple[tuple[int, ...], tuple[AccessToken, ...]] = ((), ())

    def all(self) -> tuple[AccessToken, ...]:
        """Return the tokens. Raises UsageError if the file cannot be read."""
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise UsageError(f"The tokens cannot be read: {error.strerror or error}.") from None
        mark = stat.st_ino, stat.st_mtime_ns, stat.st_size
        known, found = self._known
        if mark != known:
            try:
                found = from_json(tuple[AccessToken, ...], json.loads(read_regular(self.path, _MAX_TOKENS_BYTES)))
            except (OSError, ValueError, DecodeError) as error:
                raise UsageError(f"The tokens cannot be read: {self.path} is damaged ({error}).") from None
            self._known = mark, found
        return found

    def add(self, name: str, role: str) -> str:
        """Add a token; return its secret, which is stored nowhere. Raises UsageError."""
        if role not in ROLES:
            raise UsageError(f"{role} is not a role; the roles are: {', '.join(ROLES)}.")
        if not _NAME.fullmatch(name):
            raise UsageError("A token's name has letters, digits, spaces and . _ @ -, 40 at most.")
        secret = secrets.token_urlsafe(32)
        with self._changing():
            tokens = self.all()
            if any(token.name == name for token in tokens):
                raise UsageError(f"There is a token named {name} already: agent serve token revoke {name}")
            self._write((*tokens, AccessToken(name, next(r for r in ROLES if r == role), _digest(secret), utc_stamp())))
        return secret

    def revoke(self, name: str) -> None:
        """Remove a token. Raises UsageError."""
        self._without(name)  # said also where nothing can be written
        with self._changing():
            self._write(self._without(name))

    def _without(self, name: str) -> tuple[AccessToken, ...]:
        """Return the tokens but one. Raises UsageError if it is not there."""
        tokens = self.all()
        left = tuple(token for token in tokens if token.name != name)
        if left == tokens:
            known = ", ".join(token.name for token in tokens) or "none"
            raise UsageError(f"There is no token named {name}; there are: {known}.")
        return left

    def find(self, secret: str) -> AccessToken | None:
        """Return the token with this secret, in a time that does not depend on it; None if there is none.

        Raises UsageError.
        """
        digest, found = _digest(secret), None
        for token in self.all():
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def holds(self, token: AccessToken) -> bool:
        """Return True if a token is still valid."""
        try:
            return token in self.all()
        except UsageError:
            return False

    @contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            with changing(self.path):
                yield
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {error.strerror or error}.") from None

    def _write(self, tokens: tuple[AccessToken, ...]) -> None:
        write_atomic(self.path, json.dumps(to_json(tokens), indent=1).encode("ascii"))


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


class FailureLimit:
    """Counts failed attempts by address; after `limit` of them within `seconds`, others are refused unchecked."""

    def __init__(self, clock: Callable[[], float], limit: int = 20, seconds: float = 60.0) -> None:
        self._clock, self._limit, self._seconds = clock, limit, seconds
        self._failed: dict[str, deque[float]] = {}

    def retry_after(self, address: str) -> float:
        """Return the seconds until another attempt counts; 0 if it does now."""
        times = self._recent(address)
        return max(0.0, times[0] + self._seconds - self._clock()) if len(times) >= self._limit else 0.0

    def record_failure(self, address: str) -> None:
        """Count a failed attempt."""
        times = self._recent(address)
        times.append(self._clock())
        self._failed[address] = times
        if len(self._failed) > 10_000:
            self._failed = {a: t for a in list(self._failed) if (t := self._recent(a))}

    def _recent(self, address: str) -> deque[float]:
        times = self._failed.get(address, deque(maxlen=self._limit))
        while times and times[0] <= self._clock() - self._seconds:
            times.popleft()
        return times


CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "manifest-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'; "
    "worker-src 'self'; require-trusted-types-for 'script'; trusted-types agent"
)
_HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
UPLOAD_PATH = "/v1/uploads"
# The requests without a token: they have a code or a ticket, which work once.
PAIR_PATH, PUSH_ANSWER_PATH = "/v1/pair", "/v1/push/answer"
MAX_BODY_BYTES = 1 << 20
_MAX_DRAINED_BYTES, _DRAIN_SECONDS = 8 * MAX_BODY_BYTES, 2.0
# Time limit for receiving a whole body.
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
    """ASGI middleware. hosts: names that Host may have, with port."""

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

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"] not in ("/", "/favicon.ico") and not scope["path"].startswith("/page/"):
                    headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            self._check_address(Headers(scope=scope), scope["method"])
            if scope["path"] in (PAIR_PATH, PUSH_ANSWER_PATH):
                self._check_attempts(scope)
                receive = await self._buffer_body(scope, receive)
            elif scope["path"].startswith(("/v1/", "/coding/")) and scope["path"] != "/v1/openapi.json":
                token = self._authenticate(scope)
                scope["state"] = {**scope.get("state", {}), "token": token, "valid": partial(self._tokens.holds, token)}
                # A file is read as it arrives, by its handler, which has limits of its own.
                if scope["path"] != UPLOAD_PATH:
                    receive = await self._buffer_body(scope, receive)
        except RequestRefusedError as refusal:
            await send_refusal(refusal, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _check_address(self, headers: Headers, method: str) -> None:
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            raise RequestRefusedError(421, "host", "This server does not answer to that name; see --allowed-host.")
        origin = headers.get("origin", "").lower()
        if origin and origin.partition("://")[2] not in self._hosts:
            raise RequestRefusedError(403, "origin", "Requests of other web sites are refused.")
        if headers.get("sec-fetch-site", "") == "cross-site" and method != "GET":
            raise RequestRefusedError(403, "origin", "Requests of other web sites are refused.")

    def _check_attempts(self, scope: Scope) -> None:
        """Refuse an address with too many failed attempts; `failed` of the scope counts another one."""
        address = (scope.get("client") or ("", 0))[0]
        if wait := self._limit.retry_after(address):
            raise RequestRefusedError(429, "attempts", "Too many failed attempts.", retry_after=int(wait) + 1)
        scope["state"] = {**scope.get("state", {}), "failed": partial(self._limit.record_failure, address)}

    def _authenticate(self, scope: Scope) -> Any:
        """Return the valid token of a request. Raises RequestRefusedError."""
        scheme, _, secret = Headers(scope=scope).get("authorization", "").partition(" ")
        address = (scope.get("client") or ("", 0))[0]
        try:
            token = self._tokens.find(secret.strip()) if scheme.lower() == "bearer" and secret else None
        except UsageError as error:
            raise RequestRefusedError(503, "tokens", str(error)) from None
        if token is not None:
            return token
        if wait := self._limit.retry_after(address):
            raise RequestRefusedError(429, "attempts", "Too many failed attempts.", retry_after=int(wait) + 1)
        self._limit.record_failure(address)
        raise RequestRefusedError(401, "token", "This needs a valid token, as in: Authorization: Bearer TOKEN")

    async def _buffer_body(self, scope: Scope, receive: Receive) -> Receive:
        """Read the whole body within its limits; return a `receive` that replays it. Raises RequestRefusedError."""
        headers = Headers(scope=scope)
        body, size, drained = bytearray(), 0, False
        try:
            async with asyncio.timeout(BODY_SECONDS) as limit:
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        break
                    size += len(message.get("body", b""))
                    if size <= MAX_BODY_BYTES:
                        body += message.get("body", b"")
                    # Read on for a while if it is too large; otherwise the client would not see the response.
                    if size > MAX_BODY_BYTES and not drained:
                        drained = True
                        limit.reschedule(asyncio.get_running_loop().time() + _DRAIN_SECONDS)
                    if size > _MAX_DRAINED_BYTES or not message.get("more_body", False):
                        break
        except TimeoutError:
            if drained:
                raise _too_large() from None
            raise RequestRefusedError(408, "slow", "The request did not arrive in time.") from None
        if size > MAX_BODY_BYTES:
            raise _too_large()
        if body and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise RequestRefusedError(415, "type", "A body is JSON: send it with Content-Type: application/json.")
        replayed = False

        async def replay() -> Message:
            nonlocal replayed
            if not replayed:
                replayed = True
                return {"type": "http.request", "body": bytes(body), "more_body": False}
            return await receive()

        return replay


def _too_large() -> RequestRefusedError:
    return RequestRefusedError(413, "size", f"A request has at most {MAX_BODY_BYTES} bytes.")


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

"""Requests to untrusted servers, with limits on bytes, redirects, time and addresses.

No cookies, no credentials, no reused connections. Responses are decompressed here, up to a limit.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from time import monotonic
from urllib.parse import urljoin

from agent_tools.cancel import CancelToken
from agent_tools.net.http import HttpClient, HttpResponse, Timeouts
from agent_tools.net.http_connection import HttpError
from agent_tools.net.private_addresses import Guard
from agent_tools.net.urls import Url, same_site, split_url
from agent_tools.record import Value
from agent_tools.results import ToolError

# A decompressed body may be this many times as large as an uncompressed one.
UNPACKED = 2
_REDIRECTS = (301, 302, 303, 307, 308)
_HEADERS = {
    "Accept": "text/markdown, text/html;q=0.9, */*;q=0.8",
    "Accept-Language": "en, *;q=0.5",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "close",
}
# Advice for the model, appended to an error.
_ADVICE = {"late": " Try later, or another source.", "closed": " Try once more."}


class WebLimits(Value):
    """Limits of a request. max_bytes: of a body, as sent. timeout: seconds for everything. connect_timeout: seconds."""

    max_bytes: int = 5_000_000
    timeout: float = 30.0
    connect_timeout: float = 10.0
    max_redirects: int = 5


class WebResponse(Value):
    """A response. headers: by lower-case name. cut: why the body is incomplete, in words; "" if it is complete."""

    url: Url
    status: int
    headers: dict[str, str]
    body: bytes
    cut: str = ""


class Moved(Value):
    """A redirect to another server, or from https to http, that was not followed."""

    status: int
    target: str


class WebClient:
    """Client for untrusted servers. guard: None if any address is allowed, because the user named the server."""

    def __init__(self, limits: WebLimits, env: Mapping[str, str], guard: Guard | None, cancel: CancelToken) -> None:
        self._limits = limits
        self._cancel = cancel
        # One time limit for everything replaces the one for silence.
        timeouts = Timeouts(limits.connect_timeout, 0.0, limits.timeout)
        self._http = HttpClient(timeouts, env, guard=guard, most_kept=0)

    def get(self, url: Url) -> WebResponse | Moved:
        """Fetch a page, following redirects on the same site. Raises ToolError or CancelledError."""
        until = monotonic() + self._limits.timeout
        seen = [url]
        while True:
            answer = self._exchange(seen[-1], {}, None, until)
            location = answer.headers.get("location", "")
            if answer.status not in _REDIRECTS or not location:
                return answer
            target = _target(seen[-1], location)
            if not same_site(seen[-1], target):
                return Moved(answer.status, target.text)
            if target in seen:
                raise ToolError(f"{url.text} redirects in a loop through {target.text}.")
            if len(seen) > self._limits.max_redirects:
                raise ToolError(f"{url.text} redirects more than {self._limits.max_redirects} times; the last went to "
                                f"{target.text}.")  # fmt: skip
            seen.append(target)

    def send(self, url: Url, headers: Mapping[str, str], body: bytes | None = None) -> WebResponse:
        """Send one request, POST if it has a body, without following redirects. Raises ToolError or CancelledError."""
        return self._exchange(url, headers, body, monotonic() + self._limits.timeout)

    def _exchange(self, url: Url, headers: Mapping[str, str], body: bytes | None, until: float) -> WebResponse:
        try:
            reply = self._http.send(url, {**_HEADERS, **headers}, body, self._cancel, until=until)
            try:
                data, cut = self._body(reply, url)
            finally:
                reply.close()
            self._cancel.check()
            return WebResponse(url, reply.status, reply.headers, data, cut)
        except HttpError as error:
            raise ToolError(f"{error}{_ADVICE.get(error.kind, '')}") from None

    def _body(self, reply: HttpResponse, url: Url) -> tuple[bytes, str]:
        """Return the decompressed body, and why it is incomplete."""
        unpack = _unpacker(reply.header("content-encoding"), UNPACKED * self._limits.max_bytes, url)
        pieces: list[bytes] = []
        raw = 0
        try:
            while data := reply.read():
                raw += len(data)
                pieces.append(unpack(data))
                if raw > self._limits.max_bytes:
                    return b"".join(pieces), f"only the first {self._limits.max_bytes:,} bytes were read"
        except _TooLargeError as error:
            pieces.append(error.data)
            return b"".join(pieces), f"only {UNPACKED * self._limits.max_bytes:,} bytes of it were decompressed"
        except HttpError as error:
            if error.kind == "late" and not pieces:
                raise
            late = f"the rest had not arrived after {self._limits.timeout:g} s"
            return b"".join(pieces), late if error.kind == "late" else "the connection was lost"
        except zlib.error:
            return b"".join(pieces), "the data is damaged"
        return b"".join(pieces), ""


class _TooLargeError(Exception):
    """A decompressed body exceeds its limit. data: the part of the last piece within the limit."""

    def __init__(self, data: bytes) -> None:
        self.data = data


def _target(url: Url, location: str) -> Url:
    """Return the target of a redirect. Raises ToolError."""
    # Header bytes are decoded as Latin-1 but are UTF-8.
    text = location.encode("latin-1", "replace").decode("utf-8", "replace").strip().replace(" ", "%20")
    try:
        return split_url(urljoin(url.text, text))
    except (ToolError, ValueError):
        raise ToolError(f"{url.text} redirects to an invalid web address.") from None


def _unpacker(encoding: str, most: int, url: Url) -> Callable[[bytes], bytes]:
    """Return an incremental decoder of a content encoding, which raises _TooLargeError beyond `most` bytes."""
    name = encoding.strip().lower().removeprefix("x-")
    if name in ("", "identity"):
        return lambda data: data
    if name not in ("gzip", "deflate"):
        raise ToolError(f"{url.host} responded in an encoding that was not requested ({name[:20]!r}).")
    made = 0
    # 47: zlib detects gzip or zlib by itself; a body declared as deflate may also be neither.
    stream = zlib.decompressobj(47)
    first = True

    def unpack(data: bytes) -> bytes:
        nonlocal made, stream, first
        if first and name == "deflate" and data[0] & 0x0F != 8:
            stream = zlib.decompressobj(-15)
        first = False
        pieces = []
        while data:
            pieces.append(stream.decompress(data, most - made + 1))
            made += len(pieces[-1])
            if made > most:
                raise _TooLargeError(b"".join(pieces)[: most - made])
            data = stream.unconsumed_tail
            if stream.eof:
                # A gzip file may have several members; zeros after the last are padding.
                data = stream.unused_data.lstrip(b"\0") if name == "gzip" else b""
                stream = zlib.decompressobj(47) if data else stream
        return b"".join(pieces)

    return unpack

"""The HTTP door: one POST with a JSON body, the answer as a stream of bytes.

It stands on http.client's response parser, because every client library costs more to import than a whole one-shot
run may. What it adds: every wait is bounded (connect, silence, total) and ends at once when the token is cancelled,
a connection is kept for the next request, and a kept one that the server has closed meanwhile is replaced unseen.
All waiting for bytes happens in `Line.receive`; cancelling shuts the socket down, which ends a blocked read even when
the signal handler runs in the very thread that reads.

HTTP's chunked transfer coding, taken apart in few steps, because a streamed answer has a chunk for each event.
"""

from __future__ import annotations

import io
import select
import socket
import ssl
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPResponse
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from agent_cli.core.results import Failure
from agent_cli.providers.base import ModelError
from agent_cli.providers.connect import dial_model, model_tls_context, network_error, route_to, shut_down
from agent_tools.cancel import CancelToken
from agent_tools.net.connect import Route
from agent_tools.record import Value

MOST_LINE = 65536


class ChunkedDecoder:
    """Feed it the raw body; it returns the content. `ended`: the last chunk and what may follow it were there."""

    def __init__(self) -> None:
        self.ended = False
        self._left = 0
        self._rest = b""
        self._last = False

    def feed(self, raw: bytes) -> bytes:
        """The content within `raw`. Raises HTTPException for what is not chunked coding."""
        raw = self._rest + raw if self._rest else raw
        self._rest = b""
        pieces: list[bytes] = []
        place = 0
        while True:
            if self._left:
                piece = raw[place : place + self._left]
                pieces.append(piece)
                place += len(piece)
                self._left -= len(piece)
                if self._left:
                    break
            end = raw.find(b"\n", place)
            if end < 0:
                self._rest = raw[place:]
                if len(self._rest) > MOST_LINE:
                    raise HTTPException("a chunk has no size")
                break
            line = raw[place:end]
            place = end + 1
            if self._last:
                # Trailers, up to the blank line.
                if line in (b"", b"\r"):
                    self.ended = True
                    break
            elif line not in (b"", b"\r"):
                # The blank lines are the ends of chunks; what follows a semicolon are extensions.
                try:
                    self._left = int(line.partition(b";")[0], 16)
                except ValueError:
                    raise HTTPException("a chunk has no size") from None
                if self._left < 0:
                    raise HTTPException("a chunk has no size")
                self._last = self._left == 0
        return b"".join(pieces) if len(pieces) != 1 else pieces[0]


PIECE = 65536
MOST_KEPT = 4
# A server that thinks for long sends signs of life; so many times the idle limit it may send nothing else.
KEEP_ALIVES = 5


class Timeouts(Value):
    """Seconds; 0 means no limit. `connect`: until the connection stands; `idle`: silence while an answer is awaited
    or read, and KEEP_ALIVES times that while nothing of use comes; `total`: the whole exchange."""

    connect: float = 10.0
    idle: float = 120.0
    total: float = 600.0


class ConnectionLostError(Exception):
    """The peer closed or reset the connection."""


class Connection:
    """A connected socket as http.client's parser sees it. `heard`: bytes came since the last request was sent."""

    def __init__(self, sock: socket.socket, host: str) -> None:
        self.sock = sock
        self.host = host
        self.heard = False
        self._idle = 0.0
        self._waited = 0.0
        self._total = 0.0
        self._until = float("inf")
        self._set: float | None = -1.0
        self._cancel = CancelToken()
        self._forget: Callable[[], None] = lambda: None

    def begin(self, cancel: CancelToken, idle: float, total: float, until: float) -> None:
        """Take part in a request: from now on waits obey these limits and this token."""
        self._cancel, self._idle, self._total, self._until = cancel, idle or float("inf"), total, until
        self.heard = False
        self._waited = 0.0
        self._forget = cancel.on_cancel(lambda: shut_down(self.sock))
        cancel.check()

    def end(self) -> None:
        """The request is over; the token no longer concerns this line."""
        self._forget()
        self._cancel = CancelToken()

    def hang_up(self) -> None:
        self._forget()
        self.sock.close()

    def check(self) -> None:
        self._cancel.check()

    def send(self, data: bytes) -> None:
        self._limit()
        try:
            self.sock.sendall(data)
        except TimeoutError as error:
            raise self._late() from error
        except OSError as error:
            self._cancel.check()
            raise ConnectionLostError from error

    def receive(self, buffer: Any) -> int:
        """Fill `buffer`; 0 at the end. Raises CancelledError, ModelError (too late) or Lost."""
        self._limit()
        started = monotonic()
        try:
            count = self.sock.recv_into(buffer)
        except TimeoutError as error:
            self._cancel.check()
            raise self._late() from error
        except OSError as error:
            self._cancel.check()
            raise ConnectionLostError from error
        if not count:
            self._cancel.check()
        else:
            self.heard = True
            self._waited += monotonic() - started
        return count

    def progress(self) -> None:
        """What was received was of use: the time that only keep-alives may take begins anew."""
        self._waited = 0.0

    def _limit(self) -> None:
        if self._waited > KEEP_ALIVES * self._idle:
            said = f"{self.host} sent nothing but keep-alives for {self._waited:.3g} s."
            raise network_error(said, retryable=False)
        wait = min(self._idle, self._until - monotonic())
        if wait <= 0:
            raise self._late()
        if wait != self._set:
            self._set = wait
            self.sock.settimeout(None if wait == float("inf") else wait)

    def _late(self) -> ModelError:
        if monotonic() >= self._until:
            return network_error(f"{self.host} took longer than {self._total:g} s for its answer.", retryable=False)
        return network_error(f"{self.host} sent nothing for {self._idle:g} s.")

    def makefile(self, mode: str) -> io.BufferedReader:
        """What http.client reads from."""
        return io.BufferedReader(_Reader(self), PIECE)

    def quiet(self) -> bool:
        """Whether an unused line looks alive: nothing to read, not even its end."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)

    def drained(self, body: Body) -> bool:
        """Read what is left of an answer, without waiting; whether its end was there."""
        self._idle, self._until, self._set = 0.001, float("inf"), None
        try:
            return any(not body.read() for _ in range(64))
        except (ModelError, HTTPException, ConnectionLostError):
            return False


class _Reader(io.RawIOBase):
    """Closing it leaves the line open, since the parser closes its file after each answer."""

    def __init__(self, line: Connection) -> None:
        self._line = line

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._line.receive(buffer)


class Body:
    """The body of an answer. Chunks are taken apart here: http.client does it with three reads for each."""

    def __init__(self, response: HTTPResponse) -> None:
        self.ended = False
        self.reusable = not response.will_close
        self._response = response
        self._file = response.fp
        self._chunks = ChunkedDecoder() if response.chunked else None

    def read(self) -> bytes:
        """What has arrived, waiting for at least a byte; nothing at the end. Raises what `Line.receive` does, and Lost
        when the end came too early."""
        if self._chunks is None:
            data = self._response.read1(PIECE)
            # With a length, http.client takes any end of the connection for the end of the answer.
            if not data and self._response.length:
                raise ConnectionLostError
            self.ended = not data
            return data
        data = b""
        while not data and not self._chunks.ended:
            raw = self._file.read1(PIECE)
            if not raw:
                raise ConnectionLostError
            data = self._chunks.feed(raw)
        self.ended = not data
        return data


class HttpResponse:
    """An answer whose head has come. `read` gives the body; `done` keeps the connection, `close` drops it."""

    def __init__(self, http: HttpPool, line: Connection, response: HTTPResponse) -> None:
        self.status = response.status
        self.host = line.host
        self._http = http
        self._line: Connection | None = line
        self._headers = response.headers
        self._body = Body(response)

    def header(self, name: str) -> str:
        """A header's value, or nothing."""
        return self._headers.get(name) or ""

    @property
    def content_type(self) -> str:
        return self.header("content-type").partition(";")[0].strip().lower()

    def read(self) -> bytes:
        """What has arrived, waiting for at least a byte; nothing at the end.

        Raises CancelledError, or ModelError (network) when the answer breaks off or takes too long.
        """
        if self._line is None:
            return b""
        try:
            data = self._body.read()
        except (HTTPException, ConnectionLostError) as error:
            self._line.check()
            raise network_error(f"The connection to {self.host} broke off in the middle of the answer.") from error
        if not data:
            self.done()
        return data

    def progress(self) -> None:
        """Tell that what was read last was part of an answer, not a keep-alive."""
        if self._line is not None:
            self._line.progress()

    def read_all(self, most: int) -> bytes:
        """The whole body, but not more than `most` bytes."""
        pieces: list[bytes] = []
        size = 0
        while size < most and (data := self.read()):
            pieces.append(data)
            size += len(data)
            if not data.isspace():
                self.progress()
        return b"".join(pieces)[:most]

    def done(self) -> None:
        """Nothing more is wanted from this answer: the connection may serve the next request."""
        line, self._line = self._line, None
        if line is not None:
            self._http.keep(line, self._body)

    def close(self) -> None:
        """End the exchange. An answer that was not read to its end takes its connection with it."""
        line, self._line = self._line, None
        if line is not None:
            line.hang_up()


class HttpPool:
    """POSTs to one URL, over connections it keeps. Safe to use from several threads."""

    def __init__(self, url: str, timeouts: Timeouts) -> None:
        self._url = url
        self._timeouts = timeouts
        self._kept: list[tuple[Connection, Body]] = []
        self._context: ssl.SSLContext | None = None

    def post(
        self, headers: Mapping[str, str], body: bytes, cancel: CancelToken, *, patient: bool = False
    ) -> HttpResponse:
        """Send `body` and wait for the head of the answer, whatever its status.

        patient: silence is bounded by the total time only, for answers that come in one piece.
        Raises CancelledError, or ModelError (network: unreachable, cut off, too late; malformed: not HTTP;
        bad_request: an unusable URL or header).
        """
        cancel.check()
        route = route_to(self._url)
        head = self._head(route, headers, len(body))
        limits = self._timeouts
        until = monotonic() + limits.total if limits.total else float("inf")
        idle = 0.0 if patient else limits.idle
        while True:
            line = self._take()
            reused = line is not None
            line = line or self._dial(route, cancel, until)
            try:
                line.begin(cancel, idle, limits.total, until)
                return HttpResponse(self, line, self._exchange(line, head, body))
            except ConnectionLostError as lost:
                line.hang_up()
                if not reused or line.heard:
                    message = f"{line.host} closed the connection before it answered."
                    raise network_error(message) from lost
            except HTTPException as error:
                line.hang_up()
                cancel.check()
                message = f"{line.host} did not answer in HTTP. Is the base URL right?"
                raise ModelError(Failure("malformed", message)) from error
            except BaseException:  # a line that broke off half-way must not be used again; the caller tells why
                line.hang_up()
                raise

    def keep(self, line: Connection, body: Body) -> None:
        """Put a line aside for the next request."""
        line.end()
        if body.reusable and len(self._kept) < MOST_KEPT:
            self._kept.append((line, body))
        else:
            line.hang_up()

    def close(self) -> None:
        """Drop the kept connections."""
        while self._kept:
            self._kept.pop()[0].hang_up()

    def _take(self) -> Connection | None:
        while self._kept:
            line, body = self._kept.pop()
            # The last bytes of an answer may have arrived only after its reader was satisfied.
            if (body.ended or line.drained(body)) and line.quiet():
                return line
            line.hang_up()
        return None

    def _dial(self, route: Route, cancel: CancelToken, until: float) -> Connection:
        if route.tls and self._context is None:
            self._context = model_tls_context()
        seconds = min(self._timeouts.connect or float("inf"), until - monotonic())
        sock = dial_model(route, self._context, 0 if seconds == float("inf") else max(seconds, 0.001), cancel)
        return Connection(sock, route.host)

    def _exchange(self, line: Connection, head: bytes, body: bytes) -> HTTPResponse:
        lost: ConnectionLostError | None = None
        try:
            # One packet for a small request, no copy of a large one.
            for part in (head + body,) if len(body) < PIECE else (head, body):
                line.send(part)
        except ConnectionLostError as error:
            # The server may have refused the request before it had read all of it.
            lost = error
        # The parser asks no more of a socket than makefile().
        response = HTTPResponse(line, method="POST")  # type: ignore[arg-type]
        try:
            response.begin()
        except (ConnectionLostError, ConnectionError) as error:
            raise lost or ConnectionLostError() from error
        return response

    def _head(self, route: Route, headers: Mapping[str, str], size: int) -> bytes:
        parts = urlsplit(self._url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        host = parts.netloc.rpartition("@")[2]
        lines = {"Host": host, "Accept-Encoding": "identity", "User-Agent": "agent-cli", **headers}
        lines["Content-Length"] = str(size)
        if route.proxy and not route.tls:
            target = f"http://{host}{target}"
            if route.proxy.authorization:
                lines["Proxy-Authorization"] = route.proxy.authorization
        try:
            for name, value in lines.items():
                if not f"{name}{value}".isprintable():
                    raise ValueError(name)
            head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            return f"POST {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1")
        except ValueError as error:
            message = "The base URL, the API key or a header has characters that cannot be sent over HTTP."
            raise ModelError(Failure("bad_request", message)) from error

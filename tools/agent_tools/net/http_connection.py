"""A connection of the HTTP client: receive bytes within time limits, and decode the body of a response.

All waiting for bytes is in `Connection.receive`; cancelling shuts the socket down, which ends a blocked read even if
the signal handler runs in the reading thread.
"""

from __future__ import annotations

import io
import select
import socket
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from time import monotonic
from typing import Any, Literal

from agent_tools.cancel import CancelToken
from agent_tools.net.connect import Route, shut_down

CHUNK_BYTES = 65536
MAX_CHUNK_LINE_BYTES = 65536
# A server may send nothing but keep-alives for this many times the idle limit, as while a model thinks.
MAX_KEEP_ALIVE_PERIODS = 5

HttpErrorKind = Literal["header", "connect", "closed", "cut", "late", "silent", "not_http"]


class HttpError(Exception):
    """There is no response, or only part of it; the message says why.

    kind: "header": the request cannot be sent; "connect": no connection; "closed": lost before the response;
    "cut": lost in the middle of it; "late": after `Timeouts.total`; "silent": for `Timeouts.idle`; "not_http".
    retryable: another try may succeed.
    """

    def __init__(self, kind: HttpErrorKind, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.retryable = retryable


class ConnectionLostError(Exception):
    """The peer closed or reset the connection."""


class Connection:
    """A connected socket for http.client's parser. received: bytes have arrived since the last request was sent."""

    def __init__(self, sock: socket.socket, route: Route) -> None:
        self.sock = sock
        self.route = route
        self.host = route.host
        self.received = False
        self._idle = 0.0
        self._waited = 0.0
        self._total = 0.0
        self._until = float("inf")
        self._timeout: float | None = -1.0
        self._cancel = CancelToken()
        self._forget: Callable[[], None] = lambda: None

    def begin(self, cancel: CancelToken, idle: float, total: float, until: float) -> None:
        """Start a request: waits obey these limits and this token from now on."""
        self._cancel, self._idle, self._total, self._until = cancel, idle or float("inf"), total, until
        self.received = False
        self._waited = 0.0
        self._forget = cancel.on_cancel(lambda: shut_down(self.sock))
        cancel.check()

    def end(self) -> None:
        """End the request: stop watching the token."""
        self._forget()
        self._cancel = CancelToken()

    def close(self) -> None:
        self._forget()
        self.sock.close()

    def check(self) -> None:
        self._cancel.check()

    def send(self, data: bytes) -> None:
        self._apply_limits()
        try:
            self.sock.sendall(data)
        except TimeoutError as error:
            raise self._timeout_error() from error
        except OSError as error:
            self._cancel.check()
            raise ConnectionLostError from error

    def receive(self, buffer: Any) -> int:
        """Fill `buffer`; return 0 at the end.

        Raises CancelledError, HttpError (late, silent) or ConnectionLostError.
        """
        self._apply_limits()
        started = monotonic()
        try:
            count = self.sock.recv_into(buffer)
        except TimeoutError as error:
            self._cancel.check()
            raise self._timeout_error() from error
        except OSError as error:
            self._cancel.check()
            raise ConnectionLostError from error
        if not count:
            self._cancel.check()
        else:
            self.received = True
            self._waited += monotonic() - started
        return count

    def progress(self) -> None:
        """Restart the time limit for keep-alives: content was received."""
        self._waited = 0.0

    def _apply_limits(self) -> None:
        if self._waited > MAX_KEEP_ALIVE_PERIODS * self._idle:
            text = f"{self.host} sent nothing but keep-alives for {self._waited:.3g} s."
            raise HttpError("silent", text)
        wait = min(self._idle, self._until - monotonic())
        if wait <= 0:
            raise self._timeout_error()
        if wait != self._timeout:
            self._timeout = wait
            self.sock.settimeout(None if wait == float("inf") else wait)

    def _timeout_error(self) -> HttpError:
        if monotonic() >= self._until:
            return HttpError("late", f"{self.host} took longer than {self._total:g} s to respond.")
        return HttpError("silent", f"{self.host} sent nothing for {self._idle:g} s.", retryable=True)

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return the file that http.client reads from."""
        return io.BufferedReader(_ConnectionReader(self), CHUNK_BYTES)

    def is_idle(self) -> bool:
        """Return True if an idle connection looks alive: nothing to read, not even its end."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)

    def drain(self, body: Body) -> bool:
        """Read the rest of a response without waiting; return True if its end had arrived."""
        self._idle, self._until, self._timeout = 0.001, float("inf"), None
        try:
            return any(not body.read() for _ in range(64))
        except (HttpError, HTTPException, ConnectionLostError):
            return False


class _ConnectionReader(io.RawIOBase):
    """A reader whose close leaves the connection open, since the parser closes its file after each response."""

    def __init__(self, line: Connection) -> None:
        self._line = line

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._line.receive(buffer)


class ChunkedBodyError(HTTPException):
    """A body is not in chunked coding. content: decoded from the same bytes before the error."""

    def __init__(self, content: bytes) -> None:
        super().__init__("a chunk has no size")
        self.content = content


class ChunkedDecoder:
    """Decoder of HTTP's chunked transfer coding; fast, because a streamed response has a chunk for each event.

    ended: the last chunk and its trailers have arrived.
    """

    def __init__(self) -> None:
        self.ended = False
        self._left = 0
        self._rest = b""
        self._last = False

    def feed(self, raw: bytes) -> bytes:
        """Decode the next raw bytes. Raises ChunkedBodyError if they are not chunked coding."""
        raw = self._rest + raw if self._rest else raw
        self._rest = b""
        pieces: list[bytes] = []
        position = 0
        while True:
            if self._left:
                piece = raw[position : position + self._left]
                pieces.append(piece)
                position += len(piece)
                self._left -= len(piece)
                if self._left:
                    break
            end = raw.find(b"\n", position)
            if end < 0:
                self._rest = raw[position:]
                if len(self._rest) > MAX_CHUNK_LINE_BYTES:
                    raise ChunkedBodyError(b"".join(pieces))
                break
            line = raw[position:end]
            position = end + 1
            if self._last:
                # Trailers, up to the blank line.
                if line in (b"", b"\r"):
                    self.ended = True
                    break
            elif line not in (b"", b"\r"):
                # Blank lines end chunks; extensions follow a semicolon.
                try:
                    self._left = int(line.partition(b";")[0], 16)
                except ValueError:
                    raise ChunkedBodyError(b"".join(pieces)) from None
                if self._left < 0:
                    raise ChunkedBodyError(b"".join(pieces))
                self._last = self._left == 0
        return b"".join(pieces) if len(pieces) != 1 else pieces[0]


class Body:
    """The body of a response. Decodes chunks itself, as http.client needs three reads for each."""

    def __init__(self, response: HTTPResponse) -> None:
        self.ended = False
        self.reusable = not response.will_close
        self._response = response
        self._file = response.fp
        self._chunks = ChunkedDecoder() if response.chunked else None
        self._error: ChunkedBodyError | None = None

    def read(self) -> bytes:
        """Return the bytes that have arrived, waiting for at least one; b"" at the end.

        Raises the errors of `Connection.receive`, HTTPException, and ConnectionLostError for a premature end.
        """
        if self._chunks is None:
            data = self._response.read1(CHUNK_BYTES)
            # With a length, http.client treats any end of the connection as the end of the response.
            if not data and self._response.length:
                raise ConnectionLostError
            self.ended = not data
            return data
        data = b""
        while not data and not self._chunks.ended:
            if self._error is not None:
                raise self._error
            raw = self._file.read1(CHUNK_BYTES)
            if not raw:
                raise ConnectionLostError
            try:
                data = self._chunks.feed(raw)
            except ChunkedBodyError as error:
                # Return the content before the error first.
                data, self._error = error.content, error
        self.ended = not data
        return data

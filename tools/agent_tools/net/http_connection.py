"""One connection of the HTTP client: bytes within time limits, and the body of an answer out of them.

All waiting for bytes happens in `Connection.receive`; cancelling shuts the socket down, which ends a blocked read even
when the signal handler runs in the very thread that reads.
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

PIECE = 65536
MOST_LINE = 65536
# A server that thinks for long sends signs of life; so many times the idle limit it may send nothing else.
KEEP_ALIVES = 5

HttpErrorKind = Literal["header", "connect", "closed", "cut", "late", "silent", "not_http"]


class HttpError(Exception):
    """There is no answer, or not the whole of it; the message is a sentence that says why.

    kind: "header": not a request that could be sent; "connect": no connection; "closed": before the answer;
    "cut": in the middle of it; "late": after `Timeouts.total`; "silent": for `Timeouts.idle`; "not_http".
    retryable: another try may succeed.
    """

    def __init__(self, kind: HttpErrorKind, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.retryable = retryable


class ConnectionLostError(Exception):
    """The peer closed or reset the connection."""


class Connection:
    """A connected socket as http.client's parser sees it. `heard`: bytes came since the last request was sent."""

    def __init__(self, sock: socket.socket, route: Route) -> None:
        self.sock = sock
        self.route = route
        self.host = route.host
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
        """Fill `buffer`; 0 at the end. Raises CancelledError, HttpError (late, silent) or ConnectionLostError."""
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
            raise HttpError("silent", said)
        wait = min(self._idle, self._until - monotonic())
        if wait <= 0:
            raise self._late()
        if wait != self._set:
            self._set = wait
            self.sock.settimeout(None if wait == float("inf") else wait)

    def _late(self) -> HttpError:
        if monotonic() >= self._until:
            return HttpError("late", f"{self.host} took longer than {self._total:g} s for its answer.")
        return HttpError("silent", f"{self.host} sent nothing for {self._idle:g} s.", retryable=True)

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
        except (HttpError, HTTPException, ConnectionLostError):
            return False


class _Reader(io.RawIOBase):
    """Closing it leaves the line open, since the parser closes its file after each answer."""

    def __init__(self, line: Connection) -> None:
        self._line = line

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._line.receive(buffer)


class ChunkedBodyError(HTTPException):
    """A body is not in chunked coding. content: what came of the same bytes before the mistake."""

    def __init__(self, content: bytes) -> None:
        super().__init__("a chunk has no size")
        self.content = content


class ChunkedDecoder:
    """HTTP's chunked transfer coding, taken apart in few steps, because a streamed answer has a chunk for each event.

    Feed it the raw body; it returns the content. `ended`: the last chunk and what may follow it were there.
    """

    def __init__(self) -> None:
        self.ended = False
        self._left = 0
        self._rest = b""
        self._last = False

    def feed(self, raw: bytes) -> bytes:
        """The content within `raw`. Raises ChunkedBodyError for what is not chunked coding."""
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
                    raise ChunkedBodyError(b"".join(pieces))
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
                    raise ChunkedBodyError(b"".join(pieces)) from None
                if self._left < 0:
                    raise ChunkedBodyError(b"".join(pieces))
                self._last = self._left == 0
        return b"".join(pieces) if len(pieces) != 1 else pieces[0]


class Body:
    """The body of an answer. Chunks are taken apart here: http.client does it with three reads for each."""

    def __init__(self, response: HTTPResponse) -> None:
        self.ended = False
        self.reusable = not response.will_close
        self._response = response
        self._file = response.fp
        self._chunks = ChunkedDecoder() if response.chunked else None
        self._mistake: ChunkedBodyError | None = None

    def read(self) -> bytes:
        """What has arrived, waiting for at least a byte; nothing at the end.

        Raises what `Connection.receive` does, HTTPException, and ConnectionLostError when the end came too early.
        """
        if self._chunks is None:
            data = self._response.read1(PIECE)
            # With a length, http.client takes any end of the connection for the end of the answer.
            if not data and self._response.length:
                raise ConnectionLostError
            self.ended = not data
            return data
        data = b""
        while not data and not self._chunks.ended:
            if self._mistake is not None:
                raise self._mistake
            raw = self._file.read1(PIECE)
            if not raw:
                raise ConnectionLostError
            try:
                data = self._chunks.feed(raw)
            except ChunkedBodyError as error:
                # What stood before the mistake is given out first.
                data, self._mistake = error.content, error
        self.ended = not data
        return data

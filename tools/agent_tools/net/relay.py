"""Serve connections to a listening socket, each in its own thread, and relay bytes between two sockets.

Made for servers of sandboxed commands: whatever such a command does with its end of a connection uses one thread at
most, for a limited time.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import threading
from collections.abc import Callable
from time import monotonic

from agent_tools.cancel import CancelToken
from agent_tools.net.connect import ConnectError, Route, dial, shut_down

PIECE = 65536
CONNECTIONS = 256
# How long a connection waits for another to end before it is rejected.
QUEUE_SECONDS = 10.0
CONNECT_SECONDS = 20.0
# For connections where one side has sent everything, or has disconnected, which looks the same.
HALF_CLOSED_SECONDS = 120.0
CLOSE_SECONDS = 5.0
_PASSING_FAULTS = (errno.ECONNABORTED, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EPROTO)


class RefusedError(Exception):
    """A connection is rejected. reply: sent to the client before closing."""

    def __init__(self, reply: bytes = b"") -> None:
        super().__init__(reply)
        self.reply = reply


class Filter:
    """Filter for one direction. The base class passes everything; both methods may raise RefusedError."""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to forward after `data` arrived."""
        return data

    def end(self) -> bytes:
        """Return the bytes to forward at the end."""
        return b""


class ConnectionServer:
    """Serves a listening socket, which it takes over, until it is closed. Subclasses implement `serve`."""

    # Reply to a client when there are too many connections.
    BUSY = b""

    def __init__(self, listener: socket.socket, name: str) -> None:
        # It comes from another process and may be inheritable.
        listener.set_inheritable(False)
        listener.setblocking(True)
        self.cancel = CancelToken()
        self._listener = listener
        self._name = name
        self._slots = threading.Semaphore(CONNECTIONS)
        self._serving: list[threading.Thread] = []
        # Closing alone does not end a blocked accept().
        self.cancel.on_cancel(lambda: shut_down(listener))
        self._accepting = self._start(self._accept)

    def serve(self, client: socket.socket) -> None:
        """Serve one connection, which the caller closes. May raise OSError, CancelledError or RefusedError."""
        raise NotImplementedError

    def close(self) -> None:
        """Close all connections and the listening socket, and stop the threads."""
        self.cancel.cancel("closed")
        until = monotonic() + CLOSE_SECONDS
        # This thread starts the others.
        self._accepting.join(CLOSE_SECONDS)
        for thread in self._serving:
            if thread is not threading.current_thread():
                thread.join(max(until - monotonic(), 0.0))
        self._listener.close()

    def _start(self, work: Callable[..., None], *args: object) -> threading.Thread:
        thread = threading.Thread(target=work, args=args, name=self._name, daemon=True)
        thread.start()
        return thread

    def _accept(self) -> None:
        while not self.cancel.cancelled:
            try:
                client, _ = self._listener.accept()
            except OSError as error:
                if error.errno not in _PASSING_FAULTS:
                    return
                self.cancel.wait(0.1)
                continue
            if not self._slots.acquire(timeout=QUEUE_SECONDS):
                _end(client, self.BUSY)
                continue
            try:
                alive = [thread for thread in self._serving if thread.is_alive()]
                self._serving = [*alive, self._start(self._serve, client)]
            except RuntimeError:  # no more threads
                self._slots.release()
                _end(client, self.BUSY)

    def _serve(self, client: socket.socket) -> None:
        forget = self.cancel.on_cancel(lambda: shut_down(client))
        try:
            self.serve(client)
            _end(client)
        except RefusedError as refused:
            _end(client, refused.reply)
        except ConnectionResetError:
            # A connection that was cut off must not look complete.
            with contextlib.suppress(OSError):
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        except Exception:  # noqa: BLE001 - whatever a client or a server does costs its own connection only
            _end(client)
        finally:
            forget()
            self._slots.release()


class PortForward(ConnectionServer):
    """Forwards connections to the socket that `connect` opens: by default, to `port` of this machine."""

    def __init__(
        self, listener: socket.socket, port: int, connect: Callable[[int], socket.socket] | None = None
    ) -> None:
        self._port = port
        self._connect = connect or self._here
        super().__init__(listener, f"forward-{port}")

    def _here(self, port: int) -> socket.socket:
        return dial(Route("127.0.0.1", port, False), None, CONNECT_SECONDS, self.cancel)

    def serve(self, client: socket.socket) -> None:
        try:
            server = self._connect(self._port)
        except (ConnectError, OSError):
            raise ConnectionResetError from None  # the closest equivalent to a refused connection
        with server:
            relay(client, server, self.cancel)


def relay(
    client: socket.socket,
    server: socket.socket,
    cancel: CancelToken,
    *,
    up: Filter | None = None,
    down: Filter | None = None,
    first: bytes = b"",
    idle: float | None = None,
) -> None:
    """Relay bytes both ways until both sides have ended, or nothing was sent for `idle` seconds.

    up, down: filters for bytes from and to the client.
    first: bytes already received from the client.
    The end of one direction is forwarded, and the other continues. The server's socket is shut down at the end. Raises
    RefusedError, ConnectionResetError, OSError.
    """
    forget = cancel.on_cancel(lambda: shut_down(server))
    try:
        client.setblocking(False)
        server.setblocking(False)
        ways = (_Way(client, server, up or Filter()), _Way(server, client, down or Filter()))
        if first:
            ways[0].take(first)
        while True:
            for way in ways:
                way.send()
            if all(way.ended for way in ways) or cancel.cancelled:
                return
            limit = HALF_CLOSED_SECONDS if any(way.ended for way in ways) else idle
            ready = _wait(ways, limit)
            if not ready:
                return
            for way in ways:
                if way.wants_more and way.source.fileno() in ready:
                    way.receive()
    finally:
        forget()
        # Effective even if a forked child has a copy of it.
        shut_down(server)


class _Way:
    """One direction. Buffers at most one chunk, besides those in its filter."""

    def __init__(self, source: socket.socket, target: socket.socket, passing: Filter) -> None:
        self.source = source
        self.target = target
        self.pending = bytearray()
        # The end was sent.
        self.ended = False
        self._passing = passing
        self._open = True

    @property
    def wants_more(self) -> bool:
        return self._open and not self.pending

    def take(self, data: bytes) -> None:
        self.pending += self._passing.feed(data)

    def receive(self) -> None:
        try:
            data = self.source.recv(PIECE)
        except BlockingIOError:
            return
        if data:
            self.take(data)
        else:
            self._open = False
            self.pending += self._passing.end()

    def send(self) -> None:
        """Send without blocking, and the end after the last bytes."""
        if self.ended:
            return
        try:
            if self.pending:
                del self.pending[: self.target.send(self.pending)]
            if not self._open and not self.pending:
                self.ended = True
                self.target.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            # The target stopped receiving, but bytes from it may still arrive.
            self._open, self.ended = False, True
            self.pending.clear()


def _wait(ways: tuple[_Way, ...], seconds: float | None) -> set[int]:
    """Return the descriptors that are ready; none if the time is up."""
    wanted: dict[int, int] = {}
    for way in ways:
        if way.pending:
            wanted[way.target.fileno()] = wanted.get(way.target.fileno(), 0) | select.POLLOUT
        elif way.wants_more:
            wanted[way.source.fileno()] = wanted.get(way.source.fileno(), 0) | select.POLLIN
    # Skip sockets without interest: they would report their end again and again.
    poll = select.poll()
    for descriptor, mask in wanted.items():
        poll.register(descriptor, mask)
    return {descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)}


def _end(client: socket.socket, reply: bytes = b"") -> None:
    """Send a last reply and close. Keep reading for a moment, or a client that is still sending may miss the reply."""
    try:
        if reply:
            until = monotonic() + 2.0
            client.settimeout(2.0)
            client.sendall(reply)
            client.shutdown(socket.SHUT_WR)
            while (left := until - monotonic()) > 0:
                client.settimeout(left)
                if not client.recv(PIECE):
                    break
    except OSError:
        pass
    finally:
        shut_down(client)
        client.close()

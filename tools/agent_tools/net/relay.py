"""Serve connections to a listening socket, each in its own thread, and relay bytes between two sockets.

For servers of sandboxed commands: whatever such a command does with its end of a connection occupies at most one
thread, for a limited time.
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

CHUNK_BYTES = 65536
MAX_CONNECTIONS = 256
# A connection waits this long for a free slot before it is rejected.
QUEUE_SECONDS = 10.0
CONNECT_SECONDS = 20.0
# Idle limit once one side has sent everything or has disconnected, which looks the same.
HALF_CLOSED_SECONDS = 120.0
CLOSE_SECONDS = 5.0
_TEMPORARY_ERRORS = (errno.ECONNABORTED, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EPROTO)


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
        # It may be inheritable, as it comes from another process.
        listener.set_inheritable(False)
        listener.setblocking(True)
        self.cancel = CancelToken()
        self._listener = listener
        self._name = name
        self._slots = threading.Semaphore(MAX_CONNECTIONS)
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
                if error.errno not in _TEMPORARY_ERRORS:
                    return
                self.cancel.wait(0.1)
                continue
            if not self._slots.acquire(timeout=QUEUE_SECONDS):
                _send_last(client, self.BUSY)
                continue
            try:
                alive = [thread for thread in self._serving if thread.is_alive()]
                self._serving = [*alive, self._start(self._serve, client)]
            except RuntimeError:  # no more threads
                self._slots.release()
                _send_last(client, self.BUSY)

    def _serve(self, client: socket.socket) -> None:
        forget = self.cancel.on_cancel(lambda: shut_down(client))
        try:
            self.serve(client)
            _send_last(client)
        except RefusedError as refused:
            _send_last(client, refused.reply)
        except ConnectionResetError:
            # A connection that was cut off must not look complete.
            with contextlib.suppress(OSError):
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        except Exception:  # noqa: BLE001 - a failure affects only its own connection
            _send_last(client)
        finally:
            forget()
            self._slots.release()


class PortForward(ConnectionServer):
    """Forwards connections to the socket that `connect` opens: by default, to `port` of this machine."""

    def __init__(
        self, listener: socket.socket, port: int, connect: Callable[[int], socket.socket] | None = None
    ) -> None:
        self._port = port
        self._connect = connect or self._connect_locally
        super().__init__(listener, f"forward-{port}")

    def _connect_locally(self, port: int) -> socket.socket:
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
        directions = (_Direction(client, server, up or Filter()), _Direction(server, client, down or Filter()))
        if first:
            directions[0].add(first)
        while True:
            for direction in directions:
                direction.send()
            if all(direction.ended for direction in directions) or cancel.cancelled:
                return
            limit = HALF_CLOSED_SECONDS if any(direction.ended for direction in directions) else idle
            ready = _wait(directions, limit)
            if not ready:
                return
            for direction in directions:
                if direction.wants_more and direction.source.fileno() in ready:
                    direction.receive()
    finally:
        forget()
        # Effective even if a forked child has a copy of it.
        shut_down(server)


class _Direction:
    """One direction of a relay. Buffers at most one chunk, apart from its filter."""

    def __init__(self, source: socket.socket, target: socket.socket, data_filter: Filter) -> None:
        self.source = source
        self.target = target
        self.pending = bytearray()
        # Its end was forwarded.
        self.ended = False
        self._filter = data_filter
        self._open = True

    @property
    def wants_more(self) -> bool:
        return self._open and not self.pending

    def add(self, data: bytes) -> None:
        self.pending += self._filter.feed(data)

    def receive(self) -> None:
        try:
            data = self.source.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        if data:
            self.add(data)
        else:
            self._open = False
            self.pending += self._filter.end()

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


def _wait(directions: tuple[_Direction, ...], seconds: float | None) -> set[int]:
    """Return the descriptors that are ready; none after a time-out."""
    wanted: dict[int, int] = {}
    for direction in directions:
        if direction.pending:
            wanted[direction.target.fileno()] = wanted.get(direction.target.fileno(), 0) | select.POLLOUT
        elif direction.wants_more:
            wanted[direction.source.fileno()] = wanted.get(direction.source.fileno(), 0) | select.POLLIN
    # Skip sockets without interest: they would report their end again and again.
    poll = select.poll()
    for descriptor, mask in wanted.items():
        poll.register(descriptor, mask)
    return {descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)}


def _send_last(client: socket.socket, reply: bytes = b"") -> None:
    """Send a last reply and close. Read on for a moment, or a client that is still sending may miss the reply."""
    try:
        if reply:
            until = monotonic() + 2.0
            client.settimeout(2.0)
            client.sendall(reply)
            client.shutdown(socket.SHUT_WR)
            while (left := until - monotonic()) > 0:
                client.settimeout(left)
                if not client.recv(CHUNK_BYTES):
                    break
    except OSError:
        pass
    finally:
        shut_down(client)
        client.close()

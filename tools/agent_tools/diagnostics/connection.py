"""A process that speaks JSON-RPC on its standard input and output, as language servers do; used by one thread."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from agent_tools.process.child import kill_group, start_child
from agent_tools.process.reaper import marked
from agent_tools.sandbox.conditions import Wrapped
from agent_tools.shell.process import end_strays

_LARGEST = 32 << 20
_GRACE = 0.5


class RpcLostError(Exception):
    """The process ended, or what it says cannot be understood; the message says which."""


class RpcConnection:
    """A started process. receive: gets each message. Only `wake` is thread-safe. Raises OSError."""

    def __init__(self, wrapped: Wrapped, cwd: str, memory: int, receive: Callable[[dict[str, Any]], None]) -> None:
        self._wrapped, self._receive = wrapped, receive
        self._mark = os.urandom(8).hex()
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = start_child(
            wrapped.argv,
            env=marked(wrapped.env, self._mark),
            memory=memory,
            cwd=cwd,
            bufsize=0,
            pass_fds=wrapped.pass_fds,
            **pipes,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self._input, self._output = self.process.stdin, self.process.stdout
        for stream in (self._input, self._output):
            os.set_blocking(stream.fileno(), False)
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._ear.setblocking(False)
        self._unsent, self._unread = bytearray(), bytearray()

    def wake(self) -> None:
        """Make a waiting `listen` return."""
        with suppress(OSError):
            self._bell.send(b"!")

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message; `listen` writes it."""
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        if len(self._unsent) > _LARGEST:
            raise RpcLostError("does not read what it is sent")
        self._unsent += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)

    def listen(self, seconds: float) -> None:
        """Write and read for up to `seconds`, until a message came or `wake` was called.

        Raises RpcLostError.
        """
        until = monotonic() + seconds
        while True:
            writers: list[Any] = [self._input] if self._unsent else []
            watched: list[Any] = [self._output, self._ear]
            readable, writable, _ = select.select(watched, writers, [], max(0, until - monotonic()))
            try:
                if writable:
                    del self._unsent[: os.write(self._input.fileno(), self._unsent[:65_536])]
                if self._output in readable:
                    self._take()
                    return
            except BlockingIOError:
                pass
            except OSError as error:
                raise RpcLostError(f"ended: {error}") from None
            if self._ear in readable:
                with suppress(OSError):
                    self._ear.recv(4_096)
                return
            if monotonic() >= until:
                return

    def _take(self) -> None:
        data = os.read(self._output.fileno(), 1 << 16)
        if not data:
            raise RpcLostError("ended by itself")
        self._unread += data
        while (end := self._unread.find(b"\r\n\r\n")) >= 0:
            size = _length(bytes(self._unread[:end]))
            start = end + 4
            if len(self._unread) < start + size:
                return
            body = bytes(self._unread[start : start + size])
            del self._unread[: start + size]
            try:
                message = json.loads(body)
            except (ValueError, RecursionError):
                raise RpcLostError("sent a message that is not JSON") from None
            if isinstance(message, dict):
                self._receive(message)
        if len(self._unread) > _LARGEST:
            raise RpcLostError("sent something that is not a message")

    def close(self, *, friendly: bool) -> None:
        """End the process and everything it started. friendly: it was asked to end, and gets a moment for that."""
        if friendly:
            with suppress(RpcLostError):
                self.listen(0)
            self._input.close()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_GRACE)
        if self.process.poll() is None:
            kill_group(self.process, signal.SIGKILL)
            self.process.wait()
        end_strays(self._mark)
        for stream in (self._input, self._output, self._bell, self._ear):
            with suppress(OSError):
                stream.close()
        self._wrapped.close()


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            size = int(value[:12])
            if size <= _LARGEST:
                return size
    raise RpcLostError("sent something that is not a message")

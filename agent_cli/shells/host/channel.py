"""The connection to a host program: JSON lines on standard input and output, with requests in both directions.

The format is Claude Code's stream-json, which the Claude Agent SDKs and editors speak. One thread reads; any thread may
write and wait for replies.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.record import Value
from agent_tools.text import new_uuid

_POLL_SECONDS = 0.05
Fields = dict[str, Any]


class HostRefusedError(Exception):
    """The host answered a request with an error; the message is its text."""


class HostClosedError(Exception):
    """The host closed its side before it answered."""


class BadLine(Value):
    """A line that is not a JSON object. number: of the line, counted from 1."""

    number: int


class ControlRequest(Value):
    """A request of the host. id: repeated in the answer."""

    id: str
    subtype: str
    fields: Fields


def lines_of(descriptor: int) -> Iterator[bytes]:
    """Yield the lines that arrive on a descriptor.

    This does not use a buffered stream: if a thread still reads at exit, its lock makes the interpreter crash.
    """
    rest = b""
    while chunk := os.read(descriptor, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else [rest + chunk]
        yield from lines
    if rest:
        yield rest


class HostChannel:
    """Lines from and to the host.

    source: the lines.
    write: writes an object as a line; it is never called by two threads at once.
    """

    def __init__(self, source: Iterable[bytes], write: Callable[[Fields], None]) -> None:
        self._source = source
        self._write = write
        self._writing = threading.RLock()
        self._waiting: dict[str, threading.Event] = {}
        self._replies: dict[str, Fields] = {}
        # Called with the reply to a posted request; None if the host refused, or closed its side.
        self._handlers: dict[str, Callable[[Fields | None], None]] = {}
        self.closed = False

    def read(self, handle: Callable[[ControlRequest | BadLine | Fields], None]) -> None:
        """Read to the end of the stream; replies wake their requests, all other lines go to `handle`."""
        try:
            for number, line in enumerate(self._source, 1):
                if not line.strip():
                    continue
                try:
                    data = json.loads(line)
                except (ValueError, RecursionError):
                    data = None
                if not isinstance(data, dict):
                    handle(BadLine(number))
                elif data.get("type") == "control_response":
                    self._take_reply(data.get("response"))
                elif data.get("type") == "control_request":
                    inner = data.get("request")
                    fields = inner if isinstance(inner, dict) else {}
                    handle(ControlRequest(str(data.get("request_id", "")), str(fields.get("subtype", "")), fields))
                else:
                    data.setdefault("type", "")
                    handle({**data, "line": number})
        except (OSError, ValueError):  # closed while it was read
            pass
        finally:
            self.closed = True
            for event in list(self._waiting.values()):
                event.set()
            for request_id in list(self._handlers):
                self._handlers.pop(request_id)(None)

    def _take_reply(self, response: Any) -> None:
        if not isinstance(response, dict):
            return
        request_id = str(response.get("request_id", ""))
        if (handler := self._handlers.pop(request_id, None)) is not None:
            answer = response.get("response")
            handler(answer if isinstance(answer, dict) and response.get("subtype") != "error" else None)
        elif (event := self._waiting.get(request_id)) is not None:
            self._replies[request_id] = response
            event.set()

    def send(self, fields: Fields) -> None:
        """Write one line. Raises OutputError, or BrokenPipeError if the host is gone."""
        with self._writing:
            self._write(fields)

    def request(
        self, subtype: str, fields: Fields, cancel: CancelToken | None = None, seconds: float | None = None
    ) -> Fields:
        """Send a request and wait for the reply.

        Raises HostRefusedError, HostClosedError, TimeoutError, CancelledError.

        cancel: withdraws the request when it is cancelled.
        seconds: how long to wait; None for no limit.
        """
        request_id = new_uuid()
        done = self._waiting[request_id] = threading.Event()
        try:
            self.send({"type": "control_request", "request_id": request_id, "request": {"subtype": subtype, **fields}})
            waited = 0.0
            # Poll, since a signal handler must be able to cancel without taking a lock.
            while not done.wait(_POLL_SECONDS):
                waited += _POLL_SECONDS
                if cancel is not None and cancel.cancelled:
                    self._withdraw(request_id)
                    raise CancelledError
                if seconds is not None and waited >= seconds:
                    self._withdraw(request_id)
                    raise TimeoutError(f"no answer within {seconds:g} s")
                if self.closed:
                    break
            reply = self._replies.pop(request_id, None)
        finally:
            del self._waiting[request_id]
        if reply is None:
            raise HostClosedError("The host closed its input before it answered.")
        if reply.get("subtype") == "error":
            raise HostRefusedError(str(reply.get("error") or "the host gave no reason"))
        answer = reply.get("response")
        return answer if isinstance(answer, dict) else {}

    def post(self, subtype: str, fields: Fields, handle: Callable[[Fields | None], None]) -> None:
        """Send a request without waiting; `handle` is called on the reading thread with the answer, or None."""
        request_id = new_uuid()
        self._handlers[request_id] = handle
        self.send({"type": "control_request", "request_id": request_id, "request": {"subtype": subtype, **fields}})

    def _withdraw(self, request_id: str) -> None:
        self.send({"type": "control_cancel_request", "request_id": request_id})

    def answer(self, request: ControlRequest, response: Fields) -> None:
        """Answer a request of the host."""
        self._respond({"subtype": "success", "request_id": request.id, "response": response})

    def refuse(self, request: ControlRequest, why: str) -> None:
        """Answer a request of the host with an error."""
        self._respond({"subtype": "error", "request_id": request.id, "error": why})

    def _respond(self, response: Fields) -> None:
        self.send({"type": "control_response", "response": response})

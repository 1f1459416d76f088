"""The line to a host program: JSON lines on standard input and output, with requests in both directions.

The format is that of Claude Code's stream-json, which the Claude Agent SDKs and editors speak. One thread reads; any
thread writes and waits for replies.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from agent_cli.core.messages import new_uuid
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.record import Value

_SLICE = 0.05
Fields = dict[str, Any]


class HostRefusedError(Exception):
    """The host answered a request with an error; the message is its text."""


class HostClosedError(Exception):
    """The host closed its side before it answered."""


class BadLine(Value):
    """A line that is no JSON object. number: of the line, from 1."""

    number: int


class ControlRequest(Value):
    """A request of the host. id: repeated by the answer."""

    id: str
    subtype: str
    fields: Fields


def lines_of(descriptor: int) -> Iterator[bytes]:
    """Yield the lines that arrive on a descriptor.

    Without a buffered stream: its lock, held by a thread that still reads, would end the interpreter with a crash.
    """
    rest = b""
    while chunk := os.read(descriptor, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else [rest + chunk]
        yield from lines
    if rest:
        yield rest


class HostChannel:
    """Lines from and to the host.

    source: the lines. write: writes one object as a line; calls are serialized here.
    """

    def __init__(self, source: Iterable[bytes], write: Callable[[Fields], None]) -> None:
        self._source = source
        self._write = write
        self._writing = threading.RLock()
        self._waiting: dict[str, threading.Event] = {}
        self._replies: dict[str, Fields] = {}
        # What takes a reply that nobody waits for: None if the host refused, or closed its side.
        self._takers: dict[str, Callable[[Fields | None], None]] = {}
        self.closed = False

    def read(self, take: Callable[[ControlRequest | BadLine | Fields], None]) -> None:
        """Read to the end of the stream; replies wake their requests, all else goes to `take`."""
        try:
            for number, line in enumerate(self._source, 1):
                if not line.strip():
                    continue
                try:
                    data = json.loads(line)
                except (ValueError, RecursionError):
                    data = None
                if not isinstance(data, dict):
                    take(BadLine(number))
                elif data.get("type") == "control_response":
                    self._take_reply(data.get("response"))
                elif data.get("type") == "control_request":
                    inner = data.get("request")
                    fields = inner if isinstance(inner, dict) else {}
                    take(ControlRequest(str(data.get("request_id", "")), str(fields.get("subtype", "")), fields))
                else:
                    data.setdefault("type", "")
                    take({**data, "line": number})
        except (OSError, ValueError):  # closed under the reading thread
            pass
        finally:
            self.closed = True
            for event in list(self._waiting.values()):
                event.set()
            for request_id in list(self._takers):
                self._takers.pop(request_id)(None)

    def _take_reply(self, response: Any) -> None:
        if not isinstance(response, dict):
            return
        request_id = str(response.get("request_id", ""))
        if (taker := self._takers.pop(request_id, None)) is not None:
            answer = response.get("response")
            taker(answer if isinstance(answer, dict) and response.get("subtype") != "error" else None)
        elif (event := self._waiting.get(request_id)) is not None:
            self._replies[request_id] = response
            event.set()

    def send(self, fields: Fields) -> None:
        """Write one line. Raises OutputError, or BrokenPipeError if the host has gone."""
        with self._writing:
            self._write(fields)

    def request(
        self, subtype: str, fields: Fields, cancel: CancelToken | None = None, seconds: float | None = None
    ) -> Fields:
        """Send a request and wait for the reply.

        cancel: withdraws the request. seconds: how long to wait; None for no limit. Raises HostRefusedError,
        HostClosedError, TimeoutError, CancelledError.
        """
        request_id = new_uuid()
        done = self._waiting[request_id] = threading.Event()
        try:
            self.send({"type": "control_request", "request_id": request_id, "request": {"subtype": subtype, **fields}})
            waited = 0.0
            # Waits in slices: a signal handler must be able to cancel without a lock.
            while not done.wait(_SLICE):
                waited += _SLICE
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

    def post(self, subtype: str, fields: Fields, take: Callable[[Fields | None], None]) -> None:
        """Send a request and return; `take` gets the answer on the reading thread, or None if there is none."""
        request_id = new_uuid()
        self._takers[request_id] = take
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

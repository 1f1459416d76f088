"""Requests from the process in a stage to the one outside, which alone sees the user's files: JSON lines over a socket.

A command in the stage has no way to the socket: it is not inherited.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from agent_tools.results import ToolError

# Numbers: the inherited socket, and the signals that are ignored until this process handles them.
VARIABLE = "AGENT_STAGE"
_ENDED = "The process outside the stage has ended: your project is unchanged, and the copy stays. Resume the session."


class StageClient:
    """The end inside. Thread-safe. Requests raise ToolError if the other end cannot do what it is asked."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._lock = threading.Lock()

    def request(self, do: str, **fields: Any) -> Any:
        """Return the answer to a request. Raises ToolError."""
        with self._lock:
            try:
                self._connection.sendall(json.dumps({"do": do, **fields}).encode() + b"\n")
                line = self._lines.readline()
            except OSError:
                line = b""
        if not line:
            raise ToolError(_ENDED)
        answer = json.loads(line)
        if "error" in answer:
            raise ToolError(answer["error"])
        return answer["answer"]


@cache
def current_stage() -> StageClient | None:
    """Return the connection of a process in a stage; None outside."""
    words = os.environ.pop(VARIABLE, "").split()
    if not words or not all(word.isdecimal() for word in words):
        return None
    number, *ignored = map(int, words)
    for name in ignored:
        signal.signal(name, signal.default_int_handler if name == signal.SIGINT else signal.SIG_DFL)
    os.set_inheritable(number, False)
    client = StageClient(socket.socket(fileno=number))
    client.request("begin", process=os.getpid())
    return client


def answer_requests(
    connection: socket.socket, actions: Mapping[str, Callable[..., Any]], errors: tuple[type[Exception], ...]
) -> None:
    """Answer requests until the other end closes. errors: what a request may raise; their text is the answer."""
    with connection, connection.makefile("rb") as lines:
        for line in lines:
            fields = json.loads(line)
            try:
                answer = {"answer": actions[fields.pop("do")](**fields)}
            except errors as error:
                answer = {"error": getattr(error, "strerror", None) or str(error)}
            try:
                connection.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                return

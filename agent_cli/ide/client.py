"""A connection to an editor: MCP's messages over a WebSocket on loopback, read by a thread.

The editor reports what is selected and what the user mentions. This program asks it for diagnostics, and to show files
and changes. Messages are read leniently: what is missing or unusual is left out.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLateError
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from agent_cli.ide.locks import IdeError, RunningEditor
from agent_cli.kernel.version import __version__
from agent_tools.record import Value
from agent_tools.text import one_line, shorten

PROTOCOL = "2025-03-26"
AUTHORIZATION = "x-claude-code-ide-authorization"
_MAX_MESSAGE_BYTES = 8 << 20
_OPEN_SECONDS, _CALL_SECONDS, _PING_SECONDS = 3.0, 5.0, 20.0
# It warns of connections that end, which must not reach the terminal.
logging.getLogger("websockets").addHandler(logging.NullHandler())
logging.getLogger("websockets").propagate = False


class Selection(Value):
    """What is selected in the editor. first, last: its lines, counted from 1. text: "" if a file is only open."""

    path: str
    text: str = ""
    first: int = 1
    last: int = 1


class Mention(Value):
    """What the user sends from the editor: a file, or its lines, counted from 1; 0 for the whole file."""

    path: str
    first: int = 0
    last: int = 0


class IdeClient:
    """One connection. selection: the latest; None before there was one. tools: names of those that the editor lists."""

    def __init__(self, editor: RunningEditor, on_mention: Callable[[Mention], None] = lambda mention: None) -> None:
        """Connect. Raises IdeError."""
        self.editor, self._on_mention = editor, on_mention
        self.selection: Selection | None = None
        self.tools: frozenset[str] = frozenset()
        self.closed = False
        self._guard = threading.Lock()
        self._pending: dict[int, Future[Any]] = {}
        self._last = 0
        self._open = ExitStack()
        try:
            opened = connect(
                f"ws://127.0.0.1:{editor.port}/",
                additional_headers={AUTHORIZATION: editor.token},
                subprotocols=["mcp"],  # type: ignore[list-item]
                compression=None,
                proxy=None,
                open_timeout=_OPEN_SECONDS,
                ping_interval=_PING_SECONDS,
                ping_timeout=_PING_SECONDS,
                close_timeout=1.0,
                max_size=_MAX_MESSAGE_BYTES,
                user_agent_header=f"agent/{__version__}",
            )
            self._socket: ClientConnection = self._open.enter_context(opened)
        except (OSError, WebSocketException, TooLateError) as error:
            raise IdeError(f"{editor.name} does not take the connection: {one_line(str(error))}.") from None
        threading.Thread(target=self._read, name="ide", daemon=True).start()
        try:
            self._shake_hands()
        except IdeError:
            self.close()
            raise

    def _shake_hands(self) -> None:
        client = {"name": "agent", "version": __version__}
        begin = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}
        self._wait(self._request("initialize", begin), _OPEN_SECONDS)
        self._notify("notifications/initialized", {})
        self._notify("ide_connected", {"pid": os.getpid()})
        listed = _table(self._wait(self._request("tools/list", {}), _OPEN_SECONDS)).get("tools")
        names = [_table(tool).get("name") for tool in listed] if isinstance(listed, list) else []
        self.tools = frozenset(name for name in names if isinstance(name, str))
        if "getCurrentSelection" in self.tools and self.selection is None:
            try:
                found = json.loads("".join(self.call("getCurrentSelection", {})[:1]))
            except (IdeError, ValueError):
                return
            self.selection = self.selection or read_selection(found)

    def call(self, tool: str, arguments: Mapping[str, Any], seconds: float = _CALL_SECONDS) -> list[str]:
        """Call a tool of the editor and return the texts of its result. Raises IdeError."""
        return result_texts(self._wait(self.begin_call(tool, arguments), seconds))

    def begin_call(self, tool: str, arguments: Mapping[str, Any]) -> Future[Any]:
        """Call a tool whose answer may take long. `result_texts` reads the result; an exception is an IdeError."""
        return self._request("tools/call", {"name": tool, "arguments": dict(arguments)})

    def _wait(self, future: Future[Any], seconds: float) -> Any:
        try:
            return future.result(seconds)
        except TooLateError:
            raise IdeError(f"{self.editor.name} does not answer.") from None

    def _request(self, method: str, params: dict[str, Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self._guard:
            self._last += 1
            number = self._last
            self._pending[number] = future
        self._send({"id": number, "method": method, "params": params})
        if self.closed:
            self._end()
        return future

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._socket.send(json.dumps({"jsonrpc": "2.0", **message}))
        except (OSError, WebSocketException):
            self._end()

    def _read(self) -> None:
        try:
            for data in self._socket:
                try:
                    message = json.loads(data)
                except (ValueError, RecursionError):
                    continue
                if isinstance(message, dict):
                    self._take(message)
        except (OSError, WebSocketException):
            pass
        finally:
            self._end()

    def _take(self, message: dict[str, Any]) -> None:
        method, number = message.get("method"), message.get("id")
        if isinstance(method, str) and number is not None:
            error = {"code": -32601, "message": "Method not found"}
            self._send({"id": number, **({"result": {}} if method == "ping" else {"error": error})})
        elif method == "selection_changed":
            self.selection = read_selection(message.get("params")) or self.selection
        elif method == "at_mentioned":
            if mention := _read_mention(message.get("params")):
                self._on_mention(mention)
        elif method is None and isinstance(number, int):
            with self._guard:
                future = self._pending.pop(number, None)
            if future is not None and "error" in message:
                why = _table(message["error"])
                said = " ".join(str(why[key]) for key in ("message", "data") if isinstance(why.get(key), str))
                future.set_exception(IdeError(f"{self.editor.name} answers: {shorten(one_line(said), 300)}."))
            elif future is not None:
                future.set_result(message.get("result"))

    def _end(self) -> None:
        self.closed = True
        with self._guard:
            waiting, self._pending = self._pending, {}
        for future in waiting.values():
            future.set_exception(IdeError(f"The connection to {self.editor.name} has ended."))

    def close(self) -> None:
        """End the connection."""
        self._end()
        with suppress(OSError, WebSocketException):
            self._open.close()


def result_texts(result: Any) -> list[str]:
    """Return the texts of a tool's result. Raises IdeError if it says that the call failed."""
    content = _table(result).get("content")
    blocks = [_table(block) for block in content] if isinstance(content, list) else []
    texts = [text for block in blocks if isinstance(text := block.get("text"), str)]
    if _table(result).get("isError") is True:
        raise IdeError(f"The editor answers: {shorten(one_line(' '.join(texts)), 300)}.")
    return texts


def read_selection(params: Any) -> Selection | None:
    """Return the selection that a message describes; None if it names no file."""
    data = _table(params)
    path = file_path(data.get("filePath") or data.get("fileUrl"))
    if not path:
        return None
    span, text = _table(data.get("selection")), data.get("text")
    first, last = _line(_table(span.get("start"))), _line(_table(span.get("end")))
    if not isinstance(text, str) or not text.strip() or span.get("isEmpty") is True:
        return Selection(path)
    if text.endswith("\n") and last > first:
        last -= 1  # whole lines end where the next one begins
    return Selection(path, text, first, max(first, last))


def _read_mention(params: Any) -> Mention | None:
    data = _table(params)
    path = file_path(data.get("filePath"))
    first, last = data.get("lineStart"), data.get("lineEnd")
    if not path or not isinstance(first, int):
        return Mention(path) if path else None
    return Mention(path, first + 1, max(first, last if isinstance(last, int) else first) + 1)


def file_path(text: Any) -> str:
    """Return the absolute path that an editor writes as a path or a file URI; "" for anything else."""
    if not isinstance(text, str):
        return ""
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    return text if text.startswith("/") and "\0" not in text and len(text) < 4_096 else ""


def _line(position: dict[str, Any]) -> int:
    line = position.get("line")
    return max(line, 0) + 1 if isinstance(line, int) else 1


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

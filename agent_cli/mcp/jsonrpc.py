"""JSON-RPC 2.0 with a server. Messages are read leniently: what is missing or unusual does not fail a request.

A message that cannot be read ends the request that it answers. If it is not known which one that is, it ends all.
"""

from __future__ import annotations

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

from agent_cli.mcp.catalog import McpRequestError, UnknownOutcomeError
from agent_tools.text import shorten

Message = dict[str, Any]
# The largest message, in bytes; and how many requests a server may have open at a time.
MAX_MESSAGE_BYTES = 16 << 20
_MAX_OPEN_REQUESTS = 100
# Where the id of an unreadable message is looked for, at its beginning and its end.
_EDGE_BYTES = 4_096
METHOD_NOT_FOUND, INTERNAL_ERROR = -32601, -32603
TOO_LONG = f"the answer has more than {MAX_MESSAGE_BYTES >> 20} MB, and was discarded"

_SCALAR = rb'(?:"(?:[^"\\]|\\.){0,200}"|-?[\d.eE+-]{1,30}|true|false|null)'
_MEMBER = rb'"(?:[^"\\]|\\.){1,100}"\s*:\s*' + _SCALAR
_ID = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,80}")'
# The id among the members before the first list or table, and after the last one.
_ID_AT_START = re.compile(rb"\s*\{\s*(?:" + _MEMBER + rb"\s*,\s*){0,10}?" + _ID)
_ID_AT_END = re.compile(_ID + rb"\s*(?:,\s*" + _MEMBER + rb"\s*){0,10}\}\s*$")


class RpcError(McpRequestError):
    """The other side answered with an error."""

    def __init__(self, message: str, code: int = 0, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class ConnectionEndedError(UnknownOutcomeError):
    """The connection ended before the answer."""


class Unreadable(NamedTuple):
    """A message that cannot be read. id: of the request that it answers; None if that is not known."""

    id: int | str | None
    why: str


class Wire(ABC):
    """What carries messages. version: of the protocol, for wires that name it in each message."""

    version = ""

    @abstractmethod
    def messages(self) -> AsyncIterator[Any]:
        """Yield each message as JSON data, or Unreadable, until the connection ends."""

    @abstractmethod
    async def send(self, message: Message) -> None:
        """Send a message. Raises OSError if the connection has ended."""

    def listed(self, tools: list[Any]) -> None:  # noqa: B027 - most wires do not need them
        """Take the tools that the server lists, for wires that need their schemas."""


def parse_message(line: bytes) -> Any:
    """Return the JSON data of a message, Unreadable, or None for other text, such as greetings and log lines."""
    if line.lstrip(b"\xef\xbb\xbf \t\r")[:1] not in (b"{", b"["):
        return None
    try:
        return json.loads(line.decode("utf-8-sig", "replace"), strict=False, parse_constant=lambda name: None)
    except RecursionError:
        why = "the answer is nested too deeply to be read"
    except ValueError:
        why = "the answer cannot be read, since it is not valid JSON"
    return unreadable(line[:_EDGE_BYTES], line[-_EDGE_BYTES:], why)


def unreadable(start: bytes, end: bytes, why: str) -> Unreadable | None:
    """Return an unreadable message by its beginning and its end; None if it does not look like a message."""
    found = _ID_AT_START.match(start) or _ID_AT_END.search(end)
    if found is None and b'"jsonrpc"' not in start + end:
        return None
    return Unreadable(_key(json.loads(found[1])) if found is not None else None, why)


def _key(number: Any) -> int | str | None:
    """Return an id in the form of our own: some servers answer with "7" or 7.0 to 7."""
    if isinstance(number, str):
        return int(number) if number.isascii() and number.isdecimal() and len(number) < 19 else number
    if isinstance(number, float) and number.is_integer():
        return int(number)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


class _Open(NamedTuple):
    """A request without an answer yet."""

    reply: asyncio.Future[Any]
    on_progress: Callable[[str], None] | None


class Peer:
    """Our end of a connection. All methods run on one event loop."""

    def __init__(
        self,
        wire: Wire,
        on_request: Callable[[str, Message], Awaitable[Any]],
        on_notification: Callable[[str, Message], None],
    ) -> None:
        """on_request: answers a request of the server with a result, or raises RpcError."""
        self.wire = wire
        self._on_request = on_request
        self._on_notification = on_notification
        self._open: dict[int | str, _Open] = {}
        self._answering: dict[Any, asyncio.Task[None]] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._last = 0
        self.ended = asyncio.Event()

    async def run(self) -> None:
        """Read messages until the connection ends; then every open request fails."""
        try:
            async for message in self.wire.messages():
                for part in message if isinstance(message, list) else [message]:
                    self._take(part)
        finally:
            self.ended.set()
            self._fail_all(ConnectionEndedError("the connection was closed before the answer"))
            for task in (*self._answering.values(), *self._sending):
                task.cancel()

    async def request(
        self,
        method: str,
        params: Message,
        *,
        on_progress: Callable[[str], None] | None = None,
        cancellable: bool = True,
    ) -> Any:
        """Send a request and return the result, as it was sent. Raises McpRequestError.

        on_progress: called with progress, as text.
        cancellable: tell the server if the caller gives up.
        """
        self._last += 1
        number = self._last
        if on_progress is not None:
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": number}}
        message = {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params else {})}
        reply = asyncio.get_running_loop().create_future()
        self._open[number] = _Open(reply, on_progress)
        try:
            if self.ended.is_set():
                raise ConnectionEndedError("the connection is closed")
            try:
                await self.wire.send(message)
            except OSError as error:
                raise ConnectionEndedError(f"the connection is closed: {error.strerror or error}") from None
            return await reply
        except asyncio.CancelledError:
            if cancellable and not self.ended.is_set():
                self._send_later("notifications/cancelled", {"requestId": number, "reason": "caller cancelled"})
            raise
        finally:
            del self._open[number]

    async def notify(self, method: str, params: Message | None = None) -> None:
        """Send a notification; it is dropped if the connection has ended."""
        with suppress(OSError):
            await self.wire.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    def _send_later(self, method: str, params: Message) -> None:
        task = asyncio.get_running_loop().create_task(self.notify(method, params))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def _take(self, message: Any) -> None:
        if isinstance(message, Unreadable):
            self._fail(message.id, UnknownOutcomeError(message.why))
            return
        if not isinstance(message, dict):
            return
        method, number, params = message.get("method"), message.get("id"), message.get("params")
        given = params if isinstance(params, dict) else {}
        if isinstance(method, str):
            if "jsonrpc" not in message:
                return  # a line of a log, perhaps
            if number is None:
                self._notified(method, given)
            else:
                self._requested(number, method, given)
        elif (error := message.get("error")) or (error is not None and "result" not in message):
            self._fail(_key(number), _error_of(error))
        elif "result" in message or "jsonrpc" in message:
            opened = self._open.get(_key(number) or 0)
            if opened is not None and not opened.reply.done():
                opened.reply.set_result(message.get("result"))

    def _fail(self, number: int | str | None, error: McpRequestError) -> None:
        if number is None:
            self._fail_all(error)
        elif (opened := self._open.get(number)) is not None and not opened.reply.done():
            opened.reply.set_exception(error)

    def _fail_all(self, error: McpRequestError) -> None:
        for opened in self._open.values():
            if not opened.reply.done():
                opened.reply.set_exception(error)

    def _notified(self, method: str, params: Message) -> None:
        if method == "notifications/progress":
            opened = self._open.get(_key(params.get("progressToken")) or 0)
            if opened is not None and opened.on_progress is not None:
                opened.on_progress(_progress(params))
        elif method == "notifications/cancelled":
            if (task := self._answering.get(_key(params.get("requestId")))) is not None:
                task.cancel()
        else:
            self._on_notification(method, params)

    def _requested(self, number: Any, method: str, params: Message) -> None:
        if not isinstance(number, int | float | str) or len(self._answering) >= _MAX_OPEN_REQUESTS:
            return
        task = asyncio.get_running_loop().create_task(self._answer(number, method, params))
        self._answering[_key(number)] = task
        task.add_done_callback(lambda done: self._answering.pop(_key(number), None))

    async def _answer(self, number: Any, method: str, params: Message) -> None:
        try:
            answer: Message = {"result": await self._on_request(method, params)}
        except RpcError as error:
            answer = {"error": {"code": error.code, "message": str(error)}}
        except Exception:  # noqa: BLE001 - an error of ours must not leave the server waiting
            answer = {"error": {"code": INTERNAL_ERROR, "message": "the request failed"}}
        with suppress(OSError):
            await self.wire.send({"jsonrpc": "2.0", "id": number, **answer})


def _error_of(error: Any) -> RpcError:
    """Return an error of any form."""
    if not isinstance(error, dict):
        return RpcError(error if isinstance(error, str) else _json(error))
    message, code = error.get("message"), error.get("code")
    text = message if isinstance(message, str) and message else _json(error)
    return RpcError(text, code if isinstance(code, int) else 0, error.get("data"))


def _json(data: Any) -> str:
    return shorten(json.dumps(data, ensure_ascii=False), 500)


def _progress(params: Message) -> str:
    done, total, message = params.get("progress"), params.get("total"), params.get("message")
    numbers = [f"{n:g}" for n in (done, total or None) if isinstance(n, int | float) and not isinstance(n, bool)]
    share = "/".join(numbers)
    return (f"{message} ({share})" if share else message) if isinstance(message, str) and message else share

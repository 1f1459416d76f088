"""Messages of servers over HTTP, by the SDK's transports. No other file but `oauth` uses the SDK's client.

Answers have the same size limit as lines from a process.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import httpx2
import mcp_types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage

from agent_cli.config.schema import McpServer
from agent_cli.mcp.jsonrpc import MAX_MESSAGE_BYTES, TOO_LONG, Message, Unreadable, Wire

# How much a compressed answer may grow; compression is never requested.
_MAX_COMPRESSION_RATIO = 1_000
_UNPACKED = ("gzip", "deflate")
_CONNECT_SECONDS = 30.0


class MessageTooLongError(httpx2.StreamError):
    """An answer exceeds the size limit."""


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._most = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._most:
                raise MessageTooLongError(TOO_LONG)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _limit_response(response: httpx2.Response) -> None:
    packed = response.headers.get("content-encoding", "identity").lower() != "identity"
    if packed and response.headers["content-encoding"].strip().lower() not in _UNPACKED:
        # Other encodings, or several at once, grow without such a limit: the answer stays packed, and is no JSON.
        del response.headers["content-encoding"]
    if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        return
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _LimitedStream(
        response.stream, MAX_MESSAGE_BYTES // _MAX_COMPRESSION_RATIO if packed else MAX_MESSAGE_BYTES
    )


def make_client(
    headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
) -> httpx2.AsyncClient:
    """Return an HTTP client as the SDK expects it."""
    # No read timeout: the caller limits the time of an answer.
    timeout = timeout or httpx2.Timeout(_CONNECT_SECONDS, read=None)
    client = create_mcp_http_client({"Accept-Encoding": "identity", **(headers or {})}, timeout, auth)
    client.event_hooks["response"].append(_limit_response)
    return client


# The SDK logs errors of servers with tracebacks, which must not reach the terminal.
for _name in ("mcp", "client", "httpx2", "httpcore2"):
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False
# How the transports begin an error of their own about an answer that they could not read to its end.
_UNREADABLE = ("Failed to parse", "SSE stream")


class HttpWire(Wire):
    """The messages of a server over HTTP."""

    def __init__(self, streams: Any, *, one_stream: bool) -> None:
        """streams: of the transport. one_stream: all answers come on one stream."""
        self._read, self._write = streams
        self._one_stream = one_stream
        self._header_maps: dict[str, Any] = {}

    def listed(self, tools: list[Any]) -> None:
        """Take the listed tools: some arguments go into headers, if the schema says so."""
        for tool in tools:
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                try:
                    self._header_maps[tool["name"]] = x_mcp_header_map(tool.get("inputSchema"))
                except (TypeError, ValueError, AttributeError, RecursionError):
                    continue

    async def messages(self) -> AsyncIterator[Any]:
        try:
            async for item in self._read:
                if isinstance(item, Exception):
                    if self._one_stream:
                        yield Unreadable(None, "the answer cannot be read")
                else:
                    yield _plain(item.message)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return

    async def send(self, message: Message) -> None:
        model = mcp_types.jsonrpc_message_adapter.validate_python(message, by_name=False)
        headers = self._headers(message)
        try:
            await self._write.send(SessionMessage(model, ClientMessageMetadata(headers=headers) if headers else None))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise ConnectionError("it was closed") from None

    def _headers(self, message: Message) -> dict[str, str]:
        """Return the headers that the protocol requires for a message."""
        method = message.get("method")
        if method is None or method == "initialize":
            return {}
        params = message.get("params", {})
        version = params.get("_meta", {}).get(mcp_types.PROTOCOL_VERSION_META_KEY)
        if version is None:
            return {MCP_PROTOCOL_VERSION_HEADER: self.version} if self.version else {}
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            if method == "tools/call" and (found := self._header_maps.get(name)):
                headers |= mcp_param_headers(found, params.get("arguments") or {})
        return headers


def _plain(message: Any) -> Any:
    """Return a message of the SDK as JSON data."""
    if isinstance(message, mcp_types.JSONRPCResponse):
        return {"jsonrpc": "2.0", "id": message.id, "result": message.result}
    if isinstance(message, mcp_types.JSONRPCError):
        error = message.error
        if message.id is not None and error.message.startswith(_UNREADABLE):
            why = TOO_LONG if TOO_LONG in error.message else "the answer cannot be read to its end"
            return Unreadable(message.id, why)
        return {"jsonrpc": "2.0", "id": message.id, "error": error.model_dump(mode="json", exclude_none=True)}
    return message.model_dump(mode="json", by_alias=True, exclude_unset=True)


@asynccontextmanager
async def http_pipe(
    server: McpServer, kind: str, auth: Any, answered: Callable[[int], None]
) -> AsyncGenerator[HttpWire, None]:
    """Connect to a server by streamable HTTP, or by `sse`.

    auth: adds the login to requests. answered: called with the status of each answer.
    """

    async def report_status(response: Any) -> None:
        answered(response.status_code)

    def http_client(headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        http = make_client(headers, timeout, auth)
        http.event_hooks["response"].append(report_status)
        return http

    async with AsyncExitStack() as stack:
        if kind == "sse":
            transport: Any = sse_client(server.url, dict(server.headers), httpx_client_factory=http_client, auth=auth)
        else:
            http = await stack.enter_async_context(http_client(dict(server.headers), auth=auth))
            transport = streamable_http_client(server.url, http_client=http, max_sse_event_size=MAX_MESSAGE_BYTES)
        yield HttpWire(await stack.enter_async_context(transport), one_stream=kind == "sse")

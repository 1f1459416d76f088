"""The HTTP client for servers: an answer has the bounds that a line of a process has.

An event stream may be as long as it likes; the SDK bounds each event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
from mcp.shared._httpx_utils import create_mcp_http_client

from agent_cli.extensions.mcp.pipes import LINE_LIMIT

# Unpacked an answer may be so many times as large; nobody is asked to pack one.
_PACKED = 1_000
_CONNECT = 30.0


class MessageTooLongError(httpx2.StreamError):
    """More than is read of an answer."""


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream = stream
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._most:
                raise MessageTooLongError(f"the answer has more than {LINE_LIMIT >> 20} MB, and was dropped")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: httpx2.Response) -> None:
    if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        return
    packed = response.headers.get("content-encoding", "identity").lower() != "identity"
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream, LINE_LIMIT // _PACKED if packed else LINE_LIMIT)


def make_client(
    headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
) -> httpx2.AsyncClient:
    """A client as the SDK wants one."""
    # How long an answer may take is bounded where it is waited for.
    timeout = timeout or httpx2.Timeout(_CONNECT, read=None)
    client = create_mcp_http_client({"Accept-Encoding": "identity", **(headers or {})}, timeout, auth)
    client.event_hooks["response"].append(_bound)
    return client

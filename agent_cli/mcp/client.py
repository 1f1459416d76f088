"""One connection to a server, with plain data on our side. No other file uses the SDK's client.

Runs on the loop's thread only. A server may request the workspace directories, and ask the user a question during a
call. Sampling (use of our model) is not offered.

Also the HTTP client for servers, whose answers have the same size limit as lines from a process.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from agent_cli.config.schema import McpServer
from agent_cli.core.host_servers import HostServers
from agent_cli.core.version import __version__
from agent_cli.mcp.catalog import McpRequestError
from agent_cli.mcp.stdio import MAX_LINE_BYTES, ServerProcess, host_pipe, pipe
from agent_tools.text import shorten

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
                raise MessageTooLongError(f"the answer has more than {MAX_LINE_BYTES >> 20} MB, and was discarded")
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
        response.stream, MAX_LINE_BYTES // _MAX_COMPRESSION_RATIO if packed else MAX_LINE_BYTES
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


MAX_LISTED = 2_000
_MAX_PAGES = 50
Elicit = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
TextListener = Callable[[str], None]
# The SDK logs errors of servers with tracebacks, which must not reach the terminal.
for _name in ("mcp", "client", "httpx2", "httpcore2", "asyncio"):
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False


class McpConnection:
    """An open connection. Every method may raise McpRequestError."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.protocol = client.protocol_version
        self.instructions = client.instructions or ""
        info = client.server_info
        self.about = f"{info.name} {info.version}".strip() if info is not None else ""

    async def tools(self) -> list[dict[str, Any]]:
        return await self._all("tools", self._client.list_tools, "tools")

    async def prompts(self) -> list[dict[str, Any]]:
        return await self._all("prompts", self._client.list_prompts, "prompts")

    async def resources(self) -> list[dict[str, Any]]:
        return await self._all("resources", self._client.list_resources, "resources")

    async def _all(self, capability: str, ask: Callable[..., Awaitable[Any]], field: str) -> list[dict[str, Any]]:
        if getattr(self._client.server_capabilities, capability, None) is None:
            return []
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await _await_answer(ask(cursor=cursor, cache_mode="refresh"))
            found += [_plain(entry) for entry in getattr(page, field)]
            cursor = page.next_cursor
            if cursor is None or len(found) >= MAX_LISTED:
                break
        return found[:MAX_LISTED]

    async def call(self, tool: str, arguments: dict[str, Any], on_progress: TextListener) -> dict[str, Any]:
        """Call a tool and return the answer in the form of the protocol. on_progress: called with progress, as text."""

        async def report(progress: float, total: float | None, message: str | None) -> None:
            share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
            on_progress(f"{message} ({share})" if message else share)

        return _plain(await _await_answer(self._client.call_tool(tool, arguments, progress_callback=report)))

    async def read(self, uri: str) -> dict[str, Any]:
        return _plain(await _await_answer(self._client.read_resource(uri)))

    async def prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        return _plain(await _await_answer(self._client.get_prompt(name, arguments)))

    async def listen(self, changed: TextListener) -> None:
        """Report changed lists until the stream ends, if the server's protocol has one."""
        # After an error there are no more notifications, which does no harm.
        with suppress(Exception):
            async with self._client.listen(
                tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
            ) as events:
                async for event in events:
                    changed(type(event).__name__)


async def _await_answer(answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except MCPError as error:
        raise McpRequestError(error.error.message) from None
    except ValidationError:
        raise McpRequestError("its answer does not follow the protocol") from None
    except (RuntimeError, OSError) as error:
        raise McpRequestError(str(error) or type(error).__name__) from None


def _plain(model: Any) -> dict[str, Any]:
    data: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return data


@asynccontextmanager
async def connected(
    server: McpServer,
    kind: str,
    *,
    env: Mapping[str, str],
    cwd: Path,
    roots: tuple[Path, ...],
    process: ServerProcess,
    gone: Callable[[], None],
    elicit: Elicit,
    changed: TextListener,
    auth: Any = None,
    answered: Callable[[int], None] = lambda status: None,
    name: str = "",
    host: HostServers | None = None,
) -> AsyncGenerator[McpConnection, None]:
    """Connect to a server whose declaration has its variables substituted.

    Raises errors of the connection, which `reason` describes.

    process: receives the state of a server that runs as a process.
    gone: called when the server's output ends.
    elicit: asks the user a question of the server.
    changed: called when the server reports a changed list.
    auth: adds the login to HTTP requests.
    answered: called with the status of each HTTP answer.
    name: of a server in the host process.
    host: the host process.
    """
    if kind == "sdk" and host is None:
        raise ConnectionError(None, "it is a server of a host process, and there is none")

    async def list_roots(context: Any) -> mcp_types.ListRootsResult:
        return mcp_types.ListRootsResult(
            roots=[mcp_types.Root(uri=path.as_uri(), name=path.name) for path in roots]  # type: ignore[arg-type]
        )

    async def ask_user(context: Any, params: Any) -> mcp_types.ElicitResult:
        return mcp_types.ElicitResult(**await elicit(_plain(params)))

    async def on_message(message: Any) -> None:
        method = getattr(message, "method", "")
        if method.endswith("/list_changed"):
            changed(method)

    async def report_status(response: Any) -> None:
        answered(response.status_code)

    def http_client(headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        http = make_client(headers, timeout, auth)
        http.event_hooks["response"].append(report_status)
        return http

    async with AsyncExitStack() as stack, anyio.create_task_group() as group:
        if host is not None and kind == "sdk":
            transport: Any = host_pipe(name, host, gone)
        elif kind == "stdio":
            transport = pipe([server.command, *server.args], env, cwd, process, gone)
        elif kind == "sse":
            transport = sse_client(server.url, dict(server.headers), httpx_client_factory=http_client, auth=auth)
        else:
            http = await stack.enter_async_context(http_client(dict(server.headers), auth=auth))
            transport = streamable_http_client(server.url, http_client=http, max_sse_event_size=MAX_LINE_BYTES)
        client = Client(
            transport,
            elicitation_callback=ask_user,
            list_roots_callback=list_roots,
            # Without a sampling callback the SDK does not declare the capability.
            message_handler=on_message,
            client_info=mcp_types.Implementation(name="agent", version=__version__),
            # A host may answer nothing before the handshake.
            mode="legacy" if kind == "sdk" else "auto",
        )
        async with client:
            link = McpConnection(client)
            group.start_soon(link.listen, changed)
            yield link
            group.cancel_scope.cancel()


def reason(error: BaseException) -> str:
    """Return why a connection failed, on one line; the text may come from the server."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return shorten(_describe(error), 300)


def _describe(error: BaseException) -> str:
    if isinstance(error, MCPError):
        return error.error.message
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

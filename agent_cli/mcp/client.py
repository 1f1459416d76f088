"""A connection to a server: the handshake, our requests, and those of the server. Runs on the loop's thread only.

Results are passed on as the server sent them. A server may request the workspace directories, and ask the user a
question during a call. Sampling (use of our model) is not offered.

Since the protocol of July 2026 a connection begins with `server/discover`; before, it began with `initialize`. Of the
servers from before, some end at an unknown request, and some stay silent. So a process that ends is started again with
`initialize`, and beside one that stays silent a second is started so; the first to answer is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

from agent_cli.config.schema import McpServer
from agent_cli.kernel.host_servers import HostServers
from agent_cli.kernel.version import __version__
from agent_cli.mcp.catalog import McpRequestError
from agent_cli.mcp.jsonrpc import METHOD_NOT_FOUND, ConnectionEndedError, Message, Peer, RpcError, Wire
from agent_cli.mcp.stdio import ServerProcess, host_pipe, pipe
from agent_tools.lazy import lazy_imports
from agent_tools.text import shorten

with lazy_imports():
    from agent_cli.mcp import http_transport

# How long a process may be silent before a second one is started with `initialize`.
SECOND_START_SECONDS = 2.0
# How long to wait for the answer to `server/discover` before `initialize` is sent on the same connection.
DISCOVER_SECONDS = 10.0
MAX_LISTED = 2_000
_MAX_PAGES = 50
_MAX_INPUT_ROUNDS = 10
_STATE_PAUSE_SECONDS = 0.1

DISCOVER_PROTOCOL = "2026-07-28"
INITIALIZE_PROTOCOLS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_HEADER_MISMATCH, _UNSUPPORTED_PROTOCOL = -32020, -32022
_META = "io.modelcontextprotocol/"
_CLIENT_INFO = {"name": "agent", "version": __version__}
# Without sampling.
_CAPABILITIES: Message = {"roots": {"listChanged": True}, "elicitation": {"form": {}, "url": {}}}
# How a server's connection begins; "" if that is not known.
Era = Literal["", "discover", "initialize"]
Elicit = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
TextListener = Callable[[str], None]


class McpConnection:
    """An open connection. Every request may raise McpRequestError.

    era: how it began.
    protocol: the version of the protocol.
    about: name and version of the server.
    process: the server's process, if it has one.
    """

    def __init__(
        self,
        wire: Wire,
        roots: Iterable[Path],
        elicit: Elicit,
        changed: TextListener,
        process: ServerProcess | None = None,
    ) -> None:
        self._wire = wire
        self._roots = [{"uri": path.as_uri(), "name": path.name} for path in roots]
        self._elicit = elicit
        self._changed = changed
        self._peer = Peer(wire, self._on_request, self._on_notification)
        self._capabilities: Message = {}
        self.process = process
        self.era: Era = ""
        self.protocol = self.instructions = self.about = ""

    async def run(self) -> None:
        """Read messages until the connection ends."""
        await self._peer.run()

    async def wait_ended(self) -> None:
        """Wait until the connection has ended."""
        await self._peer.ended.wait()

    # The handshake.

    async def negotiate(self) -> None:
        """Begin with `server/discover`, and with `initialize` if the server does not know that."""
        try:
            async with asyncio.timeout(DISCOVER_SECONDS):
                if await self._discover():
                    return
        except TimeoutError:
            pass
        except ConnectionEndedError:
            raise
        except McpRequestError as error:
            versions = _supported(error)
            if versions and not any(version in INITIALIZE_PROTOCOLS for version in versions):
                raise
        await self.initialize()

    async def _discover(self) -> bool:
        """Begin as since July 2026; return False if the server does not speak that protocol."""
        answer = await self._peer.request("server/discover", self._with_meta({}), cancellable=False)
        found = answer if isinstance(answer, dict) else {}
        versions = found.get("supportedVersions")
        if not isinstance(versions, list) or DISCOVER_PROTOCOL not in versions:
            return False
        meta = found.get("_meta")
        info = meta.get(f"{_META}serverInfo") if isinstance(meta, dict) else None
        self._adopt("discover", DISCOVER_PROTOCOL, found, info)
        return True

    async def initialize(self) -> None:
        """Begin as before July 2026, unless the server refuses that and names the newer protocol."""
        params = {
            "protocolVersion": INITIALIZE_PROTOCOLS[-1],
            "capabilities": _CAPABILITIES,
            "clientInfo": _CLIENT_INFO,
        }
        try:
            answer = await self._peer.request("initialize", params, cancellable=False)
        except RpcError as error:
            # It was replaced by a newer one, or has taken a request before whose answer came too late.
            if DISCOVER_PROTOCOL in _supported(error) and await self._discover():
                return
            raise
        if not isinstance(answer, dict):
            raise McpRequestError("its answer to initialize does not follow the protocol")
        version = answer.get("protocolVersion")
        self._adopt("initialize", version if isinstance(version, str) else "", answer, answer.get("serverInfo"))
        self._wire.version = self.protocol
        await self._peer.notify("notifications/initialized")

    def _adopt(self, era: Era, protocol: str, answer: Message, info: Any) -> None:
        self.era, self.protocol = era, protocol
        capabilities, instructions = answer.get("capabilities"), answer.get("instructions")
        self._capabilities = capabilities if isinstance(capabilities, dict) else {}
        self.instructions = instructions if isinstance(instructions, str) else ""
        named = info if isinstance(info, dict) else {}
        self.about = " ".join(str(named[key]) for key in ("name", "version") if named.get(key))

    # Requests.

    def _with_meta(self, params: Message) -> Message:
        """Return parameters as the protocol of July 2026 has them."""
        meta = {"protocolVersion": DISCOVER_PROTOCOL, "clientInfo": _CLIENT_INFO, "clientCapabilities": _CAPABILITIES}
        return {**params, "_meta": {f"{_META}{name}": value for name, value in meta.items()}}

    async def _request(self, method: str, params: Message, on_progress: TextListener | None = None) -> Any:
        """Send a request, and answer what the server asks before it answers."""
        if self.era != "discover":
            return await self._peer.request(method, params, on_progress=on_progress)
        more: Message = {}
        for _ in range(_MAX_INPUT_ROUNDS):
            result = await self._peer.request(method, self._with_meta({**params, **more}), on_progress=on_progress)
            if not isinstance(result, dict) or result.get("resultType") != "input_required":
                return result
            asked = result.get("inputRequests")
            more = {"requestState": result["requestState"]} if result.get("requestState") is not None else {}
            if isinstance(asked, dict) and asked:
                more["inputResponses"] = {key: await self._input(request) for key, request in asked.items()}
            else:
                await asyncio.sleep(_STATE_PAUSE_SECONDS)
        raise McpRequestError(f"it asked for input more than {_MAX_INPUT_ROUNDS} times")

    async def _input(self, request: Any) -> Any:
        given = request if isinstance(request, dict) else {}
        params = given.get("params")
        return await self._on_request(str(given.get("method")), params if isinstance(params, dict) else {})

    async def tools(self) -> list[Any]:
        tools = await self._all("tools", "tools/list", "tools")
        self._wire.listed(tools)
        return tools

    async def prompts(self) -> list[Any]:
        return await self._all("prompts", "prompts/list", "prompts")

    async def resources(self) -> list[Any]:
        return await self._all("resources", "resources/list", "resources")

    async def _all(self, capability: str, method: str, field: str) -> list[Any]:
        """Return a list that comes in pages, as the server sent it."""
        if self._capabilities.get(capability) is None:
            return []
        found: list[Any] = []
        cursor: Any = None
        for _ in range(_MAX_PAGES):
            page = await self._request(method, {"cursor": cursor} if cursor is not None else {})
            entries = page.get(field) if isinstance(page, dict) else page
            if not isinstance(entries, list):
                raise McpRequestError(f"its answer to {method} is not a list of {field}")
            found += entries
            cursor = page.get("nextCursor") if isinstance(page, dict) else None
            if not cursor or len(found) >= MAX_LISTED:
                break
        return found[:MAX_LISTED]

    async def call(self, tool: str, arguments: dict[str, Any], on_progress: TextListener) -> Any:
        """Call a tool and return the result, as the server sent it. on_progress: called with progress, as text."""
        params = {"name": tool, "arguments": arguments}
        try:
            return await self._request("tools/call", params, on_progress)
        except RpcError as error:
            if error.code != _HEADER_MISMATCH or self.era != "discover":
                raise
        # The schema says which arguments are repeated in headers, and has changed.
        await self.tools()
        return await self._request("tools/call", params, on_progress)

    async def read(self, uri: str) -> Any:
        return await self._request("resources/read", {"uri": uri})

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        return await self._request("prompts/get", {"name": name, "arguments": arguments})

    async def listen(self) -> None:
        """Have changed lists reported until the connection ends, if the protocol has a request for that."""
        if self.era == "discover":
            kinds = ("toolsListChanged", "promptsListChanged", "resourcesListChanged")
            # After an error there are no more notifications, which does no harm.
            with suppress(McpRequestError):
                wanted = {"notifications": dict.fromkeys(kinds, True)}
                await self._peer.request("subscriptions/listen", self._with_meta(wanted))

    # What the server sends.

    def _on_notification(self, method: str, params: Message) -> None:
        if method.endswith("/list_changed"):
            self._changed(method)

    async def _on_request(self, method: str, params: Message) -> Any:
        if method == "ping":
            return {}
        if method == "roots/list":
            return {"roots": self._roots}
        if method == "elicitation/create":
            return await self._elicit(params)
        if method == "sampling/createMessage":
            raise RpcError("Sampling not supported", METHOD_NOT_FOUND)
        raise RpcError("Method not found", METHOD_NOT_FOUND)


def _supported(error: McpRequestError) -> list[Any]:
    """Return the versions that a server names when it refuses one; none for another error."""
    data = error.data if isinstance(error, RpcError) and error.code == _UNSUPPORTED_PROTOCOL else None
    versions = data.get("supported") if isinstance(data, dict) else None
    return versions if isinstance(versions, list) else []


class _Attempt:
    """A connection that is opened in the background.

    link: the connection once the handshake is done, or why it failed.
    """

    def __init__(
        self,
        wire: AbstractAsyncContextManager[Wire],
        connection: Callable[[Wire], McpConnection],
        handshake: Callable[[McpConnection], Awaitable[None]],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.link: asyncio.Future[McpConnection] = loop.create_future()
        self._left = asyncio.Event()
        self._task = loop.create_task(self._run(wire, connection, handshake))

    async def _run(
        self,
        opened: AbstractAsyncContextManager[Wire],
        connection: Callable[[Wire], McpConnection],
        handshake: Callable[[McpConnection], Awaitable[None]],
    ) -> None:
        try:
            async with opened as wire:
                link = connection(wire)
                reading = asyncio.create_task(link.run())
                try:
                    await handshake(link)
                    self.link.set_result(link)
                    await self._left.wait()
                finally:
                    reading.cancel()
        except BaseException as error:
            if not self.link.done():
                self.link.set_exception(
                    ConnectionEndedError("it was ended") if isinstance(error, asyncio.CancelledError) else error
                )
            # An error of an open connection ends the reading, which is what its user waits for.
            if isinstance(error, asyncio.CancelledError):
                raise

    def stop(self) -> None:
        """Close the connection in the background."""
        self._left.set()
        if not self.link.done():
            self._task.cancel()

    async def closed(self) -> None:
        """Close the connection, and wait for that."""
        self.stop()
        await asyncio.wait([self._task])


async def _first_link(attempts: list[_Attempt], begin: Callable[[Era], _Attempt], era: Era) -> McpConnection:
    """Return the connection to a process, started a second time if need be. Raises the error of the last attempt.

    begin: starts a process, and the handshake. era: how the server was seen to begin.
    """
    other: Era = "initialize" if era != "initialize" else "discover"
    patience = {"": SECOND_START_SECONDS, "discover": DISCOVER_SECONDS, "initialize": None}[era]
    first = begin(era)
    await asyncio.wait([first.link], timeout=patience)
    if first.link.done() and not isinstance(first.link.exception(), ConnectionEndedError):
        return first.link.result()
    begin(other)
    open_links = {attempt.link for attempt in attempts}
    while True:
        done, open_links = await asyncio.wait(open_links, return_when=asyncio.FIRST_COMPLETED)
        for attempt in attempts:
            if attempt.link in done and attempt.link.exception() is None:
                for loser in attempts:
                    if loser is not attempt:
                        loser.stop()
                return attempt.link.result()
        if not open_links:
            return attempts[-1].link.result()


@asynccontextmanager
async def connected(
    server: McpServer,
    kind: str,
    *,
    env: Mapping[str, str],
    cwd: Path,
    roots: tuple[Path, ...],
    new_process: Callable[[], ServerProcess],
    gone: Callable[[], None],
    elicit: Elicit,
    changed: TextListener,
    auth: Any = None,
    answered: Callable[[int], None] = lambda status: None,
    name: str = "",
    host: HostServers | None = None,
    era: Era = "",
    launched: Callable[[], None] = lambda: None,
) -> AsyncGenerator[McpConnection, None]:
    """Connect to a server whose declaration has its variables substituted.

    Raises errors of the connection, which `reason` describes.

    new_process: returns what receives the state of a process that is started.
    gone: called when the connection ends by itself.
    elicit: asks the user a question of the server.
    changed: called when the server reports a changed list.
    auth: adds the login to HTTP requests.
    answered: called with the status of each HTTP answer.
    name: of a server in the host process.
    host: the host process.
    era: how the server was seen to begin.
    launched: called when the server's process is started, or the first request to it sent.
    """
    if kind == "sdk" and host is None:
        raise ConnectionError(None, "it is a server of a host process, and there is none")
    attempts: list[_Attempt] = []
    connection = partial(McpConnection, roots=roots, elicit=elicit, changed=changed)

    def begin(era: Era) -> _Attempt:
        handshake = McpConnection.initialize if era == "initialize" else McpConnection.negotiate
        made: AbstractAsyncContextManager[Any]
        if kind == "stdio":
            process = new_process()
            made = pipe([server.command, *server.args], env, cwd, process)
            attempts.append(_Attempt(made, partial(connection, process=process), handshake))
        else:
            if kind == "sdk" and host is not None:
                made = host_pipe(name, host)
            else:
                made = http_transport.http_pipe(server, kind, auth, answered)
            attempts.append(_Attempt(made, connection, handshake))
        launched()
        return attempts[-1]

    tasks: list[asyncio.Task[None]] = []
    try:
        if kind == "stdio" and not server.legacy:
            link = await _first_link(attempts, begin, era)
        else:
            # A host may answer nothing before `initialize`.
            only = begin("initialize" if kind == "sdk" or server.legacy else "")
            # Awaiting the future itself would cancel it with the caller.
            await asyncio.wait([only.link])
            link = only.link.result()

        async def watch() -> None:
            await link.wait_ended()
            gone()

        tasks += [asyncio.create_task(watch()), asyncio.create_task(link.listen())]
        yield link
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*(attempt.closed() for attempt in attempts))


def reason(error: BaseException) -> str:
    """Return why a connection failed, on one line; the text may come from the server."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return shorten(_describe(error), 300)


def _describe(error: BaseException) -> str:
    if isinstance(error, McpRequestError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

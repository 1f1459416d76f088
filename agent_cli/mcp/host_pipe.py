"""The transport of a server in the host process: JSON-RPC objects through the host's channel, instead of a process."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import mcp_types
from mcp.shared.message import SessionMessage

from agent_cli.core.host_servers import HostServers, Message

_ENDS = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError)


@asynccontextmanager
async def host_pipe(name: str, host: HostServers, gone: Callable[[], None]) -> AsyncGenerator[Any, None]:
    """Yield the two message streams of the host's server. gone: called when the host reports its end."""
    loop = asyncio.get_running_loop()
    into, messages = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    outgoing, written = anyio.create_memory_object_stream[SessionMessage](0)

    def deliver(message: Message | None) -> None:
        if message is None:
            into.close()
            gone()
        elif (read := _read(message)) is not None:
            with suppress(*_ENDS):
                into.send_nowait(read)

    def receive(message: Message | None) -> None:
        # Messages that come after the loop has ended have no reader.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(deliver, message)

    async def write() -> None:
        with suppress(*_ENDS):
            async with written:
                async for message in written:
                    try:
                        host.send(name, message.message.model_dump(mode="json", by_alias=True, exclude_unset=True))
                    except Exception:  # noqa: BLE001 - the host's own function; its end is that of this server
                        deliver(None)
                        return

    host.attach(name, receive)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(write)
            try:
                yield messages, outgoing
            finally:
                messages.close()
                outgoing.close()
                group.cancel_scope.cancel()
    finally:
        host.detach(name, receive)
        into.close()


def _read(message: Message) -> SessionMessage | None:
    """Return a message of the host; an error for a malformed answer, None for others that are no messages."""
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_python(message, by_name=False))
    except ValueError:
        number = message.get("id")
        if not isinstance(number, int | str) or "method" in message:
            return None
        error = mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message="its answer does not follow the protocol")
        return SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=number, error=error))

"""`agent mcp serve`: our tools for another program, each call under the same permissions as in a one-shot run.

Importing it imports the engine and the MCP SDK; it is the only user of the SDK's server.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import mcp_types
from mcp.server import Server
from mcp.server.stdio import stdio_server

from agent_cli import Config, ToolCall, __version__
from agent_cli.cli.commands.tools import open_tool_box, warn_of_call
from agent_cli.kernel.runtime.tool_box import ToolRun
from agent_tools.cancel import CancelToken

CallTool = Callable[[str, dict[str, Any], CancelToken], Any]


def serve(specs: Sequence[tuple[str, str, dict[str, Any]]], call: CallTool) -> None:
    """Serve until the input ends or a signal comes.

    specs: name, description and schema of each tool.
    call: runs a tool and returns an object with `text`, `is_error` and `media`.
    """
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    logging.getLogger("mcp").propagate = False
    tools = [mcp_types.Tool(name=n, description=d, input_schema=s) for n, d, s in specs]

    async def on_list(ctx: Any, params: Any) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(tools=tools)

    async def on_call(ctx: Any, params: Any) -> mcp_types.CallToolResult:
        token = CancelToken()
        try:
            ran = await anyio.to_thread.run_sync(
                lambda: call(params.name, dict(params.arguments or {}), token), abandon_on_cancel=True
            )
        except anyio.get_cancelled_exc_class():
            token.cancel()
            raise
        content: list[Any] = [mcp_types.TextContent(type="text", text=ran.text)]
        for media in ran.media:
            if media.kind == "image":
                content.append(mcp_types.ImageContent(type="image", data=media.data, mime_type=media.mime))
        return mcp_types.CallToolResult(content=content, is_error=ran.is_error)

    server: Server[Any] = Server("agent", version=__version__, on_list_tools=on_list, on_call_tool=on_call)

    async def run() -> None:
        async with anyio.create_task_group() as group:

            async def until_signal() -> None:
                with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                    async for _ in signals:
                        group.cancel_scope.cancel()

            group.start_soon(until_signal)
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
            group.cancel_scope.cancel()

    anyio.run(run)


def serve_tools(config: Config) -> int:
    """Serve until the client closes the connection; return the exit code. Raises UsageError."""
    here = open_tool_box(config, extensions=False)
    specs = here.specs()
    lock = threading.Lock()

    def call(name: str, arguments: dict[str, Any], cancel: CancelToken) -> ToolRun:
        if name not in {spec.name for spec in specs}:
            return ToolRun(f"Unknown tool {name!r}.", True)
        with lock:
            here.context.cancel = cancel
            return here.run(ToolCall("call", name, arguments), warn_of_call)

    try:
        serve([(s.name, s.description, s.schema) for s in specs], call)
    finally:
        here.close()
    return 0

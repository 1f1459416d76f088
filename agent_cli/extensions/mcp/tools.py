"""A server's tool as a tool of the session: the same permission, events and limits as for our own."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from agent_cli.extensions.mcp.offers import McpRequestError, Offer
from agent_cli.extensions.mcp.server import Server
from agent_tools.base import Effect, Outcome, Progress, Tool, ToolContext, ToolError, ToolResult
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.clipping import one_line, shorten
from agent_tools.display import Note
from agent_tools.inert import inert
from agent_tools.values import Value

if TYPE_CHECKING:
    from concurrent.futures import Future

_BETWEEN = 0.2


class McpArgs(Value):
    """The arguments of a server's tool, as they go to it; the server is who checks them."""

    arguments: dict[str, Any]


class McpTool(Tool[McpArgs]):
    """One tool of one server. What it says of itself, such as that it only reads, allows nothing."""

    Args = McpArgs

    def __init__(self, server: Server, offer: Offer) -> None:
        self.server = server
        self.offer = offer
        self.name = offer.full
        self.told = offer.description or f"A tool of the MCP server {offer.server}."

    def schema(self) -> dict[str, Any]:
        return self.offer.schema

    def read(self, arguments: dict[str, Any]) -> McpArgs:
        return McpArgs(arguments)

    def effects(self, args: McpArgs, ctx: ToolContext) -> tuple[Effect, ...]:
        return (Effect("call", f"{self.offer.server}: {one_line(self.offer.name)}"),)

    def summary(self, args: McpArgs, ctx: ToolContext) -> str:
        said = ", ".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in args.arguments.items())
        return f"{self.offer.server}: {shorten(self.offer.name, 60)}({shorten(said, 100) if said else ''})"

    def preview(self, args: McpArgs, ctx: ToolContext) -> Note | None:
        text = json.dumps(args.arguments, ensure_ascii=False, indent=1) if args.arguments else ""
        hint = "it says of itself that it only reads" if self.offer.read_only else ""
        return Note(inert("\n".join(filter(None, [text, hint])))) if text or hint else None

    def run(self, args: McpArgs, ctx: ToolContext) -> Outcome:
        return self._steps(args, ctx)

    def _steps(self, args: McpArgs, ctx: ToolContext) -> Generator[Any, Any, ToolResult]:
        wait_for(self.server, ctx.cancel)
        self._check()
        # What only a call needs; most runs make none.
        from concurrent.futures import CancelledError as FutureCancelledError
        from concurrent.futures import InvalidStateError
        from queue import SimpleQueue

        from agent_cli.extensions.mcp.forms import answer_form
        from agent_cli.extensions.mcp.results import mcp_result

        inbox: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        call = self.server.call(self.offer.name, args.arguments, lambda kind, what: inbox.put((kind, what)))
        call.add_done_callback(lambda done: inbox.put(("done", None)))
        undo = ctx.cancel.on_cancel(lambda: inbox.put(("cancel", None)))
        told = 0.0
        try:
            while True:
                kind, what = inbox.get()
                if kind == "done":
                    break
                if kind == "cancel":
                    raise CancelledError
                if kind == "ask":
                    params, reply = what
                    said = yield from answer_form(self.server.name, params)
                    # The server may have stopped waiting meanwhile.
                    with suppress(InvalidStateError):
                        reply.set_result(said)
                elif (now := time.monotonic()) - told >= _BETWEEN:
                    told = now
                    yield Progress(f"{shorten(str(what), 200)}\n")
            return mcp_result(call.result(), self.server.name, ctx)
        except McpRequestError as refused:
            text = shorten(inert(str(refused)), 2_000)
            raise ToolError(f"The MCP server {self.server.name} could not do this: {text}") from None
        except FutureCancelledError:
            raise ToolError(f"The MCP server {self.server.name} was ended before it answered.") from None
        finally:
            undo()
            call.cancel()

    def _check(self) -> None:
        """Raises ToolError where the tool is not what was agreed to any more."""
        if self.server.status == "ready" and self.server.tools.get(self.name) != self.offer:
            why = self.server.withheld.get(self.name)
            said = (
                "has changed since it was approved; only the user can approve it" if why else "is not as it was listed"
            )
            raise ToolError(f"The tool {self.name} {said}.")


def wait_for(server: Server, cancel: CancelToken) -> None:
    """Wait for a server that is being started. Raises CancelledError, and ToolError where it does not come up."""
    if server.status == "waiting":
        server.start()
    while server.status == "starting" and not server.wait(0.05):
        cancel.check()
    if server.status != "ready":
        raise ToolError(f"The MCP server {server.name} is not there ({server.reason or server.status}).")


def _cancel(future: Future[Any]) -> None:
    future.cancel()


def result_within(future: Future[Any], cancel: CancelToken, name: str) -> Any:
    """The result of a request that is no call. Raises CancelledError and ToolError."""
    from concurrent.futures import CancelledError as FutureCancelledError

    undo = cancel.on_cancel(partial(_cancel, future))
    try:
        return future.result()
    except McpRequestError as refused:
        raise ToolError(f"The MCP server {name}: {shorten(inert(str(refused)), 500)}") from None
    except FutureCancelledError:
        cancel.check()
        raise ToolError(f"The MCP server {name} was ended before it answered.") from None
    finally:
        undo()

"""The package of the protocol, loaded at a third of its cost: the editor waits for the first answer.

Its schema has hundreds of models. Pydantic would build a validator for each on import, after it parsed the package's
source for docstrings that nothing here reads. Both are switched off while the schema loads; a model is built on first
use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pydantic

_config = pydantic.ConfigDict


# A ConfigDict is a plain dict with known keys.
def _deferred(**given: Any) -> Any:
    return {**given, "defer_build": True, "use_attribute_docstrings": False}


pydantic.ConfigDict = _deferred  # type: ignore[assignment,misc]
try:
    from acp.agent.router import build_agent_router
    from acp.connection import Connection
    from acp.exceptions import RequestError
    from acp.meta import PROTOCOL_VERSION
    from acp.router import Route
finally:
    pydantic.ConfigDict = _config  # type: ignore[misc]

ValidationError = pydantic.ValidationError
# Of JSON-RPC.
_INVALID_REQUEST_CODE = -32600


class _Messages:
    """The transport of an editor. A line that is not a JSON object is skipped, and does not end the connection."""

    def __init__(self, transport: Any, reader: Any) -> None:
        self._transport, self._reader = transport, reader
        self.send, self.close = transport.send, transport.close

    async def receive(self) -> dict[str, Any] | None:
        # The package returns None for a line `null` as well as at the end.
        while not isinstance(message := await self._transport.receive(), dict):
            if message is None and self._reader.at_eof():
                return None
        return message


class AgentConnection(Connection):
    """A connection that reports the requests of the editor by their IDs, and outlives its malformed messages.

    began, ended: called before a request is handled, with its method and parameters, and when it was answered.
    """

    began: Callable[[Any, str, Any], None]
    ended: Callable[[Any], None]

    def __init__(
        self,
        handler: Callable[[str, Any, bool], Awaitable[Any]],
        writer: Any,
        reader: Any,
    ) -> None:
        super().__init__(handler, writer, reader, listening=False)
        self._transport = _Messages(self._transport, reader)

    def _handle_response(self, message: dict[str, Any]) -> None:
        error = message.get("error")
        if isinstance(message["id"], int | str):
            super()._handle_response(message if isinstance(error, dict) else {**message, "error": {"message": error}})

    async def _execute_request(self, message: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(message["method"], str):
            error = {"code": _INVALID_REQUEST_CODE, "message": "The method has to be a string."}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
        self.began(message["id"], message["method"], message.get("params"))
        try:
            return await super()._execute_request(message)
        finally:
            self.ended(message["id"])


__all__ = [
    "PROTOCOL_VERSION",
    "AgentConnection",
    "Connection",
    "RequestError",
    "Route",
    "ValidationError",
    "build_agent_router",
]

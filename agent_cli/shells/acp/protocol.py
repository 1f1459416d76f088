"""The package of the protocol, loaded at a third of its cost: the editor waits for the first answer.

Its schema has hundreds of models. Pydantic would build a validator for each on import, after it parsed the package's
source for docstrings that nothing here reads. Both are switched off while the schema loads; a model is built on first
use.
"""

from __future__ import annotations

from collections.abc import Callable
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


class AgentConnection(Connection):
    """A connection that reports the requests of the editor by their IDs.

    began, ended: called before a request is handled, with its method and parameters, and when it was answered.
    """

    began: Callable[[Any, str, Any], None]
    ended: Callable[[Any], None]

    async def _execute_request(self, message: dict[str, Any]) -> dict[str, Any]:
        self.began(message["id"], str(message["method"]), message.get("params"))
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

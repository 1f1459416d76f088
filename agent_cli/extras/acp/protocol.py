"""The package of the protocol, loaded at a third of its cost: the editor waits for the first answer.

Its schema has hundreds of models. Pydantic would build a validator for each on import, after it parsed the package's
source for docstrings that nothing here reads. Both are switched off while the schema loads; a model is built on first
use.
"""

from __future__ import annotations

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

__all__ = ["PROTOCOL_VERSION", "Connection", "RequestError", "Route", "ValidationError", "build_agent_router"]

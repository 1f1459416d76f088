"""The editor at the other end of the connection: what it offers, and calls to it from the threads of sessions."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine, Mapping
from typing import Any, cast

from agent_cli.acp.protocol import Connection, RequestError
from agent_tools.cancel import CancelledError, CancelToken


class EditorError(Exception):
    """The editor refused a request, or the connection to it is gone. One sentence."""


class EditorClient:
    """Calls to the editor. `capabilities` are those of its `initialize` request, as JSON.

    Every method blocks its thread until the loop of the connection has done the work, so updates stay in order and a
    slow editor slows the turn down; none may be called on the thread of the loop.
    """

    def __init__(self, connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection
        self._loop = loop
        self.capabilities: Mapping[str, Any] = {}
        self._open: set[concurrent.futures.Future[Any]] = set()
        self._gone = False

    def disconnect(self) -> None:
        """End every call that is under way, and those to come: the editor is gone."""
        self._gone = True
        for future in list(self._open):
            future.cancel()

    def offers(self, *keys: str) -> bool:
        """Return True if the editor announced the capability at this path, such as ("fs", "readTextFile")."""
        found: Any = self.capabilities
        for key in keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found is not None and found is not False

    def update(self, session_id: str, update: Mapping[str, Any]) -> None:
        """Send an update of a session. Raises EditorError."""
        params = {"sessionId": session_id, "update": update}
        self._wait(self._connection.send_notification("session/update", params), None)

    def request(self, method: str, params: Mapping[str, Any], cancel: CancelToken | None = None) -> dict[str, Any]:
        """Send a request and return its result. Raises EditorError, and CancelledError once `cancel` is cancelled."""
        result = self._wait(self._connection.send_request(method, params), cancel)
        return result if isinstance(result, dict) else {}

    def _wait(self, sent: Coroutine[Any, Any, Any], cancel: CancelToken | None) -> Any:
        try:
            if self._gone:
                raise RuntimeError
            future = asyncio.run_coroutine_threadsafe(sent, self._loop)
        except RuntimeError:  # the loop is closed
            sent.close()
            raise EditorError("The editor is gone.") from None
        self._open.add(future)
        forget = cancel.on_cancel(lambda: cast(None, future.cancel())) if cancel is not None else None
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            if cancel is not None and cancel.cancelled:
                raise CancelledError from None
            raise EditorError("The editor is gone.") from None
        except RequestError as error:
            raise EditorError(f"The editor refused: {error}") from None
        except (ConnectionError, OSError):
            raise EditorError("The editor is gone.") from None
        finally:
            self._open.discard(future)
            if forget is not None:
                forget()

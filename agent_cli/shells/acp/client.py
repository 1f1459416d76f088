"""The client side of the connection: the capabilities of the editor, and requests to it from the threads of sessions.

If the editor offers it, files are read and written through the editor: the model reads what the user sees, saved or
not, and edits go into the buffers. The protocol has text with line feeds only. If a buffer has the same text as the
file, the bytes of the file are used; after a write the file has exactly the bytes that were written, so fingerprints
and undo work as without an editor.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, cast

from agent_cli.shells.acp.protocol import Connection, RequestError
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.fs.encoding import TextFile, decode_text
from agent_tools.results import ToolError

# Larger files are read from disk.
_MAX_BUFFER_BYTES = 5_000_000


class EditorBuffers:
    """The buffers of an editor, for `Workspace.buffers`."""

    def __init__(self, client: EditorClient, session_id: str) -> None:
        self._client, self._session_id = client, session_id
        self._reads = client.offers("fs", "readTextFile")
        self._writes = client.offers("fs", "writeTextFile")
        # The text of each file when buffer and disk were last the same. A buffer that still has it is stale.
        self._synced: dict[Path, str] = {}

    def current(self, path: Path, saved: bytes) -> bytes:
        """Return the content of a file in the editor, or `saved`, the content on disk, if the buffer has nothing newer.

        A buffer that has not been reloaded since its file changed on disk is not newer.
        """
        if not self._reads or len(saved) > _MAX_BUFFER_BYTES or (file := decode_text(saved)) is None:
            return saved
        try:
            params = {"sessionId": self._session_id, "path": str(path)}
            text = self._client.request("fs/read_text_file", params).get("content")
        except EditorError:
            return saved
        if not isinstance(text, str):
            return saved
        shown, on_disk = _line_feeds(text), _line_feeds(file.content)
        if shown.rstrip("\n") == on_disk.rstrip("\n"):
            self._synced[path] = on_disk
            return saved
        if shown == self._synced.get(path):
            return saved
        try:
            return file.encode(_with_line_ends(file, shown))
        except ToolError:  # a character that the file's encoding lacks
            return saved

    def write(self, path: Path, data: bytes) -> bool:
        """Write a file through the editor. Return False if it is not text or the editor refuses."""
        if not self._writes or (file := decode_text(data)) is None:
            return False
        text = _line_feeds(file.content)
        try:
            params = {"sessionId": self._session_id, "path": str(path), "content": text}
            self._client.request("fs/write_text_file", params)
        except EditorError:
            return False
        self._synced[path] = text
        return True


def _line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n")


def _with_line_ends(file: TextFile, text: str) -> str:
    """Return a text with the line ends of `file`."""
    return text.replace("\n", "\r\n") if "\r\n" in file.content else text


class EditorError(Exception):
    """The editor refused a request, or disconnected. The message is one sentence."""


class EditorClient:
    """Requests and updates to the editor. capabilities: from its `initialize` request, as JSON.

    Every method blocks until the event loop of the connection has done the work, so updates stay in order and a slow
    editor slows the turn down. No method may be called on the thread of the loop.
    """

    def __init__(self, connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection
        self._loop = loop
        self.capabilities: Mapping[str, Any] = {}
        self._pending: set[concurrent.futures.Future[Any]] = set()
        self._gone = False

    def disconnect(self) -> None:
        """Fail all pending and later requests: the editor is gone."""
        self._gone = True
        for future in list(self._pending):
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

    def request_async(self, method: str, params: Mapping[str, Any], done: Callable[[], None]) -> None:
        """Send a request and ignore its result; `done` is called on the loop when it is answered or has failed."""
        future = asyncio.run_coroutine_threadsafe(self._connection.send_request(method, params), self._loop)
        self._pending.add(future)

        def answered(future: concurrent.futures.Future[Any]) -> None:
            self._pending.discard(future)
            done()

        future.add_done_callback(answered)

    def _wait(self, sent: Coroutine[Any, Any, Any], cancel: CancelToken | None) -> Any:
        try:
            if self._gone:
                raise RuntimeError
            future = asyncio.run_coroutine_threadsafe(sent, self._loop)
        except RuntimeError:  # the loop is closed
            sent.close()
            raise EditorError("The editor is gone.") from None
        self._pending.add(future)
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
            self._pending.discard(future)
            if forget is not None:
                forget()

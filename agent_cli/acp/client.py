"""The editor at the other end of the connection: what it offers, and calls to it from the threads of sessions.

Files go through the editor, where it offers that: what the model reads is what the user sees, saved or not, and edits
arrive there. The protocol knows text with line feeds only. Bytes stay what they are on disk wherever the editor shows
the same text, and after a write the disk holds exactly the bytes that were to be written, so fingerprints and undo
hold as without an editor.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, cast

from agent_cli.acp.protocol import Connection, RequestError
from agent_tools.cancel import CancelledError, CancelToken
from agent_tools.fs.encoding import TextFile, decode_text
from agent_tools.results import ToolError

# Larger files are read from disk.
_MAX_BUFFER_BYTES = 5_000_000


class EditorBuffers:
    """The buffers of an editor, as `Workspace.buffers` wants them."""

    def __init__(self, client: EditorClient, session_id: str) -> None:
        self._client, self._session_id = client, session_id
        self._reads = client.offers("fs", "readTextFile")
        self._writes = client.offers("fs", "writeTextFile")
        # The text of each file when editor and disk last had the same: a buffer with an older one is stale.
        self._agreed: dict[Path, str] = {}

    def current(self, path: Path, saved: bytes) -> bytes:
        """Return the content of a file in the editor; `saved`, which the disk has, where the editor has nothing else.

        A buffer that has not noticed a change of its file on disk yet counts as having nothing else.
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
            self._agreed[path] = on_disk
            return saved
        if shown == self._agreed.get(path):
            return saved
        try:
            return file.encode(_as_in(file, shown))
        except ToolError:  # a character that the file's encoding lacks
            return saved

    def write(self, path: Path, data: bytes) -> bool:
        """Write a file in the editor. Return False if it has to be written to disk: no text, or the editor refuses."""
        if not self._writes or (file := decode_text(data)) is None:
            return False
        text = _line_feeds(file.content)
        try:
            params = {"sessionId": self._session_id, "path": str(path), "content": text}
            self._client.request("fs/write_text_file", params)
        except EditorError:
            return False
        self._agreed[path] = text
        return True


def _line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n")


def _as_in(file: TextFile, text: str) -> str:
    """Return a text with the line ends of a file."""
    return text.replace("\n", "\r\n") if "\r\n" in file.content else text


class EditorError(Exception):
    """The editor refused a request, or disconnected. The message is one sentence."""


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

    def begin(self, method: str, params: Mapping[str, Any], done: Callable[[], None]) -> None:
        """Send a request whose result is of no interest; `done` is called on the loop once it is answered or failed."""
        future = asyncio.run_coroutine_threadsafe(self._connection.send_request(method, params), self._loop)
        self._open.add(future)

        def answered(future: concurrent.futures.Future[Any]) -> None:
            self._open.discard(future)
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

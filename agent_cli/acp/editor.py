"""Files through the editor: what the model reads is what the user sees, saved or not, and edits arrive there.

The protocol knows text with line feeds only. Bytes stay what they are on disk wherever the editor shows the same text,
and after a write the disk holds exactly the bytes that were to be written, so fingerprints and undo hold as without
an editor.
"""

from __future__ import annotations

from pathlib import Path

from agent_cli.acp.client import EditorClient, EditorError
from agent_tools.fs.encoding import TextFile, decode_text
from agent_tools.results import ToolError

# Larger files are read from disk.
_LARGEST = 5_000_000


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
        if not self._reads or len(saved) > _LARGEST or (file := decode_text(saved)) is None:
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

"""Input history of a project, over sessions: JSON lines, one string each, readable only by the user."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import History

from agent_tools.fs.safe_files import open_regular, private_folder, read_regular, write_whole

MOST = 1_000
_LARGEST = 64 << 20


class ProjectHistory(History):
    """The history of the input line. path: its file; None for this session only.

    Duplicates keep their latest position. A file that cannot be read or written is ignored.
    """

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries, newest first."""
        found: dict[str, None] = {}
        for text in reversed(self._kept()):
            found.setdefault(text)
        return list(found)[:MOST]

    def store_string(self, string: str) -> None:
        if self._path is None or not string.strip():
            return
        try:
            private_folder(self._path.parent)
            handle = open_regular(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
            with os.fdopen(handle, "ab") as file:
                file.write(json.dumps(string, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        except OSError:
            self._path = None

    def add(self, text: str) -> None:
        """Add a message, unless it repeats the last one."""
        if text.strip() and self.get_strings()[-1:] != [text]:
            self.append_string(text)

    def _kept(self) -> list[str]:
        if self._path is None:
            return []
        try:
            lines = read_regular(self._path, _LARGEST).splitlines()
        except OSError:
            return []
        texts = []
        for line in lines[-4 * MOST :]:
            try:
                text = json.loads(line)
            except ValueError:
                continue
            if isinstance(text, str):
                texts.append(text)
        if len(lines) > 4 * MOST:
            self._shorten(texts[-MOST:])
        return texts

    def _shorten(self, texts: list[str]) -> None:
        """Rewrite the file with the latest messages only."""
        assert self._path is not None
        lines = (json.dumps(t, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for t in texts)
        with suppress(OSError):
            write_whole(self._path, b"".join(lines))

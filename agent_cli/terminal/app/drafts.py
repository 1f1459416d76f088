"""What is typed and not sent yet, kept beside the session so that a crash does not take it.

A thread of its own writes it after a pause in the typing: the disk may be slow, and the keys must not wait.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from agent_cli.session.drafts import Draft, DraftFile, take_orphan

PAUSE = 0.4


class Drafts:
    """Of one session. folder: where its log is."""

    def __init__(self, folder: Path, session_id: str) -> None:
        self._folder = folder
        self._file = DraftFile(folder, session_id)
        self._now: tuple[str, tuple[str, ...]] = ("", ())
        self._changed, self._over = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def recovered(self, *, resumed: bool) -> str:
        """What an earlier process left unsent: this session's, or for a new one that of one that is gone.

        Messages that were queued stand above the draft; nothing is sent by itself.
        """
        left: Draft = self._file.load() if resumed else take_orphan(self._folder)
        return "\n".join([*left.queue, left.text]).strip("\n")

    def keep(self, text: str, queue: Sequence[str]) -> None:
        """What stands there now; at once, from the thread that draws."""
        now = text, tuple(queue)
        if now == self._now:
            return
        self._now = now
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="draft", daemon=True)
            self._thread.start()
        self._changed.set()

    def close(self, *, left: bool) -> None:
        """The session ends. left: by the user, so that nothing is missing; otherwise what stands there is kept."""
        self._over.set()
        self._changed.set()
        if self._thread is not None:
            self._thread.join(2.0)
        if left:
            self._file.clear()

    def _run(self) -> None:
        while not self._over.is_set():
            self._changed.wait()
            self._over.wait(PAUSE)
            self._changed.clear()
            self._file.save(*self._now)

"""Unsent input, saved next to the session so that a crash does not lose it.

A thread writes it after a pause in typing, since the disk may be slow and keys must not wait.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from agent_cli.session.drafts import Draft, DraftFile, claim_orphan

SAVE_PAUSE_SECONDS = 0.4


class Drafts:
    """The draft of one session. folder: directory of its log."""

    def __init__(self, folder: Path, session_id: str) -> None:
        self._folder = folder
        self._file = DraftFile(folder, session_id)
        self._now: tuple[str, tuple[str, ...]] = ("", ())
        self._changed, self._over = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def recovered(self, *, resumed: bool) -> str:
        """Return the draft an earlier process left: of this session, or for a new one of a crashed session.

        Queued messages come before the draft; nothing is sent automatically.
        """
        left: Draft = self._file.load() if resumed else claim_orphan(self._folder)
        return "\n".join([*left.queue, left.text]).strip("\n")

    def keep(self, text: str, queue: Sequence[str]) -> None:
        """Save the current input; returns at once, on the drawing thread."""
        now = text, tuple(queue)
        if now == self._now:
            return
        self._now = now
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="draft", daemon=True)
            self._thread.start()
        self._changed.set()

    def close(self, *, left: bool) -> None:
        """End the session. left: the user left, so the draft is deleted; otherwise it is saved."""
        self._over.set()
        self._changed.set()
        if self._thread is not None:
            self._thread.join(2.0)
        if left:
            self._file.clear()

    def _run(self) -> None:
        while not self._over.is_set():
            self._changed.wait()
            self._over.wait(SAVE_PAUSE_SECONDS)
            self._changed.clear()
            self._file.save(*self._now)

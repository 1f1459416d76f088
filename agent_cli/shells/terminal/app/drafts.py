"""Unsent input, saved next to the session so that a crash does not lose it.

A thread writes it after a pause in typing, since the disk may be slow and keys must not wait.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agent_cli import SessionStore
from agent_cli.kernel.session.files import is_running
from agent_tools.fs.safe_files import read_regular, write_atomic
from agent_tools.record import DecodeError, Value, from_json, to_json

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


_MAX_BYTES = 64 << 20


class Draft(Value, tag="Draft"):
    """Unsent input of a session.

    text: the input line.
    queue: queued messages, the oldest first.
    pid, host: the process that saved it.
    saved: seconds since the epoch.
    """

    text: str = ""
    queue: tuple[str, ...] = ()
    session_id: str = ""
    pid: int = 0
    host: str = ""
    saved: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.text or self.queue)


class DraftFile:
    """The draft of one session. No method raises; if the disk refuses, the previous draft stays."""

    def __init__(self, folder: Path, session_id: str) -> None:
        self.path = SessionStore.at(folder).session(session_id).draft
        self._session_id = session_id
        self._last: tuple[str, tuple[str, ...]] | None = None

    def save(self, text: str, queue: Sequence[str] = ()) -> bool:
        """Replace the saved draft, unless it is unchanged. Return True if the draft is on disk."""
        now = text, tuple(queue)
        if now == self._last:
            return True
        if not text and not now[1]:
            return self.clear()
        draft = Draft(text, now[1], self._session_id, os.getpid(), os.uname().nodename, time.time())
        try:
            # As ASCII JSON, since a terminal can send a lone surrogate, which UTF-8 cannot encode.
            write_atomic(self.path, json.dumps(to_json(draft)).encode("ascii"))
        except OSError:
            return False
        self._last = now
        return True

    def load(self) -> Draft:
        """Return the saved draft; an empty one if there is none or it is unreadable."""
        return _read(self.path)

    def clear(self) -> bool:
        """Delete the saved draft. Return True if none is left."""
        self._last = None
        try:
            self.path.unlink()
        except FileNotFoundError:
            pass
        except OSError:
            return False
        self._last = "", ()
        return True


def claim_orphan(folder: Path) -> Draft:
    """Claim and remove the newest draft of a project whose process is gone; only one caller gets it.

    Returns an empty draft if there is none. Drafts of running processes and of other machines are left alone.
    """
    for draft in sorted(_all(folder), key=lambda d: d.saved, reverse=True):
        if draft.host != os.uname().nodename or is_running(draft.pid):
            continue
        taken = folder / f".{draft.session_id}.draft.{os.urandom(4).hex()}"
        try:
            os.rename(folder / f"{draft.session_id}.draft", taken)  # noqa: PTH104 - crash tests patch os.rename
        except OSError:
            continue
        found = _read(taken)
        with suppress(OSError):
            taken.unlink()
        if found:
            return found
    return Draft()


def _all(folder: Path) -> list[Draft]:
    try:
        names = [e.name for e in os.scandir(folder) if e.name.endswith(".draft") and not e.name.startswith(".")]
    except OSError:
        return []
    drafts = [_read(folder / name).replace(session_id=name.removesuffix(".draft")) for name in names]
    return [draft for draft in drafts if draft]


def _read(path: Path) -> Draft:
    try:
        draft: Draft = from_json(Draft, json.loads(read_regular(path, _MAX_BYTES)))
    except (OSError, ValueError, DecodeError):
        return Draft()
    return draft

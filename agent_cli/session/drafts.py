"""Save unsent input, so that it survives a crash: the text in the input line and the queued messages.

One small file per session, readable only by its owner and replaced atomically. Callers wait for a pause in the typing
before they save. The text is stored as typed. An empty draft leaves no file.

    drafts = DraftFile(store.folder, agent.header.session_id)
    drafts.save("half a sen", ["and then the tests"])     # False if it could not be saved
    drafts.load()                                         # Draft("half a sen", ("and then the tests",))
    drafts.clear()                                        # on an orderly exit
    claim_orphan(store.folder)                            # for a new session: the draft of a crashed one, once
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agent_cli.session.files import draft_file, is_running
from agent_tools.fs.safe_files import read_regular, write_atomic
from agent_tools.record import DecodeError, Value, from_json, to_json

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
        self.path = draft_file(folder / f"{session_id}.jsonl")
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

"""What was typed and not sent yet: the text in the input line and the messages that wait, kept for after a crash.

One small file for each session, readable by its owner alone, written whole in place of the one before; whoever saves
waits for a pause in the typing first. It holds just what was typed. An empty draft leaves no file behind.

    drafts = DraftFile(store.folder, agent.header.session_id)
    drafts.save("half a sen", ["and then the tests"])     # False where it could not be saved
    drafts.load()                                         # Draft("half a sen", ("and then the tests",))
    drafts.clear()                                        # left in order
    take_orphan(store.folder)                             # for a new session: what one that crashed left, once
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agent_cli.session.lock import is_running
from agent_cli.session.permissions import draft_file
from agent_tools.fs.private import write_whole
from agent_tools.fs.safe_read import read_regular
from agent_tools.record import DecodeError, Value, from_json, to_json

_LARGEST = 64 << 20


class Draft(Value, tag="Draft"):
    """The text of the input line, and the messages that were queued, the oldest first.

    Of the process that saved it: pid and host. saved: seconds since the epoch.
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
    """The draft of one session. Nothing here raises; a disk that refuses keeps what it has."""

    def __init__(self, folder: Path, session_id: str) -> None:
        self.path = draft_file(folder / f"{session_id}.jsonl")
        self._session_id = session_id
        self._last: tuple[str, tuple[str, ...]] | None = None

    def save(self, text: str, queue: Sequence[str] = ()) -> bool:
        """Keep this in place of what was kept; what is the same is not written again. Whether it is kept now."""
        now = text, tuple(queue)
        if now == self._last:
            return True
        if not text and not now[1]:
            return self.clear()
        draft = Draft(text, now[1], self._session_id, os.getpid(), os.uname().nodename, time.time())
        try:
            # A lone half of a surrogate pair, which a terminal can send, is no UTF-8 but is ASCII JSON.
            write_whole(self.path, json.dumps(to_json(draft)).encode("ascii"))
        except OSError:
            return False
        self._last = now
        return True

    def load(self) -> Draft:
        """What is kept; an empty draft where there is none, or none that can be read."""
        return _read(self.path)

    def clear(self) -> bool:
        """Keep nothing. Whether nothing is kept now."""
        self._last = None
        try:
            self.path.unlink()
        except FileNotFoundError:
            pass
        except OSError:
            return False
        self._last = "", ()
        return True


def take_orphan(folder: Path) -> Draft:
    """The newest draft in a project whose process is gone, taken away so that only one can have it.

    An empty draft where there is none. That of a session that still runs, here or on another machine, is left alone.
    """
    for draft in sorted(_all(folder), key=lambda d: d.saved, reverse=True):
        if draft.host != os.uname().nodename or is_running(draft.pid):
            continue
        taken = folder / f".{draft.session_id}.draft.{os.urandom(4).hex()}"
        try:
            os.rename(folder / f"{draft.session_id}.draft", taken)  # noqa: PTH104 - as everywhere in this room
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
    drafts = [_read(folder / name).but(session_id=name.removesuffix(".draft")) for name in names]
    return [draft for draft in drafts if draft]


def _read(path: Path) -> Draft:
    try:
        draft: Draft = from_json(Draft, json.loads(read_regular(path, _LARGEST)))
    except (OSError, ValueError, DecodeError):
        return Draft()
    return draft

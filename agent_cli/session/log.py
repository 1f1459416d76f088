"""A session on disk: append-only JSON lines, one record per event.

Each record is one line of ASCII JSON: v, seq, id (of the record), parent (id of the record before), type, time (UTC),
crc (CRC-32 of the line's other fields), data (the event). It is written with one write() to a descriptor opened with
O_APPEND and locked for this process; user messages, the start of each tool and the end of each turn are synced. The
first record is the header. A reader takes only records whose checksum fits, and says how many did not.
"""

from __future__ import annotations

import json
import os
import time
from binascii import crc32
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent_cli.core.events import (
    UNLOGGED,
    Event,
    MessageAdded,
    Pinned,
    PlanChanged,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    innermost,
)
from agent_cli.core.messages import UserMessage
from agent_cli.core.redact import Redactor
from agent_cli.core.usage import Usage
from agent_cli.session.records import Header, Restored
from agent_tools.values import Value, to_plain

VERSION = 1


class SessionBusy(Exception):
    """Another process has this session open; the message says which, and what to do."""


class SessionLog:
    """Appends events. `warn` is told once when the disk refuses; the session goes on in memory.

    env: where secret values are looked for, which are not written.
    """

    def __init__(self, path: Path, warn: Callable[[str], None], env: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._redact = Redactor(env or {})
        self._warn = warn
        self._fd = -1
        self._seq = 0
        self._parent = ""
        self._failed = False
        # What the disk has not taken yet; it goes first when there is room again.
        self._due = bytearray()
        self._header: Header | None = None

    def create(self, header: Header, copied: Restored | None = None) -> None:
        """Begin a new session, with the contents of another where it is a fork.

        The file is made with the first record, so that a session in which nothing was said leaves nothing behind.
        Raises FileExistsError where the session is there already.
        """
        if os.path.exists(self.path):  # noqa: PTH110 - Path.exists raises in a closed folder
            raise FileExistsError(self.path)
        self._header = header
        if copied is not None:
            self._begin()
            self._copy(copied)

    def _begin(self) -> None:
        header, self._header = self._header, None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._open(os.O_CREAT | os.O_EXCL)
        except OSError as error:
            self._refused(error)
            return
        assert header is not None
        self._write("Header", header)

    def acquire(self) -> None:
        """Take an existing file for this process, before it is read. Raises SessionBusy."""
        try:
            self._open(0)
        except OSError as error:
            self._refused(error)

    def go_on(self, seq: int, parent: str) -> None:
        """Append after the last good record of the acquired file."""
        self._seq, self._parent = seq, parent
        if self._fd < 0:
            return
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            self._due += b"\n"

    def _copy(self, session: Restored) -> None:
        for message in session.history:
            self._write("MessageAdded", MessageAdded(message))
        if session.seen or session.shell:
            self._write("ToolFinished", ToolFinished("", "", False, 0, seen=session.seen, shell=session.shell))
        if session.plan:
            self._write("PlanChanged", PlanChanged(session.plan))
        for pin in session.pins:
            self._write("Pinned", Pinned(pin))
        for made in session.compactions:
            # It counts from the end of the history, which has come farther since.
            self._write("Compacted", made.event.but(kept=len(session.history) - made.upto, usage=Usage()))
        self.sync()

    def _open(self, flags: int) -> None:
        import fcntl

        self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            self._fd = -1
            raise SessionBusy(
                f"Session {self.path.stem} is open in another process. End it there, or use --fork-session."
            ) from None

    def record(self, event: Event) -> None:
        """Write one event, unless it is of a kind that is not kept."""
        inner = innermost(event)
        if isinstance(inner, UNLOGGED):
            return
        if self._header is not None:
            self._begin()
        self._write(type(event).__name__, event)
        synced = isinstance(inner, (ToolStarted, TurnFinished)) or (
            isinstance(inner, MessageAdded) and isinstance(inner.message, UserMessage)
        )
        if synced:
            self.sync()

    def sync(self) -> None:
        try:
            if self._fd >= 0:
                os.fsync(self._fd)
        except OSError as error:
            self._refused(error)

    def _write(self, kind: str, value: Value) -> None:
        seq = self._seq + 1
        record = {
            "v": VERSION,
            "seq": seq,
            "id": f"{seq:x}-{os.urandom(4).hex()}",
            "parent": self._parent,
            "type": kind,
            "time": _now(),
            "data": to_plain(value),
        }
        if self._fd < 0:
            return
        line = sealed(record, self._redact)
        assert b"\n" not in line
        self._due += line + b"\n"
        try:
            # A disk that fills up takes a part, without an error: the rest must follow just there.
            while self._due:
                del self._due[: os.write(self._fd, self._due)]
        except OSError as error:
            self._refused(error)
        self._seq, self._parent = seq, str(record["id"])

    def _refused(self, error: OSError) -> None:
        if not self._failed:
            self._failed = True
            self._warn(f"This session cannot be saved in {self.path.parent}: {error.strerror or error}.")

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def sealed(record: dict[str, Any], redact: Callable[[str], str] = str) -> bytes:
    """The record as one line without its line feed and without secrets, with `crc` as its last key."""
    body = redact(json.dumps(record, separators=(",", ":"))).encode("ascii")
    return body[:-1] + b',"crc":%d}' % crc32(body)


def unsealed(line: bytes) -> dict[str, Any] | None:
    """The record that a line holds, or None where it is damaged."""
    body, found, tail = line.rpartition(b',"crc":')
    if not found or not tail.endswith(b"}") or not tail[:-1].isdigit() or crc32(body + b"}") != int(tail[:-1]):
        return None
    record: dict[str, Any] = json.loads(body + b"}")
    return record


def _now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"

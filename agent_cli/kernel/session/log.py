"""A session on disk: append-only JSON lines, one record per event.

Each record is one line of ASCII JSON: v, seq, id (of the record), parent (id of the record before), type, time (UTC),
data (the event), crc (CRC-32 of the line's other fields). It is written with one write() to a descriptor opened with
O_APPEND and locked for this process; user messages, checkpoints, the start of each tool and the end of each turn are
synced. The first record is the header. An answer that is being streamed is saved in pieces, at most one record a
second, until its message is recorded.

Records that the disk refuses stay in memory and are written, in order, as soon as possible; until then `warning`
reports it.
"""

from __future__ import annotations

import _signal as signal  # `signal` makes enumerations, which costs a one-shot run a millisecond
import _thread  # `threading` costs a one-shot run a millisecond
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from agent_cli.kernel.events import (
    ENDS_ANSWER,
    SYNCED,
    UNLOGGED,
    Event,
    MessageAdded,
    Pinned,
    PlanChanged,
    TextDelta,
    ToolFinished,
    unwrap,
)
from agent_cli.kernel.messages import UserMessage
from agent_cli.kernel.redact import Redactor
from agent_cli.kernel.results import Usage
from agent_cli.kernel.session.files import VERSION, claim, encode_record, holder, mend, release, sync_folder
from agent_cli.kernel.session.records import Header, Mended, Partial, Restored
from agent_tools.fs.safe_files import open_regular, private_folder
from agent_tools.record import Value, to_json
from agent_tools.text import utc_stamp

SAVE_SECONDS = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class PartialWriter:
    """Collects pieces of an answer, and calls `due` on another thread about a second after text arrived."""

    def __init__(self, redact: Redactor, due: Callable[[], None], seconds: float = SAVE_SECONDS) -> None:
        self._redact = redact
        self._due = due
        self._seconds = seconds
        self._pieces: list[str] = []
        self._saved = ""
        self._armed = False

    def feed(self, text: str) -> None:
        self._pieces.append(text)
        if not self._armed:
            self._armed = True
            # The new thread must not receive signals: they would not interrupt what this thread waits for next.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
            try:
                _thread.start_new_thread(self._wait, ())
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _wait(self) -> None:
        time.sleep(self._seconds)
        self._armed = False
        self._due()

    def end(self) -> None:
        """Drop the pieces: the whole message is recorded."""
        self._pieces, self._saved = [], ""

    def take(self) -> tuple[int, str]:
        """Return the unsaved text that may be written, and its offset in the answer."""
        # More may arrive on the other thread: replace only what was read, in a single step.
        pieces, count = self._pieces, len(self._pieces)
        whole = "".join(pieces[:count])
        pieces[:count] = [whole]
        ready = self._redact(whole[: self._redact.safe_length(whole)])
        start = len(self._saved)
        if not ready.startswith(self._saved):
            return start, ""
        self._saved = ready
        return start, ready[start:]


# Seconds between attempts to lock a session that is open in another process.
_RETRY_SECONDS = 0.05
# Seconds of waiting before the user is notified.
_QUIET_SECONDS = 1.0


class SessionBusyError(Exception):
    """Another process has this session open. The message says what to do; `where` only names the process."""

    def __init__(self, where: str, advice: str) -> None:
        super().__init__(f"{where} {advice}")
        self.where = where


class SessionLog:
    """Appends events from any thread.

    warn: called when the disk refuses a write, and when writing works again.
    env: environment whose secret values are redacted, by `redact`.
    """

    def __init__(self, path: Path, warn: Callable[[str], None], env: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.redact = Redactor(env or {})
        self._warn = warn
        self._lock = _thread.RLock()
        self._unfinished = PartialWriter(self.redact, self._save_unfinished)
        self._fd = -1
        self._seq = 0
        self._parent = ""
        self._header: Header | None = None
        # How to open the file: True creates it, False opens the one that was read, None leaves it closed.
        self._new: bool | None = None
        self._size = 0
        # Encoded lines that are not on disk yet.
        self._unwritten: deque[bytes] = deque()
        self._problem = ""
        self._permanent = False
        self._reported = ""

    @property
    def warning(self) -> str:
        """A sentence why the latest records are not on disk; "" if they are."""
        return self._problem

    def create(self, header: Header, copied: Restored | None = None) -> None:
        """Begin a new session, with the contents of `copied` if it is a fork.

        The file is created with the first record, so a session without messages leaves none.
        Raises FileExistsError if the session exists.
        """
        if os.path.exists(self.path):  # noqa: PTH110 - Path.exists raises in a closed folder
            raise FileExistsError(self.path)
        self._header, self._new = header, True
        if copied is not None:
            with self._lock:
                self._copy(copied, forked=bool(header.forked_from))
                self._flush()
                self._sync()
            self._report()

    def acquire(self, wait_seconds: float = 0.0) -> None:
        """Lock an existing file for this process, before reading it. Raises SessionBusyError.

        wait_seconds: time to wait for another process to release it.
        """
        self._new = False
        until, warned = time.monotonic() + wait_seconds, False
        try:
            while True:
                try:
                    self._open(0)
                    break
                except SessionBusyError as busy:
                    left = until - time.monotonic()
                    if left <= 0:
                        raise
                    if wait_seconds - left > _QUIET_SECONDS and not warned:
                        warned = True
                        self._warn(f"{busy.where} Waiting for it.")
                    time.sleep(_RETRY_SECONDS)
        except OSError as error:
            self._note_failure(error)
        self._report()

    def continue_from(self, seq: int, parent: str) -> None:
        """Append after the last valid record of the acquired file."""
        self._seq, self._parent = seq, parent
        with suppress(OSError):
            self._size = os.stat(self.path).st_size  # noqa: PTH116
        if self._fd >= 0:
            self._terminate_line()

    def _terminate_line(self) -> None:
        """Separate the next record from an unterminated last line."""
        if self._size and os.pread(self._fd, 1, self._size - 1) != b"\n":
            self._unwritten.appendleft(b"\n")

    def mend(self, restored: Restored) -> str:
        """Rewrite the acquired file with its valid records only, after `continue_from`.

        Return what happened to the damaged file, to follow "the file as it was": the name of its copy, or why the
        repair failed.
        """
        if self._fd < 0:
            return "was not changed"
        with self._lock:
            try:
                kept, fd = mend(self.path)
            except OSError as error:
                return f"was not changed: {error.strerror or error}"
            os.close(self._fd)
            self._fd = fd
            self._unwritten.clear()
            self._add(Mended(restored.bad, restored.missing, kept, restored.waiting is not None))
            self._flush()
            self._sync()
        return f"is saved as {kept}"

    @property
    def last(self) -> int:
        """Number of the last record."""
        return self._seq

    def put_header(self, header: Header) -> None:
        """Add a header to a session whose own was lost."""
        with self._lock:
            self._add(header)
            self._flush()
        self._report()

    def record(self, event: Event) -> None:
        """Write an event, unless events of its kind are not recorded."""
        if isinstance(event, TextDelta):
            self._unfinished.feed(event.text)
            return
        inner, ends_answer = unwrap(event), isinstance(event, ENDS_ANSWER)
        if isinstance(inner, UNLOGGED):
            if ends_answer:
                self._unfinished.end()
            return
        with self._lock:
            if ends_answer:
                self._unfinished.end()
            self._begin()
            self._add(event)
            self._flush()
            if isinstance(inner, SYNCED) or (
                isinstance(inner, MessageAdded) and isinstance(inner.message, UserMessage)
            ):
                self._sync()
        self._report()

    def record_all(self, events: Iterable[Event]) -> None:
        """Write events that have happened elsewhere, and sync them at the end only."""
        with self._lock:
            self._begin()
            for event in events:
                self._add(event)
                self._flush()
            self._sync()
        self._report()

    def _save_unfinished(self) -> None:
        """Save unfinished text from the timer thread. Problems are reported by the next record."""
        with self._lock:
            start, text = self._unfinished.take()
            if text and self._header is None and (self._fd >= 0 or self._new is not None):
                self._add(Partial(text, start))
                self._flush()

    def _begin(self) -> None:
        if self._header is not None:
            header, self._header = self._header, None
            self._add(header)

    def _copy(self, session: Restored, *, forked: bool) -> None:
        self._begin()
        plans = list(session.plans)
        uuids = {} if forked else dict(enumerate(session.uuids, 1))
        for count, message in enumerate(session.history, 1):
            self._add(MessageAdded(message, uuids[count]) if uuids.get(count) else MessageAdded(message))
            while plans and plans[0][0] <= count:
                self._add(PlanChanged(plans.pop(0)[1]))
        if session.seen or session.shell:
            self._add(ToolFinished("", "", False, 0, seen=session.seen, shell=session.shell))
        if session.plan and not (session.plans and session.plans[-1][1] == session.plan):
            self._add(PlanChanged(session.plan))
        for pin in session.pins:
            self._add(Pinned(pin))
        for left in session.left_out:
            self._add(left)
        for made in session.compactions:
            # The position counts from the end of the history, which has grown since.
            self._add(made.event.replace(kept=len(session.history) - made.upto, usage=Usage()))

    def _add(self, value: Value) -> None:
        """Encode the next record and queue it for writing."""
        self._seq += 1
        identity = f"{self._seq:x}-{os.urandom(4).hex()}"
        line = encode_record(
            {
                "v": VERSION,
                "seq": self._seq,
                "id": identity,
                "parent": self._parent,
                "type": value._tag,
                "time": utc_stamp(milliseconds=True),
                "data": to_json(value),
            },
            self.redact,
        )
        assert b"\n" not in line
        self._unwritten.append(line + b"\n")
        self._parent = identity

    def _flush(self) -> None:
        """Write queued lines as far as the disk accepts them."""
        if self._new is None and self._fd < 0:
            return
        try:
            if self._fd < 0:
                self._reopen()
            while self._unwritten:
                self._write_line(self._unwritten[0])
                self._unwritten.popleft()
        except OSError as error:
            self._note_failure(error)
            return
        except SessionBusyError as error:
            # Another process took the session over while it could not be written.
            self._new, self._problem, self._permanent = None, str(error), True
            return
        if not self._permanent:
            self._problem = ""

    def _write_line(self, line: bytes) -> None:
        """Write one record with one write; truncate a partial one. Raises OSError."""
        done = os.write(self._fd, line)
        try:
            while done < len(line):
                done += os.write(self._fd, line[done:])
        except OSError:
            try:
                os.ftruncate(self._fd, os.fstat(self._fd).st_size - done)
            except OSError:
                # Truncation failed: the rest must follow right there.
                self._unwritten[0] = line[done:]
            raise

    def _reopen(self) -> None:
        """Open the file after an earlier attempt failed. Raises OSError and SessionBusyError."""
        if self._new:
            private_folder(self.path.parent)
            self._open(os.O_CREAT | os.O_EXCL)
            sync_folder(self.path.parent)
            self._new = False
            return
        self._open(0)
        if os.fstat(self._fd).st_size != self._size:
            self._release()
            raise SessionBusyError(
                f"Session {self.path.stem} was continued by another process while it could not be written here.",
                "To save it here, continue in a copy with --fork-session.",
            )
        self._terminate_line()

    def _open(self, flags: int) -> None:
        """Open and lock the file. Raises OSError, and SessionBusyError if another process has it open."""
        import fcntl

        for _ in range(5):
            fd = open_regular(self.path, os.O_RDWR | os.O_APPEND | flags)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A repair may have replaced the file meanwhile: check that the path still names this one.
                found, here = os.stat(self.path), os.fstat(fd)  # noqa: PTH116
            except BlockingIOError:
                os.close(fd)
                who = holder(self.path)
                raise SessionBusyError(
                    f"Session {self.path.stem} is open in another process{who and f' ({who})'}.",
                    "Close it there, or continue in a copy with --fork-session.",
                ) from None
            except OSError:
                os.close(fd)
                raise
            if (found.st_dev, found.st_ino) == (here.st_dev, here.st_ino):
                self._fd = fd
                claim(self.path)
                return
            os.close(fd)
        raise BlockingIOError(f"{self.path.name} changes all the time")

    def sync(self) -> None:
        """Make sure that recorded events survive a power failure."""
        with self._lock:
            self._sync()
        self._report()

    def _sync(self) -> None:
        if self._fd < 0 or self._unwritten:
            return
        try:
            os.fsync(self._fd)
            if os.fstat(self._fd).st_nlink == 0:
                self._problem, self._permanent = f"The file of session {self.path.stem} was removed.", True
        except OSError as error:
            # A later sync does not recover data lost in a failed one.
            self._note_failure(error)
            self._permanent = True

    def _note_failure(self, error: OSError) -> None:
        if not self._permanent:
            self._problem = f"This session cannot be saved in {self.path.parent}: {error.strerror or error}."

    def _report(self) -> None:
        """Notify the user once when writing fails, and once when it works again."""
        if self._reported == self._problem:
            return
        self._reported = self._problem
        self._warn(self._problem or f"This session is saved again in {self.path.parent}.")

    def close(self) -> None:
        """Write what is left, report lost records, and release the session."""
        with self._lock:
            start, text = self._unfinished.take()
            self._unfinished.end()
            if text and self._header is None:
                self._add(Partial(text, start))
            if self._unwritten:
                self._flush()
            lost = sum(len(line) > 1 for line in self._unwritten)
            self._unwritten.clear()
            self._new = None
            self._release()
        if lost:
            self._warn(f"{lost} records of this session were not saved.")

    def _release(self) -> None:
        if self._fd >= 0:
            release(self.path)
            os.close(self._fd)
            self._fd = -1

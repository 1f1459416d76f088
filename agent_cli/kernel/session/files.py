"""The files of a session: private folders, the lock's holder, and the lines of the log.

The lock itself is on the log; a small file beside it names the process that has it, for others to read, and may be
missing or stale.

A record is one line of ASCII JSON whose last key is the CRC-32 of the rest. Almost all lines are one valid record.
Otherwise, valid records inside the line are recovered (two joined, one after a block of NULs, lines separated by
something other than a line feed); the rest counts as a damaged piece. A repaired log has the valid records unchanged
and in order; the damaged file is saved beside it.
"""

from __future__ import annotations

import io
import json
import os
import re
import time
from binascii import crc32
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from agent_tools.fs.safe_files import open_regular, open_stream, private_folder, read_regular, read_start

# Number of saved copies of a damaged log: the first is the oldest, the last is replaced by newer ones.
MAX_COPIES = 3


def logs_in(folder: Path) -> list[tuple[os.stat_result, Path]]:
    """Return the logs in a folder with their state, in any order."""
    found = []
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith(".jsonl"):
                with suppress(FileNotFoundError):  # a link to a log that a host has deleted
                    found.append((entry.stat(), Path(entry.path)))
    return found


def owner_file(log: Path) -> Path:
    return log.with_suffix(".owner")


def draft_file(log: Path) -> Path:
    return log.with_suffix(".draft")


def archive_mark(log: Path) -> Path:
    """Return the path of the empty file that marks an archived session."""
    return log.with_suffix(".archived")


def results_folder(log: Path) -> Path:
    """Return the folder of the results that were too long to be shown."""
    return log.with_suffix(".results")


def results_files(log: Path) -> list[Path]:
    """Return the folder and its files, if it exists."""
    folder = results_folder(log)
    try:
        return [folder, *sorted(folder.iterdir())]
    except OSError:
        return [folder] if folder.is_symlink() else []


def transcript_folder(log: Path) -> Path:
    """Return the folder of the transcript, if the session has one beside it."""
    return log.with_suffix(".transcript")


def transcript_files(log: Path) -> list[Path]:
    """Return the folder of the transcript and everything in it, if it exists."""
    folder = transcript_folder(log)
    return [folder, *sorted(folder.rglob("*"))] if folder.is_dir() else []


def projects_folder(env: Mapping[str, str], home: Path | None) -> Path:
    """Return the folder in which Claude Code keeps the transcripts of all projects, and its tools look for them."""
    import unicodedata  # only for sessions that may have one

    chosen = env.get("CLAUDE_CONFIG_DIR")
    return Path(unicodedata.normalize("NFC", chosen or str((home or Path.home()) / ".claude"))) / "projects"


def transcript_note(log: Path) -> Path:
    """Return the path of the note about a transcript elsewhere that this session made: its path, and who wanted it."""
    return log.with_suffix(".elsewhere")


def transcript_elsewhere(log: Path) -> tuple[Path | None, bool]:
    """Return the transcript elsewhere that a session made, and whether a host wanted it."""
    try:
        path, _, host = read_regular(transcript_note(log), _MAX_BYTES).decode().partition("\n")
    except (OSError, ValueError):
        return None, False
    return Path(path), bool(host)


def move_beside_transcript(log: Path, transcript: Path) -> None:
    """Move an open log, with its results to come, into the folder of the transcript's sub-agents, and leave links.

    The Agent SDK deletes a session by removing its transcript and that folder, without a process of this program.
    Raises OSError, for example if they are on different file systems, and leaves the log where it was.
    """
    folder = transcript.with_suffix("") / "session"
    private_folder(folder / "results")
    moved = folder / "log"
    os.rename(log, moved)  # noqa: PTH104
    try:
        log.symlink_to(moved)
    except OSError:
        os.rename(moved, log)  # noqa: PTH104
        raise
    if not os.path.lexists(results_folder(log)):
        results_folder(log).symlink_to(folder / "results")


def results_size(log: Path) -> int:
    """Return the bytes of the results on disk."""
    return sum(os.lstat(path).st_size for path in results_files(log)[1:])


def repair_file(log: Path) -> Path:
    """Return the path to which a repaired log is first written; it is left behind if the process is killed."""
    return log.with_name(f"{log.stem}.mending")


def damaged_copies(log: Path) -> list[Path]:
    """Return the paths for copies of a damaged log, existing or not."""
    return [log.with_name(f"{log.stem}.damaged-{number}") for number in range(1, MAX_COPIES + 1)]


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that a created or renamed entry survives a power failure, if the file system supports that."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


_MAX_BYTES = 4096


def claim(log: Path) -> None:
    """Record that this process has the log open. A failed write is ignored."""
    owner = {"pid": os.getpid(), "host": os.uname().nodename, "terminal": _terminal(), "since": int(time.time())}
    with suppress(OSError):
        fd = open_regular(owner_file(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            os.write(fd, json.dumps(owner).encode("ascii"))
        finally:
            os.close(fd)


def release(log: Path) -> None:
    """Remove the record; called while the lock is still held."""
    with suppress(OSError):
        owner_file(log).unlink()


def holder(log: Path) -> str:
    """Describe the process that has the log open; "" if it is unknown."""
    try:
        owner = json.loads(read_regular(owner_file(log), _MAX_BYTES))
        pid, host, terminal = int(owner["pid"]), str(owner["host"]), str(owner["terminal"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    here = host == os.uname().nodename
    if here and not is_running(pid):
        return ""
    place = [f"on {host}"] if not here else []
    place += [f"in {terminal}"] if terminal else ["without a terminal"]
    return f"process {pid} {', '.join(place)}"


def is_open(log: Path) -> bool:
    """Return True if a process has the log open, judging by the lock: the file beside the log may be stale."""
    import fcntl

    try:
        fd = open_regular(log)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def is_running(pid: int) -> bool:
    """Return True if a process with this id exists on this machine, under any user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _terminal() -> str:
    for fd in (0, 1, 2):
        with suppress(OSError):
            return os.ttyname(fd)
    return ""


VERSION = 1
# No conversation gets near it, but a file that is no log may be endless.
MAX_LOG_BYTES = 1 << 30
# Of a line in a file of another program.
MAX_LINE_BYTES = 32 << 20
# As written by `SessionLog`, in this order; `data` is the last key before `crc`. Compiled when a log is read.
_HEAD = rb'\{"v":(\d+),"seq":(\d+),"id":"([^"\\]*)","parent":"([^"\\]*)","type":"(\w+)","time":"([^"\\]*)","data":'
_BEGINS = rb'\{"v":\d+,"seq":\d+,"id":"'
_ENDS = rb',"crc":\d{1,10}\}'
# Line ends of other programs, in UTF-8, and the byte order mark.
_FOREIGN = rb"(?:\s|[\x1c-\x1f]|\xe2\x80[\xa8\xa9]|\xc2\x85|\xef\xbb\xbf)+"
_MAX_TRIES = 8
# Bytes of a log that its follower reads at once.
_TAIL_BYTES = 1 << 20


class LogLine:
    """A valid record: its fields, and its bytes without the line feed. `data` is parsed on access."""

    __slots__ = ("_body", "_start", "id", "parent", "raw", "seq", "time", "type", "version")

    def __init__(self, raw: bytes, body: bytes, head: re.Match[bytes]) -> None:
        version, seq, identity, parent, kind, time = head.groups()
        self.raw = raw
        self.version, self.seq = int(version), int(seq)
        self.id, self.parent, self.type, self.time = (f.decode("ascii") for f in (identity, parent, kind, time))
        self._body, self._start = body, head.end()

    @property
    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self._body[self._start :])
        return data


def encode_record(record: dict[str, Any], redact: Callable[[str], str] = str) -> bytes:
    """Encode a record as one line, without line feed and secrets, with `crc` as its last key."""
    body = redact(json.dumps(record, separators=(",", ":"))).encode("ascii")
    return body[:-1] + b',"crc":%d}' % crc32(body)


def decode_record(line: bytes) -> dict[str, Any] | None:
    """Decode the record in a line; None if it is damaged."""
    body = _whole(line)
    if body is None:
        return None
    record: dict[str, Any] = json.loads(body + b"}")
    return record


def _whole(line: bytes) -> bytes | None:
    """Return the line up to its checksum; None if the checksum is wrong."""
    body, found, tail = line.rpartition(b',"crc":')
    digits = tail[:-1]
    fits = found and tail[-1:] == b"}" and digits.isdigit() and len(digits) < 11
    return body if fits and crc32(b"}", crc32(body)) == int(digits) else None


def _parse_line(raw: bytes) -> LogLine | None:
    body = _whole(raw)
    head = re.match(_HEAD, body) if body is not None else None
    return LogLine(raw, body, head) if body is not None and head else None


def read_log(path: Path) -> bytes:
    """Read a whole log. Raises OSError, also if it is no regular file or larger than MAX_LOG_BYTES."""
    return read_regular(path, MAX_LOG_BYTES)


# No header is longer.
MAX_HEADER_BYTES = 1 << 20


def read_header(path: Path) -> dict[str, Any]:
    """Return the fields of the header of a log; {} if it cannot be read."""
    try:
        record = decode_record(read_start(path, MAX_HEADER_BYTES).partition(b"\n")[0]) or {}
    except OSError:
        return {}
    data = record.get("data", {})
    return data if isinstance(data, dict) and record.get("type") == "Header" else {}


def open_log(path: Path) -> BinaryIO:
    """Open a log for reading. Raises like `read_log`."""
    return open_stream(path, MAX_LOG_BYTES)


def bounded_lines(file: BinaryIO, limit: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of a file; of one that has more bytes than `limit`, only the beginning."""
    while line := file.readline(limit):
        yield line
        while line and not line.endswith(b"\n"):
            line = file.readline(limit)


def read(source: Iterable[bytes]) -> Iterator[LogLine | None]:
    """Yield the valid records of a log's lines (a file opened binary), in order; None for each damaged piece."""
    for ended in source:
        raw = ended.rstrip(b"\r\n")
        line = _parse_line(raw)
        if line is not None:
            yield line
        elif raw:
            yield from _salvage(raw)


def read_bytes(data: bytes) -> Iterator[LogLine | None]:
    """Like `read`, for a log in memory."""
    return read(io.BytesIO(data))


def _salvage(raw: bytes) -> Iterator[LogLine | None]:
    """Yield the records and damaged pieces of a line that is not one valid record."""
    starts = [m.start() for m in re.finditer(_BEGINS, raw)]
    if not _is_foreign(raw[: starts[0]] if starts else raw):
        yield None
    for start, end in zip(starts, [*starts[1:], len(raw)], strict=False):
        piece = raw[start:end]
        line = None
        rest = b""
        for found in list(re.finditer(_ENDS, piece))[: -_MAX_TRIES - 1 : -1]:
            if (line := _parse_line(piece[: found.end()])) is not None:
                rest = piece[found.end() :]
                break
        yield line
        # A single byte is a corrupted line feed, and no record is missing.
        if line is not None and len(rest) > 1 and not _is_foreign(rest):
            yield None


def _is_foreign(piece: bytes) -> bool:
    """Return True if a piece contains only line ends of other programs."""
    return not piece or re.fullmatch(_FOREIGN, piece) is not None


def sort_records(found: list[LogLine | None]) -> list[LogLine]:
    """Sort the records by number and drop duplicates; records with equal numbers stay in file order."""
    once: dict[str, LogLine] = {}
    for line in found:
        if line is not None:
            once.setdefault(line.id, line)
    return sorted(once.values(), key=lambda line: line.seq)


class LogTail:
    """Reads the records of a log that have come since it was read last.

    restarts: how often it was read from its start again: a repaired one is a new file, with the same numbers.
    last: the number of the last record that was read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.restarts = self.last = 0
        self._inode, self._offset = 0, 0

    def read(self) -> list[LogLine]:
        """Return some of the next records, in order; none if there are none now."""
        try:
            stat = self._path.stat()
            if stat.st_ino != self._inode or stat.st_size < self._offset:
                self.restarts += self._inode != 0
                self._inode, self._offset, self.last = stat.st_ino, 0, 0
            if stat.st_size == self._offset:
                return []
            with open_log(self._path) as source:
                source.seek(self._offset)
                data = source.read(_TAIL_BYTES)
                while b"\n" not in data and (more := source.read(_TAIL_BYTES)):
                    data += more
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        fresh = [line for line in sort_records(list(read_bytes(whole))) if line.seq > self.last]
        self.last = max([self.last, *(line.seq for line in fresh)])
        return fresh


def mend(log: Path) -> tuple[str, int]:
    """Replace a damaged log, which the caller has locked, by one with its valid records.

    Returns the name of the copy of the damaged file and a descriptor of the new file, locked like the old one.
    Raises OSError and then changes nothing.
    """
    fresh = repair_file(log)
    with suppress(FileNotFoundError):
        fresh.unlink()
    fd = _create(fresh)
    try:
        with open_log(log) as source, os.fdopen(os.dup(fd), "wb") as target:
            for line in sort_records(list(read(source))):
                target.write(line.raw + b"\n")
        os.fsync(fd)
        _lock(fd)
        kept = _save_copy(log)
        # A log may be a link; see `move_beside_transcript`.
        os.rename(fresh, os.path.realpath(log))  # noqa: PTH104 - the one call at which crash tests stop
    except OSError:
        os.close(fd)
        with suppress(OSError):
            fresh.unlink()
        raise
    sync_folder(log.parent)
    return kept.name, fd


def _save_copy(log: Path) -> Path:
    names = damaged_copies(log)
    kept = next((name for name in names if not os.path.lexists(name)), names[-1])
    with suppress(FileNotFoundError):
        kept.unlink()
    try:
        os.link(os.path.realpath(log), kept)
    except OSError:
        # The file system has no hard links.
        with open_log(log) as source, os.fdopen(_create(kept), "wb") as target:
            while piece := source.read(1 << 20):
                target.write(piece)
    return kept


def _create(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _lock(fd: int) -> None:
    import fcntl

    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

"""Files with the whole of a result that was too long to show; Read and Grep can open them.

The files of a saved session are in a folder next to its log, without secrets, and are removed with it; beyond their
size limit, the oldest are removed. Others are in a private temporary folder, removed when the program ends. A folder
left
by a killed program is removed by the next program that needs one: the system releases the lock of a dead program.
"""

from __future__ import annotations

import _thread  # `threading` costs a one-shot run a millisecond
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from agent_tools.fs.safe_files import open_regular, private_folder
from agent_tools.record import Protocol

MAX_FILE_BYTES = 200_000_000
MAX_TOTAL_BYTES = 1_000_000_000
_PREFIX = "agent-output-"
_LOCK = "lock"
_FILE_NAME = "output-{}.txt"
# Size of the chunks in which secrets are searched for.
_CHUNK_BYTES = 1 << 16


class Redacts(Protocol):
    """Removes secrets from text. `safe_length` returns how much of a growing text can be written."""

    def __call__(self, text: str) -> str: ...

    def safe_length(self, text: str) -> int: ...


class SpillFile:
    """One output, from its start. cut: the size limit or the disk did not allow all of it."""

    def __init__(self, path: Path, scratch: Scratch, redact: Redacts | None = None) -> None:
        self.path = path
        self.size = 0
        self.cut = False
        self._scratch = scratch
        self._redact = redact
        self._unread = bytearray()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        free = os.fstatvfs(self._fd)
        # Leave half of the free space to others.
        self._limit = min(MAX_FILE_BYTES, free.f_bavail * free.f_frsize // 2)

    def write(self, data: bytes | bytearray) -> None:
        """Append as much as fits. Never raises."""
        if self._redact is None:
            self._append(data)
            return
        self._unread += data
        if len(self._unread) >= _CHUNK_BYTES:
            self._append_redacted(self._redact, last=False)

    def _append_redacted(self, redact: Redacts, *, last: bool) -> None:
        text = self._unread.decode("utf-8", "surrogateescape")
        end = len(text) if last else redact.safe_length(text)
        self._append(redact(text[:end]).encode("utf-8", "surrogateescape"))
        self._unread = bytearray(text[end:].encode("utf-8", "surrogateescape"))

    def _append(self, data: bytes | bytearray) -> None:
        if self.cut or self._fd < 0:
            return
        make_room = min(self._limit - self.size, self._scratch.make_room(len(data), self))
        self.cut = len(data) > make_room
        view = memoryview(data)[: max(make_room, 0)]
        try:
            while view:
                written = os.write(self._fd, view)
                self.size += written
                view = view[written:]
        except OSError:
            self.cut = True

    def close(self) -> None:
        if self._fd >= 0:
            if self._redact is not None and self._unread:
                self._append_redacted(self._redact, last=True)
            os.close(self._fd)
            self._fd = -1

    @property
    def location(self) -> str:
        """Return where the output is, for the note that replaces it."""
        return f"{f'the first {self.size:,} bytes are' if self.cut else 'all of it is'} in {self.path}"


class Scratch:
    """The folder of output files, which tools may only read. Thread-safe.

    folder: None until it is needed.
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        self._also: tuple[Path, ...] = ()
        self._redact: Callable[[], Redacts] | None = None
        self._redactor: Redacts | None = None
        self._limit = MAX_TOTAL_BYTES
        # Sizes of files of earlier runs, the oldest first; and the files of this one.
        self._earlier: dict[Path, int] | None = None
        self._files: list[SpillFile] = []
        self._number = 0
        self._is_persistent = False
        self._lock = -1
        self._open = True
        self._guard = _thread.RLock()

    def keep_in(self, folder: Path, redact: Callable[[], Redacts], most: int, also: tuple[Path, ...] = ()) -> None:
        """Store the files of a saved session in `folder`, which is created when it is needed.

        redact: makes the redactor of secrets.
        most: limit of all files in bytes.
        also: folders of the sessions that this one was copied from.
        """
        self.folder, self._also = Path(os.path.realpath(folder)), tuple(Path(os.path.realpath(f)) for f in also)
        self._redact, self._limit, self._is_persistent = redact, most, True

    @property
    def used(self) -> int:
        return sum(file.size for file in self._files) + sum((self._earlier or {}).values())

    def contains(self, real: Path) -> bool:
        """Return True if a resolved path is in the folder, or in that of a session that this one was copied from."""
        return any(real.is_relative_to(f) for f in (self.folder, *self._also) if f is not None)

    def new(self) -> SpillFile | None:
        """Create a file for one output, which the caller closes; return None if that fails."""
        with self._guard:
            if not self._open:
                return None
            try:
                file = self._create_file()
            except OSError:
                return None
            self._files.append(file)
            return file

    def save(self, text: str) -> Path | None:
        """Save a text in a new file; return its path, or None if that fails or a part of it is missing."""
        file = self.new()
        if file is None:
            return None
        file.write(text.encode("utf-8", "replace"))
        file.close()
        return None if file.cut else file.path

    def make_room(self, wanted: int, for_file: SpillFile) -> int:
        """Return how many bytes may be written, after removing the oldest files of a saved session if necessary."""
        with self._guard:
            if self._is_persistent:
                for path in list(self._removable(for_file)):
                    if self.used + wanted <= self._limit:
                        break
                    self._delete(path)
            limit = self._limit if self._is_persistent else MAX_TOTAL_BYTES
            return limit - self.used

    def _removable(self, excluded: SpillFile) -> Iterator[Path]:
        yield from list(self._earlier or {})
        for file in self._files:
            if file is not excluded:
                yield file.path

    def _delete(self, path: Path) -> None:
        with suppress(OSError):
            path.unlink()
        if self._earlier is not None:
            self._earlier.pop(path, None)
        self._files = [file for file in self._files if file.path != path]

    def _create_file(self) -> SpillFile:
        if self._is_persistent and self._earlier is None:
            self._scan_session_folder()
        elif self.folder is None:
            self._make_temporary()
        assert self.folder is not None
        if self._redact is not None and self._redactor is None:
            self._redactor = self._redact()
        self._number += 1
        return SpillFile(self.folder / _FILE_NAME.format(self._number), self, self._redactor)

    def _scan_session_folder(self) -> None:
        """Create the folder of a session, and find the files that earlier runs left in it."""
        assert self.folder is not None
        private_folder(self.folder)
        found: list[tuple[int, Path, int]] = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                digits = entry.name.removeprefix("output-").removesuffix(".txt")
                if digits.isascii() and digits.isdigit() and len(digits) < 10:
                    found.append((int(digits), Path(entry.path), entry.stat(follow_symlinks=False).st_size))
        self._earlier = {path: size for _, path, size in sorted(found)}
        self._number = max((number for number, _, _ in found), default=0)

    def _make_temporary(self) -> None:
        import atexit
        import tempfile

        # 0700, by mkdtemp.
        self.folder = Path(os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX)))
        self._lock = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        _try_lock(self._lock)
        atexit.register(self.close)
        _remove_stale(self.folder.parent)

    def close(self) -> None:
        """Close all files, and remove them unless the session is saved; `new` returns None from now on."""
        with self._guard:
            self._open = False
            for file in self._files:
                file.close()
            if self.folder is not None and not self._is_persistent:
                _remove(self.folder)
                self.folder = None
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1


def _remove(folder: Path) -> None:
    with suppress(OSError):
        for path in list(folder.iterdir()):
            path.unlink()
        folder.rmdir()


def _remove_stale(parent: Path) -> None:
    """Remove the folders of programs that no longer run."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            state = folder.lstat()
            if state.st_uid != os.geteuid() or state.st_mode != stat.S_IFDIR | 0o700:
                continue
            lock = open_regular(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if _try_lock(lock):
                    _remove(folder)
            finally:
                os.close(lock)


def _try_lock(lock: int) -> bool:
    """Acquire the lock if it is free."""
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

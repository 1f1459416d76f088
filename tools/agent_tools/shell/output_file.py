"""Files for command output that is too long for memory; Read and Grep can open them.

They are in a private temporary folder, created when first needed and removed when the program ends. A folder left by a
killed program is removed by the next program that needs one: the lock of a dead program is released by the system.
"""

from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

from agent_tools.fs.safe_files import open_regular

MOST_PER_FILE = 200_000_000
MOST_IN_ALL = 1_000_000_000
_PREFIX = "agent-output-"
_LOCK = "lock"


class SpillFile:
    """One output, from its start. cut: there was more than the size limit or the disk allows."""

    def __init__(self, path: Path, scratch: Scratch) -> None:
        self.path = path
        self.size = 0
        self.cut = False
        self._scratch = scratch
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        free = os.fstatvfs(self._fd)
        # At most half of the free space: others need the disk too.
        self._most = min(MOST_PER_FILE, free.f_bavail * free.f_frsize // 2)

    def write(self, data: bytes | bytearray) -> None:
        """Append as much as there is room for. Never raises."""
        if self.cut or self._fd < 0:
            return
        room = min(self._most - self.size, MOST_IN_ALL - self._scratch.used)
        self.cut = len(data) > room
        view = memoryview(data)[: max(room, 0)]
        try:
            while view:
                written = os.write(self._fd, view)
                self.size += written
                view = view[written:]
        except OSError:
            self.cut = True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def hint(self) -> str:
        """Return where the output is, for the note that replaces it."""
        what = f"the first {self.size:,} bytes are" if self.cut else "all of it is"
        return f"{what} in {self.path} while this program runs: Grep that, or Read it by offset and limit"


class Scratch:
    """The folder of output files, which tools may only read. folder: None until the first is created. Thread-safe."""

    def __init__(self) -> None:
        self._making = threading.Lock()
        self.folder: Path | None = None
        self._files: list[SpillFile] = []
        self._lock = -1
        self._open = True

    @property
    def used(self) -> int:
        return sum(file.size for file in self._files)

    def holds(self, real: Path) -> bool:
        """Return True if a resolved path is in the folder."""
        return self.folder is not None and real.is_relative_to(self.folder)

    def new(self) -> SpillFile | None:
        """Create a file for one output, which the caller closes; return None if that fails."""
        with self._making:
            if not self._open:
                return None
            try:
                if self.folder is None:
                    self._make()
                assert self.folder is not None
                file = SpillFile(self.folder / f"output-{len(self._files) + 1}.txt", self)
            except OSError:
                return None
            self._files.append(file)
            return file

    def _make(self) -> None:
        # Needed only when a command has long output.
        import atexit
        import tempfile

        # 0700, by mkdtemp.
        self.folder = Path(os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX)))
        self._lock = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        _is_free(self._lock)
        atexit.register(self.close)
        _remove_stale(self.folder.parent)

    def close(self) -> None:
        """Remove all files; `new` returns None from now on."""
        self._open = False
        for file in self._files:
            file.close()
        if self.folder is not None:
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
                if _is_free(lock):
                    _remove(folder)
            finally:
                os.close(lock)


def _is_free(lock: int) -> bool:
    """Acquire the lock if it is free."""
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

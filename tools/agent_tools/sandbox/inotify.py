"""Changes in directories, as the kernel reports them (inotify)."""

from __future__ import annotations

import ctypes
import os
import struct

_CREATE, _MOVED_TO, _MODIFY, _ATTRIBUTES, _CLOSE_WRITE, _MOVED_FROM = 0x100, 0x80, 2, 4, 8, 0x40
_DELETE, _OVERFLOW = 0x200, 0x4000
_NEW_NAMES = _CREATE | _MOVED_TO
_ANY_CHANGE = _NEW_NAMES | _MODIFY | _ATTRIBUTES | _CLOSE_WRITE | _MOVED_FROM | _DELETE
_HEADER = struct.Struct("iIII")
_READ_BYTES = 1 << 16


class Inotify:
    """A queue of changes of the directories and files that were added. Raises OSError if the system gives none."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._check(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def fileno(self) -> int:
        return self._fd

    def add(self, descriptor: int, *, content: bool = False) -> int:
        """Report names that appear in a directory; return the number of this watch, always the same. Raises OSError.

        descriptor: of the directory, which O_PATH may have opened.
        content: report every change of its files as well. It may then be a file.
        """
        path = f"/proc/self/fd/{descriptor}".encode()
        mask = ctypes.c_uint32(_ANY_CHANGE if content else _NEW_NAMES)
        return self._check(self._libc.inotify_add_watch(self._fd, path, mask))

    def remove(self, watch: int) -> None:
        """Stop reporting changes of a directory."""
        self._libc.inotify_rm_watch(self._fd, watch)

    def read(self) -> list[tuple[int, str]]:
        """Return what has changed since the last call: the watch and the name; -1 if changes were lost."""
        found = []
        while data := self._read_some():
            position = 0
            while position < len(data):
                watch, mask, _, length = _HEADER.unpack_from(data, position)
                position += _HEADER.size
                name = os.fsdecode(data[position : position + length].rstrip(b"\0"))
                position += length
                found.append((-1 if mask & _OVERFLOW else watch, name))
        return found

    def _read_some(self) -> bytes:
        try:
            return os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        os.close(self._fd)

    @staticmethod
    def _check(result: int) -> int:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result

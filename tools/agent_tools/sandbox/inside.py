"""The process inside a session's sandbox, with the network and views of files that its commands share.

`python -I -S inside.py FD` creates namespaces, reads requests from the socket FD, one per packet in the form of
`marshal`, and answers each, with descriptors if there are any; it ends when the other side is closed. It imports
nothing from this package, because it starts without site packages, and few modules: `json`, `socket` and `typing` would
take longer than all that it does for a command.

Requests: {"layers": {DIRECTORY: [UPPER, WORK]}}: redirect writes below DIRECTORY to UPPER; answered with the
directories for which that works, and the namespaces (user, if there is one; mount; network). {"view": [[WHAT, TARGET,
SOURCE], ...]}: a view of the files with these mounts of `mounts.py`, whose sources are the files without mounts, and
everything else read-only; answered with a number. {"guard": NUMBER, "mounts": [...]}: a mount namespace with more
mounts on that view, or "stale" if the view has lost a mount: the kernel removes a mount when its mount point is
removed. {"forget": NUMBER}: release the view. {"listen": PORT} (0: any) and {"connect": PORT}: a socket on the inner
loopback. {"ports": true}: the ports with a listener there.
"""

from __future__ import annotations

import _socket as socket
import ctypes
import fcntl
import marshal
import os
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NEWNS, _NEWUSER, _NEWNET = 0x20000, 0x10000000, 0x40000000
# The same values for MS_* and MOUNT_ATTR_*.
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_EXECUTION, _DETACH = 1, 2, 4, 8, 2
_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "core": "/proc/kcore",
    "ptmx": "pts/ptmx",
}
_RECURSIVE, _PRIVATE, _SLAVE = 0x4000, 1 << 18, 1 << 19
# Since Linux 5.12, the same numbers on every architecture. AT_FDCWD, AT_RECURSIVE, AT_EMPTY_PATH, OPEN_TREE_CLONE,
# MOVE_MOUNT_F_EMPTY_PATH.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD, _AT_RECURSIVE, _EMPTY_PATH, _CLONE, _FROM_DESCRIPTOR = -100, 0x8000, 0x1000, 1, 4
_PROC, _MOUNTS = "/proc", "/proc/self/ns/mnt"
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
_LISTENING = "0A"
_LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
MAX_PACKET_BYTES = 65_536

_libc = ctypes.CDLL(None, use_errno=True)
# Views by number, each with its list of mounts.
_views: list[tuple[int, bytes]] = []


class _Ignored:
    """`contextlib.suppress`."""

    def __init__(self, kind: type[OSError] = OSError) -> None:
        self._kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *about: object) -> bool:
        return kind is not None and issubclass(kind, self._kind)


def main(arguments: list[str]) -> None:
    requests = socket.socket(fileno=int(arguments[0]))
    try:
        make_namespaces()
    except OSError as error:
        reply(requests, {"error": str(error)})
        return
    while data := requests.recv(MAX_PACKET_BYTES):
        try:
            answer, given = handle(marshal.loads(data))
        except OSError as error:
            answer, given = {"error": str(error)}, []
        reply(requests, answer, given)
        for descriptor in given:
            os.close(descriptor)


def make_namespaces() -> None:
    """Create the namespaces, with this user's rights, and bring up their loopback."""
    user, group, root = os.geteuid(), os.getegid(), os.geteuid() == 0
    _call("unshare", _NEWNS | _NEWNET | (0 if root else _NEWUSER))
    if not root:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    # Mounts of the machine propagate to here, but ours do not propagate back.
    _mount(b"none", b"/", b"", _RECURSIVE | _SLAVE, b"")
    any_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    device = struct.pack("16sH22x", b"lo", 0)
    flags = struct.unpack_from("H", fcntl.ioctl(any_socket, _GET_FLAGS, device), 16)[0]
    fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH22x", b"lo", flags | _UP))
    any_socket.close()


def handle(request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Carry out one request; return the answer and its descriptors."""
    if "layers" in request:
        done = [folder for folder, (upper, work) in request["layers"].items() if mount_overlay(folder, upper, work)]
        names = ["mnt", "net"] if os.geteuid() == 0 else ["user", "mnt", "net"]
        return {"layers": done, "spaces": names}, [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in names]
    if "view" in request:
        _views.append(make_view(request["view"]))
        return {"view": len(_views) - 1}, []
    if "guard" in request:
        view, mounted = _views[request["guard"]]
        files = guard(view, mounted, request["mounts"])
        return ({"stale": True}, []) if files is None else ({}, [files])
    if "listen" in request:
        created = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        with _Ignored():
            created.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            created.bind((_LOOPBACK[0][1], request["listen"]))
            created.listen(512)
        except OSError:
            created.close()
            raise
        port = created.getsockname()[1]
        return {"port": port}, [created.detach()]
    if "connect" in request:
        return {}, [connect(request["connect"]).detach()]
    if "forget" in request:
        os.close(_views[request["forget"]][0])
        return {}, []
    return {"ports": sorted(ports())}, []


def mount_overlay(folder: str, upper: str, work: str) -> bool:
    """Mount an overlay on a directory, to receive its writes; return False if the kernel does not support it."""
    own = b"" if os.geteuid() == 0 else b",userxattr"
    words = ",".join(f"{name}={_escape(path)}" for name, path in
                     (("lowerdir", folder), ("upperdir", upper), ("workdir", work)))  # fmt: skip
    try:
        _mount(b"overlay", os.fsencode(folder), b"overlay", 0, os.fsencode(words) + own)
    except OSError:
        return False
    return True


def make_view(plan: list[tuple[str, str, str]]) -> tuple[int, bytes]:
    """Create a mount namespace with these mounts, read-only otherwise; return its descriptor and list of mounts.

    Raises OSError.
    """
    created = {}
    with _NewNamespace():
        try:
            # Copy the sources as they are now, each with its own flags.
            for what, target, source in plan:
                if what in ("bind", "read-only"):
                    created[target] = _copy(source, _NO_DEVICES | (_READ_ONLY if what == "read-only" else 0))
                elif what == "optional":
                    with _Ignored(FileNotFoundError):
                        created[target] = _copy(source, _NO_DEVICES | _READ_ONLY)
            for device in _DEVICES:
                created[device] = _copy(device, _READ_ONLY)
            # Bubblewrap writes its user mapping there before it mounts its own.
            created[_PROC] = _copy(_PROC, _NO_DEVICES)
            # Do not receive new mounts of the machine: they would be writable.
            _set_attributes(_AT_FDCWD, b"/", _READ_ONLY | _NO_DEVICES, propagation=_PRIVATE)
            _move(created[_PROC], _PROC)
            _make_devices(created)
            for what, target, source in plan:
                if what == "empty":
                    os.makedirs(target, exist_ok=True)
                    _mount(b"tmpfs", os.fsencode(target), b"tmpfs", _NO_SUID | _NO_DEVICES, b"mode=0755")
                elif what == "link":
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    os.symlink(source, target)
                elif target in created:
                    _make_mount_point(target, folder=stat.S_ISDIR(os.fstat(created[target]).st_mode))
                    _move(created[target], target)
        finally:
            for descriptor in created.values():
                os.close(descriptor)
        for what, target, _ in plan:
            if what == "empty":
                _set_attributes(_AT_FDCWD, os.fsencode(target), _READ_ONLY, recursive=False)
        return os.open(_MOUNTS, os.O_RDONLY), _read_mounts()


def _make_devices(created: dict[str, int]) -> None:
    """Create a /dev with the few devices that every program needs, and terminals and shared memory of the session."""
    with _Ignored():  # a user cannot unmount what is there, but can mount over it
        _call("umount2", b"/dev", _DETACH)
    _mount(b"tmpfs", b"/dev", b"tmpfs", _NO_SUID | _NO_DEVICES, b"mode=0755")
    for device in _DEVICES:
        _make_mount_point(device, folder=False)
        _move(created[device], device)
    for name, to in _DEVICE_LINKS.items():
        os.symlink(to, f"/dev/{name}")
    for name, kind, options in (("pts", b"devpts", b"newinstance,ptmxmode=0666,mode=0620"), ("shm", b"tmpfs", b"")):
        os.mkdir(f"/dev/{name}")
        _mount(kind, b"/dev/" + name.encode(), kind, _NO_SUID | _NO_EXECUTION, options)
    _set_attributes(_AT_FDCWD, b"/dev", _READ_ONLY, recursive=False)


def guard(view: int, mounted: bytes, plan: list[tuple[str, str, str]]) -> int | None:
    """Create a mount namespace with these mounts on a view; return its descriptor, or None if the view has changed.

    Raises OSError.
    """
    with _NewNamespace(view, mounted) as same:
        if not same:
            return None
        writable: dict[str, int] = {}
        try:
            # Copied before anything is mounted: below a guard, the copy of a writable directory would be read-only.
            for what, target, source in plan:
                if what == "bind":
                    writable[target] = _copy(source, _NO_DEVICES)
            for what, target, source in plan:
                if what == "bind":
                    created = writable.pop(target)
                else:
                    created = _copy("/dev/null" if what == "closed" else source, _NO_DEVICES | _READ_ONLY)
                try:
                    _move(created, target)
                finally:
                    os.close(created)
        finally:
            for created in writable.values():
                os.close(created)
        return os.open(_MOUNTS, os.O_RDONLY)


class _NewNamespace:
    """Enters a new mount namespace for the block, a copy of the view or of the current one.

    The block gets True if the mounts of the view are still `mounted`.
    """

    def __init__(self, view: int | None = None, mounted: bytes = b"") -> None:
        self._view, self._mounted = view, mounted
        self._before = os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> bool:
        try:
            if self._view is not None:
                _call("setns", self._view, _NEWNS)
            same = self._view is None or _read_mounts() == self._mounted
            _call("unshare", _NEWNS)
        except OSError:
            self._return()
            raise
        return same

    def __exit__(self, *about: object) -> None:
        self._return()

    def _return(self) -> None:
        if _libc.setns(self._before, _NEWNS) < 0:
            os._exit(1)  # the other side notices that this process ended
        os.close(self._before)


def _read_mounts() -> bytes:
    with open("/proc/self/mountinfo", "rb") as file:
        return file.read()


def _copy(source: str, attributes: int) -> int:
    """Copy the mount at `source` with additional flags; return its descriptor. Raises OSError."""
    flags = _AT_RECURSIVE | _CLONE | os.O_CLOEXEC
    created = _call(
        "syscall", ctypes.c_long(_OPEN_TREE), ctypes.c_int(_AT_FDCWD), os.fsencode(source), ctypes.c_uint(flags)
    )
    if attributes:
        try:
            _set_attributes(created, b"", attributes)
        except OSError:
            os.close(created)
            raise
    return created


def _move(created: int, target: str) -> None:
    nothing, target_bytes, flags = b"", os.fsencode(target), ctypes.c_uint(_FROM_DESCRIPTOR)
    _call(
        "syscall",
        ctypes.c_long(_MOVE_MOUNT),
        ctypes.c_int(created),
        nothing,
        ctypes.c_int(_AT_FDCWD),
        target_bytes,
        flags,
    )


def _set_attributes(at: int, path: bytes, attributes: int, *, propagation: int = 0, recursive: bool = True) -> None:
    """Set flags of a mount, and with `recursive` of all below it. Raises OSError."""
    wanted = struct.pack("QQQQ", attributes, 0, propagation, 0)
    flags = ctypes.c_uint((_AT_RECURSIVE if recursive else 0) | (0 if path else _EMPTY_PATH))
    number, size = ctypes.c_long(_MOUNT_SETATTR), ctypes.c_size_t(len(wanted))
    _call("syscall", number, ctypes.c_int(at), path, flags, wanted, size)


def _make_mount_point(target: str, *, folder: bool) -> None:
    """Create a mount point."""
    if os.path.lexists(target):
        return
    os.makedirs(target if folder else os.path.dirname(target), exist_ok=True)
    if not folder:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))


def _escape(path: str) -> str:
    return "".join(f"\\{c}" if c in "\\:," else c for c in path)


def connect(port: int) -> socket.socket:
    for family, address in _LOOPBACK:
        with _Ignored():
            connected = socket.socket(family, socket.SOCK_STREAM)
            connected.settimeout(5)
            connected.connect((address, port))
            return connected
    raise ConnectionRefusedError(f"nothing listens on port {port}")


def ports() -> set[int]:
    """Return the TCP ports with a listener on the loopback or on all addresses."""
    found = set()
    for name in ("tcp", "tcp6"):
        with _Ignored(), open(f"/proc/self/net/{name}", encoding="ascii") as file:
            for line in file.readlines()[1:]:
                words = line.split()
                if words[3] == _LISTENING:
                    found.add(int(words[1].rsplit(":", 1)[1], 16))
    return found


def reply(requests: socket.socket, answer: dict[str, Any], given: list[int] | None = None) -> None:
    rights = struct.pack(f"{len(given or ())}i", *given or ())
    requests.sendmsg([marshal.dumps(answer)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if rights else [])


def _mount(source: bytes, target: bytes, kind: bytes, flags: int, data: bytes) -> None:
    _call("mount", source, target, kind, ctypes.c_ulong(flags), data)


def _call(name: str, *words: Any) -> int:
    result = int(getattr(_libc, name)(*words))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


if __name__ == "__main__":
    main(sys.argv[1:])

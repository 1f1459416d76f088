"""The process inside a session's sandbox, with the network and views of files that its commands share.

`python -I -S inside.py FD` creates namespaces, reads requests from the socket FD as JSON, one per packet, and answers
each, with descriptors if there are any; it ends when the other side is closed. It imports nothing of ours, because it
starts without site packages.

Requests: {"layers": {DIRECTORY: [UPPER, WORK]}}: redirect writes below DIRECTORY to UPPER; answered with the
directories for which that works, and the namespaces (user, if there is one; mount; network). {"view": [[WHAT, TARGET,
SOURCE], ...]}: files after these mounts of `mounts.py`, with sources as they are without any, and everything else
read-only; answered with a number. {"guard": NUMBER, "mounts": [...]}: a mount namespace with more mounts on that view,
or "stale" if the view has lost a mount: the kernel removes a mount when its mount point is removed. {"forget": NUMBER}:
release the view. {"listen": PORT} (0: any) and {"connect": PORT}: a socket on the inner loopback. {"ports": true}: the
ports with a listener there.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_NEWNS, _NEWUSER, _NEWNET = 0x20000, 0x10000000, 0x40000000
# MS_* and MOUNT_ATTR_* alike.
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
_HERE, _RECURSE, _EMPTY_PATH, _CLONE, _FROM_DESCRIPTOR = -100, 0x8000, 0x1000, 1, 4
_PROC, _MOUNTS = "/proc", "/proc/self/ns/mnt"
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
_LISTENING = "0A"
_LOOPBACK = ("127.0.0.1", "::1")
LONGEST = 65_536

_libc = ctypes.CDLL(None, use_errno=True)
# Views by number, each with its list of mounts.
_views: list[tuple[int, bytes]] = []


def main(arguments: list[str]) -> None:
    orders = socket.socket(fileno=int(arguments[0]))
    try:
        make_namespaces()
    except OSError as error:
        reply(orders, {"error": str(error)})
        return
    while data := orders.recv(LONGEST):
        try:
            answer, given = obey(json.loads(data))
        except OSError as error:
            answer, given = {"error": str(error)}, []
        reply(orders, answer, given)
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
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        device = struct.pack("16sH22x", b"lo", 0)
        flags = struct.unpack_from("H", fcntl.ioctl(any_socket, _GET_FLAGS, device), 16)[0]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH22x", b"lo", flags | _UP))


def obey(order: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Carry out one request; return the answer and its descriptors."""
    if "layers" in order:
        done = [place for place, (upper, work) in order["layers"].items() if layer(place, upper, work)]
        names = ["mnt", "net"] if os.geteuid() == 0 else ["user", "mnt", "net"]
        return {"layers": done, "spaces": names}, [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in names]
    if "view" in order:
        _views.append(make_view(order["view"]))
        return {"view": len(_views) - 1}, []
    if "guard" in order:
        view, mounted = _views[order["guard"]]
        files = guard(view, mounted, order["mounts"])
        return ({"stale": True}, []) if files is None else ({}, [files])
    if "listen" in order:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        with suppress(OSError):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((_LOOPBACK[0], order["listen"]))
            made.listen(512)
        except OSError:
            made.close()
            raise
        port = made.getsockname()[1]
        return {"port": port}, [made.detach()]
    if "connect" in order:
        return {}, [connect(order["connect"]).detach()]
    if "forget" in order:
        os.close(_views[order["forget"]][0])
        return {}, []
    return {"ports": sorted(ports())}, []


def layer(place: str, upper: str, work: str) -> bool:
    """Mount an overlay on a directory that receives its writes; return False if the kernel does not support it."""
    own = b"" if os.geteuid() == 0 else b",userxattr"
    words = ",".join(f"{name}={_escaped(path)}" for name, path in
                     (("lowerdir", place), ("upperdir", upper), ("workdir", work)))  # fmt: skip
    try:
        _mount(b"overlay", os.fsencode(place), b"overlay", 0, os.fsencode(words) + own)
    except OSError:
        return False
    return True


def make_view(plan: list[tuple[str, str, str]]) -> tuple[int, bytes]:
    """Create a mount namespace with these mounts and all else read-only; return its descriptor and list of mounts.

    Raises OSError.
    """
    made = {}
    with _apart(None):
        try:
            # Copy the sources as they are now, each with its own flags.
            for what, target, source in plan:
                if what in ("bind", "read-only"):
                    made[target] = _copy(source, _NO_DEVICES | (_READ_ONLY if what == "read-only" else 0))
            for device in _DEVICES:
                made[device] = _copy(device, _READ_ONLY)
            # Bubblewrap writes its user mapping there before it mounts its own.
            made[_PROC] = _copy(_PROC, _NO_DEVICES)
            # Do not receive new mounts of the machine: they would be writable.
            _set_attributes(_HERE, b"/", _READ_ONLY | _NO_DEVICES, propagation=_PRIVATE)
            _move(made[_PROC], _PROC)
            _make_devices(made)
            for what, target, source in plan:
                if what == "empty":
                    os.makedirs(target, exist_ok=True)
                    _mount(b"tmpfs", os.fsencode(target), b"tmpfs", _NO_SUID | _NO_DEVICES, b"mode=0755")
                elif what == "link":
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    os.symlink(source, target)
                else:
                    _make_place(target, folder=stat.S_ISDIR(os.fstat(made[target]).st_mode))
                    _move(made[target], target)
        finally:
            for descriptor in made.values():
                os.close(descriptor)
        for what, target, _ in plan:
            if what == "empty":
                _set_attributes(_HERE, os.fsencode(target), _READ_ONLY, recursive=False)
        return os.open(_MOUNTS, os.O_RDONLY), _mounted()


def _make_devices(made: dict[str, int]) -> None:
    """Create a /dev with the few devices that every program needs, and terminals and shared memory of the session."""
    with suppress(OSError):  # a user cannot unmount what is there, but can mount over it
        _call("umount2", b"/dev", _DETACH)
    _mount(b"tmpfs", b"/dev", b"tmpfs", _NO_SUID | _NO_DEVICES, b"mode=0755")
    for device in _DEVICES:
        _make_place(device, folder=False)
        _move(made[device], device)
    for name, to in _DEVICE_LINKS.items():
        os.symlink(to, f"/dev/{name}")
    for name, kind, options in (("pts", b"devpts", b"newinstance,ptmxmode=0666,mode=0620"), ("shm", b"tmpfs", b"")):
        os.mkdir(f"/dev/{name}")
        _mount(kind, b"/dev/" + name.encode(), kind, _NO_SUID | _NO_EXECUTION, options)
    _set_attributes(_HERE, b"/dev", _READ_ONLY, recursive=False)


def guard(view: int, mounted: bytes, plan: list[tuple[str, str, str]]) -> int | None:
    """Create a mount namespace with these mounts on a view; return its descriptor, or None if the view has changed.

    Raises OSError.
    """
    with _apart(view, mounted) as same:
        if not same:
            return None
        for what, target, source in plan:
            closed = what == "closed"
            flags = _NO_DEVICES | (_READ_ONLY if what != "bind" else 0)
            made = _copy("/dev/null" if closed else source, flags)
            try:
                _move(made, target)
            finally:
                os.close(made)
        return os.open(_MOUNTS, os.O_RDONLY)


@contextmanager
def _apart(view: int | None, mounted: bytes = b"") -> Iterator[bool]:
    """Enter a new mount namespace for the block, a copy of the view or of the current one.

    Yields True if the mounts of the view are still `mounted`.
    """
    before = os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if view is not None:
            _call("setns", view, _NEWNS)
        same = view is None or _mounted() == mounted
        _call("unshare", _NEWNS)
        yield same
    finally:
        if _libc.setns(before, _NEWNS) < 0:
            os._exit(1)  # the other side notices that this process ended
        os.close(before)


def _mounted() -> bytes:
    with open("/proc/self/mountinfo", "rb") as file:
        return file.read()


def _copy(source: str, attributes: int) -> int:
    """Copy the mount at `source` with additional flags; return its descriptor. Raises OSError."""
    flags = _RECURSE | _CLONE | os.O_CLOEXEC
    made = _call("syscall", ctypes.c_long(_OPEN_TREE), ctypes.c_int(_HERE), os.fsencode(source), ctypes.c_uint(flags))
    if attributes:
        try:
            _set_attributes(made, b"", attributes)
        except OSError:
            os.close(made)
            raise
    return made


def _move(made: int, target: str) -> None:
    nothing, place, flags = b"", os.fsencode(target), ctypes.c_uint(_FROM_DESCRIPTOR)
    _call("syscall", ctypes.c_long(_MOVE_MOUNT), ctypes.c_int(made), nothing, ctypes.c_int(_HERE), place, flags)


def _set_attributes(at: int, path: bytes, attributes: int, *, propagation: int = 0, recursive: bool = True) -> None:
    """Set flags of a mount, and with `recursive` of all below it. Raises OSError."""
    wanted = struct.pack("QQQQ", attributes, 0, propagation, 0)
    flags = ctypes.c_uint((_RECURSE if recursive else 0) | (0 if path else _EMPTY_PATH))
    number, size = ctypes.c_long(_MOUNT_SETATTR), ctypes.c_size_t(len(wanted))
    _call("syscall", number, ctypes.c_int(at), path, flags, wanted, size)


def _make_place(target: str, *, folder: bool) -> None:
    """Create a mount point."""
    if os.path.lexists(target):
        return
    os.makedirs(target if folder else os.path.dirname(target), exist_ok=True)
    if not folder:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))


def _escaped(path: str) -> str:
    return "".join(f"\\{c}" if c in "\\:," else c for c in path)


def connect(port: int) -> socket.socket:
    for address in _LOOPBACK:
        with suppress(OSError):
            return socket.create_connection((address, port), timeout=5)
    raise ConnectionRefusedError(f"nothing listens on port {port}")


def ports() -> set[int]:
    """Return the TCP ports with a listener on the loopback or on all addresses."""
    found = set()
    for name in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/self/net/{name}", encoding="ascii") as file:
            for line in file.readlines()[1:]:
                words = line.split()
                if words[3] == _LISTENING:
                    found.add(int(words[1].rsplit(":", 1)[1], 16))
    return found


def reply(orders: socket.socket, answer: dict[str, Any], given: list[int] | None = None) -> None:
    socket.send_fds(orders, [json.dumps(answer).encode()], given or [])


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

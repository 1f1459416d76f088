"""The inside of a session's sandbox: a network and a view of files that all its commands share.

`python -I -S sandbox_inside.py FD` makes namespaces, reads its orders from the socket FD as JSON, one per packet, and
answers each, with descriptors where there are any; it ends when the other side is closed. It stands alone and imports
nothing of ours, because it starts without site packages.

Orders: {"layers": {DIRECTORY: [UPPER, WORK]}}: what is written below DIRECTORY goes to UPPER from now on; answered
with the directories for which that works, and the namespaces (user, where there is one; mount; network). {"listen":
PORT} (0: any) and {"connect": PORT}: a socket on the loopback of the inside. {"ports": true}: the ports that are
listened to there.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import struct
import sys
from contextlib import suppress
from typing import Any

_NEWNS, _NEWUSER, _NEWNET = 0x20000, 0x10000000, 0x40000000
_RECURSIVE, _SLAVE, _PRIVATE = 0x4000, 1 << 19, 1 << 18
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
_LISTENING = "0A"
_LOOPBACK = ("127.0.0.1", "::1")
LONGEST = 65_536

_libc = ctypes.CDLL(None, use_errno=True)


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
    """Make the namespaces, with this user's own rights, and their loopback."""
    user, group, root = os.geteuid(), os.getegid(), os.geteuid() == 0
    _call("unshare", _NEWNS | _NEWNET | (0 if root else _NEWUSER))
    if not root:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    # Mounts of the machine still arrive here; those of ours stay.
    _mount(b"none", b"/", b"", _RECURSIVE | _SLAVE, b"")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        device = struct.pack("16sH22x", b"lo", 0)
        flags = struct.unpack_from("H", fcntl.ioctl(any_socket, _GET_FLAGS, device), 16)[0]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH22x", b"lo", flags | _UP))


def obey(order: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """The answer to one order, and the descriptors that go with it."""
    if "layers" in order:
        done = [place for place, (upper, work) in order["layers"].items() if layer(place, upper, work)]
        names = ["mnt", "net"] if os.geteuid() == 0 else ["user", "mnt", "net"]
        return {"layers": done, "spaces": names}, [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in names]
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
    return {"ports": sorted(ports())}, []


def layer(place: str, upper: str, work: str) -> bool:
    """Lay a layer over a directory that takes what is written there; False where the kernel cannot."""
    own = b"" if os.geteuid() == 0 else b",userxattr"
    words = ",".join(f"{name}={_escaped(path)}" for name, path in
                     (("lowerdir", place), ("upperdir", upper), ("workdir", work)))  # fmt: skip
    try:
        _mount(b"overlay", os.fsencode(place), b"overlay", 0, os.fsencode(words) + own)
    except OSError:
        return False
    return True


def _escaped(path: str) -> str:
    return "".join(f"\\{c}" if c in "\\:," else c for c in path)


def connect(port: int) -> socket.socket:
    for address in _LOOPBACK:
        with suppress(OSError):
            return socket.create_connection((address, port), timeout=5)
    raise ConnectionRefusedError(f"nothing listens on port {port}")


def ports() -> set[int]:
    """The ports of TCP that are listened to on the loopback, or on every address."""
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


def _call(name: str, *words: Any) -> None:
    if getattr(_libc, name)(*words) < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


if __name__ == "__main__":
    main(sys.argv[1:])

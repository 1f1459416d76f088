"""The namespaces that commands of a session share: a private network, and layers over caches.

The process `inside.py` creates them and sends descriptors here. It ends with this program in any case, because it waits
for requests on a socket.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any

from agent_tools.text import one_line

_INSIDE = Path(__file__).with_name("inside.py")
_PROGRAMS = ("/usr/bin/nsenter", "/bin/nsenter", "/usr/sbin/nsenter")
_OPTIONS = {"user": "--user", "mnt": "--mount", "net": "--net"}
_SECONDS = 10.0
_LONGEST = 65_536
_MOST_DESCRIPTORS = 4


class SpaceError(Exception):
    """The shared network and layers are unavailable; each command then has its own network."""


class Space:
    """Shared namespaces of a session. layers: directories whose writes go to a layer of the session.

    Raises SpaceError if the system does not allow them.
    """

    def __init__(self, caches: Iterable[Path], folder: Path) -> None:
        """caches: existing directories that get a layer, stored below `folder`."""
        self._program = next((p for p in _PROGRAMS if os.access(p, os.X_OK)), shutil.which("nsenter"))
        if self._program is None:
            raise SpaceError("there is no nsenter (util-linux)")
        self._lock = Lock()
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._orders.settimeout(_SECONDS)
        self._names: dict[str, int] = {}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_INSIDE), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        try:
            answer, given = self._ask({"layers": dict(self._layers(caches, folder))})
            self._names = dict(zip(answer["spaces"], given, strict=True))
            self.layers = tuple(Path(place) for place in answer["layers"])
            self._try()
        except (OSError, KeyError, ValueError, subprocess.SubprocessError) as error:
            self.close()
            raise SpaceError(one_line(str(error))) from None

    @staticmethod
    def _layers(caches: Iterable[Path], folder: Path) -> Iterable[tuple[str, tuple[str, str]]]:
        for number, cache in enumerate(caches):
            upper, work = folder / f"{number}/files", folder / f"{number}/work"
            for made in (upper, work):
                made.mkdir(parents=True, mode=0o700)
            yield str(cache), (str(upper), str(work))

    def _try(self) -> None:
        words, given = self.entry(network=False)
        try:
            done = subprocess.run([*words, "true"], pass_fds=given, capture_output=True, timeout=_SECONDS, check=False)
        finally:
            for descriptor in given:
                os.close(descriptor)
        if done.returncode:
            raise OSError(done.stderr.decode("utf-8", "replace").strip() or "it cannot be entered")

    def entry(self, *, network: bool, files: int | None = None) -> tuple[list[str], tuple[int, ...]]:
        """Return the command line prefix for running inside, and the descriptors to inherit, which the caller closes.

        network: keep the machine's network. files: descriptor of `guard`; without it, all files with the layers.
        """
        own = ("net",) * network + ("mnt",) * (files is not None)
        kept = {name: os.dup(fd) for name, fd in self._names.items() if name not in own}
        if files is not None:
            kept["mnt"] = files
        words = [f"{_OPTIONS[name]}=/proc/self/fd/{fd}" for name, fd in kept.items()]
        return [str(self._program), *words, "--preserve-credentials", "--"], tuple(kept.values())

    def make_view(self, plan: Iterable[tuple[str, Path, Path]]) -> int:
        """Create a view of the files with these mounts of `mounts.py`; return its number. Raises OSError."""
        number: int = self._ask({"view": _as_text(plan)})[0]["view"]
        return number

    def guard(self, view: int, plan: Iterable[tuple[str, Path, Path]]) -> int | None:
        """Return a descriptor of the files with these mounts on a view, which the caller closes.

        Return None if the view has lost a mount because its mount point was removed. Raises OSError.
        """
        return next(iter(self._ask({"guard": view, "mounts": _as_text(plan)})[1]), None)

    def forget(self, view: int) -> None:
        """Release a view. Raises OSError."""
        self._ask({"forget": view})

    def listen(self, port: int = 0) -> socket.socket:
        """Return a listening socket on the inner loopback. Raises OSError if the port is in use."""
        return socket.socket(fileno=self._one({"listen": port}))

    def connect(self, port: int) -> socket.socket:
        """Connect to a server inside. Raises OSError if there is none."""
        return socket.socket(fileno=self._one({"connect": port}))

    def ports(self) -> frozenset[int]:
        """Return the ports with a listener inside. Raises OSError."""
        return frozenset(self._ask({"ports": True})[0]["ports"])

    def _one(self, order: dict[str, Any]) -> int:
        return self._ask(order)[1][0]

    def _ask(self, order: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        with self._lock:
            data = json.dumps(order).encode()
            if len(data) > _LONGEST:
                raise OSError("too many mounts")
            try:
                self._orders.sendall(data)
                data, given, _, _ = socket.recv_fds(self._orders, _LONGEST, _MOST_DESCRIPTORS)
            except OSError:
                # A late answer would be mistaken for that of the next request.
                self._orders.close()
                raise
        for descriptor in given:
            os.set_inheritable(descriptor, False)
        if not data:
            raise OSError("the process that makes it ended")
        answer: dict[str, Any] = json.loads(data)
        if "error" in answer:
            raise OSError(answer["error"])
        return answer, given

    def close(self) -> None:
        """End it. Processes still running inside keep their namespaces."""
        self._orders.close()
        for descriptor in self._names.values():
            os.close(descriptor)
        self._names = {}
        try:
            self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _as_text(plan: Iterable[tuple[str, Path, Path]]) -> list[tuple[str, str, str]]:
    return [(what, str(target), str(source)) for what, target, source in plan]

"""Resources that the commands of a session share in bubblewrap: network, caches, access to allowed hosts and ports.

If the system allows no shared namespaces (`space_error` says why), each command has its own network, and only empty
caches are writable.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent_tools.net.relay import PortForward
from agent_tools.sandbox.bwrap import Shared, SpaceEntry
from agent_tools.sandbox.mounts import TEMPORARY, Mount, MountPlan
from agent_tools.sandbox.places import NEEDED
from agent_tools.sandbox.proxy import SandboxProxy, proxy_environment
from agent_tools.sandbox.space import Space, SpaceError

if TYPE_CHECKING:
    from agent_tools.sandbox.conditions import SandboxLimits
    from agent_tools.sandbox.profile import Profile

# Seconds between checks for new servers of a background command.
_GLANCE = 0.25
_LOWEST_PORT = 1024
# One view for commands with the network and one for those without.
_VIEWS = 4
_MOUNTED = Path("/proc/self/mountinfo")

# Without these, npm waits for a minute before it reports that there is no network.
NO_RETRIES = {"npm_config_fetch_retries": "0", "PIP_RETRIES": "0", "CARGO_NET_RETRY": "0"}


class SandboxSession:
    """The shared part of a session's sandbox.

    space_error: why it has no shared network and layers; "" if it has.
    views: mounts are made once for many commands; otherwise bubblewrap makes all mounts for every command, which takes
    longer.
    """

    def __init__(self, profile: Profile, folder: Path, limits: SandboxLimits, env: Mapping[str, str]) -> None:
        """folder: receives writes to caches. env: the user's environment, which may name a proxy."""
        self.space_error = ""
        self.views = True
        self._space: Space | None = None
        self._proxy: SandboxProxy | None = None
        self._environment: dict[str, str] = {}
        self._forwards: dict[int, PortForward] = {}
        self._own_ports = set(limits.ports)
        self._shown: set[int] = set()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._views: dict[object, int | None] = {}
        self._blank = folder / "blank"
        real = dict.fromkeys(Path(os.path.realpath(c)) for c in profile.caches if c.is_dir())
        try:
            self._space = Space(real if limits.caches == "session" else (), folder)
            self._open_ways(limits, env)
        except SpaceError as error:
            self.space_error = str(error)
        self._caches = {c: c for c in real} if limits.caches == "shared" else {}
        if limits.caches == "session":
            layered = self._space.layers if self._space else ()
            self._caches = {c: c for c in layered} | dict(_empty(profile, folder / "new", layered))

    def _open_ways(self, limits: SandboxLimits, env: Mapping[str, str]) -> None:
        """Start the proxy and forward the ports that the settings allow."""
        if self._space is None:
            return
        if limits.domains:
            listener = self._space.listen()
            self._own_ports.add(listener.getsockname()[1])
            self._environment = proxy_environment(listener.getsockname()[1], env)
            self._proxy = SandboxProxy(listener, limits.domains, env=env)
        for port in limits.ports:
            with suppress(OSError):
                self._forwards[port] = PortForward(self._space.listen(port), port)

    def shared(self, *, network: bool) -> Shared:
        """Return the shared resources for a command. network: it has the machine's network instead."""
        if self._space is None:
            return Shared(caches=self._caches)
        return Shared(not network, self._caches, partial(self._enter, self._space, network))

    def _enter(self, space: Space, network: bool, plan: MountPlan) -> SpaceEntry:
        files = None
        with self._lock, suppress(OSError):
            files = self._guarded(space, plan) if self.views else None
        words, given = space.entry(network=network, files=files)
        return SpaceEntry(tuple(words), given, files is not None)

    def _guarded(self, space: Space, plan: MountPlan) -> int | None:
        """Return a descriptor of files with these mounts; None if each command must make them. Raises OSError."""
        for _ in range(2):
            if (view := self._view(space, plan.view)) is None:
                return None
            if (files := space.guard(view, plan.guards)) is not None:
                return files
            # A new file may reuse the inode number of a removed one: only the missing mount shows it.
            self._views = {wanted: number for wanted, number in self._views.items() if number != view}
            space.forget(view)
        return None

    def _view(self, space: Space, mounts: tuple[Mount, ...]) -> int | None:
        """Return the number of the view with these mounts, recreated if a file or mount of the machine was replaced.

        Return None if there can be none.
        """
        if any(what == "empty" and target in TEMPORARY for what, target, _ in mounts):
            return None  # each command makes its own mounts
        paths = {path for _, target, source in mounts for path in (target, source)}
        wanted = (mounts, frozenset((path, _identity(path)) for path in paths), _MOUNTED.read_bytes())
        if wanted not in self._views:
            if len(self._views) == _VIEWS and (oldest := self._views.pop(next(iter(self._views)))) is not None:
                space.forget(oldest)
            self._blank.touch(mode=0o444)
            plan: list[Mount] = [("read-only", target, self._blank) if what == "blank" else (what, target, source)
                                 for what, target, source in mounts]  # fmt: skip
            self._views[wanted] = None
            self._views[wanted] = space.make_view(plan)
        return self._views[wanted]

    def environment(self, *, network: bool) -> dict[str, str]:
        """Return variables that make programs use the proxy, or fail at once if there is no network."""
        return {} if network else self._environment or NO_RETRIES

    def refused(self) -> tuple[str, ...]:
        """Return the hosts that the proxy has rejected since the last call."""
        return tuple(self._proxy.take_refused()) if self._proxy is not None else ()

    def closed_ports(self) -> list[int]:
        """Return ports of servers started inside that are unreachable from this machine."""
        if self._space is not None:
            with suppress(OSError, ValueError):
                found = self._space.ports() - self._own_ports - self._shown
                return sorted(port for port in found if port >= _LOWEST_PORT)
        return []

    def show_ports(self, running: Callable[[], bool]) -> None:
        """While `running`, make servers started inside reachable from this machine, on the same port of loopback."""
        if self._space is not None:
            threading.Thread(target=self._watch, args=(self._space, running), name="sandbox-ports", daemon=True).start()

    def _watch(self, space: Space, running: Callable[[], bool]) -> None:
        shown: dict[int, PortForward] = {}
        while running() and not self._closing.is_set():
            with suppress(OSError, ValueError):
                ports = space.ports()
                for port in ports - self._own_ports - shown.keys():
                    if port >= _LOWEST_PORT and (listener := _listener(port)):
                        shown[port] = PortForward(listener, port, space.connect)
                        self._shown.add(port)
                for port in shown.keys() - ports:
                    shown.pop(port).close()
                    self._shown.discard(port)
            self._closing.wait(_GLANCE)
        for port, forward in shown.items():
            forward.close()
            self._shown.discard(port)

    def close(self) -> None:
        """Close the proxy and port forwards, then the space."""
        self._closing.set()
        for way in (*self._forwards.values(), *((self._proxy,) if self._proxy else ())):
            way.close()
        if self._space is not None:
            self._space.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of the file at a path, which changes when it is replaced."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _empty(profile: Profile, folder: Path, layered: Collection[Path]) -> Iterator[tuple[Path, Path]]:
    """Yield session directories for missing caches, and for caches without a layer that every build needs."""
    for number, cache in enumerate(profile.caches):
        missing = cache.parent in profile.covered and not os.path.lexists(cache)
        if missing or (cache.name in NEEDED and os.path.realpath(cache) == str(cache) and cache not in layered):
            own = folder / str(number)
            own.mkdir(parents=True, exist_ok=True)
            yield cache, own


def _listener(port: int) -> socket.socket | None:
    """Return a listening socket on this machine's loopback; None if the port is in use."""
    with suppress(OSError):
        return socket.create_server(("127.0.0.1", port))
    return None

"""Resources that a session's commands share in bubblewrap: namespaces, caches, a temporary folder, hosts and ports.

The process `inside.py` creates the namespaces (a private network, layers over caches) and sends descriptors here. It
always ends with this program, because it waits for requests on a socket. If the system allows no shared namespaces
(`space_error` says why), each command has its own network, and only empty caches are writable.

The temporary folder is removed at the end; folders left by a crash are removed by the next session.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from agent_tools.lazy import lazy_imports
from agent_tools.sandbox.bwrap import Shared, SpaceEntry
from agent_tools.sandbox.mounts import Mount, MountPlan
from agent_tools.sandbox.profile import REQUIRED_CACHES
from agent_tools.sandbox.temporary import STANDARD, restore_folders
from agent_tools.text import one_line

if TYPE_CHECKING:
    from agent_tools.net.relay import PortForward
    from agent_tools.sandbox.conditions import SandboxLimits
    from agent_tools.sandbox.profile import Profile
    from agent_tools.sandbox.proxy import SandboxProxy

with lazy_imports():
    from agent_tools.net import relay
    from agent_tools.sandbox import proxy

_INSIDE = Path(__file__).with_name("inside.py")
_NSENTER_PATHS = ("/usr/bin/nsenter", "/bin/nsenter", "/usr/sbin/nsenter")
_NSENTER_OPTIONS = {"user": "--user", "mnt": "--mount", "net": "--net"}
_TIMEOUT_SECONDS = 10.0
_MAX_PACKET_BYTES = 65_536
_MAX_DESCRIPTORS = 4


class NamespaceError(Exception):
    """The shared network and layers are unavailable; each command then has its own network."""


class SharedNamespaces:
    """Shared namespaces of a session. layers: directories whose writes go to a layer of the session.

    Raises NamespaceError if the system does not allow them.
    """

    def __init__(self, caches: Iterable[Path], folder: Path, *, tested: bool = True) -> None:
        """caches: existing directories that get a layer, stored below `folder`.

        tested: make sure that they can be entered.
        """
        self._program = next((p for p in _NSENTER_PATHS if os.access(p, os.X_OK)), shutil.which("nsenter"))
        if self._program is None:
            raise NamespaceError("there is no nsenter (util-linux)")
        self._lock = Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_TIMEOUT_SECONDS)
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
            answer, given = self._request({"layers": dict(self._layers(caches, folder))})
            self._names = dict(zip(answer["spaces"], given, strict=True))
            self.layers = tuple(Path(folder) for folder in answer["layers"])
            if tested:
                self._test_entry()
        except (OSError, KeyError, ValueError, subprocess.SubprocessError) as error:
            self.close()
            raise NamespaceError(one_line(str(error))) from None

    @staticmethod
    def _layers(caches: Iterable[Path], folder: Path) -> Iterable[tuple[str, tuple[str, str]]]:
        for number, cache in enumerate(caches):
            upper, work = folder / f"{number}/files", folder / f"{number}/work"
            for made in (upper, work):
                made.mkdir(parents=True, mode=0o700, exist_ok=True)
            yield str(cache), (str(upper), str(work))

    def _test_entry(self) -> None:
        words, given = self.entry(network=False)
        try:
            done = subprocess.run(
                [*words, "true"], pass_fds=given, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False
            )
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
        words = [f"{_NSENTER_OPTIONS[name]}=/proc/self/fd/{fd}" for name, fd in kept.items()]
        return [str(self._program), *words, "--preserve-credentials", "--"], tuple(kept.values())

    def make_view(self, plan: Iterable[tuple[str, Path, Path]]) -> int:
        """Create a view of the files with these mounts of `mounts.py`; return its number. Raises OSError."""
        number: int = self._request({"view": _as_text(plan)})[0]["view"]
        return number

    def guard(self, view: int, plan: Iterable[tuple[str, Path, Path]]) -> int | None:
        """Return a descriptor of the files with these mounts on a view, which the caller closes.

        Return None if the view has lost a mount because its mount point was removed. Raises OSError.
        """
        return next(iter(self._request({"guard": view, "mounts": _as_text(plan)})[1]), None)

    def forget(self, view: int) -> None:
        """Release a view. Raises OSError."""
        self._request({"forget": view})

    def listen(self, port: int = 0) -> socket.socket:
        """Return a listening socket on the inner loopback. Raises OSError if the port is in use."""
        return socket.socket(fileno=self._request_descriptor({"listen": port}))

    def connect(self, port: int) -> socket.socket:
        """Connect to a server inside. Raises OSError if there is none."""
        return socket.socket(fileno=self._request_descriptor({"connect": port}))

    def ports(self) -> frozenset[int]:
        """Return the ports with a listener inside. Raises OSError."""
        return frozenset(self._request({"ports": True})[0]["ports"])

    def _request_descriptor(self, request: dict[str, Any]) -> int:
        return self._request(request)[1][0]

    def _request(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        with self._lock:
            data = marshal.dumps(request)
            if len(data) > _MAX_PACKET_BYTES:
                raise OSError("too many mounts")
            try:
                self._socket.sendall(data)
                data, given, _, _ = socket.recv_fds(self._socket, _MAX_PACKET_BYTES, _MAX_DESCRIPTORS)
            except OSError:
                # A late answer would be mistaken for that of the next request.
                self._socket.close()
                raise
        for descriptor in given:
            os.set_inheritable(descriptor, False)
        if not data:
            raise OSError("the process that makes it ended")
        answer: dict[str, Any] = marshal.loads(data)
        if "error" in answer:
            raise OSError(answer["error"])
        return answer, given

    def close(self) -> None:
        """End the process. Processes still running inside keep their namespaces."""
        self._socket.close()
        for descriptor in self._names.values():
            os.close(descriptor)
        self._names = {}
        try:
            self._process.wait(_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _as_text(plan: Iterable[tuple[str, Path, Path]]) -> list[tuple[str, str, str]]:
    return [(what, str(target), str(source)) for what, target, source in plan]


_PREFIX = "agent-sandbox-"
# In such a folder: what is mounted on its parent for commands.
TEMPORARY_NAME = "tmp"


class TemporaryFolder:
    """A folder that is removed by `close`, when the program ends, or by the next program that creates one.

    Its lock marks it as in use. parent: where it is; by default the user's folder for temporary files. Raises OSError.
    """

    def __init__(self, parent: Path | None = None) -> None:
        parent = Path(os.path.realpath(parent or tempfile.gettempdir()))
        remove_stale(parent)
        made = None
        while made is None:
            made = _make_locked(parent)
        self.path, self._lock = made
        # Also removes it if the program ends without closing its sessions.
        self.close = weakref.finalize(self, _remove_and_unlock, self.path, self._lock)


def _make_locked(parent: Path) -> tuple[Path, int] | None:
    """Return a new folder and its lock; None if another program took it for a stale one before it was locked."""
    path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        gone = not path.exists()
    except BlockingIOError:
        gone = True
    except OSError:  # a file system without locks
        gone = False
    if gone:
        os.close(lock)
        return None
    return path, lock


def _remove_and_unlock(path: Path, lock: int) -> None:
    _remove(path)
    os.close(lock)


def remove_stale(parent: Path) -> None:
    """Remove the folders of this user that are not locked."""
    with suppress(OSError):
        for entry in list(os.scandir(parent)):
            if entry.name.startswith(_PREFIX):
                with suppress(OSError):
                    _remove_if_stale(Path(entry.path))


def _remove_if_stale(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
    finally:
        os.close(descriptor)


def _remove(folder: Path) -> None:
    """Remove a folder, without what belongs to its parent. Work directories of layers have mode 0."""
    restore_folders(folder.parent, folder / TEMPORARY_NAME)
    for here, names, _ in os.walk(folder):
        for name in names:
            path = os.path.join(here, name)
            with suppress(OSError):
                if stat.S_ISDIR(os.lstat(path).st_mode):
                    os.chmod(path, 0o700)  # noqa: PTH101 - names of any bytes
    shutil.rmtree(folder, ignore_errors=True)


# Seconds between checks for new servers of a background command.
_POLL_SECONDS = 0.25
_LOWEST_PORT = 1024
# Commands with and without the network need different views.
_MAX_VIEWS = 4
_MOUNTED = Path("/proc/self/mountinfo")

# Without these, npm waits for a minute before it reports that there is no network.
NO_RETRIES = {"npm_config_fetch_retries": "0", "PIP_RETRIES": "0", "CARGO_NET_RETRY": "0"}


class SandboxSession:
    """The shared part of a session's sandbox.

    space_error: why it has no shared network and layers; "" if it has.
    views: mounts are made once for many commands; otherwise bubblewrap makes all mounts for every command, which takes
    longer.
    """

    def __init__(
        self, profile: Profile, folder: Path, limits: SandboxLimits, env: Mapping[str, str], *, tested: bool = True
    ) -> None:
        """folder: receives writes to caches. env: the user's environment, which may name a proxy.

        tested: make sure that commands can enter the shared namespaces.
        """
        self.space_error = ""
        self.views = True
        self._namespaces: SharedNamespaces | None = None
        self._proxy: SandboxProxy | None = None
        self._environment: dict[str, str] = {}
        self._forwards: dict[int, PortForward] = {}
        self._reserved_ports = set(limits.ports)
        self._shown: set[int] = set()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._views: dict[object, int | None] = {}
        self._blank = folder / "blank"
        real = dict.fromkeys(Path(os.path.realpath(c)) for c in profile.caches if c.is_dir())
        try:
            self._namespaces = SharedNamespaces(real if limits.caches == "session" else (), folder, tested=tested)
            self._open_network(limits, env)
        except NamespaceError as error:
            self.space_error = str(error)
        self._caches = {c: c for c in real} if limits.caches == "shared" else {}
        if limits.caches == "session":
            layered = self._namespaces.layers if self._namespaces else ()
            self._caches = {c: c for c in layered} | dict(_new_caches(profile, folder / "new", layered))

    def _open_network(self, limits: SandboxLimits, env: Mapping[str, str]) -> None:
        """Start the proxy and forward the ports that the settings allow."""
        if self._namespaces is None:
            return
        if limits.domains:
            listener = self._namespaces.listen()
            self._reserved_ports.add(listener.getsockname()[1])
            self._environment = proxy.proxy_environment(listener.getsockname()[1], env)
            self._proxy = proxy.SandboxProxy(listener, limits.domains, env=env)
        for port in limits.ports:
            with suppress(OSError):
                self._forwards[port] = relay.PortForward(self._namespaces.listen(port), port)

    def shared(self, *, network: bool) -> Shared:
        """Return the shared resources for a command. network: it has the machine's network instead."""
        if self._namespaces is None:
            return Shared(caches=self._caches)
        return Shared(not network, self._caches, partial(self._enter, self._namespaces, network))

    def _enter(self, namespaces: SharedNamespaces, network: bool, plan: MountPlan) -> SpaceEntry:
        files = None
        with self._lock, suppress(OSError):
            files = self._mounted_files(namespaces, plan) if self.views else None
        words, given = namespaces.entry(network=network, files=files)
        return SpaceEntry(tuple(words), given, files is not None)

    def _mounted_files(self, namespaces: SharedNamespaces, plan: MountPlan) -> int | None:
        """Return a descriptor of files with these mounts; None if each command must make them. Raises OSError."""
        for _ in range(2):
            if (view := self._view(namespaces, plan)) is None:
                return None
            if (files := namespaces.guard(view, plan.guards)) is not None:
                return files
            # A new file may reuse the inode number of a removed one: only the missing mount shows it.
            self._views = {wanted: number for wanted, number in self._views.items() if number != view}
            namespaces.forget(view)
        return None

    def _view(self, namespaces: SharedNamespaces, plan: MountPlan) -> int | None:
        """Return the number of the view of a plan, recreated if a file or mount of the machine was replaced.

        Return None if there can be none.
        """
        mounts = plan.view
        if any(what == "empty" and target in STANDARD for what, target, _ in mounts):
            return None  # each command makes its own mounts
        paths = {path for what, target, source in mounts if what != "optional" for path in (target, source)}
        wanted = (mounts, frozenset((path, _identity(path)) for path in paths), plan.states, _MOUNTED.read_bytes())
        if wanted not in self._views:
            if len(self._views) == _MAX_VIEWS and (oldest := self._views.pop(next(iter(self._views)))) is not None:
                namespaces.forget(oldest)
            self._blank.touch(mode=0o444)
            made: list[Mount] = [("read-only", target, self._blank) if what == "blank" else (what, target, source)
                                 for what, target, source in mounts]  # fmt: skip
            self._views[wanted] = None
            self._views[wanted] = namespaces.make_view(made)
        return self._views[wanted]

    def environment(self, *, network: bool) -> dict[str, str]:
        """Return variables that make programs use the proxy, or fail at once if there is no network."""
        return {} if network else self._environment or NO_RETRIES

    def refused(self) -> tuple[str, ...]:
        """Return the hosts that the proxy has rejected since the last call."""
        return tuple(self._proxy.take_refused()) if self._proxy is not None else ()

    def closed_ports(self) -> list[int]:
        """Return ports of servers started inside that are unreachable from this machine."""
        if self._namespaces is not None:
            with suppress(OSError, ValueError):
                found = self._namespaces.ports() - self._reserved_ports - self._shown
                return sorted(port for port in found if port >= _LOWEST_PORT)
        return []

    def show_ports(self, running: Callable[[], bool]) -> None:
        """While `running`, make servers started inside reachable from this machine, on the same port of loopback."""
        if self._namespaces is not None:
            threading.Thread(
                target=self._watch, args=(self._namespaces, running), name="sandbox-ports", daemon=True
            ).start()

    def _watch(self, namespaces: SharedNamespaces, running: Callable[[], bool]) -> None:
        shown: dict[int, PortForward] = {}
        while running() and not self._closing.is_set():
            with suppress(OSError, ValueError):
                ports = namespaces.ports()
                for port in ports - self._reserved_ports - shown.keys():
                    if port >= _LOWEST_PORT and (listener := _listener(port)):
                        shown[port] = relay.PortForward(listener, port, namespaces.connect)
                        self._shown.add(port)
                for port in shown.keys() - ports:
                    shown.pop(port).close()
                    self._shown.discard(port)
            self._closing.wait(_POLL_SECONDS)
        for port, forward in shown.items():
            forward.close()
            self._shown.discard(port)

    def close(self) -> None:
        """Close the proxy and port forwards, then the namespaces."""
        self._closing.set()
        for server in (*self._forwards.values(), *((self._proxy,) if self._proxy else ())):
            server.close()
        if self._namespaces is not None:
            self._namespaces.close()


class LoopbackSession:
    """The shared part of a session in Seatbelt, which has no loopback of its own: the proxy is on the machine's."""

    def __init__(self, caches: Iterable[Path], limits: SandboxLimits, env: Mapping[str, str]) -> None:
        """env: the user's environment, which may name a proxy."""
        self._caches = {Path(os.path.realpath(c)): Path(os.path.realpath(c)) for c in caches if c.is_dir()}
        if limits.caches != "shared":
            self._caches = {}
        self._ports, self._environment, self._proxy = limits.ports, NO_RETRIES, None
        if limits.domains:
            listener = socket.create_server(("127.0.0.1", 0))
            port = listener.getsockname()[1]
            self._ports, self._environment = (*limits.ports, port), proxy.proxy_environment(port, env)
            self._proxy = proxy.SandboxProxy(listener, limits.domains, env=env)

    def shared(self, *, network: bool) -> Shared:
        """Return the shared resources for a command. network: it has the machine's network."""
        return Shared(caches=self._caches, ports=() if network else self._ports)

    def environment(self, *, network: bool) -> dict[str, str]:
        """Return variables that make programs use the proxy, or fail at once if there is no network."""
        return {} if network else self._environment

    def refused(self) -> tuple[str, ...]:
        """Return the hosts that the proxy has rejected since the last call."""
        return tuple(self._proxy.take_refused()) if self._proxy is not None else ()

    def close(self) -> None:
        """Close the proxy."""
        if self._proxy is not None:
            self._proxy.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of the file at a path, which changes when it is replaced."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _new_caches(profile: Profile, folder: Path, layered: Collection[Path]) -> Iterator[tuple[Path, Path]]:
    """Yield session directories for missing caches, and for caches without a layer that every build needs."""
    for number, cache in enumerate(profile.caches):
        missing = cache.parent in profile.covered and not os.path.lexists(cache)
        if missing or (
            cache.name in REQUIRED_CACHES and os.path.realpath(cache) == str(cache) and cache not in layered
        ):
            own = folder / str(number)
            own.mkdir(parents=True, exist_ok=True)
            yield cache, own


def _listener(port: int) -> socket.socket | None:
    """Return a listening socket on this machine's loopback; None if the port is in use."""
    with suppress(OSError):
        return socket.create_server(("127.0.0.1", port))
    return None

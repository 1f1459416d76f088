"""The bubblewrap sandbox: separate namespaces for files, processes, network and IPC.

Root stays root inside, without a user namespace, so that it can still write files of other owners in the workspace; it
keeps only the capabilities needed for that. For other users, bubblewrap creates a user namespace.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import stat
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType

from agent_tools.fs.workspace import is_within
from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.sandbox.conditions import Wrapped, memory_file
from agent_tools.sandbox.landlock import filter_program, is_supported, launcher
from agent_tools.sandbox.mounts import MountPlan, Placeholders, mount_arguments, plan_mounts
from agent_tools.sandbox.profile import Profile
from agent_tools.sandbox.watch import WATCH, Watched

_KEEP = Path(__file__).with_name("keep.bash")
_SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin")
_BASE_OPTIONS = (
    "--unshare-ipc --unshare-pid --unshare-uts --unshare-cgroup-try --die-with-parent --new-session --cap-drop ALL"
)
# For a namespace that has the mounts of the plan already.
_EXISTING_MOUNTS = ["--dev-bind", "/", "/", "--proc", "/proc", "--remount-ro", "/proc"]
_ROOT_CAPABILITIES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID")
# Time limit for killed processes to exit.
_EXIT_SECONDS = 20.0


class SpaceEntry(Value):
    """How a command enters the shared namespaces of a session.

    words: command line before bubblewrap.
    given: descriptors that it inherits.
    mounted: it already has the mounts of the plan.
    """

    words: tuple[str, ...] = ()
    given: tuple[int, ...] = ()
    mounted: bool = False


class Shared(Value):
    """Resources that the commands of a session share.

    network: they share a network without access to the outside.
    caches: writable directories to the directories mounted there.
    enter: returns how a command with these mounts enters; the caller closes its descriptors.
    ports: in Seatbelt, ports of this machine's loopback that they may connect to.
    """

    network: bool = False
    caches: Mapping[Path, Path] = MappingProxyType({})
    enter: Callable[[MountPlan], SpaceEntry] | None = None
    ports: tuple[int, ...] = ()


NOTHING_SHARED: Shared = Shared()


def find_bwrap(env: Mapping[str, str], writable: Collection[Path] = ()) -> str | None:
    """Find bubblewrap in the system's folders, else the first on PATH that no command could have put there."""
    searched = [p for p in env.get("PATH", "").split(os.pathsep) if p.startswith("/")]
    for folder in (*_SYSTEM_FOLDERS, *searched):
        path = Path(os.path.realpath(f"{folder}/bwrap"))
        if os.access(path, os.X_OK) and not any(path.is_relative_to(w) for w in writable):
            return str(path)
    return None


def obstacle(profile: Profile) -> str:
    """Return why a profile cannot be enforced; "" if it can.

    A protected path that is a symbolic link, or leads through one, could be replaced: a link cannot be mounted on.
    """
    if Path("/") in profile.writable:
        return "the workspace is the whole machine"
    checked = {"", *(f"{path}" for path in profile.writable)}
    for path in (*profile.protected, *profile.personal):
        text = f"{path}"
        while text not in checked:
            checked.add(text)
            if os.path.islink(text):  # noqa: PTH114 - text, for speed
                return f"{text} is a symbolic link, which cannot be protected"
            text = text[: text.rfind("/")]
    return ""


def require_possible(profile: Profile) -> None:
    """Raise ToolError for a profile that cannot be enforced."""
    if reason := obstacle(profile):
        raise ToolError(f"The sandbox cannot be used here: {reason}. Ask to run the command outside it.")


def prepare_bubblewrap(
    bwrap: str,
    argv: list[str],
    cwd: Path,
    env: dict[str, str],
    profile: Profile,
    shared: Shared = NOTHING_SHARED,
    *,
    keep: bool = False,
) -> Wrapped:
    """Wrap a command. shared: resources shared with other commands of the session.

    keep: it is a bash; processes that it leaves running stay, and are reported.

    Raises ToolError if something cannot be protected.
    """
    require_possible(profile)
    watched = WATCH.begin(profile.watched)
    given: list[int] = []
    placeholders = ours = None

    def blank() -> int:
        given.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        return given[-1]

    try:
        placeholders = Placeholders(profile.protected)
        given += os.pipe()
        status_fd = given[0]
        if keep:
            ours, theirs = socket.socketpair()
            given.append(theirs.detach())
            argv = [argv[0], "--noprofile", "--norc", "-p", str(_KEEP), str(given[-1]), *argv]
        guarded = (*profile.protected, *profile.personal, *profile.fixed)
        there = {*placeholders.paths, *(path for path in guarded if os.path.lexists(path))}
        plan = plan_mounts(profile, there, shared.caches)
        entry = shared.enter(plan) if shared.enter else SpaceEntry()
        given += entry.given
        options = _options(given[1], unshare_network=not profile.network and not shared.network)
        mounts = _EXISTING_MOUNTS if entry.mounted else mount_arguments(plan.all(), blank)
        words = [bwrap, *options, *mounts, "--chdir", str(cwd), "--", *argv]
        if is_supported():
            given.append(memory_file("filter", filter_program(network=profile.network, contained=True)))
            words[1:1] = ["--seccomp", str(given[-1])]
        if profile.network and not (os.geteuid() and Path(bwrap).stat().st_mode & stat.S_ISUID):
            # The network namespace isolates abstract sockets; without one, Landlock does, if available.
            first, spec = launcher({})
            words, given = [*first, *words], [*given, spec]
        words = [*entry.words, *words]
    except BaseException:  # also for an interrupt: leave no descriptor open; the caller reports the error
        watched.close()
        if placeholders is not None:
            placeholders.release()
        if ours is not None:
            ours.close()
        for descriptor in given:
            os.close(descriptor)
        raise
    usable = (*profile.writable, *(mount.target for mount in profile.temp))
    env = env | {n: "/tmp" for n in ("TMPDIR", "TMP", "TEMP") if n in env and not is_within(_real(env[n]), usable)}
    finish = partial(_finish, status_fd, placeholders, watched)
    return Wrapped("bubblewrap", words, env, tuple(given[1:]), finish, watched.take, ours)


def _real(path: str) -> Path:
    return Path(os.path.realpath(path))


def _options(status: int, *, unshare_network: bool) -> list[str]:
    """Return the options of bubblewrap apart from the mounts. status: descriptor for its status messages."""
    words = [*_BASE_OPTIONS.split(), "--json-status-fd", str(status)]
    if unshare_network:
        words.append("--unshare-net")
    if os.geteuid() == 0:
        words += [word for capability in _ROOT_CAPABILITIES for word in ("--cap-add", capability)]
    return words


def _finish(status_fd: int, placeholders: Placeholders, watched: Watched) -> None:
    """End all processes inside, which could replace a placeholder; then remove the placeholders, and what appeared.

    The sandbox's first process normally ends with bubblewrap, and all others with it, except if bubblewrap was killed
    during setup.
    """
    os.set_blocking(status_fd, False)
    with suppress(OSError, ValueError, LookupError):
        status = json.loads(os.read(status_fd, 4_096).splitlines()[0])
        _kill_init(status["child-pid"], status["pid-namespace"])
    os.close(status_fd)
    placeholders.release()
    watched.close()


def _kill_init(process: int, namespace: int) -> None:
    """Kill the first process of a sandbox, and wait for its exit."""
    handle = os.pidfd_open(process)
    try:
        with suppress(OSError):
            # The PID may have been reused.
            if Path(f"/proc/{process}/ns/pid").stat().st_ino == namespace:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        select.select([handle], [], [], _EXIT_SECONDS)
        # In a container, this program may have to reap it.
        with suppress(ChildProcessError):
            os.waitpid(process, os.WNOHANG)
    finally:
        os.close(handle)

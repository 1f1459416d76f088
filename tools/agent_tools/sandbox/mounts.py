"""The file system of the sandbox: a list of mounts in the order of bubblewrap, and placeholders for mount points.

The base is the host's tree, read-only. On top, outer before inner: empty directories over the home folder and hidden
paths, the temporary directories of the session, the visible parts of all these, the writable directories, and in these
the protected paths, bound onto themselves read-only. Directories between the two are bound onto themselves as well: a
mount point cannot be renamed or removed, so that no parent of a protected path can be replaced, nor a secret be moved
to a place where the next command does not hide it.

A missing `.git`, or a missing name in a git directory, is created while a command runs, as a placeholder that git
ignores: an empty directory, or a socket. (Other missing names are watched for instead, see `watch`.) The form also
identifies it: placeholders left by a crash are recognized and removed after the next command. Commands may run in
parallel, also those of several programs. Each holds a shared lock on every directory with placeholders; the last one,
which can get an exclusive lock, removes them. (Removing a placeholder that is mounted on would remove the mount for
other commands.)
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from time import monotonic, sleep
from typing import Literal

from agent_tools.fs import protected_names
from agent_tools.fs.workspace import is_within
from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.sandbox.profile import Profile, interned_path
from agent_tools.sandbox.public_files import Identity
from agent_tools.sandbox.temporary import STANDARD

# closed: a device that cannot be opened, which git and most programs ignore. link: a symbolic link to the source.
# optional: read-only, if it still exists.
MountKind = Literal["empty", "blank", "closed", "bind", "read-only", "optional", "link"]
Mount = tuple[MountKind, Path, Path]

# Has sockets of system services, through which a command could act outside the sandbox.
RUN = Path("/run")
_VISIBLE_IN_RUN = tuple(RUN / name for name in ("current-system", "booted-system", "opengl-driver", "media", "host"))
_RESOLVER = Path("/etc/resolv.conf")
_NULL = Path("/dev/null")
_UNIX = Path("/proc/net/unix")
_LISTENING_FLAG = 0x10000  # __SO_ACCEPTCON


class Folders:
    """Directories, to find out for many paths whether they are one of them, or inside one. Compares text."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._texts = {f"{path}" for path in paths}

    def add(self, path: Path) -> None:
        self._texts.add(f"{path}")

    def update(self, paths: Iterable[Path]) -> None:
        self._texts.update(f"{path}" for path in paths)

    def has(self, path: Path) -> bool:
        """Return True if a path is one of them."""
        return f"{path}" in self._texts

    def __contains__(self, path: Path) -> bool:
        text = f"{path}"
        while text not in self._texts:
            text = text[: text.rfind("/")]
            if not text:
                return "/" in self._texts
        return True

    def between(self, path: Path) -> list[Path]:
        """Return the directories between a path and the innermost of these that contains it, inner ones first."""
        text, found = f"{path}", list[str]()
        while text not in self._texts:
            text = text[: text.rfind("/")]
            if not text:
                break
            found.append(text)
        if (text or "/") not in self._texts:
            return []
        return [interned_path(each) for each in found if each != text]


class MountPlan(Value):
    """The mounts in two parts, each in order.

    view: the same for all commands until a path in it is replaced, so it can be created once.
    guards: on top of the view, determined for each command.
    states: of the temporary files of other programs in the view, which changes when one of them is replaced.
    """

    view: tuple[Mount, ...]
    guards: tuple[Mount, ...]
    states: tuple[Identity, ...] = ()

    def all(self) -> tuple[Mount, ...]:
        """Return all mounts, each once."""
        return _by_depth(dict.fromkeys((*self.view, *self.guards)))


def plan_mounts(profile: Profile, guarded: Iterable[Path], caches: Mapping[Path, Path]) -> MountPlan:
    """Return the mounts for a command.

    guarded: existing paths to mount read-only within writable ones.
    caches: writable directories to the directories mounted there.
    """
    writable = Folders(profile.writable)
    plan, guards = _covering(profile, writable), dict[Path, Mount]()

    def add(kind: MountKind, target: Path, source: Path | None = None) -> None:
        plan[target] = (kind, target, source or target)

    covered, tops = Folders(plan), frozenset(plan)
    seen = Folders(profile.writable)
    # Other programs may remove these at any time.
    for mount in profile.temp:
        if mount.target in tops and mount.target not in seen:
            shown_here = [path for path in mount.shown if path not in tops and not seen.has(path)]
            plan.update((path, ("optional", path, path)) for path in shown_here)
            seen.update(shown_here)
    for path in (*_VISIBLE_IN_RUN, *((_RESOLVER,) if profile.network else ()), *profile.sockets, *profile.shown):
        if not os.path.lexists(path):
            continue
        real = interned_path(os.path.realpath(path))
        if not os.path.lexists(real):
            continue
        if real != path and (link := _first_link(path, profile.covered)) and link not in seen:
            add("link", link, Path(os.path.realpath(link)))
        if real not in tops and real in covered and real not in seen:
            add("read-only", real)
            seen.add(real)
    for target, source in caches.items():
        add("bind", target, source)
        seen.add(target)

    def shown(path: Path) -> bool:
        """Return True if the host's file is visible at this path."""
        return path not in covered or path in seen

    for path in profile.hidden:
        if shown(path):
            add("empty" if path.is_dir() else "blank", path)
    for path in profile.writable:
        add("bind", path)
    own = tuple(target for target, source in caches.items() if target == source)
    unchanged = [path for path in guarded if path not in plan and path in writable]
    kept_whole = Folders(unchanged)
    roots = Folders((*profile.writable, *own))
    above = (between for path in profile.hidden if shown(path) for between in roots.between(path))
    for between in above:
        if between not in kept_whole:
            plan.setdefault(between, ("bind", between, between))
    for path in reachable_sockets(profile):
        if shown(path):
            guards[path] = ("closed", path, path)
        elif inside := _temporary_name(path, profile):
            guards[inside] = ("closed", inside, inside)

    def pin(path: Path) -> None:
        """Mount the directories that contain a path, so that it is not moved with one of them."""
        for between in writable.between(path):
            if between not in plan and between not in kept_whole and between.is_dir():
                guards.setdefault(between, ("bind", between, between))

    for path in unchanged:
        pin(path)
        guards[path] = ("closed" if stat.S_ISSOCK(os.lstat(path).st_mode) else "read-only", path, path)
    for path in profile.closed:
        if shown(path) and path not in plan and not is_within(path, profile.hidden) and os.path.lexists(path):
            pin(path)
            guards[path] = ("closed", path, path)
    for folder, name in profile.watched:
        # No directory on the way to a name that is watched for may be replaced by a link.
        if "/" in name:
            pin(folder / name)
    # A guard covers what the view has below it, such as the git directory of a worktree in the protected `worktrees`.
    guards.update((target, mount) for target, mount in plan.items() if mount[0] == "bind" and target in kept_whole)
    states = tuple(state for mount in profile.temp for state in mount.states)
    return MountPlan(_by_depth(plan.values()), _by_depth(guards.values()), states)


def _covering(profile: Profile, writable: Folders) -> dict[Path, Mount]:
    """Return the mounts that cover temporary folders and those that nobody needs to see."""
    plan: dict[Path, Mount] = {}
    temporary = {mount.target: mount.source for mount in profile.temp}
    for path in dict.fromkeys((*STANDARD, *temporary)):
        if path not in writable and path.is_dir() and not path.is_symlink():
            plan[path] = ("bind", path, temporary[path]) if path in temporary else ("empty", path, path)
    for path in (RUN, *profile.covered, *_private_parents(profile)):
        if path.is_dir():
            plan[path] = ("empty", path, path)
    return plan


def _private_parents(profile: Profile) -> Iterator[Path]:
    """Yield entries of temporary directories that are not shown, but lead to something that is: they appear empty."""
    visible = (*profile.writable, *profile.shown, *(mount.target for mount in profile.temp))
    for mount in profile.temp:
        inside, start = Folders(path for path in visible if path != mount.target), f"{mount.target}/"
        inside.update(mount.shown)
        for path in visible:
            name, slash, _ = f"{path}"[len(start) :].partition("/")
            if slash and f"{path}".startswith(start) and (entry := interned_path(f"{start}{name}")) not in inside:
                yield entry


def _temporary_name(path: Path, profile: Profile) -> Path | None:
    """Return where commands find a file of the session's temporary directories, which may be a server's socket."""
    for mount in profile.temp:
        if path.is_relative_to(mount.source):
            return mount.target / path.relative_to(mount.source)
    return None


def _by_depth(found: Iterable[Mount]) -> tuple[Mount, ...]:
    """Sort mounts, outer before inner."""
    return tuple(sorted(found, key=lambda mount: f"{mount[1]}".count("/")))


_BIND_OPTIONS = {"bind": "--bind", "optional": "--ro-bind-try"}


def mount_arguments(plan: Iterable[Mount], blank: Callable[[], int]) -> list[str]:
    """Return bubblewrap's arguments for a plan. Empty directories are made read-only last, after mounts in them.

    blank: returns an empty file as an inheritable descriptor.
    """
    words = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    closed = []
    for kind, target, source in plan:
        if kind == "empty":
            open_ = target in STANDARD
            words += ["--perms", "1777" if open_ else "0755", "--tmpfs", str(target)]
            closed += [] if open_ else ["--remount-ro", str(target)]
        elif kind == "blank":
            words += ["--ro-bind-data", str(blank()), str(target)]
        elif kind == "link":
            words += ["--symlink", str(source), str(target)]
        else:
            from_ = _NULL if kind == "closed" else source
            words += [_BIND_OPTIONS.get(kind, "--ro-bind"), str(from_), str(target)]
    # Without any capability, root can write settings of the whole machine there.
    return [*words, *closed, "--remount-ro", "/proc"]


def reachable_sockets(profile: Profile) -> list[Path]:
    """Return reachable sockets of running servers in the file system, except those of the workspace."""
    try:
        lines = _UNIX.read_bytes().splitlines()[1:]
    except OSError:
        return []
    found = []
    for line in lines:
        words = line.split(None, 7)
        if len(words) == 8 and words[7].startswith(b"/") and int(words[3], 16) & _LISTENING_FLAG:
            path = Path(os.path.realpath(os.fsdecode(words[7])))
            if not is_within(path, (*profile.writable, *profile.hidden, *profile.sockets)) and os.access(path, os.W_OK):
                found.append(path)
    return found


def _first_link(path: Path, covered: Iterable[Path]) -> Path | None:
    """Return the first component below a covered directory that is a symbolic link."""
    inside = (p for p in (*reversed(path.parents), path) if any(c in p.parents for c in covered))
    return next((p for p in inside if p.is_symlink()), None)


# Protected names that are directories; all others are files.
DIRECTORY_NAMES = protected_names.DIRECTORY_NAMES | {"hooks", "info"}
_COMMON = "commondir"
# Without effect if they are empty.
_EMPTY_FILES = ("config.worktree", "exclude", "attributes")
_LOCK_SECONDS = 1.0
_NOT_WRITABLE = (errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOENT, errno.ENOTDIR)


class Placeholders:
    """The placeholders of one command. paths: those in place, to be mounted over."""

    def __init__(self, wanted: Iterable[Path]) -> None:
        self._wanted = dict(found for path in wanted if (found := _missing(path)))
        self._directories: dict[Path, int] = {}
        self.paths: list[Path] = []
        try:
            self.paths += [path for path, folder in self._wanted.items() if self._hold(path, folder)]
        except OSError as error:
            self.release()
            raise ToolError(
                f"The sandbox cannot keep {error.filename} from being created: {error.strerror}."
                " Ask to run the command outside it."
            ) from None

    def _hold(self, path: Path, folder: bool) -> bool:
        """Create a placeholder if needed; return False if nothing could be created there anyway."""
        directory = self._directories.get(path.parent)
        try:
            if directory is None:
                directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                self._directories[path.parent] = directory
                _lock(directory)
            _create_placeholder(path.name, folder, directory)
        except FileExistsError:
            return True
        except OSError as error:
            if error.errno in _NOT_WRITABLE and not os.access(path.parent, os.W_OK):
                return False
            raise OSError(error.errno, error.strerror, str(path)) from None
        return True

    def release(self) -> None:
        """Release the placeholders; the last user of those in a directory removes them."""
        for path, directory in self._directories.items():
            # A failed upgrade of a shared lock loses it, which is harmless here.
            with suppress(OSError):
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for wanted in self._wanted:
                    if wanted.parent == path:
                        _remove_placeholder(wanted.name, directory)
            os.close(directory)
        self._directories.clear()


def _lock(directory: int) -> None:
    """Acquire a shared lock. Don't block on a lock that is never released; skip cleanup instead."""
    until = monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(directory, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            if monotonic() > until:
                return
            sleep(0.005)
        else:
            return


def _missing(path: Path) -> tuple[Path, bool] | None:
    """Return the first missing component of a path (or a placeholder), and whether it must be a directory."""
    found = None
    for folder in chain((path,), path.parents):
        try:
            if not protected_names.is_placeholder(os.lstat(folder)):
                return found
        except FileNotFoundError:
            pass
        except OSError:
            return None
        found = folder, folder != path or path.name in DIRECTORY_NAMES
    return found


def _create_placeholder(name: str, folder: bool, directory: int) -> None:
    if folder:
        os.mkdir(name, 0o1555, dir_fd=directory)
    elif name in _EMPTY_FILES:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o1444, dir_fd=directory))
    elif name != _COMMON:
        os.mknod(name, stat.S_IFSOCK | 0o600, dir_fd=directory)
    else:
        # Rename it into place: a git that runs meanwhile must not find it empty.
        draft = f"{name}.{os.urandom(4).hex()}"
        made = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o1444, dir_fd=directory)
        try:
            os.write(made, protected_names.COMMONDIR_PLACEHOLDER)
            os.link(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
        finally:
            os.close(made)
            os.unlink(draft, dir_fd=directory)


def _remove_placeholder(name: str, directory: int) -> None:
    with suppress(OSError):
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if protected_names.is_placeholder(status):
            # Keep a directory that is not empty.
            (os.rmdir if stat.S_ISDIR(status.st_mode) else os.unlink)(name, dir_fd=directory)

"""The sandbox profile: what a command may read and write.

Everything is readable except secrets and most of the home folder. The directories of the workspace are writable, except
paths that run code or decide what may run: those are protected whether they exist or not. Git directories are writable
as far as a commit needs it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from agent_tools.fs import protected_names
from agent_tools.fs.safe_read import read_regular
from agent_tools.record import Value
from agent_tools.sandbox.places import CACHES, NEEDED, SECRETS, SHOWN, SYSTEM_SECRETS

# `commondir` decides where the others are read from. Folders in `worktrees` and `modules` have the same parts.
PARTS = ("config", "config.worktree", "hooks", "info", "commondir")
INNER = ("worktrees", "modules")
_LARGEST = 1_000_000


def git_directories(root: Path) -> tuple[list[Path], list[Path]]:
    """Return directories outside `root` that its repository writes, and paths to protect, inside and outside.

    A missing `.git` is protected, and so are the parts of a bare repository. A `.git` file is protected, and its target
    is writable only if it refers back to `root`: anyone can write such a file, and it must not open other folders.
    """
    dot = root / ".git"
    # A bare repository is its own git directory; git uses it if it finds no valid `.git`.
    bare = _parts(root) if all((root / name).exists() for name in ("HEAD", "objects", "refs")) else []
    if not dot.is_file() or dot.is_symlink():
        return [], [*bare, *(_parts(dot) if dot.is_dir() and not dot.is_symlink() else [dot])]
    own = _pointer(dot, "gitdir: ")
    if own is None or not _belongs(own, root):
        return [], [*bare, dot]
    common = _pointer(own / "commondir", "") or own
    writable = [common] if own.is_relative_to(common) else [common, own]
    return [*writable, own] if own != common else writable, [*bare, dot, *_parts(common), *_parts(own)]


def _parts(directory: Path) -> list[Path]:
    return [*(directory / name for name in PARTS), *(p for name in INNER if (p := directory / name).exists())]


def _pointer(file: Path, start: str) -> Path | None:
    """Return the existing directory that a file of git names, or None."""
    text = _read(file).strip()
    if not text.startswith(start):
        return None
    with suppress(OSError, ValueError):
        found = (file.parent / text.removeprefix(start)).resolve(strict=True)
        return found if found.is_dir() else None
    return None


def _belongs(directory: Path, root: Path) -> bool:
    """Return True if a git directory refers back to `root`: a worktree's back link, a submodule's setting."""
    if back := _read(directory / "gitdir").strip():
        return (directory / back).resolve() == root / ".git"
    worktree = re.search(r"(?m)^\s*worktree\s*=\s*(.+?)\s*$", _read(directory / "config"))
    return worktree is not None and (directory / worktree[1].strip('"')).resolve() == root


def _read(file: Path) -> str:
    try:
        return os.fsdecode(read_regular(file, _LARGEST))
    except OSError:
        return ""


# Besides the parts of a repository. CI workflows are not included: they take effect only when pushed, and a checkout of
# another branch must be able to change them.
PROTECTED = protected_names.plain_names(protected_names.PROJECT)
# Names that get a placeholder if missing. `ls -a` shows it while a command runs, so names of other programs are only
# protected if they exist and are no link.
UNMADE = frozenset(protected_names.plain_names((*protected_names.OWN, ".vscode/", ".idea/")))
# In the home folder, if that is writable.
PERSONAL = protected_names.plain_names(protected_names.PERSONAL)
# Keys by which a configuration of git names other files.
_NAMED = re.compile(r"(?m)^\s*(?:path|excludesFile|attributesFile|template|hooksPath)\s*=\s*\"?([^\"\n#;]+)", re.I)
_LARGEST_CONFIG = 1 << 18


class Profile(Value):
    """What a command may access. All paths are absolute and resolved, except the names in `shown`.

    writable: directories.
    protected: read-only paths inside them, existing or not.
    personal: the same in the home folder.
    covered: directories that appear empty except for `shown` paths.
    hidden: invisible paths.
    shown: paths visible in a covered directory or below /tmp.
    caches: directories of the home folder that are temporarily writable.
    temp: private directory mounted as /tmp; None for an empty one for each command.
    network: the network is allowed.
    sockets: reachable sockets of services.
    """

    writable: tuple[Path, ...]
    protected: tuple[Path, ...] = ()
    personal: tuple[Path, ...] = ()
    covered: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()
    caches: tuple[Path, ...] = ()
    temp: Path | None = None
    network: bool = False
    sockets: tuple[Path, ...] = ()

    def shows(self, path: Path) -> bool:
        """Return True if a path is readable inside, or would be if it existed."""
        real = _real(path)
        if below(real, self.hidden):
            return False
        open_ = (*self.writable, *self.caches, *(_real(s) for s in self.shown))
        return not below(real, self.covered) or below(real, open_)

    def takes(self, path: Path) -> bool:
        """Return True if a path is writable inside, permanently or for the session."""
        real = _real(path)
        kept = below(real, (*self.protected, *self.personal, *self.hidden))
        return not kept and below(real, (*self.writable, *self.caches))


def make_profile(
    roots: Iterable[Path],
    home: Path | None,
    *,
    extra: Iterable[Path] = (),
    secret: Iterable[Path] = (),
    readable: Iterable[Path] = (),
    path: str = "",
    caches: bool = True,
    sockets: Iterable[Path] = (),
    temp: Path | None = None,
    network: bool = False,
) -> Profile:
    """Make the profile for the current state of a workspace.

    roots: its directories.
    extra: more writable directories, in which only secrets are protected.
    secret: more paths to hide, such as our own state.
    readable: more visible paths of the home folder.
    path: PATH of commands, whose programs are visible.
    caches: caches of the home folder are writable.
    sockets: reachable sockets of services.
    """
    roots = tuple(dict.fromkeys(_real(r) for r in roots))
    writable = [*roots, *(_real(e) for e in extra if os.path.isdir(e))]  # noqa: PTH112 - Path.is_dir may raise
    protected: list[Path] = []
    for root in roots:
        more, parts = git_directories(root)
        writable += more
        named = [(name, f"{root}/{name}") for name in PROTECTED]
        protected += [*parts, *(Path(p) for name, p in named if name in UNMADE or _is_there(p))]
    hidden = [*secret_places(home), *(_real(s) for s in secret)]
    open_ = set(writable)
    place = _real(home) if home else Path("/")
    covered = () if place == Path("/") or below(place, writable) else (place,)
    # Nothing in a covered home folder is writable.
    personal = [] if covered or home is None else [p for name in PERSONAL if below(p := place / name, writable)]
    seen = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[1], *readable]
    if home:
        seen += [*shown_of(home, path)] if covered else [home]
    return Profile(
        tuple(dict.fromkeys(writable)),
        tuple(p for p in dict.fromkeys(protected) if p not in open_),
        tuple(p for p in personal if p not in open_),
        covered,
        tuple(h for h in dict.fromkeys(hidden) if h not in open_ and os.path.lexists(h)),
        tuple(dict.fromkeys(seen)),
        tuple(dict.fromkeys((*_there(place, CACHES), *(place / name for name in NEEDED))))
        if covered and caches
        else (),
        _real(temp) if temp else None,
        network,
        tuple(_real(s) for s in sockets),
    )


def _is_there(path: str) -> bool:
    return os.path.lexists(path) and not os.path.islink(path)  # noqa: PTH114 - text, for speed


def shown_of(home: Path, path: str) -> Iterator[Path]:
    """Yield visible paths of the home folder: toolchains, caches, their configuration and git's, programs on PATH."""
    yield from _there(home, (*SHOWN, *CACHES))
    for name in (".gitconfig", ".config/git/config"):
        with suppress(OSError, ValueError):
            text = os.fsdecode(read_regular(home / name, _LARGEST_CONFIG))
            yield from (Path(home, m[1].strip().removeprefix("~/")) for m in _NAMED.finditer(text))
    for place in map(Path, path.split(os.pathsep)):
        if place.is_relative_to(home) and place != home:
            yield place
            # Files that a program needs are next to its `bin`.
            if place.name in ("bin", "sbin") and place.parent not in (home, home / ".local"):
                yield place.parent


def _there(home: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """Yield the names that exist in the home folder. Listing it once is faster than checking hundreds of names."""
    try:
        inside = os.listdir(home)  # noqa: PTH208 - text, not paths
    except OSError:
        return
    start = os.fspath(home)
    by_first = _by_first(names)
    for first in sorted(by_first.keys() & inside):
        for name in by_first[first]:
            if os.path.lexists(path := f"{start}/{name}"):
                yield Path(path)


@lru_cache(maxsize=8)
def _by_first(names: tuple[str, ...]) -> dict[str, list[str]]:
    """Group relative paths by their first component."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.partition("/")[0], []).append(name)
    return found


def secret_places(home: Path | None) -> list[Path]:
    """Return existing files and directories of keys and passwords that would be readable."""
    places = [Path(p) for p in SYSTEM_SECRETS]
    if home is not None:
        places += _there(home, SECRETS)
        if configs := os.environ.get("XDG_CONFIG_HOME"):
            places += [Path(configs, name.removeprefix(".config/")) for name in SECRETS if name.startswith(".config/")]
    if os.path.isdir("/etc/ssh"):  # noqa: PTH112
        places += [Path(e.path) for e in os.scandir("/etc/ssh") if e.name.endswith("_key")]
    return [_real(p) for p in places if os.access(p, os.R_OK)]


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def below(path: Path, places: Iterable[Path]) -> bool:
    """Return True if an absolute path is one of the places or inside one. Compares text, as there are hundreds."""
    return f"{path}/".startswith(tuple([f"{place}/" if len(f"{place}") > 1 else "/" for place in places]))

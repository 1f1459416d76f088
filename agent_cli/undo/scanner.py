"""Maintain the state of a folder, as git sees it, as a tree in the store.

Names are read without following links. Permissions that git does not track are stored beside the tree.

The first snapshot of a repository starts from the user's own index, so that unchanged tracked files cost nothing.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_cli.policy.git_inspection import git_folders
from agent_cli.undo.git_store import (
    GIT_SECONDS,
    MAX_OUTPUT_BYTES,
    Git,
    StoreError,
    TooManyFilesError,
)
from agent_cli.undo.left_out import NESTED, list_left_out
from agent_tools.fs.safe_files import find_obstacle, open_regular, read_regular, write_atomic
from agent_tools.process.child import StuckError, collect
from agent_tools.process.git_tree import NO_SUBMODULES, copy_index, join_paths, split_paths, split_raw, update_index
from agent_tools.process.guarded_git import GitError
from agent_tools.record import Value

_CONVERTS = re.compile(rb"(?m)^[^#\n]*\s(?:filter|working-tree-encoding)=")


def user_index(root: Path) -> Path | None:
    """Return the index of the repository at `root`; None if there is none."""
    folders = git_folders(root) if os.path.lexists(root / ".git") else []
    index = folders[-1] / "index" if folders else None
    return index if index is not None and os.path.isfile(index) else None  # noqa: PTH113 - as elsewhere


class _Seed(Value):
    """A new index: the paths to read from disk, permissions of the others, and the recent ones among these."""

    doubted: list[str]
    modes: FileModes
    young: list[str]


def _seed(git: Git, root: Path, index: Path, began: int, own: str = "") -> _Seed | None:
    """Create `index` from the user's, without the program's own data; None if that is impossible."""
    source = user_index(root)
    if source is None:
        return None
    try:
        copy_index(source, index)
        return _drop_unreliable(git, str(root), index, began, own)
    except (OSError, StoreError, ValueError):
        index.unlink(missing_ok=True)
        return None


def _drop_unreliable(git: Git, root: str, index: Path, began: int, own: str) -> _Seed:
    """Remove unreliable entries from the index."""
    reliable: list[tuple[bytes, str, bool]] = []
    doubted: dict[str, None] = {}
    for row in git.run("ls-files", "-z", "-v", "-s", tree=root, index=index).split(b"\0"):
        head, _, name = row.partition(b"\t")
        if not head:
            continue
        tag, mode, oid, stage = head.split()
        unusual = tag != b"H" or stage != b"0" or mode == b"160000"
        if unusual or (own and os.fsdecode(name).startswith(own)):
            doubted[os.fsdecode(name)] = None
        else:
            reliable.append((name, oid.decode("ascii"), mode == b"120000"))
    look = _Look(root, began)
    for (name, _, link), size in zip(reliable, git.sizes([oid for _, oid, _ in reliable]), strict=True):
        path = os.fsdecode(name)
        there = look.at(path)
        # A different size means that the file was changed, or that git converted it.
        if there and (size < 0 or (not link and there.st_size != size and stat.S_ISREG(there.st_mode))):
            doubted[path] = None
    doubted.update(dict.fromkeys(_converted_files(git, root, index, [name for name, _, _ in reliable])))
    if doubted:
        git.run("update-index", "-z", "--force-remove", "--stdin", feed=join_paths(doubted), tree=root, index=index)
    # Later changes of permissions also change the time that the index has of a file.
    return _Seed(list(doubted), FileModes.of_found(look.by_mode, root), look.young)


def _converted_files(git: Git, root: str, index: Path, names: list[bytes]) -> list[str]:
    """Return the files that a filter or another encoding may change without changing their size."""
    found = (os.fsdecode(name) for name in names if name.endswith(b".gitattributes"))
    attributes = dict.fromkeys([".gitattributes", *(p for p in found if p.rpartition("/")[2] == ".gitattributes")])
    files = [f"{root}/{p}" for p in attributes] + [str(f / "info/attributes") for f in git_folders(Path(root))]
    if not any(_CONVERTS.search(_bytes(f)) for f in files):
        return []
    # A git folder with the user's attributes instead of ours, which disable all conversion.
    plain = Git(git.home.with_name("attributes.git"), git.program)
    own = b"\n".join(_bytes(f) for f in files if f.endswith("info/attributes"))
    write_atomic(plain.home / "info/attributes", own, sync=False)
    feed = b"".join(name + b"\0" for name in names)
    words = ("check-attr", "-z", "--stdin", "filter", "working-tree-encoding")
    fields = plain.run(*words, feed=feed, tree=root, index=index).split(b"\0")
    rows = zip(fields[0::3], fields[2::3], strict=False)
    return [os.fsdecode(name) for name, value in rows if value not in (b"unspecified", b"unset")]


def _bytes(file: str) -> bytes:
    try:
        return read_regular(file, 1 << 20)
    except (OSError, ValueError):
        return b""


TOO_BIG = "too large"
TOO_MUCH = "beyond the limit of one snapshot"
UNREADABLE = "cannot be read"
BEHIND_LINK = "its folder is a link"
MAX_FILES = 100_000
# From this number on, new contents are stored in packs.
_MIN_PACKED_FILES = 500
# Size limit for the store's own files.
MAX_STATE_BYTES = 1 << 30
# Limit for ignored files that a command destroys.
MAX_LISTED_BELOW = 2_000


class SizeLimits(Value):
    """Limits of a snapshot in bytes.

    file: size of one file that git does not track.
    total: new content in all.
    """

    file: int = 5_000_000
    total: int = 200_000_000


class Snapshot(Value, tag="Shot"):
    """The state of a folder.

    base: the folder.
    tree: the tree of its files.
    perms: the object with their permissions.
    skipped: files that are not in it, each with reason and signature.
    """

    base: str
    tree: str
    perms: str = ""
    skipped: dict[str, tuple[str, str]] = {}  # noqa: RUF012 - never changed


class Scanner:
    """Maintains the tree of the folder `base`, in an index of our own.

    own: the folder below it with the program's own data, which is left out; "" if there is none.
    """

    def __init__(self, git: Git, base: Path, index: Path, bounds: SizeLimits, own: str = "") -> None:
        self.base = str(base)
        self._git = git
        self.index = index
        self._state = index.with_name(f"{index.name}.json")
        self._bounds = bounds
        self._own = own
        self._renewed = False

    def scan(self) -> Snapshot:
        """Return a snapshot of the folder. Requires the store's lock. Raises StoreError."""
        try:
            return self._scan()
        except TooManyFilesError:
            raise
        except StoreError:
            if self._renewed or not self.index.exists():
                raise
            # The index may be damaged, for example by a power cut: rebuild it once.
            self._renewed = True
            self._state.unlink(missing_ok=True)
            return self._scan()

    def left_out(self, shot: Snapshot) -> list[str] | None:
        """Return what is not in the latest snapshot; see `list_left_out`."""
        return list_left_out(self._git, self.base, self.index, shot.skipped)

    def _scan(self) -> Snapshot:
        known, began = self._known(), int(time.time())
        borrowed = self._git.borrowed_signature()
        if known is not None and known.get("borrowed") != borrowed:
            if self._git.is_complete(known["tree"]):
                known["borrowed"] = borrowed
                write_atomic(self._state, json.dumps(known).encode("ascii"), sync=False)
            else:
                # The repository has dropped objects that we borrowed.
                known = None
        fresh = known is None or not self.index.exists()
        if fresh:
            # Read everything from disk once more.
            self.index.unlink(missing_ok=True)
        seed = _seed(self._git, Path(self.base), self.index, began, self._own) if fresh else None
        first = seed.doubted if seed else []
        first, gone, dirty, others = (self._without_own(paths) for paths in (first, *self._differences()))
        if known is not None:
            dirty += sorted(set(self._changed_modes(known)) - {*dirty, *gone})
        gone = sorted(set(gone) - set(first))
        wanted = self._choose([*first, *dirty], others)
        removed = [*gone, *(wanted.skipped.keys() & set(dirty))]
        if known is not None and not fresh and not removed and not wanted.add:
            self._drop_old(known, began)
            return Snapshot(self.base, known["tree"], known["perms"], wanted.skipped)
        # If the process is killed after this, the index has no known tree.
        self._state.unlink(missing_ok=True)
        self._update_index(removed, wanted)
        if known is not None and not fresh:
            seed = _Seed([], FileModes.from_json(known["modes"]), known["young"])
        return self._save(seed, removed, wanted, began, borrowed)

    def _update_index(self, removed: list[str], wanted: _Selection) -> None:
        """Update our index; a file that turns out to be unreadable is skipped. Raises StoreError."""

        def run(words: Sequence[str], feed: bytes) -> bytes:
            try:
                return self._git.run(*words, feed=feed, tree=self.base, index=self.index, seconds=600)
            except StoreError as error:
                raise GitError(str(error)) from None

        def refuse(path: str) -> None:
            wanted.add.remove(path)
            wanted.refuse(path, UNREADABLE)

        if len(wanted.add) >= _MIN_PACKED_FILES:  # git stores as a file each what it does not find
            self._git.pack_blobs(self._contents(wanted.add))
        try:
            update_index(run, removed, list(wanted.add), refuse)
        except GitError as error:
            raise StoreError(str(error)) from None

    def _contents(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield what can be read of the regular files."""
        for path in paths:
            with suppress(OSError):
                descriptor = open_regular(f"{self.base}/{path}", os.O_NOFOLLOW)
                try:
                    size = os.fstat(descriptor).st_size
                    if size <= self._bounds.file:
                        yield os.read(descriptor, size)
                finally:
                    os.close(descriptor)

    def _save(self, known: _Seed | None, removed: list[str], wanted: _Selection, began: int, mark: str) -> Snapshot:
        tree = self._git.run("write-tree", "--missing-ok", index=self.index).decode().strip()
        if known is None:
            look = _Look(self.base, began)
            for path in wanted.add:
                look.at(path)
            table, young = FileModes.of_found(look.by_mode, self.base), look.young
        else:
            table = known.modes
            table.change(self.base, removed, wanted.add)
            young = self._recent(dict.fromkeys([*known.young, *wanted.add]), began)
        perms = table.stored(self._git)
        state = {"tree": tree, "perms": perms, "modes": table.plain(), "young": young, "borrowed": mark}
        write_atomic(self._state, json.dumps(state).encode("ascii"), sync=False)
        return Snapshot(self.base, tree, perms, wanted.skipped)

    def _drop_old(self, known: dict[str, Any], began: int) -> None:
        """Drop files that are unchanged in a later second than their own from the list of recent ones."""
        young = self._recent(known["young"], began)
        if len(young) < len(known["young"]):
            known["young"] = young
            write_atomic(self._state, json.dumps(known).encode("ascii"), sync=False)

    def _recent(self, paths: Iterable[str], began: int) -> list[str]:
        return [p for p in paths if (s := lstat_file(self.base, p)) and s.st_ctime >= began - 1]

    def _changed_modes(self, known: dict[str, Any]) -> Iterator[str]:
        """Yield recent files whose changed permissions git misses, as it may count in whole seconds."""
        table = FileModes.from_json(known["modes"])
        for path in known["young"]:
            mode = _mode(self.base, path)
            if mode is not None and mode != table.of(path, bool(mode & 0o100)):
                yield path

    def _known(self) -> dict[str, Any] | None:
        try:
            known: dict[str, Any] = json.loads(read_regular(self._state, MAX_STATE_BYTES))
            return known if known["tree"] and known["perms"] and known["modes"] and "young" in known else None
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None

    def _differences(self) -> tuple[list[str], list[str], list[str]]:
        """Return the paths that are gone, that may have changed, and that are not in the index."""
        words = ("ls-files", "-z", "--others", "--exclude-standard")
        listing = self._git.start(*words, tree=self.base, index=self.index)
        try:
            # From an index that is not there yet, nothing differs.
            differing = ("diff-files", "-z", "--raw", NO_SUBMODULES)
            raw = self._git.run(*differing, tree=self.base, index=self.index) if self.index.exists() else b""
        except BaseException:  # on any error leave no git running; the caller reports it
            listing.kill()
            listing.communicate()
            raise
        try:
            out, _ = collect(listing, b"", GIT_SECONDS, MAX_OUTPUT_BYTES, lambda: find_obstacle(self.base))
        except StuckError as error:
            raise StoreError(str(error)) from None
        except TimeoutError:
            raise StoreError("git took too long to list the files") from None
        except OverflowError:
            raise StoreError("there are too many files to list") from None
        if listing.returncode:
            raise StoreError("git cannot list the files")
        return *split_raw(raw), split_paths(out)

    def _without_own(self, paths: list[str]) -> list[str]:
        return [path for path in paths if not path.startswith(self._own)] if self._own else paths

    def _choose(self, known: list[str], others: list[str]) -> _Selection:
        """Choose the paths to read, within the limits."""
        if len(others) > MAX_FILES:
            raise TooManyFilesError(f"{self.base} has more than {MAX_FILES:,} files that git does not know")
        wanted = _Selection(self.base)
        for path in others:
            if path.endswith("/"):
                wanted.skipped[path.rstrip("/")] = (NESTED, "")
        candidates = [(p, True) for p in known] + [(p, False) for p in others if not p.endswith("/")]
        found = [(state.st_size, path, seen) for path, seen in candidates if (state := lstat_file(self.base, path))]
        large = [path for size, path, seen in found if seen and size > self._bounds.file]
        tracked = self.tracked(large) if large else set()
        room = self._bounds.total
        for size, path, _ in sorted(found):
            if size > self._bounds.file and path not in tracked:
                wanted.refuse(path, TOO_BIG)
            elif size > room:
                wanted.refuse(path, TOO_MUCH)
            elif not readable(f"{self.base}/{path}"):
                wanted.refuse(path, UNREADABLE)
            else:
                wanted.add.append(path)
                room -= size
        return wanted

    def has(self, paths: list[str]) -> set[str]:
        """Return the paths that the last scan contains. Raises StoreError."""
        few = paths if len(paths) < 100 else []
        listed = self._git.run("ls-files", "-z", "--", *few, tree=self.base, index=self.index)
        return set(split_paths(listed))

    def tracked(self, paths: list[str]) -> set[str]:
        """Return the paths that the user's repository tracks, which are stored at any size."""
        index = user_index(Path(self.base))
        if index is None:
            return set()
        try:
            listed = self._git.run("ls-files", "-z", "--", *paths, tree=self.base, index=index)
        except StoreError:
            return set()
        return set(split_paths(listed))


class _Selection:
    """The files that a snapshot reads, and those that it skips."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.add: list[str] = []
        self.skipped: dict[str, tuple[str, str]] = {}

    def refuse(self, path: str, why: str) -> None:
        state = lstat_file(self.base, path)
        self.skipped[path] = (why, stat_signature(state) if state else "")


def lstat_file(base: str, path: str) -> os.stat_result | None:
    """Return the stat of a file or a link; None for anything else."""
    try:
        state = os.lstat(f"{base}/{path}")
    except (OSError, ValueError):
        return None
    return state if stat.S_ISREG(state.st_mode) or stat.S_ISLNK(state.st_mode) else None


def readable(path: str) -> bool:
    return os.access(path, os.R_OK) or os.path.islink(path)  # noqa: PTH114 - as elsewhere


def stat_signature(state: os.stat_result) -> str:
    """Return a signature that changes when a file that is not stored changes."""
    return f"{state.st_size}.{state.st_mtime_ns}.{state.st_ino}.{state.st_mode:o}"


def _folders(paths: Iterable[str]) -> set[str]:
    """Return the folders that paths lie in, each with a slash at its end."""
    found: set[str] = set()
    for path in paths:
        at = path.rfind("/")
        while at > 0 and path[: at + 1] not in found:
            found.add(path[: at + 1])
            at = path.rfind("/", 0, at)
    return found


def _private_folders(base: str, paths: Iterable[str]) -> dict[str, int]:
    modes = ((folder, _folder_mode(base, folder)) for folder in _folders(paths))
    return {folder: mode for folder, mode in modes if mode & 0o700 == 0o700 and mode & 0o055 != 0o055}


def _folder_mode(base: str, folder: str) -> int:
    try:
        state = os.lstat(os.path.join(base, folder.rstrip("/")))
    except OSError:
        return 0
    return stat.S_IMODE(state.st_mode) if stat.S_ISDIR(state.st_mode) else 0


class _Look:
    """Looks at files below a folder: by permissions, links excluded, and the young ones, changed since `began`."""

    def __init__(self, base: str, began: int) -> None:
        self._base = base
        self._began = began
        self.by_mode: dict[int, list[str]] = {}
        self.young: list[str] = []

    def at(self, path: str) -> os.stat_result | None:
        """Return the stat of a file or a link; None for anything else."""
        state = lstat_file(self._base, path)
        if state is not None:
            if state.st_ctime >= self._began - 1:
                self.young.append(path)
            if stat.S_ISREG(state.st_mode):
                self.by_mode.setdefault(stat.S_IMODE(state.st_mode), []).append(path)
        return state


class FileModes:
    """Permissions of files: the usual ones for executable and for other files, and exceptions.

    Among these are the folders with files that not everyone may enter; their names end with a slash.
    """

    def __init__(self, usual: tuple[int, int], odd: dict[str, int]) -> None:
        self.usual = usual
        self.odd = odd

    @classmethod
    def of_found(cls, found: Mapping[int, Sequence[str]], base: str = "") -> FileModes:
        """Build from the files with each permissions, links excluded.

        base: the folder that they are in, whose private folders are noted; "" for none.
        """
        common = sorted(found, key=lambda mode: len(found[mode]), reverse=True)
        plain = next((mode for mode in common if not mode & 0o100), 0o644)
        runs = next((mode for mode in common if mode & 0o100), 0o755)
        odd = {p: mode for mode in common if mode not in (plain, runs) for p in found[mode]}
        private = _private_folders(base, (p for paths in found.values() for p in paths)) if base else {}
        return cls((plain, runs), odd | private)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> FileModes:
        return cls((int(data["usual"][0]), int(data["usual"][1])), {str(k): int(v) for k, v in data["odd"].items()})

    def plain(self) -> dict[str, Any]:
        return {"usual": list(self.usual), "odd": dict(sorted(self.odd.items()))}

    def change(self, base: str, removed: Iterable[str], added: Iterable[str]) -> None:
        for path in removed:
            self.odd.pop(path, None)
        new = list(added)
        for folder in _folders(new):
            self.odd.pop(folder, None)
        self.odd |= _private_folders(base, new)
        for path in new:
            self.odd.pop(path, None)
            mode = _mode(base, path)
            if mode is not None and mode not in self.usual:
                self.odd[path] = mode

    def stored(self, git: Git) -> str:
        """Store the permissions as an object; return its ID. Raises StoreError."""
        text = json.dumps(self.plain(), sort_keys=True).encode("ascii")
        return git.keep(text)

    def of(self, path: str, runs: bool) -> int:
        return self.odd.get(path, self.usual[1] if runs else self.usual[0])


def _mode(base: str, path: str) -> int | None:
    """Return the permissions of a file; None for a link or a missing file."""
    state = lstat_file(base, path)
    return stat.S_IMODE(state.st_mode) if state and stat.S_ISREG(state.st_mode) else None

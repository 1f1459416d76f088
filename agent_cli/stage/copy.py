"""The copy in which a staged turn works, and what it was made from.

`base` holds, for every path, what lay there in the project and in the copy when both were last the same. A side has
changed a path if something else lies there now: a changed size, time or inode number is enough. The contents of small
files are kept in `base.pack`, for merges.

A copy is used by one process at a time (`locked`).
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from agent_cli.kernel.run_environment import UsageError
from agent_cli.kernel.session.stages import remove_copy
from agent_cli.policy.git_use import NotUsableError, Use, git_to_review
from agent_cli.stage.git_copy import SharedObjects, copy_git_folder, follow_git_folder, git_mark
from agent_cli.stage.tree import (
    NotCopied,
    TreeEntry,
    copy_entry,
    git_paths,
    look,
    open_entry,
    read_entry,
    remove_entry,
    scan,
    set_mode,
    shares_blocks,
)
from agent_tools.fs.safe_files import acquire, open_regular, private_folder, read_regular, write_atomic
from agent_tools.process.guarded_git import GitError, find_git
from agent_tools.record import Value
from agent_tools.text import counted, one_line, shorten

# Contents kept for merges.
MAX_KEPT_BYTES = 1 << 20
# Without copy on write: the most that is copied, and how much of it git may ignore.
_MAX_COPY_BYTES = 4_000_000_000
_MAX_IGNORED_BYTES, _MAX_IGNORED_FILES = 200_000_000, 20_000
_MAX_STATE_BYTES = 1 << 30
_GIT_SECONDS = 60.0
_MAX_NAMED = 5


class Known(NamedTuple):
    """A path when both sides were the same. at, size: where its content is in the pack; -1 if it is not kept."""

    real: TreeEntry | None
    copy: TreeEntry | None
    at: int = -1
    size: int = 0


_NOTHING = Known(None, None)
_LEFT_BEHIND = (
    "You have committed, staged or changed a branch in the project ({}). The copy does not follow, because the turns "
    "have committed or staged there. Git in the copy shows the earlier state."
)


class StageFacts(Value):
    """What is stored about a copy.

    root: the project. session: whose turns work in it; "" as long as there is none. created: a time stamp.
    taking: paths that are being made what they are in the project; a process that ends meanwhile leaves half of them.
    shared: object folders and their mount points. linked: ignored paths that are mounted read-only.
    gits: git folders, with the marks of the project's and of the copy's when both had the same state.
    """

    root: str
    created: str
    session: str = ""
    taking: tuple[str, ...] = ()
    shared: tuple[tuple[str, str], ...] = ()
    linked: tuple[str, ...] = ()
    gits: tuple[tuple[str, str, str], ...] = ()


class StageError(Exception):
    """The copy cannot be used; the message says why."""


class StageCopy:
    """A copy of a project. tree: its files, seen from outside the stage."""

    def __init__(self, folder: Path, facts: StageFacts) -> None:
        self.folder, self.facts = folder, facts
        self.root, self.tree = Path(facts.root), folder / "tree"
        self._base: dict[str, Known] | None = None
        # States of git folders that the user was told of.
        self._told: set[str] = set()

    @property
    def base(self) -> dict[str, Known]:
        if self.damage:
            raise StageError(f"the state of the copy {self.folder} cannot be read: {self.damage}")
        assert self._base is not None
        return self._base

    @property
    def damage(self) -> str:
        """Why what is known cannot be read; "" if it can."""
        if self._base is None:
            try:
                plain = json.loads(read_regular(self.folder / "base.json", _MAX_STATE_BYTES))
                self._base = {path: _known(row) for path, row in plain.items()}
            except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
                return one_line(str(getattr(error, "strerror", None) or error))
        return ""

    def mend(self) -> str:
        """Make what is known anew, from the project as it is; return what to tell the user. Raises OSError.

        Whatever differs is a change of the copy, except what only the project has: that may be the user's.
        """
        why, self._base = self.damage, {}
        now, ours = (_scan(root, self.facts.linked)[0] for root in (self.root, self.tree))
        self.take(now.keys() - ours.keys())
        every = sorted(now.keys() | ours.keys())
        self.record(every)
        for path in every:
            if self.base[path].real is None:
                real = look(self.root, path)
                is_file = real is not None and real.kind == "file"
                self.set_base(path, real, read_entry(self.root, path, MAX_KEPT_BYTES) if is_file else None)
        self.save()
        return (
            f"The stored state of this session's copy cannot be read ({why}). The copy is compared with your current "
            "project, so applying may undo your own changes: read the diffs. Files that the turns deleted are restored."
        )

    def save(self, facts: StageFacts | None = None) -> None:
        """Store what is known. Raises OSError."""
        self.facts = facts or self.facts
        if self._base is not None:
            rows = {path: [*known] for path, known in self._base.items()}
            write_atomic(self.folder / "base.json", json.dumps(rows).encode())
        self._save_facts(self.facts)

    def _save_facts(self, facts: StageFacts) -> None:
        self.facts = facts
        write_atomic(self.folder / "stage.json", json.dumps(_plain(facts)).encode())

    def record(self, paths: Iterable[str]) -> None:
        """Record that both sides are the same at these paths; where they are not, the project counts as changed.

        Raises OSError.
        """
        with open(self.folder / "base.pack", "ab") as pack:
            for path in paths:
                real, copied = look(self.root, path), look(self.tree, path)
                if real is None and copied is None:
                    self.base.pop(path, None)
                    continue
                same = is_same(self.root, self.tree, path, real, copied)
                self._keep(path, real if same else None, copied, pack)

    def _keep(self, path: str, real: TreeEntry | None, copied: TreeEntry | None, pack: BinaryIO) -> None:
        at = size = -1
        if copied is not None and copied.kind == "file" and copied.size <= MAX_KEPT_BYTES:
            data = read_entry(self.tree, path, MAX_KEPT_BYTES) or b""
            at, size = pack.tell(), len(data)
            pack.write(data)
        self.base[path] = Known(real, copied, at, size)

    def set_base(self, path: str, real: TreeEntry | None, content: bytes | None) -> None:
        """Let what the project has at a path now be what the copy is compared with: the copy has changed it."""
        at = size = -1
        if content is not None and len(content) <= MAX_KEPT_BYTES:
            with open(self.folder / "base.pack", "ab") as pack:
                at, size = pack.tell(), len(content)
                pack.write(content)
        # Its inode number is none that a file in the copy has.
        self.base[path] = Known(real, real._replace(inode=-1) if real is not None else None, at, size)

    def content_then(self, path: str) -> bytes | None:
        """Return the content of a file when both sides were the same; None if it is not known."""
        known = self.base.get(path, _NOTHING)
        if known.at < 0:
            return None
        with suppress(FileNotFoundError), open(self.folder / "base.pack", "rb") as pack:
            pack.seek(known.at)
            data = pack.read(known.size)
            return data if len(data) == known.size else None
        return None

    def changed(self) -> list[str]:
        """Return the paths that differ in the copy from what they were, folders before what is in them.

        Raises OSError.
        """
        if self.facts.taking:
            self.take(self.facts.taking)
        now, hidden = _scan(self.tree, self.facts.linked)
        found = [path for path, known in self.base.items() if now.get(path) != known.copy]
        return sorted({*_outside(found, hidden), *(path for path in now if path not in self.base)})

    def follow(self) -> list[str]:
        """Bring what changed in the project into the copy, where that did not change itself; return these paths.

        Raises OSError.
        """
        ours = set(self.changed())
        now, hidden = _scan(self.root, self.facts.linked)
        theirs = {path for path, known in self.base.items() if now.get(path) != known.real}
        theirs |= now.keys() - self.base.keys()
        done = _outside(sorted(theirs - ours), {*ours, *hidden})
        if done:
            self.take(done)
        return done

    def follow_git(self) -> list[str]:
        """Bring commits, branches and what is staged in the project into the copy; return notes on what cannot come.

        A git folder in which the turns have committed or staged stays as it is. Raises OSError.
        """
        found, notes = [], []
        for path, theirs, ours in self.facts.gits:
            now = git_mark(self.root, path)
            if now in ("", theirs):
                found.append((path, theirs, ours))
            elif git_mark(self.tree, path) == ours:
                follow_git_folder(self.root, self.tree, path)
                found.append((path, now, git_mark(self.tree, path)))
            else:
                found.append((path, theirs, ours))
                notes += [_LEFT_BEHIND.format(path)] if now not in self._told else []
                self._told.add(now)
        if tuple(found) != self.facts.gits:
            self._save_facts(self.facts.replace(gits=tuple(found)))
        return notes

    def take(self, paths: Iterable[str]) -> None:
        """Make these paths in the copy what they are in the project. Raises OSError."""
        every = sorted(paths)
        self._save_facts(self.facts.replace(taking=tuple(every)))
        denied = []
        for path in reversed(every):
            real, copied = look(self.root, path), look(self.tree, path)
            if real is None or copied is None or real.kind != "folder" or copied.kind != "folder":
                self._remove(path)
        for path in every:
            real = look(self.root, path)
            if real is not None and look(self.tree, path) is None:
                try:
                    copy_entry(self.root, self.tree, path, real)
                except PermissionError:
                    denied.append((path, real))
            elif real is not None and real.kind == "folder":
                set_mode(self.tree, path, real.mode)
        self.record(every)
        self.base.update((path, Known(real, None)) for path, real in denied)
        self.save(self.facts.replace(taking=()))

    def _remove(self, path: str) -> None:
        """Remove what lies in the copy; a folder stays if what is in it differs for a reason of its own."""
        try:
            remove_entry(self.tree, path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENOTEMPTY):
                raise

    def mounts(self) -> list[str]:
        """Return bubblewrap's options that put the copy in the project's place."""
        words = ["--bind", str(self.tree), str(self.root)]
        for source, at in self.facts.shared:
            words += ["--ro-bind-try", source, str(self.root / at)]
        for path in self.facts.linked:
            words += ["--ro-bind-try", str(self.root / path), str(self.root / path)]
        return words

    def delete(self) -> None:
        """Remove the copy. Raises OSError."""
        remove_copy(self.folder)
        with suppress(OSError):  # there are others
            self.folder.parent.rmdir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the copy. Raises StageError if another process has it."""
        lock = open_regular(self.folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            if not acquire(lock):
                raise StageError("another process works in this copy")
            yield
        finally:
            os.close(lock)


def _known(row: list[Any]) -> Known:
    real, copied = (TreeEntry(e[0], e[1], e[2], e[3], (e[4][0], e[4][1]), e[5]) if e else None for e in row[:2])
    return Known(real, copied, row[2], row[3])


def _plain(facts: StageFacts) -> dict[str, Any]:
    return {name: getattr(facts, name) for name in StageFacts._fields}


def read_copy(folder: Path) -> StageCopy:
    """Open the copy in a folder. Raises StageError."""
    try:
        folder = Path(os.path.realpath(folder))
        plain = json.loads(read_regular(folder / "stage.json", _MAX_STATE_BYTES))
        shared = tuple((source, at) for source, at in plain.pop("shared"))
        gits = tuple((path, theirs, ours) for path, theirs, ours in plain.pop("gits", ()))
        lists = {name: tuple(plain[name]) for name in ("linked", "taking")}
        return StageCopy(folder, StageFacts(**{**plain, "shared": shared, "gits": gits, **lists}))
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise StageError(f"{folder} is no copy of a project: {error}") from None


def make_copy(folder: Path, root: Path, env: Mapping[str, str], use: Use, created: str) -> tuple[StageCopy, list[str]]:
    """Copy a project into a new folder; return the copy, and notes for the user. Raises UsageError."""
    private_folder(folder)
    folder = Path(os.path.realpath(folder))
    try:
        return _make(folder, root, env, use, created)
    except (OSError, GitError) as error:
        with suppress(OSError):
            remove_copy(folder)
        raise UsageError(f"--stage: the project cannot be copied: {one_line(str(error))}.") from None


def _make(folder: Path, root: Path, env: Mapping[str, str], use: Use, created: str) -> tuple[StageCopy, list[str]]:
    skipped: list[NotCopied] = []
    cheap = shares_blocks(folder)
    linked = [] if cheap else _large(root, _ignored(root, env, use))
    found = scan(root, frozenset(linked), skipped)
    size = sum(entry.size for entry in found.values())
    if not cheap and size > _MAX_COPY_BYTES:
        raise OSError(f"it has {size / 1e9:.1f} GB, more than {_MAX_COPY_BYTES / 1e9:.0f} GB")
    copy = StageCopy(folder, StageFacts(str(root), created, linked=tuple(linked)))
    copy._base = {}
    copy.tree.mkdir()
    copy.tree.chmod(root.stat().st_mode & 0o7777)
    with open(folder / "base.pack", "wb") as pack:
        for path, entry in found.items():
            try:
                copy._keep(path, entry, copy_entry(root, copy.tree, path, entry), pack)
            except FileNotFoundError:
                continue  # it was removed meanwhile
            except PermissionError as error:
                skipped.append(NotCopied(path, error.strerror or "cannot be read"))
                copy._base[path] = Known(entry, None)
    for path in linked:
        place = copy.tree / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir() if (root / path).is_dir() else place.touch()
    shared: list[SharedObjects] = []
    folders = [path for path, entry in found.items() if entry.kind == "folder"]
    gits = list(git_paths(root, folders))
    if gits:
        program = find_git(env.get("PATH", os.defpath), str(root))
        for path in gits:
            shared += copy_git_folder(root, copy.tree, path, program)
    own = [path for path in gits if (root / path).is_dir() and not (root / path).is_symlink()]
    marks = tuple((path, git_mark(root, path), git_mark(copy.tree, path)) for path in own)
    copy.save(copy.facts.replace(shared=tuple((str(s.source), s.at) for s in shared), gits=marks))
    return copy, _notes(linked, skipped)


def _notes(linked: list[str], skipped: list[NotCopied]) -> list[str]:
    lines = []
    if linked:
        lines.append(f"Read-only in the copy, as git ignores it and it is large: {shorten(', '.join(linked), 200)}")
    if skipped:
        names = ", ".join(f"{path or '.'} ({why})" for path, why in skipped[:_MAX_NAMED])
        lines.append(f"Not in the copy: {counted(len(skipped), 'path')}: {names}")
    return lines


def _ignored(root: Path, env: Mapping[str, str], use: Use) -> list[str]:
    """Return the paths that git ignores, a folder in place of what is in it."""
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    try:
        output = git_to_review(root, env, use).run(*words, seconds=_GIT_SECONDS)
    except (GitError, NotUsableError):
        return []
    return sorted(os.fsdecode(name).rstrip("/") for name in output.split(b"\0") if name)


def _large(root: Path, ignored: list[str]) -> list[str]:
    """Return the ignored paths that are not copied: the largest, so that the others stay within the limits."""
    sizes = []
    for path in ignored:
        entry = look(root, path)
        inside = list(scan(root / path).values()) if entry is not None and entry.kind == "folder" else []
        if entry is not None and entry.kind != "link":
            sizes.append((sum(e.size for e in inside) + entry.size, len(inside) + 1, path))
    left, count, found = _MAX_IGNORED_BYTES, _MAX_IGNORED_FILES, []
    for size, files, path in sorted(sizes):
        left, count = left - size, count - files
        if left < 0 or count < 0:
            found.append(path)
    return sorted(path for path in found if not _lies_below(path, set(found)))


def _lies_below(path: str, folders: Collection[str]) -> bool:
    """Return True if a path is below one of these."""
    return any(parent.as_posix() in folders for parent in Path(path).parents)


def _outside(paths: Iterable[str], folders: Collection[str]) -> list[str]:
    """Return the paths that are not below one of these folders."""
    return [path for path in paths if not (folders and _lies_below(path, folders))]


def _scan(root: Path, left_out: Collection[str]) -> tuple[dict[str, TreeEntry], set[str]]:
    """Return what is below a root, and the folders that cannot be listed, in which nothing is gone. Raises OSError."""
    skipped: list[NotCopied] = []
    found = scan(root, left_out, skipped)
    hidden = {path for path, _ in skipped}
    if "" in hidden:
        raise OSError(errno.ENOENT, f"{root} cannot be read: {skipped[0].why}")
    return found, hidden


def is_same(root: Path, tree: Path, path: str, real: TreeEntry | None, copied: TreeEntry | None) -> bool:
    """Return True if the same lies at a path below two roots. Raises OSError."""
    if real is None or copied is None or real[:3] != copied[:3]:  # kind, mode and target
        return False
    if real.kind != "file":
        return True
    return real.size == copied.size and _digest(root, path) == _digest(tree, path)


def _digest(root: Path, path: str) -> bytes:
    import hashlib

    found = hashlib.blake2b()
    with open_entry(root, path) as file:
        while part := file.read(1 << 20):
            found.update(part)
    return found.digest()

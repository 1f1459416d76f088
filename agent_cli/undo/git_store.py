"""Git plumbing for the snapshot store, in its own git folder, never in the user's.

The repository's configuration is not read, so none of its filters, hooks or monitors can run; attributes are
overridden, so that contents are stored byte by byte. Only the objects of the user's repository are read, as alternates.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import compress, decompress, error

from agent_cli.policy.git_inspection import git_folders, inspect_repository
from agent_tools.fs.safe_files import private_folder, read_regular, write_atomic
from agent_tools.process import guarded_git
from agent_tools.process.child import StuckError, collect
from agent_tools.process.guarded_git import GitError

if TYPE_CHECKING:
    import subprocess

_FOLDER = "40000"
_CONFIG = """[core]
\trepositoryformatversion = 0
\tfileMode = true
\tsymlinks = true
\tignoreCase = false
\tautocrlf = false
\tsafecrlf = false
\tfsmonitor = false
\tuntrackedCache = false
\tsplitIndex = false
\thooksPath = /dev/null
\tcompression = 1
\tprotectHFS = false
\tprotectNTFS = false
\tprecomposeUnicode = false
[index]
\tversion = 2
[gc]
\tauto = 0
"""
_ATTRIBUTES = "* -text -crlf !eol -ident !filter !working-tree-encoding\n"
# Folders that are always ignored: caches that programs write, even if no .gitignore lists them.
CACHES = ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache")
_CACHES = "".join(f"{name}/\n" for name in CACHES)
# Ignored in folders that are not repositories.
_JUNK = f"node_modules/\n.venv/\nvenv/\n.tox/\n.nox/\n{_CACHES}"
GIT_SECONDS = 60.0
_BATCH_BYTES = 8 << 20
# Limit in bytes for git's output, which includes contents of files.
MAX_OUTPUT_BYTES = 2 << 30

# A file that differs between two trees: path, old and new mode, old and new object.
Row = tuple[str, str, str, str, str]


class StoreError(Exception):
    """A snapshot could not be made or read; the message says why."""


class TooManyFilesError(StoreError):
    """A folder has more files than can be scanned around each call."""


def find_snapshot_git(path: str, root: str) -> str:
    """See `guarded_git.find_git`. Raises StoreError."""
    try:
        return guarded_git.find_git(path, root)
    except GitError as error:
        raise StoreError(str(error)) from None


def oid_of(data: bytes) -> str:
    """Return the object ID that git gives a content."""
    return hashlib.sha1(_with_header(data, "blob"), usedforsecurity=False).hexdigest()


def _with_header(data: bytes, kind: str) -> bytes:
    return f"{kind} {len(data)}\0".encode("ascii") + data


class Git:
    """Runs git on the folder `home`, which is created if missing.

    program: see `find_snapshot_git`.
    objects: object folders whose contents need not be stored again.
    ignored: global ignore patterns of the user; None outside of repositories.
    """

    def __init__(self, home: Path, program: str, objects: Sequence[str] = (), ignored: str | None = None) -> None:
        self.home = home
        self.program = program
        self._objects = tuple(objects)
        self._run = guarded_git.store_git(program, str(home), self._objects)
        self._local = guarded_git.store_git(program, str(home))
        # Inherited by every git that runs, so that after a crash the lock lasts until that git has ended.
        self.lock = -1
        self._make(_JUNK if ignored is None else f"{_CACHES}{ignored}")

    def _make(self, ignored: str) -> None:
        for folder in ("objects/info", "objects/pack", "refs", "info"):
            private_folder(self.home / folder)
        for name, text in (
            ("config", _CONFIG), ("info/attributes", _ATTRIBUTES), ("info/exclude", ignored),
            ("HEAD", "ref: refs/heads/none\n"),
        ):  # fmt: skip
            if _text(self.home / name) != text:
                write_atomic(self.home / name, text.encode("utf-8", "surrogateescape"), sync=False)

    def run(
        self,
        *words: str,
        feed: bytes = b"",
        tree: str = "/",
        index: Path | None = None,
        seconds: float = GIT_SECONDS,
        local: bool = False,
    ) -> bytes:
        """Run git in the folder `tree`, its work tree, and return its output. Raises StoreError.

        local: use only our own objects.
        """
        process = self.start(*words, tree=tree, index=index, local=local)
        try:
            out, err = collect(process, feed, seconds, MAX_OUTPUT_BYTES, self._run.stuck({"GIT_WORK_TREE": tree}))
        except StuckError as error:
            raise StoreError(str(error)) from None
        except TimeoutError:
            raise StoreError(f"git {words[0]} took more than {seconds:.0f} s") from None
        except OverflowError:
            raise StoreError(f"git {words[0]} printed more than {MAX_OUTPUT_BYTES:,} bytes") from None
        if process.returncode:
            if b"No space left on device" in err or not os.statvfs(self.home).f_bavail:
                raise StoreError("the disk is full")
            error_lines = err.decode("utf-8", "replace").strip().splitlines()
            raise StoreError(f"git {words[0]} failed: {error_lines[-1] if error_lines else process.returncode}")
        return out

    def start(
        self, *words: str, tree: str = "/", index: Path | None = None, local: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start git. Raises StoreError."""
        env = {"GIT_WORK_TREE": tree} | ({} if index is None else {"GIT_INDEX_FILE": str(index)})
        held = (self.lock,) if self.lock >= 0 else ()
        try:
            return (self._local if local else self._run).start(*words, cwd=tree, env=env, pass_fds=held)
        except GitError as error:
            raise StoreError(str(error)) from None

    def keep(self, data: bytes, kind: str = "blob") -> str:
        """Store an object of our own, without starting git; return its ID. Raises StoreError."""
        content = _with_header(data, kind)
        oid = hashlib.sha1(content, usedforsecurity=False).hexdigest()
        path = self._loose(oid)
        try:
            if not _has_content(path):
                write_atomic(path, compress(content, 1), 0o400, sync=False)
        except OSError as error:
            raise StoreError(f"{path.parent} cannot be written: {error.strerror or error}") from None
        return oid

    def pack_blobs(self, contents: Iterable[bytes]) -> None:
        """Store many contents of our own in packs, at less cost than as a file each. Raises StoreError."""
        words = ("fast-import", "--quiet", "--depth=0")
        feed = bytearray()
        for data in contents:
            feed += b"blob\ndata %d\n%b\n" % (len(data), data)
            if len(feed) > _BATCH_BYTES:
                self.run(*words, feed=bytes(feed))
                feed.clear()
        self.run(*words, feed=bytes(feed))

    def keep_tree(self, files: Mapping[str, tuple[str, str]]) -> str:
        """Store the tree of these files, each with mode and object, and the trees in it; return its ID.

        Raises StoreError.
        """
        folders: dict[str, dict[str, tuple[str, str]]] = {"": {}}
        for path, file in files.items():
            folder, _, name = path.rpartition("/")
            folders.setdefault(folder, {})[name] = file
            while folder:
                folder = folder.rpartition("/")[0]
                folders.setdefault(folder, {})
        oid = ""
        # What is in a folder has a longer path.
        for folder in sorted(folders, key=len, reverse=True):
            # In git's order, a folder's name ends in a slash.
            rows = sorted(
                (os.fsencode(name) + b"/" * (mode == _FOLDER), os.fsencode(name), mode, entry)
                for name, (mode, entry) in folders[folder].items()
            )
            data = b"".join(f"{mode} ".encode() + name + b"\0" + bytes.fromhex(entry) for _, name, mode, entry in rows)
            oid = self.keep(data, "tree")
            if folder:
                parent, _, name = folder.rpartition("/")
                folders[parent][name] = (_FOLDER, oid)
        return oid

    def lacks(self, oids: Iterable[str]) -> list[str]:
        """Return the objects that are not among our own. Raises StoreError."""
        packed = [oid for oid in oids if not _has_content(self._loose(oid))]
        local = self.have(packed, local=True)
        return sorted(oid for oid in packed if oid not in local)

    def _loose(self, oid: str) -> Path:
        return self.home / "objects" / oid[:2] / oid[2:]

    def blob(self, oid: str) -> bytes:
        """Return the content of an object. Raises StoreError."""
        return self.run("cat-file", "blob", oid)

    def blobs(self, oids: Collection[str]) -> dict[str, bytes]:
        """Return the contents of the objects that exist. Raises StoreError."""
        found = {oid: data for oid in oids if (data := self._loose_blob(oid)) is not None}
        rest = [oid for oid in oids if oid not in found]
        out = self.run("cat-file", "--batch", feed="\n".join([*rest, ""]).encode()) if rest else b""
        at = 0
        while at < len(out):
            end = out.index(b"\n", at)
            head = out[at:end].split()
            at = end + 1
            if len(head) == 3:
                size = int(head[2])
                found[head[0].decode()] = out[at : at + size]
                at += size + 1
        return found

    def _loose_blob(self, oid: str) -> bytes | None:
        """Read one of our own objects that is in no pack, without starting git; None for any other."""
        try:
            head, _, data = decompress(read_regular(self._loose(oid), MAX_OUTPUT_BYTES)).partition(b"\0")
        except (OSError, ValueError, error):
            return None
        return data if head == f"blob {len(data)}".encode("ascii") else None

    def have(self, oids: Iterable[str], *, local: bool = False) -> dict[str, int]:
        """Return the sizes of the objects that exist. Raises StoreError."""
        wanted = list(dict.fromkeys(oids))
        sizes = self.sizes(wanted, local=local)
        return {oid: size for oid, size in zip(wanted, sizes, strict=True) if size >= 0}

    def sizes(self, oids: Sequence[str], *, local: bool = False) -> list[int]:
        """Return the size of each object, -1 if it does not exist. Raises StoreError."""
        if not oids:
            return []
        feed = "\n".join([*oids, ""]).encode()
        rows = self.run("cat-file", "--batch-check=%(objectsize)", feed=feed, local=local).splitlines()
        if len(rows) != len(oids):
            raise StoreError("git cat-file did not answer for each object")
        return [int(row) if row.isdigit() else -1 for row in rows]

    def differences(
        self, pairs: Iterable[tuple[str, str]], *, folders: bool = False
    ) -> dict[tuple[str, str], list[Row]]:
        """Return the differing files of each pair of unequal trees; `folders`: these, too. Raises StoreError."""
        wanted = {pair for pair in pairs if pair[0] != pair[1]}
        feed = "".join(f"{old} {new}\n" for old, new in wanted).encode()
        words = ("diff-tree", "--stdin", "-r", *(["-t"] if folders else []), "-z", "--no-renames")
        out = self.run(*words, feed=feed) if wanted else b""
        found: dict[tuple[str, str], list[Row]] = {}
        at = 0
        while at < len(out):
            if out[at : at + 1] != b":":
                end = out.index(b"\n", at)
                old, new = out[at:end].decode("ascii").split()
                rows = found.setdefault((old, new), [])
                at = end + 1
                continue
            head = out.index(b"\0", at)
            end = out.index(b"\0", head + 1)
            mode, mode2, oid, oid2, _ = out[at + 1 : head].decode("ascii").split()
            rows.append((os.fsdecode(out[head + 1 : end]), mode, mode2, oid, oid2))
            at = end + 1
        if found.keys() != wanted:
            raise StoreError("a state is no longer in the store")
        return found

    def borrowed_signature(self) -> str:
        """Return a signature that changes when borrowed objects may be gone: repacked, or another repository."""
        marks = []
        for folder in self._objects:
            try:
                state = os.stat(os.path.join(folder, "pack"))  # noqa: PTH116 - as elsewhere
                marks.append(f"{state.st_ino}.{state.st_mtime_ns}")
            except OSError:
                marks.append("none")
        return " ".join(marks)

    def is_complete(self, tree: str) -> bool:
        """Return True if all objects of a tree exist."""
        try:
            found = self.run("rev-list", "--objects", "--no-object-names", "--missing=print", tree)
        except StoreError:
            return False
        return b"?" not in found

    def pack(self, oids: Iterable[str], *, local: bool = False) -> str:
        """Store the objects as a pack of our own; return its name. Raises StoreError."""
        feed = "\n".join([*oids, ""]).encode()
        words = ("pack-objects", "-q", "--window=0", "--compression=1", str(self.home / "objects/pack/pack"))
        return self.run(*words, feed=feed, local=local, seconds=600).decode().strip()


def objects_of(root: Path) -> list[str]:
    """Return the object folder of the repository at `root`; none if there is none, or if its hash format differs."""
    folders = git_folders(root) if os.path.lexists(root / ".git") else []
    if folders and inspect_repository(root).odd:  # an object folder that leads elsewhere, or would block git
        return []
    for folder in folders[:1]:
        config = _text(folder / "config")
        if re.search(r"(?im)^\s*objectformat\s*=\s*(?!sha1)", config):
            return []
        objects = folder / "objects"
        if os.path.isdir(objects):  # noqa: PTH112 - the method raises where a parent is closed
            return [str(objects)]
    return []


def ignored_in(root: Path, home: str) -> str | None:
    """Return the ignore patterns of a repository apart from .gitignore; None if `root` is no repository."""
    if not os.path.lexists(root / ".git"):
        return None
    found = [folder / "info/exclude" for folder in git_folders(root)]
    if home:
        config = _text(Path(home) / ".gitconfig") + _text(Path(home) / ".config/git/config")
        named = re.search(r"(?im)^\s*excludesfile\s*=\s*\"?([^\"\n]+?)\"?\s*$", config)
        found.append(Path(home, named[1].removeprefix("~/")) if named else Path(home) / ".config/git/ignore")
    return "\n".join(_text(p) for p in found)


def _has_content(path: Path) -> bool:
    """Return False if a file is missing, or empty after a power cut."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _text(path: Path) -> str:
    try:
        return read_regular(path, 1 << 20).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return ""

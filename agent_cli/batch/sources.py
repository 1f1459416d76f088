"""The repositories that a batch works on: a bare one of our own for each source, from which each task gets its tree.

Work trees have a git folder of their own, so that nothing in the user's repository changes, and no task meets another.
What a task changed is read with our repository, not with that git folder, whose configuration the model could write.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from agent_tools.fs.safe_files import private_folder, read_regular, write_whole
from agent_tools.process.guarded_git import GitError, GitRun, fetching_git, find_git, store

_FETCH_SECONDS = 1800.0
_SECONDS = 600.0
_SHALLOW = "shallow"
_BASE = "refs/batch/base"
_NAMES = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", "+refs/remotes/*:refs/remotes/*")
_DIFF = ("--binary", "--full-index", "--no-color", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/")
_AUTHOR = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "agent batch"), ("EMAIL", "batch@localhost"), ("DATE", "2026-01-01T00:00:00Z"))
}
# Of this user, who is not to be asked for the passphrase of a signature.
_LOCAL = {"commit.gpgsign": "false", "tag.gpgsign": "false"}
# Sent with each task to a host of a cluster, through its scheduler.
LARGEST_BUNDLE = 64 << 20
_LARGEST_REFS = 256 << 20
_LARGEST_OBJECT = 8 << 30


class SourceStore:
    """Makes and holds the bare repositories, in a folder of its own. Thread-safe; methods raise GitError, OSError."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder, self._env = folder, env
        self._program = find_git(env.get("PATH", os.defpath), str(folder))
        self._lock = threading.Lock()
        self._made: dict[str, Path] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._bundles: dict[tuple[Path, str], bytes] = {}

    def of_repository(self, path: str) -> Path:
        """Return the bare repository with what is checked out in a repository of this machine, and its branches."""

        def fetch(bare: Path) -> None:
            self._fetch(bare, path, *_NAMES, trusted=True)
            try:
                self._fetch(bare, path, f"+HEAD:{_BASE}", trusted=True)
            except GitError as error:
                if "HEAD" in str(error):
                    raise GitError(f"{path} has no commit yet to start from") from None
                raise

        return self._make(f"git {path}", fetch)

    def of_folder(self, path: str) -> Path:
        """Return the bare repository with the files of a folder in one commit, those that git would ignore too."""

        def add(bare: Path) -> None:
            git = store(self._program, str(bare))
            tree = {"GIT_WORK_TREE": path, **_AUTHOR}
            write_whole(bare / "info" / "exclude", b"__pycache__/\n", sync=False)
            git.run("add", "-A", cwd=path, env=tree, seconds=_SECONDS)
            made = git.run("write-tree", env=tree).decode().strip()
            commit = git.run("commit-tree", made, "-m", "Start", env=tree).decode().strip()
            git.run("update-ref", _BASE, commit)

        return self._make(f"copy {path}", add)

    def of_url(self, url: str, revision: str) -> Path:
        """Return the bare repository with one branch, tag or commit (HEAD by default), fetched with the user's logins.

        The others are not there.
        """
        wanted = revision or "HEAD"
        return self._make(f"url {url} {wanted}", lambda bare: self._fetch(bare, url, f"+{wanted}:{_BASE}"))

    def of_bundle(self, data: bytes, shallow: bytes) -> Path:
        """Return the bare repository of a bundle. shallow: as `bundle` says."""

        def unpack(bare: Path) -> None:
            if shallow:
                write_whole(bare / _SHALLOW, shallow, sync=False)
            file = bare / "shipped.bundle"
            write_whole(file, data, sync=False)
            self._fetch(bare, str(file), "+refs/*:refs/*", trusted=True)
            file.unlink()

        return self._make(f"bundle {hashlib.sha256(data).hexdigest()}", unpack)

    def commit(self, bare: Path, revision: str) -> str:
        """Return the hash of a branch, a tag or a commit; of "" that of what was checked out."""
        git = store(self._program, str(bare))
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision or _BASE}^{{commit}}")
        try:
            return git.run(*words).decode().strip()
        except GitError:
            raise GitError(f"there is no branch, tag or commit {revision}") from None

    def bundle(self, bare: Path, commit: str) -> tuple[bytes, bytes]:
        """Return a commit with its history as a bundle, and where that history is cut off (git's file `shallow`).

        Raises GitError if it is too large to be sent.
        """
        with self._lock_of(f"bundle {bare} {commit}"):
            if (bare, commit) not in self._bundles:
                git = store(self._program, str(bare))
                git.run("update-ref", f"refs/batch/{commit}", commit)
                with tempfile.TemporaryDirectory(dir=self._folder) as folder:
                    file = Path(folder) / "bundle"
                    git.run("bundle", "create", "-q", str(file), f"refs/batch/{commit}", seconds=_SECONDS)
                    if (size := file.stat().st_size) > LARGEST_BUNDLE:
                        raise GitError(
                            f"with its history it is {size >> 20} MB, and {LARGEST_BUNDLE >> 20} MB can be sent to the "
                            "hosts: name the repository by a URL from which they can clone it"
                        )
                    self._bundles[bare, commit] = read_regular(file, LARGEST_BUNDLE)
            return self._bundles[bare, commit], _shallow(bare)

    def make_tree(self, bare: Path, commit: str, work: Path, branch: str) -> None:
        """Make a work tree with a commit checked out, on a branch of this name, and the branches of its source."""
        folder = work / ".git"
        work.mkdir(parents=True)
        git = store(self._program, str(folder))
        git.run("init", "-q", "-b", branch)
        shutil.copytree(bare / "objects", folder / "objects", copy_function=_link, dirs_exist_ok=True)
        with suppress(FileNotFoundError):
            write_whole(folder / "packed-refs", read_regular(bare / "packed-refs", _LARGEST_REFS), sync=False)
        if cut := _shallow(bare):
            write_whole(folder / _SHALLOW, cut, sync=False)
        for key, value in _LOCAL.items():
            git.run("config", key, value)
        tree = {"GIT_WORK_TREE": str(work)}
        git.run("reset", "-q", "--hard", commit, cwd=str(work), env=tree, seconds=_SECONDS)

    def changes(self, bare: Path, commit: str, work: Path, index: Path) -> tuple[bytes, int]:
        """Return what a work tree has that its commit has not, as a patch, and the number of files.

        Ignored files are not in it. index: a file that is written.
        """
        git = store(self._program, str(bare))
        env = {"GIT_WORK_TREE": str(work), "GIT_INDEX_FILE": str(index)}

        def run(*words: str) -> bytes:
            return git.run(*words, cwd=str(work), env=env, seconds=_SECONDS)

        run("read-tree", commit)
        run("add", "--all", "--ignore-errors")
        after = run("write-tree").decode().strip()
        names = run("diff-tree", "-r", "--name-only", "-z", "--no-renames", commit, after)
        patch = run("diff-tree", "-r", "-p", *_DIFF, commit, after) if names else b""
        return patch, names.count(b"\0")

    def _fetch(self, bare: Path, source: str, *refs: str, trusted: bool = False) -> None:
        git: GitRun = fetching_git(self._program, str(bare), self._env)
        if trusted:  # the user's own history, however old
            git = git.with_settings({"transfer.fsckObjects": "false"})
        git.run("fetch", "-q", "--no-tags", "--update-shallow", "--", source, *refs, seconds=_FETCH_SECONDS)

    def _make(self, key: str, fill: Callable[[Path], None]) -> Path:
        with self._lock_of(key):
            if key not in self._made:
                bare = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.git"
                private_folder(bare)
                try:
                    git = store(self._program, str(bare))
                    git.run("init", "-q", "--bare", "-b", "main")
                    fill(bare)
                    git.run("pack-refs", "--all")
                except BaseException:
                    shutil.rmtree(bare, ignore_errors=True)
                    raise
                self._made[key] = bare
            return self._made[key]

    def _lock_of(self, key: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(key, threading.Lock())


def _shallow(bare: Path) -> bytes:
    with suppress(FileNotFoundError):
        return read_regular(bare / _SHALLOW, _LARGEST_REFS)
    return b""


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        write_whole(Path(target), read_regular(source, _LARGEST_OBJECT), sync=False)

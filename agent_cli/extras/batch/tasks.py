"""The tasks of a batch, read from JSON lines, and the repositories that they work on.

Each source becomes a bare repository of ours, from which each task gets its work tree. Every work tree has a separate
git folder, so that nothing in the user's repository changes, and tasks do not affect each other. The changes of a task
are read with our repository, not with that git folder, whose configuration the model could write.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from agent_cli import MODES
from agent_cli.extras.evaluation.tasks import find_key_error
from agent_cli.kernel.modes import MODE_ALIASES
from agent_tools.fs.safe_files import private_folder, read_regular, write_atomic
from agent_tools.process.git_tree import store_tree
from agent_tools.process.guarded_git import GitError, GitRun, fetching_git, find_git, store_git
from agent_tools.record import Value

_FETCH_SECONDS = 1800.0
_GIT_SECONDS = 600.0
_SHALLOW = "shallow"
_BASE_REF = "refs/batch/base"
_REFSPECS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", "+refs/remotes/*:refs/remotes/*")
_DIFF_OPTIONS = ("--binary", "--full-index", "--no-color", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/")
_AUTHOR = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "agent batch"), ("EMAIL", "batch@localhost"), ("DATE", "2026-01-01T00:00:00Z"))
}
# The user must not be asked for the passphrase of a signature.
_LOCAL_CONFIG = {"commit.gpgsign": "false", "tag.gpgsign": "false"}
# A bundle is sent with each task to a host of a cluster, through its scheduler.
MAX_BUNDLE_BYTES = 64 << 20
_MAX_REFS_BYTES = 256 << 20
_MAX_OBJECT_BYTES = 8 << 30


class SourceStore:
    """Creates and stores bare repositories in a folder. Thread-safe; methods raise GitError, OSError."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder, self._env = folder, env
        self._program = find_git(env.get("PATH", os.defpath), str(folder))
        self._lock = threading.Lock()
        self._made: dict[str, Path] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._bundles: dict[tuple[Path, str], bytes] = {}

    def of_repository(self, path: str) -> Path:
        """Return the bare repository with the branches of a local repository, and the commit that is checked out."""

        def fetch(bare: Path) -> None:
            self._fetch(bare, path, *_REFSPECS, trusted=True)
            try:
                self._fetch(bare, path, f"+HEAD:{_BASE_REF}", trusted=True)
            except GitError as error:
                if "HEAD" in str(error):
                    raise GitError(f"{path} has no commit yet to start from: commit something first") from None
                raise

        return self._make(f"git {path}", fetch)

    def of_folder(self, path: str) -> Path:
        """Return the bare repository with the files of a folder in one commit, including ignored ones."""

        def add(bare: Path) -> None:
            git = store_git(self._program, str(bare))
            made = store_tree(git.on_work_tree(path), bare / "index", ("--exclude=__pycache__/",))
            commit = git.run("commit-tree", made, "-m", "Start", env=_AUTHOR).decode().strip()
            git.run("update-ref", _BASE_REF, commit)

        return self._make(f"copy {path}", add)

    def of_url(self, url: str, revision: str) -> Path:
        """Return the bare repository with one branch, tag or commit (HEAD by default), fetched with the user's logins.

        The others are not there.
        """
        wanted = revision or "HEAD"
        return self._make(f"url {url} {wanted}", lambda bare: self._fetch(bare, url, f"+{wanted}:{_BASE_REF}"))

    def of_bundle(self, data: bytes, shallow: bytes) -> Path:
        """Return the bare repository of a bundle. shallow: as returned by `bundle`."""

        def unpack(bare: Path) -> None:
            if shallow:
                write_atomic(bare / _SHALLOW, shallow, sync=False)
            file = bare / "shipped.bundle"
            write_atomic(file, data, sync=False)
            self._fetch(bare, str(file), "+refs/*:refs/*", trusted=True)
            file.unlink()

        return self._make(f"bundle {hashlib.sha256(data).hexdigest()}", unpack)

    def commit(self, bare: Path, revision: str) -> str:
        """Return the hash of a branch, a tag or a commit; for "" the commit that was checked out."""
        git = store_git(self._program, str(bare))
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision or _BASE_REF}^{{commit}}")
        try:
            return git.run(*words).decode().strip()
        except GitError:
            raise GitError(f"there is no branch, tag or commit {revision}") from None

    def bundle(self, bare: Path, commit: str) -> tuple[bytes, bytes]:
        """Return a commit with its history as a bundle, and where that history ends (git's file `shallow`).

        Raises GitError if it is too large to be sent.
        """
        with self._lock_of(f"bundle {bare} {commit}"):
            if (bare, commit) not in self._bundles:
                git = store_git(self._program, str(bare))
                git.run("update-ref", f"refs/batch/{commit}", commit)
                with tempfile.TemporaryDirectory(dir=self._folder) as folder:
                    file = Path(folder) / "bundle"
                    git.run("bundle", "create", "-q", str(file), f"refs/batch/{commit}", seconds=_GIT_SECONDS)
                    if (size := file.stat().st_size) > MAX_BUNDLE_BYTES:
                        raise GitError(
                            f"with its history it is {size >> 20} MB, and {MAX_BUNDLE_BYTES >> 20} MB can be sent to "
                            "the hosts: name the repository by a URL from which they can clone it"
                        )
                    self._bundles[bare, commit] = read_regular(file, MAX_BUNDLE_BYTES)
            return self._bundles[bare, commit], _shallow(bare)

    def make_tree(self, bare: Path, commit: str, work: Path, branch: str) -> None:
        """Create a work tree with a commit checked out on a branch of this name; it has the branches of its source."""
        folder = work / ".git"
        work.mkdir(parents=True)
        git = store_git(self._program, str(folder))
        git.run("init", "-q", "-b", branch)
        shutil.copytree(bare / "objects", folder / "objects", copy_function=_link, dirs_exist_ok=True)
        with suppress(FileNotFoundError):
            write_atomic(folder / "packed-refs", read_regular(bare / "packed-refs", _MAX_REFS_BYTES), sync=False)
        if cut := _shallow(bare):
            write_atomic(folder / _SHALLOW, cut, sync=False)
        for key, value in _LOCAL_CONFIG.items():
            git.run("config", key, value)
        tree = {"GIT_WORK_TREE": str(work)}
        git.run("reset", "-q", "--hard", commit, cwd=str(work), env=tree, seconds=_GIT_SECONDS)

    def changes(self, bare: Path, commit: str, work: Path, index: Path) -> tuple[bytes, int]:
        """Return the difference between a work tree and its commit as a patch, and the number of changed files.

        Ignored files are not in it, nor is what is in submodules or other repositories. index: a file that is written.
        """
        git = store_git(self._program, str(bare)).on_work_tree(str(work))
        git.run("read-tree", commit, env={"GIT_INDEX_FILE": str(index)}, seconds=_GIT_SECONDS)
        after = store_tree(git, index)
        names = git.run("diff-tree", "-r", "--name-only", "-z", "--no-renames", commit, after, seconds=_GIT_SECONDS)
        words = ("diff-tree", "-r", "-p", *_DIFF_OPTIONS, commit, after)
        return git.run(*words, seconds=_GIT_SECONDS) if names else b"", names.count(b"\0")

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
                    git = store_git(self._program, str(bare))
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
        return read_regular(bare / _SHALLOW, _MAX_REFS_BYTES)
    return b""


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        write_atomic(Path(target), read_regular(source, _MAX_OBJECT_BYTES), sync=False)


_TASK_KEYS: dict[str, tuple[type, ...]] = {
    "id": (str, int),
    "name": (str, int),
    "prompt": (str,),
    "repository": (str,),
    "folder": (str,),
    "branch": (str,),
    "commit": (str,),
    "model": (str,),
    "mode": (str,),
    "setup": (str,),
    "check": (str,),
    "check_sandbox": (bool,),
    "check_timeout": (int, float),
    "budget": (dict,),
    "settings": (dict,),
}
_BUDGET_KEYS: dict[str, tuple[type, ...]] = {"cost": (int, float), "turns": (int,), "seconds": (int, float)}
_ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_TYPE_NAMES = {str: "text", int: "a number", float: "a number", bool: "true or false", dict: "an object"}
_REVISION_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@{}^~+#=-]{0,254}")
# Nobody can approve a plan.
_MODES = tuple(mode for mode in MODES if mode != "plan")

# What `fetching_git` allows.
_SCHEMES = ("https", "ssh", "git", "file")

SourceKind = Literal["url", "git", "copy"]


class BatchTask(Value):
    """One task.

    line: its line number.
    kind: where its files come from: a URL or a local repository to clone, or a folder to copy.
    source: the URL, or the path of the repository or folder.
    digest: a hash of the task.
    subfolder: where the agent works in it; "" for its top.
    revision: a branch, a tag or a commit; "" for the one that is checked out.
    cost: dollars; 0 for no limit.
    turns: number of model calls; 0 for no limit.
    seconds: 0 for no limit.
    """

    id: str
    line: int
    prompt: str
    kind: SourceKind
    source: str
    digest: str
    subfolder: str = ""
    revision: str = ""
    model: str = ""
    mode: str = ""
    setup: str = ""
    check: str = ""
    check_sandbox: bool = True
    check_timeout: float = 300.0
    cost: float = 0.0
    turns: int = 0
    seconds: float = 0.0
    settings: dict[str, Any] = {}  # noqa: RUF012 - never changed


class BadTaskError(Exception):
    """A line is not a valid task."""


def read_batch(text: str, folder: Path, here: Path) -> tuple[list[BatchTask], dict[int, str]]:
    """Parse the tasks of a batch; return them, and an error for each invalid line, by its number.

    folder: where relative paths start.
    here: what a task works on if it names nothing.
    """
    tasks: list[BatchTask] = []
    wrong: dict[int, str] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            task = _parse_task(line, number, folder, here)
            if (first := lines.setdefault(task.id, number)) != number:
                raise BadTaskError(f"the id {task.id} is already used in line {first}")
            tasks.append(task)
        except BadTaskError as error:
            wrong[number] = str(error)
    return tasks, wrong


def _parse_task(line: str, number: int, folder: Path, here: Path) -> BatchTask:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadTaskError(f"this is not JSON ({error})") from None
    if not isinstance(data, dict):
        raise BadTaskError('a task is an object, as in {"prompt": "..."}')
    _check_types(data, _TASK_KEYS, "")
    budget = data.get("budget", {})
    _check_types(budget, _BUDGET_KEYS, "budget.")
    for names in (("id", "name"), ("branch", "commit")):
        if all(name in data for name in names):
            raise BadTaskError(f"{' and '.join(names)} are two names for one thing: give one of them")
    if not data.get("prompt", "").strip():
        raise BadTaskError("there is no prompt")
    named = str(data.get("id", data.get("name", f"task-{number}")))
    if not _ID_PATTERN.fullmatch(named):
        raise BadTaskError("id must be letters, digits, dots and dashes, 80 at most")
    revision = str(data.get("branch", data.get("commit", "")))
    if revision and (not _REVISION_PATTERN.fullmatch(revision) or ".." in revision):
        raise BadTaskError(f"{revision} is no name of a branch, a tag or a commit")
    if (timeout := data.get("check_timeout", 300)) <= 0:
        raise BadTaskError("check_timeout must be more than 0")
    what = {name: data[name] for name in ("model", "setup", "check", "check_sandbox", "settings") if name in data}
    return BatchTask(
        id=named,
        line=number,
        prompt=data["prompt"],
        **_parse_source(data, folder, here, revision),
        **what,
        revision=revision,
        mode=_parse_mode(data.get("mode", "")),
        check_timeout=float(timeout),
        **budget,
        digest=hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16],
    )


def _check_types(data: dict[str, Any], keys: dict[str, tuple[type, ...]], before: str) -> None:
    if mistake := find_key_error(data, keys, before, types=_TYPE_NAMES):
        raise BadTaskError(mistake.rstrip("."))
    for key, value in data.items():
        if before and not 0 < float(str(value)) < 1e12:
            raise BadTaskError(f"{before}{key} must be more than 0")


def _parse_mode(name: str) -> str:
    mode = MODE_ALIASES.get(name, name)
    if mode == "plan":
        raise BadTaskError("in the mode plan nobody would be there to approve the plan; use another mode")
    if mode and mode not in _MODES:
        raise BadTaskError(f"{name} is no mode; the modes are {', '.join(_MODES)}")
    return mode


def _parse_source(data: dict[str, Any], folder: Path, here: Path, revision: str) -> dict[str, Any]:
    """Return the fields `kind`, `source` and `subfolder`."""
    repository, inner = data.get("repository", ""), data.get("folder", "")
    if not repository:
        return _folder_source(_resolve(folder, inner) if inner else here, revision)
    if inner and (os.path.isabs(inner) or ".." in Path(inner).parts):  # noqa: PTH117
        raise BadTaskError("folder must be a path inside of the repository")
    if "://" in repository or ("@" in repository.partition("/")[0] and ":" in repository):  # a URL
        if "://" in repository and repository.partition("://")[0] not in _SCHEMES:
            raise BadTaskError(f"{repository} cannot be cloned; a URL begins with {'://, '.join(_SCHEMES)}://")
        return {"kind": "url", "source": repository, "subfolder": inner}
    path = _resolve(folder, repository)
    if not path.is_dir():
        raise BadTaskError(f"{path} is not a folder")
    if not ((path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())):
        raise BadTaskError(f"{path} is not a git repository; name it as folder to work in a copy of it")
    return {"kind": "git", "source": str(path), "subfolder": inner}


def _folder_source(path: Path, revision: str) -> dict[str, Any]:
    if not path.is_dir():
        raise BadTaskError(f"{path} is not a folder")
    for top in _ancestors(path):
        if (top / ".git").exists():
            inside = path.relative_to(top).as_posix()
            return {"kind": "git", "source": str(top), "subfolder": "" if inside == "." else inside}
    if revision:
        raise BadTaskError(f"{path} is not in a git repository, so it has no branch and no commit")
    return {"kind": "copy", "source": str(path)}


def _ancestors(path: Path) -> Iterator[Path]:
    yield path
    yield from path.parents


def _resolve(folder: Path, name: str) -> Path:
    try:
        return Path(os.path.realpath(folder / Path(name).expanduser()))
    except (RuntimeError, ValueError):
        raise BadTaskError(f"{name} is no path") from None

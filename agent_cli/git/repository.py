"""The user's repository, for commits that they request. No other file uses GitPython, which finds the repository.

Unlike everywhere else, git runs here as the user would run it (`guarded_git.user_git`): a commit must be the same as by
`git commit`, with its hooks, filters and signature. So nothing here runs before the user has asked for a commit.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from agent_cli.kernel.run_environment import UsageError
from agent_tools.cancel import CancelToken
from agent_tools.fs.safe_files import read_regular, write_atomic
from agent_tools.process.child import StuckError, collect
from agent_tools.process.guarded_git import (
    MAX_OUTPUT_BYTES,
    Checkout,
    GitError,
    find_git,
    settings_as_variables,
    user_git,
)
from agent_tools.record import Value

if TYPE_CHECKING:
    from git import Repo

# Files that git leaves in its folder during an operation, and names for these operations.
_MAX_INDEX_BYTES = 512 << 20
_OPERATIONS = {
    "MERGE_HEAD": "A merge", "CHERRY_PICK_HEAD": "A cherry-pick", "REVERT_HEAD": "A revert",
    "rebase-merge": "A rebase", "rebase-apply": "A rebase", "sequencer": "A cherry-pick or revert",
}  # fmt: skip
_PATHS_PER_DIFF = 500
# A submodule is changed by another commit, not by its files: git would start for it, with its configuration.
_NO_SUBMODULES = "--ignore-submodules=dirty"
_SUBMODULE_NAME = re.compile(r"submodule\.(.+)\.[^.]+", re.DOTALL)
_GIT_SECONDS = 300.0
# Time limit; hooks may run all tests.
_HOOKS_SECONDS = 3600


class FileStatus(Value):
    """A file that differs from the last commit.

    path: from the top of the repository.
    staged: the index differs from the commit.
    unstaged: the file differs from the index.
    new: it is untracked.
    unmerged: it has a merge conflict.
    module: it is a submodule.
    """

    path: str
    staged: bool = False
    unstaged: bool = False
    new: bool = False
    unmerged: bool = False
    module: bool = False

    @property
    def partly_staged(self) -> bool:
        """True if some of its changes are staged and some are not."""
        return self.staged and self.unstaged


class Repository:
    """The repository that contains a folder. Raises UsageError if there is none that can be used."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        try:
            program = find_git(env.get("PATH", os.defpath), str(folder))
        except GitError as error:
            raise UsageError(f"Nothing can be committed: {error}.") from None
        self._repo = _open(folder)
        self.top = Path(os.path.realpath(str(self._repo.working_tree_dir)))
        checkout = Checkout(str(self.top), str(self._repo.git_dir), str(self._repo.common_dir))
        self._git = user_git(program, checkout, env)
        self._folder = Path(self._repo.git_dir)

    # Use git itself: GitPython reads refs as files, which not every repository has, and runs git unguarded.

    @property
    def has_no_commits(self) -> bool:
        """True if there is no commit yet."""
        return bool(self._run_quick("rev-parse", "--verify", "--quiet", "HEAD")[0])

    @property
    def branch(self) -> str:
        """The name of the branch; "" for a detached HEAD."""
        return os.fsdecode(self._run_quick("symbolic-ref", "--short", "--quiet", "HEAD")[1]).strip()

    def subjects(self, limit: int = 10) -> list[str]:
        """Return the subject lines of the latest commits."""
        done, out, _ = self._run_quick("log", "--no-show-signature", "--no-merges", f"-{limit}", "--format=%s")
        return [] if done else out.decode("utf-8", "replace").splitlines()

    def blob(self, commit: str, path: str) -> str | None:
        """Return the object ID of a file in a commit; None if the commit does not have it."""
        done, out, _ = self._run_quick("ls-tree", "-z", commit, "--", path)
        head = out.partition(b"\t")[0].split()
        return head[2].decode("ascii") if not done and len(head) == 3 else None

    def check(self) -> None:
        """Raise UsageError if no commit can be made now."""
        for name, what in _OPERATIONS.items():
            if (self._folder / name).exists():
                raise UsageError(f"{what} is under way: finish it with git, or abort it, before /commit.")
        done, _, error = self._run_quick("var", "GIT_AUTHOR_IDENT")
        if done:
            why = "" if "tell me who you are" in error or "empty ident" in error else f" ({_error_line(error)})"
            raise UsageError(
                f"git does not know who commits{why}: set it with git config --global user.name NAME and user.email."
            )

    def changes(self) -> list[FileStatus]:
        """Return all files that differ from the last commit, except ignored ones. Raises UsageError."""
        words = ("status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=all", _NO_SUBMODULES)
        found: dict[str, FileStatus] = {}
        for change in _changes(self._output_of(*words)):
            # A file whose deletion is staged, and which exists again, is listed twice.
            found[change.path] = change.replace(staged=True, unstaged=True) if change.path in found else change
        return list(found.values())

    def counts(self, changes: Sequence[FileStatus]) -> dict[str, tuple[int, int] | None]:
        """Return the lines added and removed, by path; None for binary files. Raises UsageError."""
        found: dict[str, tuple[int, int] | None] = {}
        for row in self._diff(changes, "--numstat", "-z").split(b"\0"):
            added, _, rest = row.partition(b"\t")
            removed, _, path = rest.partition(b"\t")
            if path:
                found[os.fsdecode(path)] = None if added == b"-" else (int(added), int(removed))
        return found

    def diff(self, change: FileStatus) -> str:
        """Return the diff of one file against the last commit. Raises UsageError."""
        return self._diff([change]).decode("utf-8", "replace")

    def hunks(self, change: FileStatus) -> list[str]:
        """Return the hunks of a file's diff against the last commit; none of a binary file. Raises UsageError."""
        return [hunk.decode("utf-8", "replace") for hunk in _split_patch(self._patch(change))[1]]

    def commit(
        self, changes: Sequence[FileStatus], message: str, *, hooks: bool, cancel: CancelToken
    ) -> tuple[str, str]:
        """Commit exactly these files as they are now; return the commit's short ID and subject.

        Raises UsageError, CancelledError.

        `git commit --only` leaves everything else staged, and its hooks see what is committed. New files are added to
        the index first, without their contents, and removed from it again on failure.
        """
        new = [c.path for c in changes if c.new]
        try:
            if new:
                self._output_of("add", "--intent-to-add", paths=new)
            self._commit(["--only"], [c.path for c in changes], message, hooks, cancel)
        except BaseException:  # on any error remove the new files from the index; the caller reports it
            if new:
                with suppress(UsageError, KeyboardInterrupt):
                    # Reset to the last commit: it may have been made before a later step was interrupted.
                    self._output_of("reset", "-q", paths=new)
            raise
        return self._last_commit()

    def commit_hunks(
        self, changes: Sequence[FileStatus], hunks: Mapping[str, Collection[int]], message: str, *, cancel: CancelToken
    ) -> tuple[str, str]:
        """Commit only these hunks of some of the files, and the other files whole; return ID and subject.

        Raises UsageError, CancelledError. What is left out stays in the working tree. The commit is made from an index
        of its own, so that everything else stays staged; hooks see it, as with `git commit --only`.
        """
        with tempfile.TemporaryDirectory() as folder:
            index, patch = os.path.join(folder, "index"), os.path.join(folder, "patch")
            self._output_of("read-tree", "HEAD", index=index)
            if whole := [c.path for c in changes if c.path not in hunks]:
                self._output_of("add", "--all", paths=whole, index=index)
            for change in changes:
                if (chosen := hunks.get(change.path)) is not None:
                    head, parts = _split_patch(self._patch(change))
                    content = head + b"".join(part for at, part in enumerate(parts) if at in chosen)
                    write_atomic(Path(patch), content, sync=False)
                    self._output_of("apply", "--cached", "--whitespace=nowarn", patch, index=index)
            self._commit([], (), message, True, cancel, index)
        self._output_of("reset", "-q", paths=[c.path for c in changes])
        return self._last_commit()

    def _commit(
        self, how: list[str], paths: Sequence[str], message: str, hooks: bool, cancel: CancelToken, index: str = ""
    ) -> None:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as text:
            text.write(message)
            text.flush()
            words = ["commit", *how, "--quiet", "--cleanup=whitespace", "-F", text.name]
            self._run([*words, *([] if hooks else ["--no-verify"])], paths, cancel, index=index)

    def _last_commit(self) -> tuple[str, str]:
        made = self._output_of("log", "--no-show-signature", "-1", "--format=%H %s").decode("utf-8", "replace").strip()
        return made[:10], made.partition(" ")[2]

    def lines(self, *words: str) -> list[str]:
        """Return what a quick git command prints; nothing if it fails."""
        done, out, _ = self._run_quick(*words)
        return [] if done else os.fsdecode(out).splitlines()

    def run_to_end(self, words: Sequence[str], seconds: float, nothing: str) -> None:
        """Run a git command that may run hooks. Raises UsageError. nothing: what git did if it fails."""
        self._run(words, (), CancelToken(), seconds, nothing)

    def _run(
        self,
        words: Sequence[str],
        paths: Iterable[str],
        cancel: CancelToken,
        seconds: float = _HOOKS_SECONDS,
        nothing: str = "git made no commit",
        index: str = "",
    ) -> None:
        """Run a git command that may run hooks."""
        listed = ["--pathspec-from-file=-", "--pathspec-file-nul"] if paths else []
        with _names(paths) as names:
            process = self._git.start(
                *words, *listed, stdin=names, stderr=subprocess.STDOUT,
                env=settings_as_variables(self._outside_submodules()) | ({"GIT_INDEX_FILE": index} if index else {}),
                # Without the terminal: prompts, such as for a key's passphrase, fail instead of waiting.
                start_new_session=True,
            )  # fmt: skip
            out, until = b"", time.monotonic() + seconds
            try:
                while True:
                    with suppress(subprocess.TimeoutExpired):
                        out = process.communicate(timeout=0.1)[0]
                        break
                    cancel.check()
                    if time.monotonic() > until:
                        raise UsageError(f"git, or a hook, took more than {seconds:,.0f} s; {nothing}.")
            except BaseException:  # also an interrupt: leave no git and no hook running; the caller reports it
                with suppress(OSError):
                    os.killpg(process.pid, signal.SIGTERM)
                process.wait()
                raise
        if process.returncode:
            message = out.decode("utf-8", "replace").strip() or f"it ended with {process.returncode}"
            raise UsageError(f"{nothing}; it, or a hook, said:\n{message}")

    def _outside_submodules(self) -> dict[str, str]:
        """Return settings that keep `git commit`, which shows a status if nothing changed, out of submodules."""
        found = {"diff.ignoreSubmodules": "dirty"}
        for source in ("--file=.gitmodules", "--blob=:.gitmodules", "--blob=HEAD:.gitmodules"):
            names = self._run_quick("config", source, "-z", "--name-only", "--get-regexp", r"^submodule\.")[1]
            keys = os.fsdecode(names).split("\0")
            found |= {f"submodule.{m[1]}.ignore": "dirty" for key in keys if (m := _SUBMODULE_NAME.fullmatch(key))}
        return found

    def _patch(self, change: FileStatus) -> bytes:
        """Return a file's diff in the form that `git apply` reads, whatever the user's settings are."""
        return self._diff([change], "--src-prefix=a/", "--dst-prefix=b/")

    def _diff(self, changes: Sequence[FileStatus], *how: str) -> bytes:
        """Return git's diff of these files against the last commit, by a copy of the index that has the new files."""
        with tempfile.TemporaryDirectory() as folder:
            index = os.path.join(folder, "index")
            with suppress(FileNotFoundError):
                Path(index).write_bytes(read_regular(self._folder / "index", _MAX_INDEX_BYTES))
            if new := [c.path for c in changes if c.new]:
                self._output_of("add", "--intent-to-add", paths=new, index=index)
            base = (
                self._output_of("hash-object", "-t", "tree", os.devnull).decode().strip()
                if self.has_no_commits
                else "HEAD"
            )
            quiet = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", _NO_SUBMODULES)
            parts = [
                self._output_of("diff", *quiet, *how, base, "--", *(c.path for c in some), index=index)
                for some in (changes[at : at + _PATHS_PER_DIFF] for at in range(0, len(changes), _PATHS_PER_DIFF))
            ]
        return b"".join(parts)

    def _output_of(self, *words: str, paths: Collection[str] = (), index: str = "") -> bytes:
        done, out, message = self._run_quick(*words, paths=paths, index=index)
        if done:
            raise UsageError(f"git {words[0]} failed: {_error_line(message) or done}.")
        return out

    def _run_quick(self, *words: str, paths: Collection[str] = (), index: str = "") -> tuple[int, bytes, str]:
        """Run a quick git command; return its exit code, output and error output."""
        env = {"GIT_INDEX_FILE": index or str(self._folder / "index"), "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        listed = ["--pathspec-from-file=-", "--pathspec-file-nul"] if paths else []
        try:
            process = self._git.start(*words, *listed, env=env)
            named = b"\0".join(map(os.fsencode, paths))
            out, message = collect(process, named, _GIT_SECONDS, MAX_OUTPUT_BYTES, self._git.stuck())
        except (GitError, StuckError) as error:
            raise UsageError(f"{error}.") from None
        except TimeoutError:
            raise UsageError(f"git {words[0]} took too long.") from None
        except OverflowError:
            raise UsageError(f"git {words[0]} printed more than {MAX_OUTPUT_BYTES:,} bytes.") from None
        return process.returncode, out, message.decode("utf-8", "replace")


def _open(folder: Path) -> Repo:
    # When it is imported, GitPython runs the git that the first variable names; afterwards it could run any.
    with _without_git_variables({"GIT_PYTHON_GIT_EXECUTABLE": os.devnull, "GIT_PYTHON_REFRESH": "quiet"}):
        import git

        git.Git.GIT_PYTHON_GIT_EXECUTABLE = os.devnull
        try:
            repo = git.Repo(folder, search_parent_directories=True, expand_vars=False)
        except (git.InvalidGitRepositoryError, git.NoSuchPathError):
            raise UsageError("There is nothing to commit to: this folder is not in a git repository.") from None
        except (git.GitError, OSError, ValueError) as error:
            raise UsageError(f"The repository cannot be used: {error}.") from None
    if repo.working_tree_dir is None:
        raise UsageError("There is nothing to commit: the repository is a bare one, without files.")
    return repo


@contextmanager
def _without_git_variables(others: Mapping[str, str]) -> Iterator[None]:
    """Hide git's variables from GitPython, which would use another repository; set some others for it."""
    names = {name for name in os.environ if name.startswith("GIT_")} | others.keys()
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    os.environ.update(others)
    try:
        yield
    finally:
        for name in others:
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _names(paths: Iterable[str]) -> Iterator[IO[bytes]]:
    """Provide a file with the paths, as standard input for git."""
    with tempfile.TemporaryFile() as file:
        file.write(b"\0".join(map(os.fsencode, paths)))
        file.seek(0)
        yield file


def _split_patch(patch: bytes) -> tuple[bytes, list[bytes]]:
    """Return the head of a file's patch, and its hunks."""
    head, *hunks = re.split(rb"^(?=@@ )", patch, flags=re.MULTILINE)
    return head, hunks


def _changes(out: bytes) -> Iterator[FileStatus]:
    for row in filter(None, os.fsdecode(out).split("\0")):
        kind, _, rest = row.partition(" ")
        if kind == "?" and not rest.endswith("/"):
            yield FileStatus(rest, new=True)
        elif kind == "1":
            state, module, *_, path = rest.split(" ", 7)
            yield FileStatus(path, state[0] != ".", state[1] != ".", module=module[0] == "S")
        elif kind == "u":
            yield FileStatus(rest.split(" ", 9)[-1], True, True, unmerged=True)


def _error_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1].removeprefix("fatal: ").removeprefix("error: ").rstrip(".")

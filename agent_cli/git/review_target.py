"""Determine what `agent review` reviews: uncommitted changes, a branch against its base, a commit or a range."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_cli.git.patch import snapshot
from agent_cli.kernel.run_environment import UsageError
from agent_cli.policy.git_use import NoRepositoryError, NotUsableError, Use, git_to_review
from agent_tools.fs.safe_files import read_text
from agent_tools.process.guarded_git import GitError
from agent_tools.record import Value
from agent_tools.text import one_line

_DIFF_COMMAND = ("diff", "--no-color", "--find-renames", "--unified=5", "--src-prefix=a/", "--dst-prefix=b/")
_MAX_EVENT_BYTES = 8 << 20
# Names of the target branch that CI systems set for a pull or merge request.
_BASE_VARIABLES = (
    "GITHUB_BASE_REF",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME",
    "CHANGE_TARGET",
    "BITBUCKET_PR_DESTINATION_BRANCH",
)
_DEFAULT_BASES = ("origin/HEAD", "main", "master")


class ReviewTarget(Value):
    """A change to review.

    title: a description.
    diff: as git prints it.
    commit: the commit that comments are attached to; "" for uncommitted changes.
    notes: for the user.
    elsewhere: the files in the work tree are not those of the change.
    """

    title: str
    diff: str
    commit: str = ""
    notes: tuple[str, ...] = ()
    elsewhere: bool = False

    @staticmethod
    def find(
        root: Path, use: Use, env: Mapping[str, str], *, base: str = "", commit: str = "", span: str = "",
        uncommitted: bool = False,
    ) -> ReviewTarget:  # fmt: skip
        """Return the change to review. Raises UsageError, which says what to fetch if commits are missing.

        base, commit, span, uncommitted: one of these; without, it is chosen from the state of the repository.
        span: a range of commits.
        """
        if sum(map(bool, (base, commit, span, uncommitted))) > 1:
            raise UsageError("Name one thing to review: --base, --commit, --range or --uncommitted.")
        try:
            git = _Git(root, use)
            if commit:
                return _of_commit(git, commit)
            if span:
                return _of_range(git, span)
            base = "" if uncommitted else base or next((env[n] for n in _BASE_VARIABLES if env.get(n)), "")
            if base:
                return _of_base(git, base, env)
            if uncommitted or git.is_dirty():
                return _uncommitted(git)
            default = next((name for name in _DEFAULT_BASES if git.commit(name)), "")
            if not default or git.commit(default) == git.commit("HEAD"):
                raise UsageError(
                    "There is nothing to review: no uncommitted changes. Name a base: agent review --base REF"
                )
            return _of_base(git, default, env)
        except NoRepositoryError:
            raise UsageError(
                f"agent review compares commits and files in git, and {root} is no git repository."
            ) from None
        except NotUsableError as error:
            raise UsageError(
                f"agent review needs a git repository that it may use: {one_line(str(error))}. "
                "--trust trusts it for this run; with actions/checkout, persist-credentials: false leaves nothing to "
                "trust."
            ) from None
        except (GitError, OSError) as error:
            raise UsageError(f"agent review: {one_line(str(error))}.") from None


class _Git:
    """Reads the repository."""

    def __init__(self, root: Path, use: Use) -> None:
        self.root, self.use = root, use
        self._run = git_to_review(root, os.environ, use)

    def text(self, *words: str) -> str:
        return self._run.run(*words).decode("utf-8", "replace")

    def line(self, *words: str) -> str:
        """Return the one line that git prints; "" if it fails."""
        try:
            return self.text(*words).strip()
        except GitError:
            return ""

    def commit(self, name: str) -> str:
        """Return the ID of a commit; "" if it is not in the repository."""
        return self.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")

    def is_dirty(self) -> bool:
        return bool(self.line("status", "--porcelain", "--untracked-files=normal"))

    def diff(self, before: str, after: str) -> str:
        return self.text(*_DIFF_COMMAND, before, after, "--")

    @property
    def shallow(self) -> bool:
        return self.line("rev-parse", "--is-shallow-repository") == "true"


def _uncommitted(git: _Git) -> ReviewTarget:
    head = git.commit("HEAD") or git.text("hash-object", "-t", "tree", os.devnull).strip()
    return ReviewTarget("uncommitted changes", git.diff(head, snapshot(git.root, git.use)))


def _of_base(git: _Git, base: str, env: Mapping[str, str]) -> ReviewTarget:
    start = _resolve_commit(git, base, (base, f"origin/{base}", f"upstream/{base}"))
    head = git.commit("HEAD")
    if not head:
        raise UsageError("There is nothing to compare with a base: the repository has no commit yet.")
    left = git.line("merge-base", start, head)
    if not left:
        why = f"HEAD and {base} have no commit in common"
        raise UsageError(f"{why}, as the checkout is shallow: {_FETCH_ADVICE}" if git.shallow else f"{why}.")
    dirty = git.is_dirty()
    after = snapshot(git.root, git.use) if dirty else head
    notes = ["Uncommitted changes are also reviewed."] if dirty else []
    commit, more = _pull_request_head(head, env)
    return ReviewTarget(f"{base}...HEAD", git.diff(left, after), commit, (*notes, *more))


_FETCH_ADVICE = (
    "git fetch --unshallow origin, fetch-depth: 0 with actions/checkout, or GIT_DEPTH: 0 in GitLab has all commits."
)


def _of_commit(git: _Git, name: str) -> ReviewTarget:
    commit = _resolve_commit(git, name, (name,))
    parent = git.commit(f"{commit}^")
    # At the start of a shallow history, the parent of a commit is missing.
    if not parent and git.shallow and _has_parents(git, commit):
        raise UsageError(f"The parent of {name} is not here, as the checkout is shallow: {_FETCH_ADVICE}")
    before = parent or git.text("hash-object", "-t", "tree", os.devnull).strip()
    elsewhere = commit != git.commit("HEAD") or git.is_dirty()
    title = f"commit {commit[:10]}: {git.line('log', '-1', '--format=%s', commit)}"
    return ReviewTarget(title, git.diff(before, commit), commit, _checkout_note(elsewhere, commit), elsewhere)


def _has_parents(git: _Git, commit: str) -> bool:
    head = git.text("cat-file", "commit", commit).partition("\n\n")[0]
    return any(line.startswith("parent ") for line in head.splitlines())


def _of_range(git: _Git, text: str) -> ReviewTarget:
    three = "..." in text
    first, _, last = text.partition("..." if three else "..")
    if not first or ".." not in text:
        raise UsageError(f"--range {text}: write it as A..B, or A...B for what B has since it left A.")
    start, end = (_resolve_commit(git, name, (name, f"origin/{name}")) for name in (first, last or "HEAD"))
    if three:
        start = git.line("merge-base", start, end)
        if not start:
            raise UsageError(f"{first} and {last} have no commit in common here{_shallow(git)}.")
    elsewhere = end != git.commit("HEAD") or git.is_dirty()
    return ReviewTarget(text, git.diff(start, end), end, _checkout_note(elsewhere, end), elsewhere)


def _shallow(git: _Git) -> str:
    return f", as the checkout is shallow: {_FETCH_ADVICE}".rstrip(".") if git.shallow else ""


def _checkout_note(elsewhere: bool, commit: str) -> tuple[str, ...]:
    if not elsewhere:
        return ()
    return (f"The files here do not belong to {commit[:10]}, so the review reads other versions around the diff.",)


def _resolve_commit(git: _Git, name: str, spellings: tuple[str, ...]) -> str:
    """Return the ID of the commit that the first valid spelling names. Raises UsageError."""
    commits: Iterator[str] = filter(None, map(git.commit, spellings))
    if commit := next(commits, ""):
        return commit
    how = f"git fetch origin {name}:refs/remotes/origin/{name}" if git.line("remote") else "check its spelling"
    raise UsageError(f"{name} is not in this repository{' (a shallow one)' if git.shallow else ''}: {how}.")


def _pull_request_head(head: str, env: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the commit that comments of a pull request belong to, and a note if another one is checked out."""
    event = pull_request_event(env)
    wanted = event.get("head", {}).get("sha") or env.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or head
    if wanted == head:
        return head, ()
    return wanted, (
        f"The checkout is {head[:10]}, not the head of the pull request ({wanted[:10]}), so lines may be off: "
        "check out github.event.pull_request.head.sha.",
    )


def pull_request_event(env: Mapping[str, str]) -> dict[str, Any]:
    """Return the pull request of GitHub's event file; empty if there is none."""
    try:
        event = json.loads(read_text(Path(env["GITHUB_EVENT_PATH"]), _MAX_EVENT_BYTES))
        found = event.get("pull_request")
    except (KeyError, OSError, ValueError, AttributeError):
        return {}
    return found if isinstance(found, dict) else {}

"""Push the branch of a repository, and open a pull request with `gh`: what would happen, and doing it.

Like a commit, both run as the user would run them, and only once the user has approved exactly what is shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from agent_cli.git.repository import Repository
from agent_cli.kernel.run_environment import UsageError
from agent_tools.process.child import run_child
from agent_tools.record import Value
from agent_tools.text import one_line, shorten

_MAX_COMMITS = 50
_PUSH_SECONDS, _GH_SECONDS = 300.0, 120.0
_URL = re.compile(r"https://\S+")
# A password in the address of a remote.
_CREDENTIALS = re.compile(r"(?<=://)[^/@]*@")


class PushPlan(Value):
    """A push of the current branch to the branch of the same name.

    url: of the remote, without credentials. head: the commit. there: the commit that the remote is known to have; "" if
    the branch is new there. commits: what is pushed, newest first. base: default branch of the remote, as far as known.
    """

    remote: str
    url: str
    branch: str
    head: str
    there: str
    commits: tuple[str, ...] = ()
    base: str = ""

    @classmethod
    def of(cls, repo: Repository) -> PushPlan:
        """Return what a push of the current branch would do. Raises UsageError if there is nothing to push to."""
        branch = repo.branch
        if not branch or repo.has_no_commits:
            raise UsageError("There is no branch to push: HEAD is detached, or has no commit.")
        remotes = repo.lines("remote")
        if not remotes:
            raise UsageError("This repository has no remote to push to.")
        chosen = [*repo.lines("config", "--get", f"branch.{branch}.remote"), "origin", *remotes]
        remote = next(name for name in chosen if name in remotes)
        [head] = repo.lines("rev-parse", "HEAD")
        there = "".join(repo.lines("rev-parse", "--verify", "--quiet", f"refs/remotes/{remote}/{branch}"))
        known = [there] if there else [f"--remotes={remote}"]
        log = ("log", "--no-show-signature", f"-{_MAX_COMMITS}", "--format=%h %s", "HEAD", "--not", *known)
        default = "".join(repo.lines("symbolic-ref", "--quiet", "--short", f"refs/remotes/{remote}/HEAD"))
        url = _CREDENTIALS.sub("", "".join(repo.lines("remote", "get-url", "--push", remote)[:1]))
        return cls(remote, url, branch, head, there, tuple(repo.lines(*log)), default.removeprefix(f"{remote}/"))

    def push(self, repo: Repository) -> None:
        """Push as planned, never by force. Raises UsageError."""
        words = ("push", "--set-upstream", self.remote, f"{self.head}:refs/heads/{self.branch}")
        repo.run_to_end(words, _PUSH_SECONDS, "git pushed nothing")

    def open_pull_request(self, repo: Repository, title: str, body: str, env: Mapping[str, str]) -> str:
        """Open a pull request for the pushed branch; return its address. Raises UsageError."""
        command = [find_gh(env, repo.top), "pr", "create", "--head", self.branch, "--title", title, "--body-file", "-"]
        command += ["--base", self.base] if self.base else []
        quiet = {**env, "GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1"}
        try:
            done = run_child(command, seconds=_GH_SECONDS, memory=None, cwd=repo.top, env=quiet, feed=body.encode())
        except (OSError, OverflowError) as error:
            raise UsageError(f"gh cannot be run: {error}.") from None
        except TimeoutError:
            raise UsageError(f"gh took longer than {_GH_SECONDS:.0f} s.") from None
        out = done.out.decode("utf-8", "replace")
        if done.code:
            said = done.err.decode("utf-8", "replace").strip() or out.strip()
            raise UsageError(f"gh opened no pull request: {shorten(one_line(said), 400)}")
        found = _URL.findall(out)
        return found[-1] if found else one_line(out)


def find_gh(env: Mapping[str, str], top: Path) -> str:
    """Return GitHub's `gh`, never one of the repository. Raises UsageError."""
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        inside = Path(folder) == top or top in Path(folder).parents
        if folder.startswith("/") and not inside and os.access(f"{folder}/gh", os.X_OK):
            return f"{folder}/gh"
    raise UsageError("GitHub's gh is not installed: https://cli.github.com")

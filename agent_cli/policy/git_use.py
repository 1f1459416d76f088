"""Run git on the user's repository for reads of this program: inspected each time, and used as its trust allows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

from agent_cli.policy.git_inspection import RepositoryFindings, describe_entry, inspect_repository, may_start_in_reads
from agent_tools.fs.safe_files import read_regular
from agent_tools.process.guarded_git import Checkout, GitError, GitRun, checked_git, find_git, without_filters

# trusted: by the user. plain: nothing in it needed trust when the session began. unknown: neither.
Use = Literal["trusted", "plain", "unknown"]
_MAX_INDEX_BYTES = 512 << 20
_GITLINK = b"\0\0\xe0\0"


class NotUsableError(Exception):
    """Git may not be used on a repository; the message says why."""


class NoRepositoryError(NotUsableError):
    """There is no repository that git could use."""


def git_to_read(root: Path, env: Mapping[str, str], use: Use, *, locks: bool = False) -> GitRun:
    """Return a git for the repository at `root` that starts nothing untrusted. Raises NotUsableError, GitError."""
    return _git_of(usable(root, use).checkout, env, use, locks=locks)


def git_to_review(root: Path, env: Mapping[str, str], use: Use, *, locks: bool = False) -> GitRun:
    """Return a git for reads that the user explicitly requested, like `git_to_read`.

    The workspace need not be trusted if its git folder has nothing that a hardened read would start or follow. (In a CI
    job it has the credentials for the server.) Raises NotUsableError or GitError.
    """
    found = inspect_repository(root)
    if use != "trusted" and (why := started(found, use)):
        raise NotUsableError(f"the workspace is not trusted, and its .git contains {_key(why)}")
    return _git_of(found.checkout, env, use, locks=locks)


def _git_of(checkout: Checkout | None, env: Mapping[str, str], use: Use, *, locks: bool) -> GitRun:
    if checkout is None or not os.path.lexists(os.path.join(checkout.folder, "HEAD")):
        raise NoRepositoryError("there is no git repository")
    run = checked_git(find_git(env.get("PATH", os.defpath), checkout.root), checkout, env, locks=locks)
    return run if use == "trusted" else run.with_settings(settings_without_filters(checkout, env))


def usable(root: Path, use: Use) -> RepositoryFindings:
    """Inspect a repository and check that git may be used on it now. Raises NotUsableError."""
    if use == "unknown":
        raise NotUsableError("the workspace is not trusted")
    found = inspect_repository(root)
    if use == "plain" and found.needs_trust:
        raise NotUsableError(f"the workspace is not trusted, and its .git contains {_key(found.needs_trust[0])}")
    return found


def _key(phrase: str) -> str:
    """Return the key of an entry: its value may be a secret."""
    return phrase.partition(" = ")[0]


def settings_without_filters(checkout: Checkout, env: Mapping[str, str]) -> dict[str, str]:
    """Return settings that disable the filters of the user's own configuration. Raises GitError."""
    program = find_git(env.get("PATH", os.defpath), checkout.root)
    return _off(program, checkout, *(env.get(name, "") for name in ("HOME", "XDG_CONFIG_HOME")))


@lru_cache(maxsize=64)
def _off(program: str, checkout: Checkout, home: str, config: str) -> dict[str, str]:
    """Ask git once: later changes of the user's own configuration are the user's responsibility."""
    return without_filters(checked_git(program, checkout, {"HOME": home, "XDG_CONFIG_HOME": config}))


def started(found: RepositoryFindings, use: Use) -> str:
    """Return what a hardened read would still start or follow in the repository's files; "" for nothing."""
    if found.odd and use != "trusted":
        return found.odd[0]
    odd = next(((key, value) for key, value in found.entries if may_start_in_reads(key)), None)
    return "" if odd is None else describe_entry(odd)


def submodule_programs(root: Path, checkout: Checkout | None, env: Mapping[str, str], depth: int = 0) -> str:
    """Return what a status or diff of the work tree would start in submodules; "" for nothing."""
    if checkout is None or not _may_have_gitlinks(Path(checkout.folder)):
        return ""
    if depth > 8:
        return f"submodules of submodules without end below {root}"
    try:
        run = checked_git(find_git(env.get("PATH", os.defpath), str(root)), checkout, env)
        rows = run.run("ls-files", "-s", "-z", seconds=2.0).split(b"\0")
    except GitError as error:
        return f"submodules that cannot be listed: {error}"
    for row in rows:
        if row.startswith(b"160000 "):
            inner = root / os.fsdecode(row.partition(b"\t")[2])
            if not os.path.lexists(inner / ".git"):
                continue
            if Path(os.path.realpath(inner)) != inner:
                return f"{inner}, a submodule behind a link"
            found = inspect_repository(inner)
            if why := "".join(found.needs_trust[:1]) or submodule_programs(inner, found.checkout, env, depth + 1):
                return f"{why} in the submodule {os.path.relpath(inner, root)}"
    return ""


def _may_have_gitlinks(folder: Path) -> bool:
    """Return True if an index may contain a submodule: modes are stored uncompressed in all index versions."""
    try:
        data = read_regular(folder / "index", _MAX_INDEX_BYTES)
        # A split or sparse index does not contain all entries.
        return _GITLINK in data or b"link\0" in data or b"sdir\0" in data
    except FileNotFoundError:
        return False
    except OSError:
        return True

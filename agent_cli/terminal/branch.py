"""The branch that a folder is on, read from git's own files."""

from __future__ import annotations

from pathlib import Path

_HEAD, _LINK = "ref: refs/heads/", "gitdir:"


def branch_of(folder: Path) -> str:
    """The branch, the beginning of the commit where there is none, or nothing outside of a repository."""
    for place in (folder, *folder.parents):
        git = place / ".git"
        try:
            if git.is_file():
                link = git.read_text("utf-8", "replace").strip()
                git = place / link.removeprefix(_LINK).strip()
            head = (git / "HEAD").read_text("utf-8", "replace").strip()
        except OSError:
            continue
        return head.removeprefix(_HEAD) if head.startswith(_HEAD) else head[:8]
    return ""

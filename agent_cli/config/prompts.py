"""The prompt files, and what is known of a folder without starting a program: its repository and branch."""

from __future__ import annotations

import os
from pathlib import Path

from agent_tools.fs.safe_read import read_regular, read_text

_PACKAGE = Path(__file__).resolve().parent.parent
_GIT_LIMIT = 4096
_LARGEST = 1 << 20


def prompt(name: str) -> str:
    """Return the text of a prompt file such as "system" or "tools/Read", without outer blank lines.

    A checkout's live `prompts/` comes first, then the copy in the wheel. Raises FileNotFoundError.
    """
    return read_text(prompt_folder() / f"{name}.md", _LARGEST).strip()


def prompt_folder() -> Path:
    """Return the directory of the prompt files: a checkout's own, else that of the wheel."""
    live = _PACKAGE.parent / "prompts"
    return live if (live / "system.md").is_file() else _PACKAGE / "_prompts"


def git_branch(root: Path) -> str:
    """Return the branch in HEAD, read without starting git; "" if there is none, or its name is invalid."""
    git = root / ".git"
    try:
        if os.path.isfile(git):  # noqa: PTH113 - the method raises where a parent is closed
            pointer = read_regular(git, _GIT_LIMIT).decode("utf-8", "replace").strip().removeprefix("gitdir:").strip()
            git = root / pointer
        head = read_regular(git / "HEAD", _GIT_LIMIT).decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        return ""
    if not head.startswith("ref: "):
        return f"detached at {head[:12]}" if set(head) <= set("0123456789abcdef") and head else ""
    name = head.removeprefix("ref: refs/heads/")
    return name if name.isprintable() and len(name) <= 250 and not set(" ~^:?*[\\") & set(name) else ""


def workspace_root(cwd: Path, home: Path | None) -> Path:
    """Return the repository that contains `cwd`, or `cwd` itself. The search stops below HOME and below `/`."""
    for folder in (cwd, *cwd.parents):
        if folder == home or folder == Path(folder.anchor):
            break
        if os.path.exists(folder / ".git"):  # noqa: PTH110
            return folder
    return cwd


def current_folder() -> Path:
    """Return the working directory with links resolved. Raises FileNotFoundError if it was deleted."""
    return Path(os.path.realpath(Path.cwd()))

"""Check that a program name means the usual program, and that a variable does not change programs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from agent_cli.permissions.git.use import Use
from agent_cli.permissions.shell.scope import MEANINGFUL
from agent_tools.fs.workspace import Workspace
from agent_tools.shell.env import CALM

# Exported variables that may change what a read-only program does.
_POISON = re.compile(
    r"LD_\w*|DYLD_\w*|BASH_\w*|ENV|IFS|PS4|CDPATH|GLOBIGNORE|GIT_\w*|\w*PAGER|\w*EDITOR|VISUAL|PYTHON\w*|NODE_\w*|PERL\w*|"
    r"RUBY\w*|LESS\w*|RIPGREP_CONFIG_PATH|GREP_OPTIONS|LOCPATH|GCONV_PATH|MALLOC_\w*|TMPDIR|HOME|XDG_CONFIG_HOME|"
    r"POSIXLY_CORRECT|TAR_OPTIONS|GLIBC_\w*|NLSPATH|MAGIC|\w*_proxy|\w*_PROXY"
)


class CommandContext(NamedTuple):
    """Context for evaluating a command line, apart from the rules.

    carried: variables that earlier commands exported.
    git_use: how git may be used in the workspace.
    exported: names of the variables that commands start with.
    env: those of them that the user's git needs.
    """

    workspace: Workspace
    home: str
    mode: str
    path: str
    carried: Mapping[str, str]
    git_use: Use = "trusted"
    exported: frozenset[str] = frozenset()
    env: Mapping[str, str] = {}


def changes_commands(name: str, around: CommandContext) -> bool:
    """Return True if setting a shell variable may change what bash or a program does."""
    exported = name in around.exported or name in around.carried or name in CALM
    return exported or bool(MEANINGFUL.fullmatch(name) or _POISON.fullmatch(name))


def tainted_variable(around: CommandContext) -> str:
    """Return a variable that an earlier command exported and that may change what programs do; "" for none."""
    return next((n for n in around.carried if _POISON.fullmatch(n)), "")


def program_changed(name: str, around: CommandContext) -> str:
    """Return why a program name may not mean the usual program; "" if it does."""
    if "/" in name:
        return "" if re.fullmatch(r"(?:/usr)?/bin/[^/]+", name) else "a program by its path"
    usual = _which(name, around.path)
    if "PATH" in around.carried and _which(name, around.carried["PATH"]) != usual:
        return f"an earlier command changed PATH, and {name} is another program now"
    if usual and not usual.startswith("/"):
        return f"PATH has a folder that is not absolute, where {name} may be another program"
    if usual and around.workspace.inside(Path(usual)):
        return f"{name} is {usual}, a file of the workspace"
    return ""


def _which(name: str, path: str) -> str:
    """Return the absolute file that a program name means; a relative directory if one precedes it; "" for none."""
    for folder in path.split(os.pathsep):
        if not folder.startswith("/"):
            return folder or "."
        file = f"{folder}/{name}"
        if os.access(file, os.X_OK) and os.path.isfile(file):  # noqa: PTH113 - the method raises where a parent is closed
            return os.path.realpath(file)
    return ""


def repository(folder: Path) -> Path | None:
    """Return the repository that git would find from a directory; None if there is none."""
    return next((p for p in (folder, *folder.parents) if os.path.lexists(p / ".git")), None)

"""Which programs a repository's own git configuration would have git run, read without starting git.

Only that is looked for; the values of everything else are skipped. A pointer file (`.git` of a worktree or submodule)
is followed to its folder and to the common one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from agent_tools.regular import read_regular

LIMIT = 1 << 18
# Keys whose values git runs, or that bring in another file of such keys; section names and keys are case-insensitive.
_RUNS = re.compile(
    r"core\.(fsmonitor|hookspath|pager|editor|sshcommand|askpass|gitproxy|attributesfile)"
    r"|include(if)?\b.*\.path|pager\..*|credential\b.*\.helper|sequence\.editor|gpg\b.*\.program"
    r"|(diff|difftool|mergetool|merge|filter|trailer|remote)\..*"
    r"\.(textconv|command|driver|cmd|path|clean|smudge|process|uploadpack|receivepack|vcs)"
    r"|diff\.external|interactive\.difffilter",
    re.IGNORECASE,
)
# Keys whose values are run only where they begin with an exclamation mark.
_MAY_RUN = re.compile(r"alias\..*|submodule\..*\.update", re.IGNORECASE)
_HARMLESS = ("", "true", "false", "yes", "no", "on", "off", "0", "1")


def programs(root: Path) -> tuple[str, ...]:
    """`key = value` for each key of the repository at `root` that names a program, in order; () where there is none."""
    found: list[str] = []
    for folder in git_folders(root):
        for name in ("config", "config.worktree"):
            try:
                text = read_regular(folder / name, LIMIT).decode("utf-8", "replace")
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                found.append(f"{name} that cannot be checked: {error}")
                continue
            found += [f"{key} = {value}" for key, value in _entries(text) if _is_program(key, value)]
    return tuple(dict.fromkeys(found))


def git_folders(root: Path) -> list[Path]:
    """The folders whose configuration git would read for the repository at `root`."""
    git = root / ".git"
    if not os.path.isfile(git):  # noqa: PTH113 - the method raises where a parent is closed
        return [git]
    folder = _pointed(git, "gitdir:", root)
    if folder is None:
        return []
    common = _pointed(folder / "commondir", "", folder)
    return [folder] if common is None or common == folder else [common, folder]


def _pointed(file: Path, prefix: str, base: Path) -> Path | None:
    """The folder that a one-line file names."""
    try:
        text = read_regular(file, 4096).decode("utf-8", "replace").strip()
        return Path(os.path.realpath(base / text.removeprefix(prefix).strip())) if text.startswith(prefix) else None
    except (OSError, ValueError):
        return None


def _is_program(key: str, value: str) -> bool:
    value = value.strip().strip('"')
    if _MAY_RUN.fullmatch(key):
        return value.startswith("!")
    # `core.fsmonitor = true` is git's own daemon, and other switches name nothing to run either.
    return _RUNS.fullmatch(key) is not None and value.lower() not in _HARMLESS


def _entries(text: str) -> list[tuple[str, str]]:
    """Keys with their section, and values as written; a line that cannot be read is left out."""
    section = ""
    found = []
    for line in re.sub(r"\\\r?\n", "", text).splitlines():
        line = line.strip()
        if head := re.match(r'\[\s*([\w.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]', line):
            section = f"{head[1]}.{head[2]}" if head[2] is not None else head[1]
            line = line[head.end() :].strip()
        if entry := re.match(r"([A-Za-z][\w-]*)\s*(?:=\s*(.*))?$", line):
            found.append((f"{section}.{entry[1]}", entry[2] or ""))
    return found

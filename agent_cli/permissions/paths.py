"""Paths that always need approval: files that control this program, git, the shell or CI, and likely secrets.

Names are compared case-folded and without trailing dots and blanks, as some file systems do not distinguish them. The
files need not exist.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from agent_tools.lazy import lazy_imports

with lazy_imports():
    from agent_tools.fs import protected_names

# "own": this program's settings and state, and .git, which no rule allows. "steering": files of other programs.
Kind = Literal["", "own", "steering", "ci"]
# Files and directories protected by location, with any name: the path, and the values of `protected`.
Places = Sequence[tuple[Path, Kind, str]]
_CI_FILES = frozenset(
    (".gitlab-ci.yml", ".travis.yml", "jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml")
)
_CI_FOLDERS = ((".github", "workflows"), (".github", "actions"), (".circleci",), (".buildkite",), (".gitlab",))
_SECRET = (
    r"\.env.*|\.?env\.local|.+\.env|id_(?:rsa|dsa|ecdsa|ed25519)\w*|.+\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk)"
    r"|credentials?(?:\.\w+)?|secrets?\.(?:json|ya?ml|toml|ini|env|txt)|\.netrc|_netrc|\.npmrc|\.pypirc|\.git-credentials"
    r"|\.pgpass|\.my\.cnf|\.htpasswd|\.dockercfg|kubeconfig|service[-_]account.*\.json|client_secret.*\.json"
    r"|application_default_credentials\.json|\.vault-token|\.boto|\.s3cfg|token(?:s)?\.(?:json|txt)"
)
_SECRET_FOLDERS = (".ssh", ".gnupg", ".aws", ".kube", ".docker", ".azure", ".password-store")
_SHOWN = r".*\.(?:example|sample|template|dist|pub|md|rst)"


@cache
def _names() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Compile on first use: a run without tools needs neither, and a search checks thousands of files."""
    return re.compile(_SHOWN), re.compile(_SECRET)


def _folded(path: Path) -> list[str]:
    return [part.casefold().rstrip(". ") for part in path.parts]


@cache
def _tails() -> Mapping[str, Sequence[tuple[tuple[str, ...], Kind]]]:
    """Return `protected_names` as case-folded components, by the first of them."""
    found: dict[str, list[tuple[tuple[str, ...], Kind]]] = {}
    own = {*protected_names.plain_names(protected_names.OWN), ".git"}
    for name in dict.fromkeys(
        protected_names.plain_names(
            (*protected_names.OWN, *protected_names.PROJECT, *protected_names.PERSONAL, *protected_names.ANYWHERE)
        )
    ):
        parts = tuple(name.casefold().split("/"))
        found.setdefault(parts[0], []).append((parts, "own" if name in own else "steering"))
    return found


@cache
def _of_machine() -> tuple[Path, ...]:
    return tuple(map(Path, protected_names.plain_names(protected_names.SYSTEM)))


def find_places(
    roots: Sequence[Path], home: Path | None, env: Mapping[str, str], state: Path | None
) -> tuple[tuple[Path, Kind, str], ...]:
    """Return the places protected by location, in addition to the names that `protected` knows.

    roots: directories of the workspace.
    state: directory of this program's own state.
    """
    own = protected_names.plain_names(protected_names.OWN)
    found: list[tuple[Path, Kind, str]] = []
    if state is not None:
        found.append((Path(os.path.realpath(state)), "own", "it is this program's own state"))
    for path, name in protected_names.protected_places(roots, home, env):
        kind: Kind = "own" if name in own else "steering"
        found.append((path, kind, f"{name} leads to it"))
    return tuple(found)


def protected(path: Path, places: Places = (), roots: Sequence[Path] = ()) -> tuple[Kind, str]:
    """Return why a write to this resolved path always needs approval, as a kind and in words; "" if it does not.

    places: see `find_places`.
    roots: directories of the workspace, which may be worktrees in our own state directory.
    """
    parts = _folded(path)
    if not parts:
        return "", ""
    name, folders = parts[-1], parts[:-1]
    if any(re.fullmatch(r"head|config|objects|refs", name) and f.endswith(".git") for f in folders[-1:]):
        return "own", "it is inside .git" if folders[-1] == ".git" else "it is inside a git folder"
    if name.startswith(".agentrc"):
        return "own", "it holds this program's settings"
    named = [found for n, part in enumerate(parts) for found in _tails().get(part, ()) if _starts(parts, n, found[0])]
    if named:
        tail, kind = min(named, key=lambda found: found[1] != "own")
        inside = parts[-len(tail) :] != list(tail)
        return kind, f"it is inside {'/'.join(tail)}" if inside else _what(tail, kind)
    if name in _CI_FILES or any(_inside(folders, folder) for folder in _CI_FOLDERS):
        return "ci", "it says what CI runs"
    if any(path.is_relative_to(place) for place in _of_machine()):
        return "steering", "it steers the programs of this machine"
    for place, kind, what in places:
        if path.is_relative_to(place) and not any(
            root.is_relative_to(place) and path.is_relative_to(root) for root in roots
        ):
            return kind, what
    return "", ""


def holds_protected(folder: Path, home: Path | None) -> bool:
    """Return True if a directory contains protected places of the home directory, as ~/.config does."""
    if home is None or not (folder == home or folder.is_relative_to(home)):
        return False
    return any((home / name).is_relative_to(folder) for name in protected_names.plain_names(protected_names.PERSONAL))


def _starts(parts: Sequence[str], at: int, tail: tuple[str, ...]) -> bool:
    return tuple(parts[at : at + len(tail)]) == tail


def _what(tail: tuple[str, ...], kind: Kind) -> str:
    if tail == (".git",):
        return "it is a repository's git folder"
    return "it holds this program's settings" if kind == "own" else "it steers other programs"


def _inside(folders: list[str], wanted: tuple[str, ...]) -> bool:
    size = len(wanted)
    return any(tuple(folders[n : n + size]) == wanted for n in range(len(folders)))


def secret(path: Path) -> bool:
    """Return True if a file's name suggests keys or passwords: .env, id_rsa, credentials.json."""
    parts = _folded(path)
    shown, hidden = _names()
    if not parts or shown.fullmatch(parts[-1]):
        return False
    return bool(hidden.fullmatch(parts[-1])) or any(f in _SECRET_FOLDERS for f in parts[:-1])

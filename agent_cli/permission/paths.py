"""Paths that are never waved through: what steers this program, git, the shell or CI, and what looks like a secret.

Names are compared case-folded and without trailing dots and blanks, because some file systems do not tell them apart.
It does not matter whether the file exists.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal

# "own": this program's settings and the insides of .git, which no rule opens. "steering": other programs' settings.
Kind = Literal["", "own", "steering", "ci"]
_OWN_FOLDERS = (".agent", ".claude")
_STEERING_FOLDERS = (".ssh", ".gnupg", ".vscode", ".idea", ".zed", ".husky", ".devcontainer")
_STEERING_FILES = frozenset(
    ".bashrc .bash_profile .bash_login .bash_logout .profile .zshrc .zprofile .zshenv .zlogin .kshrc .cshrc .tcshrc "
    ".inputrc .gitconfig .gitmodules .gitattributes .npmrc .yarnrc .yarnrc.yml .pypirc .envrc .pre-commit-config.yaml "
    ".netrc .ripgreprc .pdbrc .gdbinit .lldbinit .vimrc .exrc .nvimrc .tmux.conf .xinitrc .xprofile".split()
)
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
    """Compiled on first use, as a run without tools needs neither; a search asks about thousands of files."""
    return re.compile(_SHOWN), re.compile(_SECRET)


def _folded(path: Path) -> list[str]:
    return [part.casefold().rstrip(". ") for part in path.parts]


def protected(path: Path) -> tuple[Kind, str]:
    """Why a write to this resolved path is never waved through, as a kind and in words; "" where it may be."""
    parts = _folded(path)
    if not parts:
        return "", ""
    name, folders = parts[-1], parts[:-1]
    if ".git" in parts:
        return "own", "it is inside .git"
    if any(re.fullmatch(r"head|config|objects|refs", name) and f.endswith(".git") for f in folders[-1:]):
        return "own", "it is inside a git folder"
    if name.startswith(".agentrc") or name == ".mcp.json":
        return "own", "it holds this program's settings"
    if folder := next((f for f in parts if f in _OWN_FOLDERS), ""):
        return "own", f"it is inside {folder}"
    if folder := next((f for f in parts if f in _STEERING_FOLDERS), ""):
        return "steering", f"it is inside {folder}"
    if name in _STEERING_FILES:
        return "steering", "it steers other programs"
    if name in _CI_FILES or any(_inside(folders, folder) for folder in _CI_FOLDERS):
        return "ci", "it says what CI runs"
    return "", ""


def _inside(folders: list[str], wanted: tuple[str, ...]) -> bool:
    size = len(wanted)
    return any(tuple(folders[n : n + size]) == wanted for n in range(len(folders)))


def secret(path: Path) -> bool:
    """Whether a file's name says that it holds keys or passwords: .env, id_rsa, credentials.json."""
    parts = _folded(path)
    shown, hidden = _names()
    if not parts or shown.fullmatch(parts[-1]):
        return False
    return bool(hidden.fullmatch(parts[-1])) or any(f in _SECRET_FOLDERS for f in parts[:-1])

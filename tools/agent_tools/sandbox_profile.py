"""What a command in the sandbox may touch, and what it may not see.

Everything can be read but the secret places. Written can be the directories of the workspace, without the parts of
them that run something or decide what may run: those are protected whether they exist or not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from agent_tools.sandbox_git import git_directories
from agent_tools.values import Value

# Beside these, what `sandbox_git` knows of a repository. CI workflows are not among them: they take effect only once
# they are pushed, and a checkout of another branch must be able to change them.
PROTECTED = (".agentrc", ".agentrc.local", ".agent", ".claude", ".mcp.json", ".vscode", ".idea")
# In the home folder, where it is part of what can be written.
PERSONAL = tuple(
    ".agentrc .ssh .bash_aliases .bash_login .bash_logout .bash_profile .bashrc .claude.json .gitconfig .inputrc .kshrc"
    " .login .mkshrc .pam_environment .profile .tcshrc .xinitrc .xprofile .xsession .xsessionrc .zlogin .zlogout"
    " .zprofile .zshenv .zshrc .config/autostart .config/environment.d .config/fish .config/git .config/systemd"
    " .local/share/systemd".split()
)
SECRET = tuple(
    ".ssh .gnupg .aws .azure .kube .netrc .npmrc .pypirc .pgpass .my.cnf .s3cfg .vault-token .git-credentials"
    " .password-store .mozilla .thunderbird .1password .fly .terraform.d/credentials.tfrc.json .docker/config.json"
    " .cargo/credentials .cargo/credentials.toml .gem/credentials .m2/settings-security.xml .claude/.credentials.json"
    " .codex/auth.json .gemini/oauth_creds.json .local/share/keyrings .local/share/kwalletd .local/share/gh"
    " .bash_history .zsh_history .python_history .psql_history .mysql_history .node_repl_history".split()
)
SECRET_CONFIG = tuple(
    "1Password BraveSoftware Bitwarden chromium doctl gcloud gh git/credentials glab-cli google-chrome heroku hub"
    " microsoft-edge op opera rclone vivaldi".split()
)
SYSTEM = ("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/ssl/private")


class Profile(Value):
    """What a command may touch. Every path is absolute and resolved.

    writable: directories. protected: paths inside them that stay as they are, there or not; personal: such paths in the
    home folder. hidden: what cannot be seen. shown: what is seen though it lies below /tmp. temp: a private directory
    in place of /tmp; None: an empty one for each command. network: whether it may be used.
    """

    writable: tuple[Path, ...]
    protected: tuple[Path, ...] = ()
    personal: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()
    temp: Path | None = None
    network: bool = False


def make_profile(
    roots: Iterable[Path],
    home: Path | None,
    *,
    extra: Iterable[Path] = (),
    secret: Iterable[Path] = (),
    temp: Path | None = None,
    network: bool = False,
) -> Profile:
    """The profile for a workspace as it stands now.

    roots: its directories. extra: more directories that may be written, with nothing protected in them but the secret
    places. secret: further places to hide, such as our own state.
    """
    roots = tuple(dict.fromkeys(_real(r) for r in roots))
    writable = [*roots, *(_real(e) for e in extra if os.path.isdir(e))]  # noqa: PTH112 - Path.is_dir may raise
    protected: list[Path] = []
    for root in roots:
        more, parts = git_directories(root)
        writable += more
        protected += [*parts, *(root / name for name in PROTECTED)]
    hidden = [*secret_places(home), *(_real(s) for s in secret)]
    personal = [home_real / name for name in PERSONAL if (home_real := _real(home))] if home else []
    open_ = set(writable)
    return Profile(
        tuple(dict.fromkeys(writable)),
        tuple(p for p in dict.fromkeys(protected) if p not in open_),
        tuple(p for p in personal if p not in open_ and any(p.is_relative_to(w) for w in writable)),
        tuple(h for h in dict.fromkeys(hidden) if h not in open_ and os.path.lexists(h)),
        tuple(_real(s) for s in (home, Path(sys.prefix), Path(__file__).parent) if s),
        _real(temp) if temp else None,
        network,
    )


def secret_places(home: Path | None) -> list[Path]:
    """The files and directories of keys and passwords that are there and could be read."""
    places = [Path(p) for p in SYSTEM]
    if home is not None:
        configs = {home / ".config", Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")}
        places += [*(home / name for name in SECRET), *(c / name for c in configs for name in SECRET_CONFIG)]
    if os.path.isdir("/etc/ssh"):  # noqa: PTH112
        places += [Path(e.path) for e in os.scandir("/etc/ssh") if e.name.endswith("_key")]
    return [_real(p) for p in places if os.access(p, os.R_OK)]


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))

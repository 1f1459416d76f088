"""Names of files that run code or decide what may run: one list for permissions and for the sandbox.

A name that ends in a slash is a directory. Plain instructions for an agent (`AGENTS.md`, `.cursorrules`,
`.github/copilot-instructions.md`) are not listed: they grant nothing, start nothing, and are edited like any text.
Neither are files that a user runs by hand (`Makefile`, `package.json`): those are the project's own code.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

# Settings of this program, and those of Claude Code, which it reads.
AGENT_NAMES = ".agent/ .agents/ .claude/ .agentrc .agentrc.local .mcp.json .claude.json".split()
# Configuration that another agent applies when it starts in the folder: servers, hooks, permissions, commands.
_AGENTS = (
    ".codex/ .gemini/ .qwen/ .opencode/ opencode.json opencode.jsonc .cursor/ .windsurf/ .roo/ .roomodes .cline/ "
    ".kimi/ .kiro/ .amazonq/ .continue/ .copilot/ .augment/ .junie/ .trae/ .factory/ .vibe/ .crush/ .crush.json "
    "crush.json .goose/ .aider.conf.yml"
).split()
# Configuration that an editor runs when it opens the folder: tasks, debuggers, containers, interpreters.
_EDITORS = ".vscode/ .idea/ .zed/ .fleet/ .devcontainer/ .devcontainer.json".split()
# Protected at the root of a project. The files of husky are git hooks.
PROJECT_NAMES = (*AGENT_NAMES[:-1], *_AGENTS, *_EDITORS, ".husky/")

# Read by a shell when it starts or ends; ksh, mksh and dash read the file that ENV names.
_SHELLS = (
    ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .bash_completion .profile .inputrc "
    ".zshrc .zprofile .zshenv .zlogin .zlogout .config/zsh/ "
    ".kshrc .mkshrc .shrc .shinit .dashrc .yashrc .yash_profile .cshrc .tcshrc .login .logout .cshdirs "
    ".config/fish/ .config/nushell/ .config/elvish/ .elvish/ .xonshrc .config/xonsh/ .config/powershell/ "
    ".config/murex/ .config/bash/ .config/direnv/"
).split()
# Read when a session of the desktop or the machine starts.
_SESSION = (
    ".pam_environment .xinitrc .xprofile .xsession .xsessionrc .xserverrc .config/autostart/ .config/environment.d/ "
    ".config/systemd/ .config/plasma-workspace/ .local/share/systemd/ Library/LaunchAgents/"
).split()
_HOME_AGENTS = (
    ".config/opencode/ .config/goose/ .config/crush/ .config/amp/ .config/github-copilot/ .config/kilo/ .config/zed/ "
    ".codeium/ .aws/amazonq/"
).split()
_HOME_EDITORS = (
    ".config/Code/User/ .config/VSCodium/User/ .config/Cursor/User/ .config/Windsurf/User/ .vscode-server/ "
    ".vim/ .config/nvim/ .config/vim/ .emacs .emacs.d/ .config/emacs/ .config/helix/ .config/kak/ .config/micro/"
).split()
_TOOLS = ".ssh/ .gnupg/ .gitconfig .config/git/".split()
# Protected in a home folder.
HOME_NAMES = (
    *(".agentrc", ".claude.json"), *_SHELLS, *_SESSION, *_HOME_AGENTS, *_HOME_EDITORS, *_TOOLS
)  # fmt: skip
# Run code, or decide what may run, in any folder. The sandbox does not protect these: programs write them for good
# reasons (`npm config`, a checkout), and some take effect only after another confirmation (direnv, pre-commit).
ANY_FOLDER_NAMES = (
    ".gitmodules .gitattributes .npmrc .yarnrc .yarnrc.yml .pypirc .envrc .pre-commit-config.yaml .netrc .ripgreprc "
    ".pdbrc .gdbinit .lldbinit .vimrc .gvimrc .exrc .nvimrc .nvim.lua .dir-locals.el .tmux.conf .screenrc .lesskey "
    ".mise.toml mise.toml .cargo/config.toml .cargo/config profile.ps1 Microsoft.PowerShell_profile.ps1 "
    "Microsoft.VSCode_profile.ps1 .github/hooks/ .git/ .hg/ lefthook.yml lefthook.yaml .lefthook.yml .lefthook.yaml "
    ".mise/config.toml mise/config.toml .config/mise.toml .config/mise/config.toml .Rprofile .octaverc .irbrc .pryrc"
).split()
# What CI runs.
CI_FILES = frozenset(
    ".gitlab-ci.yml .travis.yml jenkinsfile azure-pipelines.yml azure-pipelines.yaml bitbucket-pipelines.yml "
    "appveyor.yml .appveyor.yml .cirrus.yml .cirrus.star .drone.yml .drone.yaml .drone.star .drone.jsonnet "
    ".woodpecker.yml .woodpecker.yaml buildspec.yml buildspec.yaml cloudbuild.yml cloudbuild.yaml wercker.yml "
    "codefresh.yml .vsts-ci.yml".split()
)
CI_FOLDERS = (
    (".github", "workflows"), (".github", "actions"), (".gitea", "workflows"), (".forgejo", "workflows"),
    (".circleci",), (".buildkite",), (".gitlab",), (".woodpecker",), (".semaphore",), (".tekton",),
    (".azure-pipelines",),
)  # fmt: skip
# Of the whole machine, relative to the root.
SYSTEM_PATHS = tuple(
    f"/etc/{name}" for name in (
        "profile profile.d/ bash.bashrc bashrc bash.bash_logout zsh/ zshrc zshenv zprofile zlogin zlogout fish/ "
        "ksh.kshrc mkshrc csh.cshrc csh.login csh.logout environment inputrc gitconfig sudoers sudoers.d/ crontab "
        "cron.d/ cron.daily/ cron.hourly/ cron.weekly/ cron.monthly/ ld.so.preload xonsh/ elvish/ powershell/ "
        "systemd/ init.d/ xdg/autostart/"
    ).split()
)  # fmt: skip
# Variables that name such a file, or a directory of such files. Only absolute paths count.
_PATH_VARIABLES = (
    "ENV BASH_ENV ZDOTDIR INPUTRC XONSHRC XONSH_CONFIG_DIR GIT_CONFIG_GLOBAL RIPGREP_CONFIG_PATH "
    "CODEX_HOME CLAUDE_CONFIG_DIR OPENCODE_CONFIG OPENCODE_CONFIG_DIR GEMINI_CLI_HOME"
).split()
# Last parts of the names that are directories.
DIRECTORY_NAMES = frozenset(
    name.rstrip("/").rpartition("/")[2]
    for name in (*PROJECT_NAMES, *HOME_NAMES, *ANY_FOLDER_NAMES)
    if name.endswith("/")
)

# A placeholder's content where git reads `commondir` if it exists: a dot has the same effect as no file.
COMMONDIR_PLACEHOLDER = b".\n"


@cache
def short_names() -> Mapping[str, str]:
    """Map the 8.3 names of Windows, without their number, to the hidden protected names."""
    names = (*PROJECT_NAMES, *HOME_NAMES, *ANY_FOLDER_NAMES)
    hidden = {name.partition("/")[0].casefold() for name in names if name[0] == "."}
    return {re.sub(r"[^a-z0-9_]", "", name[1:].partition(".")[0])[:6]: name for name in sorted(hidden)}


def plain_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names without the trailing slash of directories."""
    return tuple([name.rstrip("/") for name in names])


def is_placeholder(status: os.stat_result) -> bool:
    """Return True if a file looks like a placeholder, which the sandbox puts where a name of git's is missing while a
    command runs. The sticky bit has no effect there and is otherwise unset.
    """
    mode, size = status.st_mode, status.st_size
    return stat.S_ISSOCK(mode) or (
        is_sealed(mode) and (stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and size in (0, len(COMMONDIR_PLACEHOLDER))))
    )


def is_sealed(mode: int) -> bool:
    """Return True for the permissions of a placeholder."""
    return mode & 0o1222 == 0o1000


def has_leftover(path: Path | str) -> bool:
    """Return True if a protected path is what an older version put there while a command ran, and left behind when it
    was killed: a sealed empty directory, or a socket.
    """
    with suppress(OSError):
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            return is_sealed(mode) and not os.listdir(path)  # noqa: PTH208 - text, not paths
        return stat.S_ISSOCK(mode) and mode & 0o7177 == 0
    return False


def protected_places(roots: Iterable[Path], home: Path | None, env: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield protected paths that no name reveals, each with the variable or link that leads there.

    roots: directories of the workspace. The paths are resolved and need not exist.
    """
    for name in _PATH_VARIABLES:
        # Skip the home folder as a whole: its files are protected by name.
        if (value := env.get(name, "")).startswith("/") and Path(value) != home:
            yield Path(os.path.realpath(value)), name
    for variable, prefix in (("XDG_CONFIG_HOME", ".config/"), ("XDG_DATA_HOME", ".local/share/")):
        if (value := env.get(variable, "")).startswith("/"):
            for name in plain_names(HOME_NAMES):
                if name.startswith(prefix):
                    yield Path(os.path.realpath(f"{value}/{name.removeprefix(prefix)}")), variable
    bases = [(root, plain_names(PROJECT_NAMES)) for root in roots]
    for base, names in [*bases, *([(home, plain_names((*HOME_NAMES, *PROJECT_NAMES)))] if home is not None else [])]:
        real = os.path.realpath(base)
        modes: dict[str, int] = {}
        for name in names:
            if _through_link(real, name, modes):
                yield Path(os.path.realpath(f"{real}/{name}")), name


def _through_link(base: str, name: str, modes: dict[str, int]) -> bool:
    """Return True if a part of the path is a link. modes: of the paths looked at so far; 0 if there is nothing."""
    path = base
    for part in name.split("/"):
        path = f"{path}/{part}"
        mode = modes.get(path)
        if mode is None:
            try:
                mode = os.lstat(path).st_mode
            except OSError:
                mode = 0
            modes[path] = mode
        if not mode or stat.S_ISLNK(mode):
            return bool(mode)
    return False

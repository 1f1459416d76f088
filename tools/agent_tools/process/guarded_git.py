"""Prepare and start git processes: on which repository, with which configuration and limits.

A repository may name programs in its configuration, attributes and hooks, and may point git elsewhere. So each run is
created by one of these functions:

- `isolated_git`: reads no repository and no configuration.
- `user_settings_git`: reads the user's own configuration, and no repository.
- `store_git`: a git folder of this program; reads no configuration of the user or the repository.
- `checked_git`: the user's repository as inspected (`Checkout`); its folder and work tree are fixed, and nothing is
started except, if it is trusted, its configured filters.
- `fetching_git`: fetches into an empty git folder of this program, with the user's logins and proxies.
- `user_git`: a commit that the user requested, as their own git would make it, hooks included.

Their environments are built from lists, never inherited: no variable of the caller redirects git or has a key.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_tools.fs.safe_files import find_obstacle, known_obstacle
from agent_tools.process.child import MAX_MEMORY_BYTES, BriefChild, StuckError, collect, limit_memory, start_child
from agent_tools.record import Value
from agent_tools.secret_patterns import without_secrets

if TYPE_CHECKING:
    import subprocess

GIT_SECONDS = 60.0
MAX_OUTPUT_BYTES = 256 << 20
# Settings that would start a program, access the network or enter another repository. These override the repository's
# own configuration, and are passed on to a git that git starts.
SAFE_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.editor": "false",
    "core.sshCommand": "false",
    "core.askPass": "false",
    "core.attributesFile": "/dev/null",
    "core.alternateRefsCommand": "false",
    "core.untrackedCache": "false",
    "safe.bareRepository": "explicit",
    "protocol.allow": "never",
    "credential.helper": "",
    "log.showSignature": "false",
    # A log format configured in the repository may show signatures.
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "diff.autoRefreshIndex": "false",
    "diff.submodule": "short",
    "diff.ignoreSubmodules": "all",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "stash.showPatch": "false",
    "stash.showIncludeUntracked": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_READ_ONLY_ENV = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    # Versions that do not know that variable would fetch missing objects of a partial clone.
    "GIT_ALLOW_PROTOCOL": "none",
}
_NON_INTERACTIVE = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "false", "GIT_EDITOR": "false"}
_NO_CONFIG = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1"}
_NO_PROGRAMS = ("--no-ext-diff", "--no-textconv")
_NO_SUBMODULES = "--ignore-submodules=all"
# For behaviour without a setting, or with one that files of the repository override.
_OPTIONS = {
    "blame": ("--no-textconv",),
    "diff": (*_NO_PROGRAMS, _NO_SUBMODULES),
    "diff-files": (*_NO_PROGRAMS, _NO_SUBMODULES),
    "diff-index": (*_NO_PROGRAMS, _NO_SUBMODULES),
    "diff-tree": (*_NO_PROGRAMS, _NO_SUBMODULES),
    "log": _NO_PROGRAMS,
    "show": _NO_PROGRAMS,
    "status": (_NO_SUBMODULES,),
    "grep": ("--no-textconv", "--no-recurse-submodules"),
}
# What git, hooks and filters of the user get for a commit. Of GIT_* only who commits, and the user's configuration.
_COMMIT_VARIABLES = frozenset((
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "EMAIL", "CI", "NO_COLOR",
    "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "GPG_TTY", "GNUPGHOME", "DISPLAY", "WAYLAND_DISPLAY",
    "DBUS_SESSION_BUS_ADDRESS", "SUDO_UID", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY",
    "ALL_PROXY", "NO_PROXY", "VIRTUAL_ENV", "PYTHONPATH", "PYENV_ROOT", "PYENV_VERSION", "POETRY_HOME", "PIPX_HOME",
    "NODE_PATH", "NODE_ENV", "NPM_CONFIG_PREFIX", "PNPM_HOME", "BUN_INSTALL", "DENO_DIR", "GEM_HOME", "GEM_PATH",
    "BUNDLE_PATH", "RBENV_ROOT", "RBENV_VERSION", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "GOPATH", "GOROOT",
    "GOBIN", "GOFLAGS", "GOPROXY", "JAVA_HOME", "GRADLE_USER_HOME", "MAVEN_HOME", "M2_HOME", "ANDROID_HOME",
    "DOTNET_ROOT", "PRE_COMMIT_HOME", "PRE_COMMIT_COLOR", "SKIP", "HUSKY", "LEFTHOOK", "LEFTHOOK_EXCLUDE",
    "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_DATE", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
))  # fmt: skip
_COMMIT_PREFIXES = ("LC_", "XDG_", "CONDA_", "NVM_", "FNM_", "VOLTA_", "ASDF_", "MISE_", "SDKMAN_", "UV_", "NIX_")


class GitError(Exception):
    """Git could not be started, timed out or failed; the message says why. code: exit code; 0 if it did not end."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class Checkout(Value):
    """A repository as inspected: resolved paths of its work tree, its git folder and the common git folder."""

    root: str
    folder: str
    common: str

    @property
    def variables(self) -> dict[str, str]:
        """Return variables that make git use exactly these folders, whatever is in them or above."""
        found = {"GIT_DIR": self.folder, "GIT_WORK_TREE": self.root}
        # A folder above may be a repository that was not inspected.
        found["GIT_CEILING_DIRECTORIES"] = os.path.dirname(self.root)  # noqa: PTH120
        if self.common != self.folder:
            found["GIT_COMMON_DIR"] = self.common
        return found


class GitRun:
    """How to start git.

    program: absolute path.
    cwd: working directory.
    env: all of its variables.
    settings: configuration that overrides all other.
    memory: limit in bytes; None if it runs programs of the user.
    """

    def __init__(
        self,
        program: str,
        cwd: str,
        env: Mapping[str, str],
        settings: Mapping[str, str] | None = None,
        memory: int | None = MAX_MEMORY_BYTES,
    ) -> None:
        self.program, self.cwd, self.env = program, cwd, dict(env)
        self._settings = dict(settings or {})
        self.memory = memory

    def with_settings(self, settings: Mapping[str, str]) -> GitRun:
        """Return a copy with more settings."""
        return GitRun(self.program, self.cwd, self.env, self._settings | dict(settings), self.memory)

    def on_work_tree(self, root: str) -> GitRun:
        """Return a copy that works on the files of another folder."""
        return GitRun(self.program, root, {**self.env, "GIT_WORK_TREE": root}, self._settings, self.memory)

    def argv(self, *words: str) -> list[str]:
        """Return the command line. An option of git (`--literal-pathspecs`) may precede the subcommand."""
        before = [word for word in words[:1] if word.startswith("-")]
        name, rest = words[len(before) : len(before) + 1], words[len(before) + 1 :]
        if not self._settings:
            return [self.program, *before, *name, *rest]
        options = _OPTIONS.get("".join(name), ())
        given = [part for key, value in self._settings.items() for part in ("-c", f"{key}={value}")]
        return [self.program, "--no-pager", *given, *before, *name, *options, *rest]

    def tree(self, env: Mapping[str, str] | None = None) -> str:
        """Return the work tree whose files git may open; "" for none."""
        tree = {**self.env, **(env or {})}.get("GIT_WORK_TREE", "")
        return "" if tree == "/" else tree

    def stuck(self, env: Mapping[str, str] | None = None) -> Callable[[], str] | None:
        """Return a function that tells why git may be stuck, or None."""
        tree = self.tree(env)
        return (lambda: find_obstacle(tree)) if tree else None

    def start(
        self, *words: str, cwd: str = "", env: Mapping[str, str] | None = None, **popen_options: Any
    ) -> subprocess.Popen[bytes]:
        """Start git in its own process group. env: additional variables. Raises GitError."""
        import subprocess  # 3 ms; most runs start no git

        if why := known_obstacle(self.tree(env)):
            raise GitError(why)
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        try:
            # In its own group: Ctrl-C cancels the turn, and git finishes its operation.
            return start_child(
                self.argv(*words),
                cwd=cwd or self.cwd,
                env={**self.env, **(env or {})},
                memory=self.memory,
                **(pipes | popen_options),
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise GitError(f"git cannot be started in {cwd or self.cwd}: {reason}") from None

    def start_brief(self, *words: str, cwd: str = "", env: Mapping[str, str] | None = None) -> BriefChild:
        """Start a git that ends soon and reads no input, at less cost than `start`. Raises GitError."""
        if why := known_obstacle(self.tree(env)):
            raise GitError(why)
        program, *rest = self.argv(*words)
        try:
            process = BriefChild([program, "-C", cwd or self.cwd, *rest], {**self.env, **(env or {})})
        except OSError as error:
            raise GitError(f"git cannot be started: {error.strerror or error}") from None
        if self.memory is not None:
            limit_memory(process.pid, self.memory)
        return process

    def run(
        self, *words: str, feed: bytes = b"", cwd: str = "", seconds: float = GIT_SECONDS, most: int = MAX_OUTPUT_BYTES,
        env: Mapping[str, str] | None = None, ok_codes: Collection[int] = (0,), brief: bool = False,
    ) -> bytes:  # fmt: skip
        """Run git and return its output. Raises GitError, also beyond `most` bytes.

        ok_codes: exit codes that mean success. brief: it ends soon, and has no input; see `start_brief`.
        """
        subcommand = next((word for word in words if not word.startswith("-")), "git")
        process = self.start_brief(*words, cwd=cwd, env=env) if brief else self.start(*words, cwd=cwd, env=env)
        try:
            out, err = collect(process, feed, seconds, most, self.stuck(env))
        except StuckError as error:
            raise GitError(str(error)) from None
        except TimeoutError:
            raise GitError(f"git {subcommand} took more than {seconds:.3g} s") from None
        except OverflowError:
            raise GitError(f"git {subcommand} printed more than {most:,} bytes") from None
        if process.returncode not in ok_codes:
            error_lines = err.decode("utf-8", "replace").strip().splitlines()
            last = next(
                (line for line in error_lines if line.startswith("fatal: ")), error_lines[-1] if error_lines else ""
            )
            why = last.removeprefix("fatal: ") or f"git {subcommand} failed"
            raise GitError(why, process.returncode or 0)
        return out


def find_git(path: str, root: str) -> str:
    """Find git in the absolute folders of `path` outside the project. Raises GitError."""
    for folder in path.split(os.pathsep):
        file = os.path.join(folder, "git")
        inside = os.path.realpath(file).startswith(f"{root.rstrip('/')}/")
        if folder.startswith("/") and not inside and os.access(file, os.X_OK) and os.path.isfile(file):  # noqa: PTH113
            return file
    raise GitError("git is not installed")


def isolated_git(program: str) -> GitRun:
    """Return a git that reads no repository and no configuration."""
    return GitRun(
        program,
        "/",
        {"PATH": os.defpath, "HOME": "/nonexistent", "GIT_DIR": "/dev/null"} | _NON_INTERACTIVE | _NO_CONFIG,
    )


def user_settings_git(program: str, env: Mapping[str, str]) -> GitRun:
    """Return a git that reads the user's own configuration, and no repository."""
    found = isolated_git(program)
    own = {name: value for name, value in found.env.items() if name not in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM")}
    return GitRun(program, found.cwd, own | {name: env[name] for name in ("HOME", "XDG_CONFIG_HOME") if env.get(name)})


def store_git(program: str, folder: str, objects: Sequence[str] = ()) -> GitRun:
    """Return a git for a folder of this program. objects: folders of objects that need not be stored again."""
    env = {"PATH": os.defpath, "HOME": "/nonexistent", "GIT_DIR": folder, "GIT_LITERAL_PATHSPECS": "1"}
    env |= {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_REPLACE_OBJECTS": "1"}
    env |= _NON_INTERACTIVE | _NO_CONFIG
    if objects:
        env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = os.pathsep.join(map(_quote_path, objects))
    return GitRun(program, "/", env)


# Variables for the user's logins and proxies.
_FETCH_VARIABLES = (
    "PATH", "HOME", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
)  # fmt: skip
_FETCH_SETTING_NAMES = (
    "core.fsmonitor", "core.hooksPath", "core.askPass", "core.attributesFile", "gc.auto", "maintenance.auto",
    "fetch.recurseSubmodules",
)  # fmt: skip
_FETCH_SETTINGS = {name: SAFE_SETTINGS[name] for name in _FETCH_SETTING_NAMES} | {
    "transfer.fsckObjects": "true",
    "protocol.ext.allow": "never",
}


def fetching_git(program: str, folder: str, env: Mapping[str, str]) -> GitRun:
    """Return a git that may fetch into a git folder of this program, without hooks, filters or questions."""
    found = {name: env[name] for name in _FETCH_VARIABLES if env.get(name)}
    found |= {"GIT_DIR": folder, "GIT_ALLOW_PROTOCOL": "https:ssh:git:file", "GIT_ATTR_NOSYSTEM": "1"}
    found["GIT_SSH_COMMAND"] = "ssh -oBatchMode=yes"
    return GitRun(program, folder, found | _NON_INTERACTIVE, _FETCH_SETTINGS, memory=None)


def checked_git(program: str, checkout: Checkout, env: Mapping[str, str], *, locks: bool = False) -> GitRun:
    """Return a git for the user's repository as inspected; configured filters run (see `without_filters`).

    env: the user's environment, for PATH and the location of settings. locks: it may change the repository.
    """
    names = ("HOME", "XDG_CONFIG_HOME", "SUDO_UID")
    found = (
        {name: env[name] for name in names if env.get(name)} | _NON_INTERACTIVE | _READ_ONLY_ENV | checkout.variables
    )
    # A relative folder would be relative to the repository.
    found["PATH"] = os.pathsep.join(p for p in env.get("PATH", os.defpath).split(os.pathsep) if p.startswith("/"))
    found["GIT_OPTIONAL_LOCKS"] = "1" if locks else "0"
    return GitRun(program, checkout.root, found, SAFE_SETTINGS)


def without_filters(run: GitRun) -> dict[str, str]:
    """Return settings that disable all configured filters. Raises GitError."""
    from_git = run.run("config", "--list", "-z", "--name-only", seconds=5.0, brief=True).decode(
        "utf-8", "surrogateescape"
    )
    found: dict[str, str] = {}
    for key in from_git.split("\0"):
        if key.startswith("filter.") and key.count(".") >= 2:
            name = key.rpartition(".")[0]
            found |= {f"{name}.{part}": "" for part in ("clean", "smudge", "process")} | {f"{name}.required": "false"}
    if odd := next((key for key in found if "=" in key or "\n" in key), ""):
        raise GitError(f"the filter {odd} cannot be disabled")
    return found


def settings_as_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings as variables, for a git that another program starts."""
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def hardened_variables(root: str, checkout: Checkout | None, off: Mapping[str, str]) -> dict[str, str]:
    """Return variables that restrict git in a command to the inspected repository. off: see `without_filters`."""
    fixed = checkout.variables if checkout is not None else {"GIT_CEILING_DIRECTORIES": os.path.dirname(root)}  # noqa: PTH120
    return {**_READ_ONLY_ENV, **fixed, **settings_as_variables(SAFE_SETTINGS | dict(off))}


def user_git(program: str, checkout: Checkout, env: Mapping[str, str]) -> GitRun:
    """Return a git for a commit that the user requested, with configured hooks and programs.

    env: the user's environment. What is neither listed above nor free of secrets is not handed on.
    """
    found = {k: v for k, v in env.items() if k in _COMMIT_VARIABLES or k.startswith(_COMMIT_PREFIXES)}
    fixed = {"GIT_DIR": checkout.folder, "GIT_WORK_TREE": checkout.root, "GIT_LITERAL_PATHSPECS": "1"}
    fixed |= {"GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "false"}
    return GitRun(program, checkout.root, without_secrets(found) | fixed, memory=None)


def _quote_path(path: str) -> str:
    if os.pathsep not in path and not path.startswith('"') and "\n" not in path:
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

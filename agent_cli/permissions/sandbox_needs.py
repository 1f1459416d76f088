"""Determine what a command line needs that the sandbox does not provide, so that it must run outside.

This is decided by programs and subcommands that use the network, and by the files that operands name. Anything else
fails inside the sandbox, with a message that tells the model how to ask.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from agent_cli.core.rules import read_rule, rule_for
from agent_cli.permissions.command_rules import for_part
from agent_cli.permissions.effects.lookup import effects_of
from agent_cli.permissions.operands import resolve_operand
from agent_cli.permissions.options import Touch
from agent_cli.permissions.shell.words import Analysis, SimpleCommand, Word
from agent_tools.fs.safe_files import read_regular
from agent_tools.fs.workspace import Workspace
from agent_tools.sandbox.conditions import Confined
from agent_tools.sandbox.profile import Profile, host_matches

_ALWAYS = frozenset(
    "curl wget http https xh ssh scp sftp rsync ftp nc ncat netcat socat telnet ping dig host nslookup whois "
    "traceroute gh glab hub docker podman kubectl helm aws gcloud az terraform pulumi ansible ansible-playbook "
    "apt apt-get apk dnf yum pacman brew snap flatpak npx pnpx bunx uvx pipx".split()
)
_SUBCOMMANDS = {
    "git": "push pull fetch clone ls-remote lfs",
    "npm": "install i ci add update audit outdated publish view info search login exec create init",
    "pnpm": "install i add update dlx publish audit outdated create",
    "yarn": "install add up upgrade dlx publish audit create",
    "bun": "install add update x create publish",
    "pip": "install download index search",
    "pip3": "install download index search",
    "uv": "sync add pip lock tool publish python",
    "poetry": "install add update lock publish",
    "pdm": "install add update lock sync publish",
    "hatch": "env publish",
    "cargo": "install fetch update add search publish",
    "go": "get install mod download",
    "gem": "install update fetch push",
    "bundle": "install update add",
    "composer": "install update require",
    "mvn": "deploy dependency:resolve dependency:go-offline",
    "gradle": "publish",
    "dotnet": "restore add publish",
    "mix": "deps.get deps.update",
    "conda": "install create update search",
    "mamba": "install create update search",
}
# Subcommands whose downloads are often cached already.
_BUILDS = {
    "cargo": "build test run check clippy doc bench",
    "go": "build test run vet generate",
    "hatch": "run test",
    "uv": "run",
    "mvn": "install package test verify compile",
    "gradle": "build test assemble check",
    "gradlew": "build test assemble check",
    "dotnet": "build test run",
    "mix": "test compile",
}
_KNOWN = {name: frozenset(words.split()) for name, words in _SUBCOMMANDS.items()}
_MAYBE = {name: frozenset(words.split()) for name, words in _BUILDS.items()}
# Default hosts of package managers.
_REGISTRIES = {
    "pip pip3 uv uvx poetry pdm pipx": ("pypi.org", "files.pythonhosted.org"),
    "npm npx pnpm pnpx bun bunx": ("registry.npmjs.org",),
    "yarn": ("registry.yarnpkg.com",),
    "cargo": ("index.crates.io", "static.crates.io"),
    "go": ("proxy.golang.org", "sum.golang.org"),
    "gem bundle": ("rubygems.org",),
    "composer": ("repo.packagist.org",),
    "mvn": ("repo.maven.apache.org",),
}
_HOSTS = {name: hosts for names, hosts in _REGISTRIES.items() for name in names.split()}
_URL = re.compile(r"https?://(?:[^/@\s]*@)?([^/:\s]+)", re.I)
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "[::1]", "::1"))


def uses_network(part: SimpleCommand) -> bool:
    """Return True if a command uses the network, certainly or possibly: `curl`, `npm install`, `cargo build`."""
    plain = [t for t in part.texts[1:] if not t.startswith("-")][:1]
    return needs_network(part) or bool(part.words and _MAYBE.get(_name(part), frozenset()) & set(plain))


def needs_network(part: SimpleCommand) -> bool:
    """Return True if a command cannot work without the network: `curl`, `git push`, `npm install`."""
    if not part.words:
        return False
    name = _name(part)
    if name in ("npx", "pnpx", "bunx") and _is_local(part):
        return False
    if name in ("python", "python3") and part.texts[1:3] == ("-m", "pip"):
        return True
    if name in _ALWAYS or any(r.kind == "network" for r in part.redirects):
        return True
    plain = [t for t in part.texts[1:] if not t.startswith("-")]
    # Without a subcommand yarn installs.
    return bool(_KNOWN.get(name, frozenset()) & set(plain[:1])) or (name == "yarn" and not plain)


def _is_local(part: SimpleCommand) -> bool:
    """Return True if npx need not download its program: an option says so, or the project has it."""
    words = part.texts[1:]
    if any(w in ("--no-install", "--no", "--offline") for w in words):
        return True
    program = next((w for w in words if not w.startswith("-")), "")
    return bool(program and part.cwds) and all(
        os.path.lexists(os.path.join(cwd, "node_modules/.bin", program)) for cwd in part.cwds or ()
    )


def _name(part: SimpleCommand) -> str:
    return os.path.basename(part.words[0].text)


def contacted_hosts(part: SimpleCommand) -> tuple[str, ...]:
    """Return the hosts that a network command would contact; () if they are unknown."""
    name = _name(part)
    if name in ("python", "python3"):
        name = "pip"
    if name in ("curl", "wget", "http", "https", "xh"):
        found = [m[1].lower() for word in part.texts[1:] if (m := _URL.match(word))]
        plain = [w for w in part.texts[1:] if not w.startswith("-")]
        return tuple(found) if found and len(found) == len(plain) else ()
    return _HOSTS.get(name, ())


def hosts_allowed(part: SimpleCommand, domains: Collection[str]) -> bool:
    """Return True if all hosts that a command would contact are loopback or among the domains."""
    hosts = contacted_hosts(part)
    if not hosts or all(host in _LOOPBACK for host in hosts):
        return bool(hosts)
    return bool(domains) and all(host in _LOOPBACK or host_matches(host, domains) for host in hosts)


def any_uses_network(analysis: Analysis) -> bool:
    """Return True if any command of a line uses the network."""
    return any(uses_network(part) for part in analysis.parts)


KEYS = "needs keys or a login, which the sandbox hides"
_SERVICE = "talks to a service of this machine, which the sandbox blocks"
_RIGHTS = "needs rights that the sandbox takes away"
_INSTALLS = "installs outside the workspace"
_CONFIG = "changes git's configuration, which the sandbox protects"
_HOOKS = "installs git hooks, which the sandbox protects"
_PROCESSES = "is about processes outside, which the sandbox hides"

_PROGRAMS = {
    KEYS: "ssh scp sftp sshfs mosh ssh-add ssh-copy-id autossh gh glab hub aws gcloud gsutil bq az kubectl helm oc"
    " terraform tofu pulumi ansible ansible-playbook heroku fly flyctl vercel netlify wrangler doctl oci s3cmd rclone"
    " twine gpg gpg2 pass op vault sops age",
    _SERVICE: "docker docker-compose podman podman-compose buildah nerdctl systemctl journalctl loginctl machinectl"
    " busctl dbus-send gdbus notify-send xdg-open open flatpak snap lxc virsh minikube kind k3d osascript",
    _RIGHTS: "sudo doas su pkexec runuser mount umount modprobe insmod sysctl iptables nft useradd usermod adduser"
    " chroot unshare nsenter bwrap",
    _INSTALLS: "apt apt-get aptitude dpkg dnf yum rpm zypper pacman apk brew port pipx rustup sdk pyenv rbenv asdf mise"
    " volta corepack conda mamba micromamba pipenv nix nix-env crontab chsh at",
    _PROCESSES: "pkill killall fuser lsof ss netstat pgrep ps top htop",
}
_BY_PROGRAM = {name: why for why, names in _PROGRAMS.items() for name in names.split()}
# A program with a subcommand, or with an option at any position.
_CALLS = {
    KEYS: "npm publish, npm login, npm adduser, npm whoami, npm token, npm owner, pnpm publish, pnpm login, yarn"
    " publish, yarn login, bun publish, cargo publish, cargo login, cargo yank, cargo owner, gem push, gem signin,"
    " poetry publish, uv publish, pdm publish, hatch publish, flit publish, mvn deploy, gradle publish, dotnet"
    " nuget, git push, git pull, git fetch, git clone, git ls-remote, git lfs, git send-email",
    _INSTALLS: "cargo install, cargo uninstall, go install, gem install, npm -g, npm --global, npm link, pnpm -g,"
    " pnpm --global, yarn global, bun -g, uv tool, uv python, pip --user, pip3 --user",
    _HOOKS: "pre-commit install, pre-commit uninstall, husky install, husky init, lefthook install",
    _CONFIG: "git submodule, git worktree, git init, git sparse-checkout, git maintenance, git flow",
}
_BY_CALL = {tuple(call.split()): why for why, calls in _CALLS.items() for call in calls.split(",")}
_READS_REMOTES = frozenset(("-v", "--verbose", "show", "get-url"))
_BRANCH = re.compile(r"-[dDmMcCut]+|--(?:delete|move|copy|track|set-upstream-to|unset-upstream|edit-description)\b.*")
_ELSEWHERE = ("/dev/", "/proc/", "/tmp/", "/var/tmp/")
_REMOTE = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!//)[^\\]|rsync://|ssh://")


def outside_reason(analysis: Analysis, confined: Confined, workspace: Workspace, path: str) -> str:
    """Return why a command line must run outside, as in "needs ..."; "" if it need not.

    path: PATH of commands.
    """
    if any(_excluded(part, confined.outside) for part in analysis.parts):
        return "is listed in the setting sandbox.outside"
    return next((why for part in analysis.parts if (why := _needs(part, confined, workspace, path))), "")


def _excluded(part: SimpleCommand, patterns: Iterable[str]) -> bool:
    rules = [
        read_rule("allow", rule_for("run", pattern), "the setting sandbox.outside", Path("/")) for pattern in patterns
    ]
    return any(for_part([rule], "allow", part) for rule in rules)


def _needs(part: SimpleCommand, confined: Confined, workspace: Workspace, path: str) -> str:
    raised = [layer.words[0].text for layer in part.layers if layer.kind == "gated"]
    if any(name in ("sudo", "doas", "su", "pkexec", "runuser") for name in raised):
        return _RIGHTS
    name = os.path.basename(part.program)
    why = _BY_PROGRAM.get(name, "")
    if why == _SERVICE and any(os.path.basename(s).startswith(name[:6]) for s in confined.sockets):
        why = ""
    if not why and part.words:
        why = _reason_by_words(part, name, workspace, path)
    return why or next(_file_reasons(part, confined.profile()), "")


def _reason_by_words(part: SimpleCommand, name: str, workspace: Workspace, path: str) -> str:
    words = part.texts[1:]
    if name == "git":
        return _git(words, workspace)
    if name == "rsync" and any(_REMOTE.match(w) for w in words):
        return KEYS
    if name == "kill" and any(w.isdigit() and w != "0" for w in words if not w.startswith("-")):
        return _PROCESSES
    if name in ("poetry", "pip", "pip3") or words[:2] == ("-m", "pip"):
        if name == "poetry":
            installs = words[:1] in (("install",), ("add",), ("update",), ("sync",))
            here = (workspace.root / ".venv").exists()
        else:
            installs = "install" in words and not any(w in ("-t", "--target", "--prefix", "--root") for w in words)
            found = _locate_program(part.words[0].text, part, path)
            here = any(Path(found).is_relative_to(root) for root in workspace.roots)
        if installs and not here:
            return _INSTALLS
    plain = next((w for w in words if not w.startswith("-")), "")
    return next((_BY_CALL[name, w] for w in (plain, *words) if (name, w) in _BY_CALL
                 and (w == plain or w.startswith("-"))), "")  # fmt: skip


def _locate_program(word: str, part: SimpleCommand, path: str) -> str:
    """Return the file that a program name means, without following a final link: a venv's link belongs to the venv."""
    if "/" in word:
        return os.path.normpath(os.path.join((part.cwds or ("/",))[0], word))
    return next((f"{folder}/{word}" for folder in path.split(os.pathsep) if os.access(f"{folder}/{word}", os.X_OK)), "")


def _git(words: Sequence[str], workspace: Workspace) -> str:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        if rest.pop(0) in ("-c", "-C", "--git-dir", "--work-tree") and rest:
            rest.pop(0)
    if not rest:
        return ""
    sub, rest = rest[0], rest[1:]
    plain = [w for w in rest if not w.startswith("-")]
    if sub == "config":
        reads = any(re.match(r"--get|--list|-l$|--show|get$|list$", w) for w in rest) or len(plain) == 1
        return "" if reads and "--unset" not in rest else _CONFIG
    if sub == "remote":
        if plain[:1] in (["update"], ["prune"]):
            return KEYS
        return _CONFIG if plain and plain[0] not in _READS_REMOTES else ""
    if sub == "branch" and any(_BRANCH.fullmatch(w) for w in rest):
        return _CONFIG
    if sub in ("checkout", "switch") and "--" not in rest and _creates_tracking_branch(rest, plain, workspace):
        return _CONFIG
    if sub in ("commit", "tag", "merge", "rebase") and any(re.match(r"-S|--gpg-sign", w) for w in rest):
        return KEYS
    if sub in ("submodule", "worktree") and plain[:1] in (["status"], ["list"], ["summary"]):
        return ""
    return _BY_CALL.get(("git", sub), "")


def _creates_tracking_branch(rest: list[str], plain: list[str], workspace: Workspace) -> bool:
    """Return True if a branch tracking a remote one would be created, which git writes into its configuration."""
    if any(w in ("-t", "--track") or w.startswith("--track=") for w in rest):
        return True
    if any(w == "--no-track" for w in rest):
        return False
    git = workspace.root / ".git"
    creates = any(w in ("-b", "-B", "-c", "-C", "--create") for w in rest)
    if creates:
        return any(_has_ref(git, f"refs/remotes/{w}") for w in plain[1:])
    return len(plain) == 1 and not _has_ref(git, f"refs/heads/{plain[0]}") and _is_remote_branch(git, plain[0])


def _has_ref(git: Path, name: str) -> bool:
    return os.path.isfile(git / name) or name in _packed_refs(git)  # noqa: PTH113 - names of strangers


def _is_remote_branch(git: Path, name: str) -> bool:
    remotes = git / "refs/remotes"
    with_loose = remotes.is_dir() and any((place / name).is_file() for place in remotes.iterdir())
    return with_loose or any(re.fullmatch(rf"refs/remotes/[^/]+/{re.escape(name)}", ref) for ref in _packed_refs(git))


def _packed_refs(git: Path) -> frozenset[str]:
    try:
        text = read_regular(git / "packed-refs", 1 << 24).decode("utf-8", "replace")
    except OSError:
        return frozenset()
    return frozenset(line.split(" ", 1)[-1] for line in text.splitlines() if not line.startswith(("#", "^")))


# Kinds of effects on no known file: `-rf` may be `-r f` of some program.
_NO_FILE = ("run", "names", "listed", "maybe")


def _file_reasons(part: SimpleCommand, profile: Profile) -> Iterator[str]:
    """Yield reasons related to files: writes where the sandbox does not write, reads of what it hides."""
    redirects = (
        Touch("read" if r.kind == "read" else "write", Word(r.target, r.why))
        for r in part.redirects
        if r.kind != "network"
    )
    for touch in (*redirects, *effects_of(part)):
        word = touch.word
        if word.why or word.pattern or touch.kind in _NO_FILE or word.text == "-":
            continue
        if part.cwds is None and not word.text.startswith("/"):
            continue
        for cwd in part.cwds or ("/",):
            follows = touch.kind != "remove" or bool(touch.follows)
            path = Path(resolve_operand(cwd, word.text, follows=follows).path)
            known = (*profile.writable, *profile.covered)
            if str(path).startswith(_ELSEWHERE) and not any(path.is_relative_to(k) for k in known):
                continue
            if touch.kind in ("read", "tree"):
                if not profile.is_readable(path):
                    yield f"reads {path}, which the sandbox hides"
            elif not (profile.is_writable(path.parent) if touch.kind == "remove" else profile.is_writable(path)):
                yield f"writes {path}, which the sandbox does not allow"

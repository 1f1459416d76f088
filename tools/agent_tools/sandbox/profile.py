"""The sandbox profile: what a command may read and write, and which hosts it may reach.

Everything is readable except secrets and most of the home folder. The directories of the workspace are writable, except
paths that run code or decide what may run: those that exist are read-only, and those that do not exist are watched for
(`watch`). Git directories are writable where a commit writes.

Patterns of the setting `sandbox.domains`:
    pypi.org            this host, on ports 80 and 443
    *.npmjs.org         every name below npmjs.org, and not npmjs.org itself
    git.example:8443    this host, on this port only
    10.1.2.3, [::1]:80  an address; no pattern of names ever covers one
"""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from agent_tools.fs import protected_names
from agent_tools.fs.safe_files import read_regular
from agent_tools.fs.workspace import is_within
from agent_tools.lazy import lazy_pattern
from agent_tools.net.urls import split_url
from agent_tools.record import Value
from agent_tools.results import ToolError
from agent_tools.sandbox.temporary import TemporaryMount

# The rest of the home folder is hidden: other projects, documents, histories, unknown files.
VISIBLE_HOME_NAMES = tuple(
    # Toolchains and their version managers.
    ".cargo .rustup .elan .ghcup .stack .cabal .opam .juliaup .julia .nvm .fnm .volta .n .nodenv .bun .deno .npm-global"
    " .npm-packages .yarn .pyenv .venv .venvs .virtualenvs .conda miniconda3 miniforge3 mambaforge anaconda3 micromamba"
    " .rbenv .rvm .gem .bundle .local/bin .local/lib .local/pipx .local/share/mise .local/share/uv .local/share/pipx"
    " .local/share/virtualenv .local/share/virtualenvs .local/share/fnm .local/share/pnpm .local/share/rtx"
    " .local/share/cargo .local/share/rustup .local/share/go .local/share/gem .local/state/mise .mise .asdf .proto"
    " .sdkman .jenv .jabba .m2 .ivy2 .sbt .gradle .dotnet .nuget .composer go .go .goenv sdk .gvm .swiftly .flutter"
    " flutter .pub-cache .luarocks .mix .hex .kiex .zig .zvm .nimble .nix-profile .nix-defexpr .linuxbrew .conan"
    " .conan2 .vcpkg .platformio .emsdk emsdk .wasmtime .wasmer .foundry Android/Sdk bin Library/Python Library/pnpm"
    " Library/Android/sdk Library/Developer/Toolchains"
    # Their configuration; credentials in it are hidden by the list below.
    " .gitconfig .config/git .gitignore .gitignore_global .gitattributes .hgrc .config/hg .condarc .config/mise"
    " .config/uv .config/pdm .config/black .config/ruff .config/flake8 .config/pylintrc .tool-versions .editorconfig"
    " .config/nextest.toml .config/yamllint .config/shellcheckrc .shellcheckrc .config/bat .config/ripgreprc".split()
)

# Written by builds; can be re-created.
CACHE_NAMES = tuple(
    ".cache .npm .pnpm-store .local/share/pnpm/store .yarn/berry/cache .bun/install/cache .deno .cargo/registry"
    " .cargo/git go/pkg .go/pkg .local/share/go/pkg .m2/repository .m2/wrapper .gradle/caches .gradle/daemon"
    " .gradle/native .gradle/wrapper .gradle/notifications .ivy2 .sbt .nuget/packages .composer/cache .bundle/cache"
    " .conan2/p .stack .cabal/packages .pub-cache .julia/compiled .julia/scratchspaces .ccache .sccache .hex"
    " .mix/archives .cpan .cpanm .terraform.d/plugin-cache .matplotlib .ipython .jupyter/runtime .pylint.d .node-gyp"
    " .electron-gyp .local/share/jupyter/runtime .local/share/virtualenv .swiftpm .zig-cache"
    " .platformio/.cache .vcpkg-cache".split()
) + tuple(
    f"Library/Caches/{name}"
    for name in (
        "CocoaPods Cypress Homebrew Yarn bazel deno electron go-build mise ms-playwright node-gyp org.swift.swiftpm pip"
        " pypoetry"
    ).split()
)

# Caches that exist in the sandbox even if the home folder has none: programs fail without them.
REQUIRED_CACHES = (".cache", ".npm")

# Keys, tokens, passwords and histories. Most are hidden with the home folder, unless it is the workspace.
SECRET_HOME_NAMES = (
    "Library/Application Support",
    *".ssh .gnupg .aws .azure .kube .oci .bluemix .aliyun .tencentcloud .scw .linode-cli .vultr-cli.yaml .civo.json"
    " .config/doctl .config/hcloud .config/scw .config/exoscale .config/gcloud .config/gh .config/glab-cli .config/hub"
    " .config/op .config/rclone .config/heroku .config/netlify .config/configstore .config/vercel .config/stripe"
    " .config/ngrok .config/cloudflared .config/wrangler .config/sops .config/age .config/keybase .config/helm"
    " .config/containers .config/fly .config/railway .config/pypoetry .config/1Password .config/Bitwarden"
    " .config/BraveSoftware .config/chromium .config/google-chrome .config/microsoft-edge .config/opera .config/vivaldi"
    " .config/Slack .config/discord .config/Signal .config/git/credentials .config/github-copilot .config/hub"
    " .config/composer/auth.json .config/msmtp .config/mutt .config/neomutt .config/isync .config/filezilla"
    " .config/DBeaverData .config/JetBrains .config/solana .config/gspread .config/openstack .config/sourcegraph"
    " .netrc .authinfo .authinfo.gpg .npmrc .yarnrc .yarnrc.yml .pypirc .pgpass .my.cnf .mylogin.cnf .s3cfg .boto"
    " .vault-token .git-credentials .gitcookies .password-store .mozilla .thunderbird .1password .fly .ngrok2"
    " .terraformrc .terraform.d/credentials.tfrc.json .docker/config.json .docker/contexts .cargo/credentials"
    " .cargo/credentials.toml .gem/credentials .bundle/config .m2/settings.xml .m2/settings-security.xml"
    " .gradle/gradle.properties .gradle/init.d .sbt/credentials .ivy2/.credentials .nuget/NuGet/NuGet.Config"
    " .nuget/NuGet.Config .composer/auth.json .hex/hex.config .pub-cache/credentials.json .sentryclirc .databrickscfg"
    " .snowsql .dbt/profiles.yml .kaggle .huggingface .cache/huggingface/token .cache/huggingface/stored_tokens"
    " .jupyter/jupyter_server_config.json .streamlit/credentials.toml .wrangler .netlify .heroku .expo .cloudflared"
    " .vagrant.d .chef .puppetlabs .ansible .circleci .travis .jenkins .minikube .lein/credentials.clj.gpg"
    " .electrum .bitcoin .ethereum .solana .claude .claude.json .codex .gemini .kimi .qwen .cursor"
    " .aider.conf.yml .config/opencode .local/share/opencode .copilot .continue .codeium .tabnine .config/zed"
    " .local/share/keyrings .local/share/kwalletd .local/share/gh .local/share/gnupg .local/share/fly .bash_history"
    " .zsh_history .local/share/fish/fish_history .python_history .psql_history .mysql_history .sqlite_history"
    " .node_repl_history .irb_history .lesshst .viminfo .wget-hsts .config/rstudio .Rhistory .Xauthority .ICEauthority"
    " .local/share/recently-used.xbel Library/Accounts Library/Cookies Library/Keychains Library/Mail Library/Messages"
    " Library/Safari .local/state/agent/keys".split(),
)
SYSTEM_SECRET_PATHS = tuple(
    "/etc/shadow /etc/gshadow /etc/shadow- /etc/gshadow- /etc/security/opasswd /etc/sudoers /etc/sudoers.d"
    " /etc/ssl/private /etc/pki/tls/private /etc/letsencrypt /etc/krb5.keytab /etc/wireguard /etc/openvpn"
    " /etc/ipsec.secrets /etc/ppp/chap-secrets /etc/ppp/pap-secrets /etc/NetworkManager/system-connections"
    " /etc/wpa_supplicant /etc/mysql/debian.cnf /etc/postfix/sasl_passwd /etc/msmtprc /etc/exim4/passwd.client"
    " /etc/kubernetes /etc/rancher /etc/docker/key.json /etc/containers/auth.json /etc/boto.cfg /etc/cloudflared"
    " /var/lib/kubelet /var/lib/docker /var/lib/containers /var/lib/cloud /var/lib/NetworkManager /var/lib/bluetooth"
    " /var/spool/cron /var/mail /var/log/auth.log /var/backups".split()
)


# `commondir` decides where the others are read from. Folders in `worktrees` and `modules` have the same parts.
GIT_PARTS = ("config", "config.worktree", "hooks", "info/exclude", "info/attributes", "commondir")
NESTED_GIT_FOLDERS = ("worktrees", "modules")
_MAX_GIT_FILE_BYTES = 1_000_000


def git_directories(root: Path) -> tuple[list[Path], list[Path]]:
    """Return directories outside `root` that its repository writes, and paths to protect, inside and outside.

    A missing `.git` is protected, and so are the parts of a bare repository. A `.git` file is protected, and its target
    is writable only if it refers back to `root`: anyone can write such a file, and it must not open other folders.
    """
    dot = root / ".git"
    # A bare repository is its own git directory; git uses it if it finds no valid `.git`.
    bare = _parts(root) if all((root / name).exists() for name in ("HEAD", "objects", "refs")) else []
    if not dot.is_file() or dot.is_symlink():
        return [], [*bare, *(_parts(dot) if dot.is_dir() and not dot.is_symlink() else [dot])]
    own = _read_pointer(dot, "gitdir: ")
    if own is None or not _refers_back(own, root):
        return [], [*bare, dot]
    common = _read_pointer(own / "commondir", "") or own
    writable = [common] if own.is_relative_to(common) else [common, own]
    return [*writable, own] if own != common else writable, [*bare, dot, *_parts(common), *_parts(own)]


def find_repository(folder: Path) -> tuple[str, str, str] | None:
    """Return the root of the repository that a folder is in, its git directory, and the common one; None for none."""
    for root in (folder, *folder.parents):
        dot = root / ".git"
        if os.path.exists(dot / "HEAD") and not dot.is_symlink():  # noqa: PTH110 - Path.exists may raise
            return str(root), str(dot), str(dot)
        if dot.is_file() and not dot.is_symlink():
            own = _read_pointer(dot, "gitdir: ")
            if own is None or not _refers_back(own, root):
                return None
            return str(root), str(own), str(_read_pointer(own / "commondir", "") or own)
    return None


def _parts(directory: Path) -> list[Path]:
    return [
        *(directory / name for name in GIT_PARTS),
        *(p for name in NESTED_GIT_FOLDERS if (p := directory / name).exists()),
    ]


def _read_pointer(file: Path, start: str) -> Path | None:
    """Return the existing directory that a file of git names, or None."""
    text = _read(file).strip()
    if not text.startswith(start):
        return None
    with suppress(OSError, ValueError):
        found = (file.parent / text.removeprefix(start)).resolve(strict=True)
        return found if found.is_dir() else None
    return None


def _refers_back(directory: Path, root: Path) -> bool:
    """Return True if a git directory refers back to `root`: a worktree's back link, a submodule's setting."""
    if back := _read(directory / "gitdir").strip():
        return (directory / back).resolve() == root / ".git"
    worktree = re.search(r"(?m)^\s*worktree\s*=\s*(.+?)\s*$", _read(directory / "config"))
    return worktree is not None and (directory / worktree[1].strip('"')).resolve() == root


def _read(file: Path) -> str:
    try:
        return os.fsdecode(read_regular(file, _MAX_GIT_FILE_BYTES))
    except OSError:
        return ""


# Protected in addition to the parts of a repository. CI workflows are not included: they take effect only when pushed,
# and a checkout of another branch must be able to change them.
PROTECTED_NAMES = protected_names.plain_names(protected_names.PROJECT_NAMES)
# Names whose protection is required: the sandbox is not used if one of them is a link. Links of other programs' names
# are left unprotected.
_REQUIRED_NAMES = frozenset(protected_names.plain_names((*protected_names.AGENT_NAMES, ".vscode/", ".idea/")))
# Protected in the home folder if it is writable.
PROTECTED_HOME_NAMES = protected_names.plain_names(protected_names.HOME_NAMES)
# Keys in git's configuration that name other files.
_GIT_CONFIG_PATHS = lazy_pattern(
    r"(?m)^\s*(?:path|excludesFile|attributesFile|template|hooksPath)\s*=\s*\"?([^\"\n#;]+)", re.I
)
_MAX_GIT_CONFIG_BYTES = 1 << 18


class Profile(Value):
    """What a command may access. All paths are absolute and resolved, except the names in `shown`.

    writable: directories.
    protected: read-only paths inside them. Missing ones, which are names of git's, are created while a command runs.
    personal: the same in the home folder, existing or not.
    watched: missing paths that no command may create, each as a directory of the workspace and a path below it.
    covered: directories that appear empty except for `shown` paths.
    hidden: invisible paths.
    closed: files that exist, but cannot be opened.
    fixed: read-only paths in writable directories, in addition to `protected`.
    shown: paths visible in a covered directory or a temporary one, apart from what `temp` shows.
    caches: directories of the home folder that are temporarily writable.
    temp: directories for temporary files; without them, /tmp is an empty one for each command.
    network: the network is allowed.
    sockets: reachable sockets of services.
    """

    writable: tuple[Path, ...]
    protected: tuple[Path, ...] = ()
    personal: tuple[Path, ...] = ()
    watched: tuple[tuple[Path, str], ...] = ()
    covered: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()
    caches: tuple[Path, ...] = ()
    temp: tuple[TemporaryMount, ...] = ()
    network: bool = False
    sockets: tuple[Path, ...] = ()
    closed: tuple[Path, ...] = ()
    fixed: tuple[Path, ...] = ()

    def is_readable(self, path: Path) -> bool:
        """Return True if a path is readable inside, or would be if it existed."""
        real = _resolve(path)
        if _depth(real, self.hidden) > _depth(real, self.writable):
            return False
        open_ = (*self.writable, *self.caches, *self._temporary(), *(_resolve(s) for s in self.shown))
        return not is_within(real, self.covered) or is_within(real, open_)

    def is_writable(self, path: Path) -> bool:
        """Return True if a path is writable inside, permanently or for the session."""
        real = _resolve(path)
        missing = (folder / name for folder, name in self.watched)
        closed = _depth(real, (*self.protected, *self.personal, *self.hidden, *missing))
        return _depth(real, (*self.writable, *self.caches, *self._temporary())) > closed

    def _temporary(self) -> Iterator[Path]:
        return (path for mount in self.temp for path in (mount.target, mount.source))


@lru_cache(maxsize=4096)
def interned_path(text: str) -> Path:
    """Return the Path of a text, the same each time: every command compares and hashes hundreds of them."""
    return Path(text)


def make_profile(
    roots: Iterable[Path],
    home: Path | None,
    *,
    extra: Iterable[Path] = (),
    secret: Iterable[Path] = (),
    readable: Iterable[Path] = (),
    path: str = "",
    caches: bool = True,
    sockets: Iterable[Path] = (),
    temp: Iterable[TemporaryMount] = (),
    network: bool = False,
) -> Profile:
    """Make the profile for the current state of a workspace.

    roots: its directories.
    extra: more writable directories, in which only secrets are protected.
    secret: more paths to hide, such as our own state.
    readable: more visible paths of the home folder.
    path: PATH of commands, whose programs are visible.
    caches: caches of the home folder are writable.
    sockets: reachable sockets of services.
    """
    roots = tuple(dict.fromkeys(_resolve(r) for r in roots))
    writable = [*roots, *(_resolve(e) for e in extra if os.path.isdir(e))]  # noqa: PTH112 - Path.is_dir may raise
    protected: list[Path] = []
    watched: list[tuple[Path, str]] = []
    for root in roots:
        more, parts = git_directories(root)
        writable += more
        protected += parts
        for name in PROTECTED_NAMES:
            place = f"{root}/{name}"  # text, for speed
            if _is_missing(place):
                watched.append((root, name))
            elif name in _REQUIRED_NAMES or not os.path.islink(place):  # noqa: PTH114
                protected.append(interned_path(place))
    hidden = [*secret_paths(home), *(_resolve(s) for s in secret)]
    open_, open_texts = set(writable), {f"{path}" for path in writable}
    home_folder = _resolve(home) if home else Path("/")
    covered = () if home_folder == Path("/") or is_within(home_folder, writable) else (home_folder,)
    # Nothing in a covered home folder is writable.
    personal = (
        []
        if covered or home is None
        else [p for name in PROTECTED_HOME_NAMES if is_within(p := home_folder / name, writable)]
    )
    if personal:
        watched += [(home_folder, name) for name in PROTECTED_HOME_NAMES if _is_missing(f"{home_folder}/{name}")]
    # A workspace that is one of these directories is shared as a whole.
    temporary = tuple(mount for mount in temp if not is_within(mount.target, writable))
    seen = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[1], *readable]
    for mount in temporary:
        seen += _program_folders(path, mount.target)
    if home:
        seen += [*visible_home_paths(home, path)] if covered else [home]
    return Profile(
        tuple(dict.fromkeys(writable)),
        tuple(p for p in dict.fromkeys(protected) if p not in open_),
        tuple(p for p in personal if p not in open_),
        tuple((folder, name) for folder, name in dict.fromkeys(watched) if f"{folder}/{name}" not in open_texts),
        covered,
        tuple(h for h in dict.fromkeys(hidden) if h not in open_ and os.path.lexists(h)),
        tuple(dict.fromkeys(seen)),
        tuple(
            dict.fromkeys(
                (*_existing(home_folder, CACHE_NAMES), *(interned_path(f"{home_folder}/{n}") for n in REQUIRED_CACHES))
            )
        )
        if covered and caches
        else (),
        temporary,
        network,
        tuple(_resolve(s) for s in sockets),
    )


def _is_missing(path: str) -> bool:
    """Return True if nothing exists at a path, or only what an older version left there."""
    return not os.path.lexists(path) or protected_names.has_leftover(path)


def visible_home_paths(home: Path, path: str) -> Iterator[Path]:
    """Yield visible paths of the home folder: toolchains, caches, their configuration and git's, programs on PATH."""
    yield from _existing(home, (*VISIBLE_HOME_NAMES, *CACHE_NAMES))
    for name in (".gitconfig", ".config/git/config"):
        with suppress(OSError, ValueError):
            text = os.fsdecode(read_regular(home / name, _MAX_GIT_CONFIG_BYTES))
            yield from (Path(home, m[1].strip().removeprefix("~/")) for m in _GIT_CONFIG_PATHS.finditer(text))
    yield from _program_folders(path, home)


def _program_folders(path: str, top: Path) -> Iterator[Path]:
    """Yield the folders of PATH that are in `top`, with the files of their programs."""
    for text in path.split(os.pathsep):
        if text.startswith(f"{top}/") and (folder := interned_path(text)) != top:
            yield folder
            # Files that a program needs are next to its `bin`.
            if folder.name in ("bin", "sbin") and folder.parent not in (top, top / ".local"):
                yield folder.parent


def _existing(home: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """Yield the names that exist in the home folder. Listing it once is faster than checking hundreds of names."""
    try:
        inside = os.listdir(home)  # noqa: PTH208 - text, not paths
    except OSError:
        return
    start = os.fspath(home)
    by_first = _group_by_first(names)
    for first in sorted(by_first.keys() & inside):
        for name in by_first[first]:
            if os.path.lexists(path := f"{start}/{name}"):
                yield interned_path(path)


@lru_cache(maxsize=8)
def _group_by_first(names: tuple[str, ...]) -> dict[str, list[str]]:
    """Group relative paths by their first component."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.partition("/")[0], []).append(name)
    return found


def secret_paths(home: Path | None) -> list[Path]:
    """Return existing files and directories of keys and passwords that would be readable."""
    places: list[str | Path] = [*SYSTEM_SECRET_PATHS]
    if home is not None:
        places += _existing(home, SECRET_HOME_NAMES)
        if configs := os.environ.get("XDG_CONFIG_HOME"):
            places += [
                Path(configs, name.removeprefix(".config/"))
                for name in SECRET_HOME_NAMES
                if name.startswith(".config/")
            ]
    if os.path.isdir("/etc/ssh"):  # noqa: PTH112
        places += [e.path for e in os.scandir("/etc/ssh") if e.name.endswith("_key")]
    return [_resolve(p) for p in places if os.access(p, os.R_OK)]


def _resolve(path: str | Path) -> Path:
    return interned_path(os.path.realpath(path))


def _depth(path: Path, parents: Iterable[Path]) -> int:
    """Return the number of parts of the innermost parent that contains a path, 0 if none: inner mounts are on top.

    A work tree of ours is writable in our state folder, which is hidden.
    """
    text = f"{path}/"
    return max((len(p.parts) for p in parents if text.startswith(f"{p}/" if len(p.parts) > 1 else "/")), default=0)


DEFAULT_PORTS = (80, 443)
_HOST_HINT = 'write a host, as in "pypi.org", "*.npmjs.org" or "git.example:8443"'


class DomainPattern(Value):
    """A parsed pattern.

    port: 0 for the default ports.
    subdomains: covers names below the host, not the host itself.
    network: covered addresses, if it is not a host name.
    """

    host: str
    port: int = 0
    subdomains: bool = False
    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None

    def covers(self, host: str, port: int) -> bool:
        """Return True if a host, in the form of `canonical_host`, may be reached on a port."""
        if port != self.port if self.port else port not in DEFAULT_PORTS:
            return False
        if self.network is not None:
            return is_address(host) and ipaddress.ip_address(host) in self.network
        return host.endswith(f".{self.host}") if self.subdomains else host == self.host


@lru_cache(maxsize=1024)
def parse_domain(text: str) -> DomainPattern:
    """Parse a pattern. Raises ValueError with a message for the user."""
    if network := re.fullmatch(r"([0-9A-Fa-f.:]+/\d{1,3})(?::(\d{1,5}))?", text, re.ASCII):
        number = _port(network[2], text)
        try:
            return DomainPattern(network[1], number, network=ipaddress.ip_network(network[1], False))
        except ValueError:
            raise ValueError(f'"{text}" is not a network: {_HOST_HINT}.') from None
    if re.search(r"[/?#@\\]", text):
        raise ValueError(f'"{text}" has a scheme, a path or a user name: {_HOST_HINT}.')
    name, port = text.removeprefix("*."), ""
    if name.startswith("[") or name.count(":") == 1:
        name, _, port = name.rpartition(":") if re.search(r":\d{1,5}$", name, re.ASCII) else (name, "", "")
    try:
        host = canonical_host(name)
    except ValueError:
        raise ValueError(f'"{text}" is not a domain: {_HOST_HINT}.') from None
    subdomains = text.startswith("*.")
    if subdomains and is_address(host):
        raise ValueError(f'"{text}" has "*." in front of an address: {_HOST_HINT}.')
    return DomainPattern(host, _port(port, text), subdomains)


def _port(written: str | None, text: str) -> int:
    if written and not 0 < int(written) < 65536:
        raise ValueError(f'"{text}" has no valid port: {_HOST_HINT}.')
    return int(written or 0)


def host_matches(host: str, domains: Iterable[str], port: int = 443) -> bool:
    """Return True if one of the patterns covers a host on a port; False for an invalid host.

    Raises ValueError for an invalid pattern.
    """
    patterns = [parse_domain(text) for text in domains]
    try:
        spelled = canonical_host(host)
    except ValueError:
        return False
    return any(pattern.covers(spelled, port) for pattern in patterns)


def domain_entry(host: str, port: int) -> str:
    """Return the pattern that allows a host on a port."""
    if port in DEFAULT_PORTS:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def canonical_host(host: str) -> str:
    """Return the canonical form of a host: lower case, punycode, no final dot or brackets. Raises ValueError."""
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    # Reject other parts of a URL, so that no part of the text is ignored.
    if not bare or re.search(r"[/?#@\[\]\s]", bare):
        raise ValueError(host)
    try:
        return split_url(f"https://[{bare}]/" if ":" in bare else f"https://{bare}/").host
    except ToolError:
        raise ValueError(host) from None


def is_address(host: str) -> bool:
    """Return True if a host in canonical form is an IP address."""
    return ":" in host or host.rpartition(".")[2].isdigit()

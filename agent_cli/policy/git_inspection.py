"""Inspect a repository's git directory, before git is used, for anything that may start a program or lead elsewhere.

Configuration is parsed by git itself, from bytes read here, without access to a repository or other configuration; only
lines in the unambiguous form that git writes are parsed here. Every key must be listed as harmless: whatever its value,
read-only commands start nothing. A repository with an unlisted key has to be trusted first.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from agent_tools.fs.protected_names import COMMONDIR_PLACEHOLDER
from agent_tools.fs.safe_files import read_regular
from agent_tools.process.guarded_git import Checkout, GitError, find_git, isolated_git, user_settings_git
from agent_tools.record import Value
from agent_tools.secret_patterns import holds_secret

# Keys of two components, by section.
_PLAIN = {
    "core": "repositoryformatversion filemode logallrefupdates ignorecase precomposeunicode symlinks autocrlf safecrlf "
    "eol quotepath abbrev compression loosecompression bigfilethreshold sharedrepository untrackedcache preloadindex "
    "trustctime checkstat protecthfs protectntfs longpaths fscache commentchar commentstring whitespace "
    "warnambiguousrefs sparsecheckout sparsecheckoutcone multipackindex commitgraph splitindex fsync fsyncmethod "
    "fsyncobjectfiles deltabasecachelimit packedgitlimit packedgitwindowsize packedrefstimeout filesreflocktimeout",
    "user": "name email useconfigonly signingkey",
    "author": "name email",
    "committer": "name email",
    "extensions": "worktreeconfig partialclone objectformat refstorage compatobjectformat noop preciousobjects "
    "relativeworktrees",
    "branch": "autosetupmerge autosetuprebase sort",
    "pull": "rebase ff octopus twohead",
    "push": "default followtags autosetupremote gpgsign",
    "fetch": "prune prunetags parallel writecommitgraph output fsckobjects",
    "merge": "ff conflictstyle renames renamelimit log stat verbosity",
    "rebase": "autostash autosquash updaterefs stat abbreviatecommands missingcommitscheck",
    "rerere": "enabled autoupdate",
    "commit": "verbose cleanup status gpgsign",
    "tag": "gpgsign sort",
    "init": "defaultbranch",
    "color": "ui branch diff status grep interactive decorate advice push remote showbranch",
    "column": "ui branch status tag",
    "status": "short branch showuntrackedfiles showstash relativepaths aheadbehind renames displaycommentprefix",
    "diff": "algorithm renames renamelimit colormoved colormovedws mnemonicprefix noprefix context interhunkcontext "
    "indentheuristic ignoresubmodules statgraphwidth suppressblankempty wserrorhighlight relative",
    "log": "date decorate abbrevcommit follow showroot",
    "grep": "linenumber column patterntype extendedregexp fullname threads fallbacktonoindex",
    "gc": "auto autopacklimit autodetach packrefs pruneexpire worktreepruneexpire reflogexpire reflogexpireunreachable "
    "rerereresolved rerereunresolved writecommitgraph cruftpacks",
    "maintenance": "auto strategy",
    "index": "version threads sparse recordoffsettable recordendofindexentries skiphash",
    "pack": "threads window depth windowmemory compression usebitmaps writebitmaps usesparse indexversion",
    "repack": "usedeltabaseoffset packkeptobjects writebitmaps",
    "transfer": "fsckobjects",
    "receive": "denycurrentbranch denynonfastforwards denydeletes fsckobjects",
    "feature": "manyfiles experimental",
    "submodule": "active fetchjobs",
    "remote": "pushdefault",
    "lfs": "repositoryformatversion",
    "help": "autocorrect",
    "i18n": "commitencoding logoutputencoding",
    "gui": "wmstate geometry encoding",
    "checkout": "defaultremote guess workers",
    "stash": "showstat",
    "http": "postbuffer",
    "notes": "displayref mergestrategy rewritemode rewriteref",
    "agent": "notes",
}
_HARMLESS = frozenset([f"{section}.{name}" for section, names in _PLAIN.items() for name in names.split()])
# Keys of three components, with any subsection.
_NAMED = {
    "remote": "fetch push tagopt mirror prune prunetags skipdefaultupdate skipfetchall promisor partialclonefilter "
    "gh-resolved",
    "branch": "merge rebase description vscode-merge-base gh-merge-base github-pr-owner-number",
    "submodule": "url active branch shallow fetchrecursesubmodules ignore",
    "lfs": "access locksverify",
    "maintenance": "enabled schedule",
    "notes": "mergestrategy",
}
_THREE_PART_KEYS = frozenset([f"{section}..{name}" for section, names in _NAMED.items() for name in names.split()])
_COLOURS = r"color\.(branch|diff|status|grep|interactive|decorate|advice|push|remote)\.[a-z-]+|advice\.[a-z]+"
# Compiled when needed, as that takes longer than everything else about opening a repository.
_ADDRESSES = frozenset((("remote", "url"), ("remote", "pushurl"), ("branch", "remote"), ("branch", "pushremote")))
# Editors that leave a file as it is.
IDLE_EDITORS = frozenset(("true", ":", "/bin/true", "/usr/bin/true"))
_SWITCH = frozenset((None, "", "true", "false", "yes", "no", "on", "off", "0", "1"))
# Entries whose values are credentials or may contain them.
_CREDENTIALS = (
    r"(http|https|url|sendemail|imap)\.|credential\.(.*\.)?(?!helper$)|.*(token|password|passwd|secret|oauth)"
)
# `ext::sh -c ...`, or any other helper that git would start for a URL.
_HELPER = r"[A-Za-z0-9+.-]*::"
# Keys that only matter to commands that are not read-only, or are disabled by the settings of `guarded_git`.
_NEVER_IN_READS = (
    r"core\.(fsmonitor|hookspath|pager|editor|sshcommand|askpass|gitproxy|attributesfile|alternaterefscommand)"
    r"|(pager|alias|gpg|credential|sequence|man|browser|web|sendemail|http|https|url|mergetool|difftool|guitool|trailer"
    r"|gc|receive|uploadpack|protocol|instaweb|merge|rebase|commit|user|tag|push|pull|gui|advice|gitflow|lfs|hub"
    r"|github|svn-remote|stgit|bugtraq|maintenance|fetch|clone|am|notes|branch)\..*"
    r"|remote\..*\.(url|pushurl|uploadpack|receivepack|vcs|proxy|proxyauthmethod|serveroption|followremotehead)"
    r"|submodule\..*\.update|interactive\.difffilter|merge\..*\.(driver|name|recursive)"
)


def is_harmless_entry(key: str, value: str | None) -> bool:
    """Return True if an entry is harmless.

    key: as listed by git, in lower case except for its subsection.
    """
    section, _, rest = key.partition(".")
    _, dot, name = rest.rpartition(".")
    if not dot:
        if key == "core.fsmonitor":  # a boolean means git's own monitor, which is disabled
            return value in _SWITCH
        if key in ("core.editor", "sequence.editor"):
            return value in IDLE_EDITORS
        if key == "core.bare":
            return value in ("false", "no", "off", "0")
        return key in _HARMLESS or re.fullmatch(_COLOURS, key) is not None
    if (section, name) in _ADDRESSES:
        return value is not None and not re.match(_HELPER, value) and not value.startswith("-")
    if section == "submodule" and name == "update":
        return value in ("checkout", "rebase", "merge", "none")
    return f"{section}..{name}" in _THREE_PART_KEYS or re.fullmatch(_COLOURS, key) is not None


def may_start_in_reads(key: str) -> bool:
    """Return True if a hardened read may still start a program or be redirected by an entry that is not harmless."""
    return re.fullmatch(_NEVER_IN_READS, key, re.DOTALL) is None


MAX_CONFIG_BYTES = 1 << 18
_MAX_POINTER_BYTES = 4096
_MAX_NAMES = 5_000
_HEADER = rb'\[([A-Za-z][A-Za-z0-9-]*)(?: "([A-Za-z0-9 ./_@#:+,=~*-]+)")?\]'
_WORD = rb"[A-Za-z0-9./_@:+,=~*^%(){}<>&|!?$\[\]'-]+"
_ENTRY = rb"[ \t]*([A-Za-z][A-Za-z0-9-]*) = (" + _WORD + rb"(?: " + _WORD + rb")*)"
Entry = tuple[str, str | None]


class NotParsedError(Exception):
    """A configuration could not be parsed; the message says why."""


class RepositoryFindings(Value):
    """Findings about a repository.

    checkout: None without a repository that git could use.
    entries: configuration entries that are not harmless.
    odd: other things that may lead elsewhere, a phrase each.
    hooks: names of hooks that git would run.
    """

    checkout: Checkout | None = None
    entries: tuple[Entry, ...] = ()
    odd: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()

    @property
    def needs_trust(self) -> tuple[str, ...]:
        """Everything that has to be trusted before git is used here, a phrase each; () for a plain repository."""
        return tuple(dict.fromkeys([*(describe_entry(entry) for entry in self.entries), *self.odd]))

    @property
    def contents(self) -> tuple[str, ...]:
        """The same with every value in full, including secrets: for comparison only, never for display."""
        full = (key if value is None else f"{key} = {value}" for key, value in self.entries)
        return tuple(dict.fromkeys([*full, *self.odd]))


def inspect_repository(root: Path) -> RepositoryFindings:
    """Inspect the repository with work tree `root`. Runs none of its programs and opens nothing outside of it."""
    dot = root / ".git"
    try:
        state = os.lstat(dot)
    except OSError:
        return RepositoryFindings()
    odd: list[str] = []
    if stat.S_ISLNK(state.st_mode):
        odd.append(f".git is a link to {_shown(dot)}")
    elif not stat.S_ISDIR(state.st_mode) and not stat.S_ISREG(state.st_mode):
        return RepositoryFindings(odd=(".git is neither a folder nor a file",))
    if os.path.isdir(dot):  # noqa: PTH112 - the method raises where a parent is closed
        folder = common = Path(os.path.realpath(dot))
        if os.path.lexists(folder / "commondir") and not _is_same(folder / "commondir"):
            odd.append(".git/commondir, which leads elsewhere")
            common = _read_pointer(folder / "commondir", "", folder) or folder
    else:
        pointed = _read_pointer(dot, "gitdir:", root)
        if pointed is None:
            return RepositoryFindings(odd=tuple(odd))
        folder, common = pointed, _read_pointer(pointed / "commondir", "", pointed) or pointed
        if not _is_inside(folder, root) and not _points_back(folder, common, root):
            odd.append(f".git leads to {folder}, which does not lead back")
        if common != folder and not _is_inside(common, root) and folder.parent != common / "worktrees":
            odd.append(f"commondir leads to {common}")
    entries: list[Entry] = []
    for where, name in dict.fromkeys(((common, "config"), (common, "config.worktree"), (folder, "config.worktree"))):
        try:
            found = parse_git_config(read_regular(where / name, MAX_CONFIG_BYTES), root)
            entries += [e for e in found if not is_harmless_entry(*e) and not _is_same_work_tree(e, folder, root)]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, NotParsedError) as error:
            odd.append(f"{name} that cannot be checked: {getattr(error, 'strerror', None) or error}")
    odd += [found for where in dict.fromkeys((folder, common)) for found in _find_anomalies(where, root)]
    odd += _branch_anomalies(folder, common)
    checkout = Checkout(str(root), str(folder), str(common))
    return RepositoryFindings(checkout, tuple(dict.fromkeys(entries)), tuple(dict.fromkeys(odd)), tuple(_hooks(common)))


def git_folders(root: Path) -> list[Path]:
    """Return the common git directory of the repository at `root`, then its own if different; [] without one."""
    checkout = locate_git_folders(root)
    return [] if checkout is None else list(dict.fromkeys((Path(checkout.common), Path(checkout.folder))))


def locate_git_folders(root: Path) -> Checkout | None:
    """Return the location of git's directories, without inspecting their content."""
    dot = root / ".git"
    if not os.path.isfile(dot):  # noqa: PTH113 - as above
        folder = Path(os.path.realpath(dot))
        return Checkout(str(root), str(folder), str(folder))
    if (pointed := _read_pointer(dot, "gitdir:", root)) is None:
        return None
    return Checkout(str(root), str(pointed), str(_read_pointer(pointed / "commondir", "", pointed) or pointed))


def parse_git_config(data: bytes, root: Path) -> list[Entry]:
    """Parse configuration with git into entries of key and value or None. Raises NotParsedError.

    root: directory from which no git program is used.
    """
    found = parse_simple_config(data)
    return found if found is not None else parse_with_git(data, root)


def parse_simple_config(data: bytes) -> list[Entry] | None:
    """Parse configuration in the form that git itself writes; None for any other form, which git has to parse.

    One header or entry per line, ASCII only, without quotes, escapes or comments.
    """
    found: list[Entry] = []
    section = ""
    lines = data.split(b"\n")
    if lines.pop():
        return None
    for line in lines:
        if head := re.fullmatch(_HEADER, line):
            section = head[1].decode("ascii").lower()
            section += "" if head[2] is None else f".{head[2].decode('ascii')}"
        elif section and (entry := re.fullmatch(_ENTRY, line)):
            found.append((f"{section}.{entry[1].decode('ascii').lower()}", entry[2].decode("ascii")))
        else:
            return None
    return found


def parse_with_git(data: bytes, root: Path) -> list[Entry]:
    """Parse configuration with the installed git; included files are not read."""
    try:
        run = isolated_git(find_git(os.environ.get("PATH", os.defpath), str(root)))
        out = run.run(
            "config", "--file", "-", "--list", "-z", "--no-includes", feed=data, seconds=5.0, most=MAX_CONFIG_BYTES * 4
        )
    except GitError as error:
        raise NotParsedError(str(error)) from None
    rows = [row.decode("utf-8", "surrogateescape") for row in out.split(b"\0")[:-1]]
    return [(key, value if has else None) for key, has, value in (row.partition("\n") for row in rows)]


def _read_pointer(file: Path, prefix: str, base: Path) -> Path | None:
    """Return the directory that a one-line file names."""
    try:
        text = os.fsdecode(read_regular(file, _MAX_POINTER_BYTES))
        name = text.removeprefix(prefix).strip("\r\n").removeprefix(" ")
        return Path(os.path.realpath(base / name)) if name and text.startswith(prefix) else None
    except (OSError, ValueError):
        return None


def _is_same(file: Path) -> bool:
    """Return True for a `commondir` without effect, as the sandbox puts there while a command runs."""
    try:
        return read_regular(file, _MAX_POINTER_BYTES) == COMMONDIR_PLACEHOLDER
    except OSError:
        return False


def _points_back(folder: Path, common: Path, root: Path) -> bool:
    """Return True if an external git directory refers back to `root`: that of a worktree or submodule."""
    if common != folder:
        try:
            back = os.fsdecode(read_regular(folder / "gitdir", _MAX_POINTER_BYTES)).strip("\r\n")
            return os.path.realpath(folder / back) == os.path.realpath(root / ".git")
        except (OSError, ValueError):
            return False
    try:
        entries = parse_git_config(read_regular(folder / "config", MAX_CONFIG_BYTES), root)
    except (OSError, NotParsedError):
        return False
    return any(_is_same_work_tree(entry, folder, root) for entry in entries)


def _is_same_work_tree(entry: Entry, folder: Path, root: Path) -> bool:
    """Return True if an entry sets the work tree to where the repository was found, as in submodules."""
    key, value = entry
    return key == "core.worktree" and bool(value) and os.path.realpath(folder / str(value)) == str(root)


def _is_inside(path: Path, root: Path) -> bool:
    return path.is_relative_to(root)


def describe_entry(entry: Entry) -> str:
    """Describe an entry: the programs that it names are shown, credentials for servers are not."""
    key, value = entry
    shown = re.sub(r"//[^/@]*@", "//", key)
    secret = value is None or shown != key or re.match(_CREDENTIALS, key) or holds_secret(value)
    return shown if secret else f"{shown} = {value}"


def _shown(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return "somewhere"


def _find_anomalies(folder: Path, root: Path) -> Iterator[str]:
    """Yield anomalies in a git directory: irregular files, files of another user, links that lead outside."""
    try:
        if os.stat(folder).st_uid not in (os.geteuid(), _sudo_user()) and not _is_safe_directory(root):  # noqa: PTH116
            yield f"{folder}, which belongs to another user"
        # Git reads a whole reference into memory.
        if os.lstat(folder / "HEAD").st_size > MAX_CONFIG_BYTES:
            yield "HEAD, which is too large"
    except OSError:
        pass
    for below in ("", "info", "objects", "objects/info", "objects/pack"):
        try:
            with os.scandir(folder / below) as entries:
                for number, entry in enumerate(entries):
                    if number > _MAX_NAMES:
                        break
                    # Git never opens sockets, and hooks are disabled.
                    plain = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
                    if not plain and not (below == "" and entry.name == "hooks") and not _is_socket(entry):
                        what = f"a link to {_shown(Path(entry.path))}" if entry.is_symlink() else "no file"
                        yield f"{os.path.relpath(entry.path, folder)} is {what}"
        except OSError:
            continue
    try:
        lines = os.fsdecode(read_regular(folder / "objects/info/alternates", MAX_CONFIG_BYTES)).split("\n")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield f"objects/info/alternates that cannot be checked: {error.strerror or error}"
        return
    for line in lines:
        if line and (line[0] == '"' or not _is_inside(Path(os.path.realpath(folder / "objects" / line)), folder)):
            yield f"objects of {line.strip()}"


def _branch_anomalies(folder: Path, common: Path) -> list[str]:
    """Return a phrase if the file of the checked-out branch is not readable as a file."""
    try:
        name = os.fsdecode(read_regular(folder / "HEAD", MAX_CONFIG_BYTES)).removeprefix("ref: ").strip()
        if name.startswith("refs/") and ".." not in name and not stat.S_ISREG(os.lstat(common / name).st_mode):
            return [f"{name} is no file"]
    except (OSError, ValueError):
        pass  # missing, packed, or reported already
    return []


def _is_socket(entry: os.DirEntry[str]) -> bool:
    return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)


def _sudo_user() -> int:
    """Return the user whose repositories root may use, by git's rules."""
    text = os.environ.get("SUDO_UID", "")
    return int(text) if os.geteuid() == 0 and text.isascii() and text.isdigit() else os.geteuid()


def _is_safe_directory(root: Path) -> bool:
    """Return True if the user's own git configuration allows another user's repository."""
    try:
        run = user_settings_git(find_git(os.environ.get("PATH", os.defpath), str(root)), os.environ)
        out = run.run("config", "--get-all", "-z", "safe.directory", seconds=5.0)
    except GitError:
        return False
    found = os.fsdecode(out).split("\0")[:-1]
    # An empty value resets the list.
    found = found[len(found) - found[::-1].index("") :] if "" in found else found
    return any(v in ("*", str(root)) or (v.endswith("/*") and str(root).startswith(v[:-1])) for v in found)


def _hooks(common: Path) -> Iterator[str]:
    """Yield the names of hooks that git would run for the user."""
    try:
        with os.scandir(common / "hooks") as entries:
            names = sorted(entry.name for entry, _ in zip(entries, range(_MAX_NAMES), strict=False))
    except OSError:
        return
    for name in names:
        file = common / "hooks" / name
        if not name.endswith(".sample") and os.path.isfile(file) and os.access(file, os.X_OK):  # noqa: PTH113 - as above
            yield name

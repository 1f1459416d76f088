"""Decide on one file or URL that a call touches, from the rules, the mode, and the paths that always need approval.

Rules match paths by gitignore-style globs and URLs by host; for commands see `command_rules`. Always asked about are
files that control this program, git, the shell or CI, and likely secrets. Their names are compared as the file system
that tells the fewest apart has them (`_folded`); the files need not exist.

Also filters the files that a search may show: the same decision for thousands of files, few of which any rule mentions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Literal

from agent_cli.kernel.decisions import Level, Verdict
from agent_cli.kernel.events import Decider
from agent_cli.kernel.rules import Rule, RuleList, names_tool
from agent_cli.policy.path_globs import anchored, comparable, path_pattern
from agent_cli.policy.secret_places import in_secret_place
from agent_tools.base import Effect
from agent_tools.fs.safe_files import read_start
from agent_tools.fs.workspace import Workspace, of_process, real_path
from agent_tools.lazy import lazy_imports
from agent_tools.net.urls import parse_host_pattern
from agent_tools.registry import BUILTIN, tool_name, tool_traits
from agent_tools.results import ToolError
from agent_tools.sandbox.conditions import OUTSIDE_SANDBOX, STAGED

with lazy_imports():
    from agent_tools.fs import protected_names

# "agent": this program's settings and state, and .git, which no rule allows. "steering": files of other programs.
Kind = Literal["", "agent", "steering", "ci"]
# Files and directories protected by location, with any name: the path, and the values of `protected`.
ProtectedPaths = Sequence[tuple[Path, Kind, str]]
_SECRET = (
    r"\.env.*|\.?env\.local|.+\.env|id_(?:rsa|dsa|ecdsa|ed25519)\w*|.+\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk)"
    r"|credentials?(?:\.\w+)?|secrets?\.(?:json|ya?ml|toml|ini|env|txt)|\.netrc|_netrc|\.npmrc|\.pypirc|\.git-credentials"
    r"|\.pgpass|\.my\.cnf|\.htpasswd|\.dockercfg|kubeconfig|service[-_]account.*\.json|client_secret.*\.json"
    r"|application_default_credentials\.json|\.vault-token|\.boto|\.s3cfg|token(?:s)?\.(?:json|txt)"
)
_SECRET_FOLDERS = (".ssh", ".gnupg", ".aws", ".kube", ".docker", ".azure", ".password-store")
# The last is the usual name of a list of public certificates.
_SHOWN = r".*\.(?:example|sample|template|dist|pub|md|rst)|cacert\.pem"


@cache
def _secret_names() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Compile on first use: a run without tools needs neither, and a search checks thousands of files."""
    return re.compile(_SHOWN), re.compile(_SECRET)


# Characters that HFS+ leaves out of file names.
_LEFT_OUT = "[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]"
_SHORT = r"([a-z0-9_]{1,6})~\d"


def _fold(path: Path) -> list[str]:
    """Return the components of a path as file systems that tell fewer names apart have them.

    Without case, trailing dots and blanks, the streams and short names of NTFS (`.git::$DATA`, `GIT~1`), and the
    characters that HFS+ ignores. Linux reaches such file systems too, as WSL does the drives of Windows.
    """
    return [_folded_name(part) for part in path.parts]


def _folded_name(part: str) -> str:
    name = part.casefold() if part.isascii() else re.sub(_LEFT_OUT, "", part).casefold()
    if ":" in name and name[0] == ".":
        name = name.partition(":")[0]
    name = name.rstrip(". ")
    if "~" in name and (match := re.fullmatch(_SHORT, name)):
        name = protected_names.short_names().get(match[1], name)
    return name


@cache
def _tails() -> Mapping[str, Sequence[tuple[tuple[str, ...], Kind]]]:
    """Return `protected_names` as case-folded components, by the first of them."""
    found: dict[str, list[tuple[tuple[str, ...], Kind]]] = {}
    agent_names = {*protected_names.plain_names(protected_names.AGENT_NAMES), ".git"}
    for name in dict.fromkeys(
        protected_names.plain_names(
            (
                *protected_names.AGENT_NAMES,
                *protected_names.PROJECT_NAMES,
                *protected_names.HOME_NAMES,
                *protected_names.ANY_FOLDER_NAMES,
            )
        )
    ):
        parts = tuple(name.casefold().split("/"))
        found.setdefault(parts[0], []).append((parts, "agent" if name in agent_names else "steering"))
    return found


@cache
def _system_paths() -> tuple[str, ...]:
    return tuple(f"{name}/" for name in protected_names.plain_names(protected_names.SYSTEM_PATHS))


def find_protected_paths(
    roots: Sequence[Path], home: Path | None, env: Mapping[str, str], state: Path | None
) -> tuple[tuple[Path, Kind, str], ...]:
    """Return the places protected by location, in addition to the names that `protected` knows.

    roots: directories of the workspace.
    state: directory of this program's own state.
    """
    agent_names = protected_names.plain_names(protected_names.AGENT_NAMES)
    found: list[tuple[Path, Kind, str]] = []
    if state is not None:
        found.append((Path(real_path(state)), "agent", "it is this program's own state"))
    for path, name in protected_names.protected_places(roots, home, env):
        kind: Kind = "agent" if name in agent_names else "steering"
        found.append((path, kind, f"{name} leads to it"))
    return tuple(found)


def protected(path: Path, paths: ProtectedPaths = (), roots: Sequence[Path] = ()) -> tuple[Kind, str]:
    """Return why a write to this resolved path always needs approval, as a kind and in words; "" if it does not.

    paths: see `find_protected_paths`.
    roots: directories of the workspace, which may be worktrees in our own state directory.
    """
    parts = _fold(path)[_above_checkout(path, roots) :]
    if not parts:
        return "", ""
    name, folders = parts[-1], parts[:-1]
    if any(re.fullmatch(r"head|config|objects|refs", name) and f.endswith(".git") for f in folders[-1:]):
        return "agent", "it is inside .git" if folders[-1] == ".git" else "it is inside a git folder"
    if name.startswith(".agentrc"):
        return "agent", "it contains this program's settings"
    named = [found for n, part in enumerate(parts) for found in _tails().get(part, ()) if _starts(parts, n, found[0])]
    if named:
        tail, kind = min(named, key=lambda found: found[1] != "agent")
        inside = parts[-len(tail) :] != list(tail)
        return kind, f"it is inside {'/'.join(tail)}" if inside else _what(tail, kind)
    if name in protected_names.CI_FILES or any(_inside(folders, folder) for folder in protected_names.CI_FOLDERS):
        return "ci", "it controls what CI runs"
    if f"{path}/".startswith(_system_paths()):
        return "steering", "it controls programs of this machine"
    for place, kind, what in paths:
        if path.is_relative_to(place) and not any(
            root.is_relative_to(place) and path.is_relative_to(root) for root in roots
        ):
            return kind, what
    return "", ""


def _above_checkout(path: Path, roots: Sequence[Path]) -> int:
    """Return how many parts of a path lead to a workspace that another agent checked out in its folder; 0 for none.

    Claude Code keeps its worktrees in `.claude/worktrees`. The names above such a workspace say nothing of its files.
    """
    for root in roots:
        if path.is_relative_to(root):
            for n, part in enumerate(above := _fold(root)):
                if part == "worktrees" and n < len(above) - 1 and above[n - 1] in _project_names():
                    return n + 1
    return 0


@cache
def _project_names() -> frozenset[str]:
    return frozenset(protected_names.plain_names(protected_names.PROJECT_NAMES))


def contains_protected(folder: Path, home: Path | None) -> bool:
    """Return True if a directory contains protected places of the home directory, as ~/.config does."""
    if home is None or not (folder == home or folder.is_relative_to(home)):
        return False
    return any((home / name).is_relative_to(folder) for name in protected_names.plain_names(protected_names.HOME_NAMES))


def _starts(parts: Sequence[str], at: int, tail: tuple[str, ...]) -> bool:
    return tuple(parts[at : at + len(tail)]) == tail


def _what(tail: tuple[str, ...], kind: Kind) -> str:
    if tail == (".git",):
        return "it is a repository's git folder"
    return "it contains this program's settings" if kind == "agent" else "it controls other programs"


def _inside(folders: list[str], wanted: tuple[str, ...]) -> bool:
    size = len(wanted)
    return any(tuple(folders[n : n + size]) == wanted for n in range(len(folders)))


def secret(path: Path) -> bool:
    """Return True if a file's name suggests keys or passwords: .env, id_rsa, credentials.json."""
    parts = _fold(path)
    if not parts or _secret_names()[0].fullmatch(parts[-1]):
        return False
    return bool(_secret_names()[1].fullmatch(parts[-1])) or any(f in _SECRET_FOLDERS for f in parts[:-1])


@lru_cache(maxsize=4_096)
def secret_folder(name: str) -> bool:
    """Return True if whatever is in a folder of this name looks like it holds secrets."""
    return _folded_name(name) in _SECRET_FOLDERS


@lru_cache(maxsize=65_536)
def secret_name(name: str) -> bool:
    """Return True if a file of this name looks like it holds secrets, wherever it is."""
    folded = _folded_name(name)
    shown, hidden = _secret_names()
    return hidden.fullmatch(folded) is not None and shown.fullmatch(folded) is None


# What a call does besides what its other effects say.
_CALL_REASONS = {OUTSIDE_SANDBOX: f"runs {OUTSIDE_SANDBOX}", STAGED: "brings the changes of a staged turn"}
_PASSWORD = rb"(?i)https?://(?:[^/@\s]*:[^/@\s]+|[^/@\s]{20,})@|extraheader\s*="


def contains_password(config: Path | str) -> bool:
    """Return True if a git configuration contains a password or token, in an address or a header."""
    try:
        return re.search(_PASSWORD, read_start(str(config), 1 << 18)) is not None
    except (OSError, ValueError):
        return False


def _is_secret(path: Path) -> bool:
    return secret(path) or (path.name == "config" and path.parent.name == ".git" and contains_password(path))


class Matcher:
    """Match a set of rules against single effects.

    cwd, home: anchors of path globs.
    find: returns the protected paths; called once, for the first write.
    """

    def __init__(
        self, rules: Iterable[Rule], cwd: Path, home: Path, find: Callable[[], ProtectedPaths] = tuple
    ) -> None:
        self.rules = tuple(rules)
        self._find = find
        self._cwd, self._home = cwd, home

    @cached_property
    def paths(self) -> ProtectedPaths:
        return self._find()

    def is_secret(self, path: Path, workspace: Workspace) -> bool:
        """Return True if a file looks like it holds secrets, by its name, or outside the workspace by its place."""
        away = not workspace.inside(path) and in_secret_place(path, self._home) and not workspace.may_read(path)
        return away or _is_secret(path)

    def first(self, kind: RuleList, tool: str, effect: Effect) -> Rule | None:
        """Return the first matching rule of a list; see `all`."""
        return next(self.all(kind, tool, effect), None)

    def all(self, kind: RuleList, tool: str, effect: Effect) -> Iterator[Rule]:
        """Yield the matching rules of a list, for effects other than commands.

        tool: "" if it is not built in.
        """
        return (r for r in self.rules if r.list == kind and self._matches(r, tool, effect))

    def _matches(self, rule: Rule, tool: str, effect: Effect) -> bool:
        if effect.kind == "run":
            return False
        named = rule.covers(effect.kind) or rule.tool == tool_name(tool) or names_tool((rule.tool,), tool)
        if not named or rule.spec is None:
            return named
        if effect.kind in ("read", "write"):
            return self._path_matches(rule, Path(effect.target))
        if effect.kind == "fetch":
            return _domain_matches(rule, effect.target)
        return effect.kind in ("state", "prompt", "call") and effect.target in (rule.spec, rule.spec.removesuffix(":*"))

    def _path_matches(self, rule: Rule, path: Path) -> bool:
        pattern, text = self.pattern(rule), comparable(str(path))
        if pattern.match(text):
            return True
        return path == anchored(rule.spec or "", Path(rule.base), self._cwd, self._home)[0] and bool(
            pattern.match(f"{text}/.")
        )

    def pattern(self, rule: Rule) -> re.Pattern[str]:
        """Return a pattern over absolute resolved paths; deny and ask rules ignore case, as some file systems do."""
        base, pattern = anchored(rule.spec or "", Path(rule.base), self._cwd, self._home)
        return path_pattern("" if base == Path("/") else str(base), pattern, rule.list != "allow")

    def place(self, rule: Rule) -> Path | None:
        """Return the one path that a rule about files names, with everything below it; None if it has a wildcard."""
        base, pattern = anchored(rule.spec or "", Path(rule.base), self._cwd, self._home)
        name = pattern.removesuffix("/**").rstrip("/")
        return None if not name or set("*?[{") & set(name) else Path(real_path(base / name))

    def patterns(self, kinds: Iterable[RuleList], about: Callable[[Rule], bool]) -> list[re.Pattern[str]]:
        """Return patterns over absolute resolved paths for the rules of these lists that satisfy `about`."""
        found = []
        for rule in self.rules:
            if rule.list not in kinds or not about(rule):
                continue
            if rule.spec is None:
                found.append(re.compile(""))
            else:
                found.append(self.pattern(rule))
        return found

    def for_command(self, kind: RuleList, command: str) -> Rule | None:
        """Return the first rule that covers a whole command line: the bare tool or its exact text."""
        about = (r for r in self.rules if r.list == kind and r.covers("run"))
        return next((r for r in about if r.spec in (None, command.strip())), None)


def _domain_matches(rule: Rule, url: str) -> bool:
    """Return True if a rule covers the host of a URL, spelled as by `agent_tools.net.urls`.

    WebFetch follows redirects between a host and its www., so a deny or ask rule for one covers both.
    """
    from urllib.parse import urlsplit

    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        wanted = parse_host_pattern((rule.spec or "").removeprefix("domain:"))
    except ToolError:  # `read_rule` has refused it
        return False
    hosts = (host,) if rule.list == "allow" else (host, host.removeprefix("www."), f"www.{host}")
    return any(h.endswith(wanted[1:]) if wanted.startswith("*.") else h == wanted for h in hosts)


def by_rule(text: str, level: Level, rule: Rule, *, final: bool = False) -> Verdict:
    """Return the verdict of a rule."""
    words = {Level.ALLOW: "is allowed by", Level.ASK: "needs approval because of", Level.DENY: "is denied by"}
    why = f": {rule.why}" if rule.why else ""
    return Verdict(text, level, f"{words[level]} {rule.text} ({rule.source}){why}", rule.text, "rule", final)


def not_known(text: str, why: str, rule: str) -> Verdict:
    """Return an ASK verdict on what cannot be compared with a rule; "" if there is none that it could break."""
    return Verdict(text, Level.ASK, why, rule, "rule" if rule else "default", final=bool(rule))


def kept_rule(matcher: Matcher) -> str:
    """Return a rule that keeps files from being read; "" without one."""
    rules = (r.text for r in matcher.rules if r.covers("read") and r.list in ("deny", "ask") and r.spec)
    return next(rules, "")


def decide_path(
    matcher: Matcher, workspace: Workspace, effect: Effect, tool: str = "", *, restricted: bool = False
) -> Verdict:
    """Return the verdict on an effect other than a command: deny, protected, ask, allow, then the default.

    tool: name of the tool; "" for the effect of a program. restricted: see `Policy`.
    """
    if effect.kind in ("read", "write"):
        effect = effect.replace(target=workspace.as_commands_see(effect.target))
    target = effect.target
    if rule := matcher.first("deny", tool, effect):
        return by_rule(target, Level.DENY, rule)
    if effect.kind in ("read", "write") and of_process(target):
        return _of_process(matcher, effect)
    if restricted and effect.kind in ("read", "write"):
        default = _default_verdict(workspace, effect, tool)
        if default.level is not Level.ALLOW and not _is_inside(workspace, target):
            return Verdict(target, Level.DENY, f"{effect.kind}s outside the workspace, which --restricted excludes")
    if effect.kind == "write":
        kind, what = protected(Path(target), matcher.paths, workspace.roots)
        if kind and not any(not restricted and _unlocks(rule, kind) for rule in matcher.all("allow", tool, effect)):
            return Verdict(target, Level.ASK, f"writes a protected file: {what}", final=True)
    if rule := matcher.first("ask", tool, effect):
        return by_rule(target, Level.ASK, rule, final=True)
    if effect.kind == "read" and is_closed_secret(matcher, workspace, effect, tool):
        return Verdict(target, Level.ASK, "reads a file that looks like it holds secrets", final=True)
    if rule := matcher.first("allow", tool, effect):
        return by_rule(target, Level.ALLOW, rule)
    return _default_verdict(workspace, effect, tool)


def is_closed_secret(matcher: Matcher, workspace: Workspace, effect: Effect, tool: str = "") -> bool:
    """Return True if the file of a read looks like it holds secrets, and no rule that names it allows the read."""
    path = Path(effect.target)
    if not matcher.is_secret(path, workspace):
        return False
    by_name = _is_secret(path)
    return not any(_names_file(r) or (r.spec and not by_name) for r in matcher.all("allow", tool, effect))


def _of_process(matcher: Matcher, effect: Effect) -> Verdict:
    """Return the verdict on a path of which only the process that opens it knows what it is."""
    kept = next((r for r in matcher.rules if r.list != "allow" and r.spec and r.covers(effect.kind)), None)
    why = f"{effect.kind}s {effect.target}, which is another file in each process"
    rule = kept.text if kept is not None else ""
    # Any protected or secret file may be there.
    return Verdict(effect.target, Level.ASK, why, rule, "rule" if rule else "default", final=True)


def _unlocks(rule: Rule, kind: str) -> bool:
    """Return True if a rule allows a protected path: one of the user's own that names it without a wildcard."""
    return kind != "agent" and rule.from_user and rule.spec is not None and not set("*?[") & set(rule.spec)


def _names_file(rule: Rule) -> bool:
    """Return True if a rule restricts the file name to more than "any"."""
    return bool(rule.spec) and bool((rule.spec or "").rstrip("/").rpartition("/")[2].strip("*."))


def _default_verdict(workspace: Workspace, effect: Effect, tool: str) -> Verdict:
    target = effect.target
    if effect.kind == "state":
        return Verdict(target, Level.ALLOW, "changes nothing outside the conversation")
    if effect.kind == "prompt":
        return Verdict(target, Level.ASK, f"uses the saved prompt {target}")
    if effect.kind == "call":
        if tool_traits(tool).types_input:
            reason = "types into a program, which may do anything with the input"
        else:
            reason = _CALL_REASONS.get(target, "calls another program's tool")
        return Verdict(target, Level.ASK, reason, final=target == STAGED)
    if effect.kind == "fetch":
        return Verdict(target, Level.ASK, f"sends a request to {target}")
    inside = _is_inside(workspace, target)
    if effect.kind == "read":
        if inside:
            return Verdict(target, Level.ALLOW, "reads inside the workspace")
        if workspace.of_skill(Path(target)):
            return Verdict(target, Level.ALLOW, "reads a file of a skill")
        if workspace.owns_temporary(Path(target)):
            return Verdict(target, Level.ALLOW, "reads a temporary file of the session")
        if workspace.may_read(target):
            return Verdict(target, Level.ALLOW, "reads the output of a command")
        return Verdict(target, Level.ASK, "reads outside the workspace")
    # Commands in the sandbox write there, too; those outside ask.
    if tool and not inside and workspace.is_temporary(Path(target)):
        return Verdict(target, Level.ALLOW, "writes a temporary file of the session")
    return Verdict(target, Level.ASK, "changes a file" if inside else "changes a file outside the workspace")


def _is_inside(workspace: Workspace, target: str) -> bool:
    """Return True if a target is inside the workspace, both as resolved and by the current links."""
    path = Path(target)
    return any(path.is_relative_to(root) for root in workspace.roots) and workspace.inside(path)


def with_mode(verdict: Verdict, mode: str, effect_kind: str, workspace: Workspace, *, reads: bool = False) -> Verdict:
    """Apply the permission mode to a verdict.

    reads: the effect is that of a read-only command.
    """
    if mode == "plan" and effect_kind in ("write", "run", "call") and not reads and verdict.level is not Level.DENY:
        return _mode(verdict, Level.DENY, "is not read-only, and plan mode allows only that")
    if verdict.level is not Level.ASK:
        return verdict
    if mode == "dontAsk":
        text = f"{verdict.reason}, and the mode dontAsk denies everything no rule allows"
        return _mode(verdict, Level.DENY, text).replace(rule=verdict.rule)
    if verdict.final:
        return verdict
    if mode == "bypassPermissions":
        return _mode(verdict, Level.ALLOW, "runs with permissions bypassed")
    if mode == "acceptEdits" and effect_kind == "write" and _is_inside(workspace, verdict.text):
        return _mode(verdict, Level.ALLOW, "edits inside the workspace, which the mode allows")
    return verdict


def _mode(verdict: Verdict, level: Level, reason: str) -> Verdict:
    by: Decider = "mode"
    return verdict.replace(level=level, reason=reason, by=by, rule="")


# Rules for any of these tools also apply to what a search shows.
_SEARCHERS = tuple(tool.name for tool in BUILTIN if tool.searches_content)


class SearchFilter:
    """Decides whether a search of a readable directory may show a file of it.

    Files that deny or ask rules match, or that look like secrets, are hidden unless a rule allows exactly that.
    Searches follow no links, so only the directory of a path is resolved, once per directory.
    """

    def __init__(self, matcher: Matcher, workspace: Workspace) -> None:
        self._matcher = matcher
        self._workspace = workspace
        self._ruled = matcher.patterns(("deny", "ask"), lambda r: r.covers("read") or r.tool in _SEARCHERS)
        self._folders: dict[str, bool] = {}

    def __call__(self, path: Path | str) -> bool:
        text = str(path)
        folder, _, name = text.rpartition("/")
        plain = self._folders.get(folder)
        if plain is None:
            plain = self._folders[folder] = real_path(folder) == folder and not secret(Path(f"{folder}/x"))
        # Whether a git configuration is secret depends on its content.
        plain = plain and not (name == "config" and folder.endswith("/.git"))
        if (
            plain
            and not secret_name(name)
            and not (self._ruled and any(p.match(comparable(text)) for p in self._ruled))
        ):
            return True
        reads = Effect("read", real_path(text))
        verdicts = [decide_path(self._matcher, self._workspace, reads, tool) for tool in _SEARCHERS]
        # A question that is not final concerns the directory, and was answered for it.
        return all(v.level is Level.ALLOW or (v.level is Level.ASK and not v.final) for v in verdicts)

"""What a command in the sandbox must not read or write in the workspace: the rules about files, as mounts.

Closed to every program are files that `Read` rules deny and files that look like they hold secrets; read-only are those
that `Edit` rules deny. Of the files that git has, only those are closed that a `Read` rule of the user's own denies:
git changes its files by itself, and everyone can read them there. A closed file cannot be opened: every program reports
that, and git neither stores nor replaces it.

The folders of the workspace are listed once, and again when they have changed. Folders of installed packages are left
out, except for paths that a rule names without a wildcard.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from agent_cli.kernel.rules import Rule
from agent_cli.knowledge.memory import FOREIGN_FOLDERS
from agent_cli.policy.git_use import NotUsableError, Use, git_to_read
from agent_cli.policy.path_globs import comparable
from agent_cli.policy.path_policy import Matcher, is_closed_secret, secret, secret_folder, secret_name
from agent_tools.base import Effect
from agent_tools.fs.safe_files import read_regular
from agent_tools.fs.workspace import Workspace
from agent_tools.process.guarded_git import GitError
from agent_tools.record import Value
from agent_tools.sandbox.appeared import blob_id
from agent_tools.sandbox.conditions import MaskedPath
from agent_tools.sandbox.profile import find_repository

# Each is a mount; with more of them, commands would start too slowly.
MAX_MASKS = 200
# Names in a workspace that are looked at.
MAX_NAMES = 100_000
# The times of a folder that changed this recently may not show its next change.
_UNSETTLED_NS = 2_000_000_000
_GIT_SECONDS = 5.0
# Larger files are not compared with what git has.
_MAX_COMPARED_BYTES = 4 << 20
# More paths are not given to git, which then lists all files.
_MAX_GIVEN = 500
# Names that no file has: a rule that covers them covers everything in a folder.
_ANY_NAMES = ("\1", "\1/\1")


class Mask(Value):
    """A file, or a folder with everything below, that rules keep from commands, or that looks like it holds secrets.

    closed: from reading and writing; otherwise from writing.
    why: the rule; "" if it looks like it holds secrets.
    asks: the rule only asks.
    own: the rule is the user's own.
    whole: it is a folder.
    repository: a directory of the repository that it is in; "" for none.
    tracked: git has it in its index.
    stored: git has what is in it.
    """

    path: str
    closed: bool
    why: str = ""
    asks: bool = False
    own: bool = False
    whole: bool = False
    repository: str = ""
    tracked: bool = False
    stored: bool = False

    def holds(self, *, vouched: bool) -> bool:
        """Return True if it is in force for a command. vouched: a user or a rule allowed that command."""
        if self.stored:
            return self.closed and self.own and not self.asks
        return not (self.asks and vouched)

    @property
    def place(self) -> MaskedPath:
        return MaskedPath(Path(self.path), self.closed, self.why)


class FoundMasks(Value):
    """All masks of a workspace.

    missing: paths that no command may create, each as a directory of the workspace and a path below it.
    broad: rules that cover a whole directory of the workspace, which no mount can hold.
    unseen: there are more names in the workspace than are looked at.
    """

    masks: tuple[Mask, ...] = ()
    missing: tuple[tuple[Path, str], ...] = ()
    broad: tuple[str, ...] = ()
    unseen: bool = False


class _Folder(NamedTuple):
    """A listed folder. stamp: of the state that was listed; None if the next listing may differ unnoticed."""

    stamp: tuple[int, int, int] | None
    folders: tuple[str, ...] = ()
    masks: tuple[Mask, ...] = ()
    repository: bool = False
    names: int = 0


class _Judge:
    """Decides by the rules which names are masked."""

    def __init__(self, matcher: Matcher, workspace: Workspace) -> None:
        self._matcher, self._workspace = matcher, workspace
        about = [r for r in matcher.rules if r.list != "allow" and (r.covers("read") or r.covers("write"))]
        self._patterns = [(rule, matcher.pattern(rule)) for rule in about if rule.spec is not None]
        covering = [r for r, p in self._patterns if any(_covers(p, str(root)) for root in workspace.roots)]
        covering += [rule for rule in about if rule.spec is None]
        self.broad = tuple(rule.text for rule in covering if rule.list == "deny")
        self._patterns = [(rule, pattern) for rule, pattern in self._patterns if rule not in covering]
        self.rules = [rule for rule, _ in self._patterns]
        whole = "|".join(f"(?:{pattern.pattern})" for _, pattern in self._patterns)
        self._pattern = re.compile(whole, re.DOTALL | re.IGNORECASE) if whole else None

    def of_file(self, folder: str, name: str, *, among_secrets: bool) -> Iterator[Mask]:
        path = f"{folder}/{name}"
        hit = among_secrets or secret_name(name) or (self._pattern and self._pattern.match(comparable(path)))
        return self.of_path(path) if hit else iter(())

    def of_path(self, path: str, *, whole: bool = False) -> Iterator[Mask]:
        """Yield the masks of a path: one mask against reading, and one against writing."""
        for kind in ("read", "write"):
            effect = Effect(kind, path)
            rule = self._first("deny", effect)
            if rule is None and kind == "read" and is_closed_secret(self._matcher, self._workspace, effect):
                yield Mask(path, True, whole=whole)
            elif (rule := rule or self._first("ask", effect)) is not None:
                asks = rule.list == "ask"
                yield Mask(path, kind == "read", rule.text, asks, rule.from_user, whole)

    def of_folder(self, path: str) -> Iterator[Mask]:
        """Yield what is denied of everything in a folder, by one rule."""
        found = [rule for rule, pattern in self._patterns if rule.list == "deny" and _covers(pattern, path)]
        for kind in ("read", "write") if found else ():
            if rule := next((r for r in found if r.covers(kind)), None):
                yield Mask(path, kind == "read", rule.text, own=rule.from_user, whole=True)

    def _first(self, kind: str, effect: Effect) -> Rule | None:
        return next((r for r in self._matcher.all(kind, "", effect) if r in self.rules), None)  # type: ignore[arg-type]


def _covers(pattern: re.Pattern[str], folder: str) -> bool:
    """Return True if a rule's pattern covers everything in a folder."""
    return all(pattern.match(comparable(f"{folder}/{name}")) for name in _ANY_NAMES)


class WorkspaceMasks:
    """Finds the masks of a workspace. Thread-safe.

    env, use: for git, see `git_use`.
    """

    def __init__(self, env: Mapping[str, str], use: Use) -> None:
        self._env, self._use = env, use
        self._lock = threading.Lock()
        self._root = ""
        self._rules: tuple[Rule, ...] = ()
        self._judge: _Judge | None = None
        self._folders: dict[str, _Folder] = {}
        self._whole: dict[str, tuple[Mask, ...]] = {}
        # Folders of which git has files, so that they cannot be masked as a whole.
        self._open: set[str] = set()
        self._tracked: dict[str, tuple[object, Mapping[str, str] | None]] = {}
        self._stored: dict[str, tuple[object, bool]] = {}
        # Files that git did not have at some time of the session.
        self._untracked: set[str] = set()

    def find(self, matcher: Matcher, workspace: Workspace) -> FoundMasks:
        with self._lock:
            self._root = str(workspace.root)
            if self._judge is None or self._rules != matcher.rules:
                self._rules, self._judge = matcher.rules, _Judge(matcher, workspace)
                self._folders, self._whole, self._open = {}, {}, set()
            judge, roots = self._judge, [str(root) for root in workspace.roots]
            while True:
                unseen, found = self._list(judge, roots)
                named, missing = self._named(judge, matcher, roots, {mask.path for mask in found})
                found = list(self._compared([*found, *named]))
                opened = {mask.path for mask in found if mask.whole and mask.tracked} - self._open
                if not opened:
                    return FoundMasks(tuple(found), missing, judge.broad, unseen)
                self._open |= opened

    def ask_git(self, root: str, *words: str, seconds: float = _GIT_SECONDS) -> Mapping[str, str] | None:
        """Return the absolute paths that git prints with -z, each with what precedes it; None if it fails.

        root: a directory of the repository. Trust in the workspace does not cover repositories inside it: there, git is
        used if nothing needs trust.
        """
        repository = find_repository(Path(root))
        if repository is None:
            return None
        top = repository[0]
        use = "plain" if self._use == "trusted" and top != self._root else self._use
        try:
            git = git_to_read(Path(top), self._env, use)
            out = git.run("--literal-pathspecs", *words, seconds=seconds, brief=True)
        except (NotUsableError, GitError):
            return None
        rows = (row.rpartition("\t") if "-s" in words else ("", "", row) for row in os.fsdecode(out).split("\0"))
        return {os.path.join(top, name): about for about, _, name in rows if name}

    def release(self, paths: Iterable[str]) -> None:
        """Forget that git did not have these: a git command may add them that a user or a rule allowed."""
        with self._lock:
            self._untracked -= set(paths)

    def _list(self, judge: _Judge, roots: Sequence[str]) -> tuple[bool, list[Mask]]:
        """Return whether there are too many names, and the masks of what was looked at, the nearest first."""
        found: list[Mask] = []
        listed: dict[str, _Folder] = {}
        queue = deque((root, root, False, secret(Path(root, "x"))) for root in roots)
        names = 0
        while queue and names <= MAX_NAMES:
            path, repository, fixed, among_secrets = queue.popleft()
            if path not in self._open:
                whole = self._whole.get(path)
                if whole is None:
                    whole = self._whole[path] = tuple(judge.of_folder(path)) if path not in roots else ()
                if whole:
                    found += [mask.replace(repository=repository) for mask in whole if mask.closed or not fixed]
                    if any(mask.closed for mask in whole):
                        continue
                    fixed = True
            folder = listed[path] = self._folder(judge, path, among_secrets=among_secrets)
            names += folder.names
            if folder.repository:
                repository = path
            if folder.masks:
                found += [m.replace(repository=repository) for m in folder.masks if m.closed or not fixed]
            queue.extend(
                [(f"{path}/{name}", repository, fixed, among_secrets or secret_folder(name)) for name in folder.folders]
            )
        self._folders = listed
        return bool(queue), found

    def _folder(self, judge: _Judge, path: str, *, among_secrets: bool) -> _Folder:
        try:
            status = os.lstat(path)
        except OSError:
            return _Folder(None)
        stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        known = self._folders.get(path)
        if known is not None and known.stamp == stamp:
            return known
        settled = max(status.st_mtime_ns, status.st_ctime_ns) < time.time_ns() - _UNSETTLED_NS
        try:
            entries = list(os.scandir(path))
        except OSError:
            return _Folder(None)
        folders: list[str] = []
        masks: list[Mask] = []
        repository = False
        for entry in entries:
            name = entry.name
            if name == ".git":
                repository = True
            elif entry.is_dir(follow_symlinks=False):
                folders += [] if name in FOREIGN_FOLDERS else [name]
            elif not entry.is_symlink():  # what it leads to has a name, too
                masks += judge.of_file(path, name, among_secrets=among_secrets)
        return _Folder(stamp if settled else None, tuple(folders), tuple(masks), repository, len(entries))

    def _named(
        self, judge: _Judge, matcher: Matcher, roots: Sequence[str], known: set[str]
    ) -> tuple[list[Mask], tuple[tuple[Path, str], ...]]:
        """Return masks of the paths that rules name, wherever they are, and those that no command may create."""
        found: list[Mask] = []
        missing: list[tuple[Path, str]] = []
        for rule in judge.rules:
            place = matcher.place(rule)
            if rule.list != "deny" or place is None or str(place) in {*known, *self._open}:
                continue
            root = next((r for r in roots if place.is_relative_to(r)), "")
            if os.path.lexists(place):
                # Outside of the workspace nothing can be written.
                closed = rule.covers("read")
                if closed or root:
                    whole = place.is_dir()
                    found.append(Mask(str(place), closed, rule.text, own=rule.from_user, whole=whole, repository=root))
            elif root and rule.covers("write"):
                missing.append((Path(root), os.path.relpath(place, root)))
        return found, tuple(missing)

    def _compared(self, masks: Iterable[Mask]) -> Iterator[Mask]:
        """Yield the masks, with what git has of them."""
        by_repository: dict[str, list[Mask]] = {}
        for mask in masks:
            by_repository.setdefault(mask.repository, []).append(mask)
        for root, found in by_repository.items():
            tracked = self._tracked_in(root, tuple(mask.path for mask in found)) if root else {}
            for mask in found:
                if mask.whole:
                    # A folder that seems empty would make git print what it has of it.
                    inside = tracked is None or any(name.startswith(f"{mask.path}/") for name in tracked)
                    yield mask.replace(tracked=inside)
                elif tracked and (about := tracked.get(mask.path)):
                    yield mask.replace(tracked=True, stored=self._has_stored(mask, about))
                else:
                    self._untracked.add(mask.path)
                    yield mask

    def _has_stored(self, mask: Mask, about: str) -> bool:
        """Return True if git has what is in a file, and does not only have its name: a command could add that.

        about: its mode, object and stage in the index.
        """
        if not mask.closed:
            return mask.path not in self._untracked
        state, identity = _stamp(mask.path), about.split(" ")[1:2]
        known = self._stored.get(mask.path)
        if known is None or known[0] != (state, identity):
            try:
                data = read_regular(mask.path, _MAX_COMPARED_BYTES)
            except OSError:
                data = None
            versions = () if data is None else (data, data.replace(b"\r\n", b"\n"))
            same = [blob_id(version, len(identity[0])) for version in versions]
            known = self._stored[mask.path] = ((state, identity), identity[0] in same)
        return known[1]

    def _tracked_in(self, root: str, paths: tuple[str, ...]) -> Mapping[str, str] | None:
        """Return which of these paths, and what below them, git has in its index; None if that is not known."""
        repository = find_repository(Path(root))
        if repository is None:
            return {}
        stamp = (_stamp(f"{repository[1]}/index"), paths)
        known = self._tracked.get(root)
        if known is None or known[0] != stamp:
            given = ("--", *paths) if len(paths) <= _MAX_GIVEN else ()
            known = self._tracked[root] = (stamp, self.ask_git(root, "ls-files", "-s", "-z", *given))
        return known[1]


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino

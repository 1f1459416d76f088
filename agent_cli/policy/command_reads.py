"""Verdicts on what a read-only program reads: files, the matches of globs, and whole trees.

Also checks that a program name means the usual program, and that no variable changes what programs do.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from agent_cli.kernel.decisions import Level, Verdict
from agent_cli.kernel.events import Decider
from agent_cli.policy.git_use import NoRepositoryError, NotUsableError, Use, git_to_read
from agent_cli.policy.operands import pattern_matches
from agent_cli.policy.path_policy import Matcher, SearchFilter, decide_path, kept_rule, not_known
from agent_cli.policy.programs.effects import FileRead
from agent_cli.policy.programs.git_reads import GitNames, Objects, may_print, printed_files
from agent_cli.policy.programs.invocation import invocation
from agent_cli.policy.shell.words import MEANINGFUL, SimpleCommand
from agent_tools.base import Effect
from agent_tools.fs.safe_files import read_start
from agent_tools.fs.workspace import Workspace, of_process, real_path
from agent_tools.lazy import lazy_pattern
from agent_tools.process.guarded_git import GitError
from agent_tools.shell.state import NON_INTERACTIVE

# Exported variables that may change what a read-only program does.
_TAINTING = lazy_pattern(
    r"LD_\w*|DYLD_\w*|BASH_\w*|ENV|IFS|PS4|CDPATH|GLOBIGNORE|GIT_\w*|\w*PAGER|\w*EDITOR|VISUAL|PYTHON\w*|NODE_\w*|PERL\w*|"
    r"RUBY\w*|LESS\w*|RIPGREP_CONFIG_PATH|GREP_OPTIONS|LOCPATH|GCONV_PATH|MALLOC_\w*|TMPDIR|HOME|XDG_CONFIG_HOME|"
    r"GH_\w*|GITHUB_\w*|KUBE\w*|DOCKER_\w*|HELM_\w*|PIP_\w*|BROWSER|JAVA_TOOL_OPTIONS|"
    r"OPENSSL_\w*|PHP\w*|PS_\w*|(?:PYENV|RBENV|NODENV|ASDF|MISE|VOLTA|NVM)_\w*|"
    r"POSIXLY_CORRECT|TAR_OPTIONS|UNZIP\w*|ZIPINFO\w*|GZIP|XZ_\w*|ZSTD_\w*|BZIP2?|GLIBC_\w*|NLSPATH|MAGIC|"
    r"\w*_proxy|\w*_PROXY"
)


class CommandContext(NamedTuple):
    """Context for evaluating a command line, apart from the rules.

    carried: variables that earlier commands exported.
    git_use: how git may be used in the workspace.
    exported: the variables that commands start with.
    env: those of them that the user's git needs.
    """

    workspace: Workspace
    home: str
    mode: str
    path: str
    carried: Mapping[str, str]
    git_use: Use = "trusted"
    exported: Mapping[str, str] = {}
    env: Mapping[str, str] = {}


def changes_commands(name: str, context: CommandContext) -> bool:
    """Return True if setting a shell variable may change what bash or a program does."""
    exported = name in context.exported or name in context.carried or name in NON_INTERACTIVE
    return exported or bool(MEANINGFUL.fullmatch(name) or _TAINTING.fullmatch(name))


def tainted_variable(context: CommandContext) -> str:
    """Return a variable that an earlier command exported and that may change what programs do; "" for none."""
    return next((n for n in context.carried if _TAINTING.fullmatch(n)), "")


def program_changed(name: str, context: CommandContext) -> str:
    """Return why a program name may not mean the usual program; "" if it does."""
    if "/" in name:
        return "" if re.fullmatch(r"(?:/usr)?/bin/[^/]+", name) else "a program by its path"
    usual = _which(name, context.path)
    if "PATH" in context.carried and real_path(_which(name, context.carried["PATH"])) != real_path(usual):
        return f"an earlier command changed PATH, and {name} is another program now"
    if usual and not usual.startswith("/"):
        return f"PATH has a folder that is not absolute, where {name} may be another program"
    if not usual:
        return ""
    real = real_path(usual)
    if context.workspace.inside(Path(real)):
        return f"{name} is {real}, a file of the workspace"
    # A virtual environment links `python` to a `python3.12` elsewhere; a link to another name may be any program.
    places = (usual, os.path.join(real_path(os.path.dirname(usual)), name))  # noqa: PTH120
    if any(Path(p).is_relative_to(root) for p in places for root in context.workspace.roots) and not re.fullmatch(
        rf"{re.escape(name)}[\d.]*", os.path.basename(real)
    ):
        return f"{name} is a link of the workspace to {real}"
    return ""


def _which(name: str, path: str) -> str:
    """Return the absolute file that a program name means; a relative directory if one precedes it; "" for none."""
    for folder in path.split(os.pathsep):
        if not folder.startswith("/"):
            return folder or "."
        file = f"{folder}/{name}"
        if os.access(file, os.X_OK) and os.path.isfile(file):  # noqa: PTH113 - the method raises where a parent is closed
            return file
    return ""


def repository(folder: Path) -> Path | None:
    """Return the repository that git would find from a directory; None if there is none."""
    return next((p for p in (folder, *folder.parents) if os.path.lexists(p / ".git")), None)


GIT_SECONDS = 1.5
MAX_LISTED_BYTES = 1 << 22
_MAX_SCANNED = 10_000
_OPEN_FILES = lazy_pattern(r"/dev/(?:null|stdin|fd/\d\d?)")
# What the machine says of itself to everybody.
_PUBLIC_FILES = frozenset(
    "/etc/os-release /etc/lsb-release /etc/debian_version /proc/cpuinfo /proc/meminfo /proc/version "
    "/proc/loadavg".split()
)
_IGNORE_FILES = frozenset((".gitignore", ".ignore", ".rgignore"))


class CommandReads:
    """Evaluates what the parts of one command line read."""

    def __init__(self, matcher: Matcher, context: CommandContext) -> None:
        self._matcher = matcher
        self._context = context
        self._workspace = context.workspace
        self._kept = kept_rule(matcher)

    def verdicts(self, part: SimpleCommand) -> list[Verdict]:
        """Return one verdict for each file named; none for a program that does more than read."""
        if not part.words or part.words[0].why:
            return []
        found = invocation(part).placed
        part, reads = found.part, found.reads
        if isinstance(reads, str):
            if self._kept and found.usual_git is not None and may_print(found.usual_git):
                why = f"prints files that cannot be compared with {self._kept}"
                return [not_known(part.text, why, self._kept)]
            return []
        patterns = {w.text for w in part.words if w.pattern and not w.why}
        verdicts = [v for reading in reads for v in self._read(part, reading, pattern=reading.path in patterns)]
        if found.is_usual and found.unnamed_reads:
            verdicts += self._unnamed(part, found.unnamed_reads)
        return verdicts

    def _unnamed(self, part: SimpleCommand, wanted: Sequence[GitNames | Objects]) -> Iterator[Verdict]:
        """Yield the verdict on files that git would print although the command does not name them."""
        if odd := next((w.text for w in part.words if w.pattern and _may_be_revision(w.text, part.cwds)), ""):
            why = f"prints what a file's name may mean to git: {odd}"
            yield not_known(part.text, why, self._kept)
            return
        root = self._workspace.root
        cwds = [Path(cwd) for cwd in part.cwds or ()]
        try:
            if not cwds or any(repository(cwd) != root or real_path(str(cwd)) != str(cwd) for cwd in cwds):
                raise NotUsableError("git runs in another directory")
            git = git_to_read(root, self._context.env, self._context.git_use)
            # A directory that is not there is one where nothing runs.
            there = [cwd for cwd in cwds if cwd.is_dir()]
            names = [name for cwd in there for name in printed_files(git, root, cwd, wanted, GIT_SECONDS)]
        except NoRepositoryError:
            return
        except (NotUsableError, GitError) as error:
            yield not_known(part.text, f"prints unknown files: {error}", self._kept)
            return
        readable = SearchFilter(self._matcher, self._workspace)
        found = {
            name: decide_path(self._matcher, self._workspace, Effect("read", path))
            for name in names
            if not readable(path := os.path.normpath(root / name))
        }
        if found:
            name, verdict = max(found.items(), key=lambda item: (item[1].level, item[1].final, bool(item[1].rule)))
            yield verdict.replace(text=part.text, reason=f"prints what is in {name}, which {verdict.reason}")

    def knows(self, part: SimpleCommand) -> bool:
        """Return True if a part only reads, judging by its words."""
        return invocation(part).only_reads

    def verdicts_of(self, part: SimpleCommand, reading: FileRead) -> list[Verdict]:
        """Return the verdicts on one file, glob or tree that a part reads."""
        return list(self._read(part, reading, pattern=False))

    def _read(self, part: SimpleCommand, reading: FileRead, *, pattern: bool) -> Iterator[Verdict]:
        if _OPEN_FILES.fullmatch(reading.path):
            return
        if part.cwds is None and not reading.path.startswith("/"):
            yield not_known(part.text, "reads in an unknown directory", self._kept)
            return
        if reading.path in _PUBLIC_FILES and not self._kept:
            return
        for cwd in part.cwds or ("/",):
            named = pattern_matches(cwd, reading.path) if pattern else [os.path.join(cwd, reading.path)]
            if named is None:
                yield Verdict(part.text, Level.ASK, f"reads too many files to look at each: {reading.path}")
                continue
            if not named:
                # No file matches now; if rules forbid reading some files, one created later might be among them.
                named = [os.path.join(cwd, reading.path)]
                if self._kept and reading.what in ("content", "tree"):
                    why = f"reads files that cannot be compared with {self._kept}: {reading.path}"
                    yield not_known(part.text, why, self._kept)
            if reading.what == "listing":
                named = [os.path.dirname(n) for n in named]  # noqa: PTH120 - as text, as the shell has it
            for path in dict.fromkeys(real_path(n) for n in named):
                verdict = decide_path(self._matcher, self._workspace, Effect("read", path))
                named_only = reading.what in ("names", "listing") and not verdict.rule and not of_process(path)
                if named_only and verdict.final and verdict.level is Level.ASK:
                    if self._workspace.may_read(path):
                        continue  # names, sizes and dates of secret files are not secret
                    verdict = verdict.replace(reason="reads outside the workspace", final=False)
                text = f"{verdict.reason}: {path}" if verdict.level else verdict.reason
                yield verdict.replace(text=part.text, reason=text)
                if reading.what == "tree" and (found := self._tree(path, reading)):
                    yield found.replace(text=part.text)
                if reading.what == "tracked" and (found := self._tracked(path, reading)):
                    yield found.replace(text=part.text)

    def _tracked(self, path: str, reading: FileRead) -> Verdict | None:
        """Return an ASK verdict if not every file that git tracks may be read without asking."""
        root = self._workspace.root
        try:
            if repository(Path(path)) != root:
                raise NotUsableError("git runs in another directory")
            git = git_to_read(root, self._context.env, self._context.git_use)
            out = git.run("ls-files", "-z", cwd=str(root), seconds=GIT_SECONDS, most=MAX_LISTED_BYTES)
        except (NoRepositoryError, NotUsableError, GitError) as error:
            return Verdict(path, Level.ASK, f"reads files that are not known: {error}", final=bool(self._kept))
        readable, linked = SearchFilter(self._matcher, self._workspace), None
        for name in os.fsdecode(out).split("\0"):
            if reading.split and (re.search(r"[\s'\"\\*?\[]", name) or name.startswith("-")):
                return Verdict(path, Level.ASK, f"splits the name of a file into several: {name}")
            whole = os.path.join(root, name)
            if os.path.islink(whole) and (found := self._link(whole)):  # noqa: PTH114
                if found.level is Level.DENY:
                    return found
                linked = linked if linked is not None and linked.final else found
            if name and not readable(whole):
                kept = decide_path(self._matcher, self._workspace, Effect("read", real_path(whole)))
                by: Decider = "rule" if kept.rule else "default"
                return Verdict(path, Level.ASK, f"reads {name}, which {kept.reason}", kept.rule, by, final=True)
        return linked

    def _link(self, path: str) -> Verdict | None:
        """Return the verdict on the target of a link that a program follows, unless it may be read."""
        real = real_path(path)
        verdict = decide_path(self._matcher, self._workspace, Effect("read", real))
        return None if verdict.level is Level.ALLOW else verdict.replace(reason=f"{verdict.reason}: {path} -> {real}")

    def _tree(self, path: str, reading: FileRead) -> Verdict | None:
        """Return an ASK verdict if not everything below a directory may be read without asking."""
        if not os.path.isdir(path):  # noqa: PTH112 - the method raises where a parent is closed
            return None
        readable, hidden = SearchFilter(self._matcher, self._workspace), reading.hidden
        shown = _reincluded_above(path) if hidden == "none" else []
        looked, folders, first, linked = 0, [path], None, None
        entered = {real_path(path)}
        while folders:
            here = folders.pop()
            try:
                entries = list(os.scandir(here))
            except OSError:
                continue
            looked += len(entries)
            if looked > _MAX_SCANNED:
                why = f"reads everything below {path}, which is too much to look for secret files in"
                return first or Verdict(path, Level.ASK, why, final=bool(self._kept))
            names = [e.name for e in entries]
            if reading.split and (odd := next((n for n in names if re.search(r"[\s'\"\\*?\[]|^-", n)), "")):
                return Verdict(path, Level.ASK, f"splits the name of a file into several: {odd}")
            if hidden == "none":
                shown += _shown(os.path.join(here, n) for n in names if n in _IGNORE_FILES)
            for entry in entries:
                if entry.name[0] == "." and not _is_read(entry.name, hidden, shown):
                    continue
                if reading.follows and entry.is_symlink() and (found := self._link(entry.path)):
                    if found.level is Level.DENY:
                        return found.replace(text=path)
                    # One that only leads outside must not hide a denied or secret file.
                    linked = linked if linked is not None and linked.final else found.replace(text=path)
                # For the sake of rules; what may be behind links to parents is no reason for a question by itself.
                if reading.enters and self._kept and entry.is_symlink() and entry.is_dir():
                    real = real_path(entry.path)
                    folders += [] if real in entered else [real]
                    entered.add(real)
                folder = entry.is_dir(follow_symlinks=False)
                left_out = reading.closed if folder else reading.without
                if any(fnmatchcase(entry.name, pattern) for pattern in left_out):
                    continue
                if folder:
                    # Files that git and node store there are not project files, unless rules mention them.
                    if self._kept or entry.name not in (".git", "node_modules"):
                        folders.append(entry.path)
                elif reading.only and not any(fnmatchcase(entry.name, pattern) for pattern in reading.only):
                    continue
                elif not readable(entry.path):
                    why = f"reads everything below {path}, which includes {os.path.relpath(entry.path, path)}"
                    kept = decide_path(self._matcher, self._workspace, Effect("read", entry.path))
                    found = Verdict(path, Level.ASK, why, kept.rule, "rule" if kept.rule else "default", final=True)
                    # A denied file takes precedence over one that only looks like a secret, wherever it is.
                    if kept.level is Level.DENY or not self._kept:
                        return found
                    first = first or found
        return first or linked


def _is_read(name: str, hidden: str, shown: Iterable[str]) -> bool:
    """Return True if a hidden file or directory is read; with a type filter only those with an extension."""
    if hidden == "none":
        return any(fnmatchcase(name, pattern) for pattern in shown)
    return hidden == "all" or "." in name[1:]


def _reincluded_above(folder: str) -> list[str]:
    """Return the patterns of hidden names that ignore files above a directory re-include for rg."""
    found: list[str] = []
    for parent in Path(folder).parents:
        found += _shown(str(parent / name) for name in _IGNORE_FILES)
        if os.path.lexists(parent / ".git"):
            break
    return found


def _shown(files: Iterable[str]) -> list[str]:
    """Return the patterns after exclamation marks in ignore files, with each path component separately."""
    found: list[str] = []
    for file in files:
        try:
            lines = read_start(file, 1 << 16).decode("utf-8", "replace").splitlines()
        except OSError:
            continue
        found += [piece for line in lines if line.startswith("!") for piece in line[1:].strip().split("/") if piece]
    return found


def _may_be_revision(pattern: str, cwds: tuple[str, ...] | None) -> bool:
    """Return True if a glob may expand to a name that git reads as a revision with a path, such as HEAD:.env."""
    found = [name for cwd in cwds or ("/",) for name in pattern_matches(cwd, pattern) or [pattern]]
    return cwds is None or ":" in pattern or any(":" in os.path.relpath(name, cwds[0]) for name in found)


def may_be_option(pattern: str, cwds: tuple[str, ...] | None, *, still: bool = True) -> bool:
    """Return True if a glob may expand to a name that is read as an option.

    still: no file is created before it runs.
    """
    if pattern[0] not in "-*?[" or re.match(r"--[\w-]+=", pattern):
        return False
    if cwds is None or pattern[0] == "-" or not still:
        return True
    whole = re.sub(r"\[.*\]", "*", pattern, flags=re.DOTALL)
    return any(f.startswith("-") for cwd in cwds for f in glob.iglob(whole, root_dir=cwd))

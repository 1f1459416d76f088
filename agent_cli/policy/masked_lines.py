"""What the sandbox keeps from one command line: all masks, but not those of files that the line was allowed to open.

A line that the user was asked about opens the files that its words name, and those that its programs are known to read
or remove with a folder; so does a part of it under a rule that names them. A git command opens those that it stages,
moves or rewrites, about which it is asked first. Nothing is opened for a line that runs only because it is sandboxed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from agent_cli.kernel.decisions import Level, Verdict
from agent_cli.policy.command_reads import in_named_folder
from agent_cli.policy.effect_verdicts import EffectFinding
from agent_cli.policy.masks import MAX_MASKS, MAX_NAMES, FoundMasks, Mask, WorkspaceMasks
from agent_cli.policy.path_policy import Matcher
from agent_cli.policy.programs.git_reads import git_call
from agent_cli.policy.programs.invocation import invocation
from agent_cli.policy.sandbox_needs import needs_outside
from agent_cli.policy.shell.words import Analysis, SimpleCommand, Word
from agent_tools.fs.workspace import Workspace, real_path
from agent_tools.sandbox.conditions import Confined, MaskedPath

_GIT_VALUED = frozenset(("-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path"))
# Subcommands that leave the work tree alone, apart from those that only read.
_APART = frozenset(
    "archive branch bundle clone config commit-tree fetch format-patch gc hash-object help init maintenance notes "
    "pack-refs prune push reflog remote repack replace tag update-ref var version worktree write-tree".split()
)
_BY_PATHS = frozenset(("add", "stage", "rm", "mv", "restore", "clean"))
# Options whose value is the next word; what that says is neither a path nor a revision.
_VALUED = {
    "checkout switch": "-b -B -c -C --create --force-create --orphan --conflict",
    "commit": "-m -F -C -c -t --message --file --author --date --template --reuse-message --reedit-message --cleanup "
    "--trailer --fixup --squash",
    "merge": "-m -F -s -X --message --file --strategy --strategy-option --cleanup",
    "stash": "-m --message",
}
_VALUES = {name: frozenset(words.split()) for names, words in _VALUED.items() for name in names.split()}
_GIT_SECONDS = 1.5


class LineMasks:
    """The sandbox's masks, for the command lines that a policy decides on."""

    def __init__(
        self, files: WorkspaceMasks, matcher: Matcher, workspace: Workspace, confined: Confined, path: str
    ) -> None:
        """path: PATH of commands."""
        self._files, self._matcher, self._workspace = files, matcher, workspace
        self._path = path
        self.confined = confined

    @cached_property
    def _found(self) -> FoundMasks:
        return self._files.find(self._matcher, self._workspace) if self.confined.holds() else FoundMasks()

    @property
    def excess(self) -> str:
        """Why not all of them can be in force; "" if they can."""
        held = [mask for mask in self._found.masks if mask.holds(vouched=False)]
        if len(held) <= MAX_MASKS:
            return ""
        first = os.path.relpath(held[0].path, self._workspace.root)
        what = "files that rules deny or that look like they hold secrets"
        return f"needs masks for {len(held):,} {what} ({first}, ...), of which the sandbox has {MAX_MASKS} at most"

    @property
    def gap(self) -> str:
        """Why the sandbox does not hold all that rules say about files; "" if it does."""
        if broad := next(iter(self._found.broad), ""):
            return f"may do what the rule {broad} denies, which the sandbox does not prevent"
        return f"may read secrets among more than {MAX_NAMES:,} files, which are not all masked" * self._found.unseen

    def all_unreadable(self) -> tuple[MaskedPath, ...]:
        """Return everything that rules keep from being read, or that looks like it holds secrets."""
        return tuple(mask.place for mask in self._found.masks if mask.closed)

    def of_line(
        self,
        analysis: Analysis,
        *,
        vouched: bool,
        may_open: Callable[[SimpleCommand, str], bool],
    ) -> tuple[MaskedPath, ...]:
        """Return what a command line must not use.

        vouched: a user or a rule allowed it.
        may_open: returns True if a user or a rule let a part use what a word of it names.
        """
        held = [mask for mask in self._found.masks if mask.holds(vouched=vouched)]
        if held:
            opened = {mask.path for part in analysis.parts for mask in _opened(part, held, may_open)}
            if vouched and len(analysis.parts) == 1:
                # Nothing else of the line could read what is removed.
                opened |= {mask.path for mask in _below(analysis.parts[0], ("remove",), held)}
            held = [mask for mask in held if mask.path not in opened]
        by_git = {mask.path for part in analysis.parts for mask in self._touched_by_git(part)}
        self._files.release(by_git)
        return tuple(mask.place for mask in held if mask.path not in by_git)

    @property
    def missing(self) -> tuple[tuple[Path, str], ...]:
        return self._found.missing

    def findings(self, part: SimpleCommand) -> Iterator[EffectFinding]:
        """Yield a finding if git could stage, move or rewrite what is masked."""
        if touched := self._touched_by_git(part):
            first, more = touched[0], f" and {len(touched) - 1} more" if len(touched) > 1 else ""
            named = os.path.relpath(first.path, self._workspace.root)
            why = first.why or "it looks like it holds secrets"
            text = f"git may stage, move or rewrite {named}{more}, which the sandbox otherwise protects ({why})"
            yield EffectFinding(Verdict(part.text, Level.ASK, text, first.why, final=True), named)

    def _touched_by_git(self, part: SimpleCommand) -> tuple[Mask, ...]:
        """Return the masked files that a part could stage, move or rewrite, if it is git in the sandbox."""
        held = [mask for mask in self._found.masks if mask.holds(vouched=False)] if part.program == "git" else []
        if not held or needs_outside(part, self.confined, self._workspace, self._path):
            return ()
        part = in_named_folder(part)
        reads = not isinstance(git_call(part.texts[1:]), str)
        return () if reads else tuple(_GitPart(part, held, self._files).touched())


def _opened(
    part: SimpleCommand, masks: Sequence[Mask], may_open: Callable[[SimpleCommand, str], bool]
) -> Iterator[Mask]:
    """Yield the masks of files that a part names, or is known to read or remove with a folder."""
    redirects = [Word(r.target, r.why) for r in part.redirects if r.kind != "network"]
    for word in (*part.words[1:], *redirects):
        for text in {word.text, word.text.rpartition("=")[2]} if may_open(part, word.text) else ():
            yield from _named(part, word.replace(text=text), masks, below=False)
    yield from _below(part, ("tree", "remove"), masks, may_open)


def _below(
    part: SimpleCommand,
    kinds: Sequence[str],
    masks: Sequence[Mask],
    may_open: Callable[[SimpleCommand, str], bool] = lambda part, word: True,
) -> Iterator[Mask]:
    for touch in invocation(part).touches:
        if touch.kind in kinds and may_open(part, touch.word.text):
            yield from _named(part, touch.word, masks, below=True)


def _named(part: SimpleCommand, word: Word, masks: Iterable[Mask], *, below: bool) -> Iterator[Mask]:
    """Yield the masks that a word names. below: also what is in a folder that it names."""
    if word.why or not word.text or "\0" in word.text:
        return
    for cwd in part.cwds or ():
        path = real_path(os.path.join(cwd, word.text))
        for mask in masks:
            inside = mask.path.startswith(f"{path.rstrip('/')}/") or (word.pattern and _matches_above(mask.path, path))
            if (
                mask.path == path
                or (word.pattern and fnmatchcase(mask.path, path))
                or (mask.whole and path.startswith(f"{mask.path}/"))
                or (below and inside)
            ):
                yield mask


def _matches_above(path: str, pattern: str) -> bool:
    return any(fnmatchcase(path[: end.start()], pattern) for end in re.finditer("/", path))


def _among(masks: Iterable[Mask], paths: Collection[str] | None) -> list[Mask]:
    """Return the masks of some paths, or of a folder that holds one; all if the paths are not known."""
    return [m for m in masks if paths is None or m.path in paths or any(p.startswith(f"{m.path}/") for p in paths)]


def _without_values(words: Iterable[Word], valued: Collection[str]) -> Iterator[Word]:
    """Yield the words of a git command that are not values of these options."""
    skip = plain = False
    for word in words:
        text = word.text
        if skip or plain:
            yield from (word,) if plain else ()
            skip = False
            continue
        joined = (text[:2] in valued and len(text) > 2) or ("=" in text and text.partition("=")[0] in valued)
        yield from () if joined else (word,)
        plain = text == "--"
        cluster = re.fullmatch(r"-[A-Za-z]+", text) is not None and f"-{text[-1]}" in valued
        skip = not joined and (text in valued or cluster)


class _GitPart:
    """A git command that does more than read, and the masks in force."""

    def __init__(self, part: SimpleCommand, masks: Sequence[Mask], files: WorkspaceMasks) -> None:
        words = list(part.words[1:])
        while words and words[0].text.startswith("-"):
            del words[: 2 if words[0].text in _GIT_VALUED else 1]
        self._part, self._files = part, files
        self._name = "".join(w.text for w in words[:1])
        self._words = list(_without_values(words[1:], _VALUES.get(self._name, frozenset())))
        unknown = any(word.why for word in (*words[:1], *self._words, *part.assigns))
        self._unknown = unknown or bool(part.why) or part.cwds is None
        self._masks = masks

    def touched(self) -> Iterator[Mask]:
        tracked = [mask for mask in self._masks if mask.tracked]
        others = [mask for mask in self._masks if not mask.tracked]
        name = self._name
        if self._unknown and name not in _APART:
            yield from tracked
            yield from others if name in _BY_PATHS or name == "stash" else self._once_tracked(others)
        elif name in _APART or (name == "stash" and self._texts[:1] in (["drop"], ["clear"], ["list"], ["show"])):
            return
        elif name == "commit":
            if self._has("aiop", "--all", "--include", "--only", "--patch", "--interactive"):
                yield from tracked
            else:
                yield from self._select(tracked, self._words)
        elif name in _BY_PATHS:
            yield from self._by_paths(tracked, others)
        elif name == "stash" and self._texts[:1] not in (["pop"], ["apply"], ["branch"]):
            more = self._has("ua", "--include-untracked", "--all")
            found = [*tracked, *(self._added(others, ignored=self._has("a", "--all")) if more else ())]
            yield from self._select(found, self._after_dashes) if self._after_dashes else found
        elif name == "reset" and not self._has("", "--hard", "--merge", "--keep"):
            return
        elif name in ("checkout", "switch", "merge"):
            yield from self._by_revision(tracked, others)
        else:
            yield from tracked
            yield from self._once_tracked(others)

    @property
    def _texts(self) -> list[str]:
        return [word.text for word in self._words]

    @property
    def _after_dashes(self) -> list[Word]:
        return self._words[self._texts.index("--") + 1 :] if "--" in self._texts else []

    @property
    def _operands(self) -> list[Word]:
        before = self._words[: self._texts.index("--")] if "--" in self._texts else self._words
        return [word for word in before if not (word.text.startswith("-") and len(word.text) > 1)]

    def _has(self, letters: str, *long: str) -> bool:
        """Return True if an option is given, by a letter or by its name, of which git takes any beginning."""
        found = self._texts[: self._texts.index("--") if "--" in self._texts else None]
        short = any(re.match(rf"-[^-mFCctSGub]*[{letters}]", text) for text in found) if letters else False
        return short or any(len(t) > 3 and any(name.startswith(t.partition("=")[0]) for name in long) for t in found)

    def _select(self, masks: Iterable[Mask], words: Iterable[Word]) -> list[Mask]:
        """Return the masks that pathspecs cover, or contain them."""
        found = list(masks)
        if any(word.text.startswith(":") for word in words):
            return found
        named = {m.path for w in words for m in _named(self._part, w, found, below=True)}
        return [mask for mask in found if mask.path in named]

    def _by_paths(self, tracked: list[Mask], others: list[Mask]) -> list[Mask]:
        name, words = self._name, [*self._operands, *self._after_dashes]
        if self._has("n", "--dry-run") or (name == "rm" and self._has("", "--cached")):
            return []
        if name in ("add", "stage"):
            found = [
                *tracked,
                *(() if self._has("u", "--update") else self._added(others, ignored=self._has("f", "--force"))),
            ]
        elif name == "clean":
            found = list(self._added(others, ignored=self._has("xX")))
        else:
            found = [*tracked, *others] if name == "mv" else tracked
        everything = self._has("Au", "--all", "--update", "--pathspec-from-file") or name == "clean"
        return found if everything and not words else self._select(found, words)

    def _added(self, masks: Sequence[Mask], *, ignored: bool) -> Iterator[Mask]:
        """Yield the untracked files that git would add. ignored: also those that it ignores."""
        if ignored:
            yield from masks
            return
        words = ("ls-files", "-z", "--others", "--exclude-standard", "--", *(mask.path for mask in masks))
        found = self._ask(*words) if masks else ()
        yield from _among(masks, found)

    def _by_revision(self, tracked: list[Mask], others: list[Mask]) -> Iterator[Mask]:
        """Yield what differs in a commit that is checked out or merged."""
        if self._after_dashes:
            yield from self._select([*tracked, *self._once_tracked(others)], self._after_dashes)
            return
        if self._has("f", "--force", "--discard-changes"):
            yield from tracked
        for word in self._operands or ([Word("@{u}")] if self._name == "merge" else []):
            name = "@{-1}" if word.text == "-" else word.text
            range_ = f"HEAD...{name}" if self._name == "merge" else f"HEAD..{name}"
            changed = self._ask(
                "diff", "--name-only", "--no-renames", "-z", range_, "--", *(m.path for m in self._masks)
            )
            if changed is not None:
                yield from _among(self._masks, changed)
            elif not any(os.path.lexists(os.path.join(cwd, word.text)) for cwd in self._part.cwds or ()):
                yield from self._masks
            else:
                yield from self._select(tracked, [word])

    def _once_tracked(self, masks: Sequence[Mask]) -> list[Mask]:
        """Return the untracked files that some commit has, so that git may bring it back."""
        words = ("log", "--all", "--format=", "--name-only", "--no-renames", "-z", "--", *(mask.path for mask in masks))
        known = self._ask(*words) if masks else ()
        return _among(masks, known)

    def _ask(self, *words: str) -> Collection[str] | None:
        return self._files.ask_git((self._part.cwds or ("/",))[0], *words, seconds=_GIT_SECONDS)

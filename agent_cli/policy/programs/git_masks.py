"""Which masked files a git command could stage, move or rewrite."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from agent_cli.policy.command_reads import GIT_SECONDS
from agent_cli.policy.masks import Mask, WorkspaceMasks
from agent_cli.policy.programs.git import split_git
from agent_cli.policy.programs.git_reads import git_call
from agent_cli.policy.programs.invocation import Invocation
from agent_cli.policy.shell.words import SimpleCommand, Word
from agent_tools.fs.workspace import real_path

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


def named_masks(part: SimpleCommand, word: Word, masks: Iterable[Mask], *, below: bool) -> Iterator[Mask]:
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


class GitMasks:
    """A git command, and the masks in force."""

    def __init__(self, found: Invocation, masks: Sequence[Mask], files: WorkspaceMasks) -> None:
        part, words = found.part, found.git or split_git(())
        self._found, self._files, self._masks = found, files, masks
        self._name = words.subcommand
        self._words = list(_without_values(words.rest, _VALUES.get(self._name, frozenset())))
        unknown = any(word.why for word in (*words.lead[-1:], *self._words, *part.assigns))
        self._unknown = unknown or bool(part.why) or part.cwds is None

    def touched(self) -> Iterator[Mask]:
        """Yield the masked files that it could stage, move or rewrite."""
        if not isinstance(git_call(self._found.part.texts[1:]), str):
            return  # it only reads
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
        named = {m.path for w in words for m in named_masks(self._found.part, w, found, below=True)}
        return [mask for mask in found if mask.path in named]

    def _by_paths(self, tracked: list[Mask], others: list[Mask]) -> list[Mask]:
        name, words = self._name, [*self._operands, *self._after_dashes]
        if self._has("n", "--dry-run") or (name == "rm" and self._has("", "--cached")):
            return []
        if name in ("add", "stage"):
            new = () if self._has("u", "--update") else self._added(others, ignored=self._has("f", "--force"))
            found = [*tracked, *new]
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
            elif not any(os.path.lexists(os.path.join(cwd, word.text)) for cwd in self._found.part.cwds or ()):
                yield from self._masks
            else:
                yield from self._select(tracked, [word])

    def _once_tracked(self, masks: Sequence[Mask]) -> list[Mask]:
        """Return the untracked files that some commit has, so that git may bring it back."""
        words = ("log", "--all", "--format=", "--name-only", "--no-renames", "-z", "--", *(mask.path for mask in masks))
        known = self._ask(*words) if masks else ()
        return _among(masks, known)

    def _ask(self, *words: str) -> Collection[str] | None:
        return self._files.ask_git((self._found.part.cwds or ("/",))[0], *words, seconds=GIT_SECONDS)

"""What the earlier commands of a line may have changed, so that nothing which is read now holds for the later ones.

A checkout may put a link where a file is, and a copy of a tree may bring links; the index and refs of a repository
decide what git prints. Programs that run code of the project are not among them: whatever they could arrange for a
later command, they could do themselves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from agent_cli.policy.programs.git import GitWords
from agent_cli.policy.programs.invocation import invocation
from agent_cli.policy.shell.words import SimpleCommand, Word
from agent_tools.record import Value

# Subcommands of git that replace files of the work tree by others, with any words.
_REPLACES = frozenset(
    "merge pull rebase cherry-pick revert am apply bisect submodule sparse-checkout checkout-index "
    "filter-branch".split()
)
# Those that change which files it has in its index, from the files that are there.
_STAGES = frozenset("add stage rm commit update-index mv reset stash restore".split())
_BRINGS = frozenset("fetch pull clone".split())
# Subcommands of the stash that leave the work tree as it is.
_STASH_SHOWS = frozenset("list show drop clear create store".split())


class Changed(Value):
    """What the commands before a part may have changed.

    by: the first of them. everywhere: any file of the workspace may be a link by now. below: those in or below these
    paths may be.
    names: what git prints may be any file. staged: it may be any file of the work tree; "ignored" if also ignored ones.
    """

    by: str = ""
    everywhere: bool = False
    below: tuple[str, ...] = ()
    names: bool = False
    staged: Literal["", "files", "ignored"] = ""

    def join(self, other: Changed) -> Changed:
        """Return what both may have changed."""
        staged: Literal["", "files", "ignored"] = "files" if self.staged or other.staged else ""
        return Changed(
            self.by or other.by,
            self.everywhere or other.everywhere,
            (*self.below, *other.below),
            self.names or other.names,
            "ignored" if "ignored" in (self.staged, other.staged) else staged,
        )

    def covers(self, path: str, *, tree: bool = False) -> bool:
        """Return True if a path, or with `tree` one below it, may be a link or behind one by now."""
        if self.everywhere:
            return True
        top = f"{path.rstrip('/')}/"
        return any(f"{path}/".startswith(f"{place}/") or (tree and f"{place}/".startswith(top)) for place in self.below)


NOTHING = Changed()


def changes_before(parts: Sequence[SimpleCommand]) -> dict[SimpleCommand, Changed]:
    """Return what has been changed before each part of a line; for one that occurs twice, before any of them."""
    found: dict[SimpleCommand, Changed] = {}
    so_far = NOTHING
    for part in parts:
        found[part] = found.get(part, NOTHING).join(so_far)
        so_far = so_far.join(changed_by(part))
    return found


def changed_by(part: SimpleCommand) -> Changed:
    """Return what a part may change for those after it."""
    found = invocation(part)
    if not found.words or found.only_reads:
        return NOTHING
    if found.git is not None:
        return _by_git(part, found.git)
    below = tuple(place for word in _made(part) for place in _places(part, word))
    return Changed(part.text, below=below) if below else NOTHING


def _made(part: SimpleCommand) -> Iterator[Word]:
    """Yield the places to which a part copies or moves trees or links."""
    found = invocation(part)
    touches, named = found.touches, [option.name for option in found.arguments.options]
    links = any(name in ("-P", "-d") or name.startswith(("--no-d", "--preserve")) for name in named)
    sources = [touch.word for touch in touches if touch.kind == "tree" or (links and touch.kind == "read")]
    copies = any(touch.kind == "write" and touch.replaces for touch in touches)
    if copies and any(_may_bring_links(part, word) for word in sources):
        yield from (touch.word for touch in touches if touch.kind in ("write", "into"))
    if any(touch.kind == "link" for touch in touches):
        yield from (touch.word for touch in touches if touch.kind == "write")
    if any(touch.kind == "names" for touch in touches):
        yield Word(".")


def _may_bring_links(part: SimpleCommand, word: Word) -> bool:
    """Return True unless a source is known to be a file of its own."""
    if word.why or word.pattern or part.cwds is None:
        return True
    paths = [os.path.join(cwd, word.text) for cwd in part.cwds or ("/",)]
    return any(os.path.islink(path) or os.path.isdir(path) for path in paths)  # noqa: PTH112, PTH114


def _places(part: SimpleCommand, word: Word) -> Iterator[str]:
    text = os.path.dirname(word.text) if word.pattern else word.text  # noqa: PTH120 - as text
    for cwd in part.cwds or ("/",):
        yield os.path.normpath(os.path.join(cwd, "." if word.why else text))


def _by_git(part: SimpleCommand, words: GitWords) -> Changed:
    sub, texts = words.subcommand, words.texts
    operands = [word.text for word in words.operands]
    changed = Changed(part.text)
    if sub in _REPLACES or (sub == "stash" and not _STASH_SHOWS & set(texts[:1])):
        return changed.replace(everywhere=True, names=True)
    if sub == "reset" and any(text.startswith(("--hard", "--merge", "--keep")) for text in texts):
        return changed.replace(everywhere=True, names=True)
    if sub in ("checkout", "switch"):
        made = [text for text in texts if re.fullmatch(r"-[bBcC]|--create|--force-create|--orphan", text)]
        if made and len(operands) < 2:
            return NOTHING  # a branch from here changes no file
        return changed.replace(everywhere=True, names=True)
    if sub == "restore" and not {"--staged", "-S"} & set(texts):
        return changed.replace(below=tuple(p for w in words.operands for p in _places(part, w)), staged="files")
    if sub in ("clone", "worktree"):
        return changed.replace(below=tuple(p for w in words.operands[1:] for p in _places(part, w)), names=True)
    if sub in _BRINGS:
        return changed.replace(names=True)
    if sub in _STAGES:
        forced = sub == "update-index" or any(re.fullmatch(r"-\w*[fN]\w*|--force|--intent-to-add", t) for t in texts)
        below = tuple(p for w in words.operands[-1:] for p in _places(part, w)) if sub == "mv" else ()
        return changed.replace(staged="ignored" if forced else "files", below=below)
    return NOTHING

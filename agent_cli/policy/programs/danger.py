"""One command that destroys work: what it acts on, and how a rule names it."""

from __future__ import annotations

from typing import Literal

from agent_cli.policy.operands import OperandPath, resolve_word
from agent_cli.policy.programs.effects import Touch
from agent_cli.policy.programs.find import FindCall, FindTerm
from agent_cli.policy.shell.words import SimpleCommand, Word
from agent_tools.record import Value

DangerKind = Literal[
    "delete", "tree", "overwrite", "attributes", "restore", "reset", "clean", "stash", "branch", "push", "unpush",
    "history", "ref", "unknown", "service",
]  # fmt: skip
Against = Literal["HEAD", "commit", "index", "staged", "nothing"]


class Danger(Value):
    """One destructive command.

    names: words by which a rule names it.
    words: known targets: files, branches, or the remote and what is pushed.
    certain: it always destroys; an overwriting `mv` may find nothing to replace.
    folder: what `git -C` adds to its directory.
    flags: its relevant single letters.
    follows: it acts on the target of a link that is named.
    find: the call of `find` that selects what is lost, and its action that loses it.
    copied: directories that are copied recursively, each with its copy.
    unpacked: archives that are unpacked.
    against: which changes git discards: all that are uncommitted, only those of files that the commit has, those that
        are not in the index, or staged ones.
    selective: only some of what is below its words is lost.
    tracked: only files are lost that git tracks. unsaved: only what no commit has is lost.
    excluded: patterns of files that `git clean` keeps, or adds with -X.
    lost: of "service", what is lost, as a clause.
    """

    part: SimpleCommand
    kind: DangerKind
    names: tuple[str, ...]
    words: tuple[Word, ...] = ()
    certain: bool = True
    folder: str = ""
    flags: frozenset[str] = frozenset()
    follows: bool = False
    find: tuple[FindCall, FindTerm] | None = None
    copied: tuple[tuple[str, str], ...] = ()
    unpacked: tuple[Touch, ...] = ()
    against: Against = "HEAD"
    selective: bool = False
    tracked: bool = False
    unsaved: bool = False
    excluded: tuple[str, ...] = ()
    lost: str = ""

    def targets(self, cwd: str) -> list[OperandPath]:
        """Return the paths that its words name in a directory, which is the one that `git -C` leads to."""
        return [path for word in self.words for path in resolve_word(word, cwd, follows=self.follows)]

    def pathspecs(self, cwd: str) -> list[str]:
        """Return its words as git gets them from the shell. git expands those itself that are left as they are."""
        return [target.text for target in self.targets(cwd)]

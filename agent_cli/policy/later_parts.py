"""Verdicts on parts of a line that read or write what an earlier part may have changed.

What is seen of the disk when a line is judged - links, the index, what git would print - holds for its first part only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from agent_cli.kernel.decisions import Verdict
from agent_cli.policy.command_reads import GIT_SECONDS, MAX_LISTED_BYTES, CommandContext
from agent_cli.policy.git_use import NotUsableError, git_to_read
from agent_cli.policy.path_policy import Matcher, SearchFilter, kept_rule, not_known
from agent_cli.policy.programs.changes import NOTHING, Changed, changes_before
from agent_cli.policy.programs.invocation import invocation
from agent_cli.policy.shell.words import SimpleCommand, Word
from agent_tools.process.guarded_git import GitError
from agent_tools.text import shorten

_TOUCHING = ("read", "tree", "write", "into", "remove", "attributes", "link")


class LaterParts:
    """Evaluates the parts of one command line by what those before them may have changed."""

    def __init__(self, matcher: Matcher, context: CommandContext, parts: Sequence[SimpleCommand]) -> None:
        self._matcher = matcher
        self._context = context
        self._before = changes_before(parts) if len(parts) > 1 else {}
        self._kept = kept_rule(matcher)

    def verdict(self, part: SimpleCommand) -> Verdict | None:
        """Return an ASK verdict if a part may touch something else than what can be seen now; None if not."""
        changed = self._before.get(part, NOTHING)
        why = self._why(part, changed) if changed != NOTHING else ""
        return not_known(part.text, f"{why} {shorten(changed.by, 60)}", self._kept) if why else None

    def _why(self, part: SimpleCommand, changed: Changed) -> str:
        for word, tree in _touched(part):
            for cwd in part.cwds or ("/",):
                path = os.path.normpath(os.path.join(cwd, word.text))
                if changed.covers(path, tree=tree):
                    return f"opens {word.text}, which may be a link after"
        if not (changed.names or changed.staged) or invocation(part).unnamed_reads == ():
            return ""
        known = not changed.names and not self._stages_unreadable(ignored=changed.staged == "ignored")
        return "" if known else "prints files that are not known after"

    def _stages_unreadable(self, *, ignored: bool) -> bool:
        """Return True if a file that may not be read is in the index, the last commit, or among those to be added."""
        root = self._context.workspace.root
        new = () if ignored else ("--exclude-standard",)
        try:
            git = git_to_read(root, self._context.env, self._context.git_use)
            names = git.run(
                "ls-files", "-z", "--cached", "--others", *new,
                cwd=str(root), seconds=GIT_SECONDS, most=MAX_LISTED_BYTES,
            )  # fmt: skip
            there = git.run(
                "ls-tree", "-r", "-z", "--name-only", "--full-tree", "HEAD",
                cwd=str(root), seconds=GIT_SECONDS, most=MAX_LISTED_BYTES, ok_codes=(0, 128),
            )  # fmt: skip
        except (NotUsableError, GitError):
            return True
        readable = SearchFilter(self._matcher, self._context.workspace)
        every = os.fsdecode(names + there).split("\0")
        return any(name and not readable(os.path.join(root, name)) for name in every)


def _touched(part: SimpleCommand) -> Iterator[tuple[Word, bool]]:
    """Yield the words that name what a part opens, with True if it goes through what is below."""
    for redirect in part.redirects:
        if redirect.kind != "network" and not redirect.why:
            yield Word(redirect.target), False
    if part.texts[:1] == ("cd",):
        yield from ((word, False) for word in part.words[1:2] if not word.why)
        return
    found = invocation(part)
    for touch in found.touches:
        if touch.kind in _TOUCHING and not touch.word.why and touch.word.text != "-":
            yield touch.word, touch.kind == "tree"
    if not isinstance(found.reads, str):
        for reading in found.reads:
            if reading.what in ("content", "tree"):
                yield Word(reading.path), reading.what == "tree"

"""What the sandbox keeps from one command line: all masks, but not those of files that the line was allowed to open.

A line that the user was asked about opens the files that its words name, and those that its programs are known to read
or remove with a folder; so does a part of it under a rule that names them. A git command opens those that it stages,
moves or rewrites, about which it is asked first. Nothing is opened for a line that runs only because it is sandboxed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from agent_cli.kernel.decisions import Level, Verdict
from agent_cli.policy.effect_verdicts import EffectFinding
from agent_cli.policy.masks import MAX_MASKS, MAX_NAMES, FoundMasks, Mask, WorkspaceMasks
from agent_cli.policy.path_policy import Matcher
from agent_cli.policy.programs.git_masks import GitMasks, named_masks
from agent_cli.policy.programs.invocation import invocation
from agent_cli.policy.sandbox_needs import needs_outside
from agent_cli.policy.shell.words import Analysis, SimpleCommand, Word
from agent_tools.fs.workspace import Workspace
from agent_tools.sandbox.conditions import Confined, MaskedPath


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
        self, analysis: Analysis, *, vouched: bool, may_open: Callable[[SimpleCommand, str], bool]
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
        git = invocation(part).usual_git is not None
        held = [mask for mask in self._found.masks if mask.holds(vouched=False)] if git else []
        if not held or needs_outside(part, self.confined, self._workspace, self._path):
            return ()
        return tuple(GitMasks(invocation(part).placed, held, self._files).touched())


def _opened(
    part: SimpleCommand, masks: Sequence[Mask], may_open: Callable[[SimpleCommand, str], bool]
) -> Iterator[Mask]:
    """Yield the masks of files that a part names, or is known to read or remove with a folder."""
    redirects = [Word(r.target, r.why) for r in part.redirects if r.kind != "network"]
    for word in (*part.words[1:], *redirects):
        for text in {word.text, word.text.rpartition("=")[2]} if may_open(part, word.text) else ():
            yield from named_masks(part, word.replace(text=text), masks, below=False)
    yield from _below(part, ("tree", "remove"), masks, may_open)


def _below(
    part: SimpleCommand,
    kinds: Sequence[str],
    masks: Sequence[Mask],
    may_open: Callable[[SimpleCommand, str], bool] = lambda part, word: True,
) -> Iterator[Mask]:
    for touch in invocation(part).touches:
        if touch.kind in kinds and may_open(part, touch.word.text):
            yield from named_masks(part, touch.word, masks, below=True)

"""Recognize commands that destroy work: which parts of a command line they are, and whether a rule names them.

Only the words are examined; what would really be lost is computed by `impact` when the user is asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from agent_cli.policy.programs.danger import Danger
from agent_cli.policy.programs.git_losses import dropped_stash, stashes
from agent_cli.policy.programs.losses import losses
from agent_cli.policy.shell.words import Analysis, SimpleCommand


def dangers(analysis: Analysis) -> tuple[Danger, ...]:
    """Return the destructive commands of a command line, in order."""
    stashed: SimpleCommand | None = None
    found: list[Danger] = []
    for part in analysis.parts:
        own = list(losses(part))
        # What was stashed before it in the same line is no entry yet.
        if stashed is not None and any(danger.kind == "stash" for danger in own):
            own = [dropped_stash(d, stashed) for d in own]
        found += [_unseen(danger, found) for danger in own]
        stashed = part if stashes(part) else stashed
    return tuple(found)


def _unseen(danger: Danger, before: Iterable[Danger]) -> Danger:
    """Return a danger for which archives that the line itself writes before it are not known."""
    written = {word.text for other in before if other.kind == "overwrite" for word in other.words}
    if not any(touch.word.text in written for touch in danger.unpacked):
        return danger
    why = "it is written before"
    unpacked = (t.replace(word=t.word.replace(why=why)) if t.word.text in written else t for t in danger.unpacked)
    return danger.replace(unpacked=tuple(unpacked))


def names(spec: str, danger: Danger) -> bool:
    """Return True if a rule names the destructive words of a command: `git reset:*` does not name `--hard`."""
    words = [os.path.basename(w) for w in spec.removesuffix(":*").removesuffix("*").split()]
    return all(name in words for name in danger.names)


def unnamed(spec: str, command: str, found: Iterable[Danger]) -> Danger | None:
    """Return the first danger that an allow rule covers without naming it; a rule with the exact text names everything.

    spec: the text in the parentheses of the rule; "" without one.
    """
    if spec == command.strip():
        return None
    return next((d for d in found if d.certain and not names(spec, d) and d.part.text != spec), None)

"""Recognize commands that destroy work: which parts of a command line they are, and whether a rule names them.

Only the words are examined; what would really be lost is computed by `impact` when the user is asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from agent_cli.policy.programs.danger import Danger
from agent_cli.policy.programs.effects import Touch
from agent_cli.policy.programs.find import FindCall, FindTerm, read_find
from agent_cli.policy.programs.git_losses import git_dangers, stash_flags, stashes
from agent_cli.policy.programs.invocation import Invocation, invocation
from agent_cli.policy.programs.table import row_of
from agent_cli.policy.shell.words import Analysis, SimpleCommand, Word


def dangers(analysis: Analysis) -> tuple[Danger, ...]:
    """Return the destructive commands of a command line, in order."""
    stashed: SimpleCommand | None = None
    found: list[Danger] = []
    for part in analysis.parts:
        own = list(_of(part))
        # What was stashed before it in the same line is no entry yet.
        if stashed is not None and any(danger.kind == "stash" for danger in own):
            own = [d.replace(kind="restore", words=(), flags=stash_flags(stashed)) for d in own]
        found += own
        stashed = part if stashes(part) else stashed
    return tuple(found)


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


def _of(part: SimpleCommand) -> Iterator[Danger]:
    for redirect in part.redirects:
        if redirect.kind == "write":
            target = (Word(redirect.target, redirect.why),)
            yield Danger(part, "overwrite", (">",), target, certain=False, follows=True)
    found = invocation(part)
    if found.name == "git":
        yield from git_dangers(part, found.words[1:])
        yield from _replaced(found)
    elif found.name == "find":
        yield from _find(part, read_find(found.words[1:]))
    elif found.row is not None:
        yield from _removed(found)
        yield from _changed(found)
        yield from _replaced(found)


def _removed(found: Invocation) -> Iterator[Danger]:
    row, part = found.row, found.part
    gone = [touch for touch in found.touches if touch.kind == "remove"]
    if not gone or row is None or row.operands == "move":
        return
    plain = row.operands == "remove"
    deep = found.arguments.has("-r", "-R", "--recursive") if plain else True
    removing = {touch.word for touch in gone}
    options = found.arguments.options
    flag = next((o.name for o in options if o.role == "act" or (o.value in removing and o.name)), "")
    flags = frozenset("d" if found.name == "rmdir" or found.arguments.has("-d", "--dir") else "")
    danger = Danger(part, "tree" if deep else "delete", (found.name, *([flag] if flag else [])), _words(gone))
    # rmdir only removes empty directories, and shred overwrites the file that a link leads to.
    yield danger.replace(
        certain=found.name != "rmdir", flags=flags, follows=bool(row.follows), find=_found(part),
        selective=not plain and any(touch.selective or flag.startswith("--del") for touch in gone),
    )  # fmt: skip


def _changed(found: Invocation) -> Iterator[Danger]:
    """Yield a change of mode or owner of everything below its operands."""
    changed = [touch for touch in found.touches if touch.kind == "attributes"]
    if changed:
        words = found.words[1:]
        flag = next((w.text for w in words if re.fullmatch(r"-[a-zA-Z]*R[a-zA-Z]*|--recursive", w.text)), "-R")
        yield Danger(found.part, "attributes", (found.name, flag), _words(changed), follows=True)


def _replaced(found: Invocation) -> Iterator[Danger]:
    row = found.row or row_of(found.name)
    replaced = [touch for touch in found.touches if touch.kind == "write" and touch.replaces]
    if not replaced:
        return
    into = replaced[0].word
    trees = [t.word for t in found.touches if t.kind == "tree" and not t.word.why and not t.word.pattern]
    copied: tuple[tuple[str, str], ...] = ()
    if row.operands == "copy" and not into.why:
        copied = tuple((w.text, os.path.join(into.text, os.path.basename(w.text.rstrip("/")))) for w in trees)
    danger = Danger(found.part, "overwrite", (found.name,), _words(replaced), certain=row.empties)
    yield danger.replace(follows=not row.renames, copied=copied)


def _words(touches: Iterable[Touch]) -> tuple[Word, ...]:
    return tuple(dict.fromkeys(touch.word for touch in touches))


def _find(part: SimpleCommand, call: FindCall) -> Iterator[Danger]:
    for term in call.terms:
        if term.kind == "delete":
            follows = bool(call.follows)
            yield Danger(part, "tree", ("find", "-delete"), call.starts, follows=follows, find=(call, term))
            return
        if term.kind == "file":
            names = ("find", term.name)
            yield Danger(part, "overwrite", names, term.values[:1], certain=False, follows=True)


def _found(part: SimpleCommand) -> tuple[FindCall, FindTerm] | None:
    """Return the call of `find` that runs a part for what it finds, and the action that does so; None if none does."""
    layer = part.layers[-1] if part.layers else None
    if layer is None or os.path.basename(layer.words[0].text) != "find" or part.cwds is None:
        return None
    call = read_find(layer.words[1:])
    return next(((call, term) for term in call.terms if term.kind == "run" and term.at + 2 == layer.inner), None)

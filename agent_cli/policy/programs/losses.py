"""What one command destroys: which of its words name it, and what they stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from agent_cli.policy.programs.danger import Danger
from agent_cli.policy.programs.effects import Touch
from agent_cli.policy.programs.find import FindCall, FindTerm
from agent_cli.policy.programs.git_losses import git_dangers
from agent_cli.policy.programs.invocation import Invocation, finder_of, invocation
from agent_cli.policy.programs.services import service_losses
from agent_cli.policy.programs.table import row_of
from agent_cli.policy.shell.words import SimpleCommand, Word


def losses(part: SimpleCommand) -> Iterator[Danger]:
    """Yield what one command destroys, by its redirections and by what its program does."""
    for redirect in part.redirects:
        if redirect.kind == "write":
            target = (Word(redirect.target, redirect.why),)
            yield Danger(part, "overwrite", (">",), target, certain=False, follows=True)
    found = invocation(part)
    if found.find is not None:
        yield from _found_lost(found, found.find)
        return
    if found.git is not None:
        yield from git_dangers(part, found.git)
        yield from _replaced(found)
    elif found.row is not None:
        yield from _removed(found)
        yield from _changed(found)
        yield from _replaced(found)
    yield from service_losses(found)


def _removed(found: Invocation) -> Iterator[Danger]:
    row, part = found.row, found.part
    gone = [touch for touch in found.touches if touch.kind == "remove"]
    if not gone or row is None or row.operands == "move":
        return
    plain = row.operands == "remove"
    deep = not plain or row.tree == "*" or found.arguments.has("-r", "-R", "--recursive")
    removing = {touch.word for touch in gone}
    options = found.arguments.options
    flag = next((o.name for o in options if o.role == "act" or (o.value in removing and o.name)), "")
    flags = frozenset("d" if row.empty_only or found.arguments.has("-d", "--dir") else "")
    danger = Danger(part, "tree" if deep else "delete", (found.name, *([flag] if flag else [])), _words(gone))
    # shred overwrites the file that a link leads to.
    yield danger.replace(
        certain=not row.empty_only, flags=flags, follows=bool(row.follows), find=_selected_by(part),
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
    unpacked = tuple(touch for touch in found.touches if touch.unpacked is not None)
    if not replaced and not unpacked:
        return
    trees = [t for t in found.touches if t.kind == "tree" and not (t.word.why or t.word.pattern or t.where.why)]
    copied: tuple[tuple[str, str], ...] = ()
    if row.operands == "copy" and replaced and not replaced[0].word.why:
        copied = tuple((touch.word.text, touch.where.text) for touch in trees)
    danger = Danger(found.part, "overwrite", (found.name,), _words(replaced), certain=row.empties)
    yield danger.replace(follows=not row.renames, copied=copied, unpacked=unpacked)


def _words(touches: Iterable[Touch]) -> tuple[Word, ...]:
    return tuple(dict.fromkeys(touch.word for touch in touches))


def _found_lost(found: Invocation, call: FindCall) -> Iterator[Danger]:
    for term in call.terms:
        names = (found.name, term.name)
        if term.kind == "delete":
            yield Danger(found.part, "tree", names, call.starts, follows=bool(call.follows), find=(call, term))
            return
        if term.kind == "file":
            yield Danger(found.part, "overwrite", names, term.values[:1], certain=False, follows=True)


def _selected_by(part: SimpleCommand) -> tuple[FindCall, FindTerm] | None:
    """Return the `find` that runs a part for what it finds, and the action that does so; None if none does."""
    outer = finder_of(part)
    call = invocation(outer).find if outer is not None and part.cwds is not None else None
    inner = part.layers[-1].inner if part.layers else 0
    terms = call.terms if call is not None else ()
    return next(((call, term) for term in terms if call and term.kind == "run" and term.at + 2 == inner), None)

"""Ask the user to approve a call, whole or hunk by hunk: the dialogs, and the answers as decisions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent_cli.core.decisions import Answer, Approve, Defer, Reject
from agent_cli.core.events import ApprovalRequested
from agent_cli.core.rules import split_rules
from agent_cli.runtime.edit_call import Changeable, Hunk
from agent_cli.terminal.dialogs.model import (
    Block,
    Choice,
    Dialog,
    DiffBlock,
    Fact,
    GiveAnswer,
    InEditor,
    Put,
    ShellCommand,
    TextInput,
    Verbatim,
)
from agent_tools.lookalikes import named_lookalikes, visible
from agent_tools.record import Value
from agent_tools.registry import tool_traits
from agent_tools.results import Diff
from agent_tools.text import one_line

YES, NO = ("y", "yes"), ("n", "no", "")
_VERBS = {"read": "reads", "write": "writes", "fetch": "fetches", "call": "calls"}
# Descriptions of grants that only repeat their rule.
_SAYS_NOTHING_MORE = ("exactly this command", "every change to", "every reading of")
_NO_ALWAYS = '"always" is not offered for this call. Answer y to allow it once.'
_RULE = re.compile(r"(\w+)\((.*)\)")


class ByHunk(Value):
    """The answer that asks to go through a change hunk by hunk."""


class SkippedHunk(Value):
    """The answer that skips a hunk, and why."""

    why: str


class Rest(Value):
    """The answer for a hunk and all after it."""

    take: bool


def ask_approval(request: ApprovalRequested, put: Put, change: Changeable | None = None) -> Answer:
    """Ask about a call. change: its editable parts."""
    change = change or Changeable("", {})
    answer: Answer | ByHunk = put(approval_dialog(request, change))
    return _ask_parts(change, put) if isinstance(answer, ByHunk) else answer


def _ask_parts(change: Changeable, put: Put) -> Answer:
    """Ask about each hunk of a change and return the answer for the call."""
    kept: list[Hunk] = []
    said: dict[str, str] = {}
    rest: Rest | None = None
    for number, hunk in enumerate(change.hunks, 1):
        answer = rest.take if rest else put(hunk_dialog(hunk, number, len(change.hunks)))
        if isinstance(answer, Defer):
            return answer
        if isinstance(answer, Rest):
            rest, answer = answer, answer.take
        if isinstance(answer, SkippedHunk):
            said[hunk.patch] = answer.why
        elif answer:
            kept.append(hunk)
    return change.taken(kept, said)


def approval_dialog(request: ApprovalRequested, change: Changeable) -> Dialog:
    """Return the approval dialog of a call. It holds all of it: what cannot be seen cannot be approved."""
    runs = [e.target for e in request.effects if e.kind == "run"]
    kind, _, _ = request.summary.partition(": ")
    command = len(runs) == 1 and kind.startswith("Run")
    title = kind.replace("Run", "Run a command", 1) if command else request.summary
    about = request.arguments.get("description") if command else ""
    odd = named_lookalikes(request.summary, *(e.target for e in request.effects))
    return Dialog(
        Verbatim(visible(title), "ask"),
        tuple(_what_happens(request, title)),
        tuple(map(Fact, _facts(request))),
        "Allow?",
        tuple(_choices(request, change, edits=not command)),
        TextInput("no, because> ", _spelled_rejection, hint="or say why not"),
        about=one_line(about) if isinstance(about, str) else "",
        warnings=(*([odd] if odd else []), *request.warnings),
        reported=True,
    )


def _choices(request: ApprovalRequested, change: Changeable, *, edits: bool) -> Iterator[Choice]:
    words = TextInput("yes, and> ", lambda words: Approve(note=words.strip()) if words.strip() else None)
    yield Choice("y", "Yes", GiveAnswer(Approve()), YES, "yes", comment=words)
    if request.edits and edits:
        every = Approve(mode="acceptEdits")
        more = words.replace(read=lambda words: every.replace(note=words.strip()) if words.strip() else None)
        label = "all edits this session"
        yield Choice(
            "s",
            f"Yes, {label} (Shift-Tab)",
            GiveAnswer(every),
            ("s", "all"),
            label,
            comment=more,
            mode_key=True,
            lasting=True,
        )
    if request.always:
        rule = rule_label(request.always, request.cwd)
        session = Approve(rule=request.always)
        label = f"always this session: {rule}"
        yield Choice(
            "a", f"Yes, {label}", GiveAnswer(session), ("a", "always"), label, f"Session: {rule}", lasting=True
        )
    if request.keeps:
        project = Approve(rule=request.always, scope="project")
        rule = rule_label(request.always, request.cwd)
        label = f"always in this project{', trusting it' if request.trusts else ''}: {rule}"
        yield Choice(
            "A",
            f"Yes, {label}",
            GiveAnswer(project),
            ("A", "Always", "ALWAYS"),
            label,
            f"Project: {rule}",
            lasting=True,
        )
    if request.exact:
        rule = rule_label(request.exact, request.cwd)
        label = f"always this session, exactly: {rule}"
        only = GiveAnswer(Approve(rule=request.exact))
        yield Choice("x", f"Yes, {label}", only, ("x",), label, f"Session, exactly: {rule}", lasting=True)
    no = TextInput("no, because> ", _rejection)
    yield Choice("n", "No", GiveAnswer(Reject()), NO, "no", comment=no)
    if change.name:
        in_line = TextInput(f"{change.name}> ", change.edited, change.text)
        edit = in_line if change.in_line else InEditor(change.text, change.edited, change.suffix)
        yield Choice("e", "edit", edit, ("e", "edit"), listed=False)
    if change.hunks:
        hunks = f"{len(change.hunks)} hunks"
        yield Choice("h", f"review {hunks}", GiveAnswer(ByHunk()), ("h",), hunks, listed=False)
    yield Choice("r", "no, because", no, listed=False)


def _rejection(words: str) -> Reject | None:
    return Reject(words.strip()) if words.strip() else None


def _spelled_rejection(words: str) -> Reject | None:
    """Like `_rejection`, for a line that names no choice. Raises ValueError for one not offered for this call."""
    if words.lower() in ("a", "always"):
        raise ValueError(_NO_ALWAYS)
    return _rejection(words)


def rule_label(rules: str, cwd: str) -> str:
    """Return rules as a choice names them: of commands what they allow, of files the path."""
    return ", ".join(_one_rule(rule, cwd) for rule in split_rules(rules))


def _one_rule(rule: str, cwd: str) -> str:
    found = _RULE.fullmatch(rule)
    if found is None:
        return visible(one_line(rule))
    tool, spec = found.groups()
    if spec.startswith("//"):
        path = spec[1:]
        name = os.path.relpath(path, cwd) if Path(path).is_relative_to(cwd) else path
        verb = "changes to" if tool_traits(tool).changes_files else "reading"
        return visible(one_line(f"{verb} {name}"))
    if spec.startswith("domain:"):
        return visible(one_line(spec.removeprefix("domain:")))
    return visible(one_line(spec if tool_traits(tool).rule_names == "command" else rule))


def _what_happens(request: ApprovalRequested, title: str) -> Iterator[Block]:
    """Yield what a call does, without what its title says already."""
    written = {e.target for e in request.effects if e.kind == "write"}
    for effect in request.effects:
        if effect.kind == "run":
            yield ShellCommand(effect.target)
    for effect in request.effects:
        if effect.kind in _VERBS and not (effect.kind == "read" and effect.target in written):
            verb = "types into" if tool_traits(request.tool).types_input else _VERBS[effect.kind]
            names = {effect.target, os.path.relpath(effect.target, request.cwd) if "/" in effect.target else ""}
            if effect.kind == "call" or not any(name and name in title.split() for name in names):
                yield Verbatim(f"  {verb} {visible(effect.target)}", "dim")
    if request.preview is not None:
        single = isinstance(request.preview, Diff) and visible(request.preview.path) in title
        yield DiffBlock(request.preview, titled=single)


def _facts(request: ApprovalRequested) -> Iterator[str]:
    yield f"asks because it {request.reason}"
    yield from request.facts
    for effect in request.effects:
        if effect.kind in ("read", "write"):
            yield f"{_VERBS[effect.kind]} {effect.target}"
    if request.always:
        several = " and ".join(split_rules(request.always))
        yield f"a: adds the rule{'s' if several != request.always else ''} {several}"
        if not request.grants.startswith(_SAYS_NOTHING_MORE):
            yield f"   which allows {request.grants}"
    if request.keeps:
        yield f"A: saves that to .agentrc.local{' (also trusts this project)' if request.trusts else ''}"
    if request.exact:
        yield f"x: adds {request.exact}"


def hunk_dialog(hunk: Hunk, number: int, of: int) -> Dialog:
    """Return the question about one hunk of a change. The answer is True, False, a `SkippedHunk`, or a `Rest`."""
    left = of - number + 1
    why = TextInput("skip, because> ", lambda words: SkippedHunk(words.strip()) if words.strip() else None)
    rest = (
        Choice("a", f"Apply all {left} hunks that are left", GiveAnswer(Rest(True)), ("a",), "all the rest"),
        Choice("d", f"Skip all {left} hunks that are left", GiveAnswer(Rest(False)), ("d",), "skip the rest"),
    )
    return Dialog(
        Verbatim(f"Hunk {number} of {of} · {visible(hunk.path)}", "ask"),
        (DiffBlock(hunk.diff, titled=True),),
        question="Apply this hunk?",
        choices=(
            Choice("y", "Yes, apply this hunk", GiveAnswer(True), YES, "yes"),
            Choice("n", "No, skip it", GiveAnswer(False), ("n", "no"), "no", comment=why),
            *(rest if left > 1 else ()),
        ),
        escape="d" if left > 1 else "n",
        reported=True,
    )


def approval_answer(answer: Any) -> str:
    """Return an answer to an approval in a few words, for lines about what was decided."""
    match answer:
        case Approve(rule=rule) if rule:
            return f"yes, always: {rule}"
        case Approve():
            return "yes"
        case Reject(reason=reason):
            return f"no: {reason}" if reason else "no"
    return str(answer)

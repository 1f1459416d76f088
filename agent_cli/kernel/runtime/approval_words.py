"""What every front end says about a call that needs approval: its title, effects and facts, and what may be decided."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from agent_cli.kernel.events import ApprovalRequested
from agent_cli.kernel.rules import split_rules
from agent_cli.kernel.runtime.user_decision import UserDecision
from agent_tools.lookalikes import escape_lookalikes
from agent_tools.record import Value
from agent_tools.registry import tool_traits
from agent_tools.results import Diff, Diffs
from agent_tools.sandbox.conditions import STAGED
from agent_tools.text import counted, one_line, short_path

_VERBS = {"read": "reads", "write": "writes", "fetch": "fetches", "call": "calls"}
_RULE = re.compile(r"(\w+)\((.*)\)")


def runs_one_command(request: ApprovalRequested) -> bool:
    """Return True if a call is one command, which the question then shows below its title."""
    return sum(effect.kind == "run" for effect in request.effects) == 1 and request.summary.startswith("Run")


def approval_title(request: ApprovalRequested) -> str:
    """Return the title of the question."""
    kind, _, _ = request.summary.partition(": ")
    title = kind.replace("Run", "Run a command", 1) if runs_one_command(request) else request.summary
    return escape_lookalikes(title)


_ALLOWS = {"read": "Let it read", "write": "Let it change", "fetch": "Let it fetch", "call": "Let it call"}


def is_staged(request: ApprovalRequested) -> bool:
    """Return True if a call brings the changes of a staged turn; a refusal without words drops them."""
    return any(effect.kind == "call" and effect.target == STAGED for effect in request.effects)


def answer_words(request: ApprovalRequested, usual: tuple[str, str]) -> tuple[str, str]:
    """Return what the choices for yes and no are called. usual: for most calls."""
    return ("Apply them", "Discard them") if is_staged(request) else usual


def approval_question(request: ApprovalRequested) -> str:
    """Return the question as a sentence."""
    kind, _, _ = request.summary.partition(": ")
    preview = request.preview
    if runs_one_command(request):
        text = kind.replace("Run", "Run this command", 1)
    elif is_staged(request):
        text = f"Apply {counted(len(request.effects) - 1, 'change')} to your project"
    elif isinstance(preview, Diff):
        verb = "Create" if preview.created else "Delete" if preview.deleted else "Make this change to"
        text = f"{verb} {short_path(preview.path, request.cwd)}"
    elif isinstance(preview, Diffs):
        text = f"Make these changes to {counted(len(preview.files), 'file')}"
    elif len(request.effects) == 1 and request.effects[0].kind in _ALLOWS and preview is None:
        effect = request.effects[0]
        text = f"{_ALLOWS[effect.kind]} {short_path(effect.target, request.cwd)}"
    else:
        text = f"Allow this: {request.summary}"
    return f"{escape_lookalikes(one_line(text))}?"


def described(request: ApprovalRequested) -> str:
    """Return the model's own description of a command; "" for none."""
    about = request.arguments.get("description") if runs_one_command(request) else ""
    return one_line(about) if isinstance(about, str) else ""


def effect_lines(request: ApprovalRequested, title: str) -> Iterator[str]:
    """Yield the effects of a call that its title does not already state, other than commands."""
    written = {e.target for e in request.effects if e.kind == "write"}
    if is_staged(request):
        yield from request.facts
    for effect in request.effects if not is_staged(request) else ():
        if effect.kind in _VERBS and not (effect.kind == "read" and effect.target in written):
            verb = "types into" if tool_traits(request.tool).types_input else _VERBS[effect.kind]
            names = {effect.target, os.path.relpath(effect.target, request.cwd) if "/" in effect.target else ""}
            if effect.kind == "call" or not any(name and name in title.split() for name in names):
                yield f"{verb} {escape_lookalikes(effect.target)}"


def is_grave(request: ApprovalRequested) -> bool:
    """Return True if a call may destroy something or leave the sandbox: a call with nothing to warn of does neither."""
    return bool(request.warnings) or is_staged(request)


_RUNS = re.compile(r"runs a command(?:: (.+?)( \(not known to be read-only\))?(?:: .*)?)?")
_NEEDS_APPROVAL = re.compile(r"needs approval: (.*) \(runs a command.*\)")


def why_asked(request: ApprovalRequested) -> str:
    """Return why a call needs approval: what is missing, if what it does is nothing special."""
    if found := _RUNS.fullmatch(request.reason):
        name = found[1] or "this command"
        return f"{name} is not known to be read-only, and no rule allows it" if found[2] else f"no rule allows {name}"
    if request.reason == "changes a file":
        return "changes to files need approval in this mode, and no rule allows this one"
    return f"it {request.reason}"


def call_facts(request: ApprovalRequested) -> Iterator[str]:
    """Yield why a call needs approval, and the facts that a user may ask for."""
    yield f"asked, as {why_asked(request)}"
    if is_staged(request):
        return  # the question itself has the rest
    for fact in request.facts:
        found = _NEEDS_APPROVAL.fullmatch(fact)
        yield f"needs approval: {found[1]}" if found else fact
    title = approval_question(request).rstrip("?").split()
    for effect in request.effects:
        name = short_path(effect.target, request.cwd)
        if effect.kind in ("read", "write") and name not in title:
            yield f"{_VERBS[effect.kind]} {name}"


class LastingApproval(Value):
    """An approval that holds for later calls, too.

    words: in the question of a front end that names rules. brief: the same in a narrow window.
    says: what a user would say, behind "Yes, and". why: where it is remembered, and what follows.
    """

    key: str
    words: str
    brief: str
    decision: UserDecision
    says: str = ""
    why: str = ""


def lasting_approvals(request: ApprovalRequested) -> Iterator[LastingApproval]:
    """Yield the approvals that a question offers besides that of this call alone."""
    approve = UserDecision(request.call_id, "", "approve")
    if request.scheduled:
        rule = rule_label(request.always, request.cwd)
        decision = approve.replace(rule=request.always, scope="schedule")
        says, why = "allow it in every run of this schedule", f"adds {' and '.join(split_rules(request.always))} to it"
        yield LastingApproval("S", f"always in this schedule: {rule}", f"Schedule: {rule}", decision, says, why)
    if request.edits and not runs_one_command(request):
        words = "all edits this session"
        says, why = "make further edits without asking", "until this session ends, or Shift-Tab changes the mode"
        yield LastingApproval("s", words, words, approve.replace(mode="acceptEdits"), says, why)
    if request.always:
        rule, name = rule_label(request.always, request.cwd), _plain_rules(request.always, request.cwd)
        words, brief = f"always this session: {rule}", f"Session: {rule}"
        several = " and ".join(split_rules(request.always))
        says, why = f"ask no more about {name}", f"until this session ends; adds {several}"
        yield LastingApproval("a", words, brief, approve.replace(rule=request.always), says, why)
    if request.keeps:
        rule = rule_label(request.always, request.cwd)
        words = f"always in this project{', trusting it' if request.trusts else ''}: {rule}"
        decision = approve.replace(rule=request.always, scope="project")
        trust = "; its own settings, hooks and commands also take effect until they change" if request.trusts else ""
        why = f"saved in .agentrc.local{trust}"
        yield LastingApproval("A", words, f"Project: {rule}", decision, "never ask for it in this project", why)
    if request.exact:
        rule = rule_label(request.exact, request.cwd)
        words, brief = f"always this session, exactly: {rule}", f"Session, exactly: {rule}"
        says, why = "ask no more about exactly this command", f"until this session ends; adds {request.exact}"
        yield LastingApproval("x", words, brief, approve.replace(rule=request.exact), says, why)


def _plain_rules(rules: str, cwd: str) -> str:
    """Return what rules allow as a user would name it: "pytest …" for commands that begin so."""
    return ", ".join(
        label.removesuffix(":*") + " …" if label.endswith(":*") else label
        for label in (_label_rule(rule, cwd) for rule in split_rules(rules))
    )


def rule_label(rules: str, cwd: str) -> str:
    """Format rules for a choice: what they allow of commands, the path of files."""
    return ", ".join(_label_rule(rule, cwd) for rule in split_rules(rules))


def _label_rule(rule: str, cwd: str) -> str:
    found = _RULE.fullmatch(rule)
    if found is None:
        return escape_lookalikes(one_line(rule))
    tool, spec = found.groups()
    if spec.startswith("//"):
        path = spec[1:]
        name = short_path(path, cwd)
        verb = "changes to" if tool_traits(tool).changes_files else "reading"
        return escape_lookalikes(one_line(f"{verb} {name}"))
    if spec.startswith("domain:"):
        return escape_lookalikes(one_line(spec.removeprefix("domain:")))
    return escape_lookalikes(one_line(spec if tool_traits(tool).rule_names == "command" else rule))

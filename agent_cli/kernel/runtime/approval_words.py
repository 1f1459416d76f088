"""What every front end says about a call that needs approval: its title, effects and facts, and what may be decided."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from agent_cli.kernel.events import ApprovalRequested
from agent_cli.kernel.rules import split_rules
from agent_cli.kernel.runtime.user_decision import UserDecision
from agent_tools.lookalikes import escape_lookalikes
from agent_tools.record import Value
from agent_tools.registry import tool_traits
from agent_tools.text import one_line

_VERBS = {"read": "reads", "write": "writes", "fetch": "fetches", "call": "calls"}
# Descriptions of grants that only repeat their rule.
_REDUNDANT_GRANTS = ("exactly this command", "every change to", "every reading of")
_RULE = re.compile(r"(\w+)\((.*)\)")


def runs_one_command(request: ApprovalRequested) -> bool:
    """Return True if a call is one command, which the question then shows below its title."""
    return sum(effect.kind == "run" for effect in request.effects) == 1 and request.summary.startswith("Run")


def approval_title(request: ApprovalRequested) -> str:
    """Return the title of the question."""
    kind, _, _ = request.summary.partition(": ")
    title = kind.replace("Run", "Run a command", 1) if runs_one_command(request) else request.summary
    return escape_lookalikes(title)


def described(request: ApprovalRequested) -> str:
    """Return the model's own description of a command; "" for none."""
    about = request.arguments.get("description") if runs_one_command(request) else ""
    return one_line(about) if isinstance(about, str) else ""


def effect_lines(request: ApprovalRequested, title: str) -> Iterator[str]:
    """Yield the effects of a call that its title does not already state, other than commands."""
    written = {e.target for e in request.effects if e.kind == "write"}
    for effect in request.effects:
        if effect.kind in _VERBS and not (effect.kind == "read" and effect.target in written):
            verb = "types into" if tool_traits(request.tool).types_input else _VERBS[effect.kind]
            names = {effect.target, os.path.relpath(effect.target, request.cwd) if "/" in effect.target else ""}
            if effect.kind == "call" or not any(name and name in title.split() for name in names):
                yield f"{verb} {escape_lookalikes(effect.target)}"


def call_facts(request: ApprovalRequested) -> Iterator[str]:
    """Yield the facts that a user may ask for."""
    yield f"asks because it {request.reason}"
    yield from request.facts
    for effect in request.effects:
        if effect.kind in ("read", "write"):
            yield f"{_VERBS[effect.kind]} {effect.target}"
    if request.always:
        several = " and ".join(split_rules(request.always))
        rule = f"the rule{'s' if several != request.always else ''} {several}"
        means = "" if request.grants.startswith(_REDUNDANT_GRANTS) else f", which allows {request.grants}"
        yield f"always this session: adds {rule}{means}"
    if request.keeps:
        yield "always in this project: saves that in .agentrc.local"
        if request.trusts:
            yield "trusting it: the project's own settings, hooks and commands take effect until they change"
    if request.exact:
        yield f"exactly: adds the rule {request.exact}"


class LastingApproval(Value):
    """An approval that holds for later calls, too. brief: its words in a narrow window."""

    key: str
    words: str
    brief: str
    decision: UserDecision


def lasting_approvals(request: ApprovalRequested) -> Iterator[LastingApproval]:
    """Yield the approvals that a question offers besides that of this call alone."""
    approve = UserDecision(request.call_id, "", "approve")
    if request.edits and not runs_one_command(request):
        words = "all edits this session"
        yield LastingApproval("s", words, words, approve.replace(mode="acceptEdits"))
    if request.always:
        rule = rule_label(request.always, request.cwd)
        yield LastingApproval(
            "a", f"always this session: {rule}", f"Session: {rule}", approve.replace(rule=request.always)
        )
    if request.keeps:
        rule = rule_label(request.always, request.cwd)
        words = f"always in this project{', trusting it' if request.trusts else ''}: {rule}"
        decision = approve.replace(rule=request.always, scope="project")
        yield LastingApproval("A", words, f"Project: {rule}", decision)
    if request.exact:
        rule = rule_label(request.exact, request.cwd)
        words, brief = f"always this session, exactly: {rule}", f"Session, exactly: {rule}"
        yield LastingApproval("x", words, brief, approve.replace(rule=request.exact))


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
        name = os.path.relpath(path, cwd) if Path(path).is_relative_to(cwd) else path
        verb = "changes to" if tool_traits(tool).changes_files else "reading"
        return escape_lookalikes(one_line(f"{verb} {name}"))
    if spec.startswith("domain:"):
        return escape_lookalikes(one_line(spec.removeprefix("domain:")))
    return escape_lookalikes(one_line(spec if tool_traits(tool).rule_names == "command" else rule))

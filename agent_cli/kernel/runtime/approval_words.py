"""What every front end says about a call that needs approval: its title, effects and facts, and what may be decided."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from agent_cli.kernel.events import ApprovalRequested, ApprovalResolved
from agent_cli.kernel.rules import split_rules
from agent_cli.kernel.runtime.edit_call import EditableCall, editable_call, taken_parts
from agent_cli.kernel.runtime.user_decision import LineComment, UserDecision
from agent_tools.fs.workspace import Workspace
from agent_tools.lookalikes import escape_lookalikes
from agent_tools.record import Value
from agent_tools.registry import TraitsOf, tool_traits
from agent_tools.results import Diff, Diffs
from agent_tools.sandbox.conditions import STAGED
from agent_tools.text import counted, one_line, short_path

_VERBS = {"read": "reads", "write": "writes", "fetch": "fetches", "call": "calls"}
_RULE = re.compile(r"(\w+)\((.*)\)")
_ALLOWS = {"read": "Let it read", "write": "Let it change", "fetch": "Let it fetch", "call": "Let it call"}
_RUNS = re.compile(r"runs a command(?:: (.+?)( \(not known to be read-only\))?(?:: .*)?)?")
_NEEDS_APPROVAL = re.compile(r"needs approval: (.*) \(runs a command.*\)")


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


class ApprovalQuestion:
    """The question about a call that needs approval, as all front ends put it.

    change: the parts of the call that may be edited; none by default.
    """

    def __init__(self, request: ApprovalRequested, change: EditableCall = EditableCall("", {})) -> None:  # noqa: B008 - never changed
        self.request, self.change = request, change
        self._kind = request.summary.partition(": ")[0]
        # It is one command, which the question then shows below its title.
        self.runs_command = sum(e.kind == "run" for e in request.effects) == 1 and request.summary.startswith("Run")
        # It brings the changes of a staged turn; a refusal without words drops them.
        self.staged = any(effect.kind == "call" and effect.target == STAGED for effect in request.effects)

    @classmethod
    def of(
        cls, request: ApprovalRequested, workspace: Workspace, traits_of: TraitsOf = tool_traits
    ) -> ApprovalQuestion:
        """Return the question with what may be edited. workspace: has the files that the call would change."""
        return cls(request, editable_call(request, workspace, traits_of))

    @staticmethod
    def besides(answer: ApprovalResolved, summary: str = "") -> str:
        """Describe what a user has decided besides the approval of the call; "" for nothing.

        summary: of the call, next to which its command is not repeated.
        """
        command = summary.partition(": ")[2]
        what = "exactly this" if command and answer.rule.partition("(")[2] == f"{command})" else answer.rule
        words = [f"only {parts}"] if (parts := taken_parts(answer.change)) else []
        words += ["all edits this session" if answer.mode else f"always: {what}" if answer.rule else ""]
        return " · ".join(filter(None, [*words, answer.reason]))

    def hunk_comment(self, number: int, text: str) -> LineComment:
        """Return the user's comment on one of the hunks of the change, counted from 0."""
        hunk = self.change.hunks[number]
        return LineComment(hunk.path, text, hunk.first + 1)

    @property
    def title(self) -> str:
        title = self._kind.replace("Run", "Run a command", 1) if self.runs_command else self.request.summary
        return escape_lookalikes(title)

    def answers(self, usual: tuple[str, str]) -> tuple[str, str]:
        """Return what the choices for yes and no are called. usual: for most calls."""
        return ("Apply them", "Discard them") if self.staged else usual

    @property
    def sentence(self) -> str:
        """The question as a sentence."""
        request, preview = self.request, self.request.preview
        if self.runs_command:
            text = self._kind.replace("Run", "Run this command", 1)
        elif self.staged:
            text = f"Apply {counted(len(request.effects) - 1, 'change')} to your project"
            # The changes of several files are shown with their names.
            text += f": {short_path(preview.path, request.cwd)}" if isinstance(preview, Diff) else ""
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

    @property
    def about(self) -> str:
        """The model's own description of a command; "" for none."""
        about = self.request.arguments.get("description") if self.runs_command else ""
        return one_line(about) if isinstance(about, str) else ""

    def effects(self) -> Iterator[str]:
        """Yield the effects of the call that its title does not already state, other than commands."""
        request, title = self.request, self.title
        written = {e.target for e in request.effects if e.kind == "write"}
        if self.staged:
            yield from request.facts
        for effect in request.effects if not self.staged else ():
            if effect.kind in _VERBS and not (effect.kind == "read" and effect.target in written):
                verb = "types into" if tool_traits(request.tool).types_input else _VERBS[effect.kind]
                names = {effect.target, os.path.relpath(effect.target, request.cwd) if "/" in effect.target else ""}
                if effect.kind == "call" or not any(name and name in title.split() for name in names):
                    yield f"{verb} {escape_lookalikes(effect.target)}"

    @property
    def grave(self) -> bool:
        """True if the call may destroy something or leave the sandbox: without a warning, it does neither."""
        return bool(self.request.warnings) or self.staged

    @property
    def why(self) -> str:
        """Why the call needs approval: what is missing, if what it does is nothing special."""
        request = self.request
        if found := _RUNS.fullmatch(request.reason):
            name = found[1] or "this command"
            return (
                f"{name} is not known to be read-only, and no rule allows it" if found[2] else f"no rule allows {name}"
            )
        if request.reason == "changes a file":
            return "changes to files need approval in this mode, and no rule allows this one"
        return f"it {request.reason}"

    def facts(self) -> Iterator[str]:
        """Yield why the call needs approval, and the facts that a user may ask for."""
        request = self.request
        yield f"asked, as {self.why}"
        if self.staged:
            return  # the question itself has the rest
        for fact in request.facts:
            found = _NEEDS_APPROVAL.fullmatch(fact)
            yield f"needs approval: {found[1]}" if found else fact
        title = self.sentence.rstrip("?").split()
        for effect in request.effects:
            name = short_path(effect.target, request.cwd)
            if effect.kind in ("read", "write") and name not in title:
                yield f"{_VERBS[effect.kind]} {name}"

    def lasting(self) -> Iterator[LastingApproval]:
        """Yield the approvals that the question offers besides that of this call alone."""
        request = self.request
        approve = UserDecision(request.call_id, "", "approve")
        if request.scheduled:
            rule = rule_label(request.always, request.cwd)
            decision = approve.replace(rule=request.always, scope="schedule")
            says, why = (
                "allow it in every run of this schedule",
                f"adds {' and '.join(split_rules(request.always))} to it",
            )
            yield LastingApproval("S", f"always in this schedule: {rule}", f"Schedule: {rule}", decision, says, why)
        if request.edits and not self.runs_command:
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
            trust = (
                "; its own settings, hooks and commands also take effect until they change" if request.trusts else ""
            )
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

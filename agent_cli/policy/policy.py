"""Decide tool calls: turn the effects of a call into one decision, from rules, grants and the mode.

Order: deny rules over everything; then protected paths; ask rules; allow rules and grants; then what the effect
needs by default (reads inside the workspace are free, the rest asks); and last the mode, which may answer an open
question but never overrides a deny, an ask rule or a protected path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agent_cli.kernel.decisions import Decision, Level, Verdict, strictest
from agent_cli.kernel.modes import Mode
from agent_cli.kernel.rules import Rule, RuleError, RuleList, read_rule, rule_for, split_rules
from agent_cli.policy.path_policy import (
    Matcher,
    ProtectedPaths,
    SearchFilter,
    decide_path,
    find_protected_paths,
    protected,
    secret,
    with_mode,
)
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from agent_tools.lazy import lazy_imports
from agent_tools.sandbox.conditions import OUTSIDE_SANDBOX, Confined, RunConditions
from agent_tools.text import shorten

with lazy_imports():
    from agent_cli.policy import (
        command_reads,  # with the shell analysis
        explain,  # only for a question
        impact,  # with the shell analysis
        masked_lines,  # with the shell analysis
        masks,  # with the shell analysis
    )
    from agent_cli.policy import commands as permissions_commands

if TYPE_CHECKING:
    from agent_cli.policy.commands import CommandEvaluator
    from agent_cli.policy.git_use import Use


_STOPPED = "ran this command read-only, without a network and secrets, and that stopped it"


def rules_problem(update: Mapping[str, Any]) -> str:
    """Describe the first thing in an update that `change_rules` cannot use; "" if there is nothing."""
    kind, rules = update.get("behavior"), update.get("rules")
    if kind not in ("allow", "deny", "ask"):
        return "behavior: expected allow, deny or ask."
    listed = rules if isinstance(rules, list | tuple) else [rules]
    if not all(rule.get("toolName") if isinstance(rule, Mapping) else isinstance(rule, str) for rule in listed):
        return "rules: expected a list of objects with toolName."
    return ""


def change_rules(policy: Policy, update: Mapping[str, Any], save: Callable[[str], str] | None = None) -> list[str]:
    """Add or remove rules of the session; return a sentence for each that cannot be read.

    save: saves an allow rule for the project, if the update requests that.
    """
    kind = update.get("behavior")
    if update.get("type") in ("setMode", "addDirectories", "removeDirectories"):
        return []
    if kind not in ("allow", "deny", "ask"):
        return [f"a change of rules has the unknown behavior {shorten(repr(kind), 40)}"]
    texts, problems = [], []
    rules = update.get("rules")
    for rule in rules if isinstance(rules, list | tuple) else [rules] if rules is not None else ():
        if isinstance(rule, Mapping):
            content = rule.get("ruleContent")
            texts.append(f"{rule.get('toolName', '')}({content})" if content else str(rule.get("toolName", "")))
        elif isinstance(rule, str):
            texts.append(rule)
        else:
            problems.append(f"a {kind} rule cannot be read: {shorten(repr(rule), 80)}")
    if update.get("type") in ("removeRules", "replaceRules"):
        for rule in [
            r for r in policy.rules if r.list == kind and (update["type"] != "removeRules" or r.text in texts)
        ]:
            try:
                policy.remove(rule)
            except ValueError:
                continue  # not of this session
    if update.get("type") == "removeRules":
        return problems
    for text in texts:
        try:
            policy.add(cast(RuleList, kind), text)
        except RuleError as error:
            problems.append(f"a {kind} rule cannot be read: {error}")
            continue
        if save is not None and kind == "allow" and update.get("destination") in ("projectSettings", "localSettings"):
            save(text)
    return problems


SESSION = "this session"


class Policy:
    """The permission policy of a session. `grant` adds a rule for the session; `mode` may be changed at any time.

    home: directory that ~ stands for in rules and commands.
    env: environment of commands, for their PATH.
    carried: returns the variables that earlier commands exported.
    git_use: how git may be used in the workspace.
    confined: the sandbox of commands; None without one.
    state: directory of this program's own state.
    answered: a user can answer a question, now or later.
    no_bypass: treat the mode bypassPermissions as default, wherever it is set.
    restricted: nothing outside the workspace is read or written, and no rule allows writing protected files.
    """

    def __init__(
        self,
        workspace: Workspace,
        rules: Iterable[Rule] = (),
        mode: Mode = "default",
        *,
        home: str | None = None,
        env: Mapping[str, str] | None = None,
        carried: Callable[[], Mapping[str, str]] = dict,
        git_use: Use = "trusted",
        confined: Confined | None = None,
        state: Path | None = None,
        answered: bool = True,
        no_bypass: bool = False,
        restricted: bool = False,
        staged: bool = False,
    ) -> None:
        self._restricted, self._staged = restricted, staged
        self.no_bypass = no_bypass
        self._parent: Policy | None = None
        self.mode = mode
        self._workspace = workspace
        # Anchor of rules without a directory: a `cd` in a command must not move it.
        self._start = workspace.cwd
        self._rules = list(rules)
        self._home = os.path.expanduser("~") if home is None else home
        variables = env if env is not None else os.environ
        self._path = variables.get("PATH", os.defpath)
        self._variables = variables
        self._state = state
        self._carried = carried
        self._git_use = git_use
        self._env = {n: variables[n] for n in ("PATH", "HOME", "XDG_CONFIG_HOME", "SUDO_UID") if n in variables}
        self._confined = confined
        self.answered = answered
        # The rules change during a session.
        self._filter: SearchFilter | None = None
        self._masks: masks.WorkspaceMasks | None = None
        # Commands that needed approval, or need it because the read-only sandbox stopped them.
        self._asked: set[str] = set()
        self._filter_rules: list[Rule] = []

    @property
    def mode(self) -> Mode:
        """The approval mode; a sub-agent always has that of its parent, which the user may change meanwhile."""
        return self._mode if self._parent is None else self._parent.mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        if self._parent is not None:
            self._parent.mode = mode
            return
        self._mode: Mode = "default" if self.no_bypass and mode == "bypassPermissions" else mode

    @property
    def trusted(self) -> bool:
        """True if the user trusts the project, False if it only has nothing that would need trust."""
        return self._git_use == "trusted"

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules in force, including grants of this session."""
        return tuple(self._rules)

    def grant(self, text: str) -> None:
        """Allow one or more comma-separated rules for the rest of this session. Raises RuleError."""
        for rule in split_rules(text):
            self.add("allow", rule)

    def add(self, kind: RuleList, text: str) -> Rule:
        """Add a rule for the rest of this session and return it. Raises RuleError."""
        rule = read_rule(kind, text, SESSION, self._workspace.root)
        self._rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Remove a rule of this session. Raises ValueError for any other."""
        if rule.source != SESSION:
            raise ValueError(rule.source)
        self._rules.remove(rule)

    def keep_session_rules(self, before: Policy) -> None:
        """Take over the rules and grants that the user added in the session before this one."""
        self._rules += [rule for rule in before.rules if rule.source == SESSION and rule not in self._rules]

    def add_temporary(self, texts: Iterable[str], source: str, *, from_user: bool) -> list[Rule]:
        """Allow the rules in `texts` until `remove_temporary`; skip invalid ones. Return the rules added."""
        rules = []
        for text in texts:
            with suppress(RuleError):
                rules.append(read_rule("allow", text, source, self._workspace.root).replace(from_user=from_user))
        self._rules += rules
        return rules

    def remove_temporary(self, rules: Iterable[Rule]) -> None:
        """Remove rules added by `add_temporary`; other rules with the same text stay."""
        gone = {id(rule) for rule in rules}
        self._rules[:] = [rule for rule in self._rules if id(rule) not in gone]

    def for_subagent(self, workspace: Workspace, carried: Callable[[], Mapping[str, str]]) -> Policy:
        """Return a policy of the same mode, rules and grants for a sub-agent with its own directory and variables."""
        other = self._copy()
        other._parent = self
        other._workspace, other._carried, other._filter, other._masks = workspace, carried, None, None
        return other

    def _copy(self) -> Policy:
        """Return a copy whose mode and list of rules can be replaced without changing this policy."""
        other = Policy.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._parent, other._mode = None, self.mode
        return other

    def auto_allow(self, allowed: bool | str) -> None:
        """Set whether sandboxed commands run without approval: the value of the setting `sandbox.auto_allow`."""
        if self._confined is not None:
            self._confined = self._confined.replace(auto_allow=allowed is True, tries_reading=allowed == "read-only")

    @property
    def _box(self) -> Confined | None:
        """The sandbox if commands run in it now."""
        return self._confined if self._confined is not None and self._confined.holds() else None

    @property
    def runs_unasked(self) -> bool:
        """True if sandboxed commands run without approval."""
        return self._box is not None and self._box.auto_allow

    @property
    def tries_reading(self) -> bool:
        """True if commands that may only read run without approval in a sandbox in which they can write nothing."""
        return self._box is not None and self._box.tries_reading

    def readable(self, path: Path | str) -> bool:
        """Return True if a search of a readable directory may show this file of it."""
        if self._filter is None or self._filter_rules != self._rules:
            self._filter, self._filter_rules = SearchFilter(self._matcher(), self._workspace), [*self._rules]
        return self._filter(path)

    def may_mention(self, path: Path, named: bool) -> bool:
        """Return True if a message may contain a file outside the workspace: a rule allows its reading, or the user
        named it and only its place speaks against that.
        """
        decision = self.decide("", [Effect("read", str(path))])
        if decision.level is Level.ALLOW:
            return named or decision.by == "rule"
        return named and decision.level is Level.ASK and decision.by == "default" and not decision.final

    @property
    def _acting_mode(self) -> Mode:
        """The mode in which calls are decided: in a stage, edits are those of a copy."""
        return "acceptEdits" if self._staged and self.mode == "default" else self.mode

    def decide(self, tool: str, effects: Iterable[Effect]) -> Decision:
        """Return the strictest decision over all effects of a call.

        tool: "" if it is not built in.
        """
        matcher = self._matcher()
        listed = list(effects) or [Effect("state")]
        if self.mode == "plan" and self.answered and Effect("call", OUTSIDE_SANDBOX) in listed:
            return self._decide_outside_plan(tool, listed)
        return strictest([self._decide_effect(matcher, tool, effect) for effect in listed])

    def _decide_outside_plan(self, tool: str, effects: list[Effect]) -> Decision:
        """Return the decision on a command that plan mode's read-only sandbox refused: the user is asked."""
        other = self._copy()
        other.mode = "default"
        decision = other.decide(tool, effects)
        if decision.level is not Level.ALLOW:
            return decision
        return decision.replace(level=Level.ASK, reason="runs outside the read-only sandbox of plan mode", final=True)

    def note_asked(self, effects: Iterable[Effect]) -> None:
        """Note that a call needs approval, so that its commands are not tried in the read-only sandbox."""
        self._asked.update(effect.target for effect in effects if effect.kind == "run")

    def run_conditions(self, command: str) -> RunConditions:
        """Return the conditions under which an allowed command has to run."""
        evaluator = self._evaluate(self._matcher(), command)
        verdicts = [
            with_mode(v, self._acting_mode, "run", self._workspace, reads=evaluator.reads_only)
            for v in evaluator.verdicts()
        ]
        confined = self._box
        outside = evaluator.outside_reason(confined) if confined is not None else ""
        if confined is not None and outside and not self._asks and evaluator.taken_along(confined):
            outside = ""  # nobody was asked about the other parts, so all of them stay inside
        # A command that is allowed only because it is sandboxed gets no network.
        alone = confined is not None and confined.auto_allow and evaluator.sandbox_safe(confined)
        vouched = not alone or all(v.level is Level.ALLOW for v in verdicts)
        if self._runs_read_only(command, evaluator, verdicts):
            masked = evaluator.masks.all_unreadable() if evaluator.masks is not None else ()
            return RunConditions(
                evaluator.hardening,
                vouched=False,
                read_only=True,
                stopped=lambda: self._note_stopped(command),
                masked=masked,
            )
        conditions = RunConditions(evaluator.hardening, vouched and evaluator.uses_network, vouched, outside)
        if evaluator.masks is None or evaluator.reads_only or outside:
            return conditions
        # Only a user can have answered such a question.
        asked = any(v.level is Level.ASK and (v.final or not alone) for v in verdicts)
        masked = evaluator.masks.of_line(
            evaluator.analysis, vouched=vouched or asked, may_open=lambda p, w: asked or evaluator.rule_names(p, w)
        )
        return conditions.replace(masked=masked, missing=evaluator.masks.missing)

    def _runs_read_only(self, command: str, evaluator: CommandEvaluator, verdicts: Sequence[Verdict]) -> bool:
        """Return True if a command runs in a read-only sandbox because it cannot be known that it only reads.

        verdicts: on its parts, under the mode.
        """
        confined = self._box
        if evaluator.reads_only or confined is None:
            return False
        if self.mode == "plan":
            return True
        tries = confined.tries_reading and self.mode in ("default", "acceptEdits", "dontAsk")
        if not tries or command in self._asked or all(v.level is Level.ALLOW for v in verdicts):
            return False
        return evaluator.may_try_reading(verdicts, confined)

    def _note_stopped(self, command: str) -> str:
        """Note that the read-only sandbox stopped a command; return what to tell the model."""
        if self.mode == "plan":
            how = "put it into the plan, or call again with dangerouslyDisableSandbox to ask the user"
            return f"plan mode {_STOPPED}; {how}"
        self._asked.add(command)
        return f"the sandbox {_STOPPED}; call it again to ask the user to let it write"

    def command_rule(self, command: str) -> bool | None:
        """Return True if a rule allows a command, False if one denies it or asks, None if there is none."""
        if not any(_may_concern(rule, command) for rule in self._rules):
            # Judging a command costs far more.
            return False if self.mode == "dontAsk" else None
        decision = self.decide("", [Effect("run", command)])
        if decision.level is Level.ALLOW:
            return True if decision.rule else None
        return None if decision.level is Level.ASK and not decision.rule else False

    def only_reads(self, command: str) -> bool:
        """Return True if a command is known to change nothing, independent of rules."""
        return self._evaluated(command).reads_only

    def is_pure_read(self, command: str) -> bool:
        """Return True if a command is known to change nothing, the directory of the next command included."""
        evaluator = self._evaluated(command)
        return evaluator.reads_only and not evaluator.moves

    def _evaluated(self, command: str) -> CommandEvaluator:
        """Return what is known of a command without any rule."""
        evaluator = self._evaluate(Matcher((), self._start, Path(self._home or "/")), command)
        evaluator.verdicts()
        return evaluator

    def facts(self, tool: str, effects: tuple[Effect, ...], decision: Decision) -> explain.ApprovalFacts:
        """Return the facts of an approval request, which are in the session's log also if no user can answer it."""
        about = explain.ApprovalContext(tool, effects, decision, self._workspace, self._home, self._env, self._git_use)
        return explain.approval_facts(about)

    def at_stake(self, effects: Iterable[Effect]) -> dict[str, str]:
        """Fingerprint what the commands of a call would destroy, to detect a change before it runs."""
        commands = [e.target for e in effects if e.kind == "run"]
        if not commands:
            return {}
        git = impact.reader(str(self._workspace.root), self._env, self._git_use)
        marks: dict[str, str] = {}
        for command in commands:
            marks |= impact.at_stake(command, str(self._workspace.cwd), self._home, git)
        return marks

    def describe_grant(self, rules: str) -> str:
        """Describe in words what proposed allow rules would grant."""
        root = self._workspace.root
        return explain.describe_rules([read_rule("allow", r, "", root) for r in split_rules(rules)]) if rules else ""

    def would_accept_edits(self, tool: str, effects: Iterable[Effect]) -> bool:
        """Return True if the mode acceptEdits would allow a call that is asked about now."""
        if self._acting_mode != "default":
            return False
        other = self._copy()
        other.mode = "acceptEdits"
        return other.decide(tool, effects).level is Level.ALLOW

    def suggest_rule(self, tool: str, effects: tuple[Effect, ...]) -> str:
        """Return the narrowest useful rules, comma-separated, that would allow this call in future; "" for none."""
        return next(self._suggestions(tool, effects), "")

    def suggest_rules(self, tool: str, effects: tuple[Effect, ...]) -> tuple[str, str]:
        """Return the suggestion of `suggest_rule`, and a narrower one for exactly this call; "" for none."""
        found = dict.fromkeys(self._suggestions(tool, effects))
        first, second, *_ = (*found, "", "")
        return first, second

    def _suggestions(self, tool: str, effects: tuple[Effect, ...]) -> Iterator[str]:
        runs = [e.target for e in effects if e.kind == "run"]
        if len(effects) == 1 and runs:
            parts = self.decide(tool, effects).parts
            cwd = str(self._workspace.cwd)
            found = explain.rules_for_command(runs[0], cwd, self._home, parts, self._would_allow)
            yield from (", ".join(rules) for rules in found)
        elif rule := self._rule_for(tool, effects):
            yield rule

    def _rule_for(self, tool: str, effects: tuple[Effect, ...]) -> str:
        """Return the rule for a call that runs no command."""
        written = {e.target for e in effects if e.kind == "write"}
        rest = [e for e in effects if not (e.kind == "read" and e.target in written)]
        if len(rest) != 1:
            return ""
        effect = rest[0]
        if effect.kind == "fetch":
            return explain.rule_for_url(tool, effect.target)
        if effect.kind == "call" and tool.startswith("mcp__"):
            return tool
        if effect.kind == "prompt":
            return "" if set("()") & set(effect.target) else f"{tool}({effect.target})"
        path = Path(effect.target)
        if effect.kind not in ("read", "write") or set("*?[]()") & set(effect.target):
            return ""
        if protected(path, self._matcher().paths, self._workspace.roots)[0]:
            return ""
        if effect.kind == "read" and secret(path):
            return ""
        return rule_for(effect.kind, f"/{effect.target}")

    def _would_allow(self, command: str, rules: Sequence[str]) -> bool:
        """Return True if adding these rules would allow a command."""
        other = self._copy()
        with suppress(RuleError):
            other._rules = [*self._rules, *(read_rule("allow", r, "", self._workspace.root) for r in rules)]
            return other.decide("", [Effect("run", command)]).level is Level.ALLOW
        return False

    def _matcher(self) -> Matcher:
        return Matcher(self._rules, self._start, Path(self._home or "/"), self._protected_paths)

    def _protected_paths(self) -> ProtectedPaths:
        home = Path(self._home) if self._home else None
        return find_protected_paths(self._workspace.roots, home, {**self._variables, **self._carried()}, self._state)

    def _decide_effect(self, matcher: Matcher, tool: str, effect: Effect) -> Decision:
        if effect.kind == "run":
            # A command is evaluated as a command, no matter which tool runs it.
            return self._command(matcher, effect.target)
        found = decide_path(matcher, self._workspace, effect, tool, restricted=self._restricted)
        verdict = with_mode(found, self._acting_mode, effect.kind, self._workspace)
        return Decision(verdict.level, verdict.reason, verdict.by, verdict.rule, final=verdict.final)

    def _command(self, matcher: Matcher, command: str) -> Decision:
        evaluator = self._evaluate(matcher, command)
        verdicts = evaluator.verdicts()
        found = [self._apply_mode(v, evaluator) for v in verdicts]
        if self._runs_read_only(command, evaluator, found) and evaluator.may_try_reading(verdicts, self._confined):
            return Decision(Level.ALLOW, "runs in a read-only sandbox without a network", "mode")
        if self._asks:
            found = [evaluator.narrow(v) for v in found]
        answer = max(
            found, key=lambda v: (v.level, v.final, bool(v.rule)), default=Verdict(command, Level.ASK, "is empty")
        )
        reason = answer.reason
        if answer.level is Level.ALLOW and self._asks and (along := self._taken_along(evaluator)):
            why = f"also runs outside the sandbox, because another part {self._leaves_sandbox(evaluator)}: {along}"
            return Decision(Level.ASK, why, "default", "", tuple(found))
        if answer.level is Level.ASK and len(found) > 1 and answer.text != command:
            reason = f"{answer.reason}: {answer.text}"
        elif answer.level is Level.DENY and answer.by == "mode" and self.mode == "plan" and len(found) > 1:
            changing = next((v.text for v in found if not self._evaluated(v.text).reads_only), "")
            reason = f"{answer.reason}: {changing}" if changing else reason
        if answer.level is Level.ASK and (why := self._leaves_sandbox(evaluator)):
            reason = f"{reason}; it runs outside the sandbox because it {why}"
        elif answer.level is Level.ASK and answer.reason.startswith("runs a command"):
            reason = self._kept_from_sandbox(evaluator) or reason
        return Decision(answer.level, reason, answer.by, answer.rule, tuple(found), any(v.final for v in found))

    def _apply_mode(self, verdict: Verdict, evaluator: CommandEvaluator) -> Verdict:
        kind = "write" if verdict in evaluator.written else "run"
        found = with_mode(verdict, self._acting_mode, kind, self._workspace, reads=evaluator.reads_only)
        if found.level is not Level.ASK or found.final or (confined := self._box) is None or not confined.auto_allow:
            return found
        if evaluator.sandbox_safe(confined):
            return found.replace(level=Level.ALLOW, reason="runs in the sandbox, without a network", by="mode")
        return found

    @property
    def _asks(self) -> bool:
        """True if the user is asked about a command that nothing allows."""
        return self.answered and self.mode not in ("dontAsk", "bypassPermissions")

    def _taken_along(self, evaluator: CommandEvaluator) -> str:
        """Return a part that would leave the sandbox only because of another; "" if there is none."""
        return evaluator.taken_along(self._box) if self._box is not None else ""

    def _leaves_sandbox(self, evaluator: CommandEvaluator) -> str:
        """Return why a command needing approval runs outside the sandbox; "" if it does not."""
        return evaluator.outside_reason(self._box) if self.answered and self._box is not None else ""

    def _kept_from_sandbox(self, evaluator: CommandEvaluator) -> str:
        """Return why a command needs approval although sandboxed commands run without it; "" if it does not."""
        asks = self.answered and self._box is not None and self._box.auto_allow
        return evaluator.not_left_to_sandbox(self._box) if asks and self._box is not None else ""

    def _evaluate(self, matcher: Matcher, command: str) -> CommandEvaluator:
        # Lazy: the shell analysis is loaded with the first command.
        context = command_reads.CommandContext(
            self._workspace, self._home, self._acting_mode, self._path, self._carried(), self._git_use,
            self._variables, self._env,
        )  # fmt: skip
        return permissions_commands.CommandEvaluator(matcher, command, context, self._line_masks(matcher))

    def _line_masks(self, matcher: Matcher) -> masked_lines.LineMasks | None:
        if self._confined is None:
            return None
        if self._masks is None:
            self._masks = masks.WorkspaceMasks(self._env, self._git_use)
        path = self._carried().get("PATH", self._path)
        return masked_lines.LineMasks(self._masks, matcher, self._workspace, self._confined, path)


def _may_concern(rule: Rule, command: str) -> bool:
    """Return False for a rule that is surely not about a command."""
    if not rule.covers("run"):
        return False
    return rule.spec is None or re.split(r"[*?\[:\s]", rule.spec, maxsplit=1)[0] in command

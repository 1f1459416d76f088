"""The gate: from a tool call's effects to one decision. Rules, mode and grants are asked in one pipeline.

Order: deny rules over everything; then protected paths; ask rules; allow rules and grants; then what the effect
needs by itself (reads inside the workspace are free, the rest asks); and last the mode, which turns an open question
into yes or no but never overrides a deny, an ask rule or a protected path.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from agent_cli.core.modes import Mode
from agent_cli.core.rules import Rule, read_rule
from agent_cli.permission.decision import Decision, Level, strictest
from agent_cli.permission.matcher import Matcher
from agent_cli.permission.shell import WRAPPERS, parse
from agent_tools.base import Effect
from agent_tools.workspace import Workspace

# Folders and files that steer this program, git or the shell; compared case-folded, at any depth.
_PROTECTED_FOLDERS = (".git", ".agent", ".claude", ".ssh", ".gnupg", ".vscode", ".idea")
_PROTECTED_FILES = (
    ".mcp.json",
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".gitconfig",
)


class Policy:
    """Decides calls. `grant` adds a rule for this session; `mode` can be changed while it runs."""

    def __init__(self, workspace: Workspace, rules: Iterable[Rule] = (), mode: Mode = "default") -> None:
        self.mode = mode
        self._workspace = workspace
        self._rules = list(rules)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules in force, grants of this session included."""
        return tuple(self._rules)

    def grant(self, text: str) -> Rule:
        """Allow what `text` names for the rest of this session."""
        rule = read_rule("allow", text, "this session", self._workspace.root)
        self._rules.append(rule)
        return rule

    def readable(self) -> Callable[[Path], bool] | None:
        """Whether a search may show a file; None where no deny rule could say no."""
        denying = [r for r in self._rules if r.list == "deny" and r.tool in ("Read", "Grep")]
        if not denying:
            return None
        matcher = Matcher(denying, self._workspace.cwd, Path(os.path.expanduser("~")))
        return lambda path: matcher.first("deny", "Grep", Effect("read", os.path.realpath(path))) is None

    def decide(self, tool: str, effects: Iterable[Effect]) -> Decision:
        """The strictest decision over all effects of one call."""
        matcher = Matcher(self._rules, self._workspace.cwd, Path(os.path.expanduser("~")))
        listed = list(effects) or [Effect("state")]
        return strictest(
            [self._command(matcher, tool, e) if e.kind == "run" else self._plain(matcher, tool, e) for e in listed]
        )

    def always_rule(self, tool: str, effects: tuple[Effect, ...]) -> str:
        """The narrowest rule that would allow this call from now on; "" where none can be offered."""
        written = {e.target for e in effects if e.kind == "write"}
        rest = [e for e in effects if not (e.kind == "read" and e.target in written)]
        if len(rest) != 1:
            return ""
        effect = rest[0]
        if effect.kind == "run":
            parts = parse(effect.target)
            plain = parts is not None and len(parts) == 1 and parts[0].words[0] not in WRAPPERS
            return f"{tool}({effect.target.strip()})" if plain and not set("*()") & set(effect.target) else ""
        if effect.kind == "write" and not protected(Path(effect.target)):
            return "" if set("*?()") & set(effect.target) else f"Edit(/{effect.target})"
        return f"Read(/{effect.target})" if effect.kind == "read" and not set("*?()") & set(effect.target) else ""

    def _plain(self, matcher: Matcher, tool: str, effect: Effect) -> Decision:
        if rule := matcher.first("deny", tool, effect):
            return _by_rule(Level.DENY, rule)
        if effect.kind == "write" and (what := protected(Path(effect.target))):
            return self._with_mode(Decision(Level.ASK, f"writes a protected file: {what}"), effect, firm=True)
        if rule := matcher.first("ask", tool, effect):
            return self._with_mode(_by_rule(Level.ASK, rule), effect, firm=True)
        if rule := matcher.first("allow", tool, effect):
            return self._with_mode(_by_rule(Level.ALLOW, rule), effect)
        return self._with_mode(self._by_itself(effect), effect)

    def _by_itself(self, effect: Effect) -> Decision:
        if effect.kind == "state":
            return Decision(Level.ALLOW, "changes nothing outside the conversation")
        if effect.kind == "fetch":
            return Decision(Level.ASK, f"sends a request to {effect.target}")
        inside = self._workspace.inside(Path(effect.target))
        if effect.kind == "read":
            if inside:
                return Decision(Level.ALLOW, "reads inside the workspace")
            return Decision(Level.ASK, "reads outside the workspace")
        where = "changes a file" if inside else "changes a file outside the workspace"
        return Decision(Level.ASK, where)

    def _command(self, matcher: Matcher, tool: str, effect: Effect) -> Decision:
        command = effect.target
        parts = parse(command)
        checked = [matcher.first_command("deny", tool, command, part) for part in (None, *(parts or ()))]
        if rule := next((r for r in checked if r), None):
            return _by_rule(Level.DENY, rule)
        unsure = self._cannot_rule_out_deny(matcher, tool, command)
        if unsure:
            return self._with_mode(Decision(Level.ASK, unsure), effect, firm=True)
        asked = [matcher.first_command("ask", tool, command, part) for part in (None, *(parts or ()))]
        if rule := next((r for r in asked if r), None):
            return self._with_mode(_by_rule(Level.ASK, rule), effect, firm=True)
        if rule := matcher.first_command("allow", tool, command, None):
            return self._with_mode(_by_rule(Level.ALLOW, rule), effect)
        if parts is None:
            return self._with_mode(Decision(Level.ASK, "runs a command that no rule can vouch for"), effect)
        rules = [matcher.first_command("allow", tool, command, part) for part in parts]
        for part, found in zip(parts, rules, strict=True):
            if found is None:
                ruled = any(r.list == "allow" and r.tool == tool for r in matcher.rules)
                which = (
                    "runs a command"
                    if len(parts) == 1 or not ruled
                    else f"runs a part that no rule allows: {part.text}"
                )
                return self._with_mode(Decision(Level.ASK, which), effect)
        return self._with_mode(_by_rule(Level.ALLOW, next(r for r in rules if r)), effect)

    def _cannot_rule_out_deny(self, matcher: Matcher, tool: str, command: str) -> str:
        """With deny rules present, what cannot be seen through is never allowed by a rule or a mode."""
        if not any(r.list == "deny" and r.tool == tool and r.spec for r in matcher.rules):
            return ""
        parts = parse(command)
        if parts is None:
            return "is too dynamic to be compared with the deny rules"
        hidden = next((p for p in parts if os.path.basename(p.words[0]) in WRAPPERS or "/" in p.words[0]), None)
        return f"uses `{hidden.words[0]}`, which may run what a deny rule names" if hidden else ""

    def _with_mode(self, decision: Decision, effect: Effect, *, firm: bool = False) -> Decision:
        """What the mode makes of it. `firm` questions are asked in every mode that can ask."""
        if self.mode == "plan" and effect.kind in ("write", "run"):
            return Decision(Level.DENY, "is not read-only, as plan mode demands", "mode")
        if decision.level is not Level.ASK:
            return decision
        if self.mode == "dontAsk":
            return Decision(Level.DENY, f"{decision.reason}, and the mode dontAsk denies what no rule allows", "mode")
        if firm:
            return decision
        if self.mode == "bypassPermissions":
            return Decision(Level.ALLOW, "runs with permissions bypassed", "mode")
        if self.mode == "acceptEdits" and effect.kind == "write" and self._workspace.inside(Path(effect.target)):
            return Decision(Level.ALLOW, "edits inside the workspace, which the mode accepts", "mode")
        return decision


def protected(path: Path) -> str:
    """Why a write to this path is never waved through; "" where it may be."""
    parts = [p.casefold().rstrip(". ") for p in path.parts]
    if folder := next((p for p in parts[:-1] if p in _PROTECTED_FOLDERS), None):
        return f"it is inside {folder}"
    if not parts or (parts[-1] not in _PROTECTED_FILES and parts[-1] not in _PROTECTED_FOLDERS):
        return "it holds this program's settings" if parts and parts[-1].startswith(".agentrc") else ""
    return "it steers other programs"


def _by_rule(level: Level, rule: Rule) -> Decision:
    words = {Level.ALLOW: "is allowed", Level.ASK: "must be asked about", Level.DENY: "is denied"}
    return Decision(level, f"{words[level]} by {rule.text} ({rule.source})", "rule", rule.text)

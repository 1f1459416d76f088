"""Apply rules and modes to one file or URL that a call touches.

Also filters the files that a search may show: the same decision for thousands of files, few of which any rule mentions.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from agent_cli.core.events import Decider
from agent_cli.core.rules import Rule
from agent_cli.permissions.decision import Level, Verdict
from agent_cli.permissions.matcher import Matcher
from agent_cli.permissions.paths import protected, secret
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from agent_tools.registry import BUILTIN
from agent_tools.sandbox.conditions import OUTSIDE


def by_rule(text: str, level: Level, rule: Rule, *, final: bool = False) -> Verdict:
    """Return the verdict of a rule."""
    words = {Level.ALLOW: "is allowed", Level.ASK: "must be asked about", Level.DENY: "is denied"}
    why = f": {rule.why}" if rule.why else ""
    return Verdict(text, level, f"{words[level]} by {rule.text} ({rule.source}){why}", rule.text, "rule", final)


def decide_path(matcher: Matcher, workspace: Workspace, effect: Effect, tool: str = "") -> Verdict:
    """Return the verdict on an effect other than a command: deny, protected, ask, allow, then the default.

    tool: name of the tool; "" for the effect of a program.
    """
    target = effect.target
    if rule := matcher.first("deny", tool, effect):
        return by_rule(target, Level.DENY, rule)
    if effect.kind == "write":
        kind, what = protected(Path(target), matcher.places, workspace.roots)
        if kind and not any(_opens(rule, kind) for rule in matcher.all("allow", tool, effect)):
            return Verdict(target, Level.ASK, f"writes a protected file: {what}", final=True)
    if rule := matcher.first("ask", tool, effect):
        return by_rule(target, Level.ASK, rule, final=True)
    if effect.kind == "read" and secret(Path(target)):
        named = next((r for r in matcher.all("allow", tool, effect) if _names(r)), None)
        if named is None:
            return Verdict(target, Level.ASK, "reads a file that looks like it holds secrets", final=True)
    if rule := matcher.first("allow", tool, effect):
        return by_rule(target, Level.ALLOW, rule)
    return _by_itself(workspace, effect)


def _opens(rule: Rule, kind: str) -> bool:
    """Return True if a rule allows a protected path: one of the user's own that names it without a wildcard."""
    return kind != "own" and rule.own and rule.spec is not None and not set("*?[") & set(rule.spec)


def _names(rule: Rule) -> bool:
    """Return True if a rule restricts the file name to more than "any"."""
    return bool(rule.spec) and bool((rule.spec or "").rstrip("/").rpartition("/")[2].strip("*."))


def _by_itself(workspace: Workspace, effect: Effect) -> Verdict:
    target = effect.target
    if effect.kind == "state":
        return Verdict(target, Level.ALLOW, "changes nothing outside the conversation")
    if effect.kind == "prompt":
        return Verdict(target, Level.ASK, f"uses the saved prompt {target}")
    if effect.kind == "call":
        reason = f"runs {OUTSIDE}" if target == OUTSIDE else "calls another program's tool"
        return Verdict(target, Level.ASK, reason)
    if effect.kind == "fetch":
        return Verdict(target, Level.ASK, f"sends a request to {target}")
    inside = _is_inside(workspace, target)
    if effect.kind == "read":
        if inside:
            return Verdict(target, Level.ALLOW, "reads inside the workspace")
        if workspace.of_skill(Path(target)):
            return Verdict(target, Level.ALLOW, "reads a file of a skill")
        if workspace.may_read(target):
            return Verdict(target, Level.ALLOW, "reads the output of a command")
        return Verdict(target, Level.ASK, "reads outside the workspace")
    return Verdict(target, Level.ASK, "changes a file" if inside else "changes a file outside the workspace")


def _is_inside(workspace: Workspace, target: str) -> bool:
    """Return True if a target is inside the workspace, both as resolved and by the current links."""
    path = Path(target)
    return any(path.is_relative_to(root) for root in workspace.roots) and workspace.inside(path)


def with_mode(verdict: Verdict, mode: str, effect_kind: str, workspace: Workspace, *, reads: bool = False) -> Verdict:
    """Apply the permission mode to a verdict. reads: the effect is of a read-only command."""
    if mode == "plan" and effect_kind in ("write", "run", "call") and not reads and verdict.level is not Level.DENY:
        return _mode(verdict, Level.DENY, "is not read-only, as plan mode demands")
    if verdict.level is not Level.ASK:
        return verdict
    if mode == "dontAsk":
        said = f"{verdict.reason}, and the mode dontAsk denies what no rule allows"
        return _mode(verdict, Level.DENY, said).replace(rule=verdict.rule)
    if verdict.final:
        return verdict
    if mode == "bypassPermissions":
        return _mode(verdict, Level.ALLOW, "runs with permissions bypassed")
    if mode == "acceptEdits" and effect_kind == "write" and _is_inside(workspace, verdict.text):
        return _mode(verdict, Level.ALLOW, "edits inside the workspace, which the mode accepts")
    return verdict


def _mode(verdict: Verdict, level: Level, reason: str) -> Verdict:
    by: Decider = "mode"
    return verdict.replace(level=level, reason=reason, by=by, rule="")


# Rules for any of these tools also apply to what a search shows.
_SEARCHERS = tuple(tool.name for tool in BUILTIN if tool.searches_content)


@lru_cache(maxsize=65_536)
def _secret_name(name: str) -> bool:
    return secret(Path(f"/{name}"))


class SearchFilter:
    """Decides whether a search of a readable directory may show a file of it.

    Hidden are files matched by deny or ask rules and files that look like secrets, unless a rule allows exactly that.
    Searches follow no links, so only the directory of a path is resolved, once per directory.
    """

    def __init__(self, matcher: Matcher, workspace: Workspace) -> None:
        self._matcher = matcher
        self._workspace = workspace
        self._ruled = matcher.patterns(("deny", "ask"), lambda r: r.covers("read") or r.tool in _SEARCHERS)
        self._folders: dict[str, bool] = {}

    def __call__(self, path: Path | str) -> bool:
        text = str(path)
        folder, _, name = text.rpartition("/")
        plain = self._folders.get(folder)
        if plain is None:
            plain = self._folders[folder] = self._is_plain(folder)
        if plain and not _secret_name(name) and not (self._ruled and any(p.match(text) for p in self._ruled)):
            return True
        reads = Effect("read", os.path.realpath(text))
        verdicts = [decide_path(self._matcher, self._workspace, reads, tool) for tool in _SEARCHERS]
        # A question that is not final concerns the directory, and was answered for it.
        return all(v.level is Level.ALLOW or (v.level is Level.ASK and not v.final) for v in verdicts)

    def _is_plain(self, folder: str) -> bool:
        """Return True if the path contains no link and the directory does not look like one of secrets."""
        return os.path.realpath(folder) == folder and not secret(Path(f"{folder}/x"))

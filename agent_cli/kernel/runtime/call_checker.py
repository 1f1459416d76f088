"""What would be decided about a call, and which rules would have spared the user's earlier approvals."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast, get_args

from agent_cli.config.config import Config
from agent_cli.kernel.decisions import Decision, Level
from agent_cli.kernel.events import ApprovalRequested
from agent_cli.kernel.modes import Mode
from agent_cli.kernel.rules import Rule, RuleError, RuleList, read_rule, split_rules
from agent_cli.kernel.run_environment import RunEnvironment, UsageError
from agent_cli.kernel.runtime.environment import read_settings
from agent_cli.kernel.session.store import SessionStore, state_folder
from agent_cli.policy.explain import describe_rule
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect, ToolContext, ToolError
from agent_tools.fs.workspace import Workspace
from agent_tools.record import DecodeError, from_json
from agent_tools.registry import find_tool
from agent_tools.text import escape_controls

_LISTS: tuple[RuleList, ...] = ("allow", "ask", "deny")
# Isolated from the machine: no file is in the home directory.
_MISSING_HOME = "/nonexistent"


class CallChecker:
    """Says what would be decided about a call. Runs nothing; files need not exist.

    A request is plain data: a tool, its input, and what is different from `options`: workspace, cwd, home, mode,
    allow, ask, deny, add_dirs, trusted. The rules of both apply.
    """

    def __init__(
        self,
        run_env: RunEnvironment,
        options: Mapping[str, Any],
        *,
        isolated: bool,
        settings: tuple[str, ...] = (),
    ) -> None:
        """isolated: the user's rules, settings and home do not count. Raises UsageError for the settings."""
        self._isolated = isolated
        self._options = options
        self._run_env = run_env
        self._rules: list[Rule] = []
        self._mode: Mode = "default"
        self._extra: tuple[str, ...] = ()
        if not isolated:
            layers = read_settings(Config(settings=settings), self._run_env)
            found = layers.settings().permissions
            self._rules, self._mode, self._extra = list(layers.rules), found.mode, found.additional_directories

    def decide(self, request: Mapping[str, Any], *, narrowest: bool = False) -> dict[str, Any]:
        """Return decision, reason, rule and parts as plain data. Raises UsageError for an invalid request.

        narrowest: also return the narrowest rules that would allow the call; takes more decisions.
        """
        rules: dict[str, Any] = {kind: [*_texts(self._options, kind), *_texts(request, kind)] for kind in _LISTS}
        request = {**self._options, **request, **rules}
        tool, given = request.get("tool"), request.get("input", {})
        if not isinstance(tool, str) or not isinstance(given, dict):
            raise UsageError("A request needs a tool by name and its input as a JSON object.")
        cwd = self._run_env.cwd / (_text(request, "cwd") or ".")
        root = Path(_text(request, "workspace") or self._root(cwd))
        home = _text(request, "home") or (_MISSING_HOME if self._isolated else str(self._run_env.home or _MISSING_HOME))
        extra = tuple(Path(d) for d in (*self._extra, *_texts(request, "add_dirs")))
        workspace = Workspace(root, extra, cwd, home=home)
        policy = Policy(
            workspace,
            [*self._rules, *_rules(request, workspace.root)],
            _mode(request.get("mode") or self._mode),
            home=home,
            env={} if self._isolated else self._run_env.env,
            git_use="trusted" if request.get("trusted", True) is True else "unknown",
            state=None if self._isolated else state_folder(self._run_env.env),
            # Isolated, only the rules count: broad rules are not narrowed as if a user could be asked.
            answered=not self._isolated,
        )
        context = ToolContext(workspace, env={} if self._isolated else dict(self._run_env.env))
        try:
            effects = self._effects(tool, given, context)
        except ToolError as error:
            return refused(f"is not a valid call: {error}")
        decision = policy.decide(tool, effects)
        if not narrowest:
            return _to_json(decision)
        open_ask = decision.level is Level.ASK and not decision.rule
        return {**_to_json(decision), "narrowest": split_rules(policy.suggest_rule(tool, effects)) if open_ask else []}

    def _root(self, cwd: Path) -> Path:
        if self._isolated:
            return cwd
        return self._run_env.root if cwd.is_relative_to(self._run_env.root) else cwd

    def _effects(self, tool: str, given: dict[str, Any], context: ToolContext) -> tuple[Effect, ...]:
        known = find_tool(tool)
        if known is not None:
            return known.effects(known.read(given), context)
        if tool.startswith("mcp__"):
            return (Effect("call", tool),)
        if not tool:
            raise UsageError("Name the call to explain, as in: agent permissions check 'git push'")
        raise UsageError(f"Unknown tool {escape_controls(tool)}. See: agent tools list")


def refused(reason: str) -> dict[str, Any]:
    """Return the answer about a call that is none, or that cannot be read."""
    return {"decision": "deny", "reason": reason, "rule": "", "parts": [], "narrowest": []}


def _to_json(decision: Decision) -> dict[str, Any]:
    parts = [
        {"text": v.text, "decision": v.level.name.lower(), "reason": v.reason, "rule": v.rule} for v in decision.parts
    ]
    return {
        "decision": decision.level.name.lower(),
        "reason": decision.reason,
        "rule": decision.rule,
        "parts": parts,
    }


def _rules(request: Mapping[str, Any], base: Path) -> Iterable[Rule]:
    for kind in _LISTS:
        for text in _texts(request, kind):
            try:
                yield read_rule(kind, text, f"--{kind}", base)
            except RuleError as error:
                raise UsageError(f"{kind}: {error}") from None


def _mode(name: object) -> Mode:
    if name not in get_args(Mode):
        raise UsageError(f"Unknown mode {name!r}. Known modes: {', '.join(get_args(Mode))}.")
    return cast(Mode, name)


def _text(request: Mapping[str, Any], key: str) -> str:
    value = request.get(key) or ""
    if not isinstance(value, str):
        raise UsageError(f"{key} must be a string.")
    return value


def _texts(request: Mapping[str, Any], key: str) -> list[str]:
    value = request.get(key) or []
    if isinstance(value, str):
        return [value]
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
        raise UsageError(f"{key} must be a list of strings.")
    return list(value)


class LearnedRules:
    """The narrowest rules that would have allowed the calls that the user approved lately.

    questions: such calls that would need approval again. not_spared: those that no narrow rule allows.
    rules: each with the number of calls that it allows, and what it grants in words; the most used first.
    """

    def __init__(self, run_env: RunEnvironment, days: int) -> None:
        """Raises UsageError for the settings."""
        self._run_env = run_env
        self._rules = list(read_settings(Config(), run_env).rules)
        since = time.time() - days * 86_400
        asked = [r for r in _approved_requests(SessionStore.of(run_env), since) if not self._allows(r)]
        proposed = [self._propose(request) for request in asked]
        self.questions, self.not_spared = len(asked), proposed.count(())
        counts = Counter(rule for rules in proposed for rule in rules)
        self.rules = [(rule, count, describe_rule(self._rule(rule))) for rule, count in counts.most_common()]

    def _policy(self, request: ApprovalRequested, more: Iterable[Rule] = ()) -> Policy:
        workspace = Workspace(self._run_env.root, (), Path(request.cwd))
        home, env = str(self._run_env.home or ""), self._run_env.env
        return Policy(workspace, [*self._rules, *more], home=home, env=env)

    def _allows(self, request: ApprovalRequested, more: Iterable[Rule] = ()) -> bool:
        return self._policy(request, more).decide(request.tool, request.effects).level is Level.ALLOW

    def _propose(self, request: ApprovalRequested) -> tuple[str, ...]:
        """Return the rules that together would have avoided a question; () if there are none."""
        found = tuple(split_rules(self._policy(request).suggest_rule(request.tool, request.effects)))
        return found if found and self._allows(request, map(self._rule, found)) else ()

    def _rule(self, text: str) -> Rule:
        return read_rule("allow", text, "learned", self._run_env.root)


def _approved_requests(store: SessionStore, since: float) -> Iterator[ApprovalRequested]:
    """Yield the requests that users approved in sessions changed since then."""
    for session_id in store.ids():
        session = store.session(session_id)
        try:
            if session.path.stat().st_mtime < since:
                return  # the latest come first
            records = session.records()
        except OSError:
            continue
        asked: dict[str, ApprovalRequested] = {}
        # A run that resumes to carry a decision out records the question again.
        decided: set[tuple[str, str]] = set()
        for record in records:
            kind, event = record.type, record.data
            while kind == "SubagentEvent":
                event = event["event"]
                kind = event["type"]
            if kind == "ApprovalRequested":
                try:
                    asked[event["call_id"]] = from_json(ApprovalRequested, event)
                except DecodeError:
                    continue
            elif kind == "ApprovalResolved" and event["by"] == "person":
                request = asked.pop(event["call_id"], None)
                if request is None or (request.call_id, request.binding) in decided:
                    continue
                decided.add((request.call_id, request.binding))
                if event["decision"] == "approve":
                    yield request

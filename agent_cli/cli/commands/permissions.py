"""List the permission rules, explain a decision, and suggest rules."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

from agent_cli import (
    MODES,
    ApprovalRequested,
    Config,
    Mode,
    RunEnvironment,
    SessionStore,
    UsageError,
    find_environment,
    read_settings,
)
from agent_cli.cli import completion
from agent_cli.cli.app import AsJson, AsJsonObject, ListingGroup, with_run_options
from agent_cli.cli.help import examples, one_of
from agent_cli.console import echo, print_ignored, print_json, table
from agent_cli.kernel.decisions import Decision, Level
from agent_cli.kernel.rules import Rule, RuleError, RuleList, read_rule, split_rules
from agent_cli.kernel.session.store import state_folder
from agent_cli.policy.explain import describe_rule
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect, ToolContext, ToolError
from agent_tools.fs.workspace import Workspace
from agent_tools.record import DecodeError, from_json
from agent_tools.registry import BUILTIN, find_tool
from agent_tools.text import counted, escape_controls, one_line

# In order of precedence: a deny rule beats all others.
PRECEDENCE = ("deny", "ask", "allow")


app = typer.Typer(cls=ListingGroup, add_completion=False)
GivenRules = Annotated[list[str] | None, typer.Option(metavar="RULE", help="Add this rule.")]


@app.command(
    "check",
    epilog=examples(
        "agent permissions check 'git push'", 'agent permissions check --tool Read --input \'{"file_path": ".env"}\''
    ),
)
def check_call(
    command: Annotated[str, typer.Argument(metavar="[COMMAND]", help="A command line for Bash.")] = "",
    tool: Annotated[
        str, typer.Option(metavar="NAME", help="Tool of the call, e.g. Bash.", autocompletion=completion.complete_tools)
    ] = "",
    given: Annotated[str, typer.Option("--input", metavar="JSON", help="Arguments of the call.")] = "",
    allow: GivenRules = None,
    ask: GivenRules = None,
    deny: GivenRules = None,
    mode: Annotated[
        str,
        typer.Option(
            metavar="MODE", help=f"Permission mode: {one_of(MODES)}.", autocompletion=completion.one_of_choices(MODES)
        ),
    ] = "",
    cwd: Annotated[str, typer.Option(metavar="DIR", help="Working directory of the call.")] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option("--settings", metavar="FILE|JSON", help="Read settings from a file, or from TOML or JSON text."),
    ] = None,
    isolated: Annotated[bool, typer.Option("--isolated", help="Ignore your rules and home directory.")] = False,
    batch: Annotated[
        bool, typer.Option("--batch", help="Answer JSON lines from standard input, one at a time.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Explain what would be decided about a call. Runs nothing; files need not exist."""
    files = tuple(settings or ())
    if command and (tool or given or batch):
        raise UsageError("Give either a command line, or a call by --tool, --input or --batch.")
    if command:
        runner = next(tool for tool in BUILTIN if tool.command_argument)
        tool, given = runner.name, json.dumps({runner.command_argument: command})
    request: dict[str, Any] = {"tool": tool, "allow": allow, "ask": ask, "deny": deny, "mode": mode, "cwd": cwd}
    if batch:
        if given:
            raise UsageError("--batch reads the arguments of each call from standard input: leave out --input.")
        return check_batch(request, isolated=isolated, settings=files)
    return check_one({**request, "input": given}, isolated=isolated, settings=files, as_json=as_json)


@app.command("list", epilog=examples("agent permissions list"))
@with_run_options("permission_mode", "allowed_tools", "ask_tools", "disallowed_tools", "settings", "trust", "bare")
def list_rules(config: Config, as_json: AsJsonObject = False) -> int:
    """List the rules of a run with these options, and where each comes from."""
    run_env = find_environment(os.environ)
    layers = read_settings(config, run_env)
    print_ignored(layers.ignored)
    mode = layers.settings().permissions.mode
    origin = layers.origins.get("permissions.mode", "default")
    rules = sorted(layers.rules, key=lambda r: PRECEDENCE.index(r.list))
    trust = layers.trust
    if as_json:
        print_json(
            {
                "mode": {"value": mode, "source": origin},
                "workspace": str(run_env.root),
                "trust": {"state": trust.state, "by": trust.by},
                "rules": [
                    {
                        "list": r.list, "rule": r.text, "why": r.why, "source": r.source,
                        "match": list(r.match), "not_match": list(r.not_match),
                    }
                    for r in rules
                ],
            }
        )  # fmt: skip
        return 0
    for name, value in (("mode", f"{mode} ({origin})"), ("workspace", str(run_env.root)), ("trust", trust.label)):
        echo(f"{name:<9}  {one_line(value)}")
    echo("")
    if rules:
        rows = [(r.list, r.text, r.source, r.why) for r in rules]
        echo("\n".join(table(("LIST", "RULE", "FROM", "WHY"), rows)))
    else:
        echo("There are no rules.")
    return 0


_LISTS: tuple[RuleList, ...] = ("allow", "ask", "deny")
# Isolated from the machine: no file is in the home directory.
_MISSING_HOME = "/nonexistent"


class CallChecker:
    """Answers requests: plain dictionaries with a tool, its input, and overrides of the defaults."""

    def __init__(self, *, isolated: bool, settings: tuple[str, ...] = ()) -> None:
        self._isolated = isolated
        self._run_env = find_environment(os.environ)
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
            env={} if self._isolated else os.environ,
            git_use="trusted" if request.get("trusted", True) is True else "unknown",
            state=None if self._isolated else state_folder(os.environ),
            # Isolated, only the rules count: broad rules are not narrowed as if a user could be asked.
            answered=not self._isolated,
        )
        context = ToolContext(workspace, env={} if self._isolated else dict(os.environ))
        try:
            effects = self._effects(tool, given, context)
        except ToolError as error:
            return {
                "decision": "deny",
                "reason": f"is not a valid call: {error}",
                "rule": "",
                "parts": [],
                "narrowest": [],
            }
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


def check_one(request: Mapping[str, Any], *, isolated: bool, settings: tuple[str, ...], as_json: bool) -> int:
    """Explain one decision. Returns 0 for any decision. Raises UsageError."""
    given = request.get("input", "")
    try:
        decoded = json.loads(given) if given else {}
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--input is not JSON: {error}") from None
    answer = CallChecker(isolated=isolated, settings=settings).decide({**request, "input": decoded}, narrowest=True)
    if as_json:
        print_json(answer)
        return 0
    lines = [f"{answer['decision']}: the call {escape_controls(answer['reason'])}"]
    if len(answer["parts"]) > 1:
        lines += [
            f"  {p['decision']:<5}  {escape_controls(p['text'])}\n         {escape_controls(p['reason'])}"
            for p in answer["parts"]
        ]
    if rules := answer.get("narrowest"):
        plural = "s" if len(rules) > 1 else ""
        lines.append(f"the narrowest rule{plural} that would allow it: {escape_controls(', '.join(rules))}")
    echo("\n".join(lines))
    return 0


def check_batch(options: Mapping[str, Any], *, isolated: bool, settings: tuple[str, ...]) -> int:
    """Answer each line of standard input with one line, immediately. options: defaults; rules of both apply."""
    checker = CallChecker(isolated=isolated, settings=settings)
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        request: Any = None
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise UsageError("A request must be a JSON object.")
            rules: dict[str, Any] = {kind: [*_texts(options, kind), *_texts(request, kind)] for kind in _LISTS}
            answer = checker.decide({**options, **request, **rules})
        except (ValueError, RecursionError, UsageError) as error:
            answer = {
                "decision": "deny",
                "reason": f"could not be read: {error}",
                "rule": "",
                "parts": [],
                "narrowest": [],
            }
        call_id = request.get("id") if isinstance(request, dict) else None
        sys.stdout.write(json.dumps({"id": call_id, **answer}) + "\n")
        sys.stdout.flush()
    return 0


@app.command("learn", epilog=examples("agent permissions learn --days 7"))
def learn_rules(
    as_json: AsJsonObject = False,
    days: Annotated[int, typer.Option(min=1, help="Days to look back.")] = 30,
) -> int:
    """Suggest the narrowest rules that would have allowed the calls you approved."""
    run_env = find_environment(os.environ)
    rules = read_settings(Config(), run_env).rules
    since = time.time() - days * 86_400
    approved = [r for r in _approved_requests(SessionStore.of(run_env), since) if not _is_allowed(r, run_env, rules)]
    counts: Counter[str] = Counter()
    left = 0
    for request in approved:
        proposed = _propose_rules(request, run_env, rules)
        counts.update(proposed)
        left += not proposed
    found = [(rule, count, describe_rule(_rule(rule, run_env))) for rule, count in counts.most_common()]
    if as_json:
        rows = [{"rule": rule, "count": count, "grants": grants} for rule, count, grants in found]
        print_json({"questions": len(approved), "not_spared": left, "days": days, "rules": rows})
        return 0
    calls, lately = counted(len(approved), "call"), counted(days, "day")
    echo(f"# {calls} that you approved in the last {lately} would need approval again.")
    if left:
        echo(f"# {left} of them cannot be allowed by a narrow rule.")
    if found:
        echo("[permissions]\nallow = [")
        for rule, count, grants in found:
            echo(f"  {_toml(rule)},  # {count} of them; allows {one_line(grants)}")
        echo("]")
    return 0


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


def _policy(request: ApprovalRequested, run_env: RunEnvironment, rules: list[Rule]) -> Policy:
    workspace = Workspace(run_env.root, (), Path(request.cwd))
    return Policy(workspace, rules, home=str(run_env.home or ""), env=run_env.env)


def _is_allowed(request: ApprovalRequested, run_env: RunEnvironment, rules: list[Rule]) -> bool:
    return _policy(request, run_env, rules).decide(request.tool, request.effects).level is Level.ALLOW


def _propose_rules(request: ApprovalRequested, run_env: RunEnvironment, rules: list[Rule]) -> tuple[str, ...]:
    """Return the rules that together would have avoided a question; () if there are none."""
    policy = _policy(request, run_env, rules)
    found = tuple(split_rules(policy.suggest_rule(request.tool, request.effects)))
    return found if found and _is_allowed(request, run_env, [*rules, *(_rule(r, run_env) for r in found)]) else ()


def _rule(text: str, run_env: RunEnvironment) -> Rule:
    return read_rule("allow", text, "learned", run_env.root)


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

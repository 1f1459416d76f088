"""List the permission rules, explain a decision, and suggest rules."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from agent_cli import MODES, Config, UsageError, find_environment, read_settings
from agent_cli.cli import completion
from agent_cli.cli.app import AsJson, AsJsonObject, ListingGroup, with_run_options
from agent_cli.cli.help import examples, one_of
from agent_cli.console import echo, print_ignored, print_json, table
from agent_cli.kernel.runtime.call_checker import CallChecker, LearnedRules, refused
from agent_tools.registry import BUILTIN
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


def check_one(request: Mapping[str, Any], *, isolated: bool, settings: tuple[str, ...], as_json: bool) -> int:
    """Explain one decision. Returns 0 for any decision. Raises UsageError."""
    given = request.get("input", "")
    try:
        decoded = json.loads(given) if given else {}
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--input is not JSON: {error}") from None
    checker = CallChecker(find_environment(os.environ), request, isolated=isolated, settings=settings)
    answer = checker.decide({"input": decoded}, narrowest=True)
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
    checker = CallChecker(find_environment(os.environ), options, isolated=isolated, settings=settings)
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        request: Any = None
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise UsageError("A request must be a JSON object.")
            answer = checker.decide(request)
        except (ValueError, RecursionError, UsageError) as error:
            answer = refused(f"could not be read: {error}")
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
    learned = LearnedRules(find_environment(os.environ), days)
    left, approved, found = learned.not_spared, learned.questions, learned.rules
    if as_json:
        rows = [{"rule": rule, "count": count, "grants": grants} for rule, count, grants in found]
        print_json({"questions": approved, "not_spared": left, "days": days, "rules": rows})
        return 0
    calls, lately = counted(approved, "call"), counted(days, "day")
    echo(f"# {calls} that you approved in the last {lately} would need approval again.")
    if left:
        echo(f"# {left} of them cannot be allowed by a narrow rule.")
    if found:
        echo("[permissions]\nallow = [")
        for rule, count, grants in found:
            echo(f"  {_toml(rule)},  # {count} of them; allows {one_line(grants)}")
        echo("]")
    return 0


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

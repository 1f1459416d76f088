"""`agent permissions learn`: the narrowest rules that would have spared the questions lately answered with yes.

Only what persons approved in the sessions of this project counts, and what the rules in force allow by now does not.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from agent_cli.commands.output import echo, put_json
from agent_cli.core.events import ApprovalRequested
from agent_cli.core.rules import Rule, read_rule, split_rules
from agent_cli.options import RunOptions
from agent_cli.permission.decision import Level
from agent_cli.permission.policy import Policy
from agent_cli.permission.proposals import meaning
from agent_cli.place import Place, find_place, read_settings
from agent_cli.session.lines import read_log
from agent_cli.session.restore import records
from agent_cli.session.store import SessionStore
from agent_cli.waiting import project_store
from agent_tools.clipping import counted, one_line
from agent_tools.values import DecodeError, from_plain
from agent_tools.workspace import Workspace


def learn_rules(days: int, as_json: bool) -> int:
    """Print what would have spared questions, as TOML to paste or as one JSON object; the exit code.

    Raises UsageError.
    """
    place = find_place(os.environ)
    rules = read_settings(RunOptions(), place).rules
    since = time.time() - days * 86_400
    approved = [r for r in _approved(project_store(place), since) if not _allowed(r, place, rules)]
    spared: Counter[str] = Counter()
    left = 0
    for request in approved:
        proposed = _proposed(request, place, rules)
        spared.update(proposed)
        left += not proposed
    found = [(rule, count, meaning(_rule(rule, place))) for rule, count in spared.most_common()]
    if as_json:
        told = [{"rule": rule, "count": count, "grants": grants} for rule, count, grants in found]
        put_json({"questions": len(approved), "not_spared": left, "days": days, "rules": told})
        return 0
    calls, lately = counted(len(approved), "call"), counted(days, "day")
    echo(f"# {calls} that you approved in the last {lately} would be asked about again.")
    if left:
        echo(f"# {left} of them no narrow rule can allow.")
    if found:
        echo("[permissions]\nallow = [")
        for rule, count, grants in found:
            echo(f"  {_toml(rule)},  # {count} of them; allows {one_line(grants)}")
        echo("]")
    return 0


def _approved(store: SessionStore, since: float) -> Iterator[ApprovalRequested]:
    """The questions that a user answered with yes, in the sessions that changed since then."""
    for session_id in store.ids():
        path = store.path(session_id)
        try:
            if path.stat().st_mtime < since:
                return  # the latest come first
            data = read_log(path)
        except OSError:
            continue
        asked: dict[str, ApprovalRequested] = {}
        for record in records(data)[0]:
            kind, event = record["type"], record["data"]
            while kind == "SubagentEvent":
                event = event["event"]
                kind = event["type"]
            if kind == "ApprovalRequested":
                try:
                    asked[event["call_id"]] = from_plain(ApprovalRequested, event)
                except DecodeError:
                    continue
            elif kind == "ApprovalResolved" and event["by"] == "person":
                request = asked.pop(event["call_id"], None)
                if request is not None and event["decision"] == "approve":
                    yield request


def _policy(request: ApprovalRequested, place: Place, rules: list[Rule]) -> Policy:
    workspace = Workspace(place.root, (), Path(request.cwd))
    return Policy(workspace, rules, home=str(place.home or ""), env=place.env)


def _allowed(request: ApprovalRequested, place: Place, rules: list[Rule]) -> bool:
    return _policy(request, place, rules).decide(request.tool, request.effects).level is Level.ALLOW


def _proposed(request: ApprovalRequested, place: Place, rules: list[Rule]) -> tuple[str, ...]:
    """The rules that together would have spared a question; () where there are none."""
    policy = _policy(request, place, rules)
    found = tuple(split_rules(policy.always_rule(request.tool, request.effects)))
    return found if found and _allowed(request, place, [*rules, *(_rule(r, place) for r in found)]) else ()


def _rule(text: str, place: Place) -> Rule:
    return read_rule("allow", text, "learned", place.root)


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

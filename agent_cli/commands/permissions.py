"""`agent permissions list`: the rules in force, with their reasons and where each comes from."""

from __future__ import annotations

import os

from agent_cli.commands.output import echo, put_json, table
from agent_cli.headless.printing import print_notice
from agent_cli.options import RunOptions
from agent_cli.place import find_place, read_settings
from agent_tools.clipping import one_line

# As they are asked: a deny rule beats all others.
ORDER = ("deny", "ask", "allow")


def list_rules(options: RunOptions, as_json: bool) -> int:
    """Print the effective rules as a table, or as one JSON object; the exit code. Raises UsageError."""
    place = find_place(os.environ)
    layers = read_settings(options, place)
    for text in layers.ignored:
        print_notice(f"agent: {one_line(text)}.")
    mode = layers.settings().permissions.mode
    origin = layers.origins.get("permissions.mode", "default")
    rules = sorted(layers.rules, key=lambda r: ORDER.index(r.list))
    trust = layers.trust
    if as_json:
        put_json(
            {
                "mode": {"value": mode, "source": origin},
                "workspace": str(place.root),
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
    standing = f"{trust.state} ({trust.by})" if trust.by else trust.state
    for name, value in (("mode", f"{mode} ({origin})"), ("workspace", str(place.root)), ("trust", standing)):
        echo(f"{name:<9}  {one_line(value)}")
    echo("")
    if rules:
        rows = [(r.list, r.text, r.source, r.why) for r in rules]
        echo("\n".join(table(("LIST", "RULE", "FROM", "WHY"), rows)))
    else:
        echo("There are no rules.")
    return 0

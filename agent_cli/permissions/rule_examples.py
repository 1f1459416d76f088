"""Check the examples that rules carry when the rules are loaded.

The example of a Bash rule is a command line, of a file rule a path, of a WebFetch rule a URL. An allow rule must cover
the whole command line; an ask or deny rule only needs to cover a part of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from agent_cli.core.rules import Rule
from agent_cli.permissions.command_rules import for_part
from agent_cli.permissions.matcher import Matcher
from agent_cli.permissions.shell.analysis import analyse
from agent_tools.base import Effect
from agent_tools.registry import tool_class


def check_examples(rules: Iterable[Rule], cwd: Path, home: Path) -> list[str]:
    """Return a message, with file and line, for each example that does not match its rule."""
    mistakes = []
    for rule in rules:
        if not rule.match and not rule.not_match:
            continue
        if rule.names not in ("command", "path", "domain"):
            mistakes.append(f"{rule.source}: {rule.text} can have no examples; Bash, file and WebFetch rules can")
            continue
        for wanted, examples in ((True, rule.match), (False, rule.not_match)):
            for example in examples:
                if rule_covers(rule, example, cwd, home) is not wanted:
                    what = "does not cover its example" if wanted else "covers what its not_match names"
                    mistakes.append(f"{rule.source}: permissions.{rule.list}: {rule.text} {what}: {example!r}")
    return mistakes


def rule_covers(rule: Rule, example: str, cwd: Path, home: Path) -> bool:
    """Return True if one rule, by itself, matches a command line, a path or a URL."""
    matcher = Matcher([rule], cwd, home)
    if rule.names == "domain":
        return matcher.first(rule.list, rule.tool, Effect("fetch", example)) is not None
    if rule.names == "path":
        path = example.replace("~", str(home), 1) if example.startswith("~/") else example
        effect = Effect("write" if tool_class(rule.tool).changes_files else "read", os.path.normpath(cwd / path))
        return matcher.first(rule.list, rule.tool, effect) is not None
    if matcher.for_command(rule.list, example) is not None:
        return True
    analysis = analyse(example, str(cwd), str(home))
    found = [for_part([rule], rule.list, part) is not None for part in analysis.parts]
    if rule.list == "allow":
        return bool(found) and all(found) and not analysis.unclear
    return any(found)

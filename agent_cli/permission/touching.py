"""Whether a rule is about a call, for whoever uses the grammar of rules as a filter and not as a permission."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent_cli.core.rules import Rule
from agent_cli.permission.matcher import Matcher
from agent_tools.base import Effect


def is_about(rule: Rule, tool: str, effects: Sequence[Effect], cwd: Path, home: Path) -> bool:
    """Read as widely as a deny rule: any part of a command line counts, also behind a wrapper or a path.

    So does one whose words cannot be known, unless those that can are others than the rule's.
    """
    denying = rule.but(list="deny")
    matcher = Matcher([denying], cwd, home)
    for effect in effects or [Effect("state")]:
        if effect.kind != "run":
            if matcher.first("deny", tool, effect):
                return True
        elif rule.covers("run") and _covers(denying, matcher, effect.target, cwd, home):
            return True
    return False


def _covers(rule: Rule, matcher: Matcher, command: str, cwd: Path, home: Path) -> bool:
    if matcher.for_command("deny", command):
        return True
    if rule.spec is None:
        return True
    # The analysis of shell code, only for a filter by a part of a command.
    from agent_cli.permission.command_rules import for_part, may_be, may_deny
    from agent_cli.permission.shell import analyse
    from agent_cli.permission.shell_parse import too_long

    if too_long(command) or (found := analyse(command, str(cwd), str(home))).unclear:
        return True
    return any(
        for_part([rule], "deny", part) or may_deny([rule], part) or may_be(rule.spec, part) for part in found.parts
    )

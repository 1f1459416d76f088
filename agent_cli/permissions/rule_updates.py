"""Updates of permissions in the form of hosts and hooks: rules to add, replace or remove."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from agent_cli.core.rules import RuleError, RuleList
from agent_cli.permissions.policy import Policy


def change_rules(policy: Policy, update: Mapping[str, Any], save: Callable[[str], str] | None = None) -> None:
    """Add or remove rules of the session. save: saves an allow rule for the project, where the update asks for it."""
    kind = update.get("behavior")
    if kind not in ("allow", "deny", "ask"):
        return
    texts = []
    rules = update.get("rules")
    for rule in rules if isinstance(rules, list | tuple) else ():
        if not isinstance(rule, Mapping):
            continue
        content = rule.get("ruleContent")
        texts.append(f"{rule.get('toolName', '')}({content})" if content else str(rule.get("toolName", "")))
    if update.get("type") in ("removeRules", "replaceRules"):
        for rule in [
            r for r in policy.rules if r.list == kind and (update["type"] != "removeRules" or r.text in texts)
        ]:
            try:
                policy.remove(rule)
            except ValueError:
                continue  # not of this session
    if update.get("type") == "removeRules":
        return
    for text in texts:
        try:
            policy.add(cast(RuleList, kind), text)
        except RuleError:
            continue
        if save is not None and kind == "allow" and update.get("destination") in ("projectSettings", "localSettings"):
            save(text)

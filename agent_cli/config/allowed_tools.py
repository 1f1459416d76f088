"""Lists of tools in the heads of markdown files: rules under `allowed-tools`, names under `tools`."""

from __future__ import annotations

from pathlib import Path

from agent_cli.core.rules import KNOWN_TOOLS, RuleError, read_rule, split_rules


def read_allowed(value: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The rules that a value of `allowed-tools` names, and a sentence for each piece that is not understood."""
    rules: list[str] = []
    notes: list[str] = []
    try:
        texts = listed_items(value)
    except RuleError as error:
        return (), (f"allowed-tools: {error}",)
    for text in texts:
        try:
            rule = read_rule("allow", text, "", Path("/"))
        except RuleError as error:
            notes.append(f"allowed-tools: {error}")
            continue
        rules.append(rule.text)
        if rule.tool not in KNOWN_TOOLS and not rule.tool.startswith("mcp__"):
            notes.append(f"allowed-tools: {rule.text} names a tool that is not built in")
    return tuple(rules), tuple(notes)


def listed_items(value: object) -> list[str]:
    """The items of a list, of a text with commas or blanks, or of a text in brackets. Raises RuleError."""
    if value is None:
        return []
    if isinstance(value, str):
        text = value.strip()
        return split_rules(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [rule for item in value for rule in split_rules(item)]
    raise RuleError(f"{str(value)[:80]!r} is no list of tools")

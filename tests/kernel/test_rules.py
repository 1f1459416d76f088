"""The grammar of rules: what is read, what is a mistake, and how lists are split."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.kernel.rules import Rule, RuleError, RuleList, read_rule, split_rules


def rule(text: str, kind: RuleList = "allow") -> Rule:
    return read_rule(kind, text, "here", Path("/base"))


@pytest.mark.parametrize(
    ("text", "tool", "spec"),
    [
        ("Bash", "Bash", None),
        ("Bash(*)", "Bash", None),
        ("Bash(npm run test)", "Bash", "npm run test"),
        ("Bash(git status:*)", "Bash", "git status:*"),
        ("Bash(echo (a) (b))", "Bash", "echo (a) (b)"),
        ("Read(~/.ssh/**)", "Read", "~/.ssh/**"),
        ("Edit(//etc/hosts)", "Edit", "//etc/hosts"),
        ("WebFetch(domain:example.org)", "WebFetch", "domain:example.org"),
        ("WebSearch", "WebSearch", None),
        ("mcp__github", "mcp__github", None),
        ("mcp__github__*", "mcp__github", None),
        ("mcp__*", "mcp__*", None),
        ("mcp__github__list_issues", "mcp__github__list_issues", None),
        ("Task(review)", "Task", "review"),
        ("Agent(review)", "Task", "review"),
        ("Agent", "Task", None),
        ("Skill(pdf)", "Skill", "pdf"),
        ("SlashCommand(/deploy)", "SlashCommand", "/deploy"),
        (" Edit ", "Edit", None),
    ],
)
def test_what_is_a_rule(text: str, tool: str, spec: str | None) -> None:
    assert (rule(text).tool, rule(text).spec) == (tool, spec)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not a rule"),
        ("Bash(", "is not a rule"),
        ("Bash(x)y", "is not a rule"),
        ("Ba sh", "is not a rule"),
        ("Foo__*", "only mcp__server__*"),
        ("mcp__", "does not name an MCP server"),
        ("bash(rm:*)", "did you mean Bash?"),
        ("Bsh", "did you mean Bash?"),
        ("Bash()", "the parentheses are empty"),
        ("Edit( )", "the parentheses are empty"),
        ("Bash(:*)", "does not name a command"),
        ("Bash( *)", "does not name a command"),
        ("WebSearch(x)", "takes no parentheses"),
        ("TodoWrite(x)", "takes no parentheses"),
        ("mcp__github__list(x)", "takes no parentheses"),
        ("WebFetch(example.org)", "name a domain"),
        ("WebFetch(domain:)", "is not a host"),
        ("WebFetch(domain:example.org:443)", "is not a host"),
        ("WebFetch(domain:https://example.org)", "is not a host"),
        ("WebFetch(domain:example.org/docs)", "is not a host"),
        ("WebFetch(domain:me@example.org)", "is not a host"),
        ("WebFetch(domain:.example.org)", "is not a host"),
        ("WebFetch(domain:example.*)", "is not a host"),
        ("WebFetch(domain:127.1)", "is not a host"),
        ("Bash(ls) Edit(src)", "write each as a separate string"),
    ],
)
def test_what_is_a_mistake(text: str, words: str) -> None:
    with pytest.raises(RuleError, match=words.replace("*", r"\*").replace("?", r"\?")):
        rule(text)


def test_in_doubt_an_allow_rule_is_narrow_and_a_deny_rule_wide() -> None:
    assert rule("Read(*)", "allow").spec == "*"
    assert rule("Read(*)", "deny").spec is None


@pytest.mark.parametrize("kind", ["allow", "ask", "deny"])
def test_every_domain_is_every_page(kind: RuleList) -> None:
    assert rule("WebFetch(domain:*)", kind).spec is None


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", []),
        ("Read", ["Read"]),
        ("Read, Edit\tBash(a b, c)", ["Read", "Edit", "Bash(a b, c)"]),
        ("Bash(a(b(c(d)))) Edit", ["Bash(a(b(c(d))))", "Edit"]),
        (",,Read,,", ["Read"]),
    ],
)
def test_lists_are_split(text: str, rules: list[str]) -> None:
    assert split_rules(text) == rules


@pytest.mark.parametrize("text", ["Bash(x", "Bash)(", "Bash(x))", ")", "Bash(a(b(c)) Edit"])
def test_a_parenthesis_too_many_is_a_mistake(text: str) -> None:
    with pytest.raises(RuleError, match="parenthesis"):
        split_rules(text)


@given(st.text(alphabet="Bash()ab, *:", max_size=20))
def test_nothing_is_lost_when_a_list_is_split(text: str) -> None:
    """What stands in parentheses must never be dropped: `Bash` without them is every command."""
    try:
        rules = split_rules(text)
    except RuleError:
        return
    assert "".join(rules).replace(" ", "").replace(",", "") == text.replace(" ", "").replace(",", "")

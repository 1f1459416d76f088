"""Permission rules in Claude Code's grammar, as values. What they match is decided in `permission/matcher.py`.

    Bash · Bash(npm run test) · Bash(git status:*) · Bash(git status *) · Bash(ls*)
    Read(glob) · Edit(glob) (every write) · WebFetch(domain:example.org) · any tool by its name

Path globs are gitignore style: `//x` absolute, `~/x` home, `/x` from the folder of the settings file, else from the
working directory; a pattern without a slash matches at any depth, and a folder covers what is in it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from agent_tools.values import Value

# Tools that rules may name: ours, and those of Claude Code, whose lists are read as they are.
KNOWN_TOOLS = frozenset(
    "Agent AskUserQuestion Bash BashOutput Edit ExitPlanMode Glob Grep KillShell LS MultiEdit NotebookEdit "
    "NotebookRead PlanProgress Read "
    "Skill SlashCommand StructuredOutput Task TodoRead TodoWrite WebFetch WebSearch Write".split()
)
_FORM = re.compile(r"(?P<tool>[A-Za-z][\w-]*)(?:\((?P<spec>.*)\))?", re.DOTALL)
RuleList = Literal["allow", "ask", "deny"]


class BadRule(ValueError):
    """A rule that cannot be understood; the message names it."""


class Rule(Value):
    """One rule. `source` says where it comes from; `base` is the folder that `/x` globs start from."""

    list: RuleList
    tool: str
    spec: str | None
    source: str
    base: str

    @property
    def text(self) -> str:
        return self.tool if self.spec is None else f"{self.tool}({self.spec})"


def read_rule(kind: RuleList, text: str, source: str, base: Path) -> Rule:
    """Parse one rule. Raises BadRule."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise BadRule(f"{text!r} is not a rule: write Tool or Tool(what), for example Bash(git status:*)")
    tool, spec = match["tool"], match["spec"]
    if tool not in KNOWN_TOOLS and (near := _meant(tool)):
        raise BadRule(f"{text!r} names no tool; did you mean {near}?")
    tool = "Task" if tool == "Agent" else tool
    if tool == "WebFetch" and spec is not None and not spec.startswith("domain:"):
        raise BadRule(f"{text!r}: WebFetch rules name a domain, for example WebFetch(domain:example.org)")
    spec = None if spec in ("", "*") else spec
    return Rule(kind, tool, spec, source, str(base))


def _meant(tool: str) -> str:
    """The tool that a mistyped name is close to; "" for a name that is none of ours and near none."""
    same = [k for k in KNOWN_TOOLS if k.lower() == tool.lower()]
    if same:
        return same[0]
    import difflib  # only for a name that is not known

    return next(iter(difflib.get_close_matches(tool, KNOWN_TOOLS, 1, 0.7)), "")


def split_rules(text: str) -> list[str]:
    """A comma or blank separated list, where commas and blanks inside parentheses do not separate.

    Raises BadRule for a parenthesis that is not closed: what stands before it must not become a rule by itself.
    """
    if text.count("(") != text.count(")"):
        raise BadRule(f"{text!r}: a parenthesis is not closed")
    return re.findall(r"(?:[^\s,()]+(?:\((?:[^()]|\([^()]*\))*\))?)", text)

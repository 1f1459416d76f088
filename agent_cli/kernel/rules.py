"""Permission rules in Claude Code's grammar, and the trust in a repository, as values.

    Bash · Bash(npm run test) · Bash(git status:*) · Bash(git status *) · Bash(ls*)
    Read(glob) · Edit(glob) (every write) · WebFetch(domain:example.org) · WebSearch · mcp__server · mcp__server__tool
    Task(type) = Agent(type) · Skill(name) · any other tool by its name

Path globs are gitignore style: `//x` absolute, `~/x` home, `/x` from the folder of the settings file, else from the
working directory; a pattern without a slash matches at any depth, and a folder covers what is in it.

`permissions/path_policy.py` and `permissions/command_rules.py` match them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal, get_args

from agent_tools.base import EffectKind
from agent_tools.lazy import lazy_imports
from agent_tools.record import Value
from agent_tools.registry import BUILTIN, tool_name, tool_traits
from agent_tools.results import ToolError
from agent_tools.text import escape_controls

with lazy_imports():
    from agent_tools import task  # few rules are about sub-agents
    from agent_tools.net import urls

# Tools that rules may name: built-in ones, also by their Claude Code names, and those that a session creates.
KNOWN_TOOLS = frozenset(name for tool in BUILTIN for name in (tool.name, *tool.other_names)) | {
    "StructuredOutput", "ToolSearch", "UseTool", "ListMcpResourcesTool", "ReadMcpResourceTool",
}  # fmt: skip
# Tools of Claude Code without an equivalent here: an agent type that lists them works without them, and a rule about
# them has nothing to cover.
FOREIGN_TOOLS = frozenset(
    "Artifact CronCreate CronDelete CronList EnterPlanMode EnterWorktree ExitWorktree ListMcpResourcesTool LSP Monitor "
    "PowerShell PushNotification ReadMcpResourceTool RemoteTrigger SendMessage SendUserFile SlashCommand TaskCreate "
    "TaskGet TaskList TaskOutput TaskStop TaskUpdate TeamCreate TeamDelete ToolSearch Workflow mcp".split()
)
PATH_TOOLS = frozenset(tool.name for tool in BUILTIN if tool.rule_names == "path")
# Tools whose rules cover an effect, no matter which tool has it.
_COVERING: dict[EffectKind, tuple[str, ...]] = {
    kind: tuple(tool.name for tool in BUILTIN if kind in tool.rule_covers) for kind in get_args(EffectKind)
}
_FORM = r"(?s)(?P<tool>[A-Za-z][\w-]*?(?P<all>__\*)?)(?:\((?P<spec>.*)\))?"
# As the tool of a rule: the tools of all MCP servers.
ALL_SERVERS = "mcp__*"
RuleList = Literal["allow", "ask", "deny"]


class RuleError(ValueError):
    """A rule that cannot be parsed; the message names it."""


class Rule(Value, tag="Rule"):
    """One rule.

    source: where it comes from: a file and line, or a flag.
    base: the folder that `/x` globs start from.
    why: the reason shown when it applies.
    match, not_match: example calls that it must, and must not, cover; checked when it is loaded.
    from_user: it comes from the user: their settings, a flag, an answer.
    """

    list: RuleList
    tool: str
    spec: str | None
    source: str
    base: str
    why: str = ""
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()
    from_user: bool = True

    @property
    def text(self) -> str:
        return self.tool if self.spec is None else f"{self.tool}({self.spec})"

    @property
    def names(self) -> str:
        """The kind of thing its parentheses name; see `Tool.rule_names`."""
        return tool_traits(self.tool).rule_names

    def covers(self, kind: EffectKind) -> bool:
        """Return True if it covers effects of this kind, no matter which tool has them."""
        return self.tool in _COVERING[kind]


def rule_for(kind: EffectKind, spec: str) -> str:
    """Return the text of a rule for effects of this kind, no matter which tool has them."""
    return f"{_COVERING[kind][0]}({spec})"


def rule_update(rule: str) -> dict[str, Any]:
    """Return an allow rule for the project in the form that hosts and hooks are offered."""
    tool, has_spec, spec = rule.partition("(")
    named = {"toolName": tool, **({"ruleContent": spec.removesuffix(")")} if has_spec else {})}
    return {"type": "addRules", "rules": [named], "behavior": "allow", "destination": "localSettings"}


def read_rule(kind: RuleList, text: str, source: str, base: Path) -> Rule:
    """Parse one rule. Raises RuleError."""
    match = re.fullmatch(_FORM, text.strip())
    if match is None:
        raise RuleError(f"{text!r} is not a rule: write Tool or Tool(what), for example Bash(git status:*)")
    tool, spec = match["tool"], match["spec"]
    if match["all"] and tool != ALL_SERVERS:
        if not tool.startswith("mcp__"):
            raise RuleError(f"{text!r} is not a rule: only mcp__server__* may end in an asterisk without parentheses")
        tool = tool.removesuffix("__*")
    if re.fullmatch(r"mcp(__)?", tool):
        raise RuleError(f"{text!r} does not name an MCP server; write mcp__server or mcp__server__tool")
    if near := mistyped_tool(tool):
        raise RuleError(f"{text!r} is not a known tool; did you mean {near}?")
    tool = tool_name(tool)
    if spec is None:
        return Rule(kind, tool, None, source, str(base))
    if not spec.strip():
        raise RuleError(f"{text!r}: the parentheses are empty; write {tool} for all calls")
    if found := re.fullmatch(r"""\s*(["'`“‘])([^"'`“”‘’]*)["'`”’]\s*""", spec):
        raise RuleError(f"{text!r}: the quotes are taken literally; write {tool}({found[2]})")
    names = tool_traits(tool).rule_names
    if kind != "allow" and (why := _misspelled(tool, names, spec)):
        raise RuleError(f"{text!r}: {why}")
    if not names and (tool in KNOWN_TOOLS or tool.startswith("mcp__")):
        raise RuleError(f"{text!r}: a rule for {tool} takes no parentheses")
    if names == "domain" and not spec.startswith("domain:"):
        raise RuleError(f"{text!r}: {tool} rules name a domain, for example {tool}(domain:example.org)")
    # Reject rules that can never match: a deny rule must not look effective when it is not.
    if names == "domain" and _host(spec, text) == "*":
        return Rule(kind, tool, None, source, str(base))
    if re.search(r"\)[\s,]+\w+\(", spec):
        raise RuleError(f"{text!r} holds several rules; write each as a separate string")
    if names == "command" and not spec.removesuffix("*").removesuffix(":").strip() and spec != "*":
        raise RuleError(f"{text!r} does not name a command; write {tool} for every command")
    # As a glob, `Read(*)` is every file below the working directory; as a wildcard, every file there is. Each list uses
    # the safer reading.
    if names == "target":
        spec = task.common_type(spec)
    whole = spec == "*" and (names != "path" or kind == "deny")
    return Rule(kind, tool, None if whole else spec, source, str(base))


def _misspelled(tool: str, names: str, spec: str) -> str:
    """Return why a rule that is to refuse covers something else than it seems to; "" for nothing."""
    if (shown := escape_controls(spec)) != spec:
        return f"it contains a character that cannot be seen: {shown}"
    if spec != spec.strip() and (names != "command" or spec.rstrip().endswith("*")):
        return f"the spaces are taken literally; write {tool}({spec.strip()})"
    if names == "path" and re.search(r"\\(?:[^\s*?\[\]{}!#\\]|\*\*)", spec):
        return "a backslash takes the special meaning from the next character; separate folders with /"
    return ""


def _host(spec: str, text: str) -> str:
    """Return the host, or `*`, of a domain rule. Raises RuleError if it names none."""
    name = spec.removeprefix("domain:").strip()
    try:
        return name if name == "*" else urls.parse_host_pattern(name)
    except ToolError as error:
        raise RuleError(
            f"{text!r}: {error}; write only the host, without scheme, port or path, or *.host for its subdomains"
        ) from None


def mistyped_tool(tool: str) -> str:
    """Return the known tool closest to a mistyped name; "" for a known name, or if none is close."""
    if tool in KNOWN_TOOLS or tool.startswith("mcp__"):
        return ""
    same = [k for k in KNOWN_TOOLS if k.lower() == tool.lower()]
    if same:
        return same[0]
    import difflib  # only for a name that is not known

    return next(iter(difflib.get_close_matches(tool, KNOWN_TOOLS, 1, 0.7)), "")


def split_rules(text: str) -> list[str]:
    """Split a list of rules at commas and whitespace outside parentheses.

    Raises RuleError for an unbalanced parenthesis: the text before it must not become a rule by itself.
    """
    rules: list[str] = []
    start, depth = 0, 0
    for position, char in enumerate(f"{text} "):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth < 0:
                raise RuleError(f"{text!r}: a closing parenthesis has no opening one")
        elif depth == 0 and (char == "," or char.isspace()):
            if position > start:
                rules.append(text[start:position])
            start = position + 1
    if depth:
        raise RuleError(f"{text!r}: a parenthesis is not closed")
    return rules


def names_tool(names: Collection[str], tool: str) -> bool:
    """Return True if one of the names is the tool's, its server's (`mcp__server`, `mcp__server__*`), or `mcp__*`."""
    servers = (n.removesuffix("__*") for n in names if n.startswith("mcp__"))
    of_server = any(s == "mcp" or s.count("__") == 1 for s in servers if tool.startswith(f"{s}__"))
    return of_server or tool in names


class Trust(Value):
    """The trust state of one project.

    state: "plain": has nothing that would run or widen permissions; "untrusted": does, and is not trusted;
        "changed": differs from what was trusted.
    by: who trusts it, in words.
    needs_trust: what would take effect besides settings, one phrase each.
    changed: what differs from what was trusted.
    outside: files outside the project that its memory may import.
    seen: marks of the files that took effect as those of a project without trust, by name.
    """

    root: str = ""
    state: Literal["plain", "trusted", "untrusted", "changed"] = "plain"
    by: str = ""
    needs_trust: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    seen: dict[str, str] = {}  # noqa: RUF012 - never changed

    @property
    def trusted(self) -> bool:
        """Return True if the project's own files take full effect."""
        return self.state == "trusted"

    @property
    def label(self) -> str:
        """The state in words."""
        state = "nothing to trust" if self.state == "plain" else self.state
        return f"{state} ({self.by})" if self.by else state

    @property
    def git_use(self) -> Literal["trusted", "plain", "unknown"]:
        """How git may be used without asking: as in a trusted project, as in a plain one, or not at all."""
        return self.state if self.state in ("trusted", "plain") else "unknown"

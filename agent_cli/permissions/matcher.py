"""Match rules against effects: paths by gitignore-style globs, URLs by host. For commands see `command_rules`.

`is_about` uses the grammar of rules as a filter (for hooks and the like) rather than as a permission.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path

from agent_cli.core.rules import Rule, RuleList
from agent_cli.permissions.paths import Places
from agent_tools.base import Effect
from agent_tools.lazy import lazy_imports
from agent_tools.net.urls import ascii_host
from agent_tools.registry import tool_name

with lazy_imports():
    from agent_cli.permissions import command_rules
    from agent_cli.permissions.shell import analysis, parser


class Matcher:
    """Match a set of rules against single effects.

    cwd, home: anchors of path globs.
    find: returns the protected places; called once, for the first write.
    """

    def __init__(self, rules: Iterable[Rule], cwd: Path, home: Path, find: Callable[[], Places] = tuple) -> None:
        self.rules = tuple(rules)
        self._find = find
        self._cwd = cwd
        self._home = home

    @cached_property
    def places(self) -> Places:
        return self._find()

    def first(self, kind: RuleList, tool: str, effect: Effect) -> Rule | None:
        """Return the first matching rule of a list. tool: "" for one that is not built in."""
        return next(self.all(kind, tool, effect), None)

    def all(self, kind: RuleList, tool: str, effect: Effect) -> Iterator[Rule]:
        """Yield the matching rules of a list, for effects other than commands. tool: "" if it is not built in."""
        return (r for r in self.rules if r.list == kind and self._matches(r, tool, effect))

    def _matches(self, rule: Rule, tool: str, effect: Effect) -> bool:
        if effect.kind == "run":
            return False
        named = rule.covers(effect.kind) or rule.tool in (tool, tool_name(tool)) or _is_server(rule.tool, tool)
        if not named or rule.spec is None:
            return named
        if effect.kind in ("read", "write"):
            return self._path_matches(rule, Path(effect.target))
        if effect.kind == "fetch":
            return _domain_matches(rule, effect.target)
        return effect.kind in ("state", "prompt", "call") and effect.target in (rule.spec, rule.spec.removesuffix(":*"))

    def _path_matches(self, rule: Rule, path: Path) -> bool:
        base, pattern = anchored(rule.spec or "", Path(rule.base), self._cwd, self._home)
        try:
            relative = path.relative_to(base).as_posix()
        except ValueError:
            return False
        return glob_regex(pattern).fullmatch(relative) is not None

    def patterns(self, kinds: Iterable[RuleList], about: Callable[[Rule], bool]) -> list[re.Pattern[str]]:
        """Return patterns over absolute resolved paths for the rules of these lists that satisfy `about`."""
        found = []
        for rule in self.rules:
            if rule.list not in kinds or not about(rule):
                continue
            if rule.spec is None:
                found.append(re.compile(""))
            else:
                base, pattern = anchored(rule.spec or "", Path(rule.base), self._cwd, self._home)
                start = re.escape("" if base == Path("/") else str(base))
                found.append(re.compile(rf"{start}/(?:{glob_regex(pattern).pattern})\Z", re.DOTALL))
        return found

    def for_command(self, kind: RuleList, command: str) -> Rule | None:
        """Return the first rule that covers a whole command line: the bare tool or its exact text."""
        about = (r for r in self.rules if r.list == kind and r.covers("run"))
        return next((r for r in about if r.spec in (None, command.strip())), None)


def _is_server(rule: str, tool: str) -> bool:
    """Return True if a rule `mcp__server` covers a tool of that server."""
    return rule.startswith("mcp__") and rule.count("__") == 1 and tool.startswith(f"{rule}__")


def anchored(spec: str, base: Path, cwd: Path, home: Path) -> tuple[Path, str]:
    """Split a path glob into its base directory and the remaining pattern."""
    if spec.startswith("//"):
        return Path("/"), spec[2:]
    if spec.startswith("~/"):
        return home, spec[2:]
    if spec.startswith("/"):
        return base, spec[1:]
    spec = spec.removeprefix("./")
    return cwd, spec if "/" in spec.rstrip("/") else f"**/{spec}"


@lru_cache(maxsize=512)
def glob_regex(pattern: str) -> re.Pattern[str]:
    """Compile a gitignore-style glob into a regular expression over relative paths with `/`."""
    out = []
    for piece in re.findall(r"\*\*/|/\*\*$|\*\*|\*|\?|[^*?]+", pattern.rstrip("/")):
        out.append(
            {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece) or re.escape(piece)
        )
    return re.compile("".join(out) + "(?:/.*)?", re.DOTALL)


def _domain_matches(rule: Rule, url: str) -> bool:
    """Return True if a rule covers the host of a URL, spelled as by `agent_tools.net.urls`.

    WebFetch follows redirects between a host and its www., so a deny or ask rule for one covers both.
    """
    from urllib.parse import urlsplit

    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        wanted = ascii_host((rule.spec or "").removeprefix("domain:")).strip("[]")
    except UnicodeError:
        return False
    hosts = (host,) if rule.list == "allow" else (host, host.removeprefix("www."), f"www.{host}")
    return any(h.endswith(wanted[1:]) if wanted.startswith("*.") else h == wanted for h in hosts)


def is_about(rule: Rule, tool: str, effects: Sequence[Effect], cwd: Path, home: Path) -> bool:
    """Return True if a rule covers a call, matched as widely as a deny rule.

    Any part of a command line counts, also behind a wrapper or a path. A command with unknown words counts too, unless
    its known words rule it out.
    """
    denying = rule.replace(list="deny")
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
        # Lazy: the shell analysis is only needed to filter by part of a command.
    if parser.too_long(command) or (found := analysis.analyse(command, str(cwd), str(home))).unclear:
        return True
    return any(
        command_rules.for_part([rule], "deny", part)
        or command_rules.may_deny([rule], part)
        or command_rules.may_be(rule.spec, part)
        for part in found.parts
    )

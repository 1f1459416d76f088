"""Which rule speaks about an effect: commands by their words, paths by gitignore-style globs, URLs by host."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from agent_cli.core.rules import Rule, RuleList
from agent_cli.permission.shell import SimpleCommand, parse
from agent_tools.base import Effect

_WRITERS = frozenset(("Edit", "MultiEdit", "NotebookEdit"))


class Matcher:
    """Asks a set of rules about one call. `cwd` and `home` anchor path globs."""

    def __init__(self, rules: Iterable[Rule], cwd: Path, home: Path) -> None:
        self.rules = tuple(rules)
        self._cwd = cwd
        self._home = home

    def first(self, kind: RuleList, tool: str, effect: Effect) -> Rule | None:
        """The first rule of a list that matches the effect of a tool. For commands see `first_command`."""
        return next((r for r in self.rules if r.list == kind and self._matches(r, tool, effect)), None)

    def _matches(self, rule: Rule, tool: str, effect: Effect) -> bool:
        if effect.kind == "run":
            return False
        named = rule.tool == tool
        if effect.kind == "write":
            named = named or rule.tool in _WRITERS
        elif effect.kind == "read":
            named = named or rule.tool == "Read"
        if not named or rule.spec is None:
            return named
        if effect.kind in ("read", "write"):
            return self._path_matches(rule, Path(effect.target))
        if effect.kind == "fetch":
            return _domain_matches(rule.spec.removeprefix("domain:"), effect.target)
        return False

    def _path_matches(self, rule: Rule, path: Path) -> bool:
        base, pattern = anchored(rule.spec or "", Path(rule.base), self._cwd, self._home)
        try:
            relative = path.relative_to(base).as_posix()
        except ValueError:
            return False
        return glob_regex(pattern).fullmatch(relative) is not None

    def first_command(self, kind: RuleList, tool: str, command: str, part: SimpleCommand | None) -> Rule | None:
        """The first rule that matches the whole command text exactly, or (with `part`) one simple command of it."""
        return next(
            (r for r in self.rules if r.list == kind and r.tool == tool and command_matches(r.spec, command, part)),
            None,
        )


def command_matches(spec: str | None, command: str, part: SimpleCommand | None) -> bool:
    """Whether a Bash rule covers a whole command line (exact text) or one simple command of it."""
    if spec is None or spec == command.strip():
        return True
    if part is None:
        return False
    prefix = spec.removesuffix(":*") if spec.endswith(":*") else spec.removesuffix(" *") if spec.endswith(" *") else ""
    if prefix and "*" not in prefix:
        words = parse(prefix)
        return words is not None and len(words) == 1 and part.words[: len(words[0].words)] == words[0].words
    if "*" in spec:
        pattern = ".*".join(re.escape(p) for p in spec.split("*"))
        return re.fullmatch(pattern, part.text, re.DOTALL) is not None
    words = parse(spec)
    return words is not None and words == (part,)


def anchored(spec: str, base: Path, cwd: Path, home: Path) -> tuple[Path, str]:
    """Where a path glob starts, and the rest of it."""
    if spec.startswith("//"):
        return Path("/"), spec[2:]
    if spec.startswith("~/"):
        return home, spec[2:]
    if spec.startswith("/"):
        return base, spec[1:]
    spec = spec.removeprefix("./")
    return cwd, spec if "/" in spec.rstrip("/") else f"**/{spec}"


def glob_regex(pattern: str) -> re.Pattern[str]:
    """A gitignore-style glob as a regular expression over a relative path with `/`."""
    out = []
    for piece in re.findall(r"\*\*/|/\*\*$|\*\*|\*|\?|[^*?]+", pattern.rstrip("/")):
        out.append(
            {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece) or re.escape(piece)
        )
    return re.compile("".join(out) + "(?:/.*)?", re.DOTALL)


def _domain_matches(domain: str, url: str) -> bool:
    from urllib.parse import urlsplit

    host = (urlsplit(url).hostname or "").rstrip(".").lower()
    wanted = domain.rstrip(".").lower()
    if wanted.startswith("*."):
        return host.endswith(wanted[1:])
    return host == wanted

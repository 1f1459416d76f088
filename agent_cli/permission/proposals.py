"""The narrowest rule that would have spared a question, where one can be offered at all, and what it would grant."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from agent_cli.core.rules import Rule
from agent_cli.permission.destructive import dangers
from agent_cli.permission.shell import analyse
from agent_cli.permission.shell_values import Part
from agent_cli.permission.wrappers import RUNNERS, WRAPPERS

# Programs whose arguments are programs: a rule about them would allow anything.
INTERPRETERS = frozenset(
    "python python2 python3 pypy pypy3 ipython node nodejs deno bun ruby perl php lua luajit Rscript R julia java "
    "scala groovy kotlin swift tclsh wish awk gawk mawk nawk sed ed ex vi vim nvim emacs osascript powershell "
    "pwsh bash sh dash zsh fish ksh psql mysql sqlite3 mongo mongosh redis-cli gdb lldb irb ghci erl elixir iex "
    "sbcl racket guile npx pnpx bunx uvx pipx make just task rake invoke nox tox".split()
)
# Programs with words that change with every call, for which a rule about one text would be of no use. None of them
# takes a program or a script as an argument or option, and none writes where an option says (so not pytest, cargo
# test, go test, eslint or tsc: for those the rule is the exact command).
_PREFIXES = (("git", "add"), ("git", "commit"), ("ruff", "format"), ("black",), ("isort",), ("gofmt",))
# What a rule can spell so that it is read as it is written: no pattern, no expansion, no parenthesis.
_PLAIN = re.compile(r"[\w@%+=:,./~^'\"-]+(?: [\w@%+=:,./~^'\"-]+)*")


def rule_for_command(tool: str, command: str, cwd: str, home: str) -> str:
    """The rule that allows this command; "" for one that is compound, dynamic, wrapped, or runs programs given as
    arguments in ways that no rule can name."""
    found = analyse(command, cwd, home)
    return _rule(tool, found.parts[0], command.strip()) if not found.unknown and len(found.parts) == 1 else ""


def rules_for_parts(tool: str, command: str, cwd: str, home: str, lacking: frozenset[str]) -> tuple[str, ...]:
    """The narrowest rules for the parts of a command line that lack one; () where not all of them can have one.

    lacking: their texts.
    """
    found = analyse(command, cwd, home)
    if found.unknown:
        return ()
    rules = [_rule(tool, part, part.text) for part in found.parts if part.text in lacking]
    return tuple(dict.fromkeys(rules)) if rules and all(rules) else ()


def _rule(tool: str, part: Part, text: str) -> str:
    if part.unknown or part.hides or part.layers or part.redirects or part.assigns or not part.words:
        return ""
    name = os.path.basename(part.words[0].text)
    if any(w.pattern for w in part.words) or name in RUNNERS or name in WRAPPERS or name in INTERPRETERS:
        return ""
    prefix = next((p for p in _PREFIXES if part.texts[: len(p)] == p), None)
    if prefix is not None and not dangers(analyse(text)):
        return f"{tool}({' '.join(prefix)}:*)"
    same = _PLAIN.fullmatch(text) and [p.texts for p in analyse(text).parts] == [part.texts]
    return f"{tool}({text})" if same else ""


def rule_for_url(tool: str, url: str) -> str:
    """The rule that allows a URL's host; "" for a tool whose rules name none."""
    host = urlsplit(url).hostname or ""
    if tool == "WebSearch":
        return tool
    return f"{tool}(domain:{host})" if tool == "WebFetch" and re.fullmatch(r"[a-z0-9.-]+", host) else ""


def meaning(rule: Rule) -> str:
    """What an allow rule that is proposed here grants, in words."""
    spec = rule.spec or ""
    if rule.tool == "Bash" and spec.endswith(":*"):
        return f"every command that begins with `{spec.removesuffix(':*')}`, whatever follows"
    if rule.tool == "Bash":
        return "just this command, word for word, in every directory"
    if rule.tool == "WebFetch":
        return f"every page of {spec.removeprefix('domain:')}"
    if rule.tool in ("Edit", "Read"):
        return f"every {'change to' if rule.tool == 'Edit' else 'reading of'} {spec.removeprefix('/')}"
    if spec:
        return f"{spec}, with any arguments"
    return f"every call of {rule.tool}"

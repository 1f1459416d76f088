"""The narrowest rule that would have spared a question, where one can be offered at all."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from agent_cli.permission.shell import analyse
from agent_cli.permission.wrappers import RUNNERS, WRAPPERS

# Programs whose arguments are programs: a rule about them by prefix would allow anything.
INTERPRETERS = frozenset(
    "python python2 python3 pypy pypy3 ipython node nodejs deno bun ruby perl php lua luajit Rscript R julia java "
    "scala groovy kotlin swift tclsh wish awk gawk mawk nawk sed ed ex vi vim nvim emacs osascript powershell "
    "pwsh bash sh dash zsh fish ksh psql mysql sqlite3 mongo mongosh redis-cli gdb lldb irb ghci erl elixir iex "
    "sbcl racket guile npx pnpx bunx uvx pipx make just task rake invoke nox tox".split()
)
_PLAIN = re.compile(r"[\w@%+=:,./~^-]+(?: [\w@%+=:,./~^-]+)*")


def rule_for_command(tool: str, command: str, cwd: str, home: str) -> str:
    """The rule that allows just this command; "" for one that is compound, dynamic, wrapped, or runs programs given
    as arguments in ways that no rule can name."""
    found = analyse(command, cwd, home)
    if found.unknown or len(found.parts) != 1:
        return ""
    part = found.parts[0]
    if part.layers or part.redirects or part.assigns or not part.words or any(w.pattern for w in part.words):
        return ""
    name = os.path.basename(part.words[0].text)
    if name in RUNNERS or name in WRAPPERS or name in INTERPRETERS:
        return ""
    text = command.strip()
    return f"{tool}({text})" if _PLAIN.fullmatch(text) else ""


def rule_for_url(tool: str, url: str) -> str:
    """The rule that allows a URL's host; "" for a tool whose rules name none."""
    host = urlsplit(url).hostname or ""
    if tool == "WebSearch":
        return tool
    return f"{tool}(domain:{host})" if tool == "WebFetch" and re.fullmatch(r"[a-z0-9.-]+", host) else ""

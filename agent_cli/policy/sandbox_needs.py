"""Determine what a command line needs that the sandbox does not provide, so that it must run outside.

This is decided by programs and subcommands that use the network, and by the files that operands name. Anything else
fails inside the sandbox, with a message that tells the model how to ask.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from agent_cli.kernel.rules import read_rule, rule_for
from agent_cli.policy.command_rules import for_part
from agent_cli.policy.operands import resolve_operand
from agent_cli.policy.programs.effects import Touch
from agent_cli.policy.programs.invocation import invocation
from agent_cli.policy.programs.row import RIGHTS, SERVICE
from agent_cli.policy.programs.table import row_of
from agent_cli.policy.shell.words import Analysis, SimpleCommand, Word
from agent_tools.fs.workspace import Workspace
from agent_tools.sandbox.conditions import Confined
from agent_tools.sandbox.profile import Profile, host_matches

_LOOPBACK = frozenset(("localhost", "127.0.0.1", "[::1]", "::1"))
_ELSEWHERE = ("/dev/", "/proc/", "/tmp/", "/var/tmp/")


def hosts_allowed(part: SimpleCommand, domains: Collection[str]) -> bool:
    """Return True if all hosts that a command would contact are loopback or among the domains."""
    hosts = invocation(part).hosts
    if not hosts or all(host in _LOOPBACK for host in hosts):
        return bool(hosts)
    return bool(domains) and all(host in _LOOPBACK or host_matches(host, domains) for host in hosts)


def outside_reason(analysis: Analysis, confined: Confined, workspace: Workspace, path: str) -> str:
    """Return why a command line must run outside, as in "needs ..."; "" if it need not.

    path: PATH of commands.
    """
    if any(_excluded(part, confined.outside) for part in analysis.parts):
        return "is listed in the setting sandbox.outside"
    return next((why for part in analysis.parts if (why := _needs(part, confined, workspace, path))), "")


def needs_outside(part: SimpleCommand, confined: Confined, workspace: Workspace, path: str) -> bool:
    """Return True if a part has to run outside the sandbox, or the user's settings say that it does."""
    return _excluded(part, confined.outside) or bool(_needs(part, confined, workspace, path))


def _excluded(part: SimpleCommand, patterns: Iterable[str]) -> bool:
    rules = [
        read_rule("allow", rule_for("run", pattern), "the setting sandbox.outside", Path("/")) for pattern in patterns
    ]
    return any(for_part([rule], "allow", part) for rule in rules)


def _needs(part: SimpleCommand, confined: Confined, workspace: Workspace, path: str) -> str:
    wrappers = (SimpleCommand(layer.words).program for layer in part.layers)
    if any(row_of(name).outside == RIGHTS and "/" not in name for name in wrappers):
        return RIGHTS
    name = os.path.basename(part.program)
    why = invocation(part).outside_reason(workspace, path) if part.words else ""
    if why == SERVICE and any(os.path.basename(s).startswith(name[:6]) for s in confined.sockets):
        why = ""
    return why or next(_file_reasons(part, confined.profile()), "")


# Kinds of effects on no known file: `-rf` may be `-r f` of some program.
_NO_FILE = ("run", "names", "listed", "maybe")


def _file_reasons(part: SimpleCommand, profile: Profile) -> Iterator[str]:
    """Yield reasons related to files: writes where the sandbox does not write, reads of what it hides."""
    redirects = (
        Touch("read" if r.kind == "read" else "write", Word(r.target, r.why))
        for r in part.redirects
        if r.kind != "network"
    )
    for touch in (*redirects, *invocation(part).touches):
        word = touch.word
        if word.why or word.pattern or touch.kind in _NO_FILE or word.text == "-":
            continue
        # A symbolic link may lead anywhere. For a hard link, its file has to be in the same mount.
        if touch.kind == "link" and invocation(part).arguments.has("-s", "--symbolic"):
            continue
        if part.cwds is None and not word.text.startswith("/"):
            continue
        for cwd in part.cwds or ("/",):
            follows = touch.kind != "remove" or bool(touch.follows)
            path = Path(resolve_operand(cwd, word.text, follows=follows).path)
            known = (*profile.writable, *profile.covered)
            if str(path).startswith(_ELSEWHERE) and not any(path.is_relative_to(k) for k in known):
                continue
            if touch.kind in ("read", "tree"):
                if not profile.is_readable(path):
                    yield f"reads {path}, which the sandbox hides"
            elif not (profile.is_writable(path.parent) if touch.kind == "remove" else profile.is_writable(path)):
                yield f"writes {path}, which the sandbox does not allow"

"""The computed facts of a question: what a call consists of, what it touches, what it would lose. No model is asked.

Every line is safe to show: what a user did not write themselves is spelled out, and nothing is shortened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from agent_cli.permission.decision import Decision, Level
from agent_cli.permission.destructive import dangers
from agent_cli.permission.git_use import Use
from agent_cli.permission.losses import GitReader, losses
from agent_cli.permission.network import uses_network
from agent_cli.permission.shell import analyse
from agent_cli.permission.shell_values import Analysis
from agent_tools.base import Effect
from agent_tools.clipping import one_line
from agent_tools.values import Value
from agent_tools.workspace import Workspace

_MOST_PATHS = 200


class ApprovalContext(Value):
    """What a question is about: the call, and where it would be made. env and git_use: how git is asked there."""

    tool: str
    effects: tuple[Effect, ...]
    decision: Decision
    workspace: Workspace
    home: str
    env: Mapping[str, str]
    git_use: Use


def approval_facts(asked: ApprovalContext) -> tuple[str, ...]:
    """The lines for a question, in order. Never raises."""
    git = GitReader(str(asked.workspace.root), asked.env, asked.git_use)
    lines: list[str] = []
    for effect in asked.effects:
        if effect.kind == "run":
            lines += _command(asked, effect.target, git)
        elif effect.kind == "write":
            lines += _file(effect.target, git)
        elif effect.kind == "fetch":
            lines.append(f"network: yes, host {urlsplit(effect.target).hostname or 'unknown'}")
    return tuple(dict.fromkeys(one_line(line) for line in lines))


def _command(asked: ApprovalContext, command: str, git: GitReader) -> Iterator[str]:
    cwd = str(asked.workspace.cwd)
    found = analyse(command, cwd, asked.home)
    parts = asked.decision.parts
    if len(parts) > 1:
        asked_about = [(number, verdict) for number, verdict in enumerate(parts, 1) if verdict.level is not Level.ALLOW]
        for number, verdict in asked_about:
            word = "denied" if verdict.level is Level.DENY else "asks" if verdict.rule else "no rule allows it"
            yield f"part {number}, {word}: {verdict.text} ({verdict.reason})"
        allowed = len(parts) - len(asked_about)
        if asked_about and allowed:
            yield "1 other part is allowed" if allowed == 1 else f"{allowed} other parts are allowed"
    if asked.workspace.cwd != asked.workspace.root:
        yield f"runs in {cwd}"
    for folder in dict.fromkeys(c for p in found.parts for c in p.cwds or () if c != cwd):
        yield f"runs in {folder} from its cd on"
    touched = list(_touched(found))
    for path, real in touched:
        if os.path.realpath(cwd + "/x") and real != path:
            yield f"{_near(path, cwd)} -> {real}"
    for real in dict.fromkeys(real for _, real in touched):
        yield from _file(real, git)
    # Nothing is said where no program is known to use it: any program may.
    if names := [p.text for p in found.parts if uses_network(p)]:
        yield f"network: yes, by {', '.join(dict.fromkeys(names))}"
    yield from losses(dangers(found), git)


def _touched(found: Analysis) -> Iterator[tuple[str, str]]:
    """The paths that words and redirections name and that are there, or would be written; as named, and resolved."""
    count = 0
    for part in found.parts:
        named = [(r.target, True) for r in part.redirects if not r.why and r.kind != "network"]
        named += [(w.text.partition("=")[2] or w.text, False) for w in part.words[1:] if not w.why and not w.pattern]
        for text, sure in named:
            for cwd in part.cwds or (("/",) if text.startswith("/") else ()):
                path = os.path.normpath(os.path.join(cwd, text))
                if count < _MOST_PATHS and text and "\0" not in text and (sure or os.path.lexists(path)):
                    count += 1
                    yield path, os.path.realpath(path)


def _file(path: str, git: GitReader) -> Iterator[str]:
    """What should be known of a file: other names of it, and changes that are in no commit."""
    try:
        state = os.lstat(path)
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(state.st_mode):
        return
    if state.st_nlink > 1:
        others = state.st_nlink - 1
        yield f"{path} has {others} other name{'s' if others > 1 else ''} (hard links), which change with it"
    try:
        changed, added, removed = git.changed(os.path.dirname(path), "HEAD", "--", path)  # noqa: PTH120
    except (OSError, LookupError, ValueError):
        return
    if changed:
        yield f"{path} has uncommitted changes (+{added} -{removed} lines)"


def _near(path: str, cwd: str) -> str:
    return os.path.relpath(path, cwd) if path.startswith(f"{cwd}/") else path

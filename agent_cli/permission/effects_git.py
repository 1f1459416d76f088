"""What a call of git reads, writes or runs beside its repository, and what a patch writes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from agent_cli.permission.effects_scan import REMOTE, Touch
from agent_cli.permission.effects_table import GIT_READS, GIT_RUNNERS, GIT_RUNS, GIT_WRITES
from agent_cli.permission.shell_values import Word

_MOST_PATCH = 1 << 20


def git(words: Sequence[Word]) -> Iterator[Touch]:
    queue = list(words)
    while queue and queue[0].text.startswith("-"):
        word = queue.pop(0)
        name = word.text.partition("=")[0]
        if name in ("-c", "-p") or name in GIT_RUNS:
            yield Touch("run", Word(name))
        if name == "-C" and queue:
            yield Touch("run", Word("-C")) if REMOTE.match(queue[0].text) else Touch("write", queue[0])
        if name in ("-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env") and "=" not in word.text:
            queue[:1] = []
    if not queue:
        return
    sub, rest = queue[0].text, queue[1:]
    if sub in GIT_RUNNERS or sub.startswith("-"):
        yield Touch("run", Word(sub))
    operands = [w for w in rest if not w.text.startswith("-")]
    yield from _options_of_git(sub, rest)
    yield from (Touch("run", w) for w in operands if re.match(r"(?:ext|fd)::", w.text))
    if sub == "config" and not any(re.match(r"--get|--list|-l$|get$|list$", w.text) for w in rest):
        yield Touch("write", Word(".git/config"))
    elif sub == "apply":
        yield from (Touch("names", w) for w in operands or [Word("-")])
        if any(w.text.startswith("--unsafe") for w in rest):
            yield Touch("run", Word("--unsafe-paths"))
    elif sub == "am":
        yield from (Touch("names", w) for w in operands or [Word("-")])
    elif sub in ("rm", "mv", "clean"):
        kinds: dict[str, Literal["remove", "write"]] = {"rm": "remove", "mv": "write", "clean": "remove"}
        yield from (Touch(kinds[sub], w) for w in operands)
    elif sub in ("checkout", "restore") and ("--" in [w.text for w in rest] or sub == "restore"):
        texts = [w.text for w in rest]
        after = rest[texts.index("--") + 1 :] if "--" in texts else operands
        yield from (Touch("write", w) for w in after)
    elif sub in ("clone", "init"):
        targets = operands if sub == "init" else operands[1:]
        yield from (Touch("write", w) for w in targets)
    elif sub == "worktree" and operands[:1] and operands[0].text in ("add", "move", "remove"):
        yield from (Touch("write", w) for w in operands[1:2])
    elif sub == "submodule" and any(w.text in ("foreach", "update", "add") for w in rest):
        yield Touch("run", next(w for w in rest if w.text in ("foreach", "update", "add")))
    elif sub == "bundle" and len(operands) > 1 and operands[0].text == "create":
        yield Touch("write", operands[1])


def _options_of_git(sub: str, rest: list[Word]) -> Iterator[Touch]:
    for n, word in enumerate(rest):
        if word.text == "--":
            return
        name, equals, value = word.text.partition("=")
        given = word.but(text=value) if equals else rest[n + 1] if n + 1 < len(rest) else Word("")
        long = name.startswith("--") and len(name) > 4
        if long and any(o.startswith(name) for o in GIT_RUNS):
            yield Touch("run", Word(name))
        elif long and any(o.startswith(name) for o in GIT_WRITES):
            yield Touch("write", given)
        elif (long and any(o.startswith(name) for o in GIT_READS)) or (
            name == "-F" and sub in ("commit", "tag", "notes")
        ):
            yield Touch("read", given)
        elif name == "-o" and sub in ("format-patch", "archive"):
            yield Touch("write", given)
        elif re.match(r"-O", name) and sub == "grep":
            yield Touch("run", Word("-O"))
        elif name == "-x" and sub in ("rebase", "difftool"):
            yield Touch("run", Word("-x"))
        elif (name in ("-u", "-c") and sub == "clone") or (name == "--remote" and sub == "archive"):
            yield Touch("run", Word(name))


def named_by(patch: str) -> list[str] | None:
    """The files that a patch names; None where it cannot be read."""
    try:
        if not os.path.isfile(patch):  # noqa: PTH113 - as text, as the shell has it
            return None
        with open(patch, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(_MOST_PATCH + 1)
    except (OSError, ValueError):
        return None
    names = re.findall(r"^(?:\+\+\+|---) ([^\t\n]+)", text, re.MULTILINE)
    names += re.findall(r"^(?:rename|copy) (?:from|to) (.+)$", text, re.MULTILINE)
    names += [n for pair in re.findall(r"^diff --git (\S+) (\S+)", text, re.MULTILINE) for n in pair]
    if len(text) > _MOST_PATCH or any(n.startswith('"') for n in names):
        return None
    # With any number of folders left out, as -p says.
    return sorted({"/".join(n.split("/")[k:]) for n in names for k in range(n.count("/") + 1)})

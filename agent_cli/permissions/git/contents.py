"""Determine whose content a read-only git command would print: a diff, a log with patches, a search, an object.

For a command that prints many files, git is asked for their names first, with the same words but other output
(`GitNames`); if that is impossible, the files are unknown and the command needs approval.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent_cli.permissions.git.reads import GitCall
from agent_tools.process.guarded_git import GitError, GitRun
from agent_tools.record import Value

# Options that make a log print patches, at least sometimes.
_PATCH = frozenset(
    "-p -u -U -c -m -L -W --patch --unified --patch-with-stat --cc --binary --word-diff --word-diff-regex --check "
    "--color-words --function-context".split()
)
# With one of these and none of the above, a diff prints only names and numbers.
_SUMMARY = frozenset(
    "-s -q --no-patch --name-only --name-status --stat --shortstat --numstat --raw --summary --dirstat "
    "--compact-summary --quiet".split()
)
# Dropped when asking for names: other output formats, and decorations around names.
_OUTPUT = _PATCH - {"-c", "-m", "--cc"} | _SUMMARY | frozenset(
    "-z --graph --exit-code --color --no-color --color-moved --relative --format --pretty --oneline --null "
    "--show-signature --no-ext-diff --no-textconv -M --find-renames -C --find-copies -B --ignore-submodules "
    "--full-index --abbrev --src-prefix --dst-prefix --no-prefix --source --left-right --parents --children".split()
)  # fmt: skip
_MOST = 16 << 20
_ONLY_NAMES = ("--name-only", "-z", "--no-color")


class GitNames(Value):
    """Words of a git command that prints names, ended by NUL. before: may precede a name, with a colon."""

    words: tuple[str, ...]
    before: tuple[str, ...] = ()


class Objects(Value):
    """Operands that may be objects: content without a name if they are blobs, or a name after a colon."""

    operands: tuple[str, ...]


def printed(call: GitCall) -> Iterator[GitNames | Objects]:
    """Yield the queries for whose content a command prints apart from the paths that it names."""
    names = {name for name, _ in call.read.options}
    match call.name:
        case "status":
            if names & {"-v", "--verbose"}:
                yield GitNames(("diff", "--cached", *_ONLY_NAMES, "--no-renames"))
                yield GitNames(("diff", *_ONLY_NAMES, "--no-renames"))
        case "log" | "reflog" | "reflog show" | "stash list":
            if names & _PATCH:
                yield from _patches(call, names)
        case "stash show":
            if names & _PATCH:
                yield from _patches(call, names)
        case "show" | "diff":
            if call.name == "show" or names & _PATCH or not names & _SUMMARY:
                yield Objects(call.revisions)
            if names & _PATCH or not names & _SUMMARY:
                yield from _patches(call, names)
        case "cat-file":
            if not names & {"-t", "-s", "-e"}:
                yield Objects(call.read.operands[-1:])
        case "grep":
            if not names & {
                "-l",
                "-L",
                "--files-with-matches",
                "--files-without-match",
                "--name-only",
                "-q",
                "--quiet",
            }:
                rest = tuple(word for word in call.words if not word.startswith("--color"))
                yield GitNames((*call.globals, "grep", "-l", "-z", "--full-name", *rest), call.revisions)


def _patches(call: GitCall, names: set[str]) -> Iterator[GitNames]:
    traced = [value.rpartition(":")[2] for name, value in call.read.options if name == "-L"]
    for file in traced:
        yield GitNames(("log", *_ONLY_NAMES, "--format=", "--follow", *call.revisions, "--", file))
    if traced:
        return
    options = [call.spelled(*option) for option in call.read.options if option[0] not in _OUTPUT]
    own = [] if call.name == "diff" or call.name == "stash show" else ["--format="]
    # A renamed file is printed under both names.
    renames = [] if "--follow" in names else ["--no-renames"]
    after = () if call.paths is None else ("--", *call.paths)
    yield GitNames(
        (*call.globals, *call.name.split(), *options, *_ONLY_NAMES, *own, *renames, *call.revisions, *after)
    )  # fmt: skip


def printed_files(
    git: GitRun, root: Path, cwd: Path, wanted: Iterable[GitNames | Objects], seconds: float
) -> list[str]:
    """Return the files whose content a command would print, relative to the root. Raises GitError if unknown."""
    until = time.monotonic() + seconds
    found: dict[str, None] = {}
    for one in wanted:
        left = max(until - time.monotonic(), 0.05)
        if isinstance(one, Objects):
            found.update(dict.fromkeys(_objects(git, root, cwd, one.operands, left)))
            continue
        out = git.run(*one.words, cwd=str(cwd), seconds=left, most=_MOST, fine=(0, 1))
        for name in os.fsdecode(out).split("\0"):
            named = name.lstrip("\n")
            start = next((f"{rev}:" for rev in one.before if named.startswith(f"{rev}:")), "")
            found.update(dict.fromkeys(n for n in (named, named.removeprefix(start)) if n))
    return list(found)


def _objects(git: GitRun, root: Path, cwd: Path, operands: tuple[str, ...], seconds: float) -> Iterator[str]:
    """Yield the names after colons; raises GitError for an operand that is content without a name."""
    bare = [o for o in operands if ":" not in o and ".." not in o and not o.startswith("^")]
    for operand in operands:
        _, colon, name = operand.partition(":")
        if colon:
            for text in dict.fromkeys((name, name.rpartition(":")[2])):
                from_here = text.startswith(("./", "../"))
                yield os.path.relpath(os.path.normpath((cwd if from_here else root) / text), root)
    if any("\n" in o for o in bare):
        raise GitError("an object is named in more than one line")
    feed = "".join(f"{o}\n{o}^{{}}\n" for o in bare)
    if not feed:
        return
    out = git.run("cat-file", "--batch-check=%(objecttype)", feed=os.fsencode(feed), cwd=str(cwd), seconds=seconds)
    if b"blob" in out.split(b"\n"):
        raise GitError("an object is named without its file")

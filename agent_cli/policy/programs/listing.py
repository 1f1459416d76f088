"""Programs that list files, for another one to read, and filters that pass such lists on."""

from __future__ import annotations

import re

from agent_cli.policy.programs.effects import FileRead
from agent_cli.policy.programs.git import GitWords
from agent_cli.policy.programs.invocation import invocation
from agent_cli.policy.programs.reads import reads_of
from agent_cli.policy.shell.words import SimpleCommand, Word
from agent_tools.lazy import lazy_pattern

_FILTERS = frozenset(("head", "tail", "sort", "uniq", "grep", "egrep", "fgrep", "rg"))
_CHANGES_LINES = lazy_pattern(
    r"-[a-zA-Z]*[ocnHbr]|--(?:only-matching|count|line-number|with-filename|replace|recursive)"
)
# Words that print something else than names, or names that start elsewhere.
_ODD = lazy_pattern(r"-[a-z]*[sktvfu]|--(?:stage|format|abbrev|debug|eol|full-name|stat|patch|raw|relative)\b.*|-p|-z0")


def passes_lines(part: SimpleCommand) -> bool:
    """Return True for a filter that passes on the names it is given, or leaves some out."""
    words = part.texts
    if not part.piped or part.redirects or not words or words[0] not in _FILTERS:
        return False
    if words[0] not in ("sort", "uniq", "head", "tail") and any(_CHANGES_LINES.fullmatch(w) for w in words[1:]):
        return False
    return reads_of(words[0], [Word(text) for text in words[1:]]) == ()


def listed(part: SimpleCommand) -> tuple[FileRead, ...] | None:
    """Return the reading of all files that a command lists; None if that is not known."""
    found = invocation(part)
    name, rest = part.texts[0], part.texts[1:]
    if isinstance(found.reads, str) or part.redirects or name != part.program:
        return None
    if found.git is not None:
        return _listed_by_git(found.git)
    if found.find is not None:
        shows = any(term.name in ("-printf", "-ls") or term.kind == "run" for term in found.find.terms)
        return None if shows else tuple(FileRead(start.text, "tree", follows=True) for start in found.find.starts)
    if name in ("grep", "egrep", "fgrep", "rg"):
        lists = name == "rg" and "--files" in rest
        short = any(re.fullmatch(r"-[a-zA-Z]*l", word) for word in rest)
        if not (lists or short or "--files-with-matches" in rest):
            return None
        return tuple(reading.replace(what="tree") for reading in found.reads)
    if name == "ls" and all(w.pattern and not w.text.startswith("-") for w in part.words[1:]):
        return (FileRead(".", "tree", follows=True),)
    return None


# Options with which git lists files of its index. The names of `diff` start at the top of the repository.
_GIT_LISTS = {"grep": {"-l", "--files-with-matches"}, "diff": {"--name-only"}}


def _listed_by_git(found: GitWords) -> tuple[FileRead, ...] | None:
    """Return the reading of files that `git ls-files`, `git grep -l` or `git diff --name-only` lists."""
    options = set(found.texts)
    if found.before or any(_ODD.fullmatch(word) for word in options):
        return None
    if found.subcommand == "ls-files":
        others = options & {"-o", "--others", "-i", "--ignored"}
        return (FileRead(".", "tree" if others else "tracked", follows=True),)
    return (FileRead(".", "tracked", follows=True),) if options & _GIT_LISTS.get(found.subcommand, set()) else None

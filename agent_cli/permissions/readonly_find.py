"""The read-only forms of find: tests, and actions that show the files it finds."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from agent_cli.permissions.options import FileRead

PLAIN_GLOB = re.compile(r"[\w.*?-]+")
# Stands for the files that are found.
_FOUND = "./found"
_FIND = frozenset(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -maxdepth -mindepth -size "
    "-mtime -mmin -atime -amin -ctime -cmin -newer -perm -user -group -links -inum -fstype -printf -used".split()
)
_FIND_PLAIN = frozenset(
    "! ( ) , -not -a -and -o -or -print -print0 -ls -prune -quit -empty -true -false -daystart -xdev -mount -depth "
    "-executable -readable -writable -nouser -nogroup -noleaf -P -H".split()
)


def parse_find(
    rest: tuple[str, ...], patterns: Collection[str], reads_of: Callable[[tuple[str, ...]], tuple[FileRead, ...] | str]
) -> tuple[FileRead, ...] | str:
    """Parse find without actions on what it finds, other than showing it by a program that only reads."""
    words, starts = list(rest), []
    while words and (words[0] in ("-P", "-H") or not (words[0].startswith("-") or words[0] in ("!", "(", ","))):
        if not (word := words.pop(0)).startswith("-"):
            starts.append(word)
    starts = starts or ["."]
    found = [FileRead(start, "names") for start in starts]
    tests: list[tuple[str, str]] = []
    while words:
        word = words.pop(0)
        if word in _FIND and words:
            tests.append((word, words.pop(0)))
            if word == "-newer":
                found.append(FileRead(tests[-1][1], "names"))
        elif word == "-exec":
            end = next((n for n, w in enumerate(words) if w in (";", "+")), len(words))
            if why := _shows_found(words[:end], tests, patterns):
                return why
            # Names that are found begin with where the search begins, so none of them is an option.
            inner = reads_of((*words[: end - 1], _FOUND))
            if isinstance(inner, str):
                return inner
            found += [reading for reading in inner if reading.path != _FOUND]
            only = _named_only(tests)
            found += [FileRead(start, "tree", only=only) for start in starts]
            words = words[end + 1 :]
        elif word not in _FIND_PLAIN:
            return f"the action or option {word}"
        else:
            tests.append((word, ""))
    return tuple(found)


# Programs that find may run: their operands are files, which they read and show.
_SHOWING = frozenset(
    "cat head tail nl wc grep egrep fgrep sed cut sort stat file ls md5sum sha1sum sha256sum basename dirname du "
    "realpath od strings tac echo".split()
)


def _shows_found(words: Sequence[str], tests: Sequence[tuple[str, str]], patterns: Collection[str]) -> str:
    """Return why `find -exec` with these words does more than show the files it finds; "" if it does not.

    Without `-type f` it would also read what links lead to.
    """
    if ("-type", "f") not in tests or any(test in ("-o", "-or", "(", ",", "!", "-not") for test, _ in tests):
        return "the action -exec without a lone -type f"
    if words[:1] == [] or words[0] not in _SHOWING or words[-1:] != ["{}"] or any("{}" in w for w in words[:-1]):
        return f"the action -exec {' '.join(words[:1])}"
    return "the action -exec with a pattern" if any(w in patterns for w in words) else ""


def _named_only(tests: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the pattern that all files found match; () if there is none."""
    return next(((value,) for test, value in tests if test == "-name" and PLAIN_GLOB.fullmatch(value)), ())

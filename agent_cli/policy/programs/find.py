"""The arguments of `find`: where it starts, what it selects, and what it does with what it finds."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from agent_cli.policy.operands import resolve_word
from agent_cli.policy.shell.words import Word
from agent_tools.lazy import lazy_pattern
from agent_tools.process.child import run_child
from agent_tools.record import Value

Follows = Literal["", "named", "below"]
Kind = Literal["test", "plain", "run", "delete", "file", "unknown"]

_TESTS = frozenset(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -maxdepth -mindepth -size "
    "-mtime -mmin -atime -amin -ctime -cmin -newer -perm -user -group -links -inum "
    "-fstype -printf -used -anewer -cnewer -newermt -newerat -newerct -lname -ilname -uid -gid".split()
)
# Tests whose value is a file, of which only the dates are read.
COMPARED = ("-newer", "-anewer", "-cnewer")
_PLAIN = frozenset(
    "! ( ) , -not -a -and -o -or -print -print0 -ls -prune -quit -empty -true -false -daystart -xdev -mount -depth -d "
    "-executable -readable -writable -nouser -nogroup -noleaf -follow".split()
)
_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
_FILES = {"-fprint": 1, "-fprint0": 1, "-fls": 1, "-fprintf": 2}
_SHOWS = frozenset("-print -print0 -ls -printf -quit".split())
# Tests that may hold for everything below a directory.
_BROAD = frozenset("-type -xtype -maxdepth -mindepth -regextype -printf -fstype".split())
# Names in which an asterisk or question mark is all that is special.
PLAIN_GLOB = lazy_pattern(r"[\w.*?-]+")
_EVERY_NAME = lazy_pattern(r"(?:\*|\./\*|.*/\*)")
# The last one given is in force.
_FOLLOWING: Mapping[str, Follows] = {"-H": "named", "-L": "below", "-P": ""}
_MAX_BYTES = 4 << 20
_SYSTEM_PATH = "/usr/bin:/bin"


class FindTerm(Value):
    """One term of the expression.

    at: index of its first word among the words after `find`.
    kind: "run" for -exec and the like, "delete", "file" for an action that writes the file it names first, "unknown".
    values: its words; of "run" the command, without the end.
    """

    name: str
    kind: Kind
    at: int
    values: tuple[Word, ...] = ()


class FindCall(Value):
    """The arguments of one `find`.

    words: all of them.
    follows: "named" if it follows links that it starts from, "below" if also those it meets.
    """

    words: tuple[Word, ...]
    starts: tuple[Word, ...]
    terms: tuple[FindTerm, ...]
    follows: Follows

    @property
    def narrow(self) -> bool:
        """True if a test selects only some of the files below the places where it starts."""
        names = [term.name for term in self.terms]
        if any(name in ("-o", "-or", ",") for name in names):
            return False
        tests = zip(self.terms, ["", *names], strict=False)
        return any(_selects(term) for term, before in tests if before not in ("!", "-not"))

    def selecting(self, action: FindTerm) -> list[Word] | None:
        """Return the arguments that print, each followed by NUL, what reaches an action; None if that is not known.

        The start points are not included.
        """
        found = [Word("-depth")] if any(term.kind == "delete" for term in self.terms) else []
        for term in self.terms:
            if term is action:
                found.append(Word("-print0"))
            elif term.kind in ("test", "plain") and term.name not in _SHOWS:
                found += [Word(term.name), *term.values]
            elif term.kind == "unknown":
                return None
            else:
                found.append(Word("-true"))
        return found


def _selects(term: FindTerm) -> bool:
    if term.name in ("-empty", "-executable", "-nouser", "-nogroup", "-false"):
        return True
    if term.kind != "test" or term.name in _BROAD:
        return False
    return not any(_EVERY_NAME.fullmatch(value.text) or value.why for value in term.values)


def read_find(words: Sequence[Word]) -> FindCall:
    """Parse the words after `find`."""
    at, starts = 0, list[Word]()
    follows: Follows = ""
    while at < len(words) and not _begins_expression(words[at]):
        text = words[at].text
        if text.startswith("-"):
            follows = _FOLLOWING.get(text, follows)
            at += 1 if text in ("-D", "-O") else 0
        else:
            starts.append(words[at])
        at += 1
    terms = tuple(_terms(words, at))
    if any(term.name == "-follow" for term in terms):
        follows = "below"
    return FindCall(tuple(words), tuple(starts) or (Word("."),), terms, follows)


def _begins_expression(word: Word) -> bool:
    text = word.text
    if text in ("!", "(", ","):
        return True
    return text.startswith("-") and len(text) > 1 and text not in ("-H", "-L", "-P", "-D") and text[:2] != "-O"


def _terms(words: Sequence[Word], at: int) -> Iterable[FindTerm]:
    while at < len(words):
        name, begin = words[at].text, at
        at += 1
        if name in _RUNS:
            end = next((n for n in range(at, len(words)) if _ends_run(words, n)), len(words))
            yield FindTerm(name, "run", begin, tuple(words[at:end]))
            at = end + 1
        elif name == "-delete":
            yield FindTerm(name, "delete", begin)
        elif size := _FILES.get(name, 1 if name in _TESTS else 0):
            values = tuple(words[at : at + size])
            kind: Kind = "file" if name in _FILES else "test"
            yield FindTerm(name, kind if len(values) == size else "unknown", begin, values)
            at += size
        else:
            yield FindTerm(name, "plain" if name in _PLAIN else "unknown", begin)


def _ends_run(words: Sequence[Word], at: int) -> bool:
    """Return True if a word ends the command of -exec: a semicolon, or a plus after {}."""
    return words[at].text == ";" or (words[at].text == "+" and words[at - 1].text == "{}")


def found_by(call: FindCall, action: FindTerm, cwd: str, seconds: float) -> list[str] | None:
    """Return the paths that reach an action of `find`, relative to `cwd` as `find` prints them.

    None if that cannot be found out: an unknown word or test, no system `find`, too many files, or no time left. Only
    tests run; they read names and attributes of files.
    """
    selecting = call.selecting(action)
    program = shutil.which("find", path=_SYSTEM_PATH)
    if selecting is None or program is None or seconds <= 0 or any(w.why for w in (*call.starts, *selecting)):
        return None
    options = [option for option, follows in _FOLLOWING.items() if follows == call.follows]
    starts = [path.text for word in call.starts for path in resolve_word(word, cwd)]
    words = [program, *options, *starts, *_expanded(selecting, cwd)]
    try:
        found = run_child(words, seconds=seconds, most=_MAX_BYTES, cwd=cwd, env={"LC_ALL": "C"})
    except (OSError, ValueError, TimeoutError, OverflowError):
        return None
    return [name.decode("utf-8", "surrogateescape") for name in found.out.split(b"\0") if name]


def _expanded(words: Sequence[Word], cwd: str) -> list[str]:
    """Return words as the shell passes them: an unquoted glob is replaced by the files that match it."""
    return [
        text for word in words for text in ([p.text for p in resolve_word(word, cwd)] if word.pattern else [word.text])
    ]

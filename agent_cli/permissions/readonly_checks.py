"""Check that the script, filter or operands of a read-only program do nothing but read; what `find` reads and shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from agent_cli.permissions.effects.scripts import awk_acts, only_edits
from agent_cli.permissions.options import FileRead, ParsedArguments
from agent_cli.permissions.programs.find import read_find
from agent_cli.permissions.shell.words import Word


def sed_check(read: ParsedArguments) -> str:
    scripts = [value for name, value in read.options if name in ("-e", "--expression")] or list(read.operands[:1])
    return "" if scripts and all(only_edits(s) for s in scripts) else "a sed script"


def date_check(read: ParsedArguments) -> str:
    return "" if all(o.startswith("+") for o in read.operands) else "setting the date"


def awk_check(read: ParsedArguments) -> str:
    return "an awk script" if read.operands and (awk_acts(read.operands[0]) or "ENVIRON" in read.operands[0]) else ""


def jq_check(read: ParsedArguments) -> str:
    named = re.search(r"\b(?:import|include|modulemeta|env|ENV|input_filename)\b", "".join(read.operands[:1]))
    return f"the filter's {named[0]}" if named else ""


def no_lists_check(read: ParsedArguments) -> str:
    return "a list of options" if any(o.startswith("@") for o in read.operands) else ""


def ps_check(read: ParsedArguments) -> str:
    """Allow lists of processes with their arguments, but not with their environment.

    After an unknown user name ps reads all its words again as BSD options, where `e` means the environment.
    """
    users = [value for name, value in read.options if name in ("-u", "-U")]
    if not all(re.fullmatch(r"(?:\d+|root)(?:,(?:\d+|root))*", user) for user in users):
        return "ps of a user by name"
    odd = any(not re.fullmatch(r"[auxw]{1,6}", o) for o in read.operands) or any("env" in v for _, v in read.options)
    return "ps with other words than aux" if odd else ""


def lsof_check(read: ParsedArguments) -> str:
    """Allow the list of a machine's own ports. Without -n, and for a host, names are resolved."""
    values = [value for name, value in read.options if name == "-i"]
    own = all(re.fullmatch(r"[46]?(?:TCP|UDP|tcp|udp)?(?::[\d,-]+)?", value) for value in values)
    return "" if values and own and ("-n", "") in read.options else "lsof that may resolve names"


def at_most(most: int) -> Callable[[ParsedArguments], str]:
    return lambda read: "" if len(read.operands) <= most else "an output file"


def netstat_check(read: ParsedArguments) -> str:
    """Without -n names are resolved."""
    return "" if ("-n", "") in read.options else "netstat that resolves names"


def ip_check(read: ParsedArguments) -> str:
    """Allow what shows the machine's own addresses, links and routes."""
    what = "".join(read.operands[:1])
    known = re.fullmatch(r"a(?:ddr(?:ess)?)?|l(?:ink)?|r(?:oute)?|n(?:eigh)?", what)
    return "" if known and read.operands[1:] in ((), ("show",), ("list",)) else "ip with other words than show"


# Variables that say where something is, and no more.
PUBLIC_VARIABLES = re.compile(r"PATH|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|LANG|LC_[A-Z]+|TERM|TZ|EDITOR|VIRTUAL_ENV|CI")


def printenv_check(read: ParsedArguments) -> str:
    """Allow variables that hold no secrets; without a name all are printed."""
    return "" if read.operands and all(map(PUBLIC_VARIABLES.fullmatch, read.operands)) else "printenv of any variable"


def pip_check(read: ParsedArguments) -> str:
    """Allow what pip says of installed packages."""
    verb = "".join(read.operands[:1])
    return "" if verb in ("list", "check", "show") and (verb == "show") == (len(read.operands) > 1) else f"pip {verb}"


def jq_words(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of jq without those that name variables, and the files that variables get."""
    queue, kept, files = list(words), [], []
    while queue:
        word = queue.pop(0)
        if word in ("--arg", "--argjson", "--slurpfile", "--rawfile") and len(queue) > 1:
            files += queue[1:2] if word.endswith("file") else []
            del queue[:2]
        else:
            kept.append(word)
    return tuple(kept), tuple(files)


def may_be_script(words: tuple[str, ...], read: ParsedArguments, patterns: Collection[str]) -> bool:
    """Return True if a glob stands for a script, or before one, so that a file's name may take its place."""
    if any(name in ("-e", "--expression") for name, _ in read.options):
        return any(value in patterns for _, value in read.options)
    script = next(iter(read.operands), None)
    before = words if script is None else words[: words.index(script) + 1]
    return any(word in patterns for word in before)


PLAIN_GLOB = re.compile(r"[\w.*?-]+")
# Stands for the files that are found.
FOUND = "./found"


def find_reads(
    rest: tuple[str, ...], patterns: Collection[str], reads_of: Callable[[tuple[str, ...]], tuple[FileRead, ...] | str]
) -> tuple[FileRead, ...] | str:
    """Return what a find reads that only shows what it finds, by itself or by a program that only reads.

    For any other, return why it may do more.
    """
    call = read_find([Word(text) for text in rest])
    if odd := next((word for word in rest if re.match(r"-(?:[DLO]|follow$)", word)), ""):
        return f"the action or option {odd}"
    starts = [start.text for start in call.starts]
    found = [FileRead(start, "names") for start in starts]
    tests: list[tuple[str, str]] = []
    for term in call.terms:
        values = [value.text for value in term.values]
        if term.kind == "run" and term.name == "-exec":
            if why := _shows_found(values, patterns):
                return why
            # Names that are found begin with where the search begins, so none of them is an option.
            inner = reads_of((*values[:-1], FOUND))
            if isinstance(inner, str):
                return inner
            found += [reading for reading in inner if reading.path != FOUND]
            only = _named_only(tests)
            # Without a lone `-type f` it also reads what links lead to.
            follows = ("-type", "f") not in tests or any(test in _COMBINED for test, _ in tests)
            found += [FileRead(start, "tree", only=() if follows else only, follows=follows) for start in starts]
        elif term.kind not in ("test", "plain"):
            return f"the action or option {term.name}"
        else:
            tests.append((term.name, "".join(values)))
            if term.name == "-newer":
                found += [FileRead(value, "names") for value in values]
    return tuple(found)


_COMBINED = frozenset(("-o", "-or", "(", ",", "!", "-not"))
# Programs that find may run: their operands are files, which they read and show.
SHOWING = frozenset(
    "cat head tail nl wc grep egrep fgrep sed cut sort stat file ls md5sum sha1sum sha256sum basename dirname du "
    "realpath od strings tac echo".split()
)


def _shows_found(words: Sequence[str], patterns: Collection[str]) -> str:
    """Return why `find -exec` with these words does more than show the files it finds; "" if it does not."""
    if words[:1] == [] or words[0] not in SHOWING or words[-1:] != ["{}"] or any("{}" in w for w in words[:-1]):
        return f"the action -exec {' '.join(words[:1])}"
    return "the action -exec with a pattern" if any(w in patterns for w in words) else ""


def _named_only(tests: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the pattern that all files found match; () if there is none."""
    return next(((value,) for test, value in tests if test == "-name" and PLAIN_GLOB.fullmatch(value)), ())

"""Programs that only read: which of them, with which options, and what they read.

Each has a list of options it may have; any other makes it a program like all others, which needs a rule. Nothing here
resolves names, talks to a network, writes, or runs another program.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Literal

from agent_cli.permission.git_reads import git_reads
from agent_cli.permission.option_words import NotListed, Options, Read, read_options
from agent_tools.values import Value


class Reading(Value):
    """A path that is read. what: "names" (sizes, dates, names of files), "content", or "tree" (all content below).

    hidden: whether a tree is read with its hidden files.
    """

    path: str
    what: Literal["names", "content", "tree"] = "content"
    hidden: bool = True


_Operands = Literal["content", "names", "text", "none", "pattern"]


class _Program(Value):
    """options: those allowed. operands: what they are. check: says why not, of what was read, or nothing.

    recursive: options that make directories be read as trees. files: options whose value is read. here: it reads the
    working directory where no operand is given.
    """

    options: Options = Options()
    operands: _Operands = "content"
    check: Callable[[Read], str] | None = None
    recursive: str = ""
    files: str = ""
    here: bool = False


def _at_most(most: int) -> Callable[[Read], str]:
    return lambda read: "" if len(read.operands) <= most else "an output file"


def _sed(read: Read) -> str:
    names = [name for name, _ in read.options]
    scripts = [value for name, value in read.options if name in ("-e", "--expression")] or list(read.operands[:1])
    one = r"(?:\d+|\$|/[^/\\\n;]*/)(?:,(?:\d+|\$|/[^/\\\n;]*/))?p|\d+q"
    if not {"-n", "--quiet", "--silent"} & set(names):
        return "sed without -n"
    return "" if all(re.fullmatch(rf"(?:{one})(?:;(?:{one}))*", s) for s in scripts) else "a sed script"


def _date(read: Read) -> str:
    return "" if all(o.startswith("+") for o in read.operands) else "setting the date"


_LS = Options(
    "aAbBcCdfFgGhHiIklLmnNopqQrRsStTuUvwxXZ1",
    "",
    "all almost-all author escape directory classify file-type full-time human-readable si dereference inode "
    "numeric-uid-gid literal no-group quote-name reverse recursive size group-directories-first",
    "color? block-size format sort time time-style indicator-style hide ignore hyperlink? width tabsize",
)
_HEAD = Options("qvz", "nc", "quiet silent verbose zero-terminated", "lines bytes", numbers=True)
_GREP = Options(
    "EFGPiyvwxcLlqsnHhbaIzTUor", "emABCf",
    "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match word-regexp "
    "line-regexp count files-without-match files-with-matches quiet silent no-messages line-number with-filename "
    "no-filename byte-offset text null-data null initial-tab binary only-matching recursive line-buffered",
    "regexp max-count after-context before-context context file color? colour? label include exclude exclude-dir "
    "binary-files", numbers=True,
)  # fmt: skip
_RG = Options(
    "inlcvwxFSsoHNIhUPpqa0", "ABCegtTmrMjdf",
    "ignore-case line-number files-with-matches files-without-match count count-matches invert-match word-regexp "
    "line-regexp fixed-strings smart-case case-sensitive only-matching with-filename no-filename no-line-number "
    "multiline multiline-dotall pcre2 pretty quiet text null files type-list json stats column heading no-heading trim "
    "passthru vimgrep no-messages no-config crlf one-file-system",
    "after-context before-context context regexp glob iglob type type-not max-count replace max-columns max-depth "
    "maxdepth threads sort sortr color colors file max-filesize encoding engine path-separator",
)  # fmt: skip
_DIFF = Options(
    "ucrqsiwbBNyadEptTZ", "UCWxI",
    "unified? context? recursive brief report-identical-files ignore-case ignore-all-space ignore-space-change "
    "ignore-blank-lines new-file side-by-side text minimal show-c-function expand-tabs strip-trailing-cr normal "
    "suppress-common-lines ignore-tab-expansion ignore-trailing-space left-column speed-large-files",
    "unified? context? color? width exclude ignore-matching-lines label tabsize",
)  # fmt: skip
_FIND = frozenset(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -maxdepth -mindepth -size "
    "-mtime -mmin -atime -amin -ctime -cmin -newer -perm -user -group -links -inum -fstype -printf -used".split()
)
_FIND_PLAIN = frozenset(
    "! ( ) , -not -a -and -o -or -print -print0 -ls -prune -quit -empty -true -false -daystart -xdev -mount -depth "
    "-executable -readable -writable -nouser -nogroup -noleaf -P -H".split()
)

_PROGRAMS: dict[str, _Program] = {
    "ls": _Program(_LS, "names", here=True),
    "cat": _Program(Options("AbeEnstTuv", "", "show-all number-nonblank show-ends number squeeze-blank show-tabs")),
    "head": _Program(_HEAD),
    "tail": _Program(_HEAD),
    "nl": _Program(Options("p", "bdfhilnsvw", "", "body-numbering number-width number-format number-separator")),
    "tac": _Program(Options("br", "s", "before regex", "separator")),
    "rev": _Program(),
    "wc": _Program(Options("clmLw", "", "bytes chars lines words max-line-length", "total")),
    "grep": _Program(_GREP, "pattern", recursive="-r --recursive", files="-f --file"),
    "egrep": _Program(_GREP, "pattern", recursive="-r --recursive", files="-f --file"),
    "fgrep": _Program(_GREP, "pattern", recursive="-r --recursive", files="-f --file"),
    "rg": _Program(_RG, "pattern", recursive="*", files="-f --file"),
    "sed": _Program(Options("nEersz", "e", "quiet silent regexp-extended separate", "expression"), "pattern", _sed),
    "sort": _Program(
        Options(
            "bdfghiMnRrVcCmsuz",
            "kt",
            "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort month-sort "
            "numeric-sort reverse version-sort check merge stable unique zero-terminated",
            "key field-separator sort parallel",
        )
    ),
    "uniq": _Program(
        Options("cdDiuz", "fsw", "count repeated ignore-case unique", "skip-fields skip-chars"), check=_at_most(1)
    ),
    "cut": _Program(Options("nsz", "bcdf", "complement only-delimited", "bytes characters delimiter fields")),
    "tr": _Program(Options("cCdst", "", "complement delete squeeze-repeats truncate-set1"), "text"),
    "comm": _Program(Options("123iz", "", "check-order nocheck-order total", "output-delimiter")),
    "cmp": _Program(Options("bls", "in", "print-bytes verbose quiet silent", "bytes ignore-initial")),
    "diff": _Program(_DIFF, recursive="-r --recursive"),
    "stat": _Program(Options("Lft", "c", "dereference file-system terse", "format printf"), "names"),
    "file": _Program(Options("bhikLN", "", "brief mime mime-type mime-encoding no-dereference")),
    "du": _Program(
        Options("abchkmsxS0", "dt", "all apparent-size bytes total human-readable summarize", "max-depth exclude"),
        "names",
        here=True,
    ),
    "df": _Program(Options("ahHiklPTB", "", "all human-readable inodes local portability print-type total"), "names"),
    "tree": _Program(
        Options("adfhspugDFnCitrJ", "LIP", "dirsfirst noreport prune gitignore", "filelimit charset"),
        "names",
        here=True,
    ),
    "pwd": _Program(Options("LP"), "none"),
    "true": _Program(operands="text"),
    "false": _Program(operands="text"),
    ":": _Program(operands="text"),
    "seq": _Program(Options("w", "sf", "equal-width", "separator format"), "text"),
    "basename": _Program(Options("az", "s", "multiple zero", "suffix"), "text"),
    "dirname": _Program(Options("z", "", "zero"), "text"),
    "realpath": _Program(Options("eLmPqsz", "", "", "relative-to relative-base"), "names"),
    "readlink": _Program(Options("femnqsvz"), "names"),
    "date": _Program(Options("uRI", "d", "utc universal rfc-email", "date iso-8601? rfc-3339"), "text", _date),
    "uname": _Program(Options("asnrvmpio", "", "all"), "none"),
    "whoami": _Program(operands="none"),
    "id": _Program(Options("gGnruz"), "none"),
    "which": _Program(Options("a"), "text"),
    "type": _Program(Options("aftpP"), "text"),
    "md5sum": _Program(Options("bt")),
    "sha1sum": _Program(Options("bt")),
    "sha256sum": _Program(Options("bt")),
}
BUILTINS = frozenset(("echo", "printf", "test", "[", "true", "false", ":", "pwd", "cd", "type", "command", "set"))
_TESTS = frozenset(
    "! -e -f -d -r -w -x -s -L -h -p -S -b -c -g -u -k -O -G -N -z -n -t = == != < > -nt -ot -ef "
    "-eq -ne -lt -le -gt -ge".split()
)
_TESTED = frozenset("-e -f -d -r -w -x -s -L -h -p -S -b -c -g -u -k -O -G -N".split())


def readings(words: tuple[str, ...]) -> tuple[Reading, ...] | str:
    """What a command of literal words reads, if it only reads; else why not, as "an option" in words."""
    name, rest = words[0], words[1:]
    if name == "echo":
        return ()
    if name == "printf":
        return "printf with an option" if rest[:1] and rest[0].startswith("-") and rest[0] != "--" else ()
    if name in ("test", "["):
        return _test(rest[:-1] if name == "[" and rest[-1:] == ("]",) else rest)
    if name == "command":
        return () if rest[:1] in (("-v",), ("-V",)) else "command with options"
    if name == "set":
        return (
            () if rest and all(re.fullmatch(r"-[eux]*o?|pipefail|errexit|nounset|xtrace", w) for w in rest) else "set"
        )
    if name == "expr":
        return ()
    if name == "find":
        return _find(rest)
    if name == "git":
        found = git_reads(rest)
        return found if isinstance(found, str) else tuple(Reading(p) for p in found)
    if name not in _PROGRAMS:
        return "a program that is not known to only read"
    return _listed(_PROGRAMS[name], rest)


def _listed(program: _Program, rest: tuple[str, ...]) -> tuple[Reading, ...] | str:
    try:
        read = read_options(rest, program.options)
    except NotListed as error:
        return f"the option {error}"
    if program.check is not None and (why := program.check(read)):
        return why
    if program.operands == "none" and read.operands:
        return "an operand"
    names = [name for name, _ in read.options]
    paths = list(read.operands) if program.operands in ("content", "names", "pattern") else []
    given = {"-e", "--regexp", "-f", "--file", "--expression", "--files", "--type-list"}
    if program.operands == "pattern" and not given & set(names):
        paths = paths[1:]
    found = [Reading(value) for name, value in read.options if name in program.files.split()]
    tree = program.recursive == "*" or bool(set(names) & set(program.recursive.split()))
    if not paths and (tree or program.here):
        paths = ["."]
    hidden = program.recursive != "*"
    what: Literal["names", "content", "tree"] = (
        "tree" if tree else "names" if program.operands == "names" else "content"
    )
    return (*found, *(Reading(path, what, hidden) for path in paths if path != "-"))


def _find(rest: tuple[str, ...]) -> tuple[Reading, ...] | str:
    """find, without anything that acts on what it finds."""
    words, starts = list(rest), []
    while words and (words[0] in ("-P", "-H") or not (words[0].startswith("-") or words[0] in ("!", "(", ","))):
        if not (word := words.pop(0)).startswith("-"):
            starts.append(word)
    found = [Reading(start, "names") for start in starts or ["."]]
    while words:
        word = words.pop(0)
        if word in _FIND and words:
            value = words.pop(0)
            if word == "-newer":
                found.append(Reading(value, "names"))
        elif word not in _FIND_PLAIN:
            return f"the action or option {word}"
    return tuple(found)


def _test(rest: tuple[str, ...]) -> tuple[Reading, ...] | str:
    for word in rest:
        if word.startswith("-") and word not in _TESTS and not re.fullmatch(r"-\d*", word):
            return f"the test {word}"
    return tuple(Reading(path, "names") for operator, path in pairwise(rest) if operator in _TESTED)

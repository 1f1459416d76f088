"""Read-only programs: which ones, with which options, and what they read.

Each has a list of allowed options; any other makes it an ordinary program, which needs a rule. None of them resolves
names, uses the network, writes, or runs another program.

Also checks that the script, filter or operands of a read-only program do nothing but read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from typing import Literal

from agent_cli.permissions import readonly_checks as checks
from agent_cli.permissions.git_reads import git_reads
from agent_cli.permissions.options import FileRead, Options, ParsedArguments, UnknownOptionError, read_options
from agent_cli.permissions.readonly_checks import PLAIN_GLOB, find_reads
from agent_cli.permissions.readonly_services import SERVICES, asks_service
from agent_cli.permissions.shell.words import sets_variable
from agent_tools.record import Value

_Operands = Literal["content", "names", "text", "none", "pattern"]


class _Program(Value):
    """A read-only program.

    options: the allowed ones.
    operands: their meaning.
    check: returns why the parsed arguments are not read-only; "" if they are.
    tree: it reads directories recursively.
    recursive: options with which it does.
    files: options whose value is read.
    here: it reads the working directory without operands.
    counted: an additional operand changes its meaning, so a glob, which may expand to several, is not accepted.
    """

    options: Options = Options()
    operands: _Operands = "content"
    check: Callable[[ParsedArguments], str] | None = None
    tree: bool = False
    recursive: str = ""
    files: str = ""
    here: bool = False
    counted: bool = False


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
    "inlcvwxFSsoHNIhUPpqa0u.", "ABCegtTmrMjdf",
    "ignore-case line-number files-with-matches files-without-match count count-matches invert-match word-regexp "
    "line-regexp fixed-strings smart-case case-sensitive only-matching with-filename no-filename no-line-number "
    "multiline multiline-dotall pcre2 pretty quiet text null files type-list json stats column heading no-heading trim "
    "passthru vimgrep no-messages no-config crlf one-file-system hidden unrestricted no-ignore "
    "no-ignore-vcs no-ignore-parent debug trace no-hidden",
    "after-context before-context context regexp glob iglob type type-not max-count replace max-columns max-depth "
    "maxdepth threads sort sortr color colors file max-filesize encoding engine path-separator",
)  # fmt: skip
_DIFF = Options(
    "ucrqsiwbBNyadEptTZ", "UCWxI",
    "unified? context? recursive brief no-dereference report-identical-files ignore-case ignore-all-space "
    "ignore-space-change ignore-blank-lines new-file side-by-side text minimal show-c-function expand-tabs "
    "strip-trailing-cr normal suppress-common-lines ignore-tab-expansion ignore-trailing-space "
    "left-column speed-large-files",
    "unified? context? color? width exclude ignore-matching-lines label tabsize", numbers=True,
)  # fmt: skip
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
    "rg": _Program(_RG, "pattern", tree=True, files="-f --file", here=True),
    "sed": _Program(
        Options("nErszu", "e", "quiet silent regexp-extended separate posix", "expression"), "pattern", checks.sed_check
    ),
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
        Options("cdDiuz", "fsw", "count repeated ignore-case unique", "skip-fields skip-chars"),
        check=checks.at_most(1),
        counted=True,
    ),
    "cut": _Program(
        Options("nsz", "bcdf", "complement only-delimited", "bytes characters delimiter fields output-delimiter")
    ),
    "tr": _Program(Options("cCdst", "", "complement delete squeeze-repeats truncate-set1"), "text"),
    "comm": _Program(Options("123iz", "", "check-order nocheck-order total", "output-delimiter")),
    "cmp": _Program(Options("bls", "in", "print-bytes verbose quiet silent", "bytes ignore-initial")),
    "diff": _Program(_DIFF, tree=True),
    "stat": _Program(Options("Lft", "c", "dereference file-system terse", "format printf"), "names"),
    "file": _Program(Options("bhikLN", "", "brief mime mime-type mime-encoding no-dereference")),
    "du": _Program(
        Options("abchkmsxS0", "dt", "all apparent-size bytes total human-readable summarize", "max-depth exclude"),
        "names",
        here=True,
    ),
    "df": _Program(Options("ahHiklPTB", "", "all human-readable inodes local portability print-type total"), "names"),
    "tree": _Program(
        Options("adfhspugDFnCitrJ", "LIP", "dirsfirst noreport prune gitignore", "filelimit charset", apart=True),
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
    "date": _Program(
        Options("uR", "d", "utc universal rfc-email", "date iso-8601? rfc-3339", optional="I"),
        "text",
        checks.date_check,
        counted=True,
    ),
    "uname": _Program(Options("asnrvmpio", "", "all"), "none"),
    "whoami": _Program(operands="none"),
    "id": _Program(Options("gGnruz"), "none"),
    "which": _Program(Options("a"), "text"),
    "type": _Program(Options("aftpP"), "text"),
    "awk": _Program(Options("", "Fv", "", "field-separator assign"), "pattern", checks.awk_check),
    "jq": _Program(
        Options(
            "rMCcnesSajR",
            "",
            "raw-output compact-output null-input exit-status slurp sort-keys tab join-output "
            "color-output monochrome-output raw-input ascii-output",
            "indent",
        ),
        "pattern",
        checks.jq_check,
    ),
    "od": _Program(Options("abcdfhilosxv", "AjNt")),
    "xxd": _Program(Options("bipue", "cg", apart=True), check=checks.at_most(1), counted=True),
    "column": _Program(Options("tx", "sco")),
    "paste": _Program(Options("sz", "d", "serial", "delimiters")),
    "strings": _Program(Options("a", "nt"), check=checks.no_lists_check, counted=True),
    "fold": _Program(Options("bs", "w", "bytes spaces", "width")),
    "expand": _Program(Options("i", "t", "initial", "tabs")),
    "base64": _Program(Options("di", "w", "decode ignore-garbage", "wrap")),
    "nproc": _Program(Options("", "", "all"), "none"),
    "free": _Program(Options("bkmghwt", "", "human mega giga wide total"), "none"),
    "sleep": _Program(operands="text"),
    "hostname": _Program(Options("fsIi"), "none"),
    "groups": _Program(operands="none"),
    "ps": _Program(Options("eAfFljH", "opuCU"), "text", checks.ps_check),
    "pgrep": _Program(Options("aflxvncoi", "PgsU"), "text"),
    "ss": _Program(Options("tulwxnpameois46H"), "none"),
    "lsof": _Program(Options("nPt", "is"), "none", checks.lsof_check),
    "uptime": _Program(Options("ps", "", "pretty since"), "none"),
    "hexdump": _Program(Options("bcCdovx", "ns"), "content"),
    "shasum": _Program(Options("bt", "a")),
    "getconf": _Program(Options("a"), "text"),
    "lscpu": _Program(Options("aeJpy", "", "all extended json parse"), "none"),
    "lsblk": _Program(Options("afilmnpSt", "o", "all fs list noheadings paths", "output"), "none"),
    "locale": _Program(Options("am", "", "all-locales charmaps"), "none"),
    "cal": _Program(Options("my13"), "text"),
    "who": _Program(Options("abdHlmqrstTu", "", "all boot heading count users"), "none"),
    "w": _Program(Options("hsfi"), "none"),
    "whereis": _Program(Options("bms"), "text"),
    "netstat": _Program(Options("tulnpaeirs"), "none", checks.netstat_check),
    "ip": _Program(Options("46csjo", "", "", "color?"), "text", checks.ip_check),
    "ifconfig": _Program(Options("a"), "none"),
    "printenv": _Program(operands="text", check=checks.printenv_check),
    "pip": _Program(Options("lf", "", "local files user", "format exclude"), "text", checks.pip_check),
    "md5sum": _Program(Options("bt")),
    "sha1sum": _Program(Options("bt")),
    "sha256sum": _Program(Options("bt")),
}
_PROGRAMS["pip3"] = _PROGRAMS["pip"]
# Programs that read files, even if they also do more.
READERS = frozenset((*_PROGRAMS, "find", "git"))
# Version queries that run and look up nothing. Programs that a project file can replace by another version, which is
# then downloaded or run, are not included: cargo, go, yarn, pnpm.
_VERSIONED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    **dict.fromkeys(
        "gcc g++ cc clang make cmake docker uv ruff mypy pip pip3 jq curl awk bash zsh gh black".split(),
        (("--version",),),
    ),
    **dict.fromkeys(("node", "npm", "perl", "php", "ruby"), (("--version",), ("-v",))),
    "ssh": (("-V",),),
    **dict.fromkeys(("python", "python3"), (("--version",), ("-V",))),
}
# Programs with a script among their words, of which only the text is checked.
_SCRIPTED = ("sed", "awk", "jq")
_ABOUT = (("--help",), ("--version",))
_MORE_WORDS = "a pattern, which may become more words"
_LEAVING = frozenset(("exit", "return", "break", "continue"))
BUILTINS = _LEAVING | {"echo", "printf", "test", "[", "true", "false", ":", "pwd", "cd", "type", "command", "set"}
_STRICTER = re.compile(r"[-+][eux]*o?|pipefail|errexit|nounset|xtrace")
_TESTS = frozenset(
    "! -a -o -e -f -d -r -w -x -s -L -h -p -S -b -c -g -u -k -O -G -N -z -n -t = == != < > -nt -ot -ef "
    "-eq -ne -lt -le -gt -ge".split()
)
_TESTED = frozenset("-e -f -d -r -w -x -s -L -h -p -S -b -c -g -u -k -O -G -N".split())


def reads_of(words: tuple[str, ...], patterns: Collection[str] = ()) -> tuple[FileRead, ...] | str:
    """Return what a command of literal words reads if it only reads, otherwise why not.

    patterns: words that are globs, each of which may expand to any number of file names.
    """
    found = _parse_reads(words[0], words[1:], patterns)
    if isinstance(found, str):
        return found
    # Wherever a glob is, all but the first of its matches are operands.
    program = _PROGRAMS.get(words[0])
    what: Literal["names", "content", "tree", "listing"] = "listing"
    if program is not None and program.operands == "names":
        what = "names"
    elif words[0] == "git" or (program is not None and program.operands in ("content", "pattern")):
        what = "tree" if any(r.what == "tree" for r in found) else "content"
    known = {r.path for r in found}
    return (*found, *(FileRead(p, what) for p in words[1:] if p in patterns and p not in known))


def _parse_reads(name: str, rest: tuple[str, ...], patterns: Collection[str]) -> tuple[FileRead, ...] | str:
    if name == "echo":
        return ()
    if name == "printf" and any(w in patterns for w in rest[: 2 if rest[:1] == ("--",) else 1]):
        return "printf with a format that is not known"
    if name == "printf":
        if rest[:1] and rest[0].startswith("-") and rest[0] != "--":
            return "printf with an option"
        return "printf, which sets a variable" if sets_variable(rest) else ()
    if name in ("test", "["):
        return _parse_test(rest[:-1] if name == "[" and rest[-1:] == ("]",) else rest)
    if name == "command":
        return () if rest[:1] in (("-v",), ("-V",)) else "command with options"
    if name == "set":
        return () if rest and all(_STRICTER.fullmatch(w) for w in rest) else "set"
    if name in _LEAVING:
        return () if re.fullmatch(r"\d*", "".join(rest)) and len(rest) < 2 else name
    if name == "expr":
        return ()
    if name == "find":
        return find_reads(rest, patterns, reads_of)
    if name == "git":
        found = git_reads(rest, patterns)
        return found if isinstance(found, str) else tuple(FileRead(p) for p in found)
    if (name in _VERSIONED and rest in _VERSIONED[name]) or (name in _PROGRAMS and rest in _ABOUT):
        return ()
    if name in SERVICES:
        return _MORE_WORDS if any(w in patterns for w in rest) else asks_service(name, rest) or ()
    if name not in _PROGRAMS:
        return "not known to be read-only"
    program = _PROGRAMS[name]
    if any(w in patterns for w in rest) and (
        program.counted or (program.check and program.operands in ("text", "none"))
    ):
        return _MORE_WORDS
    return _parse_listed(name, rest, patterns)


def _parse_listed(name: str, rest: tuple[str, ...], patterns: Collection[str]) -> tuple[FileRead, ...] | str:
    program = _PROGRAMS[name]
    words = rest
    rest, given_files = checks.jq_words(rest) if name == "jq" else (rest, ())
    try:
        read = read_options(rest, program.options)
    except UnknownOptionError as error:
        return f"the option {error}"
    if program.check is not None and (why := program.check(read)):
        return why
    if program.operands == "none" and read.operands:
        return "an operand"
    if name in _SCRIPTED and checks.may_be_script(words, read, patterns):
        return "a pattern that may stand for a script"
    names = [option for option, _ in read.options]
    paths = list(read.operands) if program.operands in ("content", "names", "pattern") else []
    given = {"-e", "--regexp", "-f", "--file", "--expression", "--files", "--type-list"}
    if program.operands == "pattern" and not given & set(names):
        paths = paths[1:]
    found = [FileRead(value) for option, value in read.options if option in program.files.split()]
    found += map(FileRead, given_files)
    asked = bool(set(names) & set(program.recursive.split()))
    if not paths and (asked or program.here):
        paths = ["."]
    hidden = _hidden(read) if name == "rg" else "all"
    what: Literal["names", "content", "tree"] = (
        "tree" if asked or program.tree else "names" if program.operands == "names" else "content"
    )
    narrow = _search_filters(name, read) if what == "tree" and name != "diff" else ((), (), ())
    follows = name == "diff" and "--no-dereference" not in names
    return (*found, *(FileRead(path, what, hidden, *narrow, follows) for path in paths if path != "-"))


# Files of the types that rg is often given.
_TYPES = {
    "py": "*.py *.pyi", "js": "*.js *.jsx *.vue *.cjs *.mjs", "ts": "*.ts *.tsx *.cts *.mts", "go": "*.go",
    "rust": "*.rs", "css": "*.css *.scss", "yaml": "*.yaml *.yml", "html": "*.htm *.html *.ejs",
    "md": "*.markdown *.md *.mdown *.mdwn *.mkd *.mkdn *.mdx",
}  # fmt: skip


def _search_filters(name: str, read: ParsedArguments) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the names that a search is restricted to, the names it skips, and the directories it does not enter.

    Only plain patterns are used, and only if no two options conflict; otherwise everything counts as read.
    """
    only: list[str] = []
    without: list[str] = []
    closed: list[str] = []
    for option, value in read.options:
        bare = re.sub(r"^(?:\*\*/)?", "", value.removeprefix("!")) if name == "rg" else value
        if option in ("--include", "-g", "--glob", "--exclude", "--exclude-dir") and not PLAIN_GLOB.fullmatch(bare):
            return (), (), ()
        if option == "--include" or (option in ("-g", "--glob") and not value.startswith("!")):
            only.append(bare)
        elif option in ("--exclude", "-g", "--glob"):
            without.append(bare)
        elif option == "--exclude-dir":
            closed.append(bare)
        elif option in ("-t", "--type") and value in _TYPES:
            only += _TYPES[value].split()
        elif option in ("-t", "--type", "-T", "--type-not", "--iglob"):
            return (), (), ()
    if only and without:
        return (), (), tuple(closed)
    return tuple(only), tuple(without), (*closed, *(without if name == "rg" else ()))


def _hidden(read: ParsedArguments) -> Literal["all", "typed", "none"]:
    """Return which hidden files rg reads: those that a glob, or the globs of a type, include."""
    if any(name in ("-g", "--glob", "--iglob") and not value.startswith("!") for name, value in read.options):
        return "all"
    if any(name in ("-u", "-.", "--hidden", "--unrestricted") for name, _ in read.options):
        return "all"
    return "typed" if any(name in ("-t", "--type") for name, _ in read.options) else "none"


def _parse_test(rest: tuple[str, ...]) -> tuple[FileRead, ...] | str:
    for word in rest:
        if word.startswith("-") and word not in _TESTS and not re.fullmatch(r"-\d*", word):
            return f"the test {word}"
    return tuple(FileRead(path, "names") for operator, path in pairwise(rest) if operator in _TESTED)

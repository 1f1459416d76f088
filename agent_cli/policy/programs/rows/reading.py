"""Programs that show files, text and the state of the machine, and change nothing with the options listed here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from agent_cli.policy.programs.arguments import Arguments
from agent_cli.policy.programs.effects import Touch
from agent_cli.policy.programs.find import COMPARED, FindCall, read_find
from agent_cli.policy.programs.row import PROCESSES, SERVICE, Row, expand_rows, reading_row
from agent_cli.policy.shell.words import Word
from agent_tools.lazy import lazy_pattern

# Variables that say where something is, and no more.
PUBLIC_VARIABLES = lazy_pattern(r"PATH|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|LANG|LC_[A-Z]+|TERM|TZ|EDITOR|VIRTUAL_ENV|CI")
# What a filter of jq, or an expression of yq, reads besides its files.
_JQ_READS = lazy_pattern(r"\b(?:import|include|modulemeta|env|ENV|input_filename)\b")
_YQ_READS = lazy_pattern(r"\b(?:strenv|envsubst|load\w*|eval|system)\b")
# Options that say what to look for, so that all operands are files.
GIVE_PATTERN = ("-e", "--regexp", "-f", "--file", "--expression", "--files", "--type-list")


def _at_most(most: int) -> Callable[[Arguments], str]:
    return lambda found: "" if len(found.operands) <= most else "an output file"


def _check_date(found: Arguments) -> str:
    return "" if all(text.startswith("+") for text in found.texts) else "setting the date"


def _check_strings(found: Arguments) -> str:
    return "a list of options" if any(text.startswith("@") for text in found.texts) else ""


def _check_ps(found: Arguments) -> str:
    """Allow lists of processes with their arguments, but not with their environment.

    After an unknown user name ps reads all its words again as BSD options, where `e` means the environment.
    """
    users = [value.text for value in found.values("-u", "-U")]
    if not all(re.fullmatch(r"(?:\d+|root)(?:,(?:\d+|root))*", user) for user in users):
        return "ps of a user by name"
    odd = any(not re.fullmatch(r"[auxwf]{1,6}", text) for text in found.texts)
    return "ps with other words than aux" if odd or any("env" in o.value.text for o in found.options) else ""


def _check_lsof(found: Arguments) -> str:
    """Allow the list of a machine's own ports. Without -n, and for a host, names are resolved."""
    values = [value.text for value in found.values("-i")]
    own = all(re.fullmatch(r"[46]?(?:TCP|UDP|tcp|udp)?(?::[\d,-]+)?", value) for value in values)
    return "" if values and own and found.has("-n") else "lsof that may resolve names"


def _check_netstat(found: Arguments) -> str:
    """Without -n names are resolved."""
    return "" if found.has("-n") else "netstat that resolves names"


def _check_ip(found: Arguments) -> str:
    """Allow what shows the machine's own addresses, links and routes."""
    what = "".join(found.texts[:1])
    known = re.fullmatch(r"a(?:ddr(?:ess)?)?|l(?:ink)?|r(?:oute)?|n(?:eigh)?", what)
    return "" if known and found.texts[1:] in ((), ("show",), ("list",)) else "ip with other words than show"


def _check_printenv(found: Arguments) -> str:
    """Allow variables that hold no secrets; without a name all are printed."""
    return "" if found.operands and all(map(PUBLIC_VARIABLES.fullmatch, found.texts)) else "printenv of any variable"


def _search(recursive: str) -> Callable[[Arguments], Iterator[Touch]]:
    """Return the effects of a search. recursive: options with which it looks into directories; "" if it always does."""

    def effects(found: Arguments) -> Iterator[Touch]:
        # A glob in place of the pattern may become several words, of which the others are files.
        given = found.has(*GIVE_PATTERN) or any(w.pattern for w in found.operands[:1])
        operands = list(found.operands if given else found.operands[1:])
        deep = not recursive or found.has(*recursive.split())
        yield from (Touch("tree" if deep else "read", w) for w in operands or ([Word(".")] if deep else []))

    return effects


def _jq(found: Arguments) -> Iterator[Touch]:
    queue, operands, named = list(found.given), [], False
    while queue:
        word = queue.pop(0)
        text = word.text
        if text in ("--arg", "--argjson", "--slurpfile", "--rawfile", "--argfile"):
            yield from (Touch("read", w) for w in queue[1:2] if text.endswith("file"))
            queue[:2] = []
        elif text in ("--args", "--jsonargs"):
            break
        elif re.fullmatch(r"-\w*[fL]|--from-file|--library-path", text):
            named = named or "f" in text
            yield from (Touch("read", w) for w in queue[:1])
            queue[:1] = []
        elif text == "--indent":
            queue[:1] = []
        elif not text.startswith("-") or text == "-":
            operands.append(word)
    yield from (Touch("read", w) for w in operands[0 if named else 1 :])


def _jq_words(words: Sequence[Word]) -> list[Word]:
    """Return the words of jq with a file in place of each pair of a variable's name and its file."""
    queue, kept = list(words), []
    while queue:
        word = queue.pop(0)
        if word.text in ("--arg", "--argjson", "--slurpfile", "--rawfile") and len(queue) > 1:
            kept += [Word("--rawfile"), queue[1]] if word.text.endswith("file") else []
            del queue[:2]
        else:
            kept.append(word)
    return kept


def _check_jq(found: Arguments) -> str:
    named = _JQ_READS.search("".join(found.texts[:1]))
    return f"the filter's {named[0]}" if named else ""


def _check_yq(found: Arguments) -> str:
    """There are two programs of this name. One takes jq's filters, the other a subcommand first, or a file alone."""
    at = 1 if found.texts[:1] in (("e",), ("eval",), ("ea",), ("eval-all",)) else 0
    given = found.given[: found.given.index(found.operands[at]) + 1] if len(found.operands) > at else found.given
    if any(word.pattern for word in given):
        return "a pattern that may stand for an expression"
    expression = "".join(found.texts[at : at + 1])
    named = _JQ_READS.search(expression) or _YQ_READS.search(expression)
    return f"the expression's {named[0]}" if named else ""


def _yq(found: Arguments) -> Iterator[Touch]:
    for word in found.operands[1:]:
        yield Touch("read", word)
        if found.has("-i", "--inplace", "--in-place"):
            yield Touch("write", word)


_HEAD = reading_row("content", "qvz", "nc", "quiet silent verbose zero-terminated", "lines bytes", numbers=True)
_RECURSIVE = "-r -R --recursive --dereference-recursive"
_GREP = reading_row(
    "pattern", "EFGPiyvwxcLlqsnHhbaIzTUor", "emABC",
    "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match word-regexp "
    "line-regexp count files-without-match files-with-matches quiet silent no-messages line-number with-filename "
    "no-filename byte-offset text null-data null initial-tab binary only-matching recursive line-buffered",
    "regexp max-count after-context before-context context color? colour? label include exclude exclude-dir "
    "binary-files", numbers=True, read="-f --file", tree="-r --recursive", links="-R --dereference-recursive",
    helpers="grep",  # egrep and fgrep are scripts
    effects=_search(f"{_RECURSIVE} -d --directories"),
)  # fmt: skip
_SUM = reading_row("content", "btz", "", "binary text tag zero")


def _find(call: FindCall) -> Iterator[Touch]:
    for term in call.terms:
        if term.kind == "delete":
            yield Touch("run", Word(term.name))
            yield from (Touch("remove", w, follows=call.follows, selective=call.narrow) for w in call.starts)
        elif term.kind == "file":
            yield from (Touch("write", w, replaces=True) for w in term.values[:1])
        elif term.kind == "run":
            yield from (Touch("tree", w) for w in call.starts)
    # Also options that are not among the terms.
    for word, value in pairwise(call.words):
        if word.text in ("-files0-from", "-samefile", *COMPARED):
            yield Touch("read", value)


READING_ROWS = expand_rows({
    "find": Row("", shows="text", syntax=read_find, effects=_find, own=True),
    "ls": reading_row(
        "names", "aAbBcCdfFgGhHiIklLmnNopqQrRsStTuUvwxXZ1", "",
        "all almost-all author escape directory classify file-type full-time human-readable si dereference inode "
        "numeric-uid-gid literal no-group quote-name reverse recursive size group-directories-first",
        "color? block-size format sort time time-style indicator-style hide ignore hyperlink? width tabsize", here=True,
    ),
    "cat": reading_row("content", "AbeEnstTuv", "",
        "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting"),
    "head tail": _HEAD,
    "nl": reading_row("content", "p", "bdfhilnsvw", "", "body-numbering number-width number-format number-separator"),
    "tac": reading_row("content", "br", "s", "before regex", "separator"),
    "rev": reading_row(),
    "wc": reading_row("content", "clmLw", "", "bytes chars lines words max-line-length", "total"),
    "grep egrep fgrep": _GREP,
    "rg": reading_row(
        "pattern", "inlcvwxFSsoHNIhUPpqa0u.", "ABCegtTmrMjd",
        "ignore-case line-number files-with-matches files-without-match count count-matches invert-match word-regexp "
        "line-regexp fixed-strings smart-case case-sensitive only-matching with-filename no-filename no-line-number "
        "multiline multiline-dotall pcre2 pretty quiet text null files type-list json stats column heading no-heading "
        "trim passthru vimgrep line-buffered block-buffered binary include-zero no-messages no-config crlf "
        "one-file-system hidden unrestricted no-ignore no-ignore-vcs no-ignore-parent debug trace no-hidden",
        "after-context before-context context regexp glob iglob type type-not max-count replace max-columns max-depth "
        "maxdepth threads sort sortr color colors max-filesize encoding engine path-separator pre-glob",
        read="-f --file", steer="--ignore-file", starts="--pre --hostname-bin", tree="*", here=True,
        links="-L --follow", effects=_search(""),
    ),
    "ag": reading_row(
        "pattern", "iIclLnsvwQaHorRfuU0", "ABCmG",
        "ignore-case case-sensitive smart-case count files-with-matches files-without-matches filename nofilename "
        "literal fixed-strings hidden invert-match word-regexp only-matching nocolor color nogroup group column "
        "numbers nonumbers print0 python js go rust java ruby html css markdown shell no-recurse",
        "after before context depth ignore ignore-dir file-search-regex max-count type", tree="*", here=True,
        steer="-p --path-to-ignore", starts="--pager", helpers="git", effects=_search(""),
    ),
    "fd fdfind": reading_row(
        "names", "HIusigFalLp01", "dteEoSc",
        "hidden no-ignore no-ignore-vcs unrestricted case-sensitive ignore-case glob regex fixed-strings absolute-path "
        "list-details follow full-path print0 show-errors quiet no-ignore-parent prune strip-cwd-prefix",
        "max-depth min-depth exact-depth type extension exclude size changed-within changed-before owner format color "
        "threads max-results path-separator", steer="--ignore-file --base-directory -C",
        starts="-x --exec -X --exec-batch", here=True,
    ),
    "sort": reading_row(
        "content", "bdfghiMnRrVcCmsuz", "ktS",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort month-sort "
        "numeric-sort reverse version-sort check merge stable unique zero-terminated debug",
        "key field-separator sort parallel buffer-size batch-size check?", write="-o --output -T --temporary-directory",
        steer="--files0-from --random-source", starts="--compress-program",
    ),
    "uniq": Row("second", shows="content", flags="-c -d -D -i -u -z --count --repeated --ignore-case --unique "
        "--zero-terminated", value="-f -s -w --skip-fields --skip-chars --check-chars --all-repeated? "
        "--group?", check=_at_most(1), counted=True),
    "cut": reading_row("content", "nsz", "bcdf", "complement only-delimited zero-terminated",
        "bytes characters delimiter fields output-delimiter"),
    "tr": reading_row("text", "cCdst", "", "complement delete squeeze-repeats truncate-set1"),
    "comm": reading_row("content", "123iz", "", "check-order nocheck-order total", "output-delimiter"),
    "join": reading_row("content", "iz", "aevjt12o", "check-order nocheck-order header zero-terminated ignore-case"),
    "cmp": reading_row("content", "bls", "in", "print-bytes verbose quiet silent", "bytes ignore-initial"),
    "diff": reading_row(
        "content", "ucrqsiwbBNyadEptTZ", "UCWxIF",
        "unified? context? recursive brief no-dereference report-identical-files ignore-case ignore-all-space "
        "ignore-space-change ignore-blank-lines new-file side-by-side text minimal show-c-function expand-tabs "
        "strip-trailing-cr normal suppress-common-lines ignore-tab-expansion ignore-trailing-space left-column "
        "speed-large-files",
        "unified? context? color? width exclude ignore-matching-lines show-function-line label tabsize "
        "palette", numbers=True, tree="*", read="--from-file --to-file -X --exclude-from",
    ),
    "jq": reading_row("pattern", "rMCcnesSajR", "",
        "raw-output compact-output null-input exit-status slurp sort-keys tab join-output color-output "
        "monochrome-output raw-input ascii-output seq stream raw-output0 unbuffered", "indent", read="--rawfile",
        steer="-f --from-file -L", prepare=_jq_words, own=True, effects=_jq, check=_check_jq, versions="--version"),
    "yq": reading_row("content", "rcCMnPNMjyYe", "Ipo",
        "prettyPrint no-colors colors null-input unwrapScalar exit-status no-doc yaml-output",
        "indent output-format input-format", act="-i --inplace --in-place", write="-s --split-exp", steer="--from-file",
        check=_check_yq, effects=_yq, versions="--version", helpers="jq"),
    "stat": reading_row("names", "Lft", "c", "dereference file-system terse", "format printf cached"),
    "file": reading_row("content", "bhikLN0", "F", "brief mime mime-type mime-encoding no-dereference", steer="-m -f"),
    "du": reading_row("names", "abchklmPsxS0", "dtB", "all inodes apparent-size bytes total human-readable summarize",
        "max-depth exclude threshold block-size time? time-style", steer="--files0-from -X --exclude-from", here=True),
    "df": reading_row("names", "ahHiklPT", "Btx", "all human-readable inodes local portability print-type total",
        "type exclude-type block-size output?"),
    "tree": reading_row("names", "adfhspugDFnCitrJxXUvQNAS", "LIPHT",
        "dirsfirst filesfirst noreport prune gitignore du si inodes ignore-case matchdirs metafirst",
        "filelimit charset sort timefmt", apart=True, here=True, write="-o"),
    "pwd": reading_row("none", "LP"),
    "true false :": reading_row("text"),
    "seq": reading_row("text", "w", "sf", "equal-width", "separator format"),
    "basename": reading_row("text", "az", "s", "multiple zero", "suffix"),
    "dirname": reading_row("text", "z", "", "zero"),
    "realpath": reading_row("names", "eLmPqsz", "",
        "canonicalize-existing canonicalize-missing logical physical quiet strip no-symlinks zero",
        "relative-to relative-base"),
    "readlink": reading_row("names", "femnqsvz", "",
        "canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose zero"),
    "date": reading_row("text", "uR", "d", "utc universal rfc-email", "date iso-8601? rfc-3339", optional="I",
        check=_check_date, counted=True, read="-f --file", value="-r --reference", act="-s --set"),
    "uname": reading_row("none", "asnrvmpio", "", "all"),
    "whoami groups": reading_row("none"),
    "id": reading_row("none", "gGnruz"),
    "which": reading_row("text", "a"),
    "type": reading_row("text", "aftpP"),
    "od": reading_row("content", "abcdfhilosxv", "AjNtS", "output-duplicates",
        "format address-radix skip-bytes read-bytes width?", optional="w"),
    "xxd": Row("second", shows="content", flags="-b -i -p -ps -u -e -a -C -E -r", value="-c -g -l -s", other="-o",
        single=True, check=_at_most(1), counted=True),
    "column": reading_row("content", "tex", "scoNRH", "table", "separator columns output-separator table-columns "
        "table-right table-hide"),
    "paste": reading_row("content", "sz", "d", "serial", "delimiters"),
    "strings": reading_row("content", "afw", "nte", "all print-file-name", "bytes radix encoding",
        check=_check_strings, counted=True),
    # Of binaries; not -l or -w, with which they read the files that a binary names.
    "nm": reading_row("content", "aABCDegjnopPrSsuUW", "ft",
        "demangle? extern-only dynamic undefined-only defined-only numeric-sort print-size "
        "size-sort no-sort", "format radix", check=_check_strings, counted=True),
    "size": reading_row("content", "ABGodxt", "", "totals common", "format radix", check=_check_strings, counted=True),
    "readelf": reading_row("content", "ahlSgtesnrdVAIWC", "xp",
        "all file-header segments sections symbols syms dyn-syms notes relocs dynamic wide",
        "hex-dump string-dump", check=_check_strings, counted=True),
    "fold": reading_row("content", "bs", "w", "bytes spaces", "width"),
    "fmt": reading_row("content", "cstu", "w", "crown-margin split-only uniform-spacing", "width", numbers=True),
    "expand unexpand": reading_row("content", "ia", "t", "initial all", "tabs"),
    "base64 base32": reading_row("content", "di", "w", "decode ignore-garbage", "wrap"),
    "iconv": Row("read", write="-o --output", value="-f -t --from-code --to-code"),
    "nproc": reading_row("none", "", "", "all"),
    "free": reading_row("none", "bkmghwt", "", "human mega giga wide total"),
    "sleep": reading_row("text"),
    "hostname": reading_row("none", "fsIi"),
    "ps": reading_row("text", "eAfFljH", "opuCU", "forest no-headers headers", "sort ppid pid cols",
        check=_check_ps, outside=PROCESSES),
    "pgrep": reading_row("text", "aflxvncoi", "PgsU", outside=PROCESSES),
    "ss": reading_row("none", "tulwxnpameois46H", outside=PROCESSES),
    "lsof": reading_row("none", "nPt", "is", check=_check_lsof, outside=PROCESSES),
    "netstat": reading_row("none", "tulnpaeirs", check=_check_netstat, outside=PROCESSES),
    "top htop": Row(outside=PROCESSES),
    "fuser": Row(act="-k --kill", outside=PROCESSES),
    "uptime": reading_row("none", "ps", "", "pretty since"),
    "hexdump hd": reading_row("content", "bcCdovx", "nse", steer="-f"),
    "getconf": reading_row("text", "a"),
    "lscpu": reading_row("none", "aeJpy", "", "all extended json parse"),
    "lsblk": reading_row("none", "afilmnpSt", "o", "all fs list noheadings paths", "output"),
    "locale": reading_row("none", "am", "", "all-locales charmaps"),
    "cal": reading_row("text", "my13"),
    "who": reading_row("none", "abdHlmqrstTu", "", "all boot heading count users"),
    "w": reading_row("none", "hsfi"),
    "whereis": reading_row("text", "bms"),
    "ip": reading_row("text", "46csjo", "", "", "color?", flags="-br -brief", check=_check_ip),
    "ifconfig": reading_row("none", "a"),
    "printenv": reading_row("text", check=_check_printenv),
    "shasum": reading_row("content", "bt", "a"),
    "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum": _SUM,
    "xmllint": reading_row("content", "", "", "noout format nonet recover huge html noblanks nowarning",
        "xpath encoding", write="--output -o", steer="--schema --dtdvalid --relaxng --catalogs"),
    "shellcheck hadolint yamllint": reading_row("content", "aC", "sefSd", "norc strict no-color",
        "shell exclude format severity color? enable", steer="--rcfile -c --config", act="-x --external-sources"),
    "cloc tokei scc": reading_row("content", "", "", "quiet", "exclude-dir include-lang", tree="*", here=True),
    "journalctl": Row(flags="-f -e -x -r -k -b -a -q --no-pager --list-boots --follow --utc",
        value="-n -u -p -o -S -U -g -t --lines --unit --priority --output --since --until", read="--file",
        into="-D --directory", act="--vacuum-size --vacuum-time --vacuum-files --rotate --flush --sync",
            outside=SERVICE),
    # Pagers write logs and run editors at a key; a plus begins a command.
    "less more": Row(write="-o -O --log-file --LOG-FILE", run="-k --lesskey-file -T --tag-file --lesskey-src",
        value="-p -P -x -b -h -y -j -z --pattern --tabs --window --shift",
        flags="-N -n -S -R -r -F -X -i -I -M -m -s -g -G -e -E -q -Q -c -C -f -a -A -w -W -L -u -U -V -J -K -B -~ -d "
        "--LINE-NUMBERS --line-numbers --chop-long-lines --RAW-CONTROL-CHARS --quit-if-one-screen --no-init "
        "--ignore-case --IGNORE-CASE --squeeze-blank-lines --quit-at-eof --version --help --no-lessopen",
        effects=lambda found: (
            Touch("run", w, starts=True) if w.text.startswith("+") else Touch("read", w) for w in found.operands
        )),
    "man": Row(starts="-P --pager -H --html -C --config-file -M --manpath -l --local-file -E --preprocessor -p",
        value="-s -S --sections -e --extension -m --systems -L --locale",
        flags="-k -K -f -a -w -W -i -I -u -c -d -D -V -7 --all --apropos --whatis --where --path --location --regex "
        "--ignore-case --match-case --wildcard --names-only --global-apropos --version --help --usage",
        effects=lambda found: (Touch("read", w) for w in found.operands if "/" in w.text)),
})  # fmt: skip
# A search for what is in files, as `git ls-files | xargs` and `find -exec` may run for what they list.
SHOWING = frozenset(
    "cat head tail nl wc grep egrep fgrep sed cut sort stat file ls md5sum sha1sum sha256sum basename dirname du "
    "realpath od strings tac echo".split()
)

"""sed and awk: whether a script only edits, computes and prints what passes through, and what else they touch.

In awk, strings, comments and regular expressions are taken out first, as they may contain `|` and `>`. Where versions
of awk may disagree about where one ends, the script counts as one that does more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent_cli.policy.programs.arguments import Arguments
from agent_cli.policy.programs.effects import Touch
from agent_cli.policy.programs.row import expand_rows, reading_row
from agent_cli.policy.shell.words import Word
from agent_tools.lazy import lazy_pattern


def _sed_regex(end: str) -> str:
    """Return a pattern for a regular expression of sed, up to its delimiter `end`, which is itself a pattern.

    A delimiter in brackets ends it for some versions of sed and not for others, so it is not matched.
    """
    inside = rf"(?!{end})(?:(?!\[{end})\[:[a-z]+:\]|\[(?![:.=])|[^\[\]\\\n]|\\(?!{end})[^\]\n])"
    brackets = rf"\[(?:\^?\]{inside}*|(?!\^?\]){inside}+)\]"
    return rf"(?:{brackets}|(?!{end})[^\[\\\n]|\\[^\n])*"


_SED_ADDRESS = rf"(?:\d+|\$|/{_sed_regex('/')}/I?)"
_SHORT_SED = lazy_pattern(
    rf"{_SED_ADDRESS}?(?:,\s*(?:\+\d+|{_SED_ADDRESS}))?\s*!?\s*"
    rf"(?:[pdDgGhHxnNqQ=lF]|:[ ]*[A-Za-z]\w*|[btT](?:[ ]*[A-Za-z]\w*)?|s(?P<s>[/|#,@:;!%_]){_sed_regex('(?P=s)')}(?P=s)"
    r"(?:(?!(?P=s))[^\\\n]|\\.)*(?P=s)[gpiIM0-9]*"
    r"|y(?P<y>[/|#,@])(?:(?!(?P=y))[^\\\n]|\\.)*(?P=y)(?:(?!(?P=y))[^\\\n]|\\.)*(?P=y)|[aic]\\?\s?[^\n]*)?[ \t]*"
)


def only_edits(script: str) -> bool:
    """Return True if a sed script only edits: no `w`, `r` or `e`, as a command or flag of `s`."""
    at = 0
    while at < len(script):
        if script[at] in "; \t\n":
            at += 1
            continue
        match = _SHORT_SED.match(script, at)
        if match is None or (match.end() < len(script) and script[match.end()] not in ";\n}{"):
            return False
        at = match.end() + 1
    return True


_AWK_ACTIONS = lazy_pattern(r"\bsystem\b|\bgetline\b|@|\bclose\s*\(|\bfflush\b|\bARG[VC]\b|\bPROCINFO\b|\bSYMTAB\b")
_AWK_TOKEN = lazy_pattern(
    r"""(?P<blank>[ \t]+|\#[^\n]*)
      | (?P<text>"(?:[^"\\\n]|\\[^\n])*")
      | (?P<name>[A-Za-z_]\w*)
      | (?P<number>\d[\w.]*|\.\d\w*)
      | (?P<double>\|\||&&|>=|<=|==|!=|\+\+|--|[-+*%^]=)
      | (?P<sign>[-+*%^!<>=~?:,;(){}\[\]$|&\n/])""",
    re.VERBOSE,
)
# Without brackets, in which a slash ends the expression for some versions only.
_AWK_REGEX = lazy_pattern(r"/(?:[^/\\\n\[]|\\[^\n]|\[\^?[^\]/\\\n\[]+\])*/")
_BEFORE_REGEX = frozenset(("", "(", ",", "{", "}", ";", "\n", "!", "~", "&&", "||", "==", "!=", "?", ":", "=", "$"))
_NAMES_BEFORE_REGEX = frozenset(("print", "printf", "return", "in", "else", "do", "case"))


def awk_acts(script: str) -> bool:
    """Return True if an awk script may write, run, or read something other than its operands."""
    if _AWK_ACTIONS.search(script):
        return True
    if "|" not in script and not re.search(r"print.*>", script, re.DOTALL):
        return False
    tokens = _tokens(script)
    return tokens is None or _redirects(tokens)


def _tokens(script: str) -> list[str] | None:
    """Return the tokens of a script, with a quote for each string and regular expression; None if it is not clear."""
    found: list[str] = []
    at = 0
    while at < len(script):
        last = found[-1] if found else ""
        if script[at] == "/":
            if last in _BEFORE_REGEX or last in _NAMES_BEFORE_REGEX:
                match = _AWK_REGEX.match(script, at)
                token = '"'
            elif re.fullmatch(r"\w+|\]", last) and last != "length":
                match, token = _AWK_TOKEN.match(script, at), "/"  # a division
            else:
                return None
        else:
            match = _AWK_TOKEN.match(script, at)
            token = match[0] if match is not None and not match["text"] else '"'
        if match is None:
            return None
        at = match.end()
        if not match.re.groups or not match["blank"]:
            found.append(token)
    return found


def _redirects(tokens: list[str]) -> bool:
    """Return True if there is a pipe, or a `>` of a print statement outside of its parentheses."""
    depth = 0
    printing: int | None = None
    for token in tokens:
        if token == "|":
            return True
        if token in ("(", "["):
            depth += 1
        elif token in (")", "]"):
            depth -= 1
        elif token == "{" and printing is not None:
            return True  # not in a script that is valid
        elif token in (";", "}") and printing is not None and depth <= printing:
            printing = None
        elif token in ("print", "printf"):
            printing = depth
        elif token == ">" and printing is not None and depth <= printing:
            return True
    return False


# Of scripts that do more than edit or print, those in which a file may be read: `r` and `e` of sed, getline of awk.
_SED_READS = lazy_pattern(r"[rRe]|-f")
_AWK_READS = lazy_pattern(r"\||@|\b(?:getline|system|ARG[VC]|SYMTAB|PROCINFO)\b")


def _sed(found: Arguments) -> Iterator[Touch]:
    suffixes = found.values("-i", "--in-place")
    if any(re.search(r"[/*]", suffix.text) for suffix in suffixes):
        yield Touch("run", Word("-i"))  # the suffix decides where the backup goes
    operands = list(found.operands)
    scripts = found.values("-e", "--expression")
    if found.has("-f", "--file"):
        yield Touch("run", Word("-f"), starts=True, opens=True)
    elif not scripts and operands:
        scripts = [operands.pop(0)]
    for script in scripts:
        if not only_edits(script.text) or script.pattern:
            yield Touch("run", script, starts=True, opens=_SED_READS.search(script.text) is not None)
            yield Touch("into", Word("."))
    for word in operands:
        yield Touch("read", word)
        if suffixes:
            yield Touch("write", word)


def _check_sed(found: Arguments) -> str:
    scripts = [value.text for value in found.values("-e", "--expression")] or list(found.texts[:1])
    return "" if scripts and all(only_edits(script) for script in scripts) else "a sed script"


def _awk(found: Arguments) -> Iterator[Touch]:
    operands = list(found.operands)
    if any("inplace" in option.value.text for option in found.options):
        yield from (Touch("write", w) for w in operands)
    scripts = found.values("-e", "--source")
    if operands and not scripts and not any(option.role == "run" for option in found.options):
        scripts = [operands.pop(0)]
    for script in scripts:
        if awk_acts(script.text) or script.pattern or any(option.value.pattern for option in found.options):
            yield Touch("run", script, starts=True, opens=_AWK_READS.search(script.text) is not None)
            yield Touch("into", Word("."))
    yield from (Touch("read", w) for w in operands if "=" not in w.text)


def _check_awk(found: Arguments) -> str:
    scripts = [*found.texts[:1], *(value.text for value in found.values("-e", "--source"))]
    acts = any(awk_acts(script) or "ENVIRON" in script for script in scripts)
    return "an awk script" if acts or found.has("-e", "--source") else ""


SCRIPT_ROWS = expand_rows({
    "sed gsed": reading_row("pattern", "nErszu", "l", "quiet silent regexp-extended separate posix",
        "expression line-length", value="-e", act="-i? --in-place?", steer="-f --file", own=True, effects=_sed,
        check=_check_sed, interprets=True),
    "awk gawk mawk nawk": reading_row("pattern", "", "Fv", "", "field-separator assign", value="-e --source",
        starts="-f --file -i --include -l --load -E --exec -o -p -d -D -W --dump-variables --profile --pretty-print "
        "--debug", effects=_awk, check=_check_awk, versions="--version", interprets=True),
})  # fmt: skip

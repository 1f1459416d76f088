"""What a command reads if it only reads, by its row; otherwise why it may do more.

Any option that is not listed as harmless makes a program an ordinary one, which needs a rule. None of these resolves
names, uses the network, writes, or runs another program.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from agent_cli.policy.programs import git_reads
from agent_cli.policy.programs.arguments import Arguments
from agent_cli.policy.programs.effects import FileRead
from agent_cli.policy.programs.find import COMPARED, PLAIN_GLOB, FindTerm, read_find
from agent_cli.policy.programs.git import split_git
from agent_cli.policy.programs.parsing import parse_words
from agent_cli.policy.programs.row import Row
from agent_cli.policy.programs.rows.network import PLAIN_OPERAND
from agent_cli.policy.programs.rows.reading import GIVE_PATTERN, SHOWING
from agent_cli.policy.programs.table import ROWS
from agent_cli.policy.shell.words import STRICTER, TESTS_OF_FILES, Word, sets_variable

Reads = tuple[FileRead, ...] | str
_ABOUT = (("--help",), ("--version",))
_MORE_WORDS = "a pattern, which may become more words"
_LEAVING = frozenset(("exit", "return", "break", "continue"))
BUILTINS = _LEAVING | {"echo", "printf", "test", "[", "true", "false", ":", "pwd", "cd", "type", "command", "set"}
_TESTS = TESTS_OF_FILES | set("! -a -o -z -n -t = == != < > -nt -ot -ef -eq -ne -lt -le -gt -ge".split())
# Stands for the files that are found.
FOUND = "./found"


def is_reader(name: str) -> bool:
    """Return True if a program is known to read files, even if it also does more."""
    return name in ROWS and ROWS[name].reads_only


def asks_service(name: str) -> bool:
    """Return True if a program has subcommands that only ask a service."""
    return name in ROWS and bool(ROWS[name].verbs)


def reads_of(name: str, words: Sequence[Word]) -> Reads:
    """Return what a command of known words reads if it only reads, otherwise why not.

    name: of its program, without a directory of the system. words: those after it.
    """
    found = _parse_reads(name, tuple(words))
    if isinstance(found, str):
        return found
    # Wherever a glob is, all but the first of its matches are operands.
    row = ROWS.get(name)
    what: Literal["names", "content", "tree", "listing"] = "listing"
    if row is not None and row.shows == "names":
        what = "names"
    elif row is not None and row.shows in ("content", "pattern"):
        what = "tree" if any(reading.what == "tree" for reading in found) else "content"
    known = {reading.path for reading in found}
    return (*found, *(FileRead(w.text, what) for w in words if w.pattern and w.text not in known))


def _parse_reads(name: str, words: tuple[Word, ...]) -> Reads:
    rest = tuple(word.text for word in words)
    patterns = any(word.pattern for word in words)
    if name in _LEAVING or name in ("echo", "expr", "printf", "test", "[", "command", "set"):
        return _of_builtin(name, words, rest)
    row = ROWS.get(name)
    if row is None:
        return "not known to be read-only"
    if row.syntax is read_find:
        return _of_find(words)
    if row.syntax is split_git:
        found = git_reads.git_reads(rest, {word.text for word in words if word.pattern})
        return found if isinstance(found, str) else tuple(FileRead(path) for path in found)
    if len(rest) == 1 and (rest[0] in row.versions.split() or (row.reads_only and rest in _ABOUT)):
        return ()
    if row.verbs:
        return _MORE_WORDS if patterns else _asked(name, row, words) or ()
    if not row.reads_only:
        return "not known to be read-only"
    if patterns and (row.counted or (row.check is not None and row.shows in ("text", "none"))):
        return _MORE_WORDS
    return _of_row(name, row, words)


def _of_builtin(name: str, words: tuple[Word, ...], rest: tuple[str, ...]) -> Reads:
    match name:
        case "echo" | "expr":
            return ()
        case "printf":
            if any(word.pattern for word in words[: 2 if rest[:1] == ("--",) else 1]):
                return "printf with a format that is not known"
            if rest[:1] and rest[0].startswith("-") and rest[0] != "--":
                return "printf with an option"
            return "printf, which sets a variable" if sets_variable(rest) else ()
        case "test" | "[":
            return _parse_test(rest[:-1] if name == "[" and rest[-1:] == ("]",) else rest)
        case "command":
            return () if rest[:1] in (("-v",), ("-V",)) else "command with options"
        case "set":
            return () if rest and all(STRICTER.fullmatch(w) for w in rest) else "set"
    return () if re.fullmatch(r"\d*", "".join(rest)) and len(rest) < 2 else name


def _parse_test(rest: tuple[str, ...]) -> Reads:
    for word in rest:
        if word.startswith("-") and word not in _TESTS and not re.fullmatch(r"-\d*", word):
            return f"the test {word}"
    return tuple(FileRead(path, "names") for operator, path in pairwise(rest) if operator in TESTS_OF_FILES)


def _asked(name: str, row: Row, words: tuple[Word, ...]) -> str:
    """Return why a command of a service is not only a question to it; "" if it is."""
    words = tuple(words if row.prepare is None else row.prepare(words))
    texts = [word.text for word in words]
    size = next((n for n in (2, 1) if " ".join(texts[:n]) in row.verbs), 0)
    if not size:
        return f"{name} {' '.join(texts[:2])}".strip()
    verb = " ".join(texts[:size])
    found = parse_words(row.verbs[verb], words[size:])
    if found.odd:
        return f"the option {found.odd}"
    if row.asks is not None and (why := row.asks(verb, found)):
        return why if why.startswith("the ") else f"{name} {why}"
    odd = next((text for text in found.texts if not PLAIN_OPERAND.fullmatch(text)), "")
    return f"the word {odd}" if odd else ""


def _of_row(name: str, row: Row, words: tuple[Word, ...]) -> Reads:
    found = parse_words(row, words)
    if found.odd:
        return f"the option {found.odd}"
    if row.check is not None and (why := row.check(found)):
        return why
    if row.shows == "none" and found.operands:
        return "an operand"
    if row.check is not None and row.shows == "pattern" and _may_be_script(found):
        return "a pattern that may stand for a script"
    paths = list(found.texts) if row.shows in ("content", "names", "pattern") else []
    if row.shows == "pattern" and not found.has(*GIVE_PATTERN):
        paths = paths[1:]
    given = [FileRead(option.value.text) for option in found.options if option.role == "read"]
    asked = found.has(*row.tree.split())
    if not paths and (asked or row.here):
        paths = ["."]
    hidden = _hidden(found) if name == "rg" else "all"
    deep = asked or "*" in row.tree
    what: Literal["names", "content", "tree"] = "tree" if deep else "names" if row.shows == "names" else "content"
    narrow = _search_filters(name, found) if deep and name != "diff" else ((), (), ())
    follows = name == "diff" and not found.has("--no-dereference")
    return (*given, *(FileRead(path, what, hidden, *narrow, follows, follows) for path in paths if path != "-"))


def _may_be_script(found: Arguments) -> bool:
    """Return True if a glob stands for a script, or before one, so that a file's name may take its place."""
    scripts = found.values("-e", "--expression")
    if scripts:
        return any(script.pattern for script in scripts)
    script = next(iter(found.operands), None)
    words = found.given
    before = words if script is None else words[: words.index(script) + 1] if script in words else words
    return any(word.pattern for word in before)


# Files of the types that rg is often given.
_TYPES = {
    "py": "*.py *.pyi", "js": "*.js *.jsx *.vue *.cjs *.mjs", "ts": "*.ts *.tsx *.cts *.mts", "go": "*.go",
    "rust": "*.rs", "css": "*.css *.scss", "yaml": "*.yaml *.yml", "html": "*.htm *.html *.ejs",
    "md": "*.markdown *.md *.mdown *.mdwn *.mkd *.mkdn *.mdx",
}  # fmt: skip


def _search_filters(name: str, found: Arguments) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the names that a search is restricted to, the names it skips, and the directories it does not enter.

    Only plain patterns are used, and only if no two options conflict; otherwise everything counts as read.
    """
    only: list[str] = []
    without: list[str] = []
    closed: list[str] = []
    for option, value in ((option.name, option.value.text) for option in found.options):
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


def _hidden(found: Arguments) -> Literal["all", "typed", "none"]:
    """Return which hidden files rg reads: those that a glob, or the globs of a type, include."""
    if any(not value.text.startswith("!") for value in found.values("-g", "--glob", "--iglob")):
        return "all"
    if found.has("-u", "-.", "--hidden", "--unrestricted"):
        return "all"
    return "typed" if found.has("-t", "--type") else "none"


_COMBINED = frozenset(("-o", "-or", "(", ",", "!", "-not"))


def _of_find(words: tuple[Word, ...]) -> Reads:
    """Return what a find reads that only shows what it finds, by itself or by a program that only reads."""
    call = read_find(words)
    if odd := next((w.text for w in words if re.match(r"-(?:[DLO]|follow$)", w.text)), ""):
        return f"the action or option {odd}"
    found = [FileRead(start.text, "names") for start in call.starts]
    tests: list[tuple[str, str]] = []
    for term in call.terms:
        if term.kind == "run" and term.name == "-exec":
            if why := _shows_found(term):
                return why
            # Names that are found begin with where the search begins, so none of them is an option.
            inner = reads_of(term.values[0].text, (*term.values[1:-1], Word(FOUND)))
            if isinstance(inner, str):
                return inner
            found += [reading for reading in inner if reading.path != FOUND]
            # Without a lone `-type f` it also reads what links lead to.
            follows = ("-type", "f") not in tests or any(test in _COMBINED for test, _ in tests)
            only = () if follows else _named_only(tests)
            found += [FileRead(start.text, "tree", only=only, follows=follows) for start in call.starts]
        elif term.kind not in ("test", "plain"):
            return f"the action or option {term.name}"
        else:
            tests.append((term.name, "".join(value.text for value in term.values)))
            if term.name in COMPARED:
                found += [FileRead(value.text, "names") for value in term.values]
    return tuple(found)


def _shows_found(term: FindTerm) -> str:
    """Return why `find -exec` with these words does more than show the files it finds; "" if it does not."""
    texts = [value.text for value in term.values]
    if texts[:1] == [] or texts[0] not in SHOWING or texts[-1:] != ["{}"] or any("{}" in t for t in texts[:-1]):
        return f"the action -exec {' '.join(texts[:1])}"
    return "the action -exec with a pattern" if any(value.pattern for value in term.values) else ""


def _named_only(tests: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the pattern that all files found match; () if there is none."""
    return next(((value,) for test, value in tests if test == "-name" and PLAIN_GLOB.fullmatch(value)), ())

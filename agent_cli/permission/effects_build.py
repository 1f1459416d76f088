"""What tools that build, test and transform touch where a table of options is not enough."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from agent_cli.permission.effects_scan import Touch, option_effects, scan
from agent_cli.permission.effects_table import PROGRAMS
from agent_cli.permission.shell_values import Word

# Values of variables of make that are words or paths, which no shell reads otherwise.
_PLAIN_VALUE = re.compile(r"[\w.,:/+=@%-]*")
_MAKES_OWN = frozenset(("SHELL", "MAKE", "MAKEFLAGS", "MAKEFILES", "GNUMAKEFLAGS", "MFLAGS", "MAKESHELL", "COMSPEC"))
_LINKER = re.compile(r"-[sw]|-X(?:=.*)?|-buildid=.*|'?\w[\w./-]*=[^`]*")
_COMPILER = re.compile(r"(?:[\w./]+=)?-[NlmSB]+")
_PASSED_ON = re.compile(r"-W[alp],(.*)")
_WRITES_FROM_LINKER = re.compile(r"(?:^|,)(?:-o|-M[A-Z]*D|-MF|-MM?D|-plugin|-T|-dynamic-linker|--script|-Map)")


def _make(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["make"], words)
    yield from option_effects(found)
    for word in operands:
        name, equals, value = word.text.partition("=")
        if equals and (name.rstrip(":+?! ").lstrip(".") in _MAKES_OWN or not _PLAIN_VALUE.fullmatch(value)):
            yield Touch("run", Word(name))


def _go(words: Sequence[Word]) -> Iterator[Touch]:
    # With one dash or two, options are the same.
    found, operands = scan(PROGRAMS["go"], [_one_dash(w) for w in words])
    yield from option_effects(found)
    for option, _, value in found:
        pieces = value.text.split()
        plain = {"-ldflags": _LINKER, "-gcflags": _COMPILER, "-asmflags": _COMPILER}.get(option)
        if plain is not None and not all(plain.fullmatch(p) for p in pieces):
            yield Touch("run", Word(option))
    verbs = [w.text for w in operands]
    if verbs[:1] == ["env"] and any(option in ("-w", "-u") for option, _, _ in found):
        yield Touch("run", Word("env"))
    elif verbs[:1] in (["fmt"], ["fix"], ["generate"]):
        yield Touch("into", Word("."))


def _one_dash(word: Word) -> Word:
    return word.but(text=word.text[1:]) if re.match(r"--\w", word.text) else word


def _cargo(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["cargo"], words)
    yield from option_effects(found)
    verbs = [w.text for w in operands if not w.text.startswith("+")]
    if verbs[:1] == ["fmt"] and not any(option == "--check" for option, _, _ in found):
        yield Touch("into", Word("."))


def _pytest(words: Sequence[Word]) -> Iterator[Touch]:
    found, _ = scan(PROGRAMS["pytest"], words)
    for option, role, value in found:
        if option == "-p" and value.text.startswith("no:"):
            continue
        if option in ("-o", "--override-ini") and value.text.startswith("log_"):
            continue
        if option.startswith("--cov-r") and ":" in value.text:
            yield Touch("write", value.but(text=value.text.partition(":")[2]))
            continue
        yield from option_effects([(option, role, value)])


def _jq(words: Sequence[Word]) -> Iterator[Touch]:
    queue, operands, named = list(words), [], False
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


def _compiler(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["gcc"], words)
    yield from option_effects([f for f in found if not _PASSED_ON.match(f[2].text)])
    for word in words:
        passed = _PASSED_ON.match(word.text)
        if word.text.startswith("@") or (passed and _WRITES_FROM_LINKER.search(passed[1])):
            yield Touch("run", word)
    yield from (Touch("read", w) for w in operands)


def _pandoc(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["pandoc"], words)
    yield from option_effects(found)
    for option, _, value in found:
        if option in ("-f", "-t", "--from", "--to") and re.search(r"\.lua|/", value.text):
            yield Touch("run", Word(option))
    yield from (Touch("read", w) for w in operands)


def _pip(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["pip"], words)
    yield from option_effects(found)
    # What is installed runs, so where it comes from counts.
    yield from (Touch("maybe", w) for w in operands[1:])
    yield from (Touch("maybe", value) for option, _, value in found if option in ("-e", "--editable", "-r"))
    if [w.text for w in operands[:1]] == ["config"] and {"set", "unset", "edit"} & {w.text for w in operands[1:2]}:
        yield Touch("run", Word("config"))


def _in_place(words: Sequence[Word]) -> Iterator[Touch]:
    """perl and ruby, which edit files with -i."""
    operands = [w for w in words if not w.text.startswith("-")]
    edits = any(re.match(r"-[a-zA-Z0-9]*i", w.text) for w in words)
    yield from (Touch("read", w) for w in operands)
    yield from (Touch("write", w) for w in operands if edits)


TOOLS: Mapping[str, Callable[[Sequence[Word]], Iterator[Touch]]] = {
    "make": _make, "go": _go, "cargo": _cargo, "pytest": _pytest, "jq": _jq, "pandoc": _pandoc, "pip": _pip,
    "pip3": _pip, "perl": _in_place, "ruby": _in_place,
    **dict.fromkeys(("gcc", "g++", "cc", "c++", "clang", "clang++"), _compiler),
}  # fmt: skip

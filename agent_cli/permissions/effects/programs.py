"""Effects of programs with a language of their own: sed, awk, dd, find, curl, wget, patch, ruff.

Also of build, test and conversion tools for which a table of options is not enough.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from agent_cli.permissions.effects.builds import BUILD_EFFECTS
from agent_cli.permissions.effects.git import ARCHIVER_EFFECTS, git_effects
from agent_cli.permissions.effects.scripts import awk_acts, only_edits
from agent_cli.permissions.effects.table import PROGRAMS, Program
from agent_cli.permissions.options import REMOTE, Touch, option_effects, scan, table_effects
from agent_cli.permissions.programs.find import read_find
from agent_cli.permissions.shell.words import Word

# Values of make variables that are plain words or paths, with no meaning to a shell.
_PLAIN_VALUE = re.compile(r"[\w.,:/+=@%-]*")
_MAKE_VARIABLES = frozenset(
    ("SHELL", "MAKE", "MAKEFLAGS", "MAKEFILES", "GNUMAKEFLAGS", "MFLAGS", "MAKESHELL", "COMSPEC")
)
_LINKER = re.compile(r"-[sw]|-X(?:=.*)?|-buildid=.*|'?\w[\w./-]*=[^`]*")
_COMPILER = re.compile(r"(?:[\w./]+=)?-[NlmSB]+")
_PASSED_ON = re.compile(r"-W[alp],(.*)")
_WRITES_FROM_LINKER = re.compile(r"(?:^|,)(?:-o|-M[A-Z]*D|-MF|-MM?D|-plugin|-T|-dynamic-linker|--script|-Map)")


def _make(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["make"], words)
    yield from option_effects(found)
    for word in operands:
        name, equals, value = word.text.partition("=")
        if equals and (name.rstrip(":+?! ").lstrip(".") in _MAKE_VARIABLES or not _PLAIN_VALUE.fullmatch(value)):
            yield Touch("run", Word(name))


def _go(words: Sequence[Word]) -> Iterator[Touch]:
    # Options are the same with one dash or two.
    found, operands = scan(PROGRAMS["go"], [_one_dash(w) for w in words])
    yield from option_effects(found)
    # Of the test program, also where `go test` does not have them.
    for n, word in enumerate(words):
        if match := re.fullmatch(r"--?test\.\w*(?:profile|dir|trace|log\w*)(?:=(.*))?", word.text, re.DOTALL):
            yield Touch("write", word.replace(text=match[1]) if match[1] else (*words, Word(""))[n + 1])
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
    elif verbs[:1] == ["run"]:
        yield from (Touch("maybe", w) for w in operands[1:] if w.text.endswith(".go"))
    elif verbs[:1] == ["work"]:
        yield from (Touch("maybe", w) for w in operands[2:])
    elif verbs[:2] == ["mod", "edit"]:
        replaced = (value for option, _, value in found if option == "-replace")
        yield from (Touch("maybe", v.replace(text=v.text.rpartition("=")[2])) for v in replaced)


def _one_dash(word: Word) -> Word:
    return word.replace(text=word.text[1:]) if re.match(r"--\w", word.text) else word


def _cargo(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["cargo"], words)
    yield from option_effects(found)
    verbs = [w.text for w in operands if not w.text.startswith("+")]
    if verbs[:1] == ["fmt"] and not any(option == "--check" for option, _, _ in found):
        yield Touch("into", Word("."))
    if verbs[:1] in (["new"], ["init"], ["vendor"]):
        yield from (Touch("write", w) for w in operands[1:2])
    # Behind -- are the options of the compiler, or of the test program.
    texts = [w.text for w in words]
    passed = list(words[texts.index("--") + 1 :]) if "--" in texts else []
    if verbs[:1] in (["rustc"], ["rustdoc"]):
        yield from (Touch("run", w) for w in passed if w.text.startswith("-"))
    for n, word in enumerate(passed):
        if word.text.partition("=")[0] == "--logfile":
            yield Touch(
                "write", word.replace(text=word.text[10:]) if "=" in word.text else (passed[n + 1 :] or [word])[0]
            )


def _pytest(words: Sequence[Word]) -> Iterator[Touch]:
    found, _ = scan(PROGRAMS["pytest"], words)
    for option, role, value in found:
        if option == "-p" and value.text.startswith("no:"):
            continue
        if option in ("-o", "--override-ini") and value.text.startswith("log_"):
            name, _, path = value.text.partition("=")
            yield from [Touch("write", value.replace(text=path))] if name == "log_file" else []
            continue
        if option.startswith("--cov-r") and ":" in value.text:
            yield Touch("write", value.replace(text=value.text.partition(":")[2]))
            continue
        yield from option_effects([(option, role, value)])


def _npm(words: Sequence[Word]) -> Iterator[Touch]:
    # It takes any number of dashes for two.
    own = [w.replace(text=f"-{w.text}") if re.match(r"-\w\w", w.text) else w for w in words]
    found, operands = scan(PROGRAMS["npm"], own)
    # Which program the words behind the first are for is not known.
    yield from option_effects(found)
    yield from (Touch("maybe", w) for w in operands)


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
    # Installed packages run code, so their source counts.
    yield from (Touch("maybe", w) for w in operands[1:])
    yield from (Touch("maybe", value) for option, _, value in found if option in ("-e", "--editable", "-r"))
    if [w.text for w in operands[:1]] == ["config"] and {"set", "unset", "edit"} & {w.text for w in operands[1:2]}:
        yield Touch("run", Word("config"))


def _in_place(words: Sequence[Word]) -> Iterator[Touch]:
    """Yield the effects of perl and ruby, which edit files with -i."""
    operands = [w for w in words if not w.text.startswith("-")]
    edits = any(re.match(r"-[a-zA-Z0-9]*i", w.text) for w in words)
    yield from (Touch("read", w) for w in operands)
    yield from (Touch("write", w) for w in operands if edits)


TOOL_EFFECTS: Mapping[str, Callable[[Sequence[Word]], Iterator[Touch]]] = {
    "make": _make, "go": _go, "cargo": _cargo, "pytest": _pytest, "npm": _npm, "jq": _jq, "pandoc": _pandoc,
    "pip": _pip, "pip3": _pip, "perl": _in_place, "ruby": _in_place,
    **dict.fromkeys(("gcc", "g++", "cc", "c++", "clang", "clang++"), _compiler),
}  # fmt: skip


def _sed(words: Sequence[Word]) -> Iterator[Touch]:
    table = Program("none", run="-f --file", value="-e --expression -l --line-length", write="", act="")
    in_place = any(re.match(r"-[nErsuz]*i|--i", w.text) for w in words)
    if any(re.match(r"(?:-[nErsuz]*i|--i[a-z-]*=).*[/*]", w.text) for w in words):
        yield Touch("run", Word("-i"))  # the suffix decides where the backup goes
    # The value of -i is in the same word, so it is no cluster.
    kept = [w.replace(text="-n") if re.match(r"-[nErsuz]*i", w.text) else w for w in words]
    found, operands = scan(table, kept)
    scripts = [value for option, _, value in found if option in ("-e", "--expression")]
    if any(role == "run" for _, role, _ in found):
        yield Touch("run", Word("-f"))
    elif not scripts and operands:
        scripts = [operands.pop(0)]
    for script in scripts:
        if not only_edits(script.text) or script.pattern:
            yield Touch("run", script)
            yield Touch("into", Word("."))
    for word in operands:
        yield Touch("read", word)
        if in_place:
            yield Touch("write", word)


def _awk(words: Sequence[Word]) -> Iterator[Touch]:
    table = Program("none", run="-f --file -i --include -l --load -E --exec -o -p -d -D -W --dump-variables --profile "
        "--pretty-print --debug", value="-F -v -e --field-separator --assign --source")  # fmt: skip
    found, operands = scan(table, words)
    yield from option_effects(found)
    if any("inplace" in value.text for _, _, value in found):
        yield from (Touch("write", w) for w in operands)
    scripts = [value for option, _, value in found if option in ("-e", "--source")]
    if operands and not scripts and not any(role == "run" for _, role, _ in found):
        scripts = [operands.pop(0)]
    for script in scripts:
        if awk_acts(script.text) or script.pattern or any(value.pattern for _, _, value in found):
            yield Touch("run", script)
            yield Touch("into", Word("."))
    yield from (Touch("read", w) for w in operands if "=" not in w.text)


def _grep(words: Sequence[Word]) -> Iterator[Touch]:
    yield from _search(PROGRAMS["grep"], words, "-r -R -d --recursive --dereference-recursive --directories")


def _rg(words: Sequence[Word]) -> Iterator[Touch]:
    yield from _search(PROGRAMS["rg"], words, "")


def _search(program: Program, words: Sequence[Word], recursive: str) -> Iterator[Touch]:
    """Yield the effects of a search whose options are not all read-only."""
    found, operands = scan(program, words)
    yield from option_effects(found)
    names = {option for option, _, _ in found}
    if not names & {"-e", "--regexp", "-f", "--file", "--files"}:
        operands = operands[1:]
    deep = not recursive or bool(names & set(recursive.split()))
    yield from (Touch("tree" if deep else "read", w) for w in operands or ([Word(".")] if deep else []))


def _ln(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["ln"], words)
    names = {option for option, _, _ in found}
    into = [value for option, role, value in found if role == "into"]
    sources = operands if into or len(operands) < 2 else operands[:-1]
    target = into[0] if into else operands[-1] if len(operands) > 1 else Word(".")
    # The target of a symbolic link is relative to the directory of the link.
    relative = Word(".") if not names & {"-s", "--symbolic"} or names & {"-r", "--relative"} else target
    yield Touch("write", target)
    for source in sources:
        name = os.path.basename(source.text.rstrip("/"))
        yield Touch("write", Word(os.path.join(target.text, name), source.why or target.why, source.pattern))
        yield Touch("link", source, relative)


def _dd(words: Sequence[Word]) -> Iterator[Touch]:
    for word in words:
        key, _, value = word.text.partition("=")
        if key in ("of", "if"):
            yield Touch("write" if key == "of" else "read", word.replace(text=value))


def _find(words: Sequence[Word]) -> Iterator[Touch]:
    call = read_find(words)
    for term in call.terms:
        if term.kind == "delete":
            yield Touch("run", Word(term.name))
            yield from (Touch("remove", w, follows=call.follows, selective=call.narrow) for w in call.starts)
        elif term.kind == "file":
            yield from (Touch("write", w) for w in term.values[:1])
        elif term.kind == "run":
            yield from (Touch("tree", w) for w in call.starts)
    # Also options that are not among the terms.
    for word, value in pairwise(words):
        if word.text in ("-files0-from", "-newer", "-samefile"):
            yield Touch("read", value)


def _rsync(words: Sequence[Word]) -> Iterator[Touch]:
    program = PROGRAMS["rsync"]
    found, operands = scan(program, words)
    yield from table_effects(program, words)
    names = {option for option, _, _ in found}
    here = [w for w in operands if not REMOTE.match(w.text)]
    if "--remove-source-files" in names:
        yield from (Touch("remove", w, follows="named", selective=True) for w in here if w is not operands[-1])
    if any(name.startswith("--del") for name in names) and here[-1:] == operands[-1:]:
        yield from (Touch("remove", w, follows="named") for w in here[-1:])


def _curl(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["curl"], words)
    yield from option_effects(found)
    if any(
        option in ("-O", "-J") or (len(option) > 4 and "--remote-name-all".startswith(option)) for option, _, _ in found
    ) and not any(role == "into" for _, role, _ in found):
        for url in operands:
            yield Touch("write", Word(os.path.basename(url.text.rstrip("/")) or ".", url.why))
    for option, _, value in found:
        given = value.text
        if option in ("-w", "--write-out") and re.match(r"@|.*%output", given, re.DOTALL):
            yield Touch("run", Word(option))
        if option in ("-d", "--json", "-H", "--header", "-b", "--cookie") or option.startswith("--data"):
            at = given.find("@") if option == "--data-urlencode" else 0 if given.startswith("@") else -1
            if at >= 0 and option != "--data-raw":
                yield Touch("read", value.replace(text=given[at + 1 :]))
            elif option in ("-b", "--cookie") and "=" not in given:
                yield Touch("read", value)
        elif option in ("-F", "--form") and (match := re.search(r"=[@<]\"?([^;\"]+)", given)):
            yield Touch("read", value.replace(text=match[1]))
        elif option == "--url":
            operands.append(value)
    for url in operands:
        if url.text.casefold().startswith("file:"):
            yield Touch("read", url.replace(text=re.sub(r"^file:(?://[^/]*)?", "", url.text, flags=re.IGNORECASE)))


def _wget(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["wget"], words)
    yield from option_effects(found)
    names = {option for option, _, _ in found}
    if names & {"-O", "--output-document", "--spider"}:
        return
    into = next((value for option, role, value in found if role == "into"), Word("."))
    yield Touch("into", into)
    for url in operands:
        yield Touch("write", Word(os.path.join(into.text, os.path.basename(url.text.rstrip("/")) or "."), url.why))
    many = {"-r", "-m", "-p", "-x", "--recursive", "--mirror", "--page-requisites", "--force-directories"}
    if names & many or "--content-disposition" in names:
        yield Touch("names", Word("-"))


def _less(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["less"], words)
    yield from option_effects(found)
    for word in operands:
        yield Touch("run", word) if word.text.startswith("+") else Touch("read", word)


def _man(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["man"], words)
    yield from option_effects(found)
    yield from (Touch("read", w) for w in operands if "/" in w.text)


def _patch(words: Sequence[Word]) -> Iterator[Touch]:
    table = Program(
        "none",
        write="-o --output -r --reject-file -B --prefix",
        into="-d --directory",
        read="-i --input",
        value="-p --strip -F -V -D -z",
    )
    found, operands = scan(table, words)
    yield from option_effects(found)
    yield from (Touch("read", w) for w in operands)
    yield from (Touch("write", w) for w in operands[:1])
    if not operands:
        yield Touch("names", next((v for o, _, v in found if o in ("-i", "--input")), Word("-")))


def _ruff(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["ruff"], words)
    yield from option_effects(found)
    if operands and (operands[0].text == "format" or any(o.startswith("--fix") for o, _, _ in found)):
        yield from (Touch("write", w) for w in operands[1:] or [Word(".")])


PROGRAM_EFFECTS: Mapping[str, Callable[[Sequence[Word]], Iterator[Touch]]] = {
    **ARCHIVER_EFFECTS, **TOOL_EFFECTS, **BUILD_EFFECTS,
    "sed": _sed, "awk": _awk, "gawk": _awk, "mawk": _awk, "dd": _dd, "find": _find, "curl": _curl,
    "ln": _ln, "patch": _patch, "ruff": _ruff, "wget": _wget, "less": _less, "man": _man,
    "rg": _rg, "rsync": _rsync, "grep": _grep, "egrep": _grep, "fgrep": _grep, "git": git_effects,
}  # fmt: skip

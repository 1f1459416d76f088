"""What programs with a language of their own touch: tar, sed, awk, dd, find, curl, patch, ruff."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from agent_cli.permission.effects_git import git
from agent_cli.permission.effects_scan import REMOTE, Touch, scan, told
from agent_cli.permission.effects_table import PROGRAMS, Program
from agent_cli.permission.shell_values import Word

_SHORT_SED = re.compile(
    r"(?:\d+|\$|/(?:[^/\\\n]|\\[^\n])*/I?)?(?:,\s*(?:\+?\d+|\$|/(?:[^/\\\n]|\\[^\n])*/I?))?\s*!?\s*"
    r"(?:[pdDgGhHxnNqQ=lF]|s(?P<s>[/|#,@:;!%_])(?:(?!(?P=s))[^\\\n]|\\.)*(?P=s)(?:(?!(?P=s))[^\\\n]|\\.)*(?P=s)[gpiIM0-9]*"
    r"|y(?P<y>[/|#,@])(?:(?!(?P=y))[^\\\n]|\\.)*(?P=y)(?:(?!(?P=y))[^\\\n]|\\.)*(?P=y)|[aic]\\?\s?[^\n]*)?\s*"
)
_AWK_ACTS = re.compile(r"system\s*\(|\||getline|>|@load|@include|close\s*\(")
_TAR_VALUED = "fbCTXIFgHVKNL"


def _tar_file(letter: str, given: Word) -> Iterator[Touch]:
    """What the file that an option of tar names is for: -T and -X read a list, -g writes a snapshot."""
    if letter in "TX":
        yield Touch("read", given)
    elif letter == "g":
        yield Touch("write", given)


def _tar(words: Sequence[Word]) -> Iterator[Touch]:
    letters, archives, operands, folder = "", [], [], Word(".")
    queue, first = list(words), True
    named = {
        "--create": "c",
        "--extract": "x",
        "--get": "x",
        "--list": "t",
        "--append": "r",
        "--update": "u",
        "--delete": "r",
    }
    runs = ("--to-command", "--use-compress-program", "--checkpoint-action", "--rsh-command", "--info-script",
            "--new-volume-script", "--rmt-command", "--remove-files", "--absolute-names")  # fmt: skip
    valued = {
        "--file": "f",
        "--directory": "C",
        "--files-from": "T",
        "--exclude-from": "X",
        "--listed-incremental": "g",
    }
    while queue:
        word = queue.pop(0)
        text = word.text
        if text.startswith("--") and len(text) > 2:
            name, equals, value = text.partition("=")
            if ran := next((r for r in runs if r.startswith(name)), ""):
                yield Touch("run", Word(ran))
            elif letter := next((v for k, v in valued.items() if k.startswith(name)), ""):
                given = word.but(text=value) if equals else queue.pop(0) if queue else Word("")
                folder = given if letter == "C" else folder
                archives += [given] if letter == "f" else []
                yield from _tar_file(letter, given)
            else:
                letters += named.get(name, "")
        elif (text.startswith("-") and len(text) > 1) or first:
            cluster = text.removeprefix("-")
            old = not text.startswith("-")
            while cluster:
                letter, cluster = cluster[0], cluster[1:]
                letters += letter
                if letter in "IFP":
                    yield Touch("run", Word(f"-{letter}"))
                if letter not in _TAR_VALUED:
                    continue
                given = word.but(text=cluster) if cluster and not old else queue.pop(0) if queue else Word("")
                cluster = cluster if old else ""
                folder = given if letter == "C" else folder
                archives += [given] if letter == "f" else []
                yield from _tar_file(letter, given)
        else:
            operands.append(word)
        first = False
    writes = bool(set("cruA") & set(letters))
    for archive in archives:
        if not REMOTE.match(archive.text):
            yield Touch("write" if writes else "read", archive)
        else:
            yield Touch("run", archive)
    if "x" in letters:
        yield Touch("into", folder)
    elif writes:
        below = [w if w.text.startswith("/") else w.but(text=os.path.join(folder.text, w.text)) for w in operands]
        yield from (Touch("tree", w) for w in below)


def _sed(words: Sequence[Word]) -> Iterator[Touch]:
    table = Program("none", run="-f --file", value="-e --expression -l --line-length", write="", act="")
    in_place = any(re.match(r"-[nErsuz]*i|--i", w.text) for w in words)
    # The value of -i stands in the same word, and is no cluster.
    kept = [w.but(text="-n") if re.match(r"-[nErsuz]*i", w.text) else w for w in words]
    found, operands = scan(table, kept)
    scripts = [value for option, _, value in found if option in ("-e", "--expression")]
    if any(role == "run" for _, role, _ in found):
        yield Touch("run", Word("-f"))
    elif not scripts and operands:
        scripts = [operands.pop(0)]
    for script in scripts:
        if not _plain_sed(script.text):
            yield Touch("run", script)
    for word in operands:
        yield Touch("read", word)
        if in_place:
            yield Touch("write", word)


def _plain_sed(script: str) -> bool:
    """Whether a script of sed only edits: no `w`, `r` or `e`, as a command or behind `s`."""
    at = 0
    while at < len(script):
        match = _SHORT_SED.match(script, at)
        if match is None or (match.end() < len(script) and script[match.end()] not in ";\n}{"):
            return False
        at = match.end() + 1
    return True


def _awk(words: Sequence[Word]) -> Iterator[Touch]:
    table = Program("none", run="-f --file -i --include -l --load -E --exec -o -p -d", value="-F -v --field-separator")
    found, operands = scan(table, words)
    yield from told(found)
    if operands and not any(role == "run" for _, role, _ in found):
        script = operands.pop(0)
        if _AWK_ACTS.search(re.sub(r'"(?:[^"\\]|\\.)*"', '""', script.text)):
            yield Touch("run", script)
    yield from (Touch("read", w) for w in operands if "=" not in w.text)


def _grep(words: Sequence[Word]) -> Iterator[Touch]:
    yield from _search(PROGRAMS["grep"], words, "-r -R -d --recursive --dereference-recursive --directories")


def _rg(words: Sequence[Word]) -> Iterator[Touch]:
    yield from _search(PROGRAMS["rg"], words, "")


def _search(program: Program, words: Sequence[Word], recursive: str) -> Iterator[Touch]:
    """A search with options that are not among those of a program that only reads."""
    found, operands = scan(program, words)
    yield from told(found)
    names = {option for option, _, _ in found}
    if not names & {"-e", "--regexp", "-f", "--file", "--files"}:
        operands = operands[1:]
    deep = not recursive or bool(names & set(recursive.split()))
    yield from (Touch("tree" if deep else "read", w) for w in operands or ([Word(".")] if deep else []))


def _dd(words: Sequence[Word]) -> Iterator[Touch]:
    for word in words:
        key, _, value = word.text.partition("=")
        if key in ("of", "if"):
            yield Touch("write" if key == "of" else "read", word.but(text=value))


def _find(words: Sequence[Word]) -> Iterator[Touch]:
    starts: list[Word] = []
    for word in words:
        if word.text.startswith("-") or word.text in ("!", "("):
            break
        starts.append(word)
    for n, word in enumerate(words):
        if word.text == "-delete":
            yield Touch("run", word)
            yield from (Touch("remove", w) for w in starts or [Word(".")])
        elif word.text in ("-fprint", "-fprint0", "-fprintf", "-fls") and n + 1 < len(words):
            yield Touch("write", words[n + 1])
        elif word.text in ("-files0-from", "-newer", "-samefile") and n + 1 < len(words):
            yield Touch("read", words[n + 1])


def _curl(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["curl"], words)
    yield from told(found)
    if any(
        option in ("-O", "-J") or (len(option) > 4 and "--remote-name-all".startswith(option)) for option, _, _ in found
    ) and not any(role == "into" for _, role, _ in found):
        for url in operands:
            yield Touch("write", Word(os.path.basename(url.text.rstrip("/")) or ".", url.why))
    for option, _, value in found:
        given = value.text
        if option in ("-d", "--json", "-H", "--header", "-b", "--cookie") or option.startswith("--data"):
            at = given.find("@") if option == "--data-urlencode" else 0 if given.startswith("@") else -1
            if at >= 0 and option != "--data-raw":
                yield Touch("read", value.but(text=given[at + 1 :]))
            elif option in ("-b", "--cookie") and "=" not in given:
                yield Touch("read", value)
        elif option in ("-F", "--form") and (match := re.search(r"=[@<]\"?([^;\"]+)", given)):
            yield Touch("read", value.but(text=match[1]))
        elif option == "--url":
            operands.append(value)
    for url in operands:
        if url.text.casefold().startswith("file:"):
            yield Touch("read", url.but(text=re.sub(r"^file:(?://[^/]*)?", "", url.text, flags=re.IGNORECASE)))


def _patch(words: Sequence[Word]) -> Iterator[Touch]:
    table = Program(
        "none",
        write="-o --output -r --reject-file -B --prefix",
        into="-d --directory",
        read="-i --input",
        value="-p --strip -F -V -D -z",
    )
    found, operands = scan(table, words)
    yield from told(found)
    yield from (Touch("write" if n == 0 else "read", w) for n, w in enumerate(operands))
    if not operands:
        yield Touch("names", next((v for o, _, v in found if o in ("-i", "--input")), Word("-")))


def _ruff(words: Sequence[Word]) -> Iterator[Touch]:
    found, operands = scan(PROGRAMS["ruff"], words)
    yield from told(found)
    if operands and (operands[0].text == "format" or any(o.startswith("--fix") for o, _, _ in found)):
        yield from (Touch("write", w) for w in operands[1:] or [Word(".")])


OWN: Mapping[str, Callable[[Sequence[Word]], Iterator[Touch]]] = {
    "tar": _tar, "sed": _sed, "awk": _awk, "gawk": _awk, "mawk": _awk, "dd": _dd, "find": _find, "curl": _curl,
    "patch": _patch, "ruff": _ruff,
    "rg": _rg, "grep": _grep, "egrep": _grep, "fgrep": _grep, "git": git,
}  # fmt: skip

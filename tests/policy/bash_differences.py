"""What the gate believes of a line beside what bash makes of it, for thousands of lines by one bash and few parsers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from agent_cli.policy.shell import parser
from agent_cli.policy.shell.analysis import analyse
from agent_cli.policy.shell.words import Analysis, SimpleCommand, Word
from agent_tools.record import Value
from tests.policy.random_word_lines import VARIABLES, Line

_CONTENTS = {"a": "a\n", "b.txt": "b\n", "sub/c": "c\n"}
_SECONDS = 300.0
# Lines of a group run in one subshell, each in a folder of its own if it writes. One that ends the shell, or makes bash
# give up what it reads, is not written down as done. What is run is written down in one piece.
_RUNNER = r"""
# Bash writes line by line, and others write meanwhile: a record has to be one line.
__log() {
    builtin local -a __w=("$@")
    builtin printf '%s\0' "$__n" "$PWD" "${__w[@]//$'\n'/$'\002'}" __end >> "$__LOG"
}
cat() { builtin mapfile __c; builtin printf '%s' "${__c[@]}"; }
rec() { __log rec "$@"; }
command_not_found_handle() { __log "$@"; }
mapfile -d '' -t __lines < "$__LINES"
for ((__at = 0; __at < ${#__lines[@]}; __at += __GROUP)); do
    (
        for ((__n = __at; __n < __at + __GROUP && __n < ${#__lines[@]}; __n++)); do
            __l=${__lines[__n]}
            cd "$__TOP/${__l%%:*}" || exit
            eval -- "${__l#*:}"
            __log __done
            (( __GROUP > 1 )) || exit
            unset NAMES
        done
    ) < /dev/null > /dev/null 2>&1
done
"""
_READ_ONLY = "shared"
_TOGETHER = 25
_REFUSED = re.compile(rb"(\d+):\d+: ")


class Outcome(Value):
    """What a line did: what it ran, each with its folder and words, and the files that it made."""

    ran: tuple[tuple[str, tuple[str, ...]], ...]
    made: frozenset[str]


def run_lines(lines: Sequence[Line], folder: Path) -> list[Outcome]:
    """Run lines by the real bash, as if each were alone."""
    homes = [_home_of(n, line.text) for n, line in enumerate(lines)]
    for home in dict.fromkeys(homes):
        (folder / home / "sub").mkdir(parents=True)
        for name, text in _CONTENTS.items():
            (folder / home / name).write_text(text)
    (folder / "home").mkdir()
    plain = [n for n, line in enumerate(lines) if line.plain]
    ran = _run({n: (homes[n], lines[n].text) for n in plain}, folder, _TOGETHER)
    rest = [n for n in range(len(lines)) if (str(folder / homes[n]), ("__done",)) not in ran.get(n, ())]
    ran |= _run({n: (homes[n], lines[n].text) for n in rest}, folder, 1)
    found = [
        Outcome(tuple(r for r in ran.get(n, ()) if r[1] != ("__done",)), _made(folder / home))
        for n, home in enumerate(homes)
    ]
    for home in set(homes):
        shutil.rmtree(folder / home)
    return found


def _home_of(number: int, line: str) -> str:
    return str(number) if ">" in line else _READ_ONLY


_Runs = list[tuple[str, tuple[str, ...]]]


def _run(lines: Mapping[int, tuple[str, str]], folder: Path, group: int) -> dict[int, _Runs]:
    """What lines run, by their numbers. lines: the folder and the text of each."""
    (folder / "lines").write_bytes(b"".join(f"{home}:{text}\0".encode() for home, text in lines.values()))
    log = folder / "log"
    log.write_bytes(b"")
    env = {
        "PATH": str(folder / "none"), "HOME": str(folder / "home"), "FUNCNEST": "8", "LC_ALL": "C.UTF-8",
        "__LOG": str(log), "__LINES": str(folder / "lines"), "__TOP": str(folder), "__GROUP": str(group),
    }  # fmt: skip
    bash = ["/bin/bash", "--noprofile", "--norc", "-c", _RUNNER.replace("NAMES", " ".join(VARIABLES))]
    ear, mouth = os.pipe()
    with subprocess.Popen(bash, cwd=folder, env=env, stdin=subprocess.DEVNULL, pass_fds=(mouth,)) as process:
        os.close(mouth)
        process.wait(_SECONDS)
        # The pipe ends with the last process that has it.
        os.read(ear, 1)
        os.close(ear)
    numbers = list(lines)
    ran: dict[int, _Runs] = {}
    for record in log.read_bytes().split(b"\0__end\0"):
        place, *rest = record.decode("utf-8", "surrogateescape").split("\0")
        if rest:
            words = tuple(word.replace("\2", "\n") for word in rest[1:])
            ran.setdefault(numbers[int(place)], []).append((os.path.realpath(rest[0]), words))
    return ran


def _made(home: Path) -> frozenset[str]:
    """The files that were not there before."""
    if home.name == _READ_ONLY:
        return frozenset()
    found = {os.path.join(here, name) for here, _, names in os.walk(home) for name in names}
    return frozenset(found - {f"{home}/{name}" for name in _CONTENTS})


def analyse_lines(lines: Sequence[str], cwds: Sequence[str], home: str) -> Iterator[Analysis]:
    """The analysis of each line, in its folder."""
    trees = dict(_parsed(list(dict.fromkeys(lines))))

    def cached(command: str, dialect: str = "bash") -> dict[str, Any]:
        tree = trees.get(command)
        return tree if tree is not None else shell_parse_tree(command, dialect)

    shell_parse_tree = parser.run_shfmt
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parser, "run_shfmt", cached)
        for line, cwd in zip(lines, cwds, strict=True):
            yield analyse(line, cwd, home)


def _parsed(lines: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The trees of lines that one call of the parser makes: of those that mean the same by themselves."""
    # A comment belongs to the text around it.
    lines = [line for line in lines if not ("#" in line and "\\\n" in line)]
    for start in range(0, len(lines), 64):
        yield from _parsed_together(lines[start : start + 64])


def _parsed_together(lines: list[str]) -> list[tuple[str, dict[str, Any]]]:
    shfmt = parser.find_shfmt()
    assert shfmt is not None
    while lines:
        # A null command stands between the lines, so that none can join with its neighbour unseen.
        text = "".join(f"{line}\n:\n" for line in lines)
        done = subprocess.run([shfmt, "-ln=bash", "--to-json"], input=text.encode(), capture_output=True, check=False)
        if place := _REFUSED.match(done.stderr):
            ends = accumulate(line.count("\n") + 2 for line in lines)
            bad = next(n for n, end in enumerate(ends) if int(place[1]) <= end)
        else:
            try:
                return _told_apart(lines, json.loads(done.stdout)["Stmts"])
            except LookupError as error:
                bad = lines.index(error.args[0])
        # One that is not valid, or not by itself, is parsed alone.
        lines = lines[:bad] + lines[bad + 1 :]
    return []


def _told_apart(lines: list[str], statements: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Each line with its own statements. Raises LookupError where one reaches over the end of its line."""
    found, at, queue = [], 0, list(statements)
    for line in lines:
        end = at + len(line.encode())
        own = []
        while queue and queue[0]["Pos"]["Offset"] < end:
            own.append(queue.pop(0))
        if any(s["End"]["Offset"] > end for s in own) or queue.pop(0)["Pos"]["Offset"] != end + 1:
            raise LookupError(line)
        _move(own, at)
        found.append((line, {"Type": "File", "Stmts": own}))
        at = end + 3
    return found


def _move(tree: list[Any], by: int) -> None:
    """Count all offsets in a tree from a later beginning."""
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
            continue
        for value in node.values():
            if isinstance(value, dict):
                if isinstance(value.get("Offset"), int):
                    value["Offset"] -= by
                else:
                    waiting.append(value)
            elif isinstance(value, list):
                waiting += value


def differences(lines: Sequence[Line], folder: Path) -> list[str]:
    """Where the gate is certain of a line, and bash does something else."""
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = run_lines(lines, folder)
    texts = [line.text for line in lines]
    cwds = [str(folder / _home_of(n, text)) for n, text in enumerate(texts)]
    analyses = analyse_lines(texts, cwds, str(folder / "home"))
    wrong = []
    for line, outcome, analysis in zip(texts, outcomes, analyses, strict=True):
        # What runs others unseen is said, and asked about wherever it matters.
        if analysis.unclear or any(part.hides for part in analysis.parts):
            continue
        wrong += [f"{line!r}: {w} is named by no part" for c, w in outcome.ran if not is_named(c, w, analysis)]
        wrong += [f"{line!r}: nothing says that {m} is written" for m in outcome.made if not _is_written(m, analysis)]
    return wrong


def is_named(cwd: str, words: tuple[str, ...], analysis: Analysis) -> bool:
    """Whether a part of the analysis says that this program may run, with these words and there."""
    return any(_matches_pattern(cwd, words, part) for part in analysis.parts)


def _matches_pattern(cwd: str, words: tuple[str, ...], part: SimpleCommand) -> bool:
    if part.cwds is not None and cwd not in {os.path.realpath(c) for c in part.cwds}:
        return False
    if part.why or not part.words or part.words[0].why:
        return part.unknown != ""
    pattern = "\0".join(as_pattern(word) for word in part.words)
    # An unknown word may also become none.
    pattern = pattern.replace("\0(?:.*)", "(?:\0.*)?").replace("(?:.*)\0", "(?:.*\0)?")
    return re.fullmatch(pattern, "\0".join(words), re.DOTALL) is not None


def as_pattern(word: Word) -> str:
    """What a word may be: anything where it is not known, or a pattern for names of files."""
    if word.why or word.pattern:
        return "(?:.*)"
    if word.number:
        return ".*"
    return re.sub(r"/dev/fd/63", r"/dev/fd/\\d+", re.escape(word.text))


def _is_written(path: str, analysis: Analysis) -> bool:
    for part in analysis.parts:
        if part.why:
            return True
        for redirect in part.redirects:
            if redirect.kind in ("write", "append"):
                if redirect.why or part.cwds is None:
                    return True
                if any(os.path.realpath(os.path.join(c, redirect.target)) == path for c in part.cwds):
                    return True
    return False

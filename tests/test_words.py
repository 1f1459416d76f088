"""The words of everything that a user or a model reads: plain English, and none of the idiom that this program had."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, cast

import pytest

from agent_cli.cli.run_options import flags
from agent_cli.config.reference import reference
from tests.support.every_command import COMMANDS
from tests.support.program import ROOT
from tests.support.program_files import nodes
from tests.support.translated import AREAS, Text, find, find_in, messages

# Folders of the program whose messages are checked; LATER are those that are still being rewritten.
CHECKED = ("agent_cli", "tools/agent_tools")
LATER: tuple[str, ...] = ()
PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "prompts").rglob("*.md")),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
]
# What must not come back, and what to write.
BANNED = {
    r"\b(go|goes|going|went|gone) on with\b": "continue, resume",
    r"\b(it|turn|session|conversation|agent|model|run|work|program|process) goes on\b": "continues",
    r"\b(take|takes|taken|took|taking)( \w+)? back\b": "undo, revert, withdraw",
    r"\bthe person\b": "the user",
    r"\bpersons?\b": "user",
    r"\bshall\b": "should, must",
    r"(?<!-)\bblanks\b": "spaces",
    r"\b(is|are|was|were|be|been) told\b": "gets, learns, is shown",
    r"\bkept\b(?! as a prefix|\")": "stored, saved, stays",
    r"\bas far as (is known|can be told|\w+ tells?)\b": "not known to",
    r"\bwhoever\b": "anyone who",
    r"\bis said\b": "is reported",
    r"\bof (its|their) own\b": "its own, separate",
    r"\ba yes\b": "approval",
    r"\bmade again\b": "re-created",
    r"\b(let|lets) (it|them) be\b": "leave",
    r"\bwhether it does is for\b": "decides",
    r"\bbeside the (conversation|workspace)\b": "in addition to, outside",
    r"\banew\b": "again",
    r"\b(stands|stand) (there )?twice\b": "is set twice",
    r"\bNever (is|are|was|does|do|has) ": "plain word order",
    r"\bthere is no such\b": "unknown",
    r"\bThere is no /": "Unknown command /",
    r"\bis none of [A-Z{]": "is not one of",
    r"\bput back\b": "restore",
    r"\bwants? a login\b": "needs a login",
}
_FOUND = re.compile("|".join(f"(?:{pattern})" for pattern in BANNED), re.IGNORECASE)


def banned_in(text: str) -> list[str]:
    return [match[0] for match in _FOUND.finditer(text)]


def program_files() -> list[Path]:
    every = [path for folder in CHECKED for path in sorted((ROOT / folder).rglob("*.py"))]
    return [p for p in every if not p.relative_to(ROOT).as_posix().startswith(LATER)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_are_in_plain_english(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    assert not [(n, found) for n, line in enumerate(lines, 1) if (found := banned_in(line))]


def test_messages_are_in_plain_english() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {found} in {text[:100]!r}"
        for path in program_files()
        for line, text in messages(path)
        if (found := banned_in(text))
    ]
    assert not wrong, "\n".join(wrong)


# Names of numbers at the top of a module: with a unit, or with what is limited or assumed.
_NUMBER_NAME = re.compile(
    r"_(S|SECONDS|MS|NS|BYTES|CHARS|LINES|TOKENS|ROWS|CELLS|COLUMNS|WIDTH|MB|USD|DAYS|SIZE|SHARE|RATIO|PIXELS|FACTOR"
    r"|VERSION|CODE|DIVISOR|FLAG|MODE|INDEX|NUMBER|PORT|COLOR|CAPABILITIES|PARAMETERS)$"
    r"|(^|_)(MAX|MIN)_|^_?(DEFAULT|ASSUMED|NEWEST|REQUESTED)_|_PER_|_BELOW$|^_?(NO_LIMIT|VERSION|NICENESS)$"
)
# Numbers of the kernel and of protocols, under their names there; and counts whose name says enough.
_OTHER_NUMBERS = frozenset(
    "_AT_FDCWD _SET_DUMPABLE _X32 _CAPABILITIES_V3 _SERVER_NAME _GREY_DIFFERENCE _PARALLEL_SUBAGENTS".split()
)


def _is_number(node: ast.expr | None) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def test_constants_say_their_unit() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {target.id}"
        for path in program_files()
        for node in cast(ast.Module, nodes(path)[0]).body
        if isinstance(node, ast.Assign) and _is_number(node.value)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id not in _OTHER_NUMBERS and not _NUMBER_NAME.search(target.id)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", COMMANDS)
def test_help_is_in_plain_english(path: str) -> None:
    command: Any = COMMANDS[path]
    texts = [command.help, command.epilog or "", *(getattr(p, "help", None) or "" for p in command.params)]
    assert not [found for text in texts if (found := banned_in(text))]


def test_settings_and_options_are_in_plain_english() -> None:
    assert not [found for flag, _ in flags().values() if (found := banned_in(flag.help))]
    lines = reference().splitlines()
    assert len(lines) > 100
    assert not [line for line in lines if banned_in(line)]


@pytest.mark.parametrize(
    "text",
    ["it goes on with the turn", "Take it back", "Settings that are told", "three blanks", "Whoever reads", "is kept"],
)
def test_the_old_idiom_is_noticed(text: str) -> None:
    assert banned_in(text)


@pytest.mark.parametrize("text", ["The session continues.", "one blank line", "Undo it", "your own settings"])
def test_plain_english_is_not(text: str) -> None:
    assert not banned_in(text)


# How many places of each area may read as translated (`python -m tests.support.translated`). A number here may only
# fall: who rewrites a text lowers it.
CEILINGS = {"documents": 2, "help": 0, "messages": 11, "prompts": 3, "web page": 2}


@pytest.mark.parametrize("area", AREAS)
def test_what_reads_as_translated_does_not_grow(area: str) -> None:
    found = find_in(area)
    places = "\n".join(f"{m.text.page}:{m.text.line}: {m.pattern}: {m.around}" for m in found)
    assert len(found) <= CEILINGS[area], f"{len(found)} places, of which {CEILINGS[area]} were there before:\n{places}"


@pytest.mark.parametrize(
    "text",
    [
        "What no rule allows is denied.", "It is written to the log, too.", "Those of a project apply later.",
        "Ask where there is no sandbox.", "You are asked about it.", "The name stands in the first line.",
    ],
)  # fmt: skip
def test_a_sentence_that_reads_as_translated_is_found(text: str) -> None:
    assert find(Text("page", 1, text))


@pytest.mark.parametrize(
    "text", ["Calls that no rule allows are denied.", "The count of lines", "Run `agent doctor` to check your setup."]
)
def test_a_plain_sentence_is_not_found(text: str) -> None:
    assert not find(Text("page", 1, text))

"""Lines by chance, run by the real bash: nothing runs that the analysis did not name, and nothing that was not allowed.

`make fuzz` runs many more. FUZZ_LINES says how many, FUZZ_SEED which.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from random import Random

import pytest

from agent_cli.kernel.decisions import Level
from agent_cli.kernel.rules import read_rule
from agent_cli.policy.policy import Policy
from agent_cli.policy.shell.analysis import analyse
from agent_cli.policy.shell.words import Analysis, SimpleCommand, Word
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from tests.policy.marker_programs import Place, Ran
from tests.policy.random_line_parts import READERS, SPECIAL
from tests.policy.random_lines import Grammar

LINES = int(os.environ.get("FUZZ_LINES", "250"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
AT_ONCE = 500
# What no rule is needed for, and those whose rules the gate below has.
FREE = {*READERS, *SPECIAL}


class Gate:
    """The decisions about a line under three sets of rules."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def level(self, line: str, mode: str = "default", **lists: tuple[str, ...]) -> Level:
        rules = [read_rule(k, t, "test", self._place.work) for k, texts in lists.items() for t in texts]  # type: ignore[arg-type]
        policy = Policy(
            Workspace(self._place.work, home=str(self._place.home)),
            rules,
            mode,  # type: ignore[arg-type]
            home=str(self._place.home),
            env={"PATH": str(self._place.bin), "FUNCNEST": "8"},
        )
        return policy.decide("Bash", [Effect("run", line)]).level


def findings(line: str, place: Place) -> list[str]:
    """What is wrong with the analysis of a line and the decisions about it, after running it."""
    analysis = analyse(line, str(place.work), str(place.home))
    gate = Gate(place)
    free = tuple(f"Bash({name}:*)" for name in SPECIAL)
    alone = gate.level(line, allow=free) is Level.ALLOW
    guarded = gate.level(line, allow=("Bash",), deny=("Bash(wipe:*)",)) is Level.ALLOW
    writing = gate.level(line, "acceptEdits", allow=free) is Level.ALLOW
    # What a script does is not part of a command line.
    scripts = any(p.program in ("bash", "sh") for p in analysis.parts)
    if scripts or (not (alone or guarded or writing) and analysis.unknown):
        return []
    try:
        ran = place.run(line)
    except subprocess.TimeoutExpired:
        place.changes()
        return []
    changed = place.changes()
    wrong = []
    if not analysis.unknown:
        wrong += [f"{run.words} in {run.cwd} is named by no part" for run in ran if not named(run, analysis)]
    if alone and (others := [run.words for run in ran if run.words[0] not in FREE]):
        wrong.append(f"allowed without a rule, and ran {others}")
    if alone and changed:
        wrong.append(f"allowed without a rule, and changed {changed}")
    if writing and (outside := [c for c in changed if not c.startswith(f"{place.work}/")]):
        wrong.append(f"allowed in acceptEdits, and changed {outside}")
    if guarded and (denied := [run.words for run in ran if run.words[0] == "wipe"]):
        wrong.append(f"allowed although wipe is denied, and ran {denied}")
    return wrong


def named(run: Ran, analysis: Analysis) -> bool:
    """Whether a part of the analysis says that this program may run, with these words and there."""
    return any(_is_named(run, part) for part in analysis.parts)


def _is_named(run: Ran, part: SimpleCommand) -> bool:
    if not part.words or os.path.basename(part.words[0].text) != run.words[0]:
        return False
    if part.cwds is not None and run.cwd not in {os.path.realpath(c) for c in part.cwds}:
        return False
    pattern = "\0".join(_as_pattern(word) for word in part.words[1:])
    return re.fullmatch(pattern, "\0".join(run.words[1:]), re.DOTALL) is not None


def _as_pattern(word: Word) -> str:
    if word.pattern:
        return ".*"
    return re.sub(r"/dev/fd/63", r"/dev/fd/\\d+", re.escape(word.text)) if not word.number else ".*"


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range((LINES + AT_ONCE - 1) // AT_ONCE))
def test_nothing_runs_that_was_not_named(tmp_path: Path, chunk: int) -> None:
    place = Place(tmp_path)
    grammar = Grammar(Random(f"{SEED}/{chunk}"))
    wrong = []
    for _ in range(min(AT_ONCE, LINES - chunk * AT_ONCE)):
        line = grammar.line()
        wrong += [f"{line!r}: {finding}" for finding in findings(line, place)]
    assert not wrong, "\n".join(wrong)

"""The corpus: every command line in it is decided as its table says.

That an allow rule takes nothing away is tried with each fifth line, in one of the modes; `make fuzz` (FUZZ_LINES above
10,000) tries all in all.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from agent_cli.kernel.rules import RuleError
from tests.policy.corpus import everyday
from tests.policy.corpus.place import build, decide
from tests.policy.corpus.tables import CASES

ALL = int(os.environ.get("FUZZ_LINES", "0")) > 10_000
MODES = ("default", "plan", "acceptEdits", "dontAsk", "bypassPermissions")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("kind", sorted({c.kind for c in CASES}))
def test_every_case_is_decided_as_its_table_says(root: Path, kind: str) -> None:
    wrong = []
    for case in CASES:
        if case.kind == kind:
            decision = decide(case, root)
            if decision.level.name.lower() != case.expected:
                wrong.append(f"{case.name}, not {decision.level.name.lower()}: {decision.reason}")
    assert not wrong, "\n".join(wrong)


def test_the_corpus_is_large_and_says_nothing_twice() -> None:
    assert len(CASES) >= 2_500
    assert sum(c.expected == "allow" and not c.allow and c.mode == "default" for c in everyday.CASES) >= 300
    twice = [case.name for case, count in Counter(CASES).items() if count > 1]
    assert not twice, twice


@pytest.mark.parametrize("mode", MODES)
def test_an_allow_rule_never_takes_something_away(root: Path, mode: str) -> None:
    stricter = []
    cases = [c for c in CASES if c.mode == "default"]
    for case in cases if ALL else cases[5 * MODES.index(mode) :: 25]:
        if case.command.strip():
            case = case.replace(mode=mode)
            without = decide(case, root)
            for rule in (("Bash",), (f"Bash({case.command.split(' ')[0]}:*)",)):
                try:
                    ruled = decide(case.replace(allow=(*case.allow, *rule)), root)
                except RuleError:
                    continue
                if ruled.level > without.level:
                    stricter.append(f"{case.name} with {rule}: {ruled.reason}")
    assert not stricter, "\n".join(stricter)

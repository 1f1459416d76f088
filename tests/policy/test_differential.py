"""The gate's reading of words against the installed bash: where the gate is certain, bash agrees.

`make fuzz` compares more. FUZZ_LINES says how many lines, FUZZ_SEED which.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from tests.policy.bash_differences import differences
from tests.policy.random_word_lines import WordLines

LINES = int(os.environ.get("FUZZ_LINES", "2000"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
AT_ONCE = 2000


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range((LINES + AT_ONCE - 1) // AT_ONCE))
def test_bash_makes_of_words_what_the_gate_says(tmp_path: Path, chunk: int) -> None:
    words = WordLines(Random(f"{SEED}/{chunk}"))
    lines = [words.line() for _ in range(min(AT_ONCE, LINES - chunk * AT_ONCE))]
    wrong = differences(lines, tmp_path / "run")
    assert not wrong, f"{len(wrong)} differences:\n" + "\n".join(wrong[:60])

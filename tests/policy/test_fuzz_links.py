"""Lines by chance about links, run by bash and git in a tree: what runs unasked shows and changes nothing it may not.

`make fuzz` runs many more. FUZZ_LINES says how many: a tenth of them of each kind, for git takes its time.
FUZZ_SEED says which.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from agent_cli.kernel.decisions import Level
from tests.policy.random_tree_lines import TreeLines
from tests.policy.scratch_tree import KEPT, ScratchTree

LINES = int(os.environ.get("FUZZ_LINES", "1000")) // 10
SEED = int(os.environ.get("FUZZ_SEED", "1"))
AT_ONCE = 500


def _leaks(tree: ScratchTree, line: str, mode: str, rules: tuple[str, ...]) -> str:
    """What a line did that it may not without a question; "" if nothing."""
    if tree.level(line, mode, rules) is not Level.ALLOW:
        return ""
    seen = tree.run(line)
    # By a rule for all commands, and in this mode, what is outside and no secret may be read and written, not removed.
    wide = "Bash" in rules or mode == "bypassPermissions"
    shown = [mark for mark in seen.shown if not wide or mark in KEPT.values()]
    wrong = [f"showed {shown}"] if shown else []
    changed = [name for name in seen.changed if not wide or name in seen.gone]
    wrong += [f"changed {changed}"] if changed else []
    return f"{line!r} in {mode} with {', '.join(rules)} {' and '.join(wrong)}" if wrong else ""


def _chunks() -> range:
    return range((LINES + AT_ONCE - 1) // AT_ONCE)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", _chunks())
def test_no_part_goes_unasked_through_what_an_earlier_one_changed(tmp_path: Path, chunk: int) -> None:
    tree, chance = ScratchTree(tmp_path), Random(f"{SEED}/{chunk}")
    lines, leaks = TreeLines(chance), []
    for _ in range(min(AT_ONCE, LINES - chunk * AT_ONCE)):
        line = lines.changing()
        leaks.append(_leaks(tree, line, chance.choice(("default", "acceptEdits")), lines.rules(line)))
    assert not any(leaks), "\n".join(filter(None, leaks))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", _chunks())
def test_nothing_outside_is_changed_unasked_through_a_link(tmp_path: Path, chunk: int) -> None:
    tree, chance = ScratchTree(tmp_path), Random(f"{SEED}/{chunk}")
    lines, leaks = TreeLines(chance), []
    for _ in range(min(AT_ONCE, LINES - chunk * AT_ONCE)):
        line = lines.through()
        leaks.append(_leaks(tree, line, chance.choice(("default", "bypassPermissions")), lines.rules(line)))
    assert not any(leaks), "\n".join(filter(None, leaks))

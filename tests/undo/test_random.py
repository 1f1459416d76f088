"""By chance: what an undo puts back is what was there, in bytes, permissions and links; what it does not, it says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.file_trees import tree_of
from tests.undo.random_sessions import LIMIT, Play

# `make undo-fuzz` runs 500.
SEQUENCES = int(os.environ.get("UNDO_SEQUENCES", "8"))
SEED = int(os.environ.get("UNDO_SEED", "1"))


@pytest.mark.parametrize("seed", range(SEED, SEED + SEQUENCES))
def test_a_sequence_is_undone_or_the_difference_is_listed(tmp_path: Path, seed: int) -> None:
    play = Play(tmp_path, seed, repository=seed % 3 != 0)
    standing: list[int] = []
    for number in range(1, 5):
        play.turn(number)
        standing.append(number)
        if play.random.random() < 0.4:
            play.person()
        if play.random.random() < 0.5:
            undo_latest(play, standing)
    while standing:
        undo_latest(play, standing)


def undo_latest(play: Play, standing: list[int]) -> None:
    number = standing.pop()
    pre = tree_of(play.root)
    plan = play.undoing.plan([number])
    listed = {i.path for i in plan.of("ask", "lost")}
    failed = play.undoing.undo([number], plan.of("ready"))
    post = tree_of(play.root)
    truth = play.combined_changes(number)
    for path in pre.keys() | post.keys() | truth.keys():
        if path in listed or path in failed:
            assert post.get(path) == pre.get(path), f"{path} was listed, and changed all the same"
        elif path not in truth:
            assert post.get(path) == pre.get(path) or under(path, truth) or is_ignored(path), f"{path} was not touched"
        elif post.get(path) != truth[path][0]:
            noted = any("ignored by git" in note for note in plan.notes)
            assert is_ignored(path) and (noted or path not in pre), f"{path} is not as it was, and nothing said so"
    # And it is not afraid without a reason.
    for item in plan.of("ask", "lost"):
        first, last, between = truth.get(item.path, (None, None, True))
        large = is_ignored(item.path) or any(isinstance(s, tuple) and len(s[2]) > LIMIT for s in (first, last))
        # Where a folder changed places with a link more than once, it is listed rather than followed.
        large = large or "is a link now" in item.why
        moved = pre.get(item.path) != last or between or number in play.torn or large
        assert moved, f"{item.path} could have been put back: {item.why}"


def is_ignored(path: str) -> bool:
    """What is ignored is only kept where a call names it, and may be changed by one that does not."""
    return "/ignored/" in path or ".log" in path


def under(path: str, truth: dict[str, tuple[object, object, bool]]) -> bool:
    """Whether a folder's worth of files had to give way, or came back, because a path above it was touched."""
    return any(path.startswith(f"{other}/") for other in truth)

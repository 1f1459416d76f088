"""Snapshots and a clock that jumps: nothing is pruned before its time, and pruning does not stop."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agent_cli.undo.prune import DAY_SECONDS, MAX_STEP_SECONDS, IdleTimes, is_due, prune
from tests.support.undo_sessions import Session

DAYS, MOST = 14, 10**9


@pytest.fixture
def session(root: Path) -> Session:
    made = Session(root)
    made.run("echo changed > a.txt")
    return made


def steps_after(session: Session, *days: float) -> bool:
    """Whether the work can still be undone after the program looked at these days from now."""
    now = time.time()
    for day in days:
        prune(session.work.store, DAYS, MOST, now + day * DAY_SECONDS)
    return bool(session.work.steps())


@pytest.mark.parametrize("jump", [15, 400, 40_000])
def test_a_clock_that_jumps_forward_prunes_nothing(session: Session, jump: float) -> None:
    assert steps_after(session, 0, jump), "at once"
    assert steps_after(session, jump + 1), "nor while it stays wrong"
    assert steps_after(session, 1, 2), "nor once it is right again"
    assert session.undo()[0] == []


def test_a_clock_that_is_wrong_at_the_first_look_prunes_nothing(session: Session) -> None:
    assert steps_after(session, 400)


def test_another_projects_snapshots_are_not_pruned_by_a_jump_either(session: Session, tmp_path: Path) -> None:
    other = session.where.folder.parent / "other"
    (other / "sessions").mkdir(parents=True)
    (other / "sessions/s.records").write_text("")
    assert steps_after(session, 0, 400) and other.exists()
    steps_after(session, *range(400, 400 + DAYS + 2))
    assert not other.exists(), "but once nobody worked there for so long"


def test_pruning_goes_on_after_a_clock_that_was_ahead(session: Session) -> None:
    folder, now = session.where.folder, time.time()
    prune(session.work.store, DAYS, MOST, now)
    assert (
        not is_due(folder, MOST, now)
        and is_due(folder, MOST, now - 400 * DAY_SECONDS)
        and is_due(folder, MOST, now + 2 * DAY_SECONDS)
    )
    assert not steps_after(session, 400, *range(DAYS + 2)), "days of use count from where the clock is"


def test_ages_grow_by_a_bound_and_start_anew_with_a_change_or_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "ages"

    def age(now: float, changed: float) -> float:
        idle = IdleTimes(path, now)
        found = idle.seconds("x", changed)
        idle.save(["x"])
        return found

    assert [age(1000, 5), age(1010, 5), age(10**9, 5), age(20, 5)] == [
        0,
        10,
        10 + MAX_STEP_SECONDS,
        10 + MAX_STEP_SECONDS,
    ]
    assert [age(30, 6), age(31, 6)] == [0, 1]
    for damaged in ("", "[]", '{"lived": 1}', '{"lived": 1, "at": 0, "seen": {"x": 3}}', "[" * 10_000):
        path.write_text(damaged)
        assert age(10**9, 6) == 0

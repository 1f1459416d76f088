"""The tick with a clock of its own: each time once, what waits, budgets, the clock set back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli import UsageError
from agent_cli.extras.schedules.tick import MAX_ATTEMPTS
from agent_cli.extras.schedules.times import last_time
from agent_cli.kernel.session.schedules import ScheduleStep, waiting_sessions
from agent_tools.text import utc_stamp
from tests.support.hypothesis_examples import examples
from tests.support.schedules import Machine, utc


def test_each_time_starts_one_run(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    daily = machine.add("day 9:00")
    assert machine.at("2026-11-28 08:59") == []
    assert machine.at("2026-11-28 09:00") == ["the run of 2026-11-28 09:00 was started."]
    for minute in ("01", "02", "30"):
        assert machine.at(f"2026-11-28 09:{minute}") == []
    machine.at("2026-11-29 09:00")
    assert machine.claimed(daily) == ["11-28T09:00", "11-29T09:00"]
    assert [run.why for run in machine.runs(daily)] == ["done", ""]
    words = machine.started[0]
    assert {"-p", "--on-ask=suspend", f"--schedule={daily.id}"} <= set(words)
    assert words[-2:] == ["--", "do it"]


def test_what_was_missed_runs_once_and_late_or_not_at_all(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    once, skip = machine.add("day 9:00"), machine.add("day 9:00", missed="skip")
    machine.at("2026-12-02 18:00")
    assert machine.claimed(once) == ["12-02T09:00"]
    assert [(run.at[5:16], run.step, run.why) for run in machine.runs(skip)] == [
        ("12-02T09:00", "skipped", "the time was missed")
    ]
    machine.at("2026-12-03 09:09")  # late, but not missed
    assert machine.claimed(once)[1:] == machine.claimed(skip) == ["12-03T09:00"]


def test_no_run_starts_while_one_waits(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    hourly = machine.add("hour")
    machine.does = lambda machine, log: machine.session(log, "Suspended")
    machine.at("2026-11-27 13:00")
    session = machine.runs(hourly)[0].session_id
    log = machine.store.session(hourly, session).path
    assert machine.at("2026-11-27 14:00") == [
        f"the run of 2026-11-27 14:00 was skipped: session {session[:8]} waits for you."
    ]
    assert [(schedule.id, waits) for schedule, waits in waiting_sessions(machine.state)] == [(hourly.id, session)]
    with pytest.raises(UsageError, match="waits for you"):
        machine.schedules.run_now(hourly)
    log.unlink()
    machine.does = lambda machine, log: machine.session(log)
    machine.session(log)  # decided, and done
    machine.at("2026-11-27 15:00")
    assert machine.claimed(hourly) == ["11-27T13:00", "11-27T15:00"]
    assert waiting_sessions(machine.state) == []


def test_a_run_that_did_not_begin_is_tried_again_and_then_given_up(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    daily = machine.add("day 9:00")
    machine.does = lambda machine, log: None
    for minute in range(6):
        machine.at(f"2026-11-28 09:0{minute}")
    assert len(machine.started) == MAX_ATTEMPTS
    assert len({word for words in machine.started for word in words if "session-id" in word}) == MAX_ATTEMPTS
    assert [(run.step, run.why) for run in machine.runs(daily)] == [("ended", "did not begin: it printed nothing")]
    machine.does = lambda machine, log: machine.session(log)
    machine.at("2026-11-29 09:00")
    assert machine.claimed(daily)[1:] == ["11-29T09:00"]


def test_a_run_that_broke_off_is_resumed(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    daily = machine.add("day 9:00")
    machine.does = lambda machine, log: machine.session(log, "")
    machine.at("2026-11-28 09:00")
    session = machine.runs(daily)[0].session_id
    machine.does = lambda machine, log: None
    machine.at("2026-11-28 09:01")
    assert machine.started[1:] == [["resume", session]]
    machine.at("2026-11-28 09:02")
    machine.at("2026-11-28 09:03")
    assert [(run.why, run.attempts) for run in machine.runs(daily)] == [("broke off", MAX_ATTEMPTS)]


def test_a_session_that_was_removed_does_not_run_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    daily = machine.add("day 9:00")
    machine.does = lambda machine, log: machine.session(log, "Suspended")
    machine.at("2026-11-28 09:00")
    machine.at("2026-11-28 09:01")
    machine.store.session(daily, machine.runs(daily)[0].session_id).path.unlink()
    machine.at("2026-11-28 09:02")
    assert [(run.step, run.why, run.attempts) for run in machine.runs(daily)] == [
        ("ended", "its session was removed", 1)
    ]


def test_the_budget_is_that_of_the_day_in_the_zone_of_the_schedule(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "2026-11-27 22:30")
    hourly = machine.add("hour", "Europe/Berlin", budget=1.0)
    machine.cost = 0.7
    machine.at("2026-11-27 23:00")  # midnight in Berlin
    machine.at("2026-11-28 00:00")
    assert "--max-budget-usd=0.300000000" in machine.started[1]
    assert machine.at("2026-11-28 01:00") == [
        "the run of 2026-11-28 02:00 was skipped: the budget of this day, $1.00, is spent."
    ]
    machine.at("2026-11-28 23:00")  # the next day
    assert machine.claimed(hourly) == ["11-27T23:00", "11-28T00:00", "11-28T23:00"]


def test_a_pause_is_not_missed(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    daily = machine.add("day 9:00")
    paused = machine.store.pause(daily, machine.now, paused=True)
    assert machine.at("2026-11-28 09:00") == []
    machine.now = utc("2026-11-29 10:00")
    machine.store.pause(paused, machine.now, paused=False)
    assert machine.at("2026-11-29 10:01") == []
    machine.at("2026-11-30 09:00")
    assert machine.claimed(daily) == ["11-30T09:00"]


def test_runs_by_hand_are_beside_the_times(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "2026-11-28 09:00")
    machine.now -= timedelta(minutes=1)
    daily = machine.add("day 9:00")
    machine.now = utc("2026-11-28 09:00")
    machine.schedules.run_now(daily)
    machine.at("2026-11-28 09:00")
    assert machine.claimed(daily) == ["11-28T09:00", "11-28T09:00"]
    assert [run.by_hand for run in machine.runs(daily)] == [True, False]


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.add("hour")
    machine.work.rmdir()
    said = machine.at("2026-11-27 13:00")
    assert said == [f"the run of 2026-11-27 13:00 was skipped: the folder {machine.work} no longer exists."]


def test_a_schedule_that_was_created_with_a_clock_ahead_runs_when_it_is_right(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "2031-01-01 00:00")
    hourly = machine.add("hour")
    machine.at("2026-11-27 12:30")
    machine.at("2026-11-27 13:00")
    assert machine.claimed(hourly) == ["11-27T13:00"]


def test_a_long_log_of_runs_is_shortened(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    hourly = machine.add("hour")
    path = machine.store.folder / hourly.id / "runs.jsonl"
    moment = utc("2024-01-01")
    machine.runs(hourly)
    line = ScheduleStep(utc_stamp(moment.timestamp()), "skipped", utc_stamp(moment.timestamp()), why="x" * 3_000)
    machine.store.record(hourly.id, line)
    path.write_bytes(path.read_bytes() * 1_000)
    machine.at("2026-11-27 13:00")
    assert path.stat().st_size < 2 << 20
    assert machine.claimed(hourly) == ["11-27T13:00"]


ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC")
SPECS = ("30 2 * * *", "*/30 * * * *", "0 */2 * * *", "15,45 1-3 * * *", "0 9 29 2 *", "hour")
STARTS = ("2026-03-28 12:00", "2026-10-24 12:00", "2026-04-04 06:00", "2026-10-31 20:00", "2028-02-28 20:00")


@settings(max_examples=examples(25), deadline=None)
@given(
    st.sampled_from(ZONES),
    st.sampled_from(SPECS),
    st.sampled_from(STARTS),
    st.lists(st.sampled_from((1, 1, 1, 7, 30, 45, 90, 180, 720, -3, -45, -70, -1500)), min_size=5, max_size=40),
)
def test_none_comes_twice_and_none_is_lost(
    tmp_path_factory: pytest.TempPathFactory, zone: str, spec: str, start: str, steps: list[int]
) -> None:
    """Over changes of summer time, with gaps in which the machine is off, and a clock that is set back."""
    machine = Machine(tmp_path_factory.mktemp("machine"), start)
    schedule = machine.add(spec, zone)
    high = created = machine.now
    for step in steps:
        before = machine.now
        machine.now += timedelta(minutes=step)
        machine.schedules.tick()
        claimed = [run.at for run in machine.runs(schedule)]
        assert len(claimed) == len(set(claimed)) == len(machine.started)
        due = last_time(schedule.cron, zone, max(before, created), machine.now) if step > 0 else None
        if due is not None and due > high:  # the latest one of a gap; earlier ones are covered by it
            assert utc_stamp(due.timestamp()) in claimed
        high = max(high, machine.now)
    for at in claimed:
        moment = utc(at[:16].replace("T", " "))
        assert last_time(schedule.cron, zone, moment - timedelta(minutes=1), moment) == moment

"""The times of schedules: changes of summer time, leap days, words, zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli import UsageError
from agent_cli.extras.schedules.times import last_time, machine_zone, next_time, read_spec
from tests.support.hypothesis_examples import examples
from tests.support.schedules import utc

MINUTE = timedelta(minutes=1)
# Days of a change, or the one before, in each zone.
CHANGES = {
    "Europe/Berlin": ("2026-03-28", "2026-10-24"),
    "America/New_York": ("2026-03-07", "2026-10-31"),
    "Australia/Lord_Howe": ("2026-10-03", "2026-04-04"),
    "America/St_Johns": ("2027-03-13", "2027-11-06"),
    "Asia/Kolkata": ("2028-02-28",),
    "UTC": ("2028-02-28", "2026-12-31"),
}
MINUTES = {"0": {0}, "30": {30}, "*/15": {0, 15, 30, 45}, "5,40": {5, 40}, "*": set(range(60))}
HOURS = {"*": set(range(24)), "2": {2}, "1": {1}, "0-3": {0, 1, 2, 3}, "*/2": set(range(0, 24, 2)), "23": {23}}
DAYS = {"* * *": lambda d: True, "29 2 *": lambda d: (d.month, d.day) == (2, 29), "* * 0": lambda d: d.weekday() == 6}


def watched(minutes: set[int], hours: set[int], day, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """What somebody does who looks at the clock each minute: each time of the day once, a skipped one at the change."""
    found, done = [], set()
    now = start - timedelta(hours=6)
    before = now.astimezone(zone).replace(tzinfo=None)
    while now < end:
        now += MINUTE
        wall = now.astimezone(zone).replace(tzinfo=None)
        seen = [wall]
        if len(hours) < 24:
            while seen[0] - MINUTE > before:
                seen.insert(0, seen[0] - MINUTE)
        due = [w for w in seen if w.minute in minutes and w.hour in hours and day(w) and w not in done]
        if len(hours) < 24:
            done.update(due)
        if due and start < now <= end:
            found.append(now)
        before = max(before, wall) if len(hours) < 24 else wall
    return found


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from([(z, d) for z, days in CHANGES.items() for d in days]),
    st.sampled_from(list(MINUTES)),
    st.sampled_from(list(HOURS)),
    st.sampled_from(list(DAYS)),
    st.integers(0, 1439),
)
def test_times_are_those_of_the_clock_on_the_wall(
    where: tuple[str, str], minute: str, hour: str, days: str, offset: int
) -> None:
    name, date = where
    zone = ZoneInfo(name)
    start = datetime.fromisoformat(date).replace(tzinfo=zone).astimezone(UTC) + offset * MINUTE
    end = start + timedelta(hours=36)
    cron = f"{minute} {hour} {days}"
    expected = watched(MINUTES[minute], HOURS[hour], DAYS[days], zone, start, end)
    found, at = [], start
    while (after := next_time(cron, name, at)) is not None and after <= end:
        found.append(after)
        at = after
        if len(found) > 300:  # of each minute
            break
    assert found == expected[: len(found)]
    assert len(found) > 300 or len(found) == len(expected)
    assert last_time(cron, name, start, end) == (expected[-1] if expected else None)


def walls(cron: str, zone: str, start: str, count: int) -> list[str]:
    found, at = [], datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) - MINUTE
    for _ in range(count):
        at = next_time(cron, zone, at) or pytest.fail("no time")
        found.append(at.astimezone(ZoneInfo(zone)).strftime("%d %H:%M%z"))
    return found


def test_half_past_two_comes_once_where_the_clock_is_set_back_and_at_the_change_where_it_is_set_forward() -> None:
    assert walls("30 2 * * *", "Europe/Berlin", "2026-10-25", 2) == ["25 02:30+0200", "26 02:30+0100"]
    assert walls("30 2 * * *", "Europe/Berlin", "2026-03-29", 2) == ["29 03:00+0200", "30 02:30+0200"]
    assert walls("30 * * * *", "Europe/Berlin", "2026-10-25 02:00", 3) == [
        "25 02:30+0200", "25 02:30+0100", "25 03:30+0100"
    ]  # fmt: skip


def test_a_change_of_half_an_hour_loses_nothing() -> None:
    """Given the zone, cronsim leaves out 02:00 and 02:15 of this day, and of `0 */2 * * *` 02:00."""
    assert walls("*/15 2 * * *", "Australia/Lord_Howe", "2026-04-05", 4) == [
        f"05 02:{minute}+1030" for minute in ("00", "15", "30", "45")
    ]
    assert walls("0 */2 * * *", "Australia/Lord_Howe", "2026-04-05", 2) == ["05 00:00+1100", "05 02:00+1030"]


def test_a_leap_day_comes_every_four_years() -> None:
    assert next_time("0 9 29 2 *", "UTC", utc("2026-11-27")) == utc("2028-02-29 09:00")
    assert last_time("0 9 29 2 *", "UTC", utc("2020-01-01"), utc("2026-11-27")) == utc("2024-02-29 09:00")
    assert last_time("0 9 29 2 *", "UTC", utc("2024-03-01"), utc("2026-11-27")) is None


@pytest.mark.parametrize(
    ("text", "cron"),
    [
        ("@daily", "0 0 * * *"), ("hour", "0 * * * *"), ("15m", "*/15 * * * *"), ("2h", "0 */2 * * *"),
        ("day 02:30", "30 2 * * *"), ("Weekdays 9:00", "0 9 * * 1-5"), ("monday,thu at 18:05", "5 18 * * 1,4"),
        ("0 9 * * MON-FRI", "0 9 * * mon-fri"), ("60m", "0 * * * *"),
    ],
)  # fmt: skip
def test_words_become_fields(text: str, cron: str) -> None:
    assert read_spec(text) == cron


@pytest.mark.parametrize(
    "text", ["99 * * * *", "* * *", "7m", "24h", "0m", "fooday 9:00", "0 0 30 2 *", "day 25:00", "* * * * * *", "",
             "1/0 * * * *", "0 0 * 13 *", "L/2 * * * *", "\x1b[31m"],
)  # fmt: skip
def test_what_is_no_time_is_one_sentence(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_spec(text)
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_zone_of_the_machine_has_a_name(tmp_path: Path) -> None:
    assert machine_zone({"TZ": "America/New_York"}) == "America/New_York"
    assert machine_zone({"TZ": ":/usr/share/zoneinfo/Asia/Tokyo"}) == "Asia/Tokyo"
    with pytest.raises(UsageError, match="--zone"):
        machine_zone({"TZ": "CET-1CEST,M3.5.0,M10.5.0/3"})
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/posix/Europe/Berlin")
    assert machine_zone({}, tmp_path) == "Europe/Berlin"
    (tmp_path / "localtime").unlink()
    assert machine_zone({}, tmp_path) == "UTC"
    (tmp_path / "timezone").write_text("Europe/Paris\n")
    assert machine_zone({}, tmp_path) == "Europe/Paris"
    (tmp_path / "timezone").unlink()
    (tmp_path / "localtime").write_bytes(b"TZif2")
    with pytest.raises(UsageError, match="--zone"):
        machine_zone({}, tmp_path)

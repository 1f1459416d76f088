"""The times of a schedule, right over changes of summer time.

cronsim reads the five fields and walks along the clock on the wall; here that becomes moments. Where the clock is set
back, a time comes twice: a schedule that names hours takes the first one. Where it is set forward, a time is missing:
such a schedule runs at the change instead. A schedule for every hour goes by the time that passes, so it has both, or
neither. (Given a zone, cronsim itself loses times where the change is 30 minutes, as on Lord Howe Island.)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from agent_cli import UsageError
from agent_tools.fs.safe_files import read_text
from agent_tools.text import one_line, shorten

# Further from each other on the wall, two times are in the same order everywhere.
_NEAR = timedelta(hours=3)
_MINUTE = timedelta(minutes=1)
_NAMED = {
    "hourly": "0 * * * *", "hour": "0 * * * *", "daily": "0 0 * * *", "midnight": "0 0 * * *", "day": "0 0 * * *",
    "weekly": "0 0 * * 0", "monthly": "0 0 1 * *", "yearly": "0 0 1 1 *", "annually": "0 0 1 1 *",
}  # fmt: skip
_DAYS = {"day": "*", "daily": "*", "weekdays": "1-5", "weekday": "1-5", "weekends": "0,6", "weekend": "0,6"}
_NAMES = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_HELP = "Write five cron fields, @daily and the like, 15m, 2h, 'weekdays 9:00', or 'monday,thursday 18:30'."


def read_spec(text: str) -> str:
    """Return the five cron fields that a text means. Raises UsageError."""
    words = text.strip().lower()
    cron = _NAMED.get(words.removeprefix("@")) or _in_words(words) or words
    try:
        if len(cron.split()) != 5:
            raise CronSimError("it does not have five fields")
        next(CronSim(cron, datetime(2000, 1, 1)))
    except (CronSimError, AssertionError) as error:
        why = f" ({error.args[0][:1].lower()}{error.args[0][1:]})" if error.args else ""
        raise UsageError(f"'{shorten(one_line(text), 60)}' is not a time{why}. {_HELP}") from None
    except StopIteration:
        raise UsageError(f"'{shorten(one_line(text), 60)}' never comes.") from None
    return cron


def _in_words(words: str) -> str:
    if (every := re.fullmatch(r"(\d{1,2})\s?(m|h)\w*", words)) and (count := int(every[1])):
        whole = 60 if every[2] == "m" else 24
        if whole % count == 0 and count < whole:
            return f"*/{count} * * * *" if every[2] == "m" else f"0 */{count} * * *"
        return "0 * * * *" if count == whole == 60 else ""
    if at := re.fullmatch(r"([a-z,]+)\s+(?:at\s+)?(\d{1,2}):(\d\d)", words):
        days = _DAYS.get(at[1]) or _weekdays(at[1].split(","))
        return f"{int(at[3])} {int(at[2])} * * {days}" if days else ""
    return ""


def _weekdays(words: list[str]) -> str:
    found = [[str(n) for n, name in enumerate(_NAMES) if len(word) >= 3 and name.startswith(word)] for word in words]
    return ",".join(each[0] for each in found) if all(found) else ""


def next_time(cron: str, zone: str, after: datetime) -> datetime | None:
    """Return the first time after a moment; None if none comes."""
    where = find_zone(zone)
    best: datetime | None = None
    end = datetime.max
    walls = CronSim(cron, _wall(after, where) - _NEAR)
    for wall in walls:
        if wall > end:
            break
        for moment in _moments(wall, where, named=len(walls.hours) < 24):
            if moment > after and (best is None or moment < best):
                best, end = moment, _wall(moment, where) + _NEAR
    return best


def last_time(cron: str, zone: str, after: datetime, until: datetime) -> datetime | None:
    """Return the last time after a moment, and until another; None if there is none."""
    where = find_zone(zone)
    best: datetime | None = None
    end = _wall(after, where) - _NEAR
    walls = CronSim(cron, _wall(until, where) + _NEAR + _MINUTE, reverse=True)
    for wall in walls:
        if wall < end:
            break
        for moment in _moments(wall, where, named=len(walls.hours) < 24):
            if after < moment <= until and (best is None or moment > best):
                best, end = moment, _wall(moment, where) - _NEAR
    return best


def _wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def _moments(wall: datetime, zone: ZoneInfo, *, named: bool) -> Iterator[datetime]:
    """Yield when the clock on the wall shows this. named: the schedule names hours."""
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if _wall(first, zone) == wall:
        yield first
        if second != first and not named:
            yield second
    elif named:
        while _wall(first, zone) != wall:
            wall += _MINUTE
            first = wall.replace(tzinfo=zone).astimezone(UTC)
        yield first


def find_zone(name: str) -> ZoneInfo:
    """Return a zone by its IANA name. Raises UsageError."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise UsageError(f"There is no time zone {one_line(name)} here; names are like Europe/Berlin.") from None


def in_zone(at: str, zone: str) -> datetime:
    """Return a time, in ISO 8601, with the offset of a zone. Raises UsageError for an unknown zone."""
    return datetime.fromisoformat(at).astimezone(find_zone(zone))


def machine_zone(env: Mapping[str, str], etc: Path = Path("/etc")) -> str:
    """Return the IANA name of this machine's time zone. Raises UsageError if it cannot be found."""
    if named := env.get("TZ", "").strip().removeprefix(":"):
        found = [named.partition("zoneinfo/")[2] or named]
    else:
        link = os.path.realpath(etc / "localtime")
        found = [re.sub(r"^(posix|right)/", "", link.partition("zoneinfo/")[2])]
        with suppress(OSError, ValueError):
            found.append(read_text(etc / "timezone", 1_000).strip())
    for name in filter(None, found):
        with suppress(UsageError):
            return str(find_zone(name))
    if not named and not os.path.lexists(etc / "localtime"):
        return "UTC"  # what every program takes it for
    raise UsageError("The name of this machine's time zone cannot be found. Give one: --zone Europe/Berlin")

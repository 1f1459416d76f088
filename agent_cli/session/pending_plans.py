"""The plan that waits for a user: one record per user and project, taken up exactly once, for a limited time."""

from __future__ import annotations

import json
import os
import time
from calendar import timegm
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_tools.fs.private import write_whole
from agent_tools.fs.safe_read import read_regular
from agent_tools.plan import plan_text
from agent_tools.record import DecodeError, Value, from_json, to_json
from agent_tools.text import counted

_NAME = "plan.json"
_LARGEST = 16 << 20


class WaitingPlan(Value):
    """A plan as it was put to the user. `created`: seconds since the epoch."""

    session_id: str
    call_id: str
    plan: dict[str, Any]
    created: float


def save_plan(folder: Path, plan: WaitingPlan) -> None:
    """Keep the plan, in place of an earlier one. A folder that cannot be written keeps nothing."""
    with suppress(OSError):
        write_whole(folder / _NAME, json.dumps(to_json(plan)).encode("ascii"), sync=False)


def claim_plan(folder: Path, session_id: str | None = None) -> WaitingPlan | None:
    """Take the plan away, for the caller alone; with `session_id` only that session's. None where there is none."""
    taken = folder / f"{_NAME}.{os.urandom(4).hex()}.taken"
    try:
        (folder / _NAME).rename(taken)
        plan: WaitingPlan = from_json(WaitingPlan, json.loads(read_regular(taken, _LARGEST)))
    except (OSError, ValueError, DecodeError):
        with suppress(OSError):
            taken.unlink()
        return None
    if session_id is not None and plan.session_id != session_id:
        with suppress(OSError):
            taken.rename(folder / _NAME)
        return None
    with suppress(OSError):
        taken.unlink()
    return plan


def is_expired(created: float, minutes: int) -> bool:
    """Whether `minutes` have passed since; zero minutes never expire."""
    return bool(minutes) and time.time() - created > minutes * 60


def seconds_of(stamp: str) -> float:
    """A time as the log writes it (UTC, ISO 8601), in seconds since the epoch."""
    return float(timegm(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")))


def expired_at(stamp: str, minutes: int) -> bool:
    """Whether `minutes` have passed since a time of the log."""
    return bool(stamp) and is_expired(seconds_of(stamp), minutes)


def expiry_of(stamp: str, minutes: int) -> str | None:
    """When a plan that was put to the user then expires, as the log writes times; None where it never does."""
    if not stamp or not minutes:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds_of(stamp) + minutes * 60))


def expired_words(minutes: int) -> str:
    """What is said of a plan that has expired, to the user and to the model."""
    return f"The plan expired: it was not approved within {lifetime(minutes)}."


def lifetime(minutes: int) -> str:
    """So many minutes in the largest unit that fits: "3 days", "12 hours", "1 minute"."""
    for size, unit in ((1440, "day"), (60, "hour")):
        if minutes >= size and minutes % size == 0:
            return counted(minutes // size, unit)
    return counted(minutes, "minute")


def feedback_block(plan: dict[str, Any], words: str) -> str:
    """What a message says to a plan that waited, for the model."""
    return (
        f"<plan_feedback>\nThe plan:\n{plan_text(plan)}\n\nThe user's feedback:\n{words}\n\n"
        "Change the plan to fit and propose it again; where the feedback says to go on, carry the plan out.\n"
        "</plan_feedback>"
    )
